"""What a task costs, for decisions: its time with all that it touches in L2, and with all of it in DDR.

In between the time is taken as linear in the bytes. The two ends come from the machine, or from a closed
form:

    time = start + max(busiest unit, bytes / rate)

whose units overlap perfectly, which the machine does not grant; what two plans differ by is right to first
order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import ceil

from ascendsim.isa.costs import cost
from ascendsim.isa.instructions import Pipe, SetFlag, WaitFlag
from ascendsim.isa.program import CoreKind, Task, TaskKind
from ascendsim.isa.walk import static, times
from ascendsim.soc.spec import SocSpec


@dataclass(frozen=True, slots=True)
class TaskPrice:
    """The time of a task.

    Attributes:
        near, far: Seconds if all that it touches lies in L2, and if all of it lies in DDR.
    """

    near: float
    far: float

    def seconds(self, share_in_l2: float) -> float:
        """Time if this share of the bytes lies in L2."""
        return self.far + (self.near - self.far) * share_in_l2


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
        return cls(
            ddr, (soc.l2.read_bytes_per_cycle_per_core + soc.l2.write_bytes_per_cycle_per_core) * per_core
        )


def closed_form(task: Task, soc: SocSpec) -> TaskPrice:
    """The price of a task by the closed form; the time to hand out blocks, one after another, is left out."""
    launch = soc.launch
    if task.kind is TaskKind.AI_CPU:
        time = (soc.ai_cpu.dispatch_us + soc.ai_cpu.overhead_us + launch.task_gap_us + task.cpu_us) * 1e-6
        return TaskPrice(time, time)
    if task.kind in (TaskKind.COMMUNICATION, TaskKind.MEMCPY_ASYNC):
        time = (launch.task_launch_us + launch.task_gap_us + task.known_us) * 1e-6
        return TaskPrice(time, time)
    start = (launch.task_launch_us + launch.task_gap_us) * 1e-6 + launch.kernel_init_ns * 1e-9
    busy = 0.0
    for group in task.groups:
        pipes: Counter[Pipe] = Counter()
        for instruction, around in static(group.block.template.body):
            if not isinstance(instruction, SetFlag | WaitFlag):
                pipes[instruction.pipe] += cost(instruction, soc, group.block.core).occupancy * times(around)
        cores = soc.vector_cores if group.block.core is CoreKind.VECTOR else soc.ai_cores
        clock = soc.vector_frequency_mhz if group.block.core is CoreKind.VECTOR else soc.frequency_mhz
        busy += ceil(group.count / max(1, cores)) * max(pipes.values(), default=0) / (clock * 1e6)
    bytes = sum(access.moved_bytes for access in task.accesses)
    rates = Rates.of(soc)
    return TaskPrice(start + max(busy, bytes / rates.l2), start + max(busy, bytes / rates.ddr))
