"""Operator split: values that the AI Core does not sort or compare in their type are sorted as floats.

x (int32) -> TopK -> v (int32), i
becomes   x -> Cast(float32) -> TopK -> Cast(int32) -> v, and i

The vector unit sorts float16 and, on most chips, float32; TopK, ArgMax and ArgMin of other types run on the
AI CPU. A Cast keeps the order of whole numbers as long as the float holds each of them: below 2^24 in
float32, up to 2^11 in float16. Beyond that neighbours become equal, and the results are near ones.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import InferContext
from ascendsim.opset.work import AiCpuWork
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.replace import replace

_EXACT = {DType.FLOAT32: 24, DType.FLOAT16: 11}  # bits of a whole number that each holds
_BITS = {DType.BOOL: 1, DType.INT8: 7, DType.UINT8: 8, DType.INT16: 15, DType.UINT16: 16}


class SortAsFloat(Lever):
    """Casts what TopK, ArgMax and ArgMin read to a float that the vector unit sorts, and the values back."""

    name = "sort-as-float"
    title = "sort other types as floats"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every such operator on the AI CPU."""
        return tuple(
            _site(node, context)
            for node in graph.topological()
            if node.name in context.ai_cpu and context.opset.get(node).facts.by_order
        )

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Puts Casts around one operator."""
        node = graph.node(site.node)
        data = node.required(0)
        kind, wanted = data.element_type, _sortable(node, context)
        assert wanted is not None
        before = context.add(graph, "Cast", data, stem=f"{node.name}_{wanted.value}", to=wanted)
        name = graph.fresh(node.name)
        found = graph.add_node(node.op_type, [before, *node.inputs[1:]], len(node.outputs), name, node.domain)
        found.attributes.update(node.attributes)
        context.opset.get(found).infer(InferContext(found))
        results = [
            made
            if made.dtype is old.dtype
            else context.add(graph, "Cast", made, stem=f"{node.name}_{kind.value}", to=kind)
            for made, old in zip(found.outputs, node.outputs, strict=True)
        ]
        replace(graph, [node], list(zip(node.outputs, results, strict=True)))


def _site(node: Node, context: LeverContext) -> Site:
    name, kind = (node.name,), node.required(0).element_type
    why = f"{kind.value} sends {node.op_type} to the AI CPU"
    wanted = _sortable(node, context)
    if wanted is None:
        return Site(name, f"{why}, and the AI Core of this chip takes no float for it either")
    held = _EXACT[DType.FLOAT16 if context.half else wanted]
    mode = (
        ", since the precision mode makes floats float16"
        if context.half and wanted is not DType.FLOAT16
        else ""
    )
    reason = f"{why}; the AI Core has {wanted.value}: Cast to it and back"
    if kind.is_float:
        return Site(name, f"{reason}, which rounds to {held} bits{mode}", Relation.APPROXIMATE)
    if _BITS.get(kind, 64) <= held:
        return Site(name, f"{reason}, which holds every {kind.value}", Relation.EXACT)
    return Site(name, f"{reason}, exact below 2^{held}{mode}", Relation.APPROXIMATE)


def _sortable(node: Node, context: LeverContext) -> DType | None:
    """The widest float, other than the type that it has, of which the AI Core does the operator."""
    kind = node.required(0).element_type
    return next((each for each in _EXACT if each is not kind and _on_core(node, each, context)), None)


def _on_core(node: Node, kind: DType, context: LeverContext) -> bool:
    """Whether the operator would run on the AI Core for another type."""
    scratch, data = Graph("scratch"), node.required(0)
    tensors: list[Tensor | None] = [scratch.add_tensor(Tensor("data", kind, data.shape))]
    for index, item in enumerate(node.inputs[1:]):
        tensors.append(
            item and scratch.add_tensor(Tensor(f"in{index}", item.dtype, item.shape, constant=item.constant))
        )
    twin = scratch.add_node(node.op_type, tensors, len(node.outputs), "twin", node.domain)
    twin.attributes.update(node.attributes)
    definition = context.opset.get(twin)
    try:
        definition.infer(InferContext(twin))
        work = definition.work(twin, context.chip)
    except AscendSimError:  # open shapes: what it does is not known
        return False
    return not isinstance(work, AiCpuWork) and not context.opset.on_ai_cpu(twin, context.chip.aicpu_types)
