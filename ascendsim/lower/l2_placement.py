"""L2 fusion: which tensors between tasks lie in the L2 buffer instead of DDR, and where.

Tasks stay as they are; only addresses change. The rules are those of CANN's L2 optimizer (FE,
l2_fusion_parser.cc, l2_fusion_allocation.cc and l2_fusion_comm.cc of 2019/20, for the chip with 8 MiB): the
buffer has 64 pages; tasks are walked in launch order; every result of an AI Core task that a later task reads
gets pages if there are enough of them, else it stays in DDR; it keeps them until its last reader has run; no
more than 8 pieces of data are in the buffer at a time. Inputs and outputs of the graph and weights stay in
DDR; so does memory that a Concat or Split without a task lies in (NoNeedAllocOutputs: no room for a result
that a virtual node reads or makes). Two things differ: FE moves pages together after every task (by
remapping, without copying), here a piece keeps its first-fit address for life, so that a program can be
checked by one list of addresses; and weights that come again (with every pass of a cut batch, with every time
step) take what room is left. That CANN keeps them so is assumed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ascendsim.core.formats import align
from ascendsim.isa.program import Program, Task, TaskKind, owner_of

PAGES = 64  # FE, GetL2PageNum
PIECES = 8  # FE, max_data_num; rtL2Ctrl_t holds 8 descriptions


@dataclass(frozen=True, slots=True)
class Placement:
    """A region that lies in L2.

    Attributes:
        offset: Byte offset in L2.
        bytes: Pages that it takes, in bytes.
        first, last: Tasks of its first and last use.
        read_bytes, written_bytes: What tasks move from and to it: DDR bytes that L2 carries instead.
        weight: It comes from DDR with the first task that reads it.
    """

    region: str
    offset: int
    bytes: int
    first: int
    last: int
    read_bytes: int
    written_bytes: int
    weight: bool = False

    @property
    def saved_bytes(self) -> int:
        """DDR bytes that are gone."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True)
class L2Plan:
    """What lies in L2.

    Attributes:
        capacity: Bytes of the buffer.
        placed: By first use.
        refused: Tensors that would have liked to, with the reason.
    """

    capacity: int
    placed: tuple[Placement, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def peak_bytes(self) -> int:
        """End of the highest placement."""
        return max((item.offset + item.bytes for item in self.placed), default=0)

    @property
    def saved_bytes(self) -> int:
        """DDR bytes that are gone, over all tasks."""
        return sum(item.saved_bytes for item in self.placed)


def plan_l2(
    program: Program,
    capacity: int,
    candidates: Collection[str] | None = None,
    preferred: Collection[str] = (),
    weights: Collection[str] = (),
    *,
    pages: int = PAGES,
    pieces: int = PIECES,
) -> L2Plan:
    """Places tensors in L2.

    Args:
        program: Lowered, with its plan of device memory.
        capacity: Bytes of L2.
        candidates: Tensors that may be placed; None = all between tasks.
        preferred: Tensors that are placed before all others (those inside of blocks with a cut batch).
        weights: Weights to keep from the first task that reads them to the last, where there is room beside
            all tensors. They come from DDR once; those that no task reads again are left there.
        pages: Granules of the buffer.
        pieces: Most tensors in the buffer at a time.
    """
    touched = touched_roots(program)
    board = _Board(capacity, pages, pieces)
    placed: list[Placement] = []
    refused: dict[str, str] = {}
    allowed = None if candidates is None else {owner_of(program.memory.regions, name) for name in candidates}
    shared = {
        owner_of(program.memory.regions, name)
        for name, region in program.memory.regions.items()
        if region.cut is not None
    }
    before = {owner_of(program.memory.regions, name) for name in preferred}
    for name, uses in sorted(
        touched.items(), key=lambda item: (item[0] not in before, item[1][0][0].id, item[0])
    ):
        region = program.memory.regions[name]
        if region.kind != "activation" or (allowed is not None and name not in allowed):
            continue
        if len({write for _, write, _ in uses}) < 2:
            continue
        if name in shared:
            refused[name] = "a Concat or Split without a task lies in it"
            continue
        if any(task.kind is TaskKind.AI_CPU for task, write, _ in uses if write):
            refused[name] = "the AI CPU makes it"
            continue
        found = board.place(region.bytes, region.first, region.last)
        if isinstance(found, str):
            refused[name] = found
            continue
        read, written = (
            sum(bytes for _, write, bytes in uses if write is direction) for direction in (False, True)
        )
        placed.append(Placement(name, *found, region.first, region.last, read, written))
    for name in sorted({owner_of(program.memory.regions, name) for name in weights}):
        uses = touched.get(name, [])
        region = program.memory.regions[name]
        again = sum(bytes for _, _, bytes in uses) - region.bytes
        if region.kind != "weight" or again <= 0:
            continue
        first, last = uses[0][0].id, uses[-1][0].id
        found = board.place(region.bytes, first, last)
        if not isinstance(found, str):
            placed.append(Placement(name, *found, first, last, again, 0, weight=True))
    return L2Plan(capacity, tuple(placed), refused)


class _Board:
    """The buffer over time."""

    def __init__(self, capacity: int, pages: int, pieces: int) -> None:
        self._capacity, self._pieces = capacity, pieces
        self._page = max(1, capacity // pages)
        # by task: pieces of the buffer in use
        self._taken: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def place(self, bytes: int, first: int, last: int) -> tuple[int, int] | str:
        """Offset and size of a new piece at the lowest gap that is free in all tasks from `first` to `last`,
        or why there is none.
        """
        size = align(bytes, self._page)
        if size > self._capacity:
            return "larger than L2"
        life = range(first, last + 1)
        offset = 0
        for start, end in sorted(piece for task in life for piece in self._taken[task]):
            if offset + size <= start:
                break
            offset = max(offset, end)
        if offset + size > self._capacity:
            return "no room while it lives"
        if any(len(self._taken[task]) >= self._pieces for task in life):
            return f"{self._pieces} tensors are in L2 already"
        for task in life:
            self._taken[task].append((offset, offset + size))
        return offset, size


def weights_of_steps(program: Program) -> tuple[str, ...]:
    """Weights that a task of several steps reads at every step, as recurrent layers do: more bytes than they
    have.
    """
    found: list[str] = []
    for node, engine in program.info.engines.items():
        if engine == "sequence":
            numbers = frozenset(program.info.tasks_of[node])
            reads = (
                access
                for task in program.tasks
                if task.id in numbers
                for access in task.accesses
                if not access.write
            )
            names = (
                owner_of(program.memory.regions, access.region)
                for access in reads
                if access.region in program.memory.regions
            )
            found += [name for name in names if program.memory.regions[name].kind == "weight"]
    return tuple(dict.fromkeys(found))


def with_placement(program: Program, plan: L2Plan) -> Program:
    """The program with its tensors where the plan puts them."""
    placed = tuple(item.region for item in plan.placed if not item.weight)
    kept = tuple(item.region for item in plan.placed if item.weight)
    return program.noting(l2_placed=placed, l2_kept=kept)


def check_placement(program: Program, plan: L2Plan) -> list[str]:
    """Breaches of the plan: pieces outside the buffer, pieces that share bytes at one time, lives that do not
    cover all uses.
    """
    breaches = [
        f"{item.region} ends beyond L2"
        for item in plan.placed
        if item.offset < 0 or item.offset + item.bytes > plan.capacity
    ]
    for number, one in enumerate(plan.placed):
        for other in plan.placed[number + 1 :]:
            together = one.first <= other.last and other.first <= one.last
            if together and one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes:
                breaches.append(f"{one.region} and {other.region} share bytes")
    lives = {item.region: item for item in plan.placed}
    for name, uses in touched_roots(program).items():
        if name in lives and any(not lives[name].first <= task.id <= lives[name].last for task, _, _ in uses):
            breaches.append(f"{name} is used outside of its life")
    return breaches


def touched_roots(program: Program) -> dict[str, list[tuple[Task, bool, int]]]:
    """By region that owns memory: the tasks that touch it, whether they write, and the bytes that they
    move.
    """
    touched: dict[str, list[tuple[Task, bool, int]]] = defaultdict(list)
    for task in program.tasks:
        for access in task.accesses:
            if access.region in program.memory.regions:
                touched[owner_of(program.memory.regions, access.region)].append(
                    (task, access.write, access.moved_bytes)
                )
    return dict(touched)
