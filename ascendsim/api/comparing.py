"""`compare`: several runs side by side, in one table and one picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ascendsim import profiling
from ascendsim.api.intervals import intervals_of_variants
from ascendsim.api.result import Result
from ascendsim.api.running import run as run_model
from ascendsim.api.running import simulate
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.core.files import make_folder
from ascendsim.core.table import Table
from ascendsim.graph.ir import Array
from ascendsim.profiling.comparison import (
    BY_PLACE,
    NO_VALUES,
    REFERENCE,
    Difference,
    VariantFigures,
    compare_figures,
    comparison_html,
    comparison_table,
    largest_difference,
    phase_table,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes  # noqa: TID251

    from ascendsim.plot.comparison import ComparisonDisplay
    from ascendsim.report import Report


@dataclass(frozen=True)
class Comparison:
    """Results of variants, the first of which the others are measured against.

    Attributes:
        results: By name of the variant, in order.
        figures: What each comes to, in the same order.
    """

    results: Mapping[str, Result]
    figures: tuple[VariantFigures, ...]

    def table(self) -> Table:
        """One row a variant: time and where it is likely to be (`Result.duration_interval`; variants whose
        errors have a cause in common share its factors), speed-up, bytes, tasks, launches, memory, and the
        largest difference of the outputs.

        "Block launches" are blocks that started on a core, "Launch(us)" what the starts of all tasks cost,
        "Memory" is all device memory but weights, "Of range" the largest difference over the range of the
        output that it is in.
        """
        return comparison_table(self.figures)

    def phases(self) -> Table:
        """One row a task of each variant: time to emit, read, compute and write, and the tensors in global
        memory read and written.
        """
        return phase_table(self._profiles())

    @checked()
    def plot_timelines(self, ax: Axes | None = None, **options: Any) -> ComparisonDisplay:
        """Draws the timelines under each other on one time axis.

        Variants of at most 12 tasks get lanes for emit, read, compute and write (E, R, C, W); what their
        pipes did is simulated once more if it was not recorded.

        Args:
            ax: Axes to draw on; a new figure if None.
            **options: `lanes="phases"` or `"pipes"`, `window=(start_us, end_us)`, `title=...`; see
                `ascendsim.plot.comparison`.
        """
        from ascendsim.plot.comparison import PHASE_TASKS, comparison_timelines

        wanted = options.get("lanes", "auto")
        few = all(len(result.trace.tasks) <= PHASE_TASKS for result in self.results.values())
        profiles = self._recorded() if wanted == "phases" or (wanted == "auto" and few) else self._profiles()
        likely = {figure.name: figure.likely for figure in self.figures if figure.likely is not None}
        return comparison_timelines(profiles, likely=likely, **options).plot(ax)

    @checked(findings="asim.advise(...).table() makes one")
    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        findings: Table | None = None,
        window: tuple[float, float] | None = None,
    ) -> Report:
        """One HTML page of all variants, with what changed from the first; see `Result.report`.

        Args:
            path: File to write, ends in .html; None = a notebook alone shall show it.
            findings: What the advisor proposes for the last variant.
            window: Spans of the timeline in this time only, (start, end) in us.

        Raises:
            InputError: As `Result.report`.
        """
        from ascendsim.api.reporting import report

        return report(self.results, path, findings, window)

    @checked()
    def save(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Writes the table, compare.csv, and the picture, compare.png, into a folder.

        Returns:
            The files written.

        Raises:
            InputError: If the folder cannot be made or written.
        """
        target = make_folder(folder)
        self.to_csv(target / "compare.csv")
        picture = self.plot_timelines().save(target / "compare.png")
        return (target / "compare.csv", picture)

    @checked()
    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """The table as CSV, written to a file as well if a path is given."""
        return self.table().to_csv(path)

    def to_dataframe(self) -> pd.DataFrame:
        """The table as a pandas data frame (needs the extra `ascendsim[dataframe]`)."""
        return self.table().to_dataframe()

    def _profiles(self) -> dict[str, profiling.ProfiledRun]:
        return {name: result.profile for name, result in self.results.items()}

    def _recorded(self) -> dict[str, profiling.ProfiledRun]:
        """Profiles with all instructions. Simulation repeats exactly, so the times are those of the
        results.
        """
        return {
            name: (result if result.trace.instructions else simulate(result.model, instructions=True)).profile
            for name, result in self.results.items()
        }

    def _repr_html_(self) -> str:
        return comparison_html(self.table())

    def __repr__(self) -> str:
        parts = ", ".join(f"{figure.name} {figure.duration_us:.3f} us" for figure in self.figures)
        return f"Comparison({parts})"


@checked(variants='write asim.compare({"unfused": a, "fused": b})')
def compare(
    variants: Mapping[str, Result | CompiledModel],
    *,
    inputs: Mapping[str, Any] | None = None,
    values: Literal["device", "float32"] = "device",
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compares runs: of one network fused in several ways, on several chips, at several batches ...

    Args:
        variants: By name, at least two; the others are measured against the first. Results of `simulate` or
            `run` are taken as they are, compiled models are simulated.
        inputs: Arrays by graph input name: compiled models are run on them, so that outputs can be compared.
        values: How those runs compute, see `run`.
        progress: Called with (tasks done, tasks in all) by every simulation.

    Raises:
        InputError: If there are fewer than two variants, one is neither a result nor a model, or the inputs
            do not fit a model.
    """
    if len(variants) < 2:
        raise InputError(
            "compare",
            "takes at least two variants",
            len(variants),
            'write asim.compare({"unfused": a, "fused": b})',
        )
    results: dict[str, Result] = {}
    for name, variant in variants.items():
        if isinstance(variant, Result):
            results[name] = variant
        elif isinstance(variant, CompiledModel):
            results[name] = (
                simulate(variant, progress=progress)
                if inputs is None
                else run_model(variant, inputs, values=values, progress=progress)
            )
        else:
            raise InputError(
                f"variant {name!r}",
                "must be a result or a compiled model",
                type(variant).__name__,
                "see asim.compile, asim.run",
            )
    return Comparison(
        results,
        compare_figures(
            {name: result.profile for name, result in results.items()},
            _differences(results),
            intervals_of_variants(results),
        ),
    )


def _differences(results: Mapping[str, Result]) -> dict[str, Difference]:
    """Differences of each variant's outputs to those of the first."""
    names = list(results)
    first = results[names[0]].values
    if first is None:
        return dict.fromkeys(names, NO_VALUES)
    found = {names[0]: Difference(0.0, 0.0, REFERENCE)}
    for name in names[1:]:
        outputs = results[name].values
        found[name] = NO_VALUES if outputs is None else _difference(first, outputs)
    return found


def _difference(first: Mapping[str, Array], outputs: Mapping[str, Array]) -> Difference:
    """By name; in order where no name is the same (two exports of a network) and all shapes are."""
    shapes = [[array.shape for array in arrays.values()] for arrays in (first, outputs)]
    if first.keys() & outputs.keys() or shapes[0] != shapes[1]:
        return largest_difference(first, outputs)
    return replace(largest_difference(first, dict(zip(first, outputs.values(), strict=True))), note=BY_PLACE)
