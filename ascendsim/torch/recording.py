"""What ran while a profiler listened, in the order in which it ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

from ascendsim.api.result import Result
from ascendsim.frontends.torch.eager import HostCall
from ascendsim.frontends.torch.notes import Break, CallNote


@dataclass(slots=True, repr=False)
class Run:
    """A graph that torch.compile gave to the chip.

    Attributes:
        kind: "forward", "backward", "inference" or "optimizer".
        result: Times and reports, as `ascendsim.simulate` gives them; with values="device" its `numerics`
            are those of the last call.
        calls: How often it ran.
        notes: The PyTorch operators that it was made of.
    """

    kind: str
    result: Result
    calls: int = 0
    notes: Sequence[CallNote] = ()

    @property
    def duration_us(self) -> float:
        """Time of one call on the chip, in microseconds."""
        return self.result.duration_us

    def __repr__(self) -> str:
        calls = f"{self.calls} call{'' if self.calls == 1 else 's'}"
        return f"Run({self.kind}, {calls}, {self.duration_us:,.1f} us)"


class Runs(tuple[Run, ...]):
    """Runs that show themselves a line each."""

    __slots__ = ()

    def __repr__(self) -> str:
        shown = [f" {run!r}," for run in self]
        if len(shown) > _SHOWN:
            shown[1:-_SHOWN] = [f" ... {len(shown) - _SHOWN - 1} more ..."]
        return "({})".format("\n".join(shown)[1:]) if shown else "()"


_SHOWN = 30  # of many runs: the first and so many at the end


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a step of the user's loop.

    Attributes:
        number: Of the step, from 0.
    """

    number: int


Event = Union[Run, HostCall, Break, StepEnd]


@dataclass(slots=True)
class Recording:
    """Events of some steps.

    Attributes:
        events: In their order: a graph that ran once more, an operator that ran in PyTorch, a graph break,
            the end of a step.
        fallbacks: Calls in captured graphs that ran in PyTorch, each once however often it ran.
    """

    events: list[Event] = field(default_factory=list)
    fallbacks: dict[int, Sequence[CallNote]] = field(default_factory=dict)

    def note(self, event: Event) -> None:
        """Adds an event at the end."""
        self.events.append(event)

    def note_fallback(self, calls: Sequence[CallNote]) -> None:
        """Notes what of a captured graph has no converter."""
        self.fallbacks[id(calls)] = calls  # lives as long as the recording holds it


_open: list[Recording] = []


def start(recording: Recording) -> None:
    """From now on what runs is noted there too."""
    _open.append(recording)


def stop(recording: Recording) -> None:
    """Ends `start`."""
    _open[:] = [one for one in _open if one is not recording]


def note(event: Event) -> None:
    """Tells all recordings that are open."""
    for recording in _open:
        recording.note(event)


def note_fallback(calls: Sequence[CallNote]) -> None:
    """Tells all recordings that are open."""
    for recording in _open:
        recording.note_fallback(calls)
