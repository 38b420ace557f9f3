"""A whole training step as one graph: forward, backward, and the update of the weights.

A `Joint` has forward and backward nodes, wherever they come from (`source.joint_of_graph`, or a framework);
`complete_step` adds the rest to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ascendsim.core.arguments import checked
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.carried import GRAD, UPDATED
from ascendsim.graph.ir import Array, Constant, Graph, Tensor
from ascendsim.graph.verify import verify
from ascendsim.opset import OpSet
from ascendsim.passes.precision.integer_sums import WIDE
from ascendsim.passes.rewriting.removal import remove_dead
from ascendsim.training import scopes
from ascendsim.training.backward import Pen
from ascendsim.training.buffers import Place
from ascendsim.training.optimizers import Group, Optimizer
from ascendsim.training.reverse import named
from ascendsim.training.scaling import (
    FIRST_SCALE,
    GOOD_STEPS,
    SCALE,
    Scaling,
    adapted,
    all_finite,
    clipped,
    scale_of,
    unscaled,
)

RATE, ACCUMULATED, OVERFLOW = "learning_rate", "accumulated", "overflow"


@dataclass(frozen=True, slots=True)
class Joint:
    """A graph with forward and backward nodes.

    Attributes:
        graph: Parameters are inputs of it.
        loss: One number.
        seed: What stands for the gradient of the loss: a tensor that the loss scale can take the place of.
        gradients: By the name of a parameter.
        updated: New values of other inputs (statistics of batch normalisation) by their name.
        initial: First values of parameters and statistics by name.
    """

    graph: Graph
    loss: Tensor
    seed: Tensor
    gradients: Mapping[str, Tensor]
    updated: Mapping[str, Tensor] = field(default_factory=dict)
    initial: Mapping[str, Constant] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A training step.

    Attributes:
        graph: Takes the batch, parameters and state; gives `loss`, `<parameter>.grad`, and `<input>.updated`
            for every input that the next step takes from this one.
        parameters: Names of the inputs that are trained.
        state: Names of further inputs that the step carries on: moments, statistics, loss scale.
        initial_values: First values of parameters and state.
        places: With `combined`, where each weight lies in the buffer that is the one parameter.
    """

    graph: Graph
    parameters: tuple[str, ...]
    state: tuple[str, ...]
    initial_values: Mapping[str, Constant] = field(repr=False)
    places: Mapping[str, Place] = field(default_factory=dict, repr=False)

    def initial(self) -> dict[str, Array]:
        """Parameters and state before the first step.

        Raises:
            GraphError: If a weight has no values.
        """
        return {name: self.initial_values[name].array() for name in (*self.parameters, *self.state)}

    @checked()
    def carried(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """What the next step takes from the outputs of one."""
        names = (name for name in (*self.parameters, *self.state) if f"{name}{UPDATED}" in outputs)
        return {name: outputs[f"{name}{UPDATED}"] for name in names}


def complete_step(
    joint: Joint,
    opset: OpSet,
    optimizer: Optimizer | Sequence[Group] | None = None,
    scaling: Scaling | None = None,
) -> TrainingStep:
    """Adds loss scale, clipping and weight updates.

    Args:
        joint: Its graph is changed in place.
        opset: Operators.
        optimizer: For all parameters, or by groups of them; None leaves it at gradients.
        scaling: Loss scale, clipping, accumulation.
    """
    scaling = scaling or Scaling()
    graph = joint.graph
    initial: dict[str, Any] = dict(joint.initial)
    pen = Pen(graph, opset, scopes.LOSS_SCALE, **{WIDE: True})
    scale = scale_of(pen, scaling)
    own = getattr(optimizer, "loss_scale", 1.0)
    if own != 1:
        _check_alone(scaling)
        _sow(pen, joint.seed, pen.constant(np.float32(own)))
    if scale is not None:
        _sow(pen, joint.seed, scale)
    single = {name: _single(pen, grad) for name, grad in joint.gradients.items()}
    grads, sums = unscaled(pen, single, scale, scaling)
    finite = None if scale is None else all_finite(pen, list(grads.values()))
    updated: dict[str, Tensor] = dict(joint.updated)
    due: Tensor | None = None
    if sums:
        due = _counted(pen, scaling.accumulate, updated)
        for name, total in sums.items():
            updated[name] = pen.op("Where", due, np.float32(0), total)
            initial[name] = Constant(np.zeros(total.static_shape, np.float32))
        initial[ACCUMULATED] = Constant(np.zeros((), np.int32))
    if scaling.dynamic and scale is not None and finite is not None:
        updated |= adapted(pen, scale, finite, due)
        initial[SCALE] = Constant(np.full((), FIRST_SCALE, np.float32))
        initial[GOOD_STEPS] = Constant(np.zeros((), np.int32))
    if scaling.grad_clip is not None:
        grads = clipped(Pen(graph, opset, scopes.CLIP, **{WIDE: True}), grads, scaling.grad_clip)
    if optimizer is not None:
        apply = finite if due is None else due if finite is None else pen.op("And", finite, due)
        groups = [Group(optimizer)] if not isinstance(optimizer, Sequence) else optimizer
        for number, group in enumerate(groups):
            suffix = f".{number}" if len(groups) > 1 else ""
            updated |= _updates(graph, opset, group, grads, initial, suffix=suffix, apply=apply)
    graph.outputs[:] = [named(pen, joint.loss, "loss")]
    if finite is not None:
        graph.outputs.append(named(pen, pen.op("Not", finite), OVERFLOW))
    for suffix, tensors in ((GRAD, grads), (UPDATED, updated)):
        for name, tensor in tensors.items():
            graph.outputs.append(named(pen, tensor, f"{name}{suffix}"))
    remove_dead(graph)
    verify(graph)
    return TrainingStep(
        graph,
        tuple(joint.gradients),
        tuple(name for name in (*updated, *_rates(initial)) if name not in joint.gradients),
        initial,
    )


def _check_alone(scaling: Scaling) -> None:
    if scaling.loss_scale is not None or scaling.grad_clip is not None:
        rule = "cannot be given beside the optimiser's own loss_scale"
        remedy = "give the scale to training_step alone, which takes it out before it clips"
        raise InputError("options loss_scale and grad_clip", rule, remedy=remedy)


def _sow(pen: Pen, seed: Tensor, scale: Tensor) -> None:
    """The loss scale is the gradient of the loss."""
    same = scale if seed.dtype is scale.dtype else pen.op("Cast", scale, to=seed.element_type)
    if seed.shape != scale.shape:
        same = pen.op("Reshape", same, list(seed.static_shape))
    pen.graph.replace_uses(seed, same)


def _single(pen: Pen, grad: Tensor) -> Tensor:
    return grad if grad.dtype is DType.FLOAT32 else pen.op("Cast", grad, to=DType.FLOAT32)


def _counted(pen: Pen, most: int, updated: dict[str, Tensor]) -> Tensor:
    """Whether this batch is the last of those that make one update."""
    before = pen.graph.add_input(ACCUMULATED, DType.INT32, ())
    after = pen.op("Add", before, np.int32(1))
    due = pen.op("Equal", after, np.int32(most))
    updated[ACCUMULATED] = pen.op("Where", due, np.int32(0), after)
    return due


def _rates(initial: Mapping[str, Constant]) -> list[str]:
    """Learning rates that groups came with; without groups the user says it at every step."""
    return [name for name in initial if name == RATE or name.startswith(f"{RATE}.")]


def _updates(
    graph: Graph,
    opset: OpSet,
    group: Group,
    grads: Mapping[str, Tensor],
    initial: dict[str, Constant],
    *,
    suffix: str,
    apply: Tensor | None,
) -> dict[str, Tensor]:
    """New weights, moments and powers of a group by input; the old ones where the update is not applied.

    Args:
        suffix: Of the names of inputs that all its weights share.
    """
    optimizer = group.optimizer
    shared = Pen(graph, opset, scopes.OPTIMIZER, **{WIDE: True})
    rate = graph.add_input(f"{RATE}{suffix}", DType.FLOAT32, ())
    if group.rate is not None:
        initial[rate.name] = Constant(np.full((), group.rate, np.float32))
    updated: dict[str, Tensor] = {}
    powers = []
    for beta in optimizer.betas:
        share = float(getattr(optimizer, beta))
        before = graph.add_input(f"{beta}_power{suffix}", DType.FLOAT32, ())
        initial[before.name] = Constant(np.full((), share**group.steps, np.float32))
        powers.append(shared.op("Mul", before, share))
        updated[before.name] = powers[-1] if apply is None else shared.op("Where", apply, powers[-1], before)
    scalars = optimizer.scalars(shared, rate, powers)
    for name, grad in grads.items():
        if group.state is not None and name not in group.state:
            continue
        pen = Pen(graph, opset, f"{scopes.OPTIMIZER}/{name}", **{WIDE: True})
        weight = graph.tensors[name]
        state = [
            graph.add_input(f"{name}.{slot}", DType.FLOAT32, grad.static_shape) for slot in optimizer.slots
        ]
        new = optimizer.update(pen, _single(pen, weight), grad, state, scalars)
        for old, fresh in zip((weight, *state), new, strict=True):
            value = fresh if fresh.dtype is old.dtype else pen.op("Cast", fresh, to=old.element_type)
            updated[old.name] = value if apply is None else pen.op("Where", apply, value, old)
        held = {} if group.state is None else group.state[name]
        for slot, tensor in zip(optimizer.slots, state, strict=True):
            zeros = np.zeros(grad.static_shape, np.float32)
            initial[tensor.name] = Constant(np.asarray(held.get(slot, zeros), np.float32))
    return updated
