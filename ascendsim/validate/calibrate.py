"""Fitting the assumed constants of a chip on published networks, and what that is worth for networks that
were not seen.

Only physical constants are declared, with the range in which each is plausible: bandwidths, latencies, launch
costs, the cost of starting an instruction, the efficiency of a unit. Programs are compiled once, with the
chip file as it is; only the machine runs again. One round:

    1  run all points with the current values, and once more with each constant moved by a step of its range
    2  errors e = log(simulated time / published time) are then linear in the constants: e + J d; d minimises
       the sum of Huber's
       function of them (squares up to 10 %, absolute values beyond, so that outliers count no more than they
       must), inside the ranges

A fit that leaves a network out uses the last round's J without that network's rows; the network is then run
with what came out. These are the scores by which the fit must be judged: the constants have not seen what
they predict.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from ascendsim import soc as chips
from ascendsim.compiler.cann_versions import changes_of, with_version
from ascendsim.isa.program import Program
from ascendsim.machine import run as run_machine
from ascendsim.soc import SocSpec
from ascendsim.validate.models import call_us, compile_point
from ascendsim.validate.points import Point
from ascendsim.validate.score import Prediction

HUBER = 0.1  # log error up to which errors count as squares
STEP = 0.15  # of a range: how far a constant is moved to see what it does
FloatArray: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
Values = dict[str, float]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant that may be fitted.

    Attributes:
        keys: Dotted keys of the chip that take the same value.
        low, high: Range in which it is plausible.
        why: What bounds the range.
    """

    keys: tuple[str, ...]
    low: float
    high: float
    why: str

    def at(self, place: float) -> Values:
        """Values at a place in the range (0 = low, 1 = high), to three digits (whole cycles where the key
        counts cycles).
        """
        value = min(self.high, float(f"{self.low + place * (self.high - self.low):.3g}"))
        return {key: round(value) if key.endswith("_cycles") else value for key in self.keys}


_L2 = ("l2.read_bytes_per_cycle_per_core", "l2.write_bytes_per_cycle_per_core")
_DRAM = ("dram.read_gb_per_s", "dram.write_gb_per_s")
SAME_CHIP = {"310P": "310P3"}  # by group of points: the one that it is fitted with
CONSTANTS: Mapping[str, tuple[Constant, ...]] = {
    "310P3": (
        Constant(_DRAM, 120.0, 204.8, "60 % of the nominal rate to all of it"),
        Constant(
            ("launch.kernel_init_ns",), 100.0, 1500.0, "a whole small task of Ascend910A takes 1.0 to 1.3 us"
        ),
        Constant(("launch.task_gap_us",), 0.1, 1.5, "gap between queued tasks of Ascend910A: about 1.2 us"),
        Constant(
            ("launch.model_call_us",),
            0.0,
            170.0,
            "none to the shortest published call, SqueezeNet's of 172 us",
        ),
        Constant(("issue.instruction_start_ns",), 0.0, 40.0, "none to that of Ascend310"),
        Constant(("cube.gap_cycles",), 0.0, 40.0, "none to 38 ns between instructions"),
    ),
    "310": (
        Constant(("launch.task_gap_us",), 0.0, 3.0, "contained in the launch, or longer than it"),
        Constant(
            ("launch.model_call_us",),
            0.0,
            400.0,
            "none to half of the shortest published call, SqueezeNet's of 872 us",
        ),
        Constant(
            _L2,
            31.0,
            64.0,
            "the rate of the bus to DDR, 42 GB/s for both cores, to the lower of the two nominal rates",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Case:
    """A compiled point."""

    point: Point
    program: Program

    @property
    def log_published(self) -> float:
        """Logarithm of the published seconds of a batch."""
        return math.log(self.point.batch / self.point.throughput)


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted chip.

    Attributes:
        values: By dotted key.
        left_out: By network: the values of the fit that did not see it.
        seen, unseen: Predictions of the fitted points, with the values of all and with those that did not see
            the network.
    """

    values: Values
    left_out: dict[str, Values]
    seen: tuple[Prediction, ...]
    unseen: tuple[Prediction, ...]


def left_out_values(group: str) -> Mapping[str, Values]:
    """By network: the stored values of the fit that did not see it; empty for a chip that was not fitted."""
    with files("ascendsim.validate").joinpath("data/calibration.json").open(encoding="utf-8") as source:
        stored = json.load(source)
    return {name: dict(values) for name, values in stored.get(group, {}).get("left_out", {}).items()}


def unseen_values(groups: Iterable[str]) -> Callable[[Point], Values]:
    """For each point of some groups the constants of its chip that were fitted without its network, as far as
    its version of CANN does not say otherwise.
    """
    stored = {group: left_out_values(SAME_CHIP.get(group, group)) for group in set(groups)}

    def values(point: Point) -> Values:
        found = stored[point.group].get(point.model, {})
        return free_of_version(point.soc, point.conditions.cann, found)

    return values


def free_of_version(soc: str, cann: str, values: Values) -> Values:
    """Values without those that a version of CANN ("" = the newest) has otherwise."""
    others = {change.key for change in changes_of(chips.load(soc), cann or None)}
    return {key: value for key, value in values.items() if key not in others}


def prepare(points: Iterable[Point], folder: Path, fusion: str = "all") -> list[Case]:
    """Compiles points with the chip files as they are."""
    return [Case(point, compile_point(point, folder, fusion).program) for point in points]


def fit(
    cases: Sequence[Case], constants: Sequence[Constant], rounds: int = 2, report: Report = lambda line: None
) -> Fit:
    """Fits constants on all cases of one chip, and on all networks but one.

    Args:
        cases: At least two networks.
        constants: What may change.
        rounds: Times that the errors are made linear.
        report: Receives a line a run.
    """
    places = _start(cases[0].point.soc, constants)
    errors, slopes = _errors(cases, constants, places), np.zeros((len(cases), len(constants)))
    report(f"start: {_described(constants, places)}: mean |log error| {np.abs(errors).mean():.4f}")
    for _ in range(rounds):
        for number in range(len(constants)):
            moved = places.copy()
            moved[number] += STEP if places[number] + STEP <= 1 else -STEP
            slopes[:, number] = (_errors(cases, constants, moved) - errors) / (moved[number] - places[number])
        better = places + minimise(errors, slopes, -places, 1 - places)
        trial = _errors(cases, constants, better)
        report(f"{_described(constants, better)}: mean |log error| {np.abs(trial).mean():.4f}")
        if np.abs(trial).mean() >= np.abs(errors).mean():
            break
        places, errors = better, trial
    left_out, unseen = {}, list[Prediction]()
    for name in dict.fromkeys(case.point.model for case in cases):
        mine = np.array([case.point.model == name for case in cases])
        other = places + minimise(errors[~mine], slopes[~mine], -places, 1 - places)
        left_out[name] = _values(constants, other)
        own = [case for case in cases if case.point.model == name]
        unseen += _predictions(own, _errors(own, constants, other))
    return Fit(_values(constants, places), left_out, tuple(_predictions(cases, errors)), tuple(unseen))


def minimise(errors: FloatArray, slopes: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """The step d inside [low, high] with the least sum of Huber's function of errors + slopes d.

    Reweighted least squares, one coordinate at a time, each clipped to its range.

    >>> minimise(np.array([0.2, -0.1]), np.array([[1.0], [1.0]]), np.array([-1.0]), np.array([1.0])).round(3)
    array([0.])
    """
    step = np.clip(np.zeros(len(low)), low, high)
    for _ in range(200):
        now = errors + slopes @ step
        weights = HUBER / np.maximum(HUBER, np.abs(now))
        before = step.copy()
        for number in range(len(step)):
            column = slopes[:, number]
            bend = float((weights * column * column).sum())
            if bend > 0:
                wanted = step[number] - float((weights * column * now).sum()) / bend
                new = min(max(wanted, low[number]), high[number])
                now, step[number] = now + column * (new - step[number]), new
        if np.abs(step - before).max() < 1e-6:
            break
    return step


def _start(soc: str, constants: Sequence[Constant]) -> FloatArray:
    """Places of the chip file's own values."""
    spec = chips.load(soc)
    places = [
        (figure(spec, constant.keys[0]) - constant.low) / (constant.high - constant.low)
        for constant in constants
    ]
    return np.array([min(max(place, 0.0), 1.0) for place in places])


def figure(spec: SocSpec, key: str) -> float:
    """A chip's figure by its dotted key; keys of a table may have a dot of their own ("vexp.float16")."""
    value: object = spec
    while key:
        part, _, key = (key, "", "") if isinstance(value, Mapping) else key.partition(".")
        value = value[part] if isinstance(value, Mapping) else getattr(value, part)
    return float(str(value))


def _values(constants: Sequence[Constant], places: Iterable[float]) -> Values:
    """Values by key."""
    values: Values = {}
    for constant, place in zip(constants, places, strict=True):
        values |= constant.at(float(place))
    return values


def _errors(cases: Sequence[Case], constants: Sequence[Constant], places: Iterable[float]) -> FloatArray:
    values = _values(constants, places)
    kinds = {(case.point.soc, case.point.conditions.cann) for case in cases}
    specs = {
        (soc, cann): with_version(chips.load(soc, free_of_version(soc, cann, values)), cann or None)
        for soc, cann in kinds
    }
    times = []
    for case in cases:
        spec = specs[case.point.soc, case.point.conditions.cann]
        times.append(1e-6 * (run_machine(case.program, spec).duration_us + call_us(case.program, spec)))
    return np.array([math.log(time) - case.log_published for time, case in zip(times, cases, strict=True)])


def _predictions(cases: Sequence[Case], errors: Iterable[float]) -> list[Prediction]:
    return [
        Prediction(case.point, case.point.throughput * math.exp(-error))
        for case, error in zip(cases, errors, strict=True)
    ]


def _described(constants: Sequence[Constant], places: Iterable[float]) -> str:
    values = _values(constants, places)
    return ", ".join(f"{constant.keys[0]} {values[constant.keys[0]]:g}" for constant in constants)
