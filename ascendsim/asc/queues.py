"""Queues and buffers of on-chip memory, and the pipe object that gives them room.

A queue has equal slots that one pipe fills and another one empties. Filling and emptying are ordered by two
counting flags of the machine: `free` starts with a token for every slot, `alloc_tensor` takes one in the
filling pipe, `free_tensor` gives it back from the emptying pipe; `full` goes from `enque` to `deque`.
"""

from __future__ import annotations

from sys import _getframe
from types import FrameType
from typing import Any

from ascendsim.asc.recorder import STATE, Recorder, fail, name_of, outside, recorder_for
from ascendsim.asc.tensors import LocalTensor, Piece
from ascendsim.asc.types import BUFFERS, DataType, HardEvent, TPosition
from ascendsim.core.formats import align
from ascendsim.isa.capacity import capacity
from ascendsim.isa.forms import FlagUse
from ascendsim.isa.instructions import ALIGNMENT, Buffer, Pipe

# Who fills and who empties the slots of a queue, by its position (Ascend C: queues and their pipes).
_ENDS = {
    TPosition.VECIN: (Pipe.MTE2, Pipe.V),
    TPosition.VECOUT: (Pipe.V, Pipe.MTE3),
    TPosition.VECCALC: (Pipe.V, Pipe.V),
    TPosition.CO2: (Pipe.V, Pipe.MTE3),
    TPosition.A1: (Pipe.MTE2, Pipe.MTE1),
    TPosition.B1: (Pipe.MTE2, Pipe.MTE1),
    TPosition.C1: (Pipe.MTE2, Pipe.MTE1),
    TPosition.A2: (Pipe.MTE1, Pipe.M),
    TPosition.B2: (Pipe.MTE1, Pipe.M),
    TPosition.C2: (Pipe.MTE1, Pipe.M),
}


def _ends(position: TPosition, split: bool) -> tuple[Pipe, Pipe]:
    """Filling and emptying pipe; what the Cube made leaves by FIXPIPE on split cores, else by the vector
    unit.
    """
    if position is TPosition.CO1:
        return Pipe.M, Pipe.FIX if split else Pipe.V
    return _ENDS[position]


class TQueBind:
    """A queue of tensors between two pipes.

    Args:
        src: Position of what fills it.
        dst: Position of what empties it.
        depth: Tensors that may be in it.
    """

    def __init__(
        self,
        src: TPosition = TPosition.VECIN,
        dst: TPosition = TPosition.VECIN,
        depth: int = 1,
        mask: int = 0,
    ) -> None:
        recorder = recorder_for("TQue")
        frame = _getframe(2 if type(self) is not TQueBind else 1)
        for position in (src, dst):
            if position not in BUFFERS:
                raise fail(
                    frame, "TQue", "takes a position on the chip", repr(position), "use asc.TPosition.VECIN"
                )
        self.position, self.depth = src, depth
        split = recorder.soc.split_cores
        self.pipes = _ends(src, split)[0], _ends(dst, split)[1]
        self.number = recorder.queues
        recorder.queues += 1
        self.epoch = 0
        self.slots: list[Piece | None] = []
        self.bytes = 0
        self.idle: list[int] = []  # numbers of free slots, longest free first
        self.waiting: list[Piece] = []  # what is in the queue
        self.start = 0
        self._name_flags()

    def _name_flags(self) -> None:
        source, target = self.pipes
        epoch = f".{self.epoch}" if self.epoch else ""
        self.flags: dict[str, tuple[Pipe, FlagUse | None]] = {"alloc": (source, None)}
        if source is target:
            return
        free, full = f"q{self.number}{epoch}.free", f"q{self.number}{epoch}.full"
        slots = len(self.slots)
        self.flags = {
            "alloc_tensor": (source, FlagUse(free, target, source, None, slots, True)),
            "enque": (source, FlagUse(full, source, target, None, 0, False)),
            "deque": (target, FlagUse(full, source, target, None, 0, True)),
            "free_tensor": (target, FlagUse(free, target, source, None, slots, False)),
        }

    def place(self, start: int, number: int, size: int) -> None:
        """Gives the queue its room."""
        if any(piece is not None and piece.stage != "freed" for piece in self.slots) or (
            self.slots and len(self.slots) != number
        ):
            self.epoch += 1
        self.start, self.bytes = start, size
        for piece in self.slots:
            if piece is not None:
                piece.end = -1
        self.slots = [None] * number
        self.idle = list(range(number))
        self.waiting = []
        self._name_flags()

    def _flag(self, recorder: Recorder, call: str, frame: FrameType) -> None:
        if len(self.flags) == 1:
            return
        key = (call, self.number, self.epoch, len(self.slots), id(frame.f_code), frame.f_lasti)
        form = recorder.known.get(key)
        if form is None:
            pipe, use = self.flags[call]
            form = recorder.forms.add(key, frame, f"TQue.{call}", pipe, None, flag=use)
        recorder.rows.append(form.number)

    def alloc_tensor(self, dtype: DataType) -> LocalTensor:
        """A free slot as a tensor; the filling pipe waits until it is free."""
        recorder = STATE.recorder
        if recorder is None:
            raise outside("TQue.alloc_tensor")
        frame = _getframe(1)
        if not self.idle:
            raise self._error(
                frame,
                "alloc_tensor",
                f"has {len(self.slots)} slot{'s' * (len(self.slots) > 1)}, and all are taken"
                if self.slots
                else "has no room yet",
                "free a tensor first, or give the queue more slots"
                if self.slots
                else "call pipe.init_buffer",
            )
        if not isinstance(dtype, DataType):
            raise self._error(
                frame, "alloc_tensor", f"takes an element type, not {dtype!r}", "write asc.float16"
            )
        number = self.idle.pop(0)
        start = self.start + number * self.bytes
        piece = self.slots[number] = Piece(start, start + self.bytes, self, number)
        self._flag(recorder, "alloc_tensor", frame)
        return LocalTensor.of(piece, dtype, self.position, start, self.bytes // dtype.bytes)

    def enque(self, tensor: LocalTensor) -> None:
        """Puts a tensor into the queue: it is full once all before this in the filling pipe is done."""
        recorder = STATE.recorder
        if recorder is None:
            raise outside("TQue.enque")
        frame = _getframe(1)
        piece = self._mine(tensor, frame, "enque")
        if piece.stage == "enqueued":
            raise self._error(frame, "enque", "has this tensor already", "enque it once")
        piece.stage = "enqueued"
        self.waiting.append(piece)
        self._flag(recorder, "enque", frame)

    def deque(self, dtype: DataType) -> LocalTensor:
        """The tensor that was put in first; the emptying pipe waits until it is full."""
        recorder = STATE.recorder
        if recorder is None:
            raise outside("TQue.deque")
        frame = _getframe(1)
        if not self.waiting:
            raise self._error(frame, "deque", "is empty", "enque a tensor first")
        piece = self.waiting.pop(0)
        piece.stage = "dequeued"
        self._flag(recorder, "deque", frame)
        return LocalTensor.of(piece, dtype, self.position, piece.start, self.bytes // dtype.bytes)

    def free_tensor(self, tensor: LocalTensor) -> None:
        """Gives a tensor's slot back once all before this in the emptying pipe is done."""
        recorder = STATE.recorder
        if recorder is None:
            raise outside("TQue.free_tensor")
        frame = _getframe(1)
        piece = self._mine(tensor, frame, "free_tensor")
        if piece.stage == "enqueued":
            raise self._error(frame, "free_tensor", "still has this tensor inside", "deque it first")
        piece.stage, piece.end = "freed", -1
        piece.freed = f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
        self.idle.append(piece.slot)
        self._flag(recorder, "free_tensor", frame)

    def _mine(self, tensor: Any, frame: FrameType, call: str) -> Piece:
        piece = tensor.piece if isinstance(tensor, LocalTensor) else None
        if piece is None or piece.owner is not self:
            other = (
                ""
                if piece is None or piece.owner is None
                else f" of {name_of(frame, piece.owner, 'another queue')}"
            )
            raise self._error(
                frame,
                call,
                f"takes its own tensors, not one{other}",
                "use the queue that it was allocated from",
            )
        if piece.stage == "freed":
            raise self._error(
                frame, call, f"got this tensor back at {piece.freed}", "use a tensor before it is freed"
            )
        return piece

    def _error(self, frame: FrameType, call: str, rule: str, remedy: str) -> Exception:
        return fail(frame, f"TQue.{call}", f"{name_of(frame, self, 'the queue')} {rule}", remedy=remedy)

    def get_tensor_count_in_que(self) -> int:
        """Tensors that are in the queue."""
        return len(self.waiting)

    def has_tensor_in_que(self) -> bool:
        """Whether a tensor is in the queue."""
        return bool(self.waiting)

    def has_idle_buffer(self) -> bool:
        """Whether a slot is free."""
        return bool(self.idle)

    def vacant_in_que(self) -> bool:
        """Whether a tensor may be put in."""
        return len(self.waiting) < max(1, self.depth)

    def free_all_event(self) -> None:
        """Nothing: the flags of a queue are free at the end by themselves."""


class TQue(TQueBind):
    """A queue by its position.

    Args:
        pos: What its tensors are for: VECIN is filled by MTE2 and emptied by the vector unit, and so on.
        depth: Tensors that may be in it.
    """

    def __init__(self, pos: TPosition = TPosition.VECIN, depth: int = 1, mask: int = 0) -> None:
        super().__init__(pos, pos, depth, mask)


class TBuf:
    """Room without a queue, for intermediate values.

    Args:
        pos: What it is for.
    """

    def __init__(self, pos: TPosition = TPosition.VECCALC) -> None:
        recorder_for("TBuf")
        if pos not in BUFFERS:
            raise fail(
                _getframe(1), "TBuf", "takes a position on the chip", repr(pos), "use asc.TPosition.VECCALC"
            )
        self.position = pos
        self.piece: Piece | None = None

    def place(self, start: int, number: int, size: int) -> None:
        """Gives the buffer its room."""
        if self.piece is not None:
            self.piece.end = -1
        self.piece = Piece(start, start + size, self)

    def get(self, dtype: DataType, len: int | None = None, shape: Any = None) -> LocalTensor:
        """The room as a tensor.

        Args:
            dtype: Type of its elements.
            len: Elements; None = all.
            shape: Not looked at.
        """
        return self._tensor(_getframe(1), dtype, len, 0)

    def get_with_offset(self, size: int, buf_offset: int, dtype: DataType) -> LocalTensor:
        """`size` elements from a byte on."""
        return self._tensor(_getframe(1), dtype, size, buf_offset)

    def _tensor(self, frame: FrameType, dtype: Any, count: int | None, offset: int) -> LocalTensor:
        piece = self.piece
        if piece is None or not isinstance(dtype, DataType):
            rule, remedy = "has no room yet", "call pipe.init_buffer first"
            if piece is not None:
                rule, remedy = f"takes an element type, not {dtype!r}", "write asc.float32"
            raise fail(frame, "TBuf.get", rule, remedy=remedy)
        most = (piece.end - piece.start - offset) // dtype.bytes
        if offset < 0 or most < 1 or (count is not None and not 0 < count <= most):
            raise fail(
                frame,
                "TBuf.get",
                f"has {most} elements of {dtype!r}",
                count,
                "give it more room, or ask for less",
            )
        return LocalTensor.of(
            piece, dtype, self.position, piece.start + offset, most if count is None else count
        )


class TPipe:
    """Hands out room in on-chip memory."""

    def __init__(self) -> None:
        recorder = recorder_for("TPipe")
        recorder.state["pipe"] = self
        self.init()

    def init(self) -> None:
        """Starts anew with empty memory."""
        self._used: dict[Buffer, int] = {}
        self._given: list[tuple[Any, Buffer, int]] = []
        self._events: dict[HardEvent, list[int]] = {}

    reset = init

    def destroy(self) -> None:
        """Gives all memory back."""
        self.init()

    def init_buffer(
        self,
        que: TQueBind | TBuf | None = None,
        num: int = 0,
        len: int | None = None,
        *,
        buf: TBuf | None = None,
    ) -> None:
        """Gives a queue `num` slots of `len` bytes, or a buffer `num` bytes."""
        recorder, frame = recorder_for("TPipe.init_buffer"), _getframe(1)
        target = buf if que is None else que
        if not isinstance(target, TQueBind | TBuf):
            raise fail(frame, "TPipe.init_buffer", "takes a queue or a buffer", type(target).__name__)
        if isinstance(target, TBuf):
            number, size = 1, num if len is None else len
        else:
            number, size = num, len or 0
        if number < 1 or size < 1:
            raise fail(
                frame,
                "TPipe.init_buffer",
                "must give at least one slot of one byte",
                f"{number} x {size}",
                "write init_buffer(que, slots, bytes)",
            )
        buffer = BUFFERS[target.position]
        size = align(size, ALIGNMENT[buffer])
        start = self._used.get(buffer, 0)
        self._given.append((target, buffer, number * size))
        self._used[buffer] = start + number * size
        room = capacity(recorder.soc, buffer)
        if self._used[buffer] > room:
            listed = ", ".join(
                f"{name_of(frame, one, 'a buffer')} {taken}"
                for one, where, taken in self._given
                if where is buffer
            )
            raise fail(
                frame,
                "TPipe.init_buffer",
                f"buffers need {self._used[buffer]} bytes, the {buffer.value} of {recorder.soc.name} has "
                f"{room}: {listed}",
                remedy="use smaller tiles or fewer slots",
            )
        target.place(start, number, size)

    def alloc_event_id(self, event: HardEvent = HardEvent.V_S) -> int:
        """A flag of a pair of pipes that nobody has."""
        taken = self._events.setdefault(event, [])
        free = [number for number in range(recorder_for("TPipe").soc.issue.event_ids) if number not in taken]
        if not free:
            raise fail(
                _getframe(1),
                "TPipe.alloc_event_id",
                f"all {len(taken)} flags {event.name} are taken",
                remedy="call release_event_id when one is not needed any more",
            )
        taken.append(free[0])
        return free[0]

    def fetch_event_id(self, event: HardEvent = HardEvent.V_S) -> int:
        """A flag of a pair of pipes that is free now."""
        number = self.alloc_event_id(event)
        self._events[event].remove(number)
        return number

    def release_event_id(self, id: int, event: HardEvent = HardEvent.V_S) -> None:
        """Gives a flag back."""
        if id in self._events.get(event, []):
            self._events[event].remove(id)


def get_tpipe_ptr() -> TPipe:
    """The pipe object of this core."""
    pipe: TPipe | None = recorder_for("get_tpipe_ptr").state.get("pipe")
    if pipe is None:
        raise fail(_getframe(1), "get_tpipe_ptr", "finds no TPipe", remedy="make one: asc.TPipe()")
    return pipe
