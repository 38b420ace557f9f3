"""Operator split: integers of 64 bits become integers of 32 bits, float64 becomes float32, where the AI Core
lacks the wide type.

ids int64 -> Cast(float32)          becomes   ids int32 -> Cast(float32)
x -> Cast(int64) -> Add -> Equal    becomes   x -> Cast(int32) -> Add -> Equal

A connected group of wide tensors changes as a whole: its sources are graph inputs (whose type changes, so the
caller passes int32), Casts (whose target changes) and constants (whose values must fit); it ends in operators
that give another type, in indices, or in graph outputs, which a Cast restores. Values are the same while
every one fits into 32 bits; sums and products may leave that range, so groups with arithmetic only
approximate.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Constant, Graph, Node, Tensor, Use
from ascendsim.opset import OpSet
from ascendsim.opset.facts import Elements
from ascendsim.passes.levers.lever import Lever, LeverContext, Relation, Site
from ascendsim.passes.rewriting.outputs import hand_out

NARROW = {
    DType.INT64: DType.INT32,
    DType.UINT64: DType.INT32,
    DType.UINT32: DType.INT32,
    DType.FLOAT64: DType.FLOAT32,
}


@dataclass(slots=True)
class _Group:
    """Wide tensors that change together, and the operators between them."""

    tensors: dict[Tensor, None] = field(default_factory=dict)
    nodes: dict[Node, None] = field(default_factory=dict)
    casts: dict[Node, None] = field(default_factory=dict)
    constants: dict[Use, None] = field(default_factory=dict)
    arithmetic: bool = False
    refused: str = ""


class NarrowTypes(Lever):
    """Gives groups of wide tensors the type that the AI Core has."""

    name = "narrow-types"
    title = "int64 to int32, float64 to float32"

    def sites(self, graph: Graph, context: LeverContext) -> tuple[Site, ...]:
        """Every group that an operator on the AI CPU reads or makes."""
        found: list[Site] = []
        seen: set[Tensor] = set()
        for node in graph.topological():
            if node.name not in context.ai_cpu or context.opset.get(node).facts.by_order:
                continue  # `sort_as_float` has those whose wide results are places, not values
            for tensor in (*node.inputs, *node.outputs):
                if (
                    tensor is not None
                    and tensor.dtype in NARROW
                    and not tensor.is_constant
                    and tensor not in seen
                ):
                    group = _group(tensor, context.opset)
                    seen.update(group.tensors)
                    found.append(_site(node, tensor, group, context))
                    break
        return tuple(found)

    def rewrite(self, graph: Graph, site: Site, context: LeverContext) -> None:
        """Changes one group."""
        node = graph.node(site.node)
        start = next(
            t
            for t in (*node.inputs, *node.outputs)
            if t is not None and t.dtype in NARROW and not t.is_constant
        )
        group = _group(start, context.opset)
        wide = start.element_type
        narrow = NARROW[wide]
        for use in group.constants:
            use.node.set_input(use.index, _narrow_constant(graph, use.node.required(use.index), narrow))
        for cast in group.casts:
            cast.attributes["to"] = narrow
        for tensor in group.tensors:
            tensor.dtype = tensor.origin_dtype = narrow
        for tensor in dict.fromkeys(
            t for t in graph.outputs if t in group.tensors and t.producer is not None
        ):
            hand_out(
                graph,
                tensor,
                context.add(graph, "Cast", tensor, stem=f"{tensor.name}_wide", to=wide),
                "before",
            )


def _site(node: Node, start: Tensor, group: _Group, context: LeverContext) -> Site:
    wide = start.element_type
    own = [item.name for item in group.nodes if item.name in context.ai_cpu]
    names = tuple(dict.fromkeys((node.name, *own)))
    if group.refused:
        return Site(names, f"{wide.value} sends it to the AI CPU, but {group.refused}")
    inputs = [tensor.name for tensor in group.tensors if tensor.producer is None]
    reason = (
        f"{wide.value} sends {len(names)} operator{'s' * (len(names) != 1)} to the AI CPU; the AI Core "
        f"has {NARROW[wide].value}"
    )
    if inputs:
        reason += (
            f" (input{'s' * (len(inputs) != 1)} {', '.join(inputs)} must then be given as "
            f"{NARROW[wide].value})"
        )
    exact = wide is not DType.FLOAT64 and not group.arithmetic
    return Site(names, reason, Relation.EXACT if exact else Relation.APPROXIMATE)


def _group(start: Tensor, opset: OpSet) -> _Group:
    """The group of a wide tensor; `refused` says why it cannot change."""
    group = _Group()
    stack = [start]
    while stack and not group.refused:
        tensor = stack.pop()
        if tensor in group.tensors:
            continue
        group.tensors[tensor] = None
        producer = tensor.producer
        if producer is not None and producer.op_type == "Cast":
            group.casts[producer] = None
            group.nodes[producer] = None
        elif producer is not None:
            _visit(producer, tensor, group, opset, stack)
        for use in tensor.uses:
            _follow(use, tensor, group, opset, stack)
    return group


def _follow(use: Use, tensor: Tensor, group: _Group, opset: OpSet, stack: list[Tensor]) -> None:
    node = use.node
    if node.op_type == "Cast":
        group.nodes[node] = None
    elif use.index not in opset.get(node).facts.indices or tensor.element_type.is_float:
        _visit(node, tensor, group, opset, stack)


def _visit(node: Node, tensor: Tensor, group: _Group, opset: OpSet, stack: list[Tensor]) -> None:
    """Takes in an operator: all its tensors of the group's type change with it."""
    if node in group.nodes:
        return
    group.nodes[node] = None
    facts, wide = opset.get(node).facts, tensor.element_type
    if facts.elements is None or (facts.elements is Elements.REAL and not wide.is_float):
        group.refused = f"{node.op_type} {node.name} works in {wide.value} only"
        return
    if facts.elements in (Elements.COMPUTED, Elements.REAL):
        group.arithmetic = True
    ports = facts.typed
    for index, item in enumerate(node.inputs):
        if item is None or (ports and index not in ports):
            if item is tensor:
                group.refused = f"input {index} of {node.op_type} {node.name} must be {wide.value}"
            continue
        if item.is_constant and item.dtype is wide:
            group.constants[Use(node, index)] = None
            group.refused = group.refused or _unfit(item)
        elif item.dtype is wide:
            stack.append(item)
    stack.extend(result for result in node.outputs if result.dtype is wide)


def _unfit(tensor: Tensor) -> str:
    """Why a constant cannot be narrower; empty if it can."""
    constant = tensor.constant
    if constant is None or not constant.available:
        return f"the values of constant {tensor.name} are not at hand"
    values = constant.array()
    if tensor.element_type.is_float or not values.size:
        return ""
    limits = np.iinfo(np.int32)
    fits = limits.min <= int(values.min()) and int(values.max()) <= limits.max
    return "" if fits else f"constant {tensor.name} does not fit into 32 bits"


def _narrow_constant(graph: Graph, tensor: Tensor, narrow: DType) -> Tensor:
    assert tensor.constant is not None
    array = tensor.constant.array().astype(narrow.numpy)
    name = graph.fresh(f"{tensor.name}_{narrow.value}")
    return graph.add_tensor(Tensor(name, narrow, tensor.shape, tensor.format, Constant(array)))
