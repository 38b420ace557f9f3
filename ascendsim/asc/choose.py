"""Vector instructions that choose and rearrange: comparisons, selections, gathers, transpositions, copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from ascendsim.asc.groups import emit, started
from ascendsim.asc.lanes import (
    Given,
    Shape,
    check_count,
    check_operands,
    check_type,
    same_types,
    shape_of,
)
from ascendsim.asc.params import (
    BinaryRepeatParams,
    CopyRepeatParams,
    TransDataTo5HDParams,
    TransposeParamsExt,
    UnaryRepeatParams,
)
from ascendsim.asc.recorder import Recorder, fail
from ascendsim.asc.tensors import LocalTensor
from ascendsim.asc.types import CMPMODE, SelMode, TransposeType
from ascendsim.asc.vector import scalar_bits
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES, REPEAT_BYTES
from ascendsim.isa.effects import Box, Effect, full_mask, row
from ascendsim.isa.instructions import Buffer

ROWS = 16  # of one transposition


def _bits_of(shape: Shape, lanes: int) -> int:
    """Bytes that hold a bit for every lane; each repeat has a whole number of its own."""
    return -(-shape.count // 8) if shape.count else shape.times * lanes // 8


def _strides(
    frame: FrameType, name: str, given: Given, kind: type, fields: Sequence[tuple[str, str]]
) -> list[tuple[int, int]]:
    """Distances of the operands between blocks and between repeats."""
    _, times, params, _ = given
    if times is None or isinstance(times, bool):
        return [(1, 8)] * len(fields)
    if not isinstance(params, kind):
        raise fail(frame, name, f"takes {kind.__name__} with repeats", type(params).__name__)
    return [(getattr(params, block), getattr(params, between)) for block, between in fields]


_TWO = [("src0_blk_stride", "src0_rep_stride"), ("src1_blk_stride", "src1_rep_stride")]
_THREE = [("dst_blk_stride", "dst_rep_stride"), *_TWO]


def _in_repeats(shape: Shape, itemsize: int) -> Shape:
    """A call in repeats whose lanes are all of a repeat's: the mask says which take part."""
    return shape if shape.count else Shape(0, shape.times, REPEAT_BYTES // itemsize, shape.mask)


def compare(
    dst: LocalTensor,
    src0: LocalTensor,
    src1: LocalTensor,
    cmp_mode: CMPMODE,
    count: Any = None,
    repeat_times: Any = None,
    repeat_params: Any = None,
    is_set_mask: bool = True,
    *,
    mask: Any = None,
) -> None:
    """One bit a lane: whether src0 stands in a relation to src1."""
    recorder, frame = started("compare")
    given = _given(count, repeat_times, repeat_params, mask)

    def make() -> Effect:
        check_operands(frame, "compare", (("dst", dst), ("src0", src0), ("src1", src1)))
        same_types(frame, "compare", (src0, src1))
        strides = _strides(frame, "compare", given, BinaryRepeatParams, _TWO)
        return _comparison(recorder, frame, "compare", (dst, src0, src1), cmp_mode, (given, strides))

    emit(recorder, frame, "compare", (cmp_mode, given), make, (dst, src0, src1))


def compare_scalar(
    dst: LocalTensor,
    src0: LocalTensor,
    src1_scalar: float,
    cmp_mode: CMPMODE,
    count: Any = None,
    repeat_times: Any = None,
    repeat_params: Any = None,
    is_set_mask: bool = True,
    *,
    mask: Any = None,
) -> None:
    """One bit a lane: whether src0 stands in a relation to a number."""
    recorder, frame = started("compare_scalar")
    given = _given(count, repeat_times, repeat_params, mask)

    def make() -> Effect:
        check_operands(frame, "compare_scalar", (("dst", dst), ("src0", src0)))
        fields = [("src_blk_stride", "src_rep_stride")]
        strides = _strides(frame, "compare_scalar", given, UnaryRepeatParams, fields)
        return _comparison(recorder, frame, "compare_scalar", (dst, src0), cmp_mode, (given, strides))

    operand: Any = src0  # `make` refuses what is no tensor
    bits = scalar_bits(frame, "compare_scalar", src1_scalar, src0) if isinstance(operand, LocalTensor) else 0
    emit(recorder, frame, "compare_scalar", (cmp_mode, given), make, (dst, src0), scalars=(bits,))


def _comparison(
    recorder: Recorder,
    frame: FrameType,
    name: str,
    tensors: Sequence[LocalTensor],
    mode: Any,
    how: tuple[Given, list[tuple[int, int]]],
) -> Effect:
    given, strides = how
    if not isinstance(mode, CMPMODE):
        raise fail(frame, name, "takes a CMPMODE", repr(mode), "write asc.CMPMODE.LT")
    sources = tensors[1:]
    dtype = sources[0].dtype.kind
    intrinsic = ("vcmpv_" if len(sources) == 2 else "vcmpvs_") + mode.name.lower()
    check_type(recorder, frame, name, intrinsic, dtype)
    shape = _in_repeats(shape_of(frame, name, given, dtype.itemsize, strides), dtype.itemsize)
    if shape.count * dtype.itemsize % REPEAT_BYTES:
        lanes = REPEAT_BYTES // dtype.itemsize
        raise fail(
            frame,
            name,
            f"takes a count of whole repeats ({lanes} elements of {dtype.value})",
            shape.count,
            "round it up; what the last bits say does not matter",
        )
    size = _bits_of(shape, REPEAT_BYTES // dtype.itemsize)
    return Effect(
        "compare",
        mode.name,
        intrinsic,
        (Box(Buffer.UB, "", DType.UINT8, row(size, DType.UINT8)),),
        tuple([one.box(shape.dims(dtype, *pair)) for one, pair in zip(sources, strides, strict=True)]),
        scalars=2 - len(sources),
        mask=shape.mask,
        parameters=shape.parameters,
    )


def select(
    dst: LocalTensor,
    sel_mask: LocalTensor,
    src0: LocalTensor,
    src1: Any,
    sel_mode: SelMode,
    count: Any = None,
    repeat_times: Any = None,
    repeat_params: Any = None,
    is_set_mask: bool = True,
    *,
    mask: Any = None,
) -> None:
    """Lanes of src0 where a bit is set, elsewhere those of src1 or a number."""
    recorder, frame = started("select")
    given = _given(count, repeat_times, repeat_params, mask)
    number = not isinstance(src1, LocalTensor)
    operands = (dst, sel_mask, src0) if number else (dst, sel_mask, src0, src1)

    def make() -> Effect:
        words = ("dst", "sel_mask", "src0", "src1")
        check_operands(frame, "select", tuple(zip(words, operands, strict=False)))
        dtype = same_types(frame, "select", [one for one in operands if one is not sel_mask])
        check_type(recorder, frame, "select", "vsel", dtype)
        if not isinstance(sel_mode, SelMode) or number != (sel_mode is SelMode.VSEL_TENSOR_SCALAR_MODE):
            raise fail(
                frame,
                "select",
                "takes VSEL_TENSOR_SCALAR_MODE with a number, and another SelMode with two tensors",
                getattr(sel_mode, "name", sel_mode),
            )
        strides = _strides(frame, "select", given, BinaryRepeatParams, _THREE)
        shape = _in_repeats(shape_of(frame, "select", given, dtype.itemsize, strides), dtype.itemsize)
        lanes = REPEAT_BYTES // dtype.itemsize
        size = lanes // 8 if sel_mode is SelMode.VSEL_CMPMASK_SPR else _bits_of(shape, lanes)
        bits = Box(Buffer.UB, "", DType.UINT8, row(size, DType.UINT8))
        sources = [
            one.box(shape.dims(dtype, *pair)) for one, pair in zip(operands[2:], strides[1:], strict=False)
        ]
        return Effect(
            "select",
            sel_mode.name,
            "vsel",
            (dst.box(shape.dims(dtype, *strides[0])),),
            (bits, *sources),
            scalars=int(number),
            mask=shape.mask,
            parameters=(*shape.parameters, ("mode", int(sel_mode))),
        )

    scalars = (scalar_bits(frame, "select", src1, dst),) if number and isinstance(dst, LocalTensor) else ()
    emit(recorder, frame, "select", (sel_mode, given), make, operands, scalars=scalars)


def gather(
    dst: LocalTensor,
    src: LocalTensor,
    src_offset: LocalTensor,
    src_base: int,
    count: Any = None,
    repeat_times: Any = None,
    dst_rep_stride: Any = None,
    *,
    mask: Any = None,
) -> None:
    """Elements of src at byte offsets (uint32) that a tensor holds, plus a base."""
    recorder, frame = started("gather")
    given = _given(count, repeat_times, dst_rep_stride, mask)
    base = (
        check_count(frame, "gather", src_base + 1 if isinstance(src_base, int) else src_base, "src_base") - 1
    )

    def make() -> Effect:
        check_operands(frame, "gather", (("dst", dst), ("src", src), ("src_offset", src_offset)))
        dtype = same_types(frame, "gather", (dst, src))
        check_type(recorder, frame, "gather", "vgather", dtype)
        if src_offset.dtype.kind is not DType.UINT32:
            raise fail(
                frame, "gather", "takes offsets of uint32", src_offset.dtype, "reinterpret_cast the tensor"
            )
        between = 8 if repeat_times is None else dst_rep_stride
        shape = shape_of(frame, "gather", given, max(4, dtype.itemsize), ((1, between), (0, 0)))
        total = shape.count or shape.times * shape.lanes
        return Effect(
            "gather",
            "",
            "vgather",
            (dst.box(shape.dims(dtype, 1, between)),),
            (src.box(row(max(1, src.length), dtype)), src_offset.box(row(total, DType.UINT32))),
            scalars=1,
            mask=shape.mask,
            parameters=(*shape.parameters, ("elements", total)),
        )

    scalars = (int(np.float64(base).view(np.int64)),)
    length = getattr(src, "length", 0)
    emit(recorder, frame, "gather", (given, length), make, (dst, src, src_offset), scalars=scalars)


def copy(
    dst: LocalTensor,
    src: LocalTensor,
    mask: Any,
    repeat_time: int,
    repeat_params: CopyRepeatParams,
    is_set_mask: bool = True,
) -> None:
    """Copies lanes within UB, with distances between blocks and repeats."""
    recorder, frame = started("copy")
    given = _given(mask, repeat_time, repeat_params, None)

    def make() -> Effect:
        check_operands(frame, "copy", (("dst", dst), ("src", src)))
        dtype = same_types(frame, "copy", (dst, src))
        check_type(recorder, frame, "copy", "vcopy", dtype)
        fields = [("dst_stride", "dst_repeat_size"), ("src_stride", "src_repeat_size")]
        strides = _strides(frame, "copy", given, CopyRepeatParams, fields)
        shape = shape_of(frame, "copy", given, dtype.itemsize, strides)
        boxes = [one.box(shape.dims(dtype, *pair)) for one, pair in zip((dst, src), strides, strict=True)]
        return Effect(
            "vector",
            "COPY",
            "vcopy",
            (boxes[0],),
            (boxes[1],),
            mask=shape.mask,
            parameters=shape.parameters,
        )

    emit(recorder, frame, "copy", given, make, (dst, src))


# --- transpositions -----------------------------------------------------------------------------------------


def transpose(dst: LocalTensor, src: LocalTensor, shared_tmp_buffer: Any = None, params: Any = None) -> None:
    """A matrix of 16 x 16 elements of two bytes becomes its transpose.

    Args:
        dst: Where to.
        src: Where from.
        shared_tmp_buffer: Room, with parameters.
        params: TransposeParamsExt: another change of order.
    """
    recorder, frame = started("transpose")
    if isinstance(params, TransposeParamsExt) and params.transpose_type in _ORDERS:
        order = params

        def changed() -> Effect:
            return _reordered(recorder, frame, (dst, shared_tmp_buffer, src), order)

        emit(recorder, frame, "transpose", (params,), changed, (dst, shared_tmp_buffer, src))
        return
    if params is not None and (
        not isinstance(params, TransposeParamsExt)
        or params.transpose_type is not TransposeType.TRANSPOSE_ND2ND_B16
    ):
        known = ", ".join(kind.name for kind in (*_ORDERS, TransposeType.TRANSPOSE_ND2ND_B16))
        raise fail(frame, "transpose", f"takes TransposeParamsExt with {known} so far", params)

    def make() -> Effect:
        check_operands(frame, "transpose", (("dst", dst), ("src", src)))
        dtype = same_types(frame, "transpose", (dst, src))
        check_type(recorder, frame, "transpose", "vtranspose", dtype)
        return _rows(dtype, 1, (0, 0), "vtranspose")

    both = [
        tensor[number * ROWS :] if isinstance(tensor, LocalTensor) else tensor
        for tensor in (dst, src)
        for number in range(ROWS)
    ]
    emit(recorder, frame, "transpose", (), make, both)


# Axes of the source in the order of the target.
_ORDERS = {TransposeType.TRANSPOSE_NCHW2NHWC: "nhwc", TransposeType.TRANSPOSE_NHWC2NCHW: "nchw"}


def _reordered(
    recorder: Recorder, frame: FrameType, tensors: tuple[Any, Any, Any], params: TransposeParamsExt
) -> Effect:
    """The effect of another order of axes: the library transposes 16 x 16 elements at a time, there and
    back.
    """
    dst, room, src = tensors
    check_operands(frame, "transpose", (("dst", dst), ("shared_tmp_buffer", room), ("src", src)))
    dtype = same_types(frame, "transpose", (dst, src))
    check_type(recorder, frame, "transpose", "vnchwconv", dtype)
    sizes = {axis: getattr(params, f"{axis}_size") for axis in "nchw"}
    for axis, size in sizes.items():
        check_count(frame, "transpose", size, f"{axis}_size")
    order = _ORDERS[params.transpose_type]
    stored = "nchw" if order == "nhwc" else "nhwc"
    steps, step = {}, dtype.itemsize
    for axis in reversed(stored):
        steps[axis] = step
        step *= sizes[axis]
    total = step // dtype.itemsize
    return Effect(
        "permute",
        "",
        "vnchwconv",
        (dst.box(row(total, dtype)), room.box(row(max(1, room.length), room.dtype.kind))),
        (src.box(tuple([(sizes[axis], steps[axis]) for axis in order])),),
        parameters=(("elements", 2 * total),),
    )


def trans_data_to_5hd(dst_list: Any, src_list: Any, params: TransDataTo5HDParams) -> None:
    """Sixteen rows of 32 bytes, wherever they lie, become columns; repeated with distances in blocks.

    Args:
        dst_list: 16 tensors, or a uint64 tensor of 16 addresses that `set_value` has put there.
        src_list: The same.
        params: Repeats.
    """
    recorder, frame = started("trans_data_to_5hd")
    name = "trans_data_to_5hd"
    rows = [*_listed(recorder, frame, dst_list), *_listed(recorder, frame, src_list)]

    def make() -> Effect:
        check_operands(frame, name, tuple(("rows", one) for one in rows))
        dtype = same_types(frame, name, rows)
        check_type(recorder, frame, name, "vnchwconv", dtype)
        if not isinstance(params, TransDataTo5HDParams):
            raise fail(frame, name, "takes TransDataTo5HDParams", type(params).__name__)
        if dtype.itemsize == 1:
            raise fail(frame, name, "takes no elements of one byte yet", remedy="cast them to float16")
        times = check_count(frame, name, params.repeat_times, "repeat_times")
        steps = (params.dst_rep_stride, params.src_rep_stride) if times > 1 else (0, 0)
        return _rows(dtype, times, steps, "vnchwconv")

    emit(recorder, frame, name, (params,), make, rows)


def _rows(dtype: DType, times: int, steps: tuple[int, int], intrinsic: str) -> Effect:
    """The effect of a transposition of rows that each have an address of their own."""
    each = BLOCK_BYTES // dtype.itemsize

    def box(step: int) -> Box:
        return Box(Buffer.UB, "", dtype, ((times, step * BLOCK_BYTES), (1, 0), (each, dtype.itemsize)))

    return Effect(
        "transpose",
        "",
        intrinsic,
        (box(steps[0]),) * ROWS,
        (box(steps[1]),) * ROWS,
        mask=full_mask(each),
        parameters=(("elements", times * ROWS * each),),
    )


def _listed(recorder: Recorder, frame: FrameType, given: Any) -> list[LocalTensor]:
    """Sixteen rows, from a list of tensors or from a tensor of their addresses."""
    name = "trans_data_to_5hd"
    if isinstance(given, LocalTensor):
        known = recorder.state.get("addresses", {})
        places = [known.get(given.address + 8 * number) for number in range(ROWS)]
        if given.dtype.kind is not DType.UINT64 or None in places:
            raise fail(
                frame, name, "takes 16 addresses of uint64", str(given.dtype), "put them there by set_value"
            )
        whole = recorder.state["tensors"]
        return [whole[place] for place in places]
    if not isinstance(given, list | tuple) or len(given) != ROWS:
        raise fail(frame, name, f"takes {ROWS} tensors", type(given).__name__, "write a list of them")
    return list(given)


def _given(count: Any, times: Any, params: Any, mask: Any) -> Given:
    """What a call was given, so that it can be looked up."""
    return (
        tuple(count) if type(count) is list else count,
        times,
        params,
        tuple(mask) if type(mask) is list else mask,
    )


NAMES: dict[str, Callable[..., None]] = {
    "compare": compare,
    "compare_scalar": compare_scalar,
    "select": select,
    "gather": gather,
    "copy": copy,
    "transpose": transpose,
    "trans_data_to_5hd": trans_data_to_5hd,
}
