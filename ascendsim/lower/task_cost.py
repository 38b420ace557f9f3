"""What a task costs at least, in closed form: its busiest unit, what it moves, its start. For decisions, not for results.

    time = start + max(busiest unit, DDR bytes / DDR rate + L2 bytes / L2 rate)

The units overlap perfectly here, which the machine does not grant; what two plans differ by is right to first order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from ascendsim.isa.costs import cost
from ascendsim.isa.instructions import Pipe, SetFlag, WaitFlag
from ascendsim.isa.program import CoreKind, Task, TaskKind
from ascendsim.isa.walk import static, times
from ascendsim.soc.spec import SocSpec


@dataclass(frozen=True, slots=True)
class TaskCost:
    """The parts of a task's time.

    Attributes:
        start: Seconds before and between tasks.
        busy: Seconds of its busiest unit.
        moved: Bytes by region.
    """

    start: float
    busy: float
    moved: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per second of the whole chip."""

    ddr: float
    l2: float

    @classmethod
    def of(cls, soc: SocSpec) -> Rates:
        """Rates of a chip; reads and writes together."""
        per_core = soc.ai_cores * soc.frequency_mhz * 1e6
        ddr = soc.dram.read_gb_per_s * 1e9 * (1 if soc.dram.half_duplex else 2)
        return cls(ddr, (soc.l2.read_bytes_per_cycle_per_core + soc.l2.write_bytes_per_cycle_per_core) * per_core)


def task_cost(task: Task, soc: SocSpec) -> TaskCost:
    """The parts of a task's time on a chip."""
    launch = soc.launch
    if task.kind is TaskKind.AI_CPU:
        return TaskCost((soc.ai_cpu.dispatch_us + soc.ai_cpu.overhead_us + launch.task_gap_us) * 1e-6, task.cpu_us * 1e-6, {})
    start = (launch.task_launch_us + launch.task_gap_us) * 1e-6 + launch.kernel_init_ns * 1e-9
    busy = 0.0
    for group in task.groups:
        pipes: Counter[Pipe] = Counter()
        for instruction, around in static(group.block.body):
            if not isinstance(instruction, SetFlag | WaitFlag):
                pipes[instruction.pipe] += cost(instruction, soc, group.block.core).occupancy * times(around)
        cores = soc.vector_cores if group.block.core is CoreKind.VECTOR else soc.ai_cores
        clock = soc.vector_frequency_mhz if group.block.core is CoreKind.VECTOR else soc.frequency_mhz
        busy += ceil(group.count / max(1, cores)) * max(pipes.values(), default=0) / (clock * 1e6)
    moved: Counter[str] = Counter()
    for access in task.accesses:
        moved[access.region] += access.moved_bytes
    return TaskCost(start, busy, dict(moved))

