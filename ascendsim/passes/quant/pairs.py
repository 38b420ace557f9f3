"""Quantised tensors as a model writes them: an integer tensor, DequantizeLinear in front of a float operator,
QuantizeLinear behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Graph, Node, Tensor
from ascendsim.passes.fusion.checks import known_values
from ascendsim.passes.fusion.rules.conv.conv_folding import lazy_constant
from ascendsim.passes.rewriting.outputs import is_output

BYTES = (DType.INT8, DType.UINT8)


class RefusedError(Exception):
    """Why an operator stays in floating point."""


@dataclass(frozen=True, slots=True)
class Quantised:
    """A tensor of integers and what they stand for.

    Attributes:
        tensor: The integers; of a constant that is quantised in the model, the float values.
        scale: One number, or one a slice along `axis`.
        zero: Zero point of the same form; None = 0.
        axis: As the model has it.
        floats: Whether `tensor` still holds the float values of a constant.
    """

    tensor: Tensor
    scale: Tensor
    zero: Tensor | None
    axis: int
    floats: bool = False

    @property
    def single(self) -> bool:
        """Whether there is one scale for all."""
        return self.scale.is_static and self.scale.elements == 1

    @property
    def number(self) -> float:
        """The scale, if it is one known number.

        Raises:
            RefusedError: If it is not.
        """
        values = known_values(self.scale)
        if values is None or values.size != 1:
            raise RefusedError(f"the scale of {self.tensor.name} is not one known number")
        return float(values.reshape(-1)[0])

    @property
    def shift(self) -> int:
        """The zero point, if it is one known number.

        Raises:
            RefusedError: If it is not.
        """
        if self.zero is None:
            return 0
        values = known_values(self.zero)
        if values is None or np.unique(values).size != 1:
            raise RefusedError(f"the zero point of {self.tensor.name} is not one known number")
        return int(values.reshape(-1)[0])

    def equals(self, other: Quantised) -> bool:
        """Whether equal integers stand for equal numbers."""
        if self.kind is not other.kind:
            return False
        return _same(self.scale, other.scale) and (
            _same(self.zero, other.zero)
            if self.zero is not None and other.zero is not None
            else self.shift == other.shift
        )

    @property
    def kind(self) -> DType:
        """Type of the integers."""
        if not self.floats:
            return self.tensor.element_type
        return DType.UINT8 if self.zero is None else self.zero.element_type

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Integers, scale and zero point, as the operators take them."""
        return self.tensor, self.scale, self.zero


def dequantised(tensor: Tensor | None) -> Quantised | None:
    """What DequantizeLinear makes a float tensor from; None if it comes from something else."""
    node = None if tensor is None else tensor.producer
    if node is None or node.domain or node.op_type != "DequantizeLinear" or node.attr("block_size", 0):
        return None
    found = _of(node, node.required(0))
    maker = found.tensor.producer
    if maker is not None and maker.op_type == "QuantizeLinear" and maker.required(0).is_constant:
        found = Quantised(maker.required(0), found.scale, found.zero, found.axis, floats=True)
    return found


def quantised_by(node: Node) -> Quantised:
    """What QuantizeLinear makes."""
    return _of(node, node.output)


def only_reader(tensor: Tensor) -> Node | None:
    """The node that alone reads a tensor, once, as its data."""
    graph = None if tensor.producer is None else tensor.producer.graph
    if graph is None or len(tensor.uses) != 1 or is_output(graph, tensor) or tensor.uses[0].index != 0:
        return None
    return tensor.uses[0].node


def activation(tensor: Tensor | None, what: str) -> Quantised:
    """A quantised tensor with one scale, in 8 bits.

    Raises:
        RefusedError: If it is something else.
    """
    found = dequantised(tensor)
    if found is None:
        raise RefusedError(f"{what} is not quantised")
    if found.kind not in BYTES:
        raise RefusedError(f"{what} is {found.kind.value}, not 8 bits wide")
    if not found.single:
        raise RefusedError(f"{what} has a scale for every slice")
    return found


def integers(graph: Graph, weight: Quantised, axes: Sequence[int], what: str) -> Quantised:
    """Constant weights as int8 without a zero point, which is what the Cube multiplies.

    Args:
        graph: Receives the constants.
        weight: As the model has it.
        axes: Where a scale for every slice may lie.
        what: The weights, for messages.

    Raises:
        RefusedError: If they are no such weights.
    """
    tensor, rank = weight.tensor, len(weight.tensor.static_shape)
    if not tensor.is_constant:
        raise RefusedError(f"{what} is not constant")
    if weight.kind not in BYTES:
        raise RefusedError(f"{what} is {weight.kind.value}, not 8 bits wide")
    if not weight.single and weight.axis % rank not in axes:
        raise RefusedError(f"{what} has a scale for every slice of axis {weight.axis}")
    zeros = None if weight.zero is None else known_values(weight.zero)
    scales = known_values(weight.scale)
    if scales is None or (weight.zero is not None and zeros is None):
        raise RefusedError(f"scale and zero point of {what} are not known")
    shift = np.zeros(1, np.int32) if zeros is None else zeros.astype(np.int32)
    if not weight.floats and weight.kind is DType.INT8 and not shift.any():
        return Quantised(tensor, weight.scale, None, weight.axis)
    along = (-1,) + (1,) * (rank - weight.axis % rank - 1)
    step = scales.reshape(along) if scales.size > 1 else scales.reshape(())
    off = shift.reshape(along) if shift.size > 1 else shift.reshape(())
    limits = np.iinfo(weight.kind.numpy)

    def values(array: Array) -> Array:
        if weight.floats:
            array = np.clip(np.rint(array.astype(np.float32) / step) + off, limits.min, limits.max)
        return np.asarray(array.astype(np.int32) - off)

    held = tensor.constant
    if held is not None and held.available:
        shifted = values(held.array())
        if shifted.size and not (shifted.min() >= -128 and shifted.max() <= 127):
            raise RefusedError(f"{what} leaves int8 without its zero point")
    made = lazy_constant(graph, f"{tensor.name}_int8", DType.INT8, tensor.static_shape, [tensor], values)
    return Quantised(made, weight.scale, None, weight.axis)


def bias_of(
    graph: Graph, given: Tensor | None, x: Quantised, weight: Quantised, channels: int, shifted: bool
) -> Tensor | None:
    """The bias in units of the sums: int32, one value a column, step = that of the data times the weights'.

    Without a bias there is one of zeros where the data or (`shifted`) the result have a zero point, to take
    what that adds to the sums.

    Raises:
        RefusedError: If it is no constant vector.
    """
    if given is None:
        if not shifted and x.shift == (0 if x.kind is DType.INT8 else 128):
            return None
        zeros = [x.scale]
        return lazy_constant(
            graph, f"{weight.tensor.name}_bias", DType.INT32, (channels,), zeros, lambda _: np.zeros(channels)
        )
    found = dequantised(given)
    source = given if found is None else found.tensor
    if not source.is_constant or not source.is_static or source.elements != channels:
        raise RefusedError("the bias is not one constant a column")
    steps = known_values(weight.scale)
    assert steps is not None
    unit = np.broadcast_to(np.float32(x.number) * steps.reshape(-1), (channels,))
    own = None if found is None or found.floats else known_values(found.scale)
    if own is not None and source.dtype is DType.INT32:
        factor = np.broadcast_to(own.reshape(-1), (channels,))
        same = np.allclose(factor, unit, rtol=1e-5, atol=0)
        zero = None if found is None or found.zero is None else known_values(found.zero)
        if same and (zero is None or not zero.any()) and source.static_shape == (channels,):
            return source
        if zero is not None and zero.any():
            raise RefusedError("the bias has a zero point")
    elif found is not None:
        raise RefusedError("the bias is quantised otherwise than in int32")
    else:
        factor = np.ones(channels, np.float32)

    def values(array: Array) -> Array:
        real = array.reshape(-1).astype(np.float64) * factor / unit
        return np.asarray(np.clip(np.rint(real), -(2**31), 2**31 - 1))

    return lazy_constant(graph, f"{source.name}_int32", DType.INT32, (channels,), [source], values)


def _of(node: Node, held: Tensor) -> Quantised:
    return Quantised(held, node.required(1), node.input(2), int(node.attr("axis", 1)))


def _same(one: Tensor, other: Tensor) -> bool:
    if one is other:
        return True
    values = known_values(one), known_values(other)
    if values[0] is None or values[1] is None:
        return False
    return values[0].size == values[1].size and bool(np.all(values[0].reshape(-1) == values[1].reshape(-1)))
