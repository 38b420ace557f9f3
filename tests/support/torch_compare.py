"""Gradients of a captured step beside those of `loss.backward()`, and where decisions fell otherwise.

A relu whose argument is within rounding of zero, or a maximum of two numbers that rounding tells apart, has
one of two derivatives; two computations in float32 that add up in another order may choose differently, and
all gradients in front of it differ by what went through that element. `differences` counts such elements, and
computes the step once more with eager's choice at them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from ascendsim.core.dtypes import DType
from ascendsim.frontends.torch.joint import CapturedStep
from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops import default_opset
from ascendsim.runtime.plain import evaluate_plain

Array = NDArray[Any]
BORDERS = {"relu": (0.0,), "hardtanh": (0.0, 6.0), "hardswish": (-3.0, 3.0), "hardsigmoid": (-3.0, 3.0)}
_POOL = "max_pool2d_with_indices"
_OURS = {"Relu": "relu", "Clip": "hardtanh", "HardSwish": "hardswish", "HardSigmoid": "hardsigmoid"}


@dataclass(slots=True)
class Differences:
    """Of one network.

    Attributes:
        loss: Relative difference of the loss.
        worst: Largest difference of a gradient from eager's, in units of 1e-5 max |eager| + 1e-7.
        where: Its parameter.
        eager: The same of eager's float32 gradients from float64.
        decisions: Elements at which a derivative was chosen otherwise than in eager mode; None if the two
            cannot be compared.
        same_decisions: `worst` with eager's choice at them.
        exact: Largest difference of a gradient with both in float64, as a share of the largest gradient of
            the network.
        missing: Parameters that have a gradient in one of the two only.
    """

    loss: float
    worst: float
    where: str
    eager: float
    decisions: int | None
    same_decisions: float
    exact: float
    missing: list[str] = field(default_factory=list)


class Choices(TorchDispatchMode):
    """Notes the arguments of functions whose derivative jumps."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Array, tuple[Any, ...]]] = []

    def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.__name__.split(".")[0].removesuffix("_")
        if name in BORDERS or name == _POOL:
            self.seen.append((name, args[0].detach().clone().numpy(), tuple(args[1:])))
        return function(*args, **(kwargs or {}))


def limits(found: Array, wanted: Array) -> float:
    """The largest difference in units of what is allowed."""
    return float(np.abs(found - wanted).max() / (1e-5 * np.abs(wanted).max() + 1e-7)) if wanted.size else 0.0


def differences(step: CapturedStep, module: Any, inputs: tuple[Any, ...]) -> Differences:
    """Runs the captured step and eager mode, both in float32 and in float64.

    Args:
        step: Of `module`, whose result is the loss; its graph is one in float64 afterwards.
        module: Its gradients are overwritten.
        inputs: What both are called with.
    """
    feed = {name: np.array(constant.array()) for name, constant in step.initial.items()}
    feed |= {name: one.numpy() for name, one in zip(step.batch, inputs, strict=True) if name is not None}
    exact = copy.deepcopy(module).double()
    module.zero_grad()
    with Choices() as choices:
        loss = module(*inputs)
    loss.backward()
    wide = exact(*(one.double() if one.is_floating_point() else one for one in inputs))
    wide.backward()
    wanted = {n: p.grad.numpy() for n, p in module.named_parameters() if p.grad is not None}
    exactly = {n: p.grad.numpy() for n, p in exact.named_parameters() if p.grad is not None}
    flips = _Flips(step, choices.seen)
    found = evaluate_plain(step.graph, default_opset(), feed, see=flips.count)
    over = {n: limits(found[f"{n}.grad"], wanted[n]) for n in wanted if n in step.gradients}
    where = max(over, key=over.__getitem__)
    same = over[where]
    if flips.number:
        again = evaluate_plain(step.graph, default_opset(), feed, see=flips.impose)
        same = max(limits(again[f"{n}.grad"], wanted[n]) for n in over)
    precisely = _in_float64(step, feed)
    largest = max(float(np.abs(one).max()) for one in exactly.values())
    return Differences(
        abs(float(found["loss"]) - loss.item()) / abs(loss.item()),
        over[where],
        where,
        max(limits(wanted[n], exactly[n]) for n in wanted),
        flips.number if flips.comparable else None,
        same,
        max(float(np.abs(precisely[f"{n}.grad"] - exactly[n]).max()) for n in over) / largest,
        sorted(wanted.keys() ^ step.gradients.keys()),
    )


def _in_float64(step: CapturedStep, feed: dict[str, Array]) -> dict[str, Array]:
    for tensor in step.graph.tensors.values():
        if tensor.dtype is DType.FLOAT32:
            tensor.dtype = tensor.origin_dtype = DType.FLOAT64
    wide = {name: one.astype(np.float64) if one.dtype == np.float32 else one for name, one in feed.items()}
    return evaluate_plain(step.graph, default_opset(), wide)


class _Flips:
    """Choices of a step beside eager's, in the order of execution."""

    def __init__(self, step: CapturedStep, seen: list[tuple[str, Array, tuple[Any, ...]]]) -> None:
        nodes = [node for node in step.graph.topological() if _name(node)]
        self._known: dict[Tensor, list[tuple[str, Array, tuple[Any, ...]]]] = {}
        self.comparable = [_name(node) for node in nodes] == [name for name, _, _ in seen]
        if self.comparable:
            for node, choice in zip(nodes, seen, strict=True):
                self._known.setdefault(node.required(0), []).append(choice)
        self.number = 0

    def count(self, tensor: Tensor, array: Array) -> None:
        for choice in self._known.get(tensor, ()):
            self.number += len(otherwise(array, *choice)[0])

    def impose(self, tensor: Tensor, array: Array) -> None:
        for name, eager, more in self._known.get(tensor, ()):
            for places in otherwise(array, name, eager, more):
                array.reshape(-1)[places] = eager.reshape(-1)[places]


def _name(node: Node) -> str | None:
    """What eager mode calls a forward node whose derivative jumps."""
    if node.name.startswith("Gradients/"):
        return None
    return _POOL if node.op_type.startswith("MaxPoolWithArgmax") else _OURS.get(node.op_type)


def otherwise(array: Array, name: str, eager: Array, more: tuple[Any, ...]) -> list[Array]:
    """Flat places at which the choice differs; of a maximum ours and eager's."""
    if name != _POOL:
        sides = [(array > border) != (eager > border) for border in BORDERS[name]]
        return [np.flatnonzero(np.logical_or.reduce(sides))]
    plane = eager.shape[2] * eager.shape[3]
    found = []
    for one in (array, eager):
        index = F.max_pool2d(torch.from_numpy(np.ascontiguousarray(one)), *more, return_indices=True)[1]
        maps = np.arange(index.shape[0] * index.shape[1]).reshape(*index.shape[:2], 1, 1)
        found.append(index.numpy() + maps * plane)
    differ = found[0] != found[1]
    return [found[0][differ], found[1][differ]]
