"""Time of one block on one core by a plain recurrence in program order: no events, no processes, no queues as
objects.

It holds where nothing is shared: one core, and reads and writes on links of their own. It is written from the
description of the machine, not from its code, and serves to check it.
"""

from __future__ import annotations

from collections import defaultdict

from ascendsim.isa.costs import cost
from ascendsim.isa.instructions import Pipe, Scalar, SetFlag, Vector, WaitFlag
from ascendsim.isa.program import Block
from ascendsim.isa.walk import in_order
from ascendsim.machine.clock import UNITS_PER_BYTE, Clock
from ascendsim.soc.spec import SocSpec


def block_end(block: Block, soc: SocSpec) -> int:
    """Tick at which a program of this block alone ends."""
    clock = Clock.of(soc)
    cycle = clock.ai_ticks
    begin = clock.us(soc.launch.task_launch_us) + clock.ns(soc.launch.kernel_init_ns)
    issue = round(soc.issue.scalar_cycles * cycle)
    scalar = begin
    free: dict[Pipe, int] = defaultdict(lambda: begin)  # when the pipe is through with what it has
    visible: dict[Pipe, int] = defaultdict(lambda: begin)  # when all its results are
    arrival: dict[Pipe, int] = defaultdict(lambda: begin)
    taken: dict[Pipe, list[int]] = defaultdict(list)  # when each instruction left the queue
    landed: dict[Pipe, list[int]] = defaultdict(list)  # when each transfer was complete
    tokens = {flag.name: [begin] * flag.initial for flag in block.flags}
    result: dict[str, int] = defaultdict(int)  # vector operands
    for instruction, _ in in_order(block.body):
        pipe = instruction.pipe
        if pipe is Pipe.S:
            if isinstance(instruction, Scalar):
                scalar += instruction.cycles * cycle
            elif isinstance(instruction, WaitFlag):
                scalar = max(scalar, tokens[instruction.flag].pop(0)) + issue
            elif isinstance(instruction, SetFlag):
                scalar += issue
                tokens[instruction.flag].append(scalar + soc.issue.flag_cycles * cycle)
            continue
        price = cost(instruction, soc, block.core)
        depth = soc.issue.queue_depth[pipe.value]
        if len(taken[pipe]) >= depth:
            scalar = max(scalar, taken[pipe][-depth])
        scalar += issue * price.issues
        arrival[pipe] = max(arrival[pipe], scalar)
        start = max(free[pipe], scalar)
        taken[pipe].append(start)
        if isinstance(instruction, WaitFlag):
            at = tokens[instruction.flag].pop(0)
            arrival[pipe], start = max(arrival[pipe], at), max(start, at)
            free[pipe] = start
            continue
        if isinstance(instruction, SetFlag):
            free[pipe] = start
            tokens[instruction.flag].append(max(start, visible[pipe]) + soc.issue.flag_cycles * cycle)
            continue
        start = max(start, arrival[pipe] + price.head * cycle)
        latency = price.latency * cycle
        if isinstance(instruction, Vector):
            start = max([start] + [result[source.name] for source in instruction.srcs])
            if (
                not instruction.dst.slot.terms and not instruction.dst.offset.terms
            ):  # the same place in every trip
                start = max(start, result[instruction.dst.name])
        if price.link is not None:
            if len(landed[pipe]) >= soc.dram.max_in_flight:
                start = max(start, landed[pipe][-soc.dram.max_in_flight])
            rate = _rate(
                price.link.write,
                price.link.port_bytes_per_cycle,
                price.link.dram_bytes / price.link.l2_bytes,
                soc,
                clock,
            )
            ticks = -(-price.link.l2_bytes * UNITS_PER_BYTE // rate)
            free[pipe] = start + price.occupancy * cycle + ticks
            latency = price.link.miss_latency * cycle
        else:
            free[pipe] = start + price.occupancy * cycle
        visible[pipe] = max(visible[pipe], free[pipe] + latency)
        if price.link is not None:
            landed[pipe].append(visible[pipe])
        if isinstance(instruction, Vector):
            result[instruction.dst.name] = free[pipe] + latency
    return max([scalar, *free.values(), *visible.values()])


def _rate(write: bool, port: float, per_byte: float, soc: SocSpec, clock: Clock) -> int:
    """Work units per tick of a transfer that shares DRAM with nobody."""
    dram = clock.rate((soc.dram.write_gb_per_s if write else soc.dram.read_gb_per_s) * 1e9)
    weight = -int(-per_byte * (1 << 16) // 1)
    return min(clock.width(port, clock.ai_ticks), (dram << 16) // weight)
