"""Weights of 4 bits in files: ONNX's INT4 and UINT4.

    MatMul(x, DequantizeLinear(w, scale, zero, axis, block_size))  =>  WeightQuantBatchMatmulV2(x, packed ...)

The graph has no type of half a byte. Weights of a product that are scaled by column, or by blocks of a
column, become those of CANN's product of packed weights, eight to an int32; others are integers of a byte
from here on. No other operator takes 4 bits: what it gives would have to be cut to them.
"""

from __future__ import annotations

import math

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import UnsupportedTypeError
from ascendsim.frontends.onnx.upgrade import Draft, Emitter
from ascendsim.graph.ir import Array, Constant, Node, Tensor

PACKED = 8  # weights in an int32
MIDDLE = 8  # of what an unsigned weight can be


class FourBits(Constant):
    """Integers of 4 bits, one a byte."""

    __slots__ = ()


def nibbles(stored: Array, shape: tuple[int, ...], signed: bool) -> Array:
    """Integers of 4 bits, two to a byte of the file, the first one in its lower half.

    >>> nibbles(np.array([0xF1, 0x08], np.uint8), (3,), True)
    array([ 1, -1, -8], dtype=int8)
    """
    count = math.prod(shape)
    whole = np.stack([stored & 15, stored >> 4], axis=-1).reshape(-1)[:count].reshape(shape)
    if not signed:
        return whole
    return np.where(whole > 7, whole.astype(np.int8) - np.int8(16), whole.astype(np.int8))


def narrow(draft: Draft, emitter: Emitter) -> None:
    """Refuses what cannot take weights of 4 bits, and makes products of them.

    Raises:
        UnsupportedTypeError: If another operator than DequantizeLinear takes them.
    """
    given = [tensor for tensor in draft.inputs if tensor is not None and _is_narrow(tensor)]
    if given and (draft.domain, draft.op_type) != ("", "DequantizeLinear"):
        raise UnsupportedTypeError(
            draft.subject,
            "cannot take 4-bit integers",
            given[0].name,
            "DequantizeLinear makes floats of them",
        )
    if (draft.domain, draft.op_type) == ("", "MatMul") and len(draft.inputs) > 1:
        maker = draft.data(1).producer
        if maker is not None and maker.op_type == "DequantizeLinear" and _is_narrow(maker.required(0)):
            _product(draft, maker, emitter)


def _is_narrow(tensor: Tensor) -> bool:
    return isinstance(tensor.constant, FourBits)


def _product(draft: Draft, maker: Node, emitter: Emitter) -> None:
    """The product of packed weights, where scales are those of columns or of blocks of them."""
    weight, scale, zero = maker.required(0), maker.required(1), maker.input(2)
    if not (scale.is_constant and (zero is None or zero.is_constant)) or len(weight.static_shape) != 2:
        return
    k, n = weight.static_shape
    group, axis = int(maker.attr("block_size", 0)), int(maker.attr("axis", 1)) % 2
    by_block = axis == 0 and group and scale.static_shape == (-(-k // group), n)
    by_column = axis == 1 and not group and scale.static_shape == (n,)
    if n % PACKED or not (by_block or by_column or scale.elements == 1):
        return
    unsigned = weight.element_type is DType.UINT8
    packed = Constant(loader=lambda: _packed(weight, unsigned), computed=True)
    stem, form = draft.name, scale.static_shape
    offset = None
    if unsigned or zero is not None:
        moved = Constant(loader=lambda: _offset(zero, form, unsigned), computed=True)
        offset = emitter.hold(moved, DType.FLOAT32, form, f"{stem}/offset")
    held = emitter.hold(packed, DType.INT32, (k, n // PACKED), f"{stem}/packed")
    draft.inputs = [draft.data(0), held, scale, offset]
    draft.op_type, draft.domain = "WeightQuantBatchMatmulV2", "ascend"
    if by_block:
        draft.attributes["antiquant_group_size"] = group


def _packed(weight: Tensor, unsigned: bool) -> Array:
    """Eight weights of a row to an int32, the first one in its lowest bits."""
    assert weight.constant is not None
    whole = weight.constant.array().astype(np.int64) - (MIDDLE if unsigned else 0)
    parts = (whole & 15).reshape(whole.shape[0], -1, PACKED) << np.arange(0, 4 * PACKED, 4)
    return np.asarray(parts.sum(axis=-1).astype(np.uint32).view(np.int32))


def _offset(zero: Tensor | None, shape: tuple[int, ...], unsigned: bool) -> Array:
    """What is added to the signed weights before they are scaled."""
    middle = np.full(shape, MIDDLE if unsigned else 0, np.float32)
    if zero is None or zero.constant is None:
        return middle
    return middle - zero.constant.array().astype(np.float32).reshape(shape)
