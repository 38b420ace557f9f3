"""Weights, their state and their gradients in one buffer each, as Ascend's fused optimisers keep them for
PyTorch (`apex.optimizers.NpuFusedSGD`, `torch_npu.optim.NpuFusedAdamW`; apex.amp with `combine_grad`).

Before: weight_1 -> Conv ..., gradient_1 -> update_1, gradient_2 -> update_2, ...
After:  weights -> Split (no task) -> Conv ..., zeros -> AccumulateGrad_1, AccumulateGrad_2, ... -> Concat (no
        task) -> update

The buffer of gradients is set to zero in every step, and autograd adds each gradient to its piece: one small
Add a weight. The update is a few operators over whole buffers, however many weights there are (source:
Ascend/apex, combine_tensors and npu_fused_sgd.py). Weights that fill whole blocks of 32 bytes come first, so
that each of them begins on one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.core.formats import BLOCK_BYTES
from ascendsim.graph.ir import Array, Constant, Graph, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.precision.integer_sums import WIDE
from ascendsim.training import scopes
from ascendsim.training.backward import ASCEND, Pen
from ascendsim.training.buffers import Place
from ascendsim.training.optimizers import Lamb, Momentum, Optimizer
from ascendsim.training.step import Joint

WEIGHTS = "weights"  # the input that holds them all
_BLOCK = BLOCK_BYTES // DType.FLOAT32.itemsize


def combine(joint: Joint, opset: OpSet, optimizer: Optimizer) -> tuple[Joint, dict[str, Place]]:
    """Puts all weights of a step into one buffer, and their gradients into another.

    Args:
        joint: Its graph is changed in place.
        opset: Operators.
        optimizer: What will update them.

    Returns:
        The same with one parameter, `weights`, and where each weight lies in it.

    Raises:
        InputError: If the optimiser treats weights differently, a weight is not float32, or the name
            `weights` is taken.
    """
    graph = joint.graph
    weights = [graph.tensors[name] for name in joint.gradients]
    _check(graph, weights, optimizer)
    places: dict[str, Place] = {}
    total = 0
    for weight in sorted(weights, key=lambda one: one.elements % _BLOCK > 0):
        places[weight.name] = Place(total, weight.static_shape)
        total += weight.elements
    _read_pieces(graph, opset, places, total)
    gradient = _summed(graph, opset, joint, places, total)
    initial = dict(joint.initial)
    initial[WEIGHTS] = _first_values([initial.pop(name) for name in places], list(places.values()), total)
    return replace(joint, gradients={WEIGHTS: gradient}, initial=initial), places


def _check(graph: Graph, weights: Sequence[Tensor], optimizer: Optimizer) -> None:
    if isinstance(optimizer, Lamb):
        rule = "must not be lamb, which looks at each weight by itself"
        raise InputError("option combined: optimizer", rule, remedy="choose momentum, adam or adamw")
    if isinstance(optimizer, Momentum) and optimizer.weight_decay and not optimizer.decays_vectors:
        rule = "must treat all weights alike, but decays_vectors=False leaves some out"
        raise InputError("option combined: optimizer momentum", rule, remedy="leave decays_vectors as it is")
    if WEIGHTS in graph.tensors:
        raise InputError(
            "option combined", f"needs the name {WEIGHTS!r} for itself", remedy="rename the tensor"
        )
    for weight in weights:
        if weight.dtype is not DType.FLOAT32:
            rule = "must be float32; mixed precision reads it as float16"
            raise InputError(f"option combined: weight {weight.name!r}", rule, str(weight.dtype))


def _read_pieces(graph: Graph, opset: OpSet, places: dict[str, Place], total: int) -> None:
    """Lets everybody read pieces of the buffer in place of the weights, which are inputs no more."""
    pen = Pen(graph, opset, "Weights")
    whole = graph.add_input(WEIGHTS, DType.FLOAT32, (total,))
    for (name, place), piece in zip(places.items(), _cut(pen, whole, places), strict=True):
        weight = graph.tensors[name]
        view = piece if len(place.shape) == 1 else pen.op("Reshape", piece, list(place.shape))
        graph.replace_uses(weight, view)
        graph.inputs.remove(weight)
        graph.remove_tensor(weight)


def _summed(graph: Graph, opset: OpSet, joint: Joint, places: dict[str, Place], total: int) -> Tensor:
    """The buffer of gradients, each added to its piece of zeros."""
    pen = Pen(graph, opset, scopes.GRADIENTS, **{WIDE: True})
    zeros = pen.op("ConstantOfShape", [total], value=np.zeros(1, np.float32))
    sums = []
    for name, piece in zip(places, _cut(pen, zeros, places), strict=True):
        grad = joint.gradients[name]
        single = grad if grad.dtype is DType.FLOAT32 else pen.op("Cast", grad, to=DType.FLOAT32)
        added = f"{name}/AccumulateGrad"
        sums.append(pen.op("AccumulateGrad", piece, single, name=added, domain=ASCEND))
    return pen.op("Concat", *sums, axis=0, no_task=1)


def _cut(pen: Pen, whole: Tensor, places: dict[str, Place]) -> list[Tensor]:
    if len(places) == 1:
        return [whole]
    sizes = [place.size for place in places.values()]
    return [*pen.ops("Split", whole, sizes, outputs=len(sizes), axis=0, no_task=1)]


def _first_values(values: Sequence[Constant], places: Sequence[Place], total: int) -> Constant:
    """First values of the buffer, joined when somebody asks for them."""

    def load() -> Array:
        buffer = np.zeros(total, np.float32)
        for constant, place in zip(values, places, strict=True):
            place.of(buffer)[...] = constant.array()
        return buffer

    absent = next((constant for constant in values if not constant.available), None)
    if absent is not None:
        return Constant(absent_because=absent.absent_because)
    return Constant(loader=load, computed=True)
