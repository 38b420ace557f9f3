"""Gradients of operators that move data: the way back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ascendsim.graph.ir import Tensor
from ascendsim.opset.structure import constant_ints
from ascendsim.training.backward import ASCEND, Backward, Rule, without

Grads = Sequence["Tensor | None"]


def _known(step: Backward, port: int, what: str) -> tuple[int, ...]:
    values = constant_ints(step.node.input(port))
    if values is None:
        step.refuse(f"needs {what} that are known", remedy="make them a constant")
    return values


def _reshape(step: Backward) -> Grads:
    return (step.reshaped(step.grad, step.node.required(0).static_shape),)


def _transpose(step: Backward) -> Grads:
    rank = len(step.node.required(0).static_shape)
    order = step.node.attr("perm", tuple(reversed(range(rank))))
    return (step.op("Transpose", step.grad, perm=[int(axis) for axis in np.argsort(order)]),)


def _concat(step: Backward) -> Grads:
    """A slice for each input, as MindSpore has it (gradConcat/Slice in profiles of ViT on Ascend910B) and
    PyTorch (narrow).
    """
    axis = int(step.node.attr("axis", 0))
    sizes = [tensor.static_shape[axis] for tensor in step.node.inputs if tensor is not None]
    if len(sizes) == 1:
        return (step.grad,)
    ends = list(accumulate(sizes))
    return [
        step.op("Slice", step.grad, [end - size], [end], [axis])
        for size, end in zip(sizes, ends, strict=True)
    ]


def _split(step: Backward) -> Grads:
    parts = [step.grad_or_zeros(output) for output in range(len(step.node.outputs))]
    return (step.op("Concat", *parts, axis=int(step.node.attr("axis", 0))),)


def _slice(step: Backward) -> Grads:
    node, shape = step.node, step.node.required(0).static_shape
    starts, ends = _known(step, 1, "starts"), _known(step, 2, "ends")
    axes = range(len(starts)) if node.input(3) is None else _known(step, 3, "axes")
    strides = (1,) * len(starts) if node.input(4) is None else _known(step, 4, "steps")
    begin, end, pace = [0] * len(shape), list(shape), [1] * len(shape)
    for first, last, axis, stride in zip(starts, ends, axes, strides, strict=True):
        size = shape[axis]
        low, high, _ = slice(first, last, stride).indices(size)
        place = axis % len(shape)
        begin[place], pace[place] = low, stride
        end[place] = high if high >= 0 else -size - 1  # in front of the first element
    return (_placed(step, shape, begin, end, pace, step.grad),)


def _placed(
    step: Backward,
    shape: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    pace: Sequence[int],
    grad: Tensor,
) -> Tensor:
    """Zeros with the gradient where it was cut out."""
    cut = (list(shape), list(begin), list(end), list(pace))
    return step.op("StridedSliceGrad", *cut, grad, domain=ASCEND)


@without(2)
def _pad(step: Backward) -> Grads:
    node, shape = step.node, step.node.required(0).static_shape
    if node.attr("mode", "constant") != "constant":
        step.refuse("is known for mode constant only", repr(node.attr("mode")))
    pads = _known(step, 1, "pads")
    axes = list(range(len(shape))) if node.input(3) is None else list(_known(step, 3, "axes"))
    before, after = pads[: len(axes)], pads[len(axes) :]
    if min(pads, default=0) < 0:
        return (step.op("Pad", step.grad, [-size for size in pads], None, axes),)
    kept = [shape[axis] for axis in axes]
    ends = [low + size for low, size in zip(before, kept, strict=True)]
    return (step.op("Slice", step.grad, list(before), ends, axes) if any((*before, *after)) else step.grad,)


def _expand(step: Backward) -> Grads:
    return (step.folded(step.grad, 0),)


def _tile(step: Backward) -> Grads:
    shape, repeats = step.node.required(0).static_shape, _known(step, 1, "repeats")
    apart = [size for pair in zip(repeats, shape, strict=True) for size in pair]
    axes = list(range(0, len(apart), 2))
    grad = step.op("ReduceSum", step.reshaped(step.grad, apart), axes, keepdims=0) if axes else step.grad
    return (step.reshaped(grad, shape),)


def _summed_rows(step: Backward, rows: Tensor, indices: Tensor, count: int) -> Tensor:
    """Rows added up by their index; no index is left out."""
    attributes = {"num_weights": count, "padding_idx": int(np.iinfo(np.int32).min)}
    return step.op("EmbeddingDenseGrad", rows, indices, domain=ASCEND, **attributes)


def _gather(step: Backward) -> Grads:
    """Rows that came from one place are added up there."""
    node, data, indices = step.node, step.node.required(0), step.node.required(1)
    shape = data.static_shape
    axis, picks = int(node.attr("axis", 0)) % len(shape), len(indices.static_shape)
    known = constant_ints(indices)
    if known is not None:
        known = tuple(index % shape[axis] for index in known)
        if len(known) == 1:  # one slice
            begin = [known[0] if place == axis else 0 for place in range(len(shape))]
            end = [known[0] + 1 if place == axis else size for place, size in enumerate(shape)]
            slab = step.reshaped(
                step.grad, [1 if place == axis else size for place, size in enumerate(shape)]
            )
            return (_placed(step, shape, begin, end, [1] * len(shape), slab),)
    others = [size for place, size in enumerate(shape) if place != axis]
    count, width = math.prod(indices.static_shape), math.prod(others)
    grad = step.grad
    if axis:
        order = [*range(axis, axis + picks), *range(axis), *range(axis + picks, len(grad.static_shape))]
        grad = step.op("Transpose", grad, perm=order)
    rows = step.reshaped(grad, (count, width))
    places = (
        step.reshaped(indices, (count,))
        if known is None
        else step.constant(np.array(known).reshape(-1), indices)
    )
    whole = step.reshaped(_summed_rows(step, rows, places, shape[axis]), (shape[axis], *others))
    if axis:
        whole = step.op("Transpose", whole, perm=[*range(1, axis + 1), 0, *range(axis + 1, len(shape))])
    return (whole,)


def _gather_nd(step: Backward) -> Grads:
    node, data, indices = step.node, step.node.required(0), step.node.required(1)
    if node.attr("batch_dims", 0):
        step.refuse("is known for batch_dims 0 only", node.attr("batch_dims"))
    shape, places = data.static_shape, indices.static_shape
    depth, known = places[-1], constant_ints(indices)
    if known is None:
        return (step.op("ScatterND", step.full(shape, 0.0, data), indices, step.grad, reduction="add"),)
    lead, count, width = shape[:depth], math.prod(places[:-1]), math.prod(shape[depth:])
    table = np.array(known).reshape(count, depth) % np.array(lead)
    flat = np.ravel_multi_index(tuple(table.T), lead)
    rows = step.reshaped(step.grad, (count, width))
    summed = _summed_rows(step, rows, step.constant(flat, indices), math.prod(lead))
    return (step.reshaped(summed, shape),)


def _gather_elements(step: Backward) -> Grads:
    data, axis = step.node.required(0), int(step.node.attr("axis", 0))
    zeros = step.full(data.static_shape, 0.0, data)
    scattered = ("ScatterElements", zeros, step.node.required(1), step.grad)
    return (step.op(*scattered, axis=axis, reduction="add"),)


def _depth_to_space(step: Backward) -> Grads:
    block = int(step.node.attr("blocksize", 1))
    if step.node.attr("mode", "DCR") == "DCR":
        return (step.op("SpaceToDepth", step.grad, blocksize=block),)
    batch, channels, height, width = step.node.required(0).static_shape
    apart = (batch, channels // block**2, height, block, width, block)
    grad = step.op("Transpose", step.reshaped(step.grad, apart), perm=[0, 1, 3, 5, 2, 4])
    return (step.reshaped(grad, (batch, channels, height, width)),)


def _space_to_depth(step: Backward) -> Grads:
    return (step.op("DepthToSpace", step.grad, blocksize=int(step.node.attr("blocksize", 1))),)


@without(1)
def _dropout(step: Backward) -> Grads:
    """What was let through, by the factor that it was let through with."""
    node = step.node
    mode = node.input(2)
    on = constant_ints(mode) if mode is not None else (0,)
    if on is None:
        step.refuse("needs a training mode that is known", remedy="make it a constant")
    if not on[0]:
        return (step.grad,)
    ratio = node.input(1)
    share = 0.5
    if ratio is not None:
        if ratio.constant is None:
            step.refuse("needs a ratio that is known", remedy="make it a constant")
        share = float(ratio.constant.array().reshape(-1)[0])
    mask = step.op("Cast", step.extra_outputs(2)[1], to=step.grad.element_type)
    return (step.op("Mul", step.op("Mul", step.grad, mask), 1 / (1 - share)),)


RULES: dict[tuple[str, str], Rule] = {
    **dict.fromkeys([("", name) for name in ("Reshape", "Flatten", "Squeeze", "Unsqueeze")], _reshape),
    ("", "Transpose"): _transpose,
    ("", "Concat"): _concat,
    ("", "Split"): _split,
    ("", "Slice"): _slice,
    ("", "Pad"): _pad,
    ("", "Expand"): _expand,
    ("", "Tile"): _tile,
    ("", "Gather"): _gather,
    ("", "GatherND"): _gather_nd,
    ("", "GatherElements"): _gather_elements,
    ("", "DepthToSpace"): _depth_to_space,
    ("", "SpaceToDepth"): _space_to_depth,
    ("", "Dropout"): _dropout,
}
