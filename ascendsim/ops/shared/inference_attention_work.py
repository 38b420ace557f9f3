"""What CANN's attention kernels of inference ask of a split chip.

Prompts are worked on as by FlashAttentionScore, a head at a time, in blocks of 512 keys where there are up to
1024, of 1024 otherwise; those of ragged batches (TND) in blocks of 512 rows, of all heads that share keys, by
512 keys (prompt_flash_attention_tiling.cpp and fused_infer_attention_score's for TND in ops-transformer).

With few queries a sequence (a step of decoding) a work item is a sequence's head of keys with all queries
that share it, so that keys come once. A core has whole items, and where items leave half of the cores idle,
long keys are cut into parts, of 512 at least, whose results lie in scratch memory as float32 until all
vector cores join them. Blocks have 8192, 4096 or 2048 keys, by the heads that share them (below 5, below 10,
above), 1024 of 8-bit keys (2048 below 5 heads), 512 of latent ones (ops-transformer,
incre_flash_attention_tiling.cpp). 8-bit keys are multiplied as they are, by queries in two 8-bit parts.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import FRACTAL_ROWS, align, ceil_div
from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.shared.attention_work import (
    COLUMNS,
    CUBE_TYPES,
    FEW_ROWS,
    MANY_ROWS,
    SLOTS,
    VECTOR_CORES,
    softmax_steps,
)
from ascendsim.ops.shared.common import TANH_STEPS, StepSpec, make_steps, on_ai_cpu
from ascendsim.ops.shared.inference_attention import (
    Sizes,
    band_of,
    given,
    ports_of,
    result_layout,
    sequences_of,
    sizes_of,
    slopes,
    stored_layout,
)
from ascendsim.ops.shared.inference_attention_united import united_work
from ascendsim.opset.attention import AttentionWork, BlockProduct, EqualHeads, Join, Matrix, Sweep
from ascendsim.opset.refs import Ref, workspace_of
from ascendsim.opset.steps import Step
from ascendsim.opset.work import LowerContext, NoTask, Work

# Queries a sequence of a step of decoding: one, or those that a small model guessed, up to 16
# (fused_infer_attention_score_tiling.cpp, isMlaMtp)
MOST_SHARED = 16
LEAST_KEYS = 512  # of a part
# Fewer keys are not cut: of heads that share keys; up to so many, of keys in pages. Both are figures of
# experience there (incre_flash_attention_tiling_check.cpp, CheckCoreOkFlag and its caller).
SHARED_KEYS, PAGED_KEYS = 2048, 1024
# Rows of a block of a ragged batch, heads that share keys together: for which a team's two vector cores have
# room (fia_block_vec_nonquant_mla.h); assumed of all such batches
PACKED_ROWS = 512
FEW_COLUMNS = 512  # sInnerSize (fia_tiling_nonquant_mla.cpp, incre_flash_attention_tiling.cpp)
TILES_IN_L1 = 2  # 128 x 256 of keys or weights, 256 x 128 of values (fia_block_cube_nonquant_gqa.h)
_WIDE = DType.FLOAT32


def inference_attention_work(node: Node, context: LowerContext) -> Work:
    """The work of one node."""
    ports = ports_of(node)
    operands = [0, 1, 2]
    if given(node, ports.query_rope) is not None:
        operands += [ports.query_rope, ports.key_rope]
    sizes = sizes_of(node, [node.required(port).static_shape for port in operands])
    assert isinstance(sizes, Sizes)
    if not any(tensor.elements for tensor in node.outputs[:1]):
        return NoTask()
    if node.required(0).element_type not in CUBE_TYPES:
        assert isinstance(sizes.keys, int)
        return on_ai_cpu(node, 2.0 * sizes.keys)
    writer = _Writer(node, context, sizes)
    return writer.work() if context.split_cores else writer.united()


class _Writer:
    """Sizes, operands and scratch memory of a node."""

    def __init__(self, node: Node, context: LowerContext, sizes: Sizes) -> None:
        self.node, self.sizes, self.ports = node, sizes, ports_of(node)
        self.cores = max(1, context.cores)
        self.tokens = sequences_of(node, sizes)
        self.group = sizes.heads // sizes.shared
        longest = max((own.queries for own in self.tokens), default=0)
        self.steps_of_decoding = longest <= MOST_SHARED and node.op_type != "PromptFlashAttention"
        self.small = node.required(1).element_type is DType.INT8
        self.dtype = DType.INT8 if self.small else node.required(0).element_type
        self.parts, self.packed = 1, stored_layout(node) == "TND"
        self.heads = self._shared() if self.steps_of_decoding else self._whole()
        longest = max((one.keys for one in self.heads), default=1)
        self.columns = min(self._columns(longest), align(longest, FRACTAL_ROWS))
        most = max((one.queries * one.group for one in self.heads), default=1)
        self.rows = min(self._most_rows(), align(most, FRACTAL_ROWS))
        blocks = sum(one.count * ceil_div(one.queries * one.group, self.rows) for one in self.heads)
        self.teams = max(1, min(self.cores, blocks))

    def _whole(self) -> tuple[EqualHeads, ...]:
        """A prompt's heads: in TND those that share keys together, else each alone."""
        group = self.group if self.packed else 1
        found = Counter(
            (own.queries, own.keys, band_of(self.node, own)) for own in self.tokens if own.queries
        )
        return tuple(
            EqualHeads(count * self.sizes.heads // group, queries, keys, band, group)
            for (queries, keys, band), count in found.items()
        )

    def _shared(self) -> tuple[EqualHeads, ...]:
        """A head of keys each, in parts where cores are idle; of all keys those that some query sees."""
        seen: list[tuple[int, int]] = []
        for own in self.tokens:
            start, end = band_of(self.node, own).columns(0, own.queries, own.keys)
            seen += [(own.queries, end - start)] if own.queries and end > start else []
        longest = max((keys for _, keys in seen), default=1)
        part = align(ceil_div(longest, self._parts(len(seen), longest)), FRACTAL_ROWS)
        self.parts = ceil_div(longest, part)
        halves = 2 if self.small else 1  # 8-bit parts of a query
        found: Counter[tuple[int, int]] = Counter()
        for queries, keys in seen:
            for first in range(0, keys, part):
                found[queries, min(part, keys - first)] += self.sizes.shared
        return tuple(
            EqualHeads(count, queries, keys, group=self.group * halves)
            for (queries, keys), count in found.items()
        )

    def _parts(self, sequences: int, longest: int) -> int:
        """Parts that keys are cut into."""
        several = self.sizes.page and not self.sizes.rope and longest <= PAGED_KEYS
        if several or (self.group > 1 and longest < SHARED_KEYS):
            return 1
        return max(1, min(self.cores // max(1, sequences * self.sizes.shared), longest // LEAST_KEYS))

    def _columns(self, longest: int) -> int:
        """Keys of a block."""
        if not self.steps_of_decoding:
            return FEW_COLUMNS if self.packed or longest <= COLUMNS else COLUMNS
        if self.sizes.rope:
            return FEW_COLUMNS
        if self.small:
            return 2048 if self.group < 5 else 1024
        return 8192 if self.group < 5 else 4096 if self.group < 10 else 2048

    def _most_rows(self) -> int:
        """Rows of a block."""
        if self.packed and not self.steps_of_decoding:
            return PACKED_ROWS
        blocks = sum(one.count * ceil_div(one.queries, FEW_ROWS) for one in self.heads)
        few = blocks <= VECTOR_CORES * self.cores and not self.steps_of_decoding
        return VECTOR_CORES * (FEW_ROWS if few else MANY_ROWS)

    def scratch(self, name: str, columns: int, dtype: DType = _WIDE, slots: int = SLOTS) -> Matrix:
        """Room for a block of each team."""
        return self._room(name, self.teams * slots * self.rows, columns, dtype)

    def _room(self, name: str, rows: int, columns: int, dtype: DType = _WIDE) -> Matrix:
        shape, form = (rows, columns), self.node.required(0).format
        return Matrix(Ref(workspace_of(name), shape, dtype, form, rows * columns * dtype.itemsize), columns)

    def queries(self, tensor: Tensor, layout: str, size: int) -> Matrix:
        """Rows of queries, or of results."""
        apart = layout in ("BSH", "BSND", "TND") and not self.steps_of_decoding
        return Matrix(Ref.of(tensor), size * (self.sizes.heads if apart else 1))

    def keys(self, port: int) -> Matrix:
        """Rows of keys or values; of a pool only the pages that are read."""
        tensor, sizes = self.node.required(port), self.sizes
        ref, last = Ref.of(tensor), tensor.static_shape[-1]
        side_by_side = (
            last // sizes.shared if len(tensor.static_shape) == 3 and not self._own_axis() else last
        )
        stride = side_by_side
        if not sizes.inner and stored_layout(self.node) != "BNSD":
            stride *= sizes.shared
        if sizes.page:
            pages = sum(ceil_div(own.keys, sizes.page) for own in self.tokens)
            read = pages * sizes.page * sizes.shared * side_by_side * ref.dtype.itemsize
            ref = replace(ref, bytes=max(1, min(ref.bytes, read)))
            stride = side_by_side * (1 if sizes.inner else sizes.shared)
        return Matrix(ref, stride)

    def _own_axis(self) -> bool:
        """Whether heads have an axis in tensors of rank 3."""
        return stored_layout(self.node) == "TND" and not self.sizes.page

    def scaling(self) -> tuple[Step, ...]:
        """What makes scores of products."""
        shift = given(self.node, self.ports.shift)
        wide = [] if shift is None or shift.element_type is _WIDE else ["vconv"]
        steps = make_steps(["vmuls"] if shift is None else [*wide, "vadd", "vmuls"], _WIDE)
        if slopes(self.node):  # distances lie in UB
            steps = make_steps(["vmuls", "vaxpy"], _WIDE)
        steps = (*steps, *make_steps(self.bounding(), _WIDE))
        # scales of channels are in the queries; both 8-bit parts make one score
        return (*steps, *make_steps(["vmuls", "vadd"], _WIDE)) if self.small else steps

    def bounding(self) -> tuple[StepSpec, ...]:
        """What bounds scores; their first factor is part of the scale."""
        return (*TANH_STEPS, "vmuls") if self.node.attr("softcap", 0.0) else ()

    def work(self) -> AttentionWork:
        """All of it."""
        size, width, rope = self.sizes.size, self.sizes.width, self.sizes.rope
        assert isinstance(size, int)
        assert isinstance(width, int)
        assert isinstance(rope, int)
        node = self.node
        scores, weights = (
            self.scratch("scores", self.columns),
            self.scratch("weights", self.columns, self.dtype),
        )
        partial, running = self.scratch("partial", width), self.scratch("running", width, slots=1)
        query, before = self._query(size)
        more: tuple[tuple[int, Matrix, Matrix], ...] = ()
        if rope:
            rotated = self.queries(node.required(self.ports.query_rope), stored_layout(node), rope)
            more = ((rope, rotated, self.keys(self.ports.key_rope)),)
        shift, mask = (given(node, port) for port in (self.ports.shift, self.ports.mask))
        if slopes(node):
            shift = None  # a number a head, no stream
        mode = int(node.attr("sparse_mode", 0)) if self.ports.bands else 1
        selecting = (*make_steps(["vconv", "vcmp"], DType.FLOAT16), Step("vsel", _WIDE))
        join, after = self._join(partial, running.ref, width)
        product = BlockProduct(
            "rows", size, "columns", query, self.keys(1), scores, transpose_b=True, more=more
        )
        narrow = () if self.dtype is _WIDE else make_steps(["vconv"], _WIDE)
        return AttentionWork(
            self.heads,
            self.rows,
            self.columns,
            self.dtype,
            (product,),
            (BlockProduct("rows", "columns", width, weights, self.keys(2), partial),),
            (scores,),
            (weights,),
            (Ref.of(shift),) if shift is not None else (),
            (),
            (*self.scaling(), *softmax_steps(), *narrow),
            (Ref.of(mask),) if mask is not None else (),
            selecting if mask is not None else (),
            masked=mask is not None and (mode < 2 or self.steps_of_decoding),
            trimmed=False,
            started=not rope,
            tiles_in_l1=TILES_IN_L1,
            join=join,
            prologue=before,
            epilogue=after,
        )

    def united(self) -> Work:
        """The same on cores that have Cube and vector unit together."""
        node, size, width = self.node, self.sizes.size, self.sizes.width
        assert isinstance(size, int)
        assert isinstance(width, int)
        pairs = [(size, Ref.of(node.required(0)), self.keys(1).ref)]
        if self.sizes.rope:
            ports = self.ports
            rotated = Ref.of(node.required(ports.query_rope)), self.keys(ports.key_rope).ref
            pairs.append((int(self.sizes.rope), *rotated))
        others = [given(node, port) for port in (self.ports.shift, self.ports.mask)]
        if slopes(node):
            others = others[1:]
        return united_work(
            self.heads,
            pairs,
            (width, self.keys(2).ref),
            [Ref.of(one) for one in others if one is not None],
            (Ref.of(node.outputs[0]), self._logs()),
            [*self.bounding(), *(["vaxpy"] if slopes(node) else [])],
            decoding=self.steps_of_decoding,
        )

    def _logs(self) -> tuple[Ref, ...]:
        """What is stored a row."""
        asked = int(self.node.attr("softmax_lse_flag", 0)) and len(self.node.outputs) > 1
        return (Ref.of(self.node.outputs[1]),) if asked else ()

    def _query(self, size: int) -> tuple[Matrix, tuple[Sweep, ...]]:
        """Queries as the Cube takes them, and what makes them so."""
        tensor = self.node.required(0)
        if not self.small:
            return self.queries(tensor, stored_layout(self.node), size), ()
        rows = tensor.elements // size
        made = self._room("query", 2 * rows, size, DType.INT8)
        # the scale of keys, the largest of a row, two roundings and what the first one leaves
        steps = make_steps(
            ["vconv", "vmul", "vabs", "vmax", "vmul", "vconv", "vsub", "vmuls", "vconv"], _WIDE
        )
        return made, (Sweep(tensor.elements, steps, (Ref.of(tensor),), (made.ref,)),)

    def _join(self, partial: Matrix, running: Ref, width: int) -> tuple[Join, tuple[Sweep, ...]]:
        """What becomes of weighted sums, and what joins the parts of cut keys."""
        out = self.queries(self.node.outputs[0], result_layout(self.node), width)
        narrow = () if out.ref.dtype is _WIDE else make_steps(["vconv"], _WIDE)
        logs = self._logs()
        adding, dividing = make_steps(["vmul", "vadd"], _WIDE), make_steps(["vdiv"], _WIDE)
        if self.parts == 1:
            return Join(width, partial, running, out, adding, (*dividing, *narrow), logs), ()
        rows = sum(one.count * one.queries * one.group for one in self.heads)
        parts, ends = self._room("parts", rows, width), self._room("ends", rows, 8)
        joining = Sweep(
            rows * width,
            (*make_steps(["vexp"], _WIDE, "row"), *adding, *narrow),
            (parts.ref, ends.ref),
            (out.ref, *logs),
        )
        return Join(width, partial, running, parts, adding, dividing, (ends.ref,)), (joining,)
