"""Results as one HTML page: what `Result.report` and `Comparison.report` do."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

from ascendsim.api.intervals import Timed, intervals_of_variants
from ascendsim.compiler.memory_report import MemoryReport
from ascendsim.core.errors import InputError
from ascendsim.core.table import Table
from ascendsim.profiling.interval import DurationInterval
from ascendsim.profiling.view import ProfiledRun
from ascendsim.report import Report, Subject, check_report, make_report

if TYPE_CHECKING:
    from ascendsim.plot.memory_map import MemoryMapDisplay


class Shown(Timed, Protocol):
    """What a report asks of a `Result`."""

    @property
    def profile(self) -> ProfiledRun: ...
    @property
    def memory(self) -> MemoryReport: ...
    @property
    def image_run(self) -> Any: ...


def report(
    results: Mapping[str, Shown],
    path: str | PathLike[str] | None,
    findings: Table | None = None,
    window: tuple[float, float] | None = None,
    sensitivity: Table | None = None,
) -> Report:
    """The page on some results, written to a file if a path is given.

    Args:
        results: By name of the variant; changes are against the first.
        path: Ends in .html; None = nothing is written.
        findings: What the advisor proposes for the last one.
        window: Spans of this time only, (start, end) in us.
        sensitivity: What each figure of the chip could change.
    """
    if path is not None:
        check_report(path)
    likely = intervals_of_variants(results)
    subjects = [_subject(name, result, likely[name]) for name, result in results.items()]
    first = next(iter(results.values()))
    chips = dict.fromkeys(result.model.soc.name for result in results.values())
    title = f"{first.model.source.name} on {', '.join(chips)}"
    page = make_report(title, subjects, findings, window, sensitivity)
    return page if path is None else page.save(path)


def _subject(name: str, result: Shown, likely: DurationInterval) -> Subject:
    model = result.model
    return Subject(
        name,
        result.profile,
        model.source,
        _memory(result),
        model.program.memory.peak_bytes,
        f"{likely} ({likely.share:.0%}: {likely.note})" if result.duration_us else "",
        {name: text for name, text in model.options.plain().items() if text not in ("{}", "()", "[]")},
    )


def _memory(result: Shown) -> MemoryMapDisplay | None:
    """The memory plan over the run; None where pieces were planned one by one, or a plan served many runs."""
    if result.image_run is not None or not result.model.planned:
        return None
    try:
        return result.memory.map()
    except InputError:  # open shapes and control flow have no plan of the whole
        return None
