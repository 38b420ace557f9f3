"""One timeline of a recording: what the host and the device did when.

The host is modelled, not measured: what it does here (computing values, compiling) it would not do beside a
chip, and equal programs must give equal timelines. It works through the events in their order:

- a graph costs one launch (`launch.host_launch_us` of the chip); the device starts it when it has done what
  was launched before. In the modes "host" and "eager" the host is busy until it has launched the last task;
- an operator between graphs costs what eager mode takes for one (`launch.eager_launch_us`), a view nothing.
  Its own work is not on the device's lane;
- where Python needs a value (`.item()`), or an operator without a converter runs, the host waits for the
  device;
- a step ends when the device has done what was launched in it.

All times are nanoseconds from the start of the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ascendsim.core.errors import InputError
from ascendsim.frontends.torch.eager import HostCall
from ascendsim.frontends.torch.notes import Break
from ascendsim.soc import SocSpec
from ascendsim.torch.recording import Event, Run, StepEnd


@dataclass(frozen=True, slots=True)
class Span:
    """Something that took time on the host.

    Attributes:
        name: "aten::add_", "launch forward", "wait for the device".
        kind: "launch", "eager", "read", "fallback" or "wait".
        start, end: Nanoseconds.
        step: Position of the step.
        shapes: Of the operator's tensors.
        line: The user's line.
    """

    name: str
    kind: str
    start: int
    end: int
    step: int
    shapes: tuple[tuple[int, ...], ...] = ()
    line: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """A graph on the device.

    Attributes:
        run: Which.
        start, end: Nanoseconds.
        step: Position of the step in which it was launched.
    """

    run: Run
    start: int
    end: int
    step: int


@dataclass(frozen=True, slots=True)
class PlacedBreak:
    """A graph break: when the host came to it."""

    behind: Break
    at: int
    step: int


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the user's loop, from the end of the one before to the end of its last graph."""

    number: int
    start: int
    end: int


@dataclass(slots=True)
class Timeline:
    """What happened when.

    Attributes:
        host: In order of time.
        graphs: In order of time.
        breaks: Graph breaks.
        steps: In order of time.
        soc: The chip; None if no graph ran.
    """

    host: list[Span] = field(default_factory=list)
    graphs: list[Placed] = field(default_factory=list)
    breaks: list[PlacedBreak] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    soc: SocSpec | None = None

    @property
    def end(self) -> int:
        """When all was done, in nanoseconds."""
        return self.steps[-1].end if self.steps else 0


def timeline_of(events: Sequence[Event]) -> Timeline:
    """Places the events of a recording.

    Raises:
        InputError: If graphs were compiled for different chips.
    """
    clock = _Clock(_chip_of(events))
    for event in events:
        clock.take(event)
    return clock.timeline


def _chip_of(events: Sequence[Event]) -> SocSpec | None:
    chips = {
        event.result.model.soc.name: event.result.model.soc for event in events if isinstance(event, Run)
    }
    if len(chips) > 1:
        rule = "must be of one chip to have one timeline"
        raise InputError("the graphs of a profile", rule, ", ".join(sorted(chips)), "profile them one by one")
    return next(iter(chips.values()), None)


class _Clock:
    """Where the host and the device are in time."""

    def __init__(self, soc: SocSpec | None) -> None:
        self.timeline = Timeline(soc=soc)
        self._host = self._device = self._step_start = 0
        self._eager = 0 if soc is None else round(1000 * soc.launch.eager_launch_us)
        self._launch = 0 if soc is None else round(1000 * soc.launch.host_launch_us)

    def take(self, event: Event) -> None:
        """Moves on by an event."""
        if isinstance(event, Run):
            self._graph(event)
        elif isinstance(event, HostCall):
            self._operator(event)
        elif isinstance(event, Break):
            self.timeline.breaks.append(PlacedBreak(event, self._host, self._number))
        else:
            self._end(event)

    @property
    def _number(self) -> int:
        return len(self.timeline.steps)

    def _busy(
        self, name: str, kind: str, ns: int, shapes: tuple[tuple[int, ...], ...] = (), line: str = ""
    ) -> None:
        start, self._host = self._host, self._host + ns
        self.timeline.host.append(Span(name, kind, start, self._host, self._number, shapes, line))

    def _wait(self) -> None:
        if self._device > self._host:
            self._busy("wait for the device", "wait", self._device - self._host)

    def _graph(self, run: Run) -> None:
        trace, ns = run.result.trace, run.result.profile.ns
        last = max((record.launch_end for record in trace.tasks), default=-1)
        if last < 0:
            self._busy(f"launch {run.kind}", "launch", self._launch)
            start = max(self._host, self._device)
        else:
            self._wait()  # the first task is launched when the graph starts
            start = self._host
            self._busy(f"launch {run.kind}", "launch", ns(last))
        self._device = start + ns(trace.end)
        self.timeline.graphs.append(Placed(run, start, self._device, self._number))

    def _operator(self, call: HostCall) -> None:
        if call.kind != "eager":
            self._wait()
        self._busy(call.name, call.kind, self._eager, call.shapes, call.line)

    def _end(self, event: StepEnd) -> None:
        end = max(self._host, self._device)
        self.timeline.steps.append(Step(event.number, self._step_start, end))
        self._step_start = end
