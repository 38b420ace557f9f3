"""What a search may choose: values out of a list, or numbers out of a range."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascendsim.core.errors import InputError, suggest
from ascendsim.sweep.space import NESTED, checked_value, flat_axes, listed, values_of

if TYPE_CHECKING:
    from optuna import Trial

_RANGE = {"low", "high", "step", "log"}


@dataclass(frozen=True)
class Choice:
    """One of some values; if they are numbers, in their order.

    Attributes:
        name: Of the axis.
        values: At least one.
    """

    name: str
    values: tuple[Any, ...]

    @property
    def size(self) -> float:
        return len(self.values)

    def suggest(self, trial: Trial) -> Any:
        """What a trial is to have."""
        if len(self.values) == 1:
            return self.values[0]
        places = range(len(self.values))
        ordered = all(isinstance(value, int | float) and not isinstance(value, bool) for value in self.values)
        place = (
            trial.suggest_int(self.name, 0, len(places) - 1)
            if ordered
            else trial.suggest_categorical(self.name, [*places])
        )
        return (sorted(self.values) if ordered else self.values)[place]


@dataclass(frozen=True)
class Range:
    """A number between two others.

    Attributes:
        name: Of the axis.
        low, high: The ends, which are in it; whole numbers where the axis takes only those.
        step: Between two numbers; None = any.
        log: Whether ratios count instead of differences.
    """

    name: str
    low: float
    high: float
    step: float | None
    log: bool

    @property
    def size(self) -> float:
        if isinstance(self.low, int):
            return (self.high - self.low) // (self.step or 1) + 1
        return math.inf if self.step is None else (self.high - self.low) // self.step + 1

    def suggest(self, trial: Trial) -> Any:
        """What a trial is to have."""
        if isinstance(self.low, int):
            return trial.suggest_int(
                self.name, self.low, int(self.high), step=int(self.step or 1), log=self.log
            )
        return trial.suggest_float(self.name, self.low, self.high, step=self.step, log=self.log)


Dimension = Choice | Range


def dimensions(space: Mapping[str, Any]) -> tuple[Dimension, ...]:
    """What is to be chosen, in the order in which it was written.

    Args:
        space: By axis: a list, a range {"low": 1, "high": 8} with "step" or "log", or one value. Figures of
            the chip are under "set", and may be nested as their names are: {"dram": {"read_gb_per_s": ...}}.

    Raises:
        InputError: If an axis or a value does not exist, a list is empty or names something twice, a range
            has no numbers in it, or there is nothing to choose.
        SocError: The same of a figure of the chip.
    """
    found = tuple(_dimension(name, given) for name, given in flat_axes(_joined(space)))
    if not found or all(each.size <= 1 for each in found):
        raise InputError(
            "option space", "must have something to choose", remedy='write space={"batch": [1, 2, 4, 8]}'
        )
    return found


def _joined(space: Mapping[str, Any]) -> dict[str, Any]:
    """The space with nested keys of figures joined by dots."""
    return {
        name: dict(_keys(given, "")) if name in NESTED and isinstance(given, Mapping) else given
        for name, given in space.items()
    }


def _keys(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, given in table.items():
        if isinstance(given, Mapping) and not given.keys() & _RANGE:
            yield from _keys(given, f"{prefix}{name}.")
        else:
            yield prefix + name, given


def _dimension(name: str, given: Any) -> Dimension:
    if isinstance(given, Mapping) and given.keys() & _RANGE:
        return _range(name, given)
    return Choice(name, values_of(name, listed(given)))


def _range(name: str, given: Mapping[str, Any]) -> Range:
    for key in given:
        if key not in _RANGE:
            raise InputError(f"range {name}: {key}", "does not exist", remedy=suggest(str(key), _RANGE))
    if not {"low", "high"} <= given.keys():
        raise InputError(f"range {name}", "must have low and high", repr(dict(given))[:60])
    low, high = (checked_value(name, given[end]) for end in ("low", "high"))
    if any(isinstance(end, bool) or not isinstance(end, int | float) for end in (low, high)):
        raise InputError(f"range {name}", "is of something that has no order", remedy="give a list")
    step, log = given.get("step"), given.get("log", False)
    step = None if step is None else checked_value(name, step)
    if not low < high or not isinstance(log, bool) or (log and (step is not None or low <= 0)):
        rule = "must have low below high, and log (true or false) only without step and above 0"
        raise InputError(f"range {name}", rule, repr(dict(given))[:60])
    return Range(name, low, high, step, log)
