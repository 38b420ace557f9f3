"""Assigns a format to every tensor and inserts TransData where producer and consumer disagree.

Before: Relu(Conv(x)) + y with x, y row-major.
After:  TransData(x) -> Conv -> Relu (both NC1HWC0) -> Add with TransData(y), and TransData of the sum where a
        row-major operator or the graph's output reads it.

Nodes are visited in execution order. Operators with a wish of their own (convolutions, matrix products) get
it; an operator that follows takes a blocked format if one of its inputs has it and it can work in it, so
chains between convolutions stay blocked. One TransData serves all readers of a tensor that want the same
format, and none is inserted back to a format that the tensor was in before. Constants are converted before
the run and cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.formats import Format, c0
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import Layout, OpDef, OpSet
from ascendsim.opset.facts import Kind
from ascendsim.passes.layout.causes import GRAPH_INPUT, GRAPH_OUTPUT, Cause
from ascendsim.passes.layout.fold_batch import fold_batches
from ascendsim.passes.layout.formats import BLOCKED, follows_in, same_bytes, storable, weight_format, wished
from ascendsim.passes.layout.kept_axes import keep_axes
from ascendsim.passes.rewriting.outputs import is_output, set_aside, twin_of, typed_like
from ascendsim.passes.rewriting.passes import PassResult
from ascendsim.passes.rewriting.replace import sources_of
from ascendsim.soc.spec import KernelSpec, SocSpec


@dataclass(frozen=True, slots=True)
class AssignFormats:
    """The layout pass.

    Attributes:
        opset: Operators, with their wishes.
        soc: The chip: matrix operands are FRACTAL_NZ unless its MTE2 converts row-major ones on the way in
            (c220).
        reach: How many operators in a row may take over a blocked format behind the one that wishes for it,
            those that can share its task (elementwise, right behind it) not counted; 0 = any number.
        in_fractals: Whether constant operands of matrix products are FRACTAL_NZ on any chip.
    """

    opset: OpSet
    soc: SocSpec
    reach: int = 0
    in_fractals: bool = False

    @property
    def name(self) -> str:
        """Name of the pass."""
        return "assign-formats"

    def run(self, graph: Graph) -> PassResult:
        """Assigns formats in place."""
        matmul = Format.ND if self.soc.split_cores else Format.FRACTAL_NZ
        constants = Format.FRACTAL_NZ if self.in_fractals else matmul
        return assign_formats(graph, self.opset, matmul, self.reach, self.soc.kernels, constants)


def assign_formats(
    graph: Graph,
    opset: OpSet,
    matmul: Format,
    reach: int = 0,
    kernels: KernelSpec | None = None,
    constants: Format | None = None,
) -> PassResult:
    """Assigns formats and inserts TransData.

    Args:
        graph: Shapes inferred, element types of the device assigned; changed in place.
        opset: Operators.
        matmul: Format of matrix operands on the chip.
        reach: See `AssignFormats`.
        kernels: How CANN's kernels treat the chip; None = nothing special.
        constants: Format of constant matrix operands; None = that of the others.
    """
    folded = fold_batches(graph)
    work = _Assignment(graph, opset, matmul, reach, kernels, constants or matmul)
    for node in graph.topological():
        work.visit(node)
    for position, tensor in enumerate(graph.outputs):
        if tensor.format in (*BLOCKED, Format.FRACTAL_Z) and tensor.producer is not None:
            graph.outputs[position] = work.restored(tensor)
    return PassResult(
        True,
        {
            "folded batches": folded,
            "inserted TransData": work.inserted,
            "blocked tensors": sum(t.format in BLOCKED for t in graph.tensors.values()),
        },
    )


class _Assignment:
    """State of one run of the pass."""

    def __init__(
        self,
        graph: Graph,
        opset: OpSet,
        matmul: Format,
        reach: int,
        kernels: KernelSpec | None,
        constants: Format,
    ) -> None:
        self.graph, self.opset, self.matmul, self.reach = graph, opset, matmul, reach
        self.kernels, self.constants = kernels, constants
        self.inserted = 0
        self._distance: dict[
            Tensor, int
        ] = {}  # FOLLOW operators between a tensor and the task of the operator that wished for its format
        self._forms: dict[tuple[Tensor, Format], Tensor] = {}

    def visit(self, node: Node) -> None:
        """Chooses formats of a node's inputs and outputs."""
        definition = self.opset.get(node)
        dropping = keep_axes(self.graph, node, definition)
        chosen = self._followed(node, definition)
        for port, tensor in enumerate(node.inputs):
            if tensor is None:
                continue
            if tensor.is_constant:
                whole = chosen in BLOCKED and tensor.shape == node.output.shape and storable(tensor, chosen)
                wanted = chosen if whole else weight_format(node, definition, port, self.constants)
                self._constant(node, port, tensor, wanted)
                continue
            want = wished(node, definition, port, self.matmul)
            if want is None and tensor.format is Format.FRACTAL_Z:
                continue  # a filter's update works in fractals: so the optimiser's state lies as well
            if want is None:
                want = chosen if storable(tensor, chosen) else Format.ND
            node.set_input(port, self.in_format(tensor, want, node))
        for tensor in node.outputs:
            if definition.facts.makes_filters and storable(tensor, Format.FRACTAL_Z):
                tensor.format = Format.FRACTAL_Z
            elif definition.facts.makes_maps and storable(tensor, Format.NC1HWC0):
                tensor.format = Format.NC1HWC0
            elif (
                definition.layout is Layout.FEATURE
                and storable(tensor, Format.NC1HWC0)
                and (first := node.input(definition.facts.maps[0])) is not None
            ):
                tensor.format = Format.NC1HWC0 if first.format is Format.NC1HWC0 else Format.ND
            elif definition.layout is Layout.MATMUL:
                tensor.format = self.matmul if storable(tensor, self.matmul) else Format.ND
            elif definition.layout is Layout.FOLLOW and storable(tensor, chosen):
                tensor.format = chosen
                nearest = min(
                    (self._distance.get(t, 0) for t in node.inputs if t is not None and t.format is chosen),
                    default=0,
                )
                shares = definition.facts.kind is Kind.ELEMENTWISE and nearest == 0
                self._distance[tensor] = nearest if shares else nearest + 1
            else:
                tensor.format = Format.ND
        if dropping is not None:
            self.visit(dropping)

    def _followed(self, node: Node, definition: OpDef) -> Format:
        """The format of a FOLLOW operator: the blocked one that most bytes of its inputs have, if it can work
        in it.
        """
        if definition.layout is not Layout.FOLLOW:
            return Format.ND
        weights: dict[Format, int] = {}
        for tensor in node.inputs:
            if (
                tensor is not None
                and not tensor.is_constant
                and tensor.is_static
                and tensor.dtype is not None
            ):
                if self.reach and tensor.format in BLOCKED and self._distance.get(tensor, 0) >= self.reach:
                    continue
                weights[tensor.format] = weights.get(tensor.format, 0) + tensor.logical_bytes
        for format in sorted((f for f in weights if f in BLOCKED), key=lambda f: -weights[f]):
            if weights[format] >= weights.get(Format.ND, 0) and self._works_in(node, definition, format):
                return format
        if self._leads_to_products(node) and self._works_in(node, definition, self.matmul):
            return self.matmul
        return Format.ND

    def _works_in(self, node: Node, definition: OpDef, format: Format) -> bool:
        if self.kernels is not None and not self.kernels.softmax_pads_fractals and _ragged_rows(node):
            return False
        return follows_in(node, definition, format)

    def _leads_to_products(self, node: Node) -> bool:
        """Whether rows that would be normalised one by one go on into matrix products: in the format of those
        they are not, and the TransData comes in front instead of behind.
        """
        if self.kernels is None or not (self.kernels.rows_in_turn and _ragged_rows(node)):
            return False
        readers = node.output.consumers
        return bool(readers) and all(self.opset.get(r).layout is Layout.MATMUL for r in readers)

    def _constant(self, node: Node, port: int, tensor: Tensor, format: Format) -> None:
        """Gives a constant its format; readers that want different ones get constants of their own."""
        if tensor.format is format or len(tensor.uses) == 1:
            tensor.format = format
            return
        key = (tensor, format)
        if key not in self._forms:
            self._forms[key] = twin_of(self.graph, tensor, f"{tensor.name}_{format.value}", format=format)
        node.set_input(port, self._forms[key])

    def in_format(self, tensor: Tensor, format: Format, reader: Node) -> Tensor:
        """The tensor in a format that a node wants: itself, what it was made from, or the output of a
        TransData.
        """
        if (
            tensor.format is format
            or (_row_major(tensor.format) and _row_major(format))
            or not tensor.is_static
        ):
            return tensor
        if same_bytes(tensor, tensor.format, format):
            return tensor
        producer = tensor.producer
        if producer is not None and producer.op_type == "TransData" and producer.required(0).format is format:
            return producer.required(0)
        key = (tensor, format)
        if key not in self._forms:
            name = self.graph.fresh(f"{tensor.name}_{format.value}")
            self._forms[key] = self._transdata(tensor, format, name, self._breaker(tensor, format, reader))
        return self._forms[key]

    def _breaker(self, tensor: Tensor, format: Format, reader: Node) -> Cause:
        """What forces a TransData: the operator without a blocked format, in front or behind, or an end of
        the graph. Of elementwise operators in a row it is what stands before them; a Cast of a precision mode
        belongs to the end of the graph that it is for.
        """
        if tensor.format in BLOCKED:
            if _is_own_cast(reader) and is_output(self.graph, reader.output):
                return Cause(GRAPH_OUTPUT, (reader.output.name,))
            apart = f" ({format.value} next to {tensor.format.value})" if format in BLOCKED else ""
            return Cause(f"{reader.op_type}{apart}", sources_of([reader]))
        while (maker := tensor.producer) is not None:
            definition = self.opset.get(maker)
            rows = [item for item in maker.inputs if item is not None and not item.is_constant]
            follows = definition.layout is Layout.FOLLOW and self._works_in(maker, definition, format)
            if not rows or not (follows or _is_own_cast(maker)):
                return Cause(maker.op_type, sources_of([maker]))
            tensor = next((item for item in rows if item.format not in BLOCKED), rows[0])
            if tensor.format in BLOCKED:
                return Cause(maker.op_type, sources_of([maker]))
        return Cause(GRAPH_INPUT, (tensor.name,))

    def restored(self, tensor: Tensor) -> Tensor:
        """A graph output in row-major form under its own name."""
        if same_bytes(tensor, tensor.format, Format.ND):
            tensor.format = Format.ND
            return tensor
        held = self._forms.get((tensor, Format.ND))
        name = set_aside(self.graph, tensor, tensor.format.value)
        if held is None:
            return self._transdata(tensor, Format.ND, name, Cause(GRAPH_OUTPUT, (name,)))
        self.graph.rename_tensor(held, name)
        return held

    def _transdata(self, tensor: Tensor, format: Format, name: str, cause: Cause) -> Tensor:
        source = tensor.format
        node = self.graph.add_node(
            "TransData",
            [tensor],
            [name],
            name=self.graph.fresh(f"{tensor.name}_transdata"),
            domain="ascend",
            src_format=source.value,
            dst_format=format.value,
        )
        node.origin["inserted"] = "layout"
        cause.note(node)
        self.inserted += 1
        return typed_like(node.output, tensor, format=format)


def _ragged_rows(node: Node) -> bool:
    """Whether a Softmax goes along rows that end inside a block, of a tensor with three or four axes."""
    shape = node.required(0).static_shape
    along = node.op_type == "Softmax" and int(node.attr("axis", -1)) % len(shape) == len(shape) - 1
    return along and len(shape) in (3, 4) and shape[-1] % c0(node.required(0).element_type) != 0


def _is_own_cast(node: Node) -> bool:
    return node.op_type == "Cast" and node.origin.get("inserted") == "precision"


def _row_major(format: Format) -> bool:
    return format in (Format.ND, Format.NCHW)
