"""What a `torch.optim` optimizer says of itself: groups, their numbers, and the state of every parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.frontends.torch.tensors import array_of
from ascendsim.graph.ir import Array

# Options of PyTorch that have another name here; those that are not listed keep theirs.
_NUMBERS = {"eps": "epsilon"}
_KINDS: Mapping[str, tuple[str, tuple[str, ...], Mapping[str, str]]] = {
    "SGD": ("momentum", ("momentum", "weight_decay", "nesterov"), {"momentum_buffer": "velocity"}),
    "Adam": ("adam", ("eps", "weight_decay"), {"exp_avg": "m", "exp_avg_sq": "v"}),
    "AdamW": ("adamw", ("eps", "weight_decay"), {"exp_avg": "m", "exp_avg_sq": "v"}),
}
_REFUSED = ("dampening", "amsgrad", "maximize")


@dataclass(frozen=True, slots=True)
class OptimizerGroup:
    """A group of parameters.

    Attributes:
        kind: "momentum", "adam" or "adamw".
        numbers: Its options by the names of `ascendsim.training.optimizers`.
        rate: Learning rate.
        state: Of every parameter by name: what is kept of it, by slot; nothing before the first step.
        steps: How many it has taken.
    """

    kind: str
    numbers: Mapping[str, Any]
    rate: float
    state: Mapping[str, Mapping[str, Array]]
    steps: int


def is_optimizer(option: object) -> bool:
    """Whether an option is an optimizer of PyTorch, as far as that can be told without importing it."""
    return hasattr(option, "param_groups") and hasattr(option, "state")


def groups_of(optimizer: Any, module: Any) -> list[OptimizerGroup]:
    """The groups of an optimizer of a module's parameters; frozen parameters are left out.

    Raises:
        InputError: If its formula is not known, or it has parameters that the module has not.
    """
    name = type(optimizer).__name__
    if name not in _KINDS:
        rule = f"must be one of torch.optim's {', '.join(_KINDS)}"
        raise InputError("option optimizer", rule, name, 'or pass "lamb"')
    names = {id(parameter): key for key, parameter in module.named_parameters()}
    return [_group(name, group, optimizer.state, names) for group in optimizer.param_groups]


def _group(name: str, group: Mapping[str, Any], states: Any, names: Mapping[int, str]) -> OptimizerGroup:
    kind, options, slots = _KINDS[name]
    for option in _REFUSED:
        if group.get(option):
            raise InputError(f"option {option} of torch.optim.{name}", "is not modelled", group[option])
    numbers = {_NUMBERS.get(option, option): group[option] for option in options}
    if "betas" in group:
        numbers |= dict(zip(("beta1", "beta2"), map(float, group["betas"]), strict=True))
    state: dict[str, dict[str, Array]] = {}
    steps: set[int] = set()
    for parameter in group["params"]:
        if id(parameter) not in names:
            rule = "must be of the module's parameters"
            shape = list(parameter.shape)
            raise InputError(f"optimizer {name}", rule, f"a parameter of shape {shape} is not among them")
        if parameter.requires_grad:
            kept = states.get(parameter, {})
            held = {slot: kept.get(key) for key, slot in slots.items()}
            state[names[id(parameter)]] = {
                slot: np.array(array_of(one)) for slot, one in held.items() if one is not None
            }
            steps.add(int(kept.get("step", 0)))
    if len(steps) > 1:
        raise InputError(
            f"optimizer {name}", "must have taken as many steps with each parameter", sorted(steps)
        )
    return OptimizerGroup(kind, numbers, float(group["lr"]), state, next(iter(steps), 0))
