"""What a user holds after a run: durations, outputs, tables, pictures and trace files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.api.image_runs import ImageRun
from ascendsim.api.intervals import interval_of_run
from ascendsim.api.remedies import numerics_line
from ascendsim.compiler.buffer_log import buffer_texts
from ascendsim.compiler.memory_report import MemoryReport
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import checked, refuse_unknown
from ascendsim.core.errors import InputError
from ascendsim.core.files import make_folder
from ascendsim.graph.ir import Array
from ascendsim.passes.fusion.plog import write_plog
from ascendsim.passes.fusion.result_file import write_result
from ascendsim.runtime.numerics import Numerics
from ascendsim.trace.records import Trace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes  # noqa: TID251 - only for the type checker, nothing is loaded

    from ascendsim import profiling
    from ascendsim.api.tile_values import TileCoverage
    from ascendsim.core.table import Table
    from ascendsim.plot.bars import TopOperatorsDisplay
    from ascendsim.plot.roofline import RooflineDisplay
    from ascendsim.plot.timeline import TimelineDisplay
    from ascendsim.profiling.export import Export
    from ascendsim.profiling.interval import DurationInterval
    from ascendsim.report import Report


@dataclass(frozen=True, slots=True)
class DataParallel:
    """That a result is one of several devices that trained together.

    Attributes:
        devices: Their number.
        server: Name of the server, or of one of them.
        single_us: Time of the same step on one device.
    """

    devices: int
    server: str
    single_us: float


@dataclass(frozen=True)
class Result:
    """One execution of a compiled model.

    Attributes:
        model: What was run.
        trace: What happened when.
        values: Output arrays by name; None after `simulate`.
        watched: As `numerics`; None after `simulate`.
        parallel: With whom it trained; None on one device.
        image_run: The images that it ran over; None if it ran once, on arrays.
    """

    model: CompiledModel
    trace: Trace
    values: Mapping[str, Array] | None = None
    watched: Numerics | None = None
    parallel: DataParallel | None = None
    image_run: ImageRun | None = None

    @property
    def duration_us(self) -> float:
        """Device time of one execution in microseconds; over images that of all, with what prepares them."""
        return self.trace.duration_us

    @checked()
    def duration_interval(self, share: float = 0.8) -> DurationInterval:
        """Where the duration on a real chip is likely to be: `.low_us`, `.high_us`, and in `.note` what says
        so.

        It comes from the errors of networks with published measurements, above all those of the same kind on
        the same chip; where there are none it is an assumption, and the note says that.

        Args:
            share: Part of real executions that shall lie inside, 0.1 to 0.9.

        Raises:
            InputError: If the share is out of its range.
        """
        images, several = self.image_run is not None, self.parallel is not None
        unlike = "runs over images" if images else "several devices together" if several else ""
        return interval_of_run(self.model, self.profile, share, unlike)

    @property
    def cycles(self) -> int:
        """Device time of one execution in AI Core clock cycles."""
        return self.trace.cycles

    @property
    def schedule(self) -> str:
        """Who launched the tasks: "sink" (the device), "host" or "eager"."""
        return self.model.program.mode

    @property
    def schedule_reasons(self) -> tuple[str, ...]:
        """Why the host had to launch a graph that was meant for the device: open shapes; empty if it did not
        have to.
        """
        return self.model.program.info.host_reasons

    @property
    def outputs(self) -> Mapping[str, Array]:
        """Output arrays by name.

        Raises:
            InputError: If the run computed no values.
        """
        if self.values is None:
            raise InputError(
                "this result",
                "has no outputs, it was simulated for timing only",
                remedy="use asim.run(model, inputs)",
            )
        return self.values

    @property
    def numerics(self) -> Numerics:
        """How large the results of operators became, and which did not fit their types: `.overflows`,
        `.findings`, `.table`.

        Raises:
            InputError: If the run computed no values.
        """
        if self.watched is None:
            why = (
                "it was simulated for timing only" if self.values is None else "its values came tile by tile"
            )
            raise InputError("this result", f"has no numerics, {why}", remedy="use asim.run(model, inputs)")
        return self.watched

    def tile_coverage(self) -> TileCoverage:
        """Which tasks can be evaluated by the blocks that were timed (`run(values="tile")`), and what others
        lack.

        Raises:
            InputError: If the model has open shapes or control flow, or the run was over images.
        """
        from ascendsim.api.tile_values import coverage

        if self.image_run is not None:
            raise InputError(
                "this result",
                "has no coverage by tiles, it is over images",
                remedy="use asim.simulate(model).tile_coverage()",
            )
        return coverage(self.model, self.trace)

    def numerics_line(self) -> str:
        """The first overflow and what to do about it, in one line, or what else left its type; "" where
        every result fits its type, or nothing was computed.
        """
        if self.watched is None:
            return ""
        return numerics_line(self.watched, self.model, self.duration_us)

    @property
    def profile(self) -> profiling.ProfiledRun:
        """What the functions of `ascendsim.profiling` and `ascendsim.plot` take."""
        from ascendsim import profiling

        return profiling.ProfiledRun(
            self.model.graph, self.model.program, self.trace, self.model.soc, self.model.opset
        )

    @property
    def memory(self) -> MemoryReport:
        """As `CompiledModel.memory`, with the time of this execution on the axis of the map."""
        if self.image_run is not None:
            return self.image_run.single.memory
        if type(self.model) is not CompiledModel:
            return self.model.memory  # says why there is none
        return MemoryReport.of(self.model.source.name, self.model.graph, self.model.program, self.trace)

    def summary(self) -> profiling.Summary:
        """Totals: time, throughput, bytes, utilisation, and the assumed chip figures behind them."""
        from ascendsim import profiling

        return profiling.summarise(self.profile)

    @checked()
    def top_operators(self, count: int = 10) -> Table:
        """The operators that take the most time: engine, what bounds them, share, achieved against peak."""
        from ascendsim import profiling

        return profiling.top_operators(self.profile, count)

    def op_summary(self) -> Table:
        """One row a task, msprof's columns for the chip's generation."""
        from ascendsim import profiling

        return profiling.op_summary(self.profile)

    @checked()
    def op_statistic(self, *, task_ids: bool = False) -> Table:
        """One row an operator type, msprof's columns.

        Args:
            task_ids: Adds the columns "Op Names" and "Task IDs", which join the table to
                `ai_core_metrics()`: ids that are not there ran on the AI CPU.
        """
        from ascendsim import profiling

        return profiling.op_statistic(self.profile, task_ids=task_ids)

    def ai_core_metrics(self) -> Table:
        """One row a task of the AI Cores: time and share of each pipe. Tasks of the AI CPU are not in it."""
        from ascendsim import profiling

        return profiling.ai_core_metrics(self.profile)

    @checked()
    def steps(self, operators: str | Iterable[str] | None = None) -> Table:
        """One row a task that repeats a sequence (LSTM, GRU, RNN): time of a step, and what bounds it.

        Args:
            operators: Names, scopes or patterns of tasks; None = all that have steps.

        Raises:
            InputError: If a name matches no task, or only tasks without steps.
        """
        from ascendsim import profiling

        return profiling.steps(self.profile, operators)

    def task_time(self) -> Table:
        """One row a task as the scheduler saw it, msprof's columns."""
        from ascendsim import profiling

        return profiling.task_time(self.profile)

    def phases(self) -> Table:
        """One row a task: emit, read, compute and write (E, R, C, W) in us. Emit is the launch and the wait
        for it, for the host's launch too where the host is not ahead.
        """
        from ascendsim import profiling

        return profiling.task_phases(self.profile)

    def fusion_op(self) -> Table:
        """One row a task that runs several operators of the model, msprof's columns."""
        from ascendsim import profiling

        return profiling.fusion_op(self.profile)

    def training_shares(self) -> Table:
        """One row a phase of a training step: forward, backward, update."""
        from ascendsim import profiling

        return profiling.training_shares(self.profile)

    def communication(self) -> Table:
        """One row: time of a data parallel step, the part of its communication that nothing hides, and the
        efficiency against one device.

        Raises:
            InputError: If one device ran alone.
        """
        from ascendsim import profiling

        if self.parallel is None:
            remedy = 'use asim.simulate(model, devices=8, server="Atlas 800 9000")'
            raise InputError("this result", "has no communication, it is of one device", remedy=remedy)
        known = self.parallel
        return profiling.communication(self.profile, known.devices, known.server, known.single_us)

    def images(self) -> Table:
        """One row an image: its size, who decoded it, when it was ready, its latency.

        Raises:
            InputError: If the run was not over images.
        """
        from ascendsim import profiling

        if self.image_run is None:
            raise InputError("this result", "is of no images", remedy='use asim.run(model, images="folder")')
        return profiling.image_times(self.profile, self.image_run.pictures)

    def to_dataframe(self) -> pd.DataFrame:
        """`op_summary()` as a pandas data frame (needs the extra `ascendsim[dataframe]`)."""
        return self.op_summary().to_dataframe()

    @checked()
    def plot_timeline(self, ax: Axes | None = None, **options: Any) -> TimelineDisplay:
        """Draws the timeline: lanes for streams, AI CPU, DVPP and pipes.

        Args:
            ax: Axes to draw on; a new figure if None.
            **options: `window=(start_us, end_us)`, `operators=[...]`, `title=...`; see
                `ascendsim.plot.plot_timeline`.
        """
        from ascendsim.plot import plot_timeline

        return plot_timeline(self.profile, ax, **options)

    @checked()
    def plot_roofline(self, ax: Axes | None = None) -> RooflineDisplay:
        """Draws the Cube's tasks under the chip's roof: operations a second over operations a DDR byte."""
        from ascendsim.plot import plot_roofline

        return plot_roofline(self.profile, ax)

    @checked()
    def plot_top_operators(self, count: int = 12, ax: Axes | None = None) -> TopOperatorsDisplay:
        """Draws the tasks that take the most time, with their share and what bounds them."""
        from ascendsim.plot import plot_top_operators

        return plot_top_operators(self.profile, count, ax)

    @checked()
    def save_trace(self, path: str | PathLike[str], **options: Any) -> Path:
        """Writes a Chrome trace (.json or .json.gz) that Perfetto and MindStudio Insight open.

        Args:
            path: File to write.
            **options: `level="task"` or `"instruction"` (which it is where the run recorded instructions),
                `window=(start_us, end_us)`, `operators=[...]`; see `ascendsim.profiling.write_trace`.
        """
        from ascendsim import profiling

        refuse_unknown(profiling.write_trace, options)
        options.setdefault("level", "instruction" if self.trace.instructions else "task")
        profiling.write_trace(self.profile, path, **options)
        return Path(path)

    @checked()
    def export(self, folder: str | PathLike[str], *forms: str) -> Export:
        """Writes the run in forms that other tools read ([docs/export.md](docs/export.md)).

        Args:
            folder: Where; made if it is not there. Files of the same name are replaced.
            *forms: "msprof" (msprof-analyze, MindStudio Insight), "ascend_pt" (these, and TensorBoard with
                the Ascend plug-in), "kineto" (TensorBoard, Holistic Trace Analysis, TraceLens), "opprof"
                (MindStudio Insight; needs recorded instructions). The first two if none is named.

        Returns:
            Paths to point tools at, all files, their size, and what the run has no data for.

        Raises:
            InputError: If a form is unknown, the run cannot be put into it, or something cannot be written.
        """
        from ascendsim.profiling import export

        scopes = {
            node.name: found
            for graph in (self.model.graph, self.model.source)
            for node in graph.nodes
            if (found := export.name_scopes(str(node.origin.get("name_scopes", ""))))
        }
        return export.export_run(self.profile, folder, forms or export.DEFAULT_FORMS, scopes=scopes)

    @checked()
    def save(self, folder: str | PathLike[str]) -> tuple[Path, ...]:
        """Writes what there is to know about the run into a folder.

        op_summary.csv, op_statistic.csv, task_time.csv, fusion_op.csv, op_statistic_tasks.csv and
        ai_core_metrics.csv (joined by task ids), of a run with values numerics.csv, over images images.csv;
        timeline.png, trace.json, fusion_result.json and CANN's log lines about fusion, `plog/plog-*.log`.
        Each file is written whole or not at all.

        Returns:
            The files written.

        Raises:
            InputError: If the folder cannot be made or written.
        """
        target = make_folder(folder)
        numbers = () if self.watched is None else (self.watched.table,)
        tables = (
            self.op_summary(),
            self.op_statistic(),
            self.task_time(),
            self.fusion_op(),
            self.op_statistic(task_ids=True),
            self.ai_core_metrics(),
            *numbers,
            *(() if self.image_run is None else (self.images(),)),
        )
        for table in tables:
            table.to_csv(target / f"{table.name}.csv")
        self.plot_timeline().save(target / "timeline.png")
        self.save_trace(target / "trace.json")
        results = write_result(self.model.fusion, target)
        log = write_plog(
            self.model.fusion, make_folder(target / "plog"), further=buffer_texts(self.model.buffers)
        )
        return (
            *(target / f"{table.name}.csv" for table in tables),
            target / "timeline.png",
            target / "trace.json",
            results,
            log,
        )

    @checked(findings="asim.advise(...).table() makes one")
    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        findings: Table | None = None,
        window: tuple[float, float] | None = None,
        sensitivity: Table | None = None,
    ) -> Report:
        """One HTML page to open, mail and keep: timeline, operators, roofline, memory, graph, chip's figures.

        It needs no network, and a notebook shows it. Instructions are in it where the run recorded them.

        Args:
            path: File to write, ends in .html; None = a notebook alone shall show it.
            findings: What the advisor proposes: `asim.advise(...).table()`.
            window: Spans of the timeline in this time only, (start, end) in us.
            sensitivity: What each figure of the chip could change: `asim.sensitivity(...).table()`.

        Raises:
            InputError: If the page would be too large, or the file cannot be written.
        """
        from ascendsim.api.reporting import report

        return report({self.model.source.name: self}, path, findings, window, sensitivity)

    def _repr_html_(self) -> str:
        from ascendsim import profiling

        return profiling.html(self.profile, note=self.numerics_line(), likely=self.duration_interval())

    def __repr__(self) -> str:
        subject = f"{self.model.source.name!r} on {self.model.soc.name}"
        return (
            f"Result({subject}: {self.duration_us:.3f} us, {self.cycles} cycles, {len(self.trace.tasks)} "
            f"tasks)"
        )
