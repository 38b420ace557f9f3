"""The machine: a discrete-event model of the chip that turns a Program into a Trace.

    run        a program on a chip
    scheduler  streams, events between them, blocks on free cores, AI CPU
    tasks      one task while it runs, and its record
    binding    what a task's transfers ask of the links, given what L2 holds and who reads the same
    mean_load  what cores that are at different places of their loops ask of memory on the average
    core       one core or a lock-step group: scalar unit, queues, flags, one process a pipe
    compiled   blocks as runs of tuples between ends of loops, every instruction costed once; block_key: which
               blocks are alike
    links      fair shares of L2 and DRAM
    l2, reuse  what L2 holds between tasks, and what a task comes back to within itself
    launches   when the host has launched a task
    free_cores which cores are free; placing: which blocks go to which of them
    wiring     which cores of a task share which flags, by barrier
    regions    how regions of memory lie to each other
    clock      ticks; events: what happens when within a tick; skipping_clock: the machine's time, from which
               periods can be left out
    fast_forward   skips periods of a machine that comes back to an earlier state
    replay     looks up tasks that were simulated before; outcome: what is kept of them
    known      what runs on one chip have worked out, for those that follow
    solo       walks tasks that have the cores to themselves by compiled code: solo_code, solo_state and
               solo_walk make arrays of them, `ascendsim_kernels.block_walk` walks
    stopwatch  times single tasks, for those who try many; preparing: what a task needs before it runs
    log        instruction records, repeated stretches kept once

How it works. Inside a core everything that orders pipes is a token with a time: an issued instruction, a free
queue slot, a flag. A pipe takes its tokens, computes start and end, and goes on, ahead of the simulated
clock, until a token is missing; so most instructions cost no event at all, and who runs first makes no
difference. Only transfers to and from global memory take place in simulated time, because their speed depends
on what other cores do. Within a tick, whatever ends or arrives is handled until nothing changes, then free
cores get blocks, and last the shares of the links are computed, once.

Four shortcuts, each with a switch, give the result of the plain simulation tick for tick: cores that do the
same are one group, periods of a steady state are skipped, repeated tasks are looked up, and tasks that nobody
else can disturb are walked by compiled code instead of SimPy (`Statistics` counts what they save).

What follows from it, and is tested on random programs: a run is the same to the byte every time; a group of
cores in lock-step equals its members; task ids, the order of regions and the order of processes do not
matter; one core by itself equals a plain recurrence in program order.
"""

from ascendsim.machine.fast_forward import Statistics
from ascendsim.machine.known import Known
from ascendsim.machine.run import run
from ascendsim.machine.stopwatch import Stopwatch

__all__ = ["Known", "Statistics", "Stopwatch", "run"]
