"""Where a network that is int8 already rounds, to which numbers, and what its data lose there.

Three forms are read: pairs of QuantizeLinear and DequantizeLinear, operators that take and give integers
(QLinearConv and its kin), and CANN's own (AscendQuant, AscendRequant, QuantConv, QuantMatMul). An integer q
stands for (q - zero point) * scale, so T = (largest q - zero point) * scale is where values saturate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.graph.verify import nodes_in

# operators that give integers -> their input ports of scale and zero point of the result
_RESULT_PORTS = {
    "QuantizeLinear": (1, 2), "QLinearConv": (6, 7), "QLinearMatMul": (6, 7), "QLinearAdd": (6, 7),
    "QLinearMul": (6, 7), "QLinearConcat": (0, 1), "QLinearWhere": (7, 8), "QGemm": (7, 8),
    "QLinearSigmoid": (3, 4), "QLinearLeakyRelu": (3, 4), "QLinearAveragePool": (3, 4),
    "QLinearGlobalAveragePool": (3, 4), "QLinearSoftmax": (3, 4), "QLinearReduceMean": (3, 4),
}  # fmt: skip
# operators that read integers -> ports of weights, their scale and their zero point
_WEIGHT_PORTS: dict[str, tuple[int, int | None, int | None]] = {
    "DequantizeLinear": (0, 1, 2), "QLinearConv": (3, 4, 5), "QLinearMatMul": (3, 4, 5), "QGemm": (3, 4, 5),
    "QuantConv": (1, None, None), "QuantMatMul": (1, None, None), "QuantConvTranspose": (1, None, None),
}  # fmt: skip
_LIMITS = {
    DType.INT8: (-128, 127),
    DType.UINT8: (0, 255),
    DType.INT16: (-32768, 32767),
    DType.UINT16: (0, 65535),
}


@dataclass(slots=True)
class Rounding:
    """One place where values become integers, or weights that are some.

    Attributes:
        node: Of the place.
        tensor: What is rounded: the float tensor where there is one, else the integers.
        kind: The integers' type.
        scale, zero_point: As the file says them, one number or one a channel; None where none is said.
        exact: Whether `tensor` is the float tensor, so that what is clipped can be counted; else only what
            lies at the ends of the integers can, which is no less than what was clipped.
        weights: Whether they are weights, which the file holds.
        seen, beyond: Elements of the data, and how many of them are clipped (or lie at the ends).
        largest: The largest magnitude, of the data or of weights; NaN where it is not known.
    """

    node: Node
    tensor: Tensor
    kind: DType
    scale: Array | None
    zero_point: Array
    exact: bool
    weights: bool = False
    seen: int = 0
    beyond: int = 0
    largest: float = field(default=0.0)

    @property
    def limits(self) -> tuple[Array, Array] | None:
        """The lowest and the highest value that is not clipped, by channel; None without a scale.

        Both are T, with signs, where zero stands for itself: the one integer more of the negative side is not
        counted, as quantisers have it.
        """
        if self.scale is None:
            return None
        low, high = _LIMITS[self.kind]
        scale, zero = self.scale.astype(np.float64), self.zero_point.astype(np.float64)
        lowest = np.where(zero == 0, -high if low else 0, low - zero)
        return lowest * scale, (high - zero) * scale

    @property
    def threshold(self) -> float | None:
        """T: the largest magnitude that is not clipped, in any channel."""
        limits = self.limits
        return None if limits is None else float(max(np.abs(limits[0]).max(), np.abs(limits[1]).max()))

    def see(self, array: Array) -> None:
        """Counts values of `tensor`."""
        self.seen += array.size
        limits = self.limits
        if self.exact and limits is not None:
            low, high = (float(limit.reshape(-1)[0]) for limit in limits)
            self.beyond += int(((array < low) | (array > high)).sum())
            values = array
        else:
            least, most = _LIMITS[self.kind]
            self.beyond += int(((array <= least) | (array >= most)).sum())
            if self.scale is None or self.scale.size > 1:
                return
            values = (array.astype(np.float64) - self.zero_point.astype(np.float64)) * self.scale
        self.largest = max(self.largest, float(np.abs(values).max(initial=0)))


def roundings(graph: Graph) -> list[Rounding]:
    """All places of a graph, in order; scales that are computed while it runs are left out."""
    found: list[Rounding] = []
    inner = (nodes_in(body) for node in graph.holders for _, body in node.subgraphs)
    for node in (*graph.topological(), *chain.from_iterable(inner)):
        found += _weights(node)
        place = _activation(node)
        if place is not None:
            found.append(place)
    return found


def _activation(node: Node) -> Rounding | None:
    result = node.output
    if result.dtype not in _LIMITS:
        return None
    if node.op_type == "AscendQuant":
        step = 1 / float(node.attr("scale", 1.0))
        zero = np.asarray(float(node.attr("offset", 0.0)))
        return Rounding(node, node.required(0), result.element_type, np.asarray(step), zero, exact=True)
    if node.op_type == "AscendRequant":
        return Rounding(node, result, result.element_type, None, np.zeros(()), exact=False)
    ports = _RESULT_PORTS.get(node.op_type)
    scale = None if ports is None else _value(node.input(ports[0]))
    if ports is None or scale is None:
        return None
    told = _value(node.input(ports[1]))
    exact = node.op_type == "QuantizeLinear" and scale.size == 1
    tensor = node.required(0) if exact else result
    return Rounding(node, tensor, result.element_type, scale, np.zeros(()) if told is None else told, exact)


def _weights(node: Node) -> Iterator[Rounding]:
    ports = _WEIGHT_PORTS.get(node.op_type)
    tensor = None if ports is None else node.input(ports[0])
    if ports is None or tensor is None or not tensor.is_constant or tensor.dtype not in _LIMITS:
        return
    scale, zero = (None if port is None else _value(node.input(port)) for port in ports[1:])
    place = Rounding(
        node, tensor, tensor.element_type, scale, np.zeros(()) if zero is None else zero, False, weights=True
    )
    held = _value(tensor)
    if held is not None and scale is not None:
        place.largest = _largest(node, held.astype(np.float64), scale, place.zero_point)
    yield place


def _largest(node: Node, held: Array, scale: Array, zero: Array) -> float:
    """The largest magnitude of weights; NaN where scales go by blocks."""
    axis = int(node.attr("axis", 1)) if node.op_type == "DequantizeLinear" else 0
    axis = held.ndim - 1 if node.op_type in ("QLinearMatMul", "QGemm") else axis
    if scale.size > 1:
        if scale.ndim > 1 or scale.size != held.shape[axis]:
            return float("nan")
        along = [1] * held.ndim
        along[axis] = -1
        scale, zero = scale.reshape(along), zero.reshape(along if zero.size > 1 else ())
    return float(np.abs((held - zero) * scale).max(initial=0))


def _value(tensor: Tensor | None) -> Array | None:
    constant = None if tensor is None else tensor.constant
    return constant.array() if constant is not None and constant.available else None
