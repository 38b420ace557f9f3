"""Loss scale, overflow check, clipping and accumulation: what lies between gradients and weight updates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Tensor
from ascendsim.training.backward import ASCEND, Pen

LossScale = Union[int, float, str, None]
SCALE, GOOD_STEPS = "loss_scale", "good_steps"  # inputs of a dynamic scale
FIRST_SCALE = 65536.0  # and the next three: the values of torch.amp.GradScaler
GROWTH, BACKOFF, GROWTH_INTERVAL = 2.0, 0.5, 2000
CLIP_EPSILON = 1e-6  # beside the norm, as in torch.nn.utils.clip_grad_norm_


@dataclass(frozen=True, slots=True)
class Scaling:
    """How gradients are treated before they update weights.

    Attributes:
        loss_scale: Factor of the loss; "dynamic"; None = 1, without a check for overflow.
        grad_clip: Largest norm of all gradients together; None = no limit.
        accumulate: Number of batches whose gradients make one update.
    """

    loss_scale: LossScale = None
    grad_clip: float | None = None
    accumulate: int = 1

    def __post_init__(self) -> None:
        scale = self.loss_scale
        if scale is not None and scale != "dynamic" and not _positive(scale):
            rule = 'must be a positive number or "dynamic"'
            raise InputError("option loss_scale", rule, repr(scale), "give a power of two, for example 1024")
        if self.grad_clip is not None and not _positive(self.grad_clip):
            raise InputError(
                "option grad_clip", "must be a positive number", repr(self.grad_clip), "give a norm"
            )
        if type(self.accumulate) is not int or self.accumulate < 1:
            rule = "must be a number of batches from 1 on"
            raise InputError(
                "option accumulate", rule, repr(self.accumulate), "give 1 for an update every batch"
            )

    @property
    def dynamic(self) -> bool:
        return self.loss_scale == "dynamic"


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and type(value) is not bool and math.isfinite(value) and value > 0


def scale_of(pen: Pen, scaling: Scaling) -> Tensor | None:
    """The factor of the loss: a graph input where it is dynamic, a constant where it is not 1."""
    if scaling.dynamic:
        return pen.graph.add_input(SCALE, DType.FLOAT32, ())
    return None if scaling.loss_scale is None else pen.constant(np.float32(scaling.loss_scale), SCALE)


def unscaled(
    pen: Pen, grads: Mapping[str, Tensor], scale: Tensor | None, scaling: Scaling
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Gradients without the loss scale, added to those of the batches before; the sums by their input."""
    factor: Tensor | None = None
    if scale is not None:
        factor = pen.op("Div", np.float32(1 / scaling.accumulate), scale)
    elif scaling.accumulate > 1:
        factor = pen.constant(np.float32(1 / scaling.accumulate))
    plain = {name: grad if factor is None else pen.op("Mul", grad, factor) for name, grad in grads.items()}
    if scaling.accumulate == 1:
        return plain, {}
    sums = {}
    for name, grad in plain.items():
        before = pen.graph.add_input(f"{name}.sum", DType.FLOAT32, grad.static_shape)
        sums[before.name] = plain[name] = pen.op("Add", before, grad)
    return plain, sums


def clipped(pen: Pen, grads: Mapping[str, Tensor], most: float) -> dict[str, Tensor]:
    """Gradients scaled so that their common norm is at most `most`."""
    squares = [pen.op("ReduceSumSquare", grad, keepdims=0) for grad in grads.values()]
    norm = pen.op("Sqrt", pen.op("Sum", *squares) if len(squares) > 1 else squares[0])
    limit = pen.op("Div", np.float32(most), pen.op("Add", norm, CLIP_EPSILON))
    factor = pen.op("Min", limit, np.float32(1))
    return {name: pen.op("Mul", grad, factor) for name, grad in grads.items()}


def all_finite(pen: Pen, grads: Sequence[Tensor]) -> Tensor:
    """Whether no gradient overflowed: a bool without axes."""
    return pen.op("Reshape", pen.op("AllFinite", *grads, domain=ASCEND), np.zeros(0, np.int64))


def adapted(pen: Pen, scale: Tensor, finite: Tensor, due: Tensor | None) -> dict[str, Tensor]:
    """The dynamic scale and the count of good steps behind this one, by input: half of it after an overflow,
    twice as much after many steps without.
    """
    good = pen.graph.add_input(GOOD_STEPS, DType.INT32, ())
    more = pen.op("Add", good, np.int32(1))
    full = pen.op("Equal", more, np.int32(GROWTH_INTERVAL))
    grown = pen.op("Where", full, pen.op("Mul", scale, GROWTH), scale)
    result = {
        SCALE: pen.op("Where", finite, grown, pen.op("Mul", scale, BACKOFF)),
        GOOD_STEPS: pen.op("Where", finite, pen.op("Where", full, np.int32(0), more), np.int32(0)),
    }
    if due is None:
        return result
    return {name: pen.op("Where", due, new, pen.graph.tensors[name]) for name, new in result.items()}
