"""Gradients as the chip computes them beside `loss.backward()`, and what rounding alone does to a network.

What the network itself makes of a small change is found without any half precision: in float64, with its
weights rounded to float16 once, and again with the relus and maxima deciding as they did before the rounding.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ascendsim as asim
from tests.support.torch_compare import Array

FIRST_SCALE = 1024.0
_CLIPS = ("relu", "hardtanh")
_CLIPS_BACK = ("threshold_backward", "hardtanh_backward")


@dataclass(frozen=True, slots=True)
class DeviceDifferences:
    """The chip's arithmetic beside eager mode.

    Attributes:
        loss: Relative difference of the loss.
        cosine: Lowest cosine between a gradient and eager's, of those above 1e-3 of the largest norm.
        where: Its parameter.
        below: How many of them are below 0.999, and how many there are.
        scale: The loss scale, halved until no gradient overflowed.
        autocast: The lowest cosine of eager mode's own gradients in half precision (torch.autocast, float16)
            at this scale; NaN where that overflows, or the host has no such operator.
        rounded: The lowest cosine in float64 of the gradients at weights rounded to float16.
        decided: The same with the relus and maxima of the weights before.
    """

    loss: float
    cosine: float
    where: str
    below: tuple[int, int]
    scale: float
    autocast: float
    rounded: float
    decided: float


def device_differences(module: Any, inputs: tuple[Any, ...], soc: str = "Ascend910A") -> DeviceDifferences:
    """Compiles the step in mixed precision with a loss scale, and runs it as the chip computes.

    Args:
        module: Its result is the loss.
        inputs: What it is called with.
        soc: The chip.

    Raises:
        ArithmeticError: If gradients overflow at every loss scale down to 1.
    """
    step = asim.training_step(module, inputs, loss_scale="dynamic", allow_unused=True)
    model = asim.compile(step.graph, soc, precision_mode="allow_mix_precision")
    batch = {f"input_{number}": one.numpy() for number, one in enumerate(inputs)}
    start = step.initial_values
    feed = {tensor.name: batch.get(tensor.name) for tensor in step.graph.inputs}
    feed = {n: np.array(start[n].array()) if one is None else one for n, one in feed.items()}
    feed["loss_scale"] = np.float32(FIRST_SCALE)
    result = asim.run(model, feed)
    while result.outputs["overflow"]:
        if feed["loss_scale"] <= 1:
            raise ArithmeticError(str(result.numerics))
        feed.update(step.carried(result.outputs))
        result = asim.run(model, feed)
    found, scale = result.outputs, float(feed["loss_scale"])
    loss, wanted = _eager(module, inputs)
    near = cosines({name: found[f"{name}.grad"].astype(np.float64) for name in wanted}, wanted)
    where = min(near, key=near.__getitem__)
    below = sum(not cosine >= 0.999 for cosine in near.values())
    off = abs(float(found["loss"]) - loss) / abs(loss)
    autocast = _autocast(module, inputs, wanted, scale)
    return DeviceDifferences(
        off, near[where], where, (below, len(near)), scale, autocast, *rounding_alone(module, inputs)
    )


def _autocast(module: Any, inputs: tuple[Any, ...], wanted: dict[str, Array], scale: float) -> float:
    try:
        with torch.autocast("cpu", dtype=torch.float16):
            _, halves = _eager(module, inputs, scale)
    except RuntimeError:  # an LSTM
        return math.nan
    return float(np.min(list(cosines(halves, wanted).values())))


def rounding_alone(module: Any, inputs: tuple[Any, ...]) -> tuple[float, float]:
    """Lowest cosines of gradients in float64, of the weights rounded to float16 and of those as they are.

    Returns:
        With the relus and maxima that follow, and with those of the weights as they are.
    """
    wide = copy.deepcopy(module).double()
    inputs = tuple(one.double() if one.is_floating_point() else one for one in inputs)
    with Decisions() as first:
        _, wanted = _eager(wide, inputs)
    with torch.no_grad():
        for weight in wide.parameters():
            if weight.dim() > 1:  # the Cube's operands; others stay in float32
                weight.copy_(weight.half())
    _, free = _eager(wide, inputs)
    with Decisions(first.made):
        _, bound = _eager(wide, inputs)
    lowest = [float(np.min(list(cosines(found, wanted).values()))) for found in (free, bound)]
    return lowest[0], lowest[1]


class Decisions(TorchDispatchMode):
    """Notes on which side of its borders each argument of relu, relu6 and max pooling lies, forward and
    backward; or imposes what was noted.

    Args:
        known: What another one noted (`made`), of the same module.
    """

    def __init__(self, known: list[Any] | None = None) -> None:
        super().__init__()
        self.made: list[Any] = []
        self._known = None if known is None else iter(known)

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.__name__.split(".")[0]
        kind = name.removesuffix("_")
        if kind in _CLIPS:
            low, high = args[1:3] if len(args) > 2 else (-1.0 if kind == "hardtanh" else 0.0, math.inf)
            side = self._decide((args[0] > low).int() + (args[0] >= high))
            ends = torch.where(side == 0, torch.full_like(args[0], low), torch.full_like(args[0], high))
            result = torch.where(side == 1, args[0], ends)
            return args[0].copy_(result) if name.endswith("_") else result
        if kind in _CLIPS_BACK:
            low, high = args[2:4] if kind == "hardtanh_backward" else (0.0, math.inf)
            return args[0] * (self._decide((args[1] > low).int() + (args[1] >= high)) == 1)
        result = function(*args, **(kwargs or {}))
        if kind == "max_pool2d_with_indices":
            places = self._decide(result[1])
            taken = args[0].flatten(2).gather(2, places.flatten(2)).view_as(places)
            return taken, places
        return result

    def _decide(self, own: Any) -> Any:
        if self._known is not None:
            return next(self._known)
        self.made.append(own.clone())
        return own


def _eager(module: Any, inputs: tuple[Any, ...], scale: float = 1.0) -> tuple[float, dict[str, Array]]:
    module.zero_grad()
    loss = module(*inputs)
    (loss.to(torch.promote_types(loss.dtype, torch.float32)) * scale).backward()
    named = module.named_parameters()
    return loss.item(), {n: p.grad.numpy().astype(np.float64) for n, p in named if p.grad is not None}


def cosines(found: dict[str, Array], wanted: dict[str, Array]) -> dict[str, float]:
    """Of the gradients above 1e-3 of the largest norm."""
    norms = {name: float(np.linalg.norm(one)) for name, one in wanted.items()}
    most = max(norms.values())
    return {
        name: float((found[name] * one).sum() / (np.linalg.norm(found[name]) * norms[name]))
        for name, one in wanted.items()
        if norms[name] > 1e-3 * most
    }
