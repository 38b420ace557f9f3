"""Gears of tensors: the sizes that a dimension may have, as torchair declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ascendsim.core.errors import InputError
from ascendsim.frontends.torch.requirement import require_torch

_MARK = "_ascendsim_gears"
Gears = Mapping[int, tuple[int, ...]]


def mark_gears(tensor: Any, gears: Mapping[int, Sequence[int]]) -> None:
    """Notes gears at a tensor, and tells Dynamo to leave the dimensions open.

    Raises:
        InputError: If the tensor has no such dimension, or its size is not among the gears.
    """
    torch = require_torch()
    if not isinstance(tensor, torch.Tensor):
        raise InputError("argument t", "must be a tensor", type(tensor).__name__)
    checked = {_axis(tensor, axis): _sizes(axis, sizes) for axis, sizes in gears.items()}
    _check(tensor, checked)
    for axis in checked:
        torch._dynamo.maybe_mark_dynamic(tensor, axis)
    setattr(tensor, _MARK, checked)


def _axis(tensor: Any, axis: Any) -> int:
    if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < tensor.dim():
        rule = f"must be a dimension of the tensor, 0 to {tensor.dim() - 1}"
        raise InputError("a key of dim_gears", rule, axis)
    return axis


def _sizes(axis: int, sizes: Any) -> tuple[int, ...]:
    known = isinstance(sizes, (list, tuple)) and all(type(size) is int and size > 0 for size in sizes)
    if not known or not sizes or len({*sizes}) < len(sizes):
        rule = "must be different whole numbers from 1 on"
        raise InputError(f"gears of dimension {axis}", rule, sizes, "write {0: [1, 4, 8]}")
    return tuple(sizes)


def _check(tensor: Any, gears: Gears) -> None:
    for axis, sizes in gears.items():
        if int(tensor.shape[axis]) not in sizes:
            rule = f"must be one of its gears {', '.join(map(str, sizes))}"
            actual = int(tensor.shape[axis])
            raise InputError(f"size of dimension {axis}", rule, actual, "pad the tensor to the next gear")


class GearCheck:
    """The gears of one region's arguments: learnt from tensors that carry them, kept for all that follow."""

    def __init__(self) -> None:
        self._known: dict[int, Gears] = {}

    def __call__(self, args: Sequence[Any]) -> None:
        """Refuses sizes that are no gear.

        Raises:
            InputError: Names the dimension and its gears.
        """
        for place, arg in enumerate(args):
            gears = getattr(arg, _MARK, None)
            if gears is not None:
                self._known[place] = gears
        for place, gears in self._known.items():
            _check(args[place], gears)
