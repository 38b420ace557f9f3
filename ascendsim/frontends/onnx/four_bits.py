"""Weights of 4 bits in files: ONNX's INT4 and UINT4.

    MatMul(x, DequantizeLinear(w, scale, zero, axis, block_size))  =>  WeightQuantBatchMatmulV2(x, packed ...)
    MatMul(x, Transpose(DequantizeLinear(w ...)))  =>  the same, transpose_weight
    Gemm(x, DequantizeLinear(w ...), bias, transB)  =>  the same

The graph has no type of half a byte. Weights of a product that are scaled by column, or by blocks of a
column, become those of CANN's product of packed weights, eight to an int32; others are integers of a byte
from here on. What only moves them (Transpose, Reshape ...) is done here. No other operator takes 4 bits: what
it gives would have to be cut to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, UnsupportedTypeError
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
    """Moves weights of 4 bits, makes products of them, and refuses what cannot take them.

    Raises:
        UnsupportedTypeError: If an operator takes them that neither moves them nor makes floats of them.
    """
    given = [tensor for tensor in draft.inputs if tensor is not None and _held(tensor) is not None]
    if given and not draft.domain and draft.op_type in _MOVES:
        _moved(draft, emitter)
    elif given and (draft.domain, draft.op_type) != ("", "DequantizeLinear"):
        raise UnsupportedTypeError(
            draft.subject,
            "cannot take 4-bit integers",
            given[0].name,
            "DequantizeLinear makes floats of them",
        )
    elif not draft.domain and draft.op_type in ("MatMul", "Gemm") and len(draft.inputs) > 1:
        maker, flipped = _maker(draft)
        if maker is not None:
            _product(draft, maker, flipped, emitter)


def _held(tensor: Tensor) -> Tensor | None:
    """The weights of 4 bits that a tensor is."""
    while tensor.producer is not None and tensor.producer.op_type == "Identity":
        tensor = tensor.producer.required(0)
    return tensor if isinstance(tensor.constant, FourBits) else None


def _reshaped(draft: Draft, array: Array) -> Array:
    wanted = _axes(draft)
    kept = not draft.attributes.get("allowzero", 0)
    return array.reshape([array.shape[at] if kept and not dim else dim for at, dim in enumerate(wanted)])


def _axes(draft: Draft) -> tuple[int, ...]:
    """Numbers of the second input.

    Raises:
        UnsupportedTypeError: If they are not known.
    """
    given = draft.inputs[1] if len(draft.inputs) > 1 else None
    if given is None:
        return ()
    if given.constant is None or not given.constant.available:
        rule = "cannot move 4-bit integers by what is not known"
        raise UnsupportedTypeError(draft.subject, rule, given.name, "make it a constant")
    return tuple(int(one) for one in given.constant.array().reshape(-1))


def _flattened(draft: Draft, array: Array) -> Array:
    axis = range(array.ndim + 1)[int(draft.attributes.get("axis", 1))]  # type: ignore[arg-type]
    return array.reshape(math.prod(array.shape[:axis]), -1)


_MOVES: dict[str, Callable[[Draft, Array], Array]] = {
    "Flatten": _flattened,
    "Identity": lambda draft, array: array,
    "Reshape": _reshaped,
    "Squeeze": lambda draft, array: np.squeeze(array, _axes(draft) or None),
    "Transpose": lambda draft, array: array.transpose(draft.attributes.get("perm")),  # type: ignore[arg-type]
    "Unsqueeze": lambda draft, array: np.expand_dims(array, _axes(draft)),
}


def _moved(draft: Draft, emitter: Emitter) -> None:
    """The weights as they lie after a move, under the name of its result."""
    source = _held(draft.data())
    if source is None or source.constant is None:
        rule = "cannot take 4-bit integers there"
        raise UnsupportedTypeError(draft.subject, rule, remedy="give them as its first input")
    constant, move = source.constant, _MOVES[draft.op_type]
    own = Draft(draft.op_type, "", draft.name, [*draft.inputs], [], {**draft.attributes}, draft.version)
    try:
        shape = move(own, np.empty(source.static_shape, np.int8)).shape  # nothing is read
    except (IndexError, TypeError, ValueError) as error:
        raise GraphError(draft.subject, f"cannot move weights: {error}", list(source.static_shape)) from None
    if constant.available:
        made = FourBits(loader=lambda: np.ascontiguousarray(move(own, constant.array())))
    else:
        made = FourBits(absent_because=constant.absent_because)
    held = emitter.hold(made, source.element_type, shape, f"{draft.name}/moved")
    draft.op_type, draft.inputs, draft.attributes = "Identity", [held], {}


def _maker(draft: Draft) -> tuple[Node | None, bool]:
    """What makes floats of weights of 4 bits for a product, and whether the product takes them transposed."""
    maker, flipped = draft.data(1).producer, bool(draft.attributes.get("transB", 0))
    if draft.op_type == "Gemm" and any(
        draft.attributes.get(name, plain) != plain
        for name, plain in (("alpha", 1.0), ("beta", 1.0), ("transA", 0))
    ):
        return None, False
    if maker is not None and maker.op_type == "Transpose" and tuple(maker.attr("perm", (1, 0))) == (1, 0):
        maker, flipped = maker.required(0).producer, not flipped
    if maker is None or maker.op_type != "DequantizeLinear" or _held(maker.required(0)) is None:
        return None, False
    return maker, flipped


def _product(draft: Draft, maker: Node, flipped: bool, emitter: Emitter) -> None:
    """The product of packed weights, where scales are those of columns or of blocks of them."""
    weight, scale, zero = _held(maker.required(0)), maker.required(1), maker.input(2)
    bias = draft.inputs[2] if len(draft.inputs) > 2 else None
    zero = None if zero is None else _held(zero)
    if weight is None or not scale.is_constant or len(weight.static_shape) != 2:
        return
    if maker.input(2) is not None and zero is None:
        return
    inner = int(flipped)  # the axis along which products are added up
    k, n = weight.static_shape[inner], weight.static_shape[1 - inner]
    if weight.static_shape[1] % PACKED or (bias is not None and bias.shape != (n,)):
        return
    group, axis = int(maker.attr("block_size", 0)), int(maker.attr("axis", 1)) % 2
    table = [n, n]
    table[inner] = -(-k // group) if group else 1
    by_block = axis == inner and group and scale.static_shape == tuple(table)
    by_column = axis != inner and not group and scale.static_shape == (n,)
    if not (by_block or by_column or scale.elements == 1):
        return
    unsigned = weight.element_type is DType.UINT8
    packed = Constant(loader=lambda: _packed(weight, unsigned), computed=True)
    stem, form = draft.name, scale.static_shape
    offset = None
    if unsigned or zero is not None:
        moved = Constant(loader=lambda: _offset(zero, form, unsigned), computed=True)
        offset = emitter.hold(moved, DType.FLOAT32, form, f"{stem}/offset")
    shape = (weight.static_shape[0], weight.static_shape[1] // PACKED)
    held = emitter.hold(packed, DType.INT32, shape, f"{stem}/packed")
    draft.inputs = [draft.data(0), held, scale, offset]
    if bias is not None:
        draft.inputs += [None, None, bias]
    draft.op_type, draft.domain, draft.attributes = "WeightQuantBatchMatmulV2", "ascend", {}
    if flipped:
        draft.attributes["transpose_weight"] = 1
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
