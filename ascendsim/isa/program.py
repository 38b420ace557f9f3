"""What the device runs: a program of streams, tasks and blocks, and the memory it runs in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from ascendsim.core.formats import REGION_BYTES, align
from ascendsim.core.records import quickly_made
from ascendsim.isa.instructions import (
    Allocation,
    Buffer,
    CrossFlag,
    Flag,
    Img2Col,
    Loop,
    Move,
    Operand,
    Statement,
)

# who launches tasks: the device, the host, or a framework that calls operator by operator
MODES = ("sink", "host", "eager")


class CoreKind(Enum):
    """Kind of core that a block needs."""

    AI = "AI"  # a coupled core: all pipes
    CUBE = "CUBE"  # split: cube core (S, M, MTE1, MTE2, FIX)
    VECTOR = "VECTOR"  # split or extra vector core (S, V, MTE2, MTE3)

    __hash__ = object.__hash__  # as in `DType`


class TaskKind(Enum):
    """How a task is dispatched; the value is msprof's Task Type."""

    AI_CORE = "AI_CORE"
    AI_VECTOR_CORE = "AI_VECTOR_CORE"
    MIX_AIC = "MIX_AIC"  # cube cores with their vector cores, counted by cube cores
    MIX_AIV = "MIX_AIV"
    AI_CPU = "AI_CPU"
    COMMUNICATION = "COMMUNICATION"
    DVPP = "DVPP"
    CTRL_CPU = "CTRL_CPU"
    MEMCPY_ASYNC = "MEMCPY_ASYNC"  # from the host's memory

    @property
    def on_cores(self) -> bool:
        """Whether AI Cores run its blocks."""
        return self in (TaskKind.AI_CORE, TaskKind.AI_VECTOR_CORE, TaskKind.MIX_AIC, TaskKind.MIX_AIV)

    @property
    def for_images(self) -> bool:
        """Whether it prepares images: nobody launches it, it follows from what it waits for."""
        return self in (TaskKind.DVPP, TaskKind.CTRL_CPU)


@dataclass(frozen=True, slots=True)
class Block:
    """The program of one core's share of a task.

    Equal blocks of a task are the same object (or equal), so the machine can run them as one group.
    """

    body: tuple[Statement, ...]
    allocations: tuple[Allocation, ...] = ()
    flags: tuple[Flag, ...] = ()
    core: CoreKind = CoreKind.AI
    cross: tuple[CrossFlag, ...] = ()

    @property
    def template(self) -> Block:
        """The block whose statements this one shares; itself unless it is a `RenamedBlock`."""
        return self

    def region(self, name: str) -> str:
        """What this block calls a region of its template."""
        return name


class RenamedBlock(Block):
    """A block that differs from another one in the names of global-memory regions only, as equal layers of a
    network do.

    It costs nothing until somebody reads `body`, which is then made from the template's.

    Args:
        template: The other block.
        names: Its names of regions -> those of this block, without two regions becoming one; regions that are
            left out keep theirs.
    """

    __slots__ = ("_body", "_names", "_template")
    _body: tuple[Statement, ...] | None
    _names: Mapping[str, str]
    _template: Block

    def __init__(self, template: Block, names: Mapping[str, str]) -> None:
        for field_name, value in (
            ("_template", template),
            ("_names", names),
            ("_body", None),
            ("allocations", template.allocations),
            ("flags", template.flags),
            ("core", template.core),
            ("cross", template.cross),
        ):
            object.__setattr__(self, field_name, value)

    @property
    def body(self) -> tuple[Statement, ...]:
        """The template's statements with this block's names."""
        if self._body is None:
            object.__setattr__(self, "_body", _renamed(self._template.body, self._names))
        assert self._body is not None
        return self._body

    @property
    def template(self) -> Block:
        return self._template

    def region(self, name: str) -> str:
        return self._names.get(name, name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Block):
            return NotImplemented
        return _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash(_content(self))


def _content(block: Block) -> tuple[object, ...]:
    return block.body, block.allocations, block.flags, block.core, block.cross


def _renamed(body: tuple[Statement, ...], names: Mapping[str, str]) -> tuple[Statement, ...]:
    def operand(old: Operand) -> Operand:
        return replace(old, name=names.get(old.name, old.name)) if old.buffer is Buffer.GM else old

    def statement(old: Statement) -> Statement:
        if isinstance(old, Loop):
            return replace(old, body=_renamed(old.body, names))
        return (
            replace(old, dst=operand(old.dst), src=operand(old.src))
            if isinstance(old, Move | Img2Col)
            else old
        )

    return tuple(statement(old) for old in body)


@quickly_made
@dataclass(frozen=True, slots=True)
class BlockGroup:
    """`count` blocks with the same program (their GM offsets differ, their timing does not).

    Attributes:
        team: Groups of a task with the same number make teams that start together on the cores of one AI Core
            of a split chip: a cube core and as many of its vector cores as there are vector blocks to each
            cube block.
        origins: Of each block, where its share begins (`isa.notes`); empty if nobody asked for it.
    """

    block: Block
    count: int
    team: int | None = None
    origins: tuple[tuple[tuple[str, int], ...], ...] = ()


@quickly_made
@dataclass(frozen=True, slots=True)
class Access:
    """What a task does to a GM region, for L2 residency and conservation checks.

    Attributes:
        region: Name of the region.
        unique_bytes: Bytes of the region that the task touches at all.
        moved_bytes: Bytes that all blocks move, repeats included.
        write: Whether it writes.
    """

    region: str
    unique_bytes: int
    moved_bytes: int
    write: bool


@dataclass(frozen=True, slots=True)
class Task:
    """What the task scheduler dispatches.

    Attributes:
        id: Unique in the program; `profiling` joins records to nodes by it.
        name: Name of the node it runs, or a name for the fused nodes.
        groups: Blocks by group; empty for what does not run on the cores.
        waits_for: Tasks of other streams that must have ended (stream events).
        cpu_us: AI CPU work in microseconds at the chip's rate (dispatch and overhead come on top).
        known_us: Time in microseconds that is known beforehand: of a collective on the links between devices,
            of DVPP and of the Ctrl CPU, of a copy out of the host's memory; it takes no core and no bandwidth
            of the memory.
        fused: Names of the graph nodes it runs, in order, if they are several.
        decisions: Branches chosen and loops tested by the task scheduler before it starts (graphs with
            control flow on the device).
        read_backs: Values of the device that the host reads before it launches the task (such graphs
            scheduled by the host).
        host_waits: Whether the host launches nothing more until it has ended.
    """

    id: int
    name: str
    kind: TaskKind
    stream: int = 0
    groups: tuple[BlockGroup, ...] = ()
    accesses: tuple[Access, ...] = ()
    waits_for: tuple[int, ...] = ()
    cpu_us: float = 0.0
    known_us: float = 0.0
    fused: tuple[str, ...] = ()
    decisions: int = 0
    read_backs: int = 0
    host_waits: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the graph nodes that the task runs, in order."""
        return self.fused or (self.name,)

    @property
    def block_dim(self) -> int:
        """Blocks of the task; 1 for an AI CPU task."""
        return sum(group.count for group in self.groups) or 1


@quickly_made
@dataclass(frozen=True, slots=True)
class Region:
    """A piece of global memory.

    Attributes:
        offset: Byte offset in device memory, 512 B aligned (of a slice: of its first element).
        kind: "weight", "input", "output", "activation" or "workspace".
        alias_of: Name of the region this one shares its bytes with (reshape), if any.
        first, last: Task ids of the first and last use (inclusive), tasks that may run at the same time
            counted in; weights live for ever.
        cut: Logical axis and index of the first element if this is a slice of `alias_of`, None if it is all
            of it.
        in_place_of: Name of the region whose address this one takes over with its first task, if any.
    """

    name: str
    offset: int
    bytes: int
    kind: str
    alias_of: str | None = None
    first: int = 0
    last: int = 0
    cut: tuple[int, int] | None = None
    in_place_of: str | None = None


def owner_of(regions: Mapping[str, Region], name: str, through_slices: bool = True) -> str:
    """The region at the end of a chain of aliases, whose bytes a region shares; a name without a region
    stands for itself.

    Args:
        regions: By name.
        name: Where the chain begins.
        through_slices: Whether a slice leads on to the region that it was cut from, or ends the chain.
    """
    region = regions.get(name)
    for _ in range(len(regions)):  # a chain that bites its tail ends too
        if region is None or region.alias_of is None or (region.cut is not None and not through_slices):
            break
        name = region.alias_of
        region = regions.get(name)
    return name


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where everything lies in global memory."""

    regions: Mapping[str, Region]
    peak_bytes: int  # activations, inputs, outputs and workspaces
    weight_bytes: int

    @classmethod
    def in_a_row(cls, sizes: Mapping[str, int], kind: str = "activation") -> MemoryPlan:
        """Regions of these bytes one behind the other, for programs that are made to be timed."""
        regions, end = {}, 0
        for name, size in sizes.items():
            regions[name] = Region(name, end, size, kind)
            end += align(size, REGION_BYTES)
        return cls(regions, end, 0)


@dataclass(frozen=True, slots=True)
class ProgramInfo:
    """What is known of a program besides its tasks.

    Attributes:
        soc, graph: Names of the chip and of the graph.
        tasks_of: Numbers of the tasks by node.
        engines: What runs each node: "cube", "vector", "movement", "scalar", "sequence", "ai_cpu",
            "links" or "none".
        tilings: By the first node of a task that had several tilings: which it has; 0 = the closed form's
            first.
        l2_placed: Regions that a software-managed L2 holds.
        l2_kept: Weights that stay in L2 once a task has read them.
        host_reasons: Why the host schedules what was asked to go to the device.
        gear: Which of several input shapes ran.
        runs: How often the network runs in it, one batch after the other.
    """

    soc: str = ""
    graph: str = ""
    tasks_of: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    tilings: Mapping[str, int] = field(default_factory=dict)
    l2_placed: tuple[str, ...] = ()
    l2_kept: tuple[str, ...] = ()
    host_reasons: tuple[str, ...] = ()
    gear: str = ""
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Program:
    """Tasks in launch order (within a stream that is the order of execution)."""

    tasks: tuple[Task, ...]
    memory: MemoryPlan
    mode: str = "sink"  # one of MODES
    info: ProgramInfo = field(default_factory=ProgramInfo)

    def noting(self, **facts: Any) -> Program:
        """The program with fields of `info` changed."""
        return replace(self, info=replace(self.info, **facts))

    def __repr__(self) -> str:
        kinds = Counter(task.kind.value for task in self.tasks)
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        return (
            f"Program({len(self.tasks)} tasks ({listed}), mode={self.mode!r}, "
            f"{self.memory.peak_bytes:,} bytes of activations, {self.memory.weight_bytes:,} of weights)"
        )
