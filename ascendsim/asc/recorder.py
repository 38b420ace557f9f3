"""What a kernel on one core has asked for so far: one row a call.

A row is the number of a form (all that is the same every time: effect, pipe, line of the source) and the
values that change: addresses of the operands, then scalars. Forms are shared by all cores of a launch. Rows
go on in chunks to whoever takes them (`sink`): they are re-rolled and evaluated there, and not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascendsim.asc.meeting import ALONE, Meeting, Role
from ascendsim.core.errors import InputError, KernelError
from ascendsim.isa.effects import Effect
from ascendsim.isa.forms import FlagUse, Form, Site
from ascendsim.isa.instructions import Pipe
from ascendsim.soc.spec import SocSpec

CHUNK = 1 << 16  # rows that are handed on together
Sink = Callable[[NDArray[np.int32], NDArray[np.int64]], None]


class Forms:
    """All forms of a launch.

    Attributes:
        listed: By number.
        known: By what a call gives: call, place in the text, parameters, sorts of its operands.
        modes: All of `known`, by the way of writing to global memory that is set (None: plainly): the same
            call is another form in each.
        places: By number: compiled text of the call (alive, as its id stands in `known`) and its place there.
        cut: Numbers of transfers whose count is no number of whole blocks.
    """

    def __init__(self) -> None:
        self.listed: list[Form] = []
        self.known: dict[Any, Form] = {}
        self.modes: dict[Any, dict[Any, Form]] = {None: self.known}
        self.places: list[tuple[CodeType, int]] = []
        self.cut: set[int] = set()

    def add(
        self,
        key: Any,
        frame: FrameType,
        name: str,
        pipe: Pipe,
        effect: Effect | None,
        *,
        flag: FlagUse | None = None,
        barrier: bool = False,
    ) -> Form:
        """A new form, to be found by its key."""
        made = Form(len(self.listed), effect, pipe, site_of(frame, name), flag, barrier)
        self.listed.append(made)
        self.places.append((frame.f_code, frame.f_lasti))
        self.known[key] = made
        return made


@dataclass(frozen=True)
class Region:
    """An array of the user in global memory.

    Attributes:
        number: Tells regions of a launch apart.
        name: The kernel's parameter.
        bytes: Its size.
    """

    number: int
    name: str
    bytes: int


@dataclass(frozen=True)
class Context:
    """What all cores of a launch share.

    Attributes:
        soc: The chip.
        cores: Number of blocks.
        forms: What was called so far.
        limit: Rows of all cores together that are allowed.
    """

    soc: SocSpec
    cores: int
    forms: Forms
    limit: int


class Note(NamedTuple):
    """What is wrong at a place, the first time that it happened.

    Attributes:
        text: What happens.
        remedy: What to do about it.
        times: How often it happens.
        row: Rows of all cores before it.
    """

    text: str
    remedy: str
    times: int
    row: int


class Recorder:
    """Takes the calls of one core.

    Args:
        context: What its launch knows.
        core: Number of the block.
        sink: Takes rows: numbers of their forms, and their values one behind the other.
        read: Gives the value at (memory of a tensor, address), after all rows so far have run.
        before: Rows of the cores before this one.
        role: Which core of a team it is.
        meeting: Where cores wait for one another; None if they do not.
    """

    def __init__(
        self,
        context: Context,
        core: int,
        sink: Sink,
        read: Callable[[Any, int, Any, str], Any],
        before: int = 0,
        *,
        role: Role = ALONE,
        meeting: Meeting | None = None,
    ) -> None:
        self.role, self.meeting = role, meeting
        self.context, self.core, self.sink, self.read = context, core, sink, read
        self.soc, self.forms = context.soc, context.forms
        self.known = self.forms.known = self.forms.modes[None]
        self.atomic: Any = None  # what becomes of global memory: "add", "max" or "min", and the type or None
        self.rows: list[int] = []
        self.values: list[int] = []
        self.total = before
        self.last: Form | None = None
        self.queues = 0
        self.state: dict[Any, Any] = {}  # what other files keep of this core
        self.notes: dict[tuple[str, str], Note] = {}

    def flush(self) -> None:
        """Hands on what has come in."""
        if not self.rows:
            return
        self.last = self.forms.listed[self.rows[-1]]
        self.total += len(self.rows)
        rows, values = np.array(self.rows, np.int32), np.array(self.values, np.int64)
        self.rows.clear()
        self.values.clear()
        if self.total > self.context.limit:
            raise KernelError(
                "the kernel",
                f"may have at most {self.context.limit} instructions on all cores",
                f"{self.total} on the first {self.core + 1} of {self.context.cores}",
                "use larger tiles, fewer cores, or limit=",
            )
        self.sink(rows, values)

    def note(self, frame: FrameType, name: str, kind: str, text: str, remedy: str) -> None:
        """Notes that a call does something wrong that it can go on with."""
        where = str(site_of(frame, name))
        known = self.notes.get((kind, where))
        self.notes[kind, where] = (
            Note(text, remedy, 1, self.total + len(self.rows))
            if known is None
            else (known._replace(times=known.times + 1))
        )

    def done(self) -> Form | None:
        """The last call that came in."""
        return self.forms.listed[self.rows[-1]] if self.rows else self.last

    def instruction(self, form: Form) -> None:
        """Adds a row without values."""
        self.rows.append(form.number)
        if len(self.rows) >= CHUNK:
            self.flush()


class State:
    """Who records: one core at a time."""

    __slots__ = ("recorder",)

    def __init__(self) -> None:
        self.recorder: Recorder | None = None


STATE = State()


def recorder_for(name: str) -> Recorder:
    """The core that records.

    Raises:
        KernelError: None does.
    """
    recorder = STATE.recorder
    if recorder is None:
        raise outside(name)
    return recorder


def outside(name: str) -> KernelError:
    """The error of a call that no kernel makes."""
    return KernelError(
        f"asc.{name}",
        "works inside of a kernel only",
        remedy="put it into a function with @asc.jit and run that: kernel[cores](...)",
    )


def place_of(frame: FrameType) -> str:
    """File and line in front of a message."""
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}: "


def site_of(frame: FrameType, name: str) -> Site:
    """Where a call stands."""
    code = frame.f_code
    return Site(Path(code.co_filename).name, frame.f_lineno, code.co_name, name)


def fail(frame: FrameType, name: str, rule: str, actual: object = None, remedy: str = "") -> KernelError:
    """An error of a call, with its place in the text."""
    return KernelError(str(site_of(frame, name)), rule, actual, remedy)


def name_of(frame: FrameType | None, thing: object, other: str) -> str:
    """The variable that holds a thing (of a tensor: one of the same piece of memory), where it was called or
    further out; `other` if none does.

    Args:
        frame: Where to look first.
        thing: What to look for.
        other: What to call it otherwise.
    """
    depth, piece = 0, getattr(thing, "piece", None)
    while frame is not None and depth < 8:
        variables: Mapping[str, Any] = frame.f_locals
        for name, value in variables.items():
            if value is thing or (piece is not None and getattr(value, "piece", None) is piece):
                return name
        frame, depth = frame.f_back, depth + 1
    return other


def checked_cores(cores: object) -> int:
    """A number of blocks.

    Raises:
        InputError: It is none.
    """
    if isinstance(cores, bool) or not isinstance(cores, int | np.integer) or cores < 1:
        raise InputError(
            "number of cores", "must be a whole number above 0", repr(cores), "write kernel[8](...)"
        )
    return int(cores)
