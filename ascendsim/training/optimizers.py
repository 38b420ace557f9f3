"""Weight updates, written out in basic operators.

The order of operators and operands is that of CANN's JSON rules (`passes/fusion/data/json_rules.csv`), so
that fusion makes AdamApplyOne, AdamApplyOneWithDecay, LambNextMVWithDecay and LambUpdateWithLr of them. With
gradient g, weight w, rate r and beta^t over all steps so far:

    momentum   v' = mu v + g,  w' = w - r v'                                   (nesterov: w - r (g + mu v'))
    adam       m' = b1 m + (1 - b1) g,  v' = b2 v + (1 - b2) g^2,
               w' = w - r (m' / (1 - b1^t)) / (sqrt(v' / (1 - b2^t)) + e)
    adamw      the same, less r d w (d = weight_decay)
    lamb       u = m^ / (sqrt(v^) + e) + d w,  w' = w - r u clip(|w| / |m^ / sqrt(v^ + e) + d w|, 0, 10),
               MindSpore's form: the clipped ratio is 1 where |w| or |g| is 0

In momentum and adam, weight_decay adds d w to the gradient, as in torch.optim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Union

import numpy as np

from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Array, Tensor
from ascendsim.training.backward import ASCEND, Pen

Scalars = Mapping[str, Tensor]
MOST_RATIO = 10.0  # of LAMB's trust ratio (MindSpore's nn.Lamb)


@dataclass(frozen=True, slots=True)
class Momentum:
    """Stochastic gradient descent with momentum.

    Attributes:
        momentum: Share of the velocity that stays.
        weight_decay: Share of the weight that is added to its gradient.
        nesterov: Whether the step looks ahead.
        applied: Whether each update is one operator ApplyMomentum, as in MindSpore, not several basic ones.
        decays_vectors: Whether weight_decay is for weights of one axis too (biases, scales).
        loss_scale: Factor of the loss that the update takes out again; nobody looks for overflow, and what
            the step gives as gradients has the factor in it. That is MindSpore's nn.Momentum(loss_scale=...).
    """

    momentum: float = 0.9
    weight_decay: float = 0.0
    nesterov: bool = False
    applied: bool = False
    decays_vectors: bool = True
    loss_scale: float = 1.0

    name: ClassVar[str] = "momentum"
    slots: ClassVar[tuple[str, ...]] = ("velocity",)
    betas: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        _check(self)

    def scalars(self, pen: Pen, rate: Tensor, powers: Sequence[Tensor]) -> Scalars:
        """What all weights share."""
        return {"rate": rate, "momentum": _number(pen, self.momentum)}

    def update(
        self, pen: Pen, weight: Tensor, grad: Tensor, state: Sequence[Tensor], scalars: Scalars
    ) -> tuple[Tensor, ...]:
        """The new weight, then its new state."""
        decay = self.weight_decay if self.decays_vectors or len(weight.static_shape) > 1 else 0.0
        if self.applied:
            return self._applied(pen, weight, grad, state[0], scalars, decay)
        grad = _decayed(pen, weight, self._unscaled(pen, grad), decay)
        velocity = pen.op("Add", pen.op("Mul", scalars["momentum"], state[0]), grad)
        direction = velocity
        if self.nesterov:
            direction = pen.op("Add", grad, pen.op("Mul", scalars["momentum"], velocity))
        return pen.op("Sub", weight, pen.op("Mul", scalars["rate"], direction)), velocity

    def _applied(
        self, pen: Pen, weight: Tensor, grad: Tensor, velocity: Tensor, scalars: Scalars, decay: float
    ) -> tuple[Tensor, ...]:
        """The same in MindSpore's order: decay is added to the scaled gradient, so that one number is left in
        front of the update, where fusion takes it in.
        """
        if decay:
            grad = pen.op("Sum", pen.op("Mul", weight, np.float32(decay * self.loss_scale)), grad)
        inputs = (weight, velocity, scalars["rate"], self._unscaled(pen, grad), scalars["momentum"])
        made = pen.ops("ApplyMomentum", *inputs, outputs=2, domain=ASCEND, use_nesterov=int(self.nesterov))
        return tuple(made)

    def _unscaled(self, pen: Pen, grad: Tensor) -> Tensor:
        return grad if self.loss_scale == 1 else pen.op("Mul", grad, np.float32(1 / self.loss_scale))


@dataclass(frozen=True, slots=True)
class _Moments:
    """Both moments of the gradient.

    Attributes:
        beta1, beta2: Shares of the moments that stay.
        epsilon: Added to the root of the second moment.
        weight_decay: See the module's text.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    slots: ClassVar[tuple[str, ...]] = ("m", "v")
    betas: ClassVar[tuple[str, ...]] = ("beta1", "beta2")

    def __post_init__(self) -> None:
        _check(self)

    def _constants(self, pen: Pen) -> dict[str, Tensor]:
        """Factors of the moments, by the names that CANN's edges have for them."""
        factors = (self.beta1, 1 - self.beta1, self.beta2, 1 - self.beta2)
        return {f"Mul{index}": _number(pen, factor) for index, factor in enumerate(factors)}


@dataclass(frozen=True, slots=True)
class Adam(_Moments):
    """Adam; weight_decay adds to the gradient."""

    name: ClassVar[str] = "adam"

    def scalars(self, pen: Pen, rate: Tensor, powers: Sequence[Tensor]) -> Scalars:
        """What all weights share: the corrections of both moments go into rate and epsilon, so that nothing
        of the size of a weight is divided for them.
        """
        first, second = (pen.op("Sub", 1.0, power) for power in powers)
        root = pen.op("Sqrt", second)
        return {
            **self._constants(pen),
            "rate": pen.op("Div", pen.op("Mul", rate, root), first),
            "epsilon": pen.op("Mul", root, self.epsilon),
            "decay": pen.op("Mul", pen.op("Div", first, root), self.weight_decay),
        }

    def update(
        self, pen: Pen, weight: Tensor, grad: Tensor, state: Sequence[Tensor], scalars: Scalars
    ) -> tuple[Tensor, ...]:
        """The new weight, then its new state."""
        grad = _decayed(pen, weight, grad, self.weight_decay)
        first, second, ratio = self._ratio(pen, grad, state, scalars)
        return pen.op("Sub", weight, pen.op("Mul", scalars["rate"], ratio)), first, second

    def _ratio(
        self, pen: Pen, grad: Tensor, state: Sequence[Tensor], scalars: Scalars
    ) -> tuple[Tensor, Tensor, Tensor]:
        squares = pen.op("Mul", scalars["Mul3"], pen.op("Mul", grad, grad))
        second = pen.op("Add", pen.op("Mul", scalars["Mul2"], state[1]), squares)
        width = pen.op("Add", scalars["epsilon"], pen.op("Sqrt", second))
        part = pen.op("Mul", scalars["Mul1"], grad)
        first = pen.op("Add", pen.op("Mul", scalars["Mul0"], state[0]), part)
        return first, second, pen.op("Div", first, width)


@dataclass(frozen=True, slots=True)
class AdamW(Adam):
    """Adam with decay of the weight apart from its gradient."""

    weight_decay: float = 0.01

    name: ClassVar[str] = "adamw"

    def update(
        self, pen: Pen, weight: Tensor, grad: Tensor, state: Sequence[Tensor], scalars: Scalars
    ) -> tuple[Tensor, ...]:
        """The new weight, then its new state."""
        first, second, ratio = self._ratio(pen, grad, state, scalars)
        whole = pen.op("Add", pen.op("Mul", scalars["decay"], weight), ratio)
        return pen.op("Sub", weight, pen.op("Mul", scalars["rate"], whole)), first, second


@dataclass(frozen=True, slots=True)
class Lamb(_Moments):
    """LAMB: Adam's direction, scaled layer by layer to the size of the weight."""

    epsilon: float = 1e-6
    weight_decay: float = 0.01

    name: ClassVar[str] = "lamb"

    def scalars(self, pen: Pen, rate: Tensor, powers: Sequence[Tensor]) -> Scalars:
        """What all weights share."""
        return {
            **self._constants(pen),
            "rate": rate,
            "first": pen.op("Sub", 1.0, powers[0]),
            "second": pen.op("Sub", 1.0, powers[1]),
            "epsilon": _number(pen, self.epsilon),
            "decay": _number(pen, self.weight_decay),
            "zero": _number(pen, 0.0),
            "one": _number(pen, 1.0),
            "most": _number(pen, MOST_RATIO),
        }

    def update(
        self, pen: Pen, weight: Tensor, grad: Tensor, state: Sequence[Tensor], scalars: Scalars
    ) -> tuple[Tensor, ...]:
        """The new weight, then its new state."""
        s = scalars
        squares = pen.op("Mul", grad, grad)
        first = pen.op("Add", pen.op("Mul", state[0], s["Mul0"]), pen.op("Mul", grad, s["Mul1"]))
        second = pen.op("Add", pen.op("Mul", state[1], s["Mul2"]), pen.op("Mul", squares, s["Mul3"]))
        mean, moment = pen.op("Div", first, s["first"]), pen.op("Div", second, s["second"])
        inverse = pen.op("Reciprocal", pen.op("Sqrt", pen.op("Add", moment, s["epsilon"])))
        decay = pen.op("Mul", weight, s["decay"])
        outer = pen.op("Add", decay, pen.op("Mul", inverse, mean))
        ratio = pen.op("Div", mean, pen.op("Add", pen.op("Sqrt", moment), s["epsilon"]))
        direction = pen.op("Add", decay, ratio)
        norms = [_norm(pen, tensor) for tensor in (grad, weight, outer)]
        trust = pen.op("Div", norms[1], norms[2])
        trust = pen.op("Where", pen.op("Greater", norms[0], s["zero"]), trust, s["one"])
        trust = pen.op("Where", pen.op("Greater", norms[1], s["zero"]), trust, s["one"])
        trust = pen.op("Max", pen.op("Min", trust, s["most"]), s["zero"])
        change = pen.op("Mul", pen.op("Mul", trust, s["rate"]), direction)
        return pen.op("Sub", weight, change), first, second


Optimizer = Union[Momentum, Adam, AdamW, Lamb]
OPTIMIZERS: Mapping[str, type[Optimizer]] = {kind.name: kind for kind in (Momentum, Adam, AdamW, Lamb)}


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that are updated alike.

    Attributes:
        optimizer: Its formula and numbers.
        rate: Learning rate that the first step starts with; None: the user says it.
        state: What is kept of every parameter so far, by name and slot; None: nothing yet, of all parameters.
        steps: How many steps lie behind.
    """

    optimizer: Optimizer
    rate: float | None = None
    state: Mapping[str, Mapping[str, Array]] | None = None
    steps: int = 0


def optimizer_of(option: str | Optimizer) -> Optimizer:
    """The optimiser that an option names, with its defaults.

    Raises:
        InputError: If there is none.
    """
    if not isinstance(option, str):
        if not isinstance(option, tuple(OPTIMIZERS.values())):
            rule = "must be a name or an optimiser of ascendsim.training.optimizers"
            raise InputError(
                "option optimizer", rule, type(option).__name__, f"choose {', '.join(OPTIMIZERS)}"
            )
        return option
    if option not in OPTIMIZERS:
        rule = f"must be one of {', '.join(OPTIMIZERS)}"
        raise InputError("option optimizer", rule, repr(option), suggest(option, OPTIMIZERS))
    return OPTIMIZERS[option]()


def _number(pen: Pen, value: float) -> Tensor:
    return pen.constant(np.float32(value))


def _decayed(pen: Pen, weight: Tensor, grad: Tensor, decay: float) -> Tensor:
    return pen.op("Add", grad, pen.op("Mul", weight, decay)) if decay else grad


def _norm(pen: Pen, tensor: Tensor) -> Tensor:
    return pen.op("Sqrt", pen.op("ReduceSumSquare", tensor, keepdims=0))


def _check(optimizer: Any) -> None:
    for item in fields(optimizer):
        value = getattr(optimizer, item.name)
        below_one, factor = item.name in ("momentum", "beta1", "beta2"), item.name == "loss_scale"
        if (
            not isinstance(value, (int, float))
            or not math.isfinite(value)
            or value < 0
            or (below_one and value >= 1)
            or (factor and not value)
        ):
            rule = "must be a number that is not negative"
            if below_one or factor:
                rule = "must be a number from 0 to below 1" if below_one else "must be a positive number"
            raise InputError(f"optimizer {optimizer.name}: {item.name}", rule, repr(value))
