"""Primitives that move elements, reduce axes, or look for elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ascendsim.frontends.mindir.values import Ref
from ascendsim.frontends.mindir.writer import Call, WriteCall

_REDUCTIONS = {
    "MeanExt": "ReduceMean",
    "ReduceMax": "ReduceMax",
    "ReduceMean": "ReduceMean",
    "ReduceMin": "ReduceMin",
    "ReduceSum": "ReduceSum",
    "SumExt": "ReduceSum",
}
_LIMIT = (1 << 63) - 1


def _listed(kind: str, name: str) -> WriteCall:
    """An operator that reads a list of integers as its second input."""

    def write(call: Call) -> Any:
        return call.emit(kind, [call.tensor(0), call.list(call.integers(1, name))])

    return write


def _flatten(call: Call) -> Any:
    return call.emit("Flatten", [call.tensor(0)], axis=1)


def _transpose(call: Call) -> Any:
    return call.emit("Transpose", [call.tensor(0)], perm=call.integers(1, "input_perm"))


def _squeeze(call: Call) -> Any:
    axes = call.integers(1, "axis", ())
    return call.emit("Squeeze", [call.tensor(0), call.list(axes)] if axes else [call.tensor(0)])


def _reduction(call: Call) -> Any:
    kind = call.form.dtype if call.kind.endswith("Ext") else None  # those may change the type
    inputs, axes = [call.tensor(0, kind)], call.value(1, "axis", ())
    if axes not in (None, ()):
        inputs.append(call.list(call.integers(1, "axis")))
    return call.emit(_REDUCTIONS[call.kind], inputs, keepdims=int(bool(call.value(2, "keep_dims", False))))


def _gather(call: Call) -> Any:
    if call.value(3, "batch_dims", 0):
        raise call.wrong("must not have batch_dims", call.value(3, "batch_dims"))
    return call.emit("Gather", [call.tensor(0), call.tensor(1)], axis=call.integer(2, "axis", 0))


def _parts(call: Call) -> tuple[list[str], int]:
    """Tensors that are joined (in a tuple, or one after another), and the axis."""
    return [ref.name for ref in call.refs(0)], call.integer(1, "axis", 0)


def _concat(call: Call) -> Any:
    parts, axis = _parts(call)
    return call.emit("Concat", parts, axis=axis)


def _stack(call: Call) -> Any:
    parts, axis = _parts(call)
    axes = call.list([axis])
    return call.emit("Concat", [call.step("Unsqueeze", [part, axes]) for part in parts], axis=axis)


def _split(call: Call) -> Any:
    return call.emit_many(
        "Split", [call.tensor(0)], axis=call.integer(1, "axis", 0), num_outputs=call.integer(2, "output_num")
    )


def _strided_slice(call: Call) -> Any:
    """Bits of the masks mark axes that begin or end where the tensor does, that go away, or are new."""
    begin, end, step = (call.integers(at, name) for at, name in ((1, "begin"), (2, "end"), (3, "strides")))
    masks = [
        call.integer(at, name, 0)
        for at, name in ((4, "begin_mask"), (5, "end_mask"), (6, "ellipsis_mask"), (7, "new_axis_mask"))
    ]
    drop = call.integer(8, "shrink_axis_mask", 0)
    if masks[2] or masks[3]:
        raise call.wrong("must have no ellipsis_mask and no new_axis_mask")
    if not len(begin) == len(end) == len(step) <= len(call.ref(0).dims) or 0 in step:
        raise call.wrong("needs a begin, an end and a stride for each axis", list(step))
    starts, ends, gone = list(begin), list(end), []
    for axis in range(len(begin)):
        bit = 1 << axis
        if drop & bit:
            gone.append(axis)
            ends[axis] = begin[axis] + 1 or _LIMIT  # behind the last one is the end, not the beginning
            continue
        if masks[0] & bit:
            starts[axis] = 0 if step[axis] > 0 else _LIMIT
        if masks[1] & bit:
            ends[axis] = _LIMIT if step[axis] > 0 else -_LIMIT
    strides = [1 if axis in gone else value for axis, value in enumerate(step)]
    lists = [call.list(item) for item in (starts, ends, list(range(len(begin))), strides)]
    if not gone:
        return call.emit("Slice", [call.tensor(0), *lists])
    return call.emit("Squeeze", [call.step("Slice", [call.tensor(0), *lists]), call.list(gone)])


def _slice(call: Call) -> Any:
    begin, size = call.integers(1, "begin"), call.integers(2, "size")
    if len(begin) != len(size):
        raise call.wrong("needs a begin and a size for each axis", list(size))
    ends = [_LIMIT if length < 0 else at + length for at, length in zip(begin, size, strict=True)]
    return call.emit("Slice", [call.tensor(0), call.list(begin), call.list(ends)])


def _pad(call: Call) -> Any:
    pairs = call.value(-1, "paddings")
    if not isinstance(pairs, tuple) or not all(
        isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(side, int) for side in pair)
        for pair in pairs
    ):
        raise call.wrong("needs paddings of each axis", str(pairs))
    return call.emit("Pad", [call.tensor(0), call.list([pair[end] for end in (0, 1) for pair in pairs])])


def _resize(call: Call) -> Any:
    size, corners, centres = (
        call.integers(1, "size"),
        call.value(2, "align_corners"),
        call.value(3, "centres"),
    )
    dims, nearest = call.ref(0).dims, call.kind.startswith("ResizeNearest")
    if len(dims) != 4 or len(size) != 2:
        raise call.wrong("needs a tensor of four axes and a size of two", list(size))
    mode = "align_corners" if corners else "half_pixel" if centres else "asymmetric"
    attributes = {"mode": "nearest" if nearest else "linear", "coordinate_transformation_mode": mode}
    if nearest:
        attributes["nearest_mode"] = "round_prefer_ceil" if corners else "floor"
    # two axes of sizes alone, so that the batch stays free
    return call.emit("Resize", [call.tensor(0), "", "", call.list(size)], axes=[2, 3], **attributes)


def _arg_with_value(call: Call) -> Any:
    axis, keep = call.integer(1, "axis", 0), int(bool(call.value(2, "keep_dims", False)))
    if not isinstance(call.result, tuple) or not all(isinstance(item, Ref) for item in call.result):
        raise call.wrong("does not say what it makes")
    most = call.kind == "ArgMaxWithValue"
    x, values = call.tensor(0), call.result[-1]
    found = call.step("ArgMax" if most else "ArgMin", [x], axis=axis, keepdims=keep)
    value = call.step("ReduceMax" if most else "ReduceMin", [x, call.list([axis])], keepdims=keep)
    return (call.emit("Cast", [found], to=call.form.dtype), replace(values, name=value))


MOVEMENT: Mapping[str, WriteCall] = {
    **dict.fromkeys(_REDUCTIONS, _reduction),
    "ArgMaxWithValue": _arg_with_value,
    "ArgMinWithValue": _arg_with_value,
    "BroadcastTo": _listed("Expand", "shape"),
    "Concat": _concat,
    "ExpandDims": _listed("Unsqueeze", "axis"),
    "Flatten": _flatten,
    "Gather": _gather,
    "Pad": _pad,
    "Reshape": _listed("Reshape", "shape"),
    "ResizeBilinearV2": _resize,
    "ResizeNearestNeighborV2": _resize,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Stack": _stack,
    "StridedSlice": _strided_slice,
    "Tile": _listed("Tile", "multiples"),
    "Transpose": _transpose,
}
