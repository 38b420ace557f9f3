"""What CANN's attention kernels ask of a split chip, forward and backward.

Blocks are those of CANN's templates for sequences that fill neither UB nor L1 (S1s2Bn2gs1 and its gradient
S1s2Bn2gs1s2): a vector core has 64 queries, or 128 where there are more blocks of 64 than vector cores, by
1024 keys (8 x 128); the gradient 128 by 512 (8 x 64). Scores and weights pass through scratch memory twice
over, so that cube and vector cores work at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import FRACTAL_ROWS, align, ceil_div
from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.shared.attention import band_of, layout_of, static_heads
from ascendsim.ops.shared.common import make_steps, on_ai_cpu
from ascendsim.opset.attention import AttentionWork, BlockProduct, EqualHeads, Join, Matrix, Sweep
from ascendsim.opset.refs import Ref, workspace_of
from ascendsim.opset.steps import Step
from ascendsim.opset.work import LowerContext, NoTask, Work

VECTOR_CORES = 2  # beside each cube core
FEW_ROWS, MANY_ROWS = 64, 128  # of one vector core
COLUMNS, GRAD_COLUMNS = 1024, 512
SLOTS = 2  # blocks that are under way
_WIDE = DType.FLOAT32
CUBE_TYPES = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32)
Steered = Sequence[int]  # ports of real_shift, drop_mask and atten_mask


class _Writer:
    """Sizes, operands and scratch memory of a node.

    Args:
        node: A node whose shapes are known.
        context: Of the chip.
        steered: Ports of what steers scores.
        columns: Keys of a block at most.
        grad: Whether it is the gradient.
    """

    def __init__(self, node: Node, context: LowerContext, steered: Steered, columns: int, grad: bool) -> None:
        self.node, self.heads = node, static_heads(node)
        batch, count, _, queries, keys, _, _ = self.heads.static
        self.shift, drop, self.mask = (node.input(port) for port in steered)
        self.drop = drop if float(node.attr("keep_prob", 1.0)) < 1 else None
        self.dtype = node.required(0).element_type
        self.all_heads = batch * count
        few = self.all_heads * ceil_div(queries, FEW_ROWS) <= VECTOR_CORES * context.cores and not grad
        own = FEW_ROWS if few else MANY_ROWS
        self.rows = min(VECTOR_CORES * own, align(queries, FRACTAL_ROWS))
        self.columns = min(columns, align(keys, FRACTAL_ROWS))
        row_blocks = self.all_heads * ceil_div(queries, self.rows)
        self.teams = min(max(1, context.cores), row_blocks)

    def scratch(self, name: str, columns: int, dtype: DType = _WIDE, slots: int = SLOTS) -> Matrix:
        """Room for a block of each team."""
        shape = (self.teams * slots, self.rows, columns)
        size = self.teams * slots * self.rows * columns * dtype.itemsize
        return Matrix(Ref(workspace_of(name), shape, dtype, self.node.required(0).format, size), columns)

    def summed(self, name: str, tensor: Tensor) -> Matrix:
        """Room for the float32 sums of a tensor."""
        ref = Ref.of(tensor)
        size = tensor.elements * _WIDE.itemsize
        return Matrix(Ref(workspace_of(name), ref.shape, _WIDE, ref.format, size), self._stride(tensor))

    def operand(self, tensor: Tensor) -> Matrix:
        """A tensor of heads."""
        return Matrix(Ref.of(tensor), self._stride(tensor))

    def _stride(self, tensor: Tensor) -> int:
        """Elements between two tokens of a head."""
        shape, layout = tensor.static_shape, layout_of(self.node)
        stride = shape[-1]
        if layout == "BSND":
            stride *= shape[-2]
        return stride * (shape[1] if layout == "SBH" else 1)

    def scaling(self) -> tuple[Step, ...]:
        """What makes scores of products."""
        if self.shift is None:
            return make_steps(["vmuls"], _WIDE)
        wide = [] if self.shift.element_type is _WIDE else ["vconv"]
        return make_steps([*wide, "vadd", "vmuls"], _WIDE)

    def dropping(self) -> tuple[Step, ...]:
        """A product with the inverse share, and a selection by bits."""
        return make_steps(["vmuls", "vsel"], _WIDE) if self.drop is not None else ()

    def narrowing(self) -> tuple[Step, ...]:
        """What makes operands of the Cube."""
        return () if self.dtype is _WIDE else make_steps(["vconv"], _WIDE)

    def work(
        self,
        products: tuple[Sequence[BlockProduct], Sequence[BlockProduct]],
        tiles: tuple[Sequence[Matrix], Sequence[Matrix]],
        steps: tuple[Step, ...],
        row_values: Sequence[Ref],
    ) -> AttentionWork:
        """All but what stands around the blocks."""
        _, _, _, queries, keys, _, _ = self.heads.static
        band = band_of(self.node, self.mask is not None, queries, keys)
        mode = int(self.node.attr("sparse_mode", 0))
        scores = [tensor for tensor in (self.shift, self.drop) if tensor is not None]
        # bytes to a type that compares, the comparison, the selection
        selecting = (*make_steps(["vconv", "vcmp"], DType.FLOAT16), Step("vsel", _WIDE))
        return AttentionWork(
            (EqualHeads(self.all_heads, queries, keys, band),),
            self.rows,
            self.columns,
            self.dtype,
            tuple(products[0]),
            tuple(products[1]),
            tuple(tiles[0]),
            tuple(tiles[1]),
            tuple(Ref.of(tensor) for tensor in scores),
            tuple(row_values),
            steps,
            (Ref.of(self.mask),) if self.mask is not None else (),
            selecting if self.mask is not None else (),
            masked=self.mask is not None and mode < 2,
        )


def _other(node: Node) -> Work | None:
    """What a node is where nothing, or not the AI Core, works."""
    if not any(tensor.elements for tensor in node.outputs):
        return NoTask()
    heads = static_heads(node).static
    if node.required(0).element_type not in CUBE_TYPES:
        return on_ai_cpu(node, 2.0 * heads[4])
    return None


def softmax_steps() -> tuple[Step, ...]:
    """A softmax that follows running maxima and sums."""
    return (
        *make_steps(["vmax", "vsub", "vexp", "vadd"], _WIDE),
        # of each row: what is left of both reductions, the new maximum, by what old sums shrink, the new sum
        *make_steps(["vcmax", "vcadd"], _WIDE, "one"),
        *make_steps(["vmax", "vsub", "vexp", "vmul", "vadd"], _WIDE, "row"),
    )


def attention_work(node: Node, context: LowerContext, steered: Steered) -> Work:
    """Forward: scores, softmax with running maxima and sums, weighted sums that are joined block by block."""
    other = _other(node)
    if other is not None:
        return other
    w = _Writer(node, context, steered, COLUMNS, grad=False)
    _, _, _, _, _, size, width = w.heads.static
    query, key, value = (w.operand(node.required(port)) for port in range(3))
    scores, weights = w.scratch("scores", w.columns), w.scratch("weights", w.columns, w.dtype)
    partial, running = w.scratch("partial", width), w.scratch("running", width, slots=1)
    work = w.work(
        (
            [BlockProduct("rows", size, "columns", query, key, scores, transpose_b=True)],
            [BlockProduct("rows", "columns", width, weights, value, partial)],
        ),
        ([scores], [weights]),
        (*w.scaling(), *softmax_steps(), *w.dropping(), *w.narrowing()),
        (),
    )
    join = Join(
        width,
        partial,
        running.ref,
        w.operand(node.outputs[3]),
        make_steps(["vmul", "vadd"], _WIDE),
        (*make_steps(["vdiv"], _WIDE), *w.narrowing()),
        tuple(Ref.of(tensor) for tensor in node.outputs[:2]),
    )
    return replace(work, join=join)


def attention_grad_work(node: Node, context: LowerContext, steered: Steered) -> Work:
    """Backward: scores and the gradients of weights, made again; three products whose results cores add up in
    float32; sums of dy x attention_in a row before, conversions behind.
    """
    other = _other(node)
    if other is not None:
        return other
    w = _Writer(node, context, steered, GRAD_COLUMNS, grad=True)
    batch, count, _, queries, keys, size, width = w.heads.static
    query, key, value, dy = (w.operand(node.required(port)) for port in range(4))
    scores, grads = w.scratch("scores", w.columns), w.scratch("grads", w.columns)
    weights = w.scratch("weights", w.columns, w.dtype)
    dscores = w.scratch("dscores", w.columns, w.dtype)
    sums = [w.summed(name, node.outputs[port]) for port, name in enumerate(("dq", "dk", "dv"))]
    # the gradient of a shift is that of scores
    shifts = [Matrix(Ref.of(node.outputs[3]), keys)] if w.shift is not None else []
    rows = batch * count * queries
    delta = Ref(workspace_of("delta"), (rows, 8), _WIDE, query.ref.format, rows * 32)
    steps = (
        *w.scaling(),
        *make_steps(["vsub", "vexp", "vmul"], _WIDE),  # the weights
        *w.dropping(),
        *w.dropping(),
        *w.narrowing(),
        *make_steps(["vsub", "vmul"], _WIDE),  # the gradients of scores
        *w.narrowing(),
    )
    work = w.work(
        (
            [
                BlockProduct("rows", size, "columns", query, key, scores, transpose_b=True),
                BlockProduct("rows", width, "columns", dy, value, grads, transpose_b=True),
            ],
            [
                BlockProduct("columns", "rows", width, weights, dy, sums[2], transpose_a=True, added=True),
                BlockProduct("columns", "rows", size, dscores, query, sums[1], transpose_a=True, added=True),
                BlockProduct("rows", "columns", size, dscores, key, sums[0], added=True),
            ],
        ),
        ([scores, grads], [weights, dscores, *shifts]),
        steps,
        (*(Ref.of(node.required(port)) for port in (8, 9)), delta),
    )
    wide = () if w.dtype is _WIDE else make_steps([("vconv", 2)], _WIDE)
    before = (
        Sweep(
            dy.ref.bytes // w.dtype.itemsize,
            (*wide, *make_steps(["vmul", "vadd"], _WIDE)),
            (dy.ref, Ref.of(node.required(11))),
            (delta,),
        ),
        *(Sweep(_elements(one.ref), make_steps(["vectordup"], _WIDE), (), (one.ref,)) for one in sums),
    )
    after = tuple(
        Sweep(
            _elements(one.ref),
            (*(make_steps(["vmuls"], _WIDE) if port < 2 else ()), *w.narrowing()),
            (one.ref,),
            (Ref.of(node.outputs[port]),),
        )
        for port, one in enumerate(sums)
    )
    return replace(work, prologue=before, epilogue=after)


def _elements(ref: Ref) -> int:
    return ref.bytes // ref.dtype.itemsize
