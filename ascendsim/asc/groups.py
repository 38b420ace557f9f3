"""Vector instructions whose results lie elsewhere than their operands: reductions, broadcasts of single
elements, comparisons, selections, gathers, transpositions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import _getframe
from types import FrameType
from typing import Any

from ascendsim.asc.lanes import (
    MOST_REPEATS,
    Given,
    check_count,
    check_operands,
    check_type,
    same_types,
    shape_of,
    unaligned,
)
from ascendsim.asc.params import BrcbRepeatParams
from ascendsim.asc.recorder import STATE, Recorder, fail, outside
from ascendsim.asc.tensors import LocalTensor, beyond
from ascendsim.asc.types import ReduceOrder
from ascendsim.core.formats import BLOCK_BYTES, REPEAT_BYTES
from ascendsim.isa.effects import REPEAT_BLOCKS, Effect, full_mask, repeats, row
from ascendsim.isa.forms import Form
from ascendsim.isa.instructions import Pipe

_WHOLE = {"sum": ("SUM", "vcadd"), "max": ("MAX", "vcmax"), "min": ("MIN", "vcmin")}
_BLOCK = {"sum": ("SUM", "vcgadd"), "max": ("MAX", "vcgmax"), "min": ("MIN", "vcgmin")}
Make = Callable[[], Effect]


def emit(
    recorder: Recorder,
    frame: FrameType,
    name: str,
    key: tuple[Any, ...],
    make: Make,
    tensors: Sequence[Any],
    *,
    scalars: Sequence[int] = (),
    loose: Sequence[int] = (),
) -> None:
    """Adds a row, and its form where it is new.

    Args:
        recorder: The core.
        frame: Where the call stands.
        name: The call.
        key: What the form depends on besides the place in the text and the operands.
        make: Checks the call and gives its effect.
        tensors: Operands, targets first.
        scalars: As rows hold them.
        loose: Numbers of operands that need not start with a block.
    """
    try:
        whole = (name, id(frame.f_code), frame.f_lasti, key, *[tensor.sort for tensor in tensors])
        form = recorder.known[whole]
    except (KeyError, TypeError, AttributeError):
        effect = make()
        form = recorder.forms.add(whole, frame, name, Pipe.V, effect)
    _check_places(recorder, frame, name, form, tensors, loose)
    recorder.values += [tensor.address for tensor in tensors]
    recorder.values += scalars
    recorder.instruction(form)


def _check_places(
    recorder: Recorder,
    frame: FrameType,
    name: str,
    form: Form,
    tensors: Sequence[Any],
    loose: Sequence[int],
) -> None:
    assert form.effect is not None
    for number, (tensor, end) in enumerate(zip(tensors, form.ends, strict=True)):
        verb = "writes" if number < len(form.effect.writes) else "reads"
        grain = tensor.dtype.bytes if number in loose else BLOCK_BYTES
        if tensor.address + end > tensor.piece.end:
            beyond(recorder, frame, name, (verb, tensor, end))
        if tensor.address & (grain - 1):
            raise unaligned(frame, name, verb, tensor, grain)


def started(name: str) -> tuple[Recorder, FrameType]:
    """The core that records, and where the call of the function that asks stands."""
    recorder = STATE.recorder
    if recorder is None:
        raise outside(name)
    return recorder, _getframe(2)


# --- reductions ---------------------------------------------------------------------------------------------


def _reduction(
    recorder: Recorder,
    frame: FrameType,
    name: str,
    what: tuple[str, str],
    tensors: tuple[Any, Any],
    how: tuple[Any, ...],
) -> Effect:
    """The effect of a reduction.

    Args:
        recorder: The core.
        frame: Where the call stands.
        name: The call.
        what: Op and intrinsic.
        tensors: Target and source.
        how: Lanes of a group in bytes, what is written, mask, repeats, strides of the target (in its unit)
            and of the source, between blocks and between repeats.
    """
    group, order, mask, times, dst_stride, block, between = how
    check_operands(frame, name, (("dst", tensors[0]), ("src", tensors[1])))
    dtype = same_types(frame, name, tensors)
    op, intrinsic = what
    check_type(recorder, frame, name, intrinsic, dtype)
    check_count(frame, name, dst_stride + 1, "dst_rep_stride")
    shape = shape_of(frame, name, (mask, times, None, None), dtype.itemsize, ((block, between), (0, 0)))
    groups = -(-shape.lanes * dtype.itemsize // group)
    written = 2 if order in (ReduceOrder.ORDER_VALUE_INDEX, ReduceOrder.ORDER_INDEX_VALUE) else groups
    unit = written if group == REPEAT_BYTES else REPEAT_BYTES // group  # what strides of the target count
    to = ((shape.times, dst_stride * unit * dtype.itemsize), (1, 0), (written, dtype.itemsize))
    return Effect(
        "reduce",
        op,
        intrinsic,
        (tensors[0].box(to),),
        (tensors[1].box(repeats(shape.times, block, between, dtype, shape.lanes)),),
        mask=shape.mask,
        parameters=(
            *shape.parameters,
            ("group", group // dtype.itemsize),
            ("order", int(order)),
        ),
    )


def _whole_reduce(kind: str) -> Callable[..., None]:
    name = f"whole_reduce_{kind}"

    def call(
        dst: LocalTensor,
        src: LocalTensor,
        mask: Any,
        repeat_time: int,
        dst_rep_stride: int,
        src_blk_stride: int,
        src_rep_stride: int,
        order: ReduceOrder = ReduceOrder.ORDER_VALUE_INDEX,
        is_set_mask: bool = True,
    ) -> None:
        recorder, frame = started(name)
        if kind == "sum":
            order = ReduceOrder.ORDER_ONLY_VALUE
        mask = tuple(mask) if type(mask) is list else mask
        how = (REPEAT_BYTES, order, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride)

        def make() -> Effect:
            return _reduction(recorder, frame, name, _WHOLE[kind], (dst, src), how)

        emit(recorder, frame, name, how, make, (dst, src), loose=(0,))

    return named(call, name, "Each repeat becomes one element (of max and min: with its index)")


def _block_reduce(kind: str) -> Callable[..., None]:
    name = f"block_reduce_{kind}"

    def call(
        dst: LocalTensor,
        src: LocalTensor,
        repeat: int,
        mask: Any,
        dst_rep_stride: int,
        src_blk_stride: int,
        src_rep_stride: int,
    ) -> None:
        recorder, frame = started(name)
        mask = tuple(mask) if type(mask) is list else mask
        order = ReduceOrder.ORDER_ONLY_VALUE
        how = (BLOCK_BYTES, order, mask, repeat, dst_rep_stride, src_blk_stride, src_rep_stride)

        def make() -> Effect:
            return _reduction(recorder, frame, name, _BLOCK[kind], (dst, src), how)

        emit(recorder, frame, name, how, make, (dst, src), loose=(0,))

    return named(call, name, "Each block of 32 bytes becomes one element")


def pair_reduce_sum(
    dst: LocalTensor,
    src: LocalTensor,
    repeat_time: int,
    mask: Any,
    dst_rep_stride: int,
    src_blk_stride: int,
    src_rep_stride: int,
    is_set_mask: bool = True,
) -> None:
    """Each two neighbours become their sum."""
    recorder, frame = started("pair_reduce_sum")
    mask = tuple(mask) if type(mask) is list else mask
    pair = 2 * src.dtype.bytes if isinstance(src, LocalTensor) else 0
    order = ReduceOrder.ORDER_ONLY_VALUE
    how = (pair, order, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride)

    def make() -> Effect:
        return _reduction(recorder, frame, "pair_reduce_sum", ("SUM", "vcpadd"), (dst, src), how)

    emit(recorder, frame, "pair_reduce_sum", how, make, (dst, src), loose=(0,))


def repeat_reduce_sum(
    dst: LocalTensor,
    src: LocalTensor,
    repeat_time: int,
    mask: Any,
    dst_blk_stride: int,
    src_blk_stride: int,
    dst_rep_stride: int,
    src_rep_stride: int,
    is_set_mask: bool = True,
) -> None:
    """Each repeat becomes its sum; the target's distance between blocks does not matter."""
    recorder, frame = started("repeat_reduce_sum")
    mask = tuple(mask) if type(mask) is list else mask
    order = ReduceOrder.ORDER_ONLY_VALUE
    how = (REPEAT_BYTES, order, mask, repeat_time, dst_rep_stride, src_blk_stride, src_rep_stride)

    def make() -> Effect:
        return _reduction(recorder, frame, "repeat_reduce_sum", _WHOLE["sum"], (dst, src), how)

    emit(recorder, frame, "repeat_reduce_sum", how, make, (dst, src), loose=(0,))


def _reduce(kind: str) -> Callable[..., None]:
    """A reduction of any number of elements: as the library does it, in levels of instructions.

    Every level reduces whole repeats to one element each, into the room for intermediate values, until one
    element is left.
    """
    name = f"reduce_{kind}"

    def call(
        dst: LocalTensor,
        src: LocalTensor,
        shared_tmp_buffer: LocalTensor,
        count: Any = None,
        repeat_time: Any = None,
        src_rep_stride: Any = None,
        cal_index: bool = False,
        *,
        mask: Any = None,
    ) -> None:
        recorder, frame = started(name)
        if isinstance(repeat_time, bool):
            cal_index, repeat_time = repeat_time, None
        operands = (("dst", dst), ("src", src), ("shared_tmp_buffer", shared_tmp_buffer))
        check_operands(frame, name, operands)
        if cal_index:
            _with_index(recorder, frame, name, (dst, src, shared_tmp_buffer), (repeat_time, count))
            return
        if repeat_time is not None:
            _reduce_repeats(
                recorder,
                frame,
                name,
                (dst, src, shared_tmp_buffer),
                (mask, count, repeat_time, src_rep_stride),
            )
            return
        _levels(recorder, frame, name, (dst, src, shared_tmp_buffer), check_count(frame, name, count))

    def _with_index(
        recorder: Recorder, frame: FrameType, name: str, tensors: tuple[Any, Any, Any], given: tuple[Any, Any]
    ) -> None:
        times, count = given
        if times is not None or kind == "sum":
            raise fail(
                frame, name, "gives an index with a count only, and of max and min", remedy="give a count"
            )

        def make() -> Effect:
            dst, src, room = tensors
            dtype = same_types(frame, name, tensors)
            check_type(recorder, frame, name, _WHOLE[kind][1], dtype)
            number = check_count(frame, name, count)
            pairs = 2 * -(-number // (REPEAT_BYTES // dtype.itemsize))  # of all repeats, on their way
            writes = (dst.box(row(2, dtype)), room.box(row(pairs, dtype)))
            reads = (src.box(row(number, dtype)),)
            order = (("order", int(ReduceOrder.ORDER_VALUE_INDEX)), ("group", number))
            return Effect("reduce", *_WHOLE[kind], writes, reads, parameters=order)

        dst, src, room = tensors
        emit(recorder, frame, name, (count, "index"), make, (dst, room, src), loose=(0,))

    def _reduce_repeats(
        recorder: Recorder, frame: FrameType, name: str, tensors: tuple[Any, Any, Any], given: Given
    ) -> None:
        dst, src, room = tensors
        mask, count, times, stride = given
        chosen = count if mask is None else mask
        chosen = tuple(chosen) if type(chosen) is list else chosen
        target = dst if times == 1 else room
        _level(recorder, frame, name, (target, src), (chosen, times, stride))
        if times > 1:
            _levels(recorder, frame, name, (dst, room, room), times)

    def _levels(
        recorder: Recorder, frame: FrameType, name: str, tensors: tuple[Any, Any, Any], count: int
    ) -> None:
        dst, source, room = tensors
        lanes = REPEAT_BYTES // source.dtype.bytes
        while True:
            whole, rest = divmod(count, lanes)
            results = whole + (1 if rest else 0)
            target = dst if results == 1 else room
            for start in range(0, whole, MOST_REPEATS):
                times = min(MOST_REPEATS, whole - start)
                _level(recorder, frame, name, (target[start:], source[start * lanes :]), (lanes, times, 8))
            if rest:
                _level(recorder, frame, name, (target[whole:], source[whole * lanes :]), (rest, 1, 8))
            if results == 1:
                return
            source, count = room, results

    def _level(
        recorder: Recorder, frame: FrameType, name: str, tensors: tuple[Any, Any], given: tuple[Any, Any, Any]
    ) -> None:
        mask, times, stride = given
        how = (REPEAT_BYTES, ReduceOrder.ORDER_ONLY_VALUE, mask, times, 1, 1, stride)

        def make() -> Effect:
            return _reduction(recorder, frame, name, _WHOLE[kind], tensors, how)

        emit(recorder, frame, name, how, make, tensors, loose=(0,))

    return named(call, name, f"The {kind} of `count` elements, by way of room for intermediate values")


# --- elements that become blocks ----------------------------------------------------------------------------


def brcb(dst: LocalTensor, src0: LocalTensor, repeat_times: int, repeat_params: BrcbRepeatParams) -> None:
    """Each of eight elements a repeat fills a block of 32 bytes."""
    recorder, frame = started("brcb")

    def make() -> Effect:
        check_operands(frame, "brcb", (("dst", dst), ("src0", src0)))
        dtype = same_types(frame, "brcb", (dst, src0))
        check_type(recorder, frame, "brcb", "vbrcb", dtype)
        times = check_count(frame, "brcb", repeat_times, "repeat_times")
        if times > MOST_REPEATS:
            raise fail(frame, "brcb", f"repeats at most {MOST_REPEATS} times", times, "split the call")
        if not isinstance(repeat_params, BrcbRepeatParams):
            raise fail(frame, "brcb", "takes BrcbRepeatParams", type(repeat_params).__name__)
        lanes = REPEAT_BYTES // dtype.itemsize
        to = repeats(times, repeat_params.dst_blk_stride, repeat_params.dst_rep_stride, dtype, lanes)
        return Effect(
            "broadcast",
            "",
            "vbrcb",
            (dst.box(to),),
            (src0.box(row(times * REPEAT_BLOCKS, dtype)),),
            mask=full_mask(lanes),
            parameters=(("lanes", lanes), ("repeats", times)),
        )

    emit(recorder, frame, "brcb", (repeat_times, repeat_params), make, (dst, src0))


def named(call: Callable[..., None], name: str, text: str) -> Callable[..., None]:
    """A function with its public name and a text."""
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{text}."
    return call


NAMES: dict[str, Callable[..., None]] = {
    **{f"whole_reduce_{kind}": _whole_reduce(kind) for kind in _WHOLE},
    **{f"block_reduce_{kind}": _block_reduce(kind) for kind in _BLOCK},
    **{f"reduce_{kind}": _reduce(kind) for kind in _WHOLE},
    "pair_reduce_sum": pair_reduce_sum,
    "repeat_reduce_sum": repeat_reduce_sum,
    "brcb": brcb,
}
