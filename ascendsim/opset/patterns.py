"""Operator patterns: the class by which CANN's UB-fusion passes name a node.

What CANN has a name for, an operator says itself (`Facts.pattern`). Of the others, those are ElemWise whose
every axis is parallel, or Broadcast if an operand is smaller; a constant of one element counts as a parameter
of the instruction, not as a broadcast operand, as CANN's own forms have it (Muls, Adds). All else is Opaque:
no pass names it.
"""

from __future__ import annotations

from ascendsim.graph.ir import Node, Tensor
from ascendsim.opset.axes import AxisMap, Relation
from ascendsim.opset.definition import Layout, OpSet
from ascendsim.opset.facts import OpPattern


def pattern_of(node: Node, opset: OpSet) -> OpPattern:
    """The class of a node; OPAQUE for everything that no pass names."""
    if node not in opset:
        return OpPattern.OPAQUE
    definition = opset.get(node)
    stated = definition.facts.pattern
    if stated is not None:
        return stated if isinstance(stated, OpPattern) else stated(node)
    if definition.layout is not Layout.FOLLOW or len(node.outputs) != 1 or not node.output.is_static:
        return OpPattern.OPAQUE
    if not _element_by_element(node, definition.facts.axes(node)):
        return OpPattern.OPAQUE
    shape = node.output.static_shape
    return (
        OpPattern.BROADCAST
        if any(tensor.shape != shape for tensor in data_inputs(node))
        else OpPattern.ELEMWISE
    )


def _element_by_element(node: Node, axes: AxisMap) -> bool:
    """Whether every axis of what is read is parallel, or one slice that is repeated; the first input must be
    read so.
    """
    if (0, 0) not in axes.links:
        return False
    result = node.output.static_shape
    for (port, _), links in axes.links.items():
        for dim, link in zip(node.required(port).static_shape, links, strict=True):
            repeated = dim == 1 and link.axis is not None and result[link.axis] != 1
            if link.relation is not Relation.PARALLEL and not repeated:
                return False
    return True


def data_inputs(node: Node) -> tuple[Tensor, ...]:
    """Inputs by port that are read element by element: all but constants of one element."""
    return tuple(
        tensor
        for tensor in node.inputs
        if tensor is not None and not (tensor.is_constant and tensor.elements == 1)
    )
