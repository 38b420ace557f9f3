"""`search`: looks for the best points of a space that is too large to be swept."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from ascendsim.core.arguments import check_seed, checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.progress import Progress, shown
from ascendsim.sweep.ranges import Dimension, dimensions
from ascendsim.sweep.rows import MORE_IS_BETTER, Sweep, SweepRow, cell_of
from ascendsim.sweep.space import column_of, flat, point_of
from ascendsim.sweep.store import DONE, Store
from ascendsim.sweep.sweeping import Asking, ModelSource, sources_of
from ascendsim.sweep.work import FIGURES

if TYPE_CHECKING:
    import optuna

Cost = Callable[[Mapping[str, Any]], float]
Goal = str | Cost


@checked(
    model="workers read the model themselves: give its file, or the bytes of one",
    space='write space={"batch": [1, 8], "set": {"l2.size": {"low": "8MiB", "high": "64MiB"}}}',
    minimize='write minimize=("Time(us)", cost)',
)
def search(
    model: ModelSource,
    space: Mapping[str, Any],
    minimize: str | Cost | Sequence[str | Cost] = "Time(us)",
    *,
    maximize: str | Cost | Sequence[str | Cost] = (),
    trials: int = 100,
    at_a_time: int = 4,
    seed: int = 0,
    store: str | PathLike[str] | None = None,
    workers: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    retry: bool = False,
    time_limit: float | None = None,
    progress: Progress | bool = True,
    **axes: Any,
) -> Sweep:
    """Lets Optuna ask for the points that are likely to be better than what is known (needs the extra
    `ascendsim[sweep]`).

    The questions depend on the seed and on the answers alone, not on the workers: `at_a_time` of them
    are asked together. So a search that was stopped, started again with its store, asks the same and goes on.

    Args:
        model: Path of a model, or the bytes of an ONNX file.
        space: Axes as for `sweep`: a list, a range {"low": ..., "high": ...} with "step" or "log", or one
            value; figures of the chip under "set".
        minimize: What is to be small: columns of the sweep's table, its axes among them, or functions of a
            row (a dictionary by column), whose results become columns of their names.
        maximize: What is to be large.
        trials: Questions that are asked; fewer if the space has no more points.
        at_a_time: Questions that are asked together.
        seed: Of the questions.
        store, workers, executor, retry, time_limit, progress: As for `sweep`.
        **axes: Further axes of the space by the arguments of `sweep`: `soc`, `batch`, `shapes`, `fusion` ...;
            None leaves one out.

    Returns:
        The points that were asked for, each once, in the order of the first question.

    Raises:
        InputError: If Optuna is missing, an axis, a value or a column does not exist, there is nothing to
            choose, or a function gives no number.
        SocError: If a chip or a figure of it does not exist, or a figure cannot be what is asked.
    """
    for name, count in (("trials", trials), ("at_a_time", at_a_time)):
        if count < 1:
            raise InputError(f"option {name}", "must be a positive whole number", count)
    check_seed(seed)
    more = {name: given for name, given in axes.items() if given is not None}
    for name in sorted(more.keys() & space.keys()):
        raise InputError(f"option {name}", "is in the space too", remedy="write it in one place")
    found = dimensions({**space, **more})
    sources = sources_of(model)
    goals = [*((goal, False) for goal in _listed(minimize)), *((goal, True) for goal in _listed(maximize))]
    _check_goals(goals, found)
    rows: dict[str, SweepRow] = {}
    with Store(store) as kept, _study(goals, seed) as study, shown(progress, "search") as show:
        asking = Asking(kept, sources, workers, executor, retry, time_limit)
        asked, size = 0, math.prod(each.size for each in found)
        while asked < trials and len(rows) < size:
            asked_now = [study.ask() for _ in range(min(at_a_time, trials - asked))]
            points = [
                point_of(next(iter(sources)), {each.name: each.suggest(trial) for each in found})
                for trial in asked_now
            ]
            for trial, row in zip(asked_now, asking.rows(points), strict=True):
                row, values = _valued(row, goals)
                rows.setdefault(repr(row.point), row)
                _tell(study, trial, values)
            asked += len(asked_now)
            if show is not None:
                show(*((asked, trials) if trials <= size else (len(rows), int(size))))
        names = tuple(_name(goal) for goal, _ in goals)
        larger = MORE_IS_BETTER.union(_name(goal) for goal, up in goals if up)
        return Sweep(tuple(rows.values()), tuple(each.name for each in found), kept.path, names, larger)


def _listed(goals: str | Cost | Sequence[str | Cost]) -> list[Goal]:
    return [goals] if isinstance(goals, str) or callable(goals) else list(goals)


def _check_goals(goals: Sequence[tuple[Goal, bool]], found: Sequence[Dimension]) -> None:
    """Refuses goals that no row has, before anything is computed."""
    if not goals:
        raise InputError("option minimize", "must name at least one goal", remedy='write minimize="Time(us)"')
    known = [*FIGURES, *(column_of(each.name) for each in found)]
    for goal, larger in goals:
        if callable(goal):
            continue
        if goal not in known:
            raise InputError(
                f"column {goal!r}", "is not in the table of a search", remedy=suggest(goal, known)
            )
        if goal in MORE_IS_BETTER and not larger:
            raise InputError(
                f"column {goal!r}", "is better the larger it is", remedy=f'write maximize="{goal}"'
            )
    if len({_name(goal) for goal, _ in goals}) < len(goals):
        raise InputError("options minimize and maximize", "name a goal twice")


def _name(goal: Goal) -> str:
    return goal if isinstance(goal, str) else getattr(goal, "__name__", "cost")


def _valued(row: SweepRow, goals: Sequence[tuple[Goal, bool]]) -> tuple[SweepRow, list[float] | None]:
    """A row with the results of the user's functions, and what each goal comes to; None if it failed."""
    if row.answer.state != DONE:
        return row, None
    axes = {column_of(name): cell_of(name, row.point) for name in flat(row.point)}
    figures = {**axes, **row.answer.figures}
    own = {_name(goal): _number(goal, goal(figures)) for goal, _ in goals if callable(goal)}
    values = [_number(goal, {**figures, **own}.get(_name(goal))) for goal, _ in goals]
    return replace(row, answer=replace(row.answer, figures={**row.answer.figures, **own})), values


def _number(goal: Goal, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"goal {_name(goal)!r}", "must be a finite number", repr(value)[:60])
    return value


@contextmanager
def _study(goals: Sequence[tuple[Goal, bool]], seed: int) -> Iterator[optuna.Study]:
    """A study in memory that neither logs nor warns.

    Raises:
        InputError: If Optuna is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise InputError(
            "search",
            "needs optuna, which is not installed",
            remedy='install it with pip install "ascendsim[sweep]"',
        ) from None
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            ways = optuna.study.StudyDirection
            directions = [ways.MAXIMIZE if larger else ways.MINIMIZE for _, larger in goals]
            # TPE for several goals too: its first generation of a genetic sampler would be a whole search
            yield optuna.create_study(directions=directions, sampler=optuna.samplers.TPESampler(seed=seed))
    finally:
        optuna.logging.set_verbosity(before)


def _tell(study: optuna.Study, trial: optuna.Trial, values: list[float] | None) -> None:
    from optuna.trial import TrialState

    if values is None:
        study.tell(trial, state=TrialState.FAIL)
    else:
        study.tell(trial, values)
