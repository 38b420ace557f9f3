"""What cores that are at different places of their programs ask of memory.

Blocks get their cores one after the other (`launch.block_dispatch_ns`: 3 us for 24 cores of Ascend910B, as
long as a load of L1 takes), and loads of an operand that L2 holds take turns with loads of one that it does
not. So at any time some cores wait for L2 and others for DRAM, which does not rest. Cores are simulated in
lock-step, where all would ask DRAM for everything at a time and for nothing after that. What a block's loads
ask of it is therefore evened out over all of them: with n loads of a kind, of w bytes each at a rate r(l)
under a load l of memory,

    t  = n w / r(l)                    time of the loads of a kind, whatever DRAM's link carries
    l  = cores x sum(t u) / sum(t)     mean load; u = what one core adds while it is at such loads
    d  = cores x n w x weight / rate   time that DRAM's link needs for them, of all cores

and the weights on the link are lowered to the share s at which it holds up the cores for no longer than the
bytes of all of them take: sum(max(t, s d)) = max(sum(t), sum(d)).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import NamedTuple

from ascendsim.machine.links import WEIGHT, FlowClass, Link

_ROUNDS = 40  # halvings of an interval until nothing is left of it


class Loads(NamedTuple):
    """The loads of one kind of a block.

    Attributes:
        work: Work units of all of them.
        kind: What decides their rate.
    """

    work: int
    kind: FlowClass


def evened(loads: Sequence[Loads], cores: int, capacity: Sequence[int]) -> list[FlowClass]:
    """The classes of loads of cores that are not in step.

    Args:
        loads: All loads of a block for which requests decide.
        cores: Cores that run the block side by side.
        capacity: Work units per tick of each link.
    """
    kinds = [one.kind for one in loads]
    there = [one.work * kind.weights[Link.DRAM_READ] for one, kind in zip(loads, kinds, strict=True)]
    if cores < 2 or not any(there):
        return kinds
    needed = [size * cores / (WEIGHT * capacity[Link.DRAM_READ]) for size in there]
    load = _mean_load(loads, cores, capacity)
    alone = _times(loads, cores, capacity, load)
    share = _share(alone, needed)
    return [_less(kind, share, load // cores) for kind in kinds]


def _times(loads: Sequence[Loads], cores: int, capacity: Sequence[int], load: int) -> list[float]:
    """Ticks of the loads of each kind under a load of memory, if its link held up nobody."""
    found = []
    for work, kind in loads:
        rate = kind.cap if kind.requests is None else min(kind.cap, kind.requests.cap(load))
        if kind.weights[Link.L2_READ]:
            rate = min(rate, capacity[Link.L2_READ] * WEIGHT // (kind.weights[Link.L2_READ] * cores))
        found.append(work / max(1, rate))
    return found


def _mean_load(loads: Sequence[Loads], cores: int, capacity: Sequence[int]) -> int:
    """The load of memory, in 1/WEIGHT, at which loads take the time that makes for it.

    Under more load those of memory take a larger share of the time, but never so much larger that there were
    two such loads.
    """
    added = [0 if kind.requests is None else kind.requests.load for _, kind in loads]
    low, high = 0, cores * max(added)
    while high - low > 1:
        middle = (low + high) // 2
        times = _times(loads, cores, capacity, middle)
        busy = cores * fsum(time * one for time, one in zip(times, added, strict=True))
        if busy > middle * fsum(times):
            low = middle
        else:
            high = middle
    return high


def _share(alone: Sequence[float], needed: Sequence[float]) -> float:
    """Share of their weights on DRAM's link with which loads take as long as they need, or as the link
    does.
    """
    if fsum(needed) <= fsum(alone):
        return min([1.0, *(time / link for time, link in zip(alone, needed, strict=True) if link)])
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if fsum(max(time, middle * link) for time, link in zip(alone, needed, strict=True)) < fsum(needed):
            low = middle
        else:
            high = middle
    return high


def _less(kind: FlowClass, share: float, load: int) -> FlowClass:
    """A class with a share of its weight on DRAM's link, that adds such a load."""
    read, write, memory, out = kind.weights
    requests = None if kind.requests is None else kind.requests._replace(load=load)
    return kind._replace(weights=(read, write, round(memory * share), out), requests=requests)
