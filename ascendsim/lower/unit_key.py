"""What decides how a unit (a node, or the nodes of a scope) is lowered, as a key: equal keys mean equal
programs.

Lowering reads operators, attributes, the tensors' types, shapes, formats and small constants, and how nodes
hang together. Networks repeat their layers, so most units have a key that was seen before. The key holds, for
each node, its operator, attributes and ports, with tensors numbered in the order of their first use, and for
each tensor all that an operator may ask of it:

    type, shape, format    the device's and the user's type
    constant               whether it is one; the values themselves if they are few or integers (axes, pads,
                           indices)
    neighbours             the operator that makes it, those that read it, inside or outside the unit, and
                           whether the graph returns it
    notes                  whether other nodes wait for it, its part in L1 fusion, and the tiling that it has
                           in a loaded model

An operator's `lower` gets a view that holds just that (`opset.view`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

from ascendsim.core.keys import key_of
from ascendsim.graph.ir import Node, Tensor
from ascendsim.graph.scopes import SECOND_STAGE
from ascendsim.lower.tiling_search import TILING
from ascendsim.opset.view import values_are_seen

Key: TypeAlias = tuple[Hashable, ...]

_TYPE = attrgetter("shape", "dtype", "origin_dtype", "format")


def unit_key(nodes: Sequence[Node]) -> tuple[Key, tuple[str, ...]] | None:
    """The key of a unit, and the names of the tensors that the key knows by number; None for units that hold
    subgraphs.
    """
    numbers: dict[Tensor, int] = {}
    inside = {node: number for number, node in enumerate(nodes)}
    graph = nodes[0].graph
    returned = [] if graph is None else graph.outputs
    parts: list[Hashable] = []
    for node in nodes:
        if node.attributes and node.subgraphs:
            return None
        attributes = tuple([(name, key_of(value)) for name, value in node.attributes.items()])
        ports: list[int] = []
        for tensor in (*node._inputs, *node.outputs):
            if tensor is None:
                ports.append(-1)
                continue
            number = numbers.get(tensor)
            if number is None:
                number = numbers[tensor] = len(numbers)
                parts.append(_tensor(tensor))
            ports.append(number)
        readers = tuple([_readers(tensor, inside, returned) for tensor in node.outputs])
        noted = bool(node.control), SECOND_STAGE in node.origin, node.origin.get(TILING)
        parts.append((node.op_type, node.domain, attributes, tuple(ports), readers, noted))
    return tuple(parts), tuple([tensor.name for tensor in numbers])


def operators_of(key: Key) -> set[str]:
    """Operators of a unit by its key."""
    return {part[0] for part in key if isinstance(part, tuple) and isinstance(part[0], str)}


def _tensor(tensor: Tensor) -> Hashable:
    producer = tensor.producer
    if producer is not None:
        return _TYPE(tensor), producer.op_type, producer.domain
    constant = tensor.constant
    if constant is None:
        return _TYPE(tensor), ""
    if not constant.available:
        return _TYPE(tensor), "absent"
    if not values_are_seen(tensor):
        return _TYPE(tensor), "weight"
    return _TYPE(tensor), key_of(constant.array())


def _readers(tensor: Tensor, inside: dict[Node, int], returned: Sequence[Tensor]) -> Hashable:
    readers: dict[Any, None] = {}
    for reader, _ in tensor._uses:
        number = inside.get(reader)
        readers[(reader.op_type, reader.domain) if number is None else number] = None
    return tuple(readers), tensor in returned
