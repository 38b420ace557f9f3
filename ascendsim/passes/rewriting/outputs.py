"""Tensors that are like others, and outputs of a graph when other tensors become them: the name, by which
users know a result, goes along.
"""

from __future__ import annotations

from typing import Any

from ascendsim.graph.ir import Graph, Node, Tensor


def is_output(graph: Graph | None, tensor: Tensor) -> bool:
    """Whether a graph hands out a tensor."""
    return graph is not None and tensor in graph.outputs  # tensors are equal only to themselves


def typed_like(made: Tensor, like: Tensor, **changes: Any) -> Tensor:
    """Gives a tensor shape, types and format of another one, some of them changed."""
    for field in ("shape", "dtype", "origin_dtype", "format"):
        setattr(made, field, changes.get(field, getattr(like, field)))
    return made


def twin_of(graph: Graph, tensor: Tensor, name: str, **changes: Any) -> Tensor:
    """Adds a constant like another one, with its values unless `constant` is among the changes."""
    twin = Tensor(graph.fresh(name), constant=changes.pop("constant", tensor.constant))
    return graph.add_tensor(typed_like(twin, tensor, **changes))


def set_aside(graph: Graph, tensor: Tensor, why: str) -> str:
    """Frees the name of a tensor for another one, and returns it; `why` comes behind it in the new name."""
    name = tensor.name
    graph.rename_tensor(tensor, graph.fresh(f"{name}_{why}"))
    return name


def hand_out(graph: Graph, old: Tensor, new: Tensor, aside: str = "replaced") -> None:
    """Makes `new` the output of the graph in place of `old`, under its name; who reads `old` stays.

    Args:
        graph: Of both.
        old: An output; it gets its name with `aside` behind it.
        new: Made by a node of the graph, and no output.
        aside: Why the old one is not the output any more.
    """
    graph.outputs[:] = [new if tensor is old else tensor for tensor in graph.outputs]
    graph.rename_tensor(new, set_aside(graph, old, aside))


def copy_of(graph: Graph, tensor: Tensor, like: Tensor, name: str) -> Node:
    """An Identity of a tensor, with the type and format of another one."""
    node = graph.add_node("Identity", [tensor], name=name)
    typed_like(node.output, like)
    return node


def hand_out_copy(graph: Graph, place: int) -> Node:
    """Hands out an Identity of an output in its place, under its name; the others stay."""
    old = graph.outputs[place]
    maker = old.producer
    node = copy_of(graph, old, old, f"{old.name if maker is None else maker.name}_identity")
    others = [tensor is old for tensor in graph.outputs]
    others[place] = False
    if maker is not None and not any(others):
        hand_out(graph, old, node.output)
    else:
        graph.outputs[place] = node.output
    return node
