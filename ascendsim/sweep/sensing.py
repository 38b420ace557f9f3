"""`sensitivity`: how much the time of a model depends on each figure of the chip."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from os import PathLike
from typing import Any

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.core.progress import Progress, shown
from ascendsim.sweep.figures import Movable, movable, single
from ascendsim.sweep.key import chip_of
from ascendsim.sweep.probes import Probe, Side
from ascendsim.sweep.rows import SweepRow
from ascendsim.sweep.sensitivities import Sensitivity
from ascendsim.sweep.space import Point, space_of
from ascendsim.sweep.store import DONE, Store
from ascendsim.sweep.sweeping import Asking, ModelSource, sources_of


@checked(
    model="workers read the model themselves: give its file, or the bytes of one",
    keys='write keys=["dram.read_gb_per_s"], or keys="assumed"',
    values='write values={"ai_cores": [1, 3]}',
    set='write set={"l2.size": "16MiB"}',
)
def sensitivity(
    model: ModelSource,
    soc: str | PathLike[str] = "Ascend310",
    keys: Sequence[str] | str | None = None,
    *,
    values: Mapping[str, Sequence[float]] | None = None,
    low: float = 0.8,
    high: float = 1.25,
    batch: int | None = None,
    fusion: str = "all",
    schedule: str = "sink",
    set: Mapping[str, str | int | float] | None = None,
    options: Mapping[str, bool | int | str] | None = None,
    store: str | PathLike[str] | None = None,
    workers: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    retry: bool = False,
    time_limit: float | None = None,
    progress: Progress | bool = True,
    **axes: Any,
) -> Sensitivity:
    """Moves one figure of a chip at a time, down and up, and simulates the model with each.

    Args:
        model: Path of a model, or the bytes of an ONNX file.
        soc: Chip, by name or file.
        keys: Figures, or the first parts of their names ("dram"); "assumed" = those without a source, None =
            all that a factor can move. A table ("vector.cycles_per_repeat") moves as one.
        values: Values of one's own by key, one or two: for what no factor can move, such as the number of
            cores. With these alone nothing else is moved.
        low, high: Factors.
        batch, fusion, schedule, options, **axes: As for `sweep`, one value each.
        set: Changes to the chip before anything is moved.
        store, workers, executor, retry, time_limit, progress: As for `sweep`.

    Raises:
        InputError: If the factors do not lie on both sides of 1, or a key names no number of the chip.
        SocError: If the chip does not exist or refuses a change.
        AscendSimError: Why the model does not run on the chip as it is.
    """
    if not 0 < low < 1 < high < math.inf:
        raise InputError("options low and high", "must be factors below and above 1", f"{low} and {high}")
    if keys is not None and not keys:
        raise InputError("argument keys", "must name at least one figure", remedy='write keys=["dram"]')
    sources = sources_of(model)
    given = {"soc": soc, "batch": batch, "fusion": fusion, "schedule": schedule, **axes}
    asked = {name: value for name, value in given.items() if value is not None}
    (base,) = space_of(list(sources), {**asked, "set": set or {}, "options": options or {}}, limit=1).points
    spec = chip_of(base)
    moved, left = ([], []) if values and keys is None else movable(spec, keys)
    own = {key: _sides(key, each) for key, each in (values or {}).items()}
    figures = [*[each for each in moved if each.name not in own], *[single(spec, key) for key in own]]

    def points_of(each: Movable) -> tuple[Point | None, Point | None]:
        chosen = own.get(each.name)
        if chosen is None:
            return _with(base, each.scaled(low)), _with(base, each.scaled(high))
        down, up = chosen
        return (
            None if down is None else _with(base, {each.name: down}),
            None if up is None else _with(base, {each.name: up}),
        )

    def ask(points: Sequence[Point], progress: Progress | None = None) -> list[SweepRow]:
        crew = None if len(points) == 1 else workers  # one point is worth no processes
        with Store(store) as kept:
            return Asking(kept, sources, crew, executor, retry, time_limit).rows(points, progress)

    (first,) = ask([base])
    if first.answer.state != DONE:
        raise InputError(f"model {base['model']!r}", f"does not run on {base['soc']}: {first.answer.error}")
    pairs = [points_of(each) for each in figures]
    with shown(progress, "sensitivity") as show:
        rows = iter(ask([point for pair in pairs for point in pair if point is not None], show))
    probes = []
    for each, pair in zip(figures, pairs, strict=True):
        sides = [Side() if point is None else _side(next(rows)) for point in pair]
        probes.append(Probe(each, *sides))
    return Sensitivity(first, tuple(probes), tuple(left), ask)


def _with(base: Point, moved: Mapping[str, float]) -> Point:
    return {**base, "set": {**base.get("set", {}), **moved}}


def _side(row: SweepRow) -> Side:
    time = row.answer.figures.get("Time(us)")
    return Side(row.point["set"], None if time is None else float(time), row.answer.error)


def _sides(key: str, values: Sequence[float]) -> tuple[float | None, float | None]:
    """The lower and the upper of a user's values; None where there is none."""
    if not isinstance(values, (list, tuple)) or not 1 <= len(values) <= 2:
        raise InputError(f"values of {key}", "must be one or two", repr(values)[:60])
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"values of {key}", "must be finite numbers", repr(value)[:60])
    if len(set(values)) < len(values):
        raise InputError(f"values of {key}", f"name {values[0]} twice", remedy="keep one of them")
    down, up = (values[0], None) if len(values) == 1 else sorted(values)
    return down, up
