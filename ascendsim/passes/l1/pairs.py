"""Consecutive convolutions as pairs.

    before   x -> [Conv -> Relu] -> t -> [Conv -> Add -> Relu] -> y      two tasks, t goes through global
             memory
    after    x -> [Conv -> Relu  -> t ->  Conv -> Add -> Relu] -> y      one task, t stays in L1

A pair is two units (scopes of UB fusion or single nodes), each with a convolution in front. The second one
must be the only reader of the first one's result; no control edge may lead out of the first one or into the
second one. Whether there is a program, and whether it pays, is found out by lowering.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.scopes import SCOPE, SECOND_STAGE, internal_tensors, next_scope, units_in_order


@dataclass(frozen=True, slots=True)
class Pair:
    """Two units that may become one task.

    Attributes:
        first, second: Their nodes in execution order.
        between: What the first one hands to the second.
    """

    first: tuple[Node, ...]
    second: tuple[Node, ...]
    between: Tensor


def find_pairs(graph: Graph) -> list[Pair]:
    """All pairs, in execution order of the first unit; a unit may be in two of them."""
    units = [unit for unit in units_in_order(graph) if unit[0].op_type == "Conv"]
    heads = {unit[0]: unit for unit in units}
    outputs = {id(tensor) for tensor in graph.outputs}
    pairs = []
    for unit in units:
        hidden = set(internal_tensors(unit))
        visible = [tensor for node in unit for tensor in node.outputs if tensor not in hidden]
        if len(visible) != 1 or id(visible[0]) in outputs or visible[0].producer is not unit[-1]:
            continue
        uses = visible[0].uses
        if len(uses) == 1 and uses[0].index == 0 and uses[0].node in heads:
            second = heads[uses[0].node]
            if not any(node.followers for node in unit) and not any(node.control for node in second):
                pairs.append(Pair(unit, second, visible[0]))
    return pairs


def join_pair(graph: Graph, pair: Pair) -> tuple[Node, ...]:
    """Marks a pair as one scope; returns its nodes in execution order."""
    number = next_scope(graph)
    for node in (*pair.first, *pair.second):
        node.origin[SCOPE] = number
    pair.second[0].origin[SECOND_STAGE] = True
    return (*pair.first, *pair.second)
