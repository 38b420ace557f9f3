"""A small builder for block programs: buffers, rings of slots with their flags, loops.

A `Ring` is a piece of on-chip memory cut in equal slots that one pipe fills and another empties. Filling and
emptying are ordered by two counting flags ("full", "empty"); the builder writes the four flag statements and
keeps track of the slot that each side is at, as an affine function of the loop variables, so that templates
read like the text of an operator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import align
from ascendsim.core.records import quickly_changed, quickly_made
from ascendsim.isa.banks import reads_conflict
from ascendsim.isa.capacity import capacity
from ascendsim.isa.instructions import (
    ALIGNMENT,
    ZERO,
    Affine,
    Allocation,
    Buffer,
    Flag,
    Instruction,
    Loop,
    Operand,
    Pipe,
    Scalar,
    SetFlag,
    Statement,
    Vector,
    WaitFlag,
)
from ascendsim.isa.notes import Chain, Note
from ascendsim.isa.program import Block, CoreKind
from ascendsim.lower.affine import plus, times
from ascendsim.lower.turning import advanced
from ascendsim.soc.spec import SocSpec


@quickly_made
@dataclass(frozen=True, slots=True)
class Piece:
    """`trips` tiles of `size` elements each, the first one at element `start`."""

    start: int
    size: int
    trips: int

    def at(self, index: Affine) -> Affine:
        """First element of tile `index`."""
        return plus(self.start, times(index, self.size))


def pieces(total: int, tile: int) -> tuple[Piece, ...]:
    """Cuts `total` elements in equal tiles and, if it does not divide, a tail of its own.

    >>> pieces(10, 4)
    (Piece(start=0, size=4, trips=2), Piece(start=8, size=2, trips=1))
    """
    whole, tail = divmod(total, tile)
    cut = (Piece(0, tile, whole),) if whole else ()
    return (*cut, Piece(whole * tile, tail, 1)) if tail else cut


class Handover(NamedTuple):
    """The flag statements that order both sides of a ring, see `BlockBuilder`."""

    acquire: WaitFlag
    commit: SetFlag
    receive: WaitFlag
    release: SetFlag


@dataclass(slots=True, eq=False)
class Ring:
    """Slots that `producer` fills and `consumer` empties; several allocations may share one pair of flags."""

    name: str
    allocations: tuple[Allocation, ...]
    producer: Pipe
    consumer: Pipe
    filled: int = 0  # slots committed so far on the path from the innermost open loop's start
    emptied: int = 0
    slots: int = field(init=False)
    full: str = field(init=False)  # names of the flags
    empty: str = field(init=False)
    handover: Handover | None = field(init=False)  # None within one pipe, which needs no order

    def __post_init__(self) -> None:
        self.slots = self.allocations[0].slots
        self.full, self.empty = f"{self.name}_full", f"{self.name}_empty"
        self.handover = None
        if self.producer is not self.consumer:
            self.handover = Handover(
                acquire=WaitFlag(self.producer, self.empty),
                commit=SetFlag(self.producer, self.full),
                receive=WaitFlag(self.consumer, self.full),
                release=SetFlag(self.consumer, self.empty),
            )

    @property
    def slot_bytes(self) -> int:
        """Bytes of one slot of the first allocation."""
        return self.allocations[0].slot_bytes


_CONFLICTING = quickly_changed(Vector, "bank_conflict")


@dataclass(slots=True)
class BlockBuilder:
    """Builds one block's program.

    Attributes:
        soc: The chip; its buffer sizes bound the allocations.
        core: Kind of core that the block needs.
        noted: Whether instructions say what they do (`isa.notes`).
    """

    soc: SocSpec
    core: CoreKind = CoreKind.AI
    noted: bool = False
    _bodies: list[list[Statement]] = field(default_factory=lambda: [[]])
    _open: dict[str, int] = field(default_factory=dict)  # loop variables and their trips, outermost first
    _used: dict[Buffer, int] = field(default_factory=dict)
    _allocations: dict[str, Allocation] = field(default_factory=dict)  # by name
    _flags: dict[str, Flag] = field(default_factory=dict)
    _rings: dict[str, Ring] = field(default_factory=dict)

    # --- memory ---------------------------------------------------------------------------------------------

    def allocate(self, name: str, buffer: Buffer, slot_bytes: int, slots: int = 1) -> Allocation:
        """Takes the next bytes of a buffer.

        Raises:
            CompileError: If the buffer is too small.
        """
        alignment = ALIGNMENT[buffer]
        allocation = Allocation(
            self._fresh(name, self._allocations),
            buffer,
            self._used.get(buffer, 0),
            align(slot_bytes, alignment),
            slots,
        )
        end = allocation.offset + allocation.bytes
        size = capacity(self.soc, buffer)
        if end > size:
            raise CompileError(
                f"buffer {buffer.value} of {self.soc.name}",
                f"must hold {size} bytes",
                f"{end} with {name}",
                "use a chip with a larger buffer",
            )
        self._used[buffer] = end
        self._allocations[allocation.name] = allocation
        return allocation

    def used(self, buffer: Buffer) -> int:
        """Bytes of a buffer that are taken."""
        return self._used.get(buffer, 0)

    def ring(self, name: str, producer: Pipe, consumer: Pipe, slots: int, *parts: tuple[Buffer, int]) -> Ring:
        """Allocates a ring: one allocation for each (buffer, bytes of one slot), with a pair of flags."""
        unique = self._fresh(name, self._rings)
        suffixes = [""] if len(parts) == 1 else [f"_{number}" for number in range(len(parts))]
        allocations = tuple(
            self.allocate(unique + suffix, buffer, size, slots)
            for suffix, (buffer, size) in zip(suffixes, parts, strict=True)
        )
        ring = Ring(unique, allocations, producer, consumer)
        self._rings[unique] = ring
        if producer is not consumer:
            self._flags[ring.full] = Flag(ring.full, producer, consumer, 0, slots)
            self._flags[ring.empty] = Flag(ring.empty, consumer, producer, slots, slots)
        return ring

    def semaphore(self, name: str, source: Pipe, target: Pipe, limit: int) -> str:
        """Declares a counting flag between two pipes that belongs to no ring; returns its name."""
        unique = self._fresh(name, self._flags)
        self._flags[unique] = Flag(unique, source, target, 0, limit)
        return unique

    def _fresh(self, name: str, taken: Collection[str]) -> str:
        number, result = 2, name
        while result in taken:
            result, number = f"{name}{number}", number + 1
        return result

    def target(self, ring: Ring, bytes: int, part: int = 0, offset: Affine = ZERO) -> Operand:
        """The producer's side of the slot that is being filled."""
        return self._operand(ring, bytes, part, offset, ring.filled)

    def source(self, ring: Ring, bytes: int, part: int = 0, offset: Affine = ZERO) -> Operand:
        """The consumer's side of the slot that is being emptied."""
        return self._operand(ring, bytes, part, offset, ring.emptied)

    def _operand(self, ring: Ring, bytes: int, part: int, offset: Affine, slot: int) -> Operand:
        allocation = ring.allocations[part]
        return Operand(allocation.buffer, allocation.name, bytes, offset, Affine(slot % allocation.slots))

    # --- statements -----------------------------------------------------------------------------------------

    def emit(self, *instructions: Instruction) -> None:
        """Appends instructions; vector instructions learn whether their reads conflict in the banks of UB."""
        body = self._bodies[-1]
        for item in instructions:
            body.append(self._with_banks(item) if isinstance(item, Vector) else item)

    def _with_banks(self, vector: Vector) -> Vector:
        groups = self.soc.vector.bank_groups
        if groups is None or len(vector.srcs) < 2:
            return vector
        return _CONFLICTING(vector, reads_conflict(vector, self._allocations, groups))

    def note(self, note: Note) -> Note | None:
        """The effect of an instruction whose note is this: none if nobody asks."""
        return note if self.noted else None

    @contextmanager
    def together(self, note: Note | None) -> Iterator[None]:
        """What the vector and scalar instructions that are emitted inside do together, from the sources of
        the first to the target of the last.
        """
        body = self._bodies[-1]
        start = len(body)
        yield
        if note is None or not self.noted:
            return
        chain = Chain(note)
        places = [at for at in range(start, len(body)) if isinstance(body[at], Vector | Scalar)]
        for number, at in enumerate(places):
            one = body[at]
            assert isinstance(one, Vector | Scalar)
            body[at] = replace(one, effect=chain.part(number, len(places)))

    def acquire(self, ring: Ring) -> None:
        """The producer waits for a free slot."""
        if ring.handover is not None:
            self._bodies[-1].append(ring.handover.acquire)

    def commit(self, ring: Ring) -> None:
        """The producer hands the slot over."""
        if ring.handover is not None:
            self._bodies[-1].append(ring.handover.commit)
        ring.filled += 1

    def receive(self, ring: Ring) -> None:
        """The consumer waits for a full slot."""
        if ring.handover is not None:
            self._bodies[-1].append(ring.handover.receive)

    def release(self, ring: Ring) -> None:
        """The consumer gives the slot back."""
        if ring.handover is not None:
            self._bodies[-1].append(ring.handover.release)
        ring.emptied += 1

    def order(self, before: Pipe, after: Pipe, name: str) -> None:
        """Lets `after` wait until everything so far in `before` is complete."""
        flag = f"{name}_{before.value}_{after.value}"
        self._flags.setdefault(flag, Flag(flag, before, after, 0, 1))
        self.emit(SetFlag(before, flag), WaitFlag(after, flag))

    def loop(self, name: str, trips: int) -> AbstractContextManager[Affine]:
        """Repeats what is emitted inside `trips` times; yields the loop variable (the constant 0 if it runs
        once).
        """
        return _ONCE if trips == 1 else _Repeating(self, name, trips)

    def open_loop(self, name: str, trips: int) -> str:
        """Begins a loop; what is emitted from now on is its body. Returns its variable."""
        variable = self._fresh(name, self._open)
        self._bodies.append([])
        self._open[variable] = trips
        return variable

    def close_loop(self, variable: str, before: Mapping[Ring, tuple[int, int]]) -> None:
        """Ends the innermost loop, at whose beginning rings had been filled and emptied so often.

        Raises:
            CompileError: If a ring is filled more or less often in it than it is emptied.
        """
        trips, body = self._open.pop(variable), self._bodies.pop()
        turns: dict[str, int] = {}
        for ring in self._rings.values():
            filled, emptied = before.get(ring, (0, 0))
            turn = ring.filled - filled
            if turn != ring.emptied - emptied:
                raise CompileError(
                    f"ring {ring.name!r}",
                    "must be filled as often as it is emptied in a loop",
                    f"{turn} and {ring.emptied - emptied}",
                )
            if turn % ring.slots:
                turns.update({allocation.name: turn % ring.slots for allocation in ring.allocations})
            ring.filled, ring.emptied = filled + trips * turn, emptied + trips * turn
        self.emit_loop(
            Loop(variable, trips, tuple(advanced(body, variable, turns)) if turns else tuple(body))
        )

    def turns(self) -> dict[Ring, tuple[int, int]]:
        """How often each ring has been filled and emptied so far."""
        return {ring: (ring.filled, ring.emptied) for ring in self._rings.values()}

    def emit_loop(self, loop: Loop) -> None:
        """Appends a finished loop."""
        self._bodies[-1].append(loop)

    def largest(self, value: Affine) -> int:
        """The largest value of an expression over the loops that are open."""
        return value.base + sum(max(0, step) * (self._open[name] - 1) for name, step in value.terms)

    def build(self) -> Block:
        """The finished block."""
        return Block(
            tuple(self._bodies[0]), tuple(self._allocations.values()), tuple(self._flags.values()), self.core
        )


_ONCE = nullcontext(ZERO)


class _Repeating(AbstractContextManager[Affine]):
    """A loop while its body is emitted."""

    __slots__ = ("_before", "_builder", "_name", "_trips", "_variable")

    def __init__(self, builder: BlockBuilder, name: str, trips: int) -> None:
        self._builder, self._name, self._trips = builder, name, trips

    def __enter__(self) -> Affine:
        self._before = self._builder.turns()
        self._variable = self._builder.open_loop(self._name, self._trips)
        return Affine(0, ((self._variable, 1),))

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._builder.close_loop(self._variable, self._before)
