"""Random results of a graph, drawn from PyTorch's generator as eager mode draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.frontends.torch.tensors import array_of
from ascendsim.graph.ir import Array, Graph, Node

_WHOLE = 128  # elements that a mask of bits is filled up to (CANN's DropOutGenMask)


@dataclass(frozen=True, slots=True)
class Draw:
    """What one random node gives.

    Attributes:
        node: Its name.
        op_type: Its operator.
        values: Draws once more.
    """

    node: str
    op_type: str
    values: Callable[[], Array]


def draws_of(graph: Graph) -> list[Draw]:
    """The random nodes of a graph, in the order in which eager mode comes to them."""
    return [
        Draw(node.name, node.op_type, _KINDS[node.op_type](node))
        for node in graph.nodes
        if node.op_type in _KINDS
    ]


def _mask(node: Node) -> Callable[[], Array]:
    """Bits of what a dropout keeps."""
    shape = tuple(int(size) for size in _known(node, 0))
    keep = _known(node, 1).astype(np.float64).item()

    def draw() -> Array:
        import torch

        return packed(torch.native_dropout(torch.ones(shape), 1 - keep, True)[1].numpy())

    return draw


def packed(mask: Array) -> Array:
    """A mask of truth values as the chip has it, in bits."""
    bits = np.zeros(-(-mask.size // _WHOLE) * _WHOLE, np.bool_)
    bits[: mask.size] = mask.reshape(-1)
    return np.packbits(bits, bitorder="little")


def unpacked(bits: Array, shape: Sequence[int]) -> Array:
    """A mask of bits as PyTorch has it.

    >>> unpacked(packed(np.array([[True, False, True]])), (1, 3))
    array([[ True, False,  True]])
    """
    return np.unpackbits(bits, count=math.prod(shape), bitorder="little").astype(np.bool_).reshape(shape)


def _bernoulli(node: Node) -> Callable[[], Array]:
    """Ones with the probability that the node's operand is filled with."""
    source = node.required(0).producer
    share = _known(source, 0).astype(np.float64).item() if source is not None else 0.5
    shape = node.output.static_shape

    def draw() -> Array:
        import torch

        return array_of(torch.empty(shape).bernoulli_(share)).astype(node.output.element_type.numpy)

    return draw


def _known(node: Node, port: int) -> Array:
    constant = node.required(port).constant
    if constant is None:
        raise InputError(f"node {node.name!r} ({node.op_type})", "must draw with a probability that is known")
    return constant.array()


_KINDS = {"DropOutGenMask": _mask, "Bernoulli": _bernoulli}
