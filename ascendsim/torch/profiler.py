"""A profiler with the words of torch_npu's: what ran in some steps of a training loop, on one timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import make_folder
from ascendsim.core.table import Table
from ascendsim.frontends.torch.eager import HostCall, listening
from ascendsim.frontends.torch.requirement import require_torch
from ascendsim.frontends.torch.source import line_here
from ascendsim.torch import profile_tables, recording
from ascendsim.torch.fx_summary import fx_summary
from ascendsim.torch.profile_tables import KeyAverages
from ascendsim.torch.profile_trace import write_profile
from ascendsim.torch.recording import Recording, StepEnd
from ascendsim.torch.schedule import (
    ALL,
    Activities,
    ProfilerAction,
    ProfilerActivity,
    Schedule,
    activities_of,
    always,
)
from ascendsim.torch.timeline import Timeline, timeline_of

Handler = Callable[["Profiler"], Any]
_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_NOT_THERE = (  # torch_npu's others
    "with_flops",
    "with_modules",
    "experimental_config",
    "use_cuda",
)


@checked(schedule="asim.torch.schedule(wait=1, warmup=1, active=3) makes one")
def profile(
    *,
    schedule: Callable[..., ProfilerAction] | None = None,
    on_trace_ready: Callable[..., Any] | None = None,
    activities: Iterable[Any] | None = None,
    record_shapes: bool = False,
    profile_memory: bool = False,
    with_stack: bool = False,
    **others: Any,
) -> Profiler:
    """A profiler; open it with `with`, and call `step()` at the end of each step.

    Args:
        schedule: From `asim.torch.schedule`; without one all steps are recorded.
        on_trace_ready: Called with the profiler when a cycle of the schedule is recorded;
            `asim.torch.tensorboard_trace_handler(folder)` writes files.
        activities: Whose doings traces and `key_averages` show: `ProfilerActivity.CPU`, `.NPU` (PyTorch's and
            torch_npu's do as well); by default both.
        record_shapes: Keeps the shapes of the operators, for `key_averages(group_by_input_shape=True)`.
        profile_memory: Has the handler write memory_record.csv, and `memory_record()` answer: bytes in use on
            the device by the plans of the graphs.
        with_stack: Notes the user's line of every operator: a column of `op_summary` and "Call stack" of
            what the host does.
        **others: What torch_npu knows besides; refused by name.

    Raises:
        InputError: If an option is not there, or PyTorch is missing or too old.
    """
    known = ("schedule", "on_trace_ready", "activities", "record_shapes", "profile_memory", "with_stack")
    for name in others:
        rule = "is not modelled" if name in _NOT_THERE else "does not exist"
        raise InputError(f"option {name}", rule, remedy=suggest(name, known))
    wanted = Wanted(activities_of(activities), record_shapes, profile_memory, with_stack)
    return Profiler(schedule or always, on_trace_ready, wanted)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a profile has in it; see `profile`."""

    activities: Activities = ALL
    shapes: bool = False
    memory: bool = False
    stacks: bool = False


class Profiler:
    """What `profile` gives: records, and answers with the last cycle that it recorded.

    Args:
        schedule: What happens in each step.
        on_trace_ready: Called when a cycle is recorded.
        wanted: What it keeps.

    Attributes:
        wanted: As given.
        cycles: Number of cycles that were recorded.
    """

    def __init__(self, schedule: Schedule, on_trace_ready: Handler | None, wanted: Wanted) -> None:
        self._schedule, self._ready, self.wanted = schedule, on_trace_ready, wanted
        self._step = 0
        self._open: Recording | None = None
        self._done: Recording | None = None
        self._timeline: Timeline | None = None
        self._listening: AbstractContextManager[Any] | None = None
        self.cycles = 0

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self._close()

    def start(self) -> None:
        """Begins with step 0.

        Raises:
            InputError: If it runs already.
        """
        if self._listening is not None:
            raise InputError("the profiler", "runs already", remedy="call stop() first")
        self._step = 0
        self._listening = listening(self._heard)
        self._listening.__enter__()
        if self._action in _RECORDS:
            self._begin()

    def step(self) -> None:
        """Says that a step of the loop is done.

        Raises:
            InputError: If the profiler does not run.
        """
        if self._listening is None:
            raise InputError(
                "the profiler", "does not run", remedy="write with asim.torch.profile() as prof:"
            )
        if self._open is not None:
            self._open.note(StepEnd(self._step))
        before, self._step = self._action, self._step + 1
        if self._open is not None and (
            before is ProfilerAction.RECORD_AND_SAVE or self._action not in _RECORDS
        ):
            self._save()
        if self._open is None and self._action in _RECORDS:
            self._begin()

    def stop(self) -> None:
        """Ends the recording; a cycle that is under way is kept as far as it is."""
        recorded = self._open
        self._close()
        if recorded is not None and recorded.events:
            if not isinstance(recorded.events[-1], StepEnd):
                recorded.note(StepEnd(self._step))
            self._keep(recorded)

    @property
    def timeline(self) -> Timeline:
        """What happened when, in the last cycle that was recorded.

        Raises:
            InputError: If none was.
        """
        if self._timeline is None:
            self._timeline = timeline_of(self._recorded.events)
        return self._timeline

    def step_times(self) -> Table:
        """One row a step: its time, and that of its forward, backward and optimizer graphs."""
        return profile_tables.step_times(self.timeline)

    def op_summary(self) -> Table:
        """One row a task and call, with msprof's columns."""
        return profile_tables.op_summary(self.timeline, self.wanted.stacks)

    def memory_record(self) -> Table:
        """One row a task and call: bytes in use on the device.

        Raises:
            InputError: If the profiler was not made with profile_memory=True.
        """
        if not self.wanted.memory:
            remedy = "write asim.torch.profile(profile_memory=True)"
            raise InputError("memory_record", "was not asked for", remedy=remedy)
        return profile_tables.memory_record(self.timeline)

    def graph_breaks(self) -> Table:
        """One row a graph break that was come to: reason and line."""
        return profile_tables.graph_breaks(self.timeline)

    @checked()
    def key_averages(self, group_by_input_shape: bool = False) -> KeyAverages:
        """Times by operator; `.table(sort_by="self_npu_time_total")` is a text.

        Args:
            group_by_input_shape: Whether other shapes make another row.

        Raises:
            InputError: If shapes are wanted that were not recorded.
        """
        if group_by_input_shape and not self.wanted.shapes:
            remedy = "write asim.torch.profile(record_shapes=True)"
            raise InputError("option group_by_input_shape", "needs recorded shapes", remedy=remedy)
        return profile_tables.key_averages(self.timeline, group_by_input_shape, self.wanted.activities)

    def fx_summary(self) -> Table:
        """One row a captured PyTorch operator: count, and what it was converted to."""
        runs = profile_tables.runs_of(self.timeline)
        return fx_summary([*(run.notes for run in runs), *self._recorded.fallbacks.values()])

    @checked()
    def export_chrome_trace(self, path: str | PathLike[str]) -> Path:
        """Writes the timeline for Perfetto and MindStudio Insight (.json or .json.gz).

        Raises:
            InputError: If the file cannot be written.
        """
        return write_profile(self.timeline, path, self.wanted.activities)

    @property
    def _action(self) -> ProfilerAction:
        return self._schedule(self._step)

    @property
    def _recorded(self) -> Recording:
        if self._done is None:
            remedy = "call step() in the loop until the schedule has recorded a cycle"
            raise InputError("the profiler", "has recorded nothing yet", remedy=remedy)
        return self._done

    def _heard(self, call: HostCall) -> None:
        if self._open is not None:
            shapes = call.shapes if self.wanted.shapes else ()
            line = line_here(require_torch()) if self.wanted.stacks else ""
            self._open.note(HostCall(call.name, call.kind, shapes, line))

    def _begin(self) -> None:
        self._open = Recording()
        recording.start(self._open)

    def _save(self) -> None:
        recorded, self._open = self._open, None
        assert recorded is not None
        recording.stop(recorded)
        self._keep(recorded)

    def _keep(self, recorded: Recording) -> None:
        self._done, self._timeline = recorded, None
        self.cycles += 1
        if self._ready is not None:
            self._ready(self)

    def _close(self) -> None:
        if self._open is not None:
            recording.stop(self._open)
            self._open = None
        if self._listening is not None:
            self._listening.__exit__(None, None, None)
            self._listening = None


@checked()
def tensorboard_trace_handler(dir_name: str | PathLike[str], worker_name: str | None = None) -> Handler:
    """A handler for `on_trace_ready` that writes a folder a cycle, laid out as torch_npu's.

    `<dir_name>/<worker_name>_<number of the cycle>_ascend_pt/ASCEND_PROFILER_OUTPUT` gets trace_view.json,
    kernel_details.csv, step_trace_time.csv, fx_summary.csv and, if the profiler was asked for it,
    memory_record.csv. Equal programs write equal bytes.

    Args:
        dir_name: The folder; made if it is not there.
        worker_name: "ascendsim" by default.
    """

    def write(profiler: Profiler) -> None:
        name = f"{worker_name or 'ascendsim'}_{profiler.cycles:03d}_ascend_pt"
        folder = make_folder(Path(dir_name) / name / "ASCEND_PROFILER_OUTPUT")
        profiler.export_chrome_trace(folder / "trace_view.json")
        timeline = profiler.timeline
        wanted = profiler.wanted
        tables = [profile_tables.step_trace_time(timeline), profiler.fx_summary()]
        if ProfilerActivity.NPU in wanted.activities:
            tables.append(profile_tables.kernel_details(timeline, wanted.stacks))
        if wanted.memory:
            tables.append(profiler.memory_record())
        for table in tables:
            table.to_csv(folder / f"{table.name}.csv")

    return write
