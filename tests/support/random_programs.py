"""Seeded random programs for long suites: loops of many trips, ragged tails, several tasks, groups of blocks
and streams.

Unlike the hypothesis strategies of `random_blocks` they are made to repeat themselves (or nearly), and are
cheap to make by the thousand.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from ascendsim.isa.instructions import (
    Buffer,
    Flag,
    Instruction,
    Loop,
    Move,
    Operand,
    Pipe,
    SetFlag,
    Statement,
    WaitFlag,
)
from ascendsim.isa.program import Access, Block, Program, Task, TaskKind
from ascendsim.soc.spec import SocSpec
from tests.support.random_blocks import PIPES, REGIONS, work
from tests.support.toy_programs import copy_block, matmul_block, program_of, task_of
from tests.support.toy_soc import bare, toy

SIZES = (32, 512, 3000, 4096, 7777, 16384)
ALL_REGIONS = {**REGIONS, "a": 1 << 16, "b": 1 << 17, "c": 1 << 16}


def random_chip(random: Random) -> SocSpec:
    """A small chip: some with shared buses, narrow queues, few transfers in flight, several cores, a clock of
    their own."""
    make = random.choice((toy, toy, bare))
    changes: dict[str, object] = {"ai_cores": random.choice((1, 2, 3, 4))}
    dram: dict[str, object] = {
        "max_in_flight": random.choice((1, 2, 4)),
        "read_gb_per_s": random.choice((20, 32, 71, 500)),
    }
    if random.random() < 0.3:
        dram |= {"half_duplex": True, "write_gb_per_s": 17}
    changes["dram"] = dram
    l2: dict[str, object] = {
        "software_managed": random.random() < 0.3,
        "size": random.choice((0, 50_000, 1 << 20)),
    }
    changes["l2"] = l2 | {
        "request_bytes": random.choice((32, 128)),
        "same_line_bytes_per_cycle": (narrow := random.choice((None, 24.0))),
        "same_line_requests_per_cycle": narrow and 0.1,
    }
    changes["dma"] = {"burst_cycles": random.choice((0, 9.4)), "reads_hold_requests": random.random() < 0.5}
    changes["vector"] = {"bank_groups": random.choice((None, 16))}
    issue: dict[str, object] = {
        "scalar_cycles": random.choice((0, 1, 3)),
        "flag_cycles": random.choice((0, 4)),
    }
    if random.random() < 0.5:
        issue["queue_depth"] = {
            pipe: random.choice((1, 2, 3, 16)) for pipe in ("M", "V", "MTE1", "MTE2", "MTE3")
        }
    changes["issue"] = issue
    if random.random() < 0.2:
        changes["frequency_mhz"] = 680
    return make(**changes)


def random_program(random: Random) -> Program:
    """Up to three layers of one to three tasks on one or two streams, each with groups of blocks, and perhaps
    an AI CPU task."""
    tasks: list[Task] = []
    for number in range(random.choice((1, 1, 2, 3))):
        groups = [(random_block(random), random.randint(1, 5)) for _ in range(random.choice((1, 1, 2, 3)))]
        waits = (random.randrange(number),) if number and random.random() < 0.3 else ()
        accesses = (Access("x", random.choice((4096, 300_000)), 0, False),) if random.random() < 0.3 else ()
        tasks.append(
            task_of(*groups, id=number, accesses=accesses, stream=random.randint(0, 1), waits_for=waits)
        )
    if random.random() < 0.3:
        tasks.append(
            Task(
                len(tasks), "cpu", TaskKind.AI_CPU, stream=random.randint(0, 2), cpu_us=random.choice((3, 30))
            )
        )
    layers = random.choice((1, 1, 2, 3))
    suffixes = ["", *(random.choice(("", "_1", "_2")) for _ in range(layers - 1))]
    stack = [
        renamed(task, len(tasks) * layer, suffix) for layer, suffix in enumerate(suffixes) for task in tasks
    ]
    regions = {
        name + suffix: size for suffix in dict.fromkeys(suffixes) for name, size in ALL_REGIONS.items()
    }
    return program_of(*stack, regions=regions, mode=random.choice(("sink", "sink", "host")))


def renamed(task: Task, later: int, suffix: str) -> Task:
    """A task like another one: its id is `later` higher, its regions have names of their own. Equal blocks
    are not the same object."""
    return replace(
        task,
        id=task.id + later,
        groups=tuple(
            replace(group, block=replace(group.block, body=_renamed_body(group.block.body, suffix)))
            for group in task.groups
        ),
        accesses=tuple(replace(access, region=access.region + suffix) for access in task.accesses),
        waits_for=tuple(other + later for other in task.waits_for),
    )


def _renamed_body(body: tuple[Statement, ...], suffix: str) -> tuple[Statement, ...]:
    def operand(item: Operand) -> Operand:
        return replace(item, name=item.name + suffix) if item.buffer is Buffer.GM else item

    return tuple(
        replace(item, body=_renamed_body(item.body, suffix))
        if isinstance(item, Loop)
        else replace(item, src=operand(item.src), dst=operand(item.dst))
        if isinstance(item, Move)
        else item
        for item in body
    )


def random_block(random: Random) -> Block:
    """A pipeline with ragged tails, a nest with flags anywhere, or one of the regular toy programs."""
    kind = random.random()
    if kind < 0.5:
        return _pipeline(random)
    if kind < 0.8:
        return _nest(random)
    if kind < 0.9:
        return matmul_block(random.randint(1, 8), random.randint(1, 8))
    return copy_block(random.randint(1, 100), random.choice((512, 3000, 4096)), random.randint(1, 3))


def _tile(
    random: Random, stages: tuple[Pipe, ...], sizes: dict[Pipe, int], inner: int, divisor: int
) -> tuple[Statement, ...]:
    """One trip of a pipeline; the second stage works `inner` times a tile."""
    body: list[Statement] = []
    for number, pipe in enumerate(stages):
        if number:
            body.append(WaitFlag(pipe, f"full{number - 1}"))
        if number + 1 < len(stages):
            body.append(WaitFlag(pipe, f"free{number}"))
        one = work(pipe, max(32, sizes[pipe] // divisor))
        body.append(Loop(f"s{divisor}", inner, (one,)) if number == 1 else one)
        if number:
            body.append(SetFlag(pipe, f"free{number - 1}"))
        if number + 1 < len(stages):
            body.append(SetFlag(pipe, f"full{number}"))
    if random.random() < 0.3:
        body.insert(0, work(Pipe.S, random.choice(SIZES)))
    return tuple(body)


def _pipeline(random: Random) -> Block:
    middle = random.choice(((Pipe.V,), (Pipe.MTE1, Pipe.M, Pipe.V), (Pipe.MTE1, Pipe.V), ()))
    stages = (Pipe.MTE2, *middle, Pipe.MTE3)
    sizes = {pipe: random.choice(SIZES) for pipe in stages}
    flags = []
    for number, (source, target) in enumerate(pairwise(stages)):
        slots = random.choice((1, 2, 2, 3, 9))
        flags += [
            Flag(f"full{number}", source, target, 0, slots),
            Flag(f"free{number}", target, source, slots, slots),
        ]
    inner = random.randint(1, 4)
    main = _tile(random, stages, sizes, inner, 1)
    body: tuple[Statement, ...] = (Loop("t", random.randint(1, 30), main),)
    if random.random() < 0.5:
        body = (*body, *_tile(random, stages, sizes, random.randint(1, 4), 3))
    if random.random() < 0.6:
        body = (Loop("o", random.randint(1, 5), body),)
    if random.random() < 0.3:
        body = (*body, *_tile(random, stages, sizes, inner, 5))
    return Block(body, (), tuple(flags))


def _nest(random: Random) -> Block:
    """Arbitrary work in nested loops; flags balance in every body and there are no deadlocks in program
    order."""
    flags: list[Flag] = []
    loops = iter(range(1000))

    def synchronised(body: list[Statement]) -> list[Statement]:
        for _ in range(random.randint(0, 2)):
            source, target = random.sample((*PIPES, Pipe.S), 2)
            first, second = sorted((random.randint(0, len(body)), random.randint(0, len(body))))
            free = random.randint(0, 2)
            flag = Flag(f"f{len(flags)}", source, target, free, 16)
            flags.append(flag)
            setting, waiting = SetFlag(source, flag.name), WaitFlag(target, flag.name)
            before, after = (waiting, setting) if free else (setting, waiting)
            body = [*body[:first], before, *body[first:second], after, *body[second:]]
        return body

    def statement(depth: int, trips: int) -> Statement:
        if depth and random.random() < 0.5:
            mine = random.randint(0, trips)
            return Loop(f"i{next(loops)}", mine, nest(depth - 1, max(2, trips // max(1, mine))))
        one: Instruction = work(random.choice((*PIPES, Pipe.MTE2, Pipe.S)), random.choice(SIZES))
        return one

    def nest(depth: int, trips: int) -> tuple[Statement, ...]:
        return tuple(synchronised([statement(depth, trips) for _ in range(random.randint(1, 4))]))

    body = nest(random.choice((0, 1, 2)), 12)
    return Block((Loop("o", random.randint(1, 8), body),), (), tuple(flags))
