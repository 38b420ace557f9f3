"""What happened when: the machine's output. Times are integer ticks; `Trace` knows how long a tick is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class InstructionRecord:
    """One instruction on one pipe of one group of cores in lock-step.

    Attributes:
        cores: Numbers of the cores that did exactly this.
        pipe: "S", "M", "V", "MTE1", "MTE2", "MTE3" or "FIX".
        name: Short listing form ("mmad 128x64x128").
        start, end: Ticks during which the pipe was occupied.
        bytes: Bytes moved, 0 if none.
    """

    task: int
    cores: tuple[int, ...]
    pipe: str
    name: str
    start: int
    end: int
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task.

    Attributes:
        ready: Tick at which the scheduler could have started it (its stream and events allowed it).
        start, end: From dispatch to the end of the last block.
        blocks, rounds: Blocks, and how many waves of them the cores needed.
        cores: Cores used, 0 for AI CPU.
        busy: Busy ticks by pipe, summed over blocks.
        block_ticks: Ticks from block start to block end, summed over blocks (msprof's total cycles).
        vector_busy, vector_ticks: What of `busy` and `block_ticks` is of blocks on vector cores.
        dispatch: Ticks that it took to hand out the blocks that started together first, after the launch.
        read_bytes, write_bytes: Bytes moved from and to global memory, by level: {"l2": ..., "ddr": ...}.
        first_compute, last_compute: Ticks of first Cube/Vector start and last end, -1 if none; `profiling`
            derives the phases E, R, C, W from them.
        macs: Useful multiply-accumulates on the Cube.
        launch_start, launch_end: Ticks between which the host launches it, -1 if the device launches it by
            itself.
    """

    task: int
    name: str
    kind: str
    stream: int
    ready: int
    start: int
    end: int
    blocks: int
    rounds: int
    cores: int
    busy: Mapping[str, int] = field(default_factory=dict)
    block_ticks: int = 0
    vector_busy: Mapping[str, int] = field(default_factory=dict)
    vector_ticks: int = 0
    dispatch: int = 0
    read_bytes: Mapping[str, int] = field(default_factory=dict)
    write_bytes: Mapping[str, int] = field(default_factory=dict)
    first_compute: int = -1
    last_compute: int = -1
    macs: int = 0
    launch_start: int = -1
    launch_end: int = -1


@dataclass(frozen=True, slots=True)
class Trace:
    """A finished run.

    Attributes:
        tick_seconds: Exact length of a tick.
        core_ticks: Ticks of one AI Core clock cycle.
        tasks: Records in order of end (ties by task id).
        instructions: Empty unless asked for.
        end: Tick at which the last task ended.
    """

    tick_seconds: Fraction
    core_ticks: int
    tasks: tuple[TaskRecord, ...]
    instructions: tuple[InstructionRecord, ...] = ()
    end: int = 0

    def __repr__(self) -> str:
        counts = f"{len(self.tasks)} tasks, {len(self.instructions)} instructions"
        return f"Trace({self.duration_us:,.3f} us, {counts})"

    def us(self, ticks: int) -> float:
        """Microseconds of a number of ticks."""
        return float(ticks * self.tick_seconds * 1_000_000)

    @property
    def duration_us(self) -> float:
        return self.us(self.end)

    @property
    def cycles(self) -> int:
        """AI Core clock cycles, rounded up."""
        return -(-self.end // self.core_ticks)
