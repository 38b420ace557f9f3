"""Gradient of resizing, which is linear and acts axis by axis: CANN's operator where it has one, else the
transposed matrix of every axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ascendsim.graph.ir import Array, Tensor
from ascendsim.training.backward import ASCEND, Backward, Rule, without

Grads = Sequence["Tensor | None"]


def _matrix(step: Backward, axis: int) -> Array:
    """What each element along an axis of the input adds to each one of the output, found by resizing the
    columns of the identity.
    """
    node = step.node
    shape, made = node.required(0).static_shape, node.output.static_shape
    compute = step.opset.get(node).compute
    steering = [None if tensor is None else _values(step, tensor) for tensor in node.inputs[1:]]
    columns = []
    for unit in np.eye(shape[axis]):
        place = [1] * len(shape)
        place[axis] = shape[axis]
        whole = np.broadcast_to(unit.reshape(place), shape) if _needs_all(step) else unit.reshape(place)
        resized = compute(node, [np.ascontiguousarray(whole), *steering], [np.dtype(np.float64)])[0]
        columns.append(np.moveaxis(resized, axis, 0).reshape(made[axis], -1)[:, 0])
    return np.stack(columns, axis=1)


def _needs_all(step: Backward) -> bool:
    """Whether the sizes of the other axes count for the scales of an axis."""
    return str(step.node.attr("keep_aspect_ratio_policy", "stretch")) != "stretch"


def _values(step: Backward, tensor: Tensor) -> Array:
    if tensor.constant is None:
        step.refuse(f"needs {tensor.name!r} to be known", remedy="make it a constant")
    return tensor.constant.array()


def _repeats(matrix: Array) -> bool:
    """Whether every element is only repeated, all as often."""
    made, given = matrix.shape
    return made % given == 0 and bool(np.array_equal(matrix, np.repeat(np.eye(given), made // given, axis=0)))


_GRADIENTS = {"nearest": "ResizeNearestNeighborV2Grad", "linear": "ResizeBilinearV2Grad"}
_POSITIONS = ("coordinate_transformation_mode", "nearest_mode")
_PLAIN = {"antialias": 0, "exclude_outside": 0, "keep_aspect_ratio_policy": "stretch", "axes": None}


def _on_chip(step: Backward) -> Tensor | None:
    """CANN's operator, which takes images whose height and width alone change."""
    node = step.node
    kind, transform = str(node.attr("mode", "nearest")), node.attr(_POSITIONS[0])
    shape, made = node.required(0).static_shape, node.output.static_shape
    if (
        kind not in _GRADIENTS
        or len(shape) != 4
        or shape[:2] != made[:2]
        or transform == "tf_crop_and_resize"
    ):
        return None
    if any(node.attr(name, usual) != usual for name, usual in _PLAIN.items()):
        return None
    options = {name: node.attributes[name] for name in _POSITIONS if name in node.attributes}
    scales = node.input(2)
    if scales is not None and scales.elements:
        options["scales"] = tuple(float(scale) for scale in _values(step, scales).reshape(-1)[2:])
    return step.op(_GRADIENTS[kind], step.grad, domain=ASCEND, orig_input_shape=shape, **options)


@without(1, 2)
def _resize(step: Backward) -> Grads:
    made_by_chip = _on_chip(step)
    if made_by_chip is not None:
        return (made_by_chip,)
    shape, made = step.node.required(0).static_shape, step.node.output.static_shape
    changed = [axis for axis in range(len(shape)) if shape[axis] != made[axis]]
    if changed and changed[0] < len(shape) - 2:
        step.refuse("is known for the last two axes only", f"axes {changed}")
    matrices = {axis: _matrix(step, axis) for axis in changed}
    if all(_repeats(matrix) for matrix in matrices.values()):
        apart = [part for axis, size in enumerate(shape) for part in (size, made[axis] // size)]
        axes = [2 * axis + 1 for axis in range(len(shape)) if apart[2 * axis + 1] > 1]
        if not axes:
            return (step.grad,)
        summed = step.op("ReduceSum", step.reshaped(step.grad, apart), axes, keepdims=0)
        return (step.reshaped(summed, shape),)
    grad = step.grad
    for axis, matrix in matrices.items():
        if axis == len(shape) - 1:
            grad = step.op("MatMul", grad, step.constant(matrix, grad))
        else:
            grad = step.op("MatMul", step.constant(matrix.T, grad), grad)
    return (grad,)


RULES: dict[tuple[str, str], Rule] = {("", "Resize"): _resize}
