"""`sweep`: one model, or several, at every combination of what may differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from os import PathLike
from typing import Any

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, SocError
from ascendsim.core.progress import Progress, shown
from ascendsim.sweep.fronts import front
from ascendsim.sweep.key import chip_digest, chip_of, fingerprint, key_of_point
from ascendsim.sweep.rows import Sweep, SweepRow, costs_of
from ascendsim.sweep.runner import answers
from ascendsim.sweep.space import MOST_POINTS, Point, flat, flat_axes, is_axis, space_of
from ascendsim.sweep.store import DONE, FAILED, Answer, Store
from ascendsim.sweep.work import Request, Source, graph_of, source_of

ModelSource = str | PathLike[str] | bytes
ModelSources = ModelSource | Sequence[ModelSource]
SCREENED_BY = ("Samples/s", "Memory(MiB)")
# by which a screened point must be beaten to be left out: times by the closed form are 2.2 % off on average
# and 7.8 % at most, for BERT-large at 28 points (docs/sweep_results.md)
MARGIN = 0.08


@checked(
    model="workers read the model themselves: give its file, or the bytes of one",
    executor="any concurrent.futures.Executor will do, or a function that makes one",
    set='write set={"dram.read_gb_per_s": [40, 60]}',
    options='write options={"tiling": ["verified", "closed_form"]}',
    points='write points=[{"soc": "Ascend310", "batch": 8}]',
)
def sweep(
    model: ModelSources,
    *,
    soc: Any = "Ascend310",
    batch: Any = None,
    fusion: Any = "all",
    schedule: Any = "sink",
    set: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    points: Sequence[Mapping[str, Any]] | None = None,
    store: str | PathLike[str] | None = None,
    workers: int | None = None,
    executor: Executor | Callable[[], Executor] | None = None,
    screen: bool = False,
    retry: bool = False,
    time_limit: float | None = None,
    limit: int = MOST_POINTS,
    progress: Progress | bool = True,
    **axes: Any,
) -> Sweep:
    """Simulates a model at every combination of chips, batches and options. A list is an axis, anything else
    one value for all points.

    Args:
        model: Path of a model, or the bytes of an ONNX file; several are an axis too.
        soc: Chips, by name or file.
        batch: Batch sizes; None = the model's own.
        fusion: Fusion levels.
        schedule: Who launches tasks: "sink", "host", "eager".
        set: Figures of the chip by dotted key, each one value or a list.
        options: How releases differ, as for `compile`, each one value or a list.
        points: Points one by one, dictionaries of these names, in place of every combination.
        store: File that keeps every answer as soon as it is there. What it has is not computed again, as
            long as model, chip and the simulator's code are the same, so a sweep that was stopped goes on.
        workers: Points under way at a time, each in a process of its own; 1 = in this process. As many as
            there are processors by default.
        executor: Where to work instead: any `concurrent.futures.Executor` (of loky, of Dask), or a function
            that makes one, which can replace it when a worker dies.
        screen: First all points with tiles by a formula (`tiling="closed_form"`), which is quicker;
            then those again in full that could be on the front of samples a second and memory.
        retry: Whether points that failed before are tried again.
        time_limit: Seconds that a point may take; then it has failed.
        limit: Points that a sweep may have.
        progress: Called with (points done, points in all); True = a bar on standard error, or lines now and
            then where that is no terminal.
        **axes: `shapes` (shapes by input name), and other options of `compile`: `precision_mode`,
            `aicore_num` ...

    Returns:
        The points in order. A point that failed is in `failed()`, with its reason, and stops no other.

    Raises:
        InputError: If there is no axis, an axis or a value does not exist or comes twice, there are too many
            points, the model or the store cannot be used, or the executor takes no work.
        SocError: If a chip or a figure of it does not exist, or a figure cannot be what is asked.
    """
    given = {"soc": soc, "batch": batch, "fusion": fusion, "schedule": schedule, **axes}
    if time_limit is not None and not time_limit > 0:
        raise InputError("option time_limit", "must be above 0 s", time_limit)
    if screen and "tiling" in (options or {}):
        raise InputError("option screen", "chooses tilings itself", remedy="leave options tiling out")
    sources = sources_of(model)
    asked = {name: value for name, value in given.items() if value is not None}
    everything = {**asked, "set": set or {}, "options": options or {}}
    space = space_of(list(sources), everything, rows=points, limit=limit)
    if points is None and len(sources) == 1 and not any(is_axis(each) for _, each in flat_axes(everything)):
        remedy = "give a list, such as batch=[1, 8], or points="
        raise InputError("sweep", "needs an axis, and each argument has one value", remedy=remedy)
    told = frozenset(name for point in space.points for name in flat(point))
    named = tuple(name for name in space.named if name in told)  # one that is at its default tells nothing
    with Store(store) as kept, shown(progress, "sweep") as show:
        asking = Asking(kept, sources, workers, executor, retry, time_limit)
        if not screen:
            return Sweep(tuple(asking.rows(space.points, show)), named, kept.path)
        rows = asking.rows([_quick(point) for point in space.points], show)
        places = [place for place, row in enumerate(rows) if row.answer.state == DONE]
        costs = [costs_of(rows[place].answer.figures, SCREENED_BY) for place in places]
        again = [places[index] for index in front(costs, MARGIN)]
        full = asking.rows([space.points[place] for place in again], show)
        for place, row in zip(again, full, strict=True):
            rows[place] = row
        return Sweep(tuple(rows), named, kept.path)


def _quick(point: Point) -> Point:
    return {**point, "options": {**point.get("options", {}), "tiling": "closed_form"}}


def sources_of(model: ModelSources) -> dict[str, Source]:
    """Models by the names that points have for them.

    Raises:
        InputError: If there is none, one cannot be read, or two are the same.
    """
    listed: list[Any] = [model] if isinstance(model, (str, bytes, PathLike)) else list(model)
    if not listed:
        raise InputError("argument model", "must name at least one model")
    found: dict[str, Source] = {}
    for one in listed:
        source = source_of(one)
        if any(source.digest == other.digest for other in found.values()):
            raise InputError("argument model", f"names {source.name!r} twice", remedy="keep one of them")
        name = source.name if source.name not in found else source.path or source.name
        found[name] = source
    return found


class Asking:
    """Points become rows: from the store, or computed and kept there.

    Args:
        store: What is known.
        sources: Models by the names that points have for them.
        workers: As for `sweep`, like all that follow.
    """

    def __init__(
        self,
        store: Store,
        sources: Mapping[str, Source],
        workers: int | None = None,
        executor: Executor | Callable[[], Executor] | None = None,
        retry: bool = False,
        time_limit: float | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise InputError("option workers", "must be a positive whole number", workers)
        self._store, self._sources = store, sources
        self._workers, self._executor = workers, executor
        self._retry, self._time_limit = retry, time_limit

    def rows(self, points: Sequence[Point], progress: Progress | None = None) -> list[SweepRow]:
        """A row a point, in their order."""
        for chip in dict.fromkeys(point["soc"] for point in points):
            chip_of({"soc": chip})  # one that does not exist is a mistake of the question
        requests: list[Request] = []
        refused: dict[int, Answer] = {}
        for place, point in enumerate(points):
            try:
                requests.append(self._request(point))
            except SocError as error:  # a value that is fine by itself and not on this chip
                requests.append(Request("", point, self._sources[point["model"]], "", ""))
                refused[place] = Answer("", FAILED, {}, str(error))
        known = {
            request.key: answer
            for request in requests
            if request.key and (answer := self._known(request.key))
        }
        missing = {request.key: request for request in requests if request.key and request.key not in known}
        done, total = len(requests) - len(missing), len(requests)
        if progress is not None:
            progress(done, total)
        for answer in self._computed(list(missing.values())):
            known[answer.key] = answer
            done += 1
            if progress is not None:
                progress(done, total)
        return [
            SweepRow(point, refused.get(place) or known[request.key], request.source)
            for place, (point, request) in enumerate(zip(points, requests, strict=True))
        ]

    def _request(self, point: Point) -> Request:
        source = self._sources[point["model"]]
        chip = chip_digest(chip_of(point))
        key = key_of_point(point, source.digest, chip)
        return Request(key, point, source, chip, fingerprint(), self._time_limit)

    def _known(self, key: str) -> Answer | None:
        found = self._store.get(key)
        return None if found is None or (self._retry and found.state == FAILED) else found

    def _computed(self, requests: Sequence[Request]) -> Iterator[Answer]:
        points = {request.key: request.point for request in requests}
        # those of one graph one after another: workers keep it
        ordered = sorted(requests, key=lambda request: graph_of(request.point, request.source))
        with closing(answers(ordered, self._workers, self._executor)) as found:  # so that workers end with us
            for answer in found:
                yield self._store.put(points[answer.key], answer)
