"""Advice on compiled kernels: what costs time in their instructions, and how much of it."""

from __future__ import annotations

from dataclasses import replace

from ascendsim.isa.instructions import Scalar, Statement
from ascendsim.isa.program import Block, Program
from ascendsim.machine import run as run_machine
from ascendsim.soc.spec import SocSpec
from ascendsim.tile.findings import Finding

MANY = 256  # numbers that the scalar unit of a core moves before anything is said
MOVES = ("s.ld", "s.st", "S.LOAD", "S.STORE")


def one_by_one(program: Program, soc: SocSpec) -> Finding | None:
    """Numbers that the scalar unit moves one by one: what the compiler makes of addresses without a pattern.

    The cycles are those that go if these loads and stores cost nothing.
    """
    (task,) = program.tasks
    counts = [sum(map(_moves, group.block.body)) for group in task.groups]
    most = max(counts)
    if most < MANY:
        return None
    groups = tuple([replace(group, block=_without(group.block)) for group in task.groups])
    other = replace(program, tasks=(replace(task, groups=groups),))
    lost = run_machine(program, soc).cycles - run_machine(other, soc).cycles
    if lost <= 0:
        return None
    core = sum(group.count for group in task.groups[: counts.index(most)])
    text = f"moves {most:,} numbers one by one by the scalar unit of a core"
    remedy = "let addresses rise by constant steps: block pointers, no remainders or loaded indices in them"
    return Finding("advice", f"kernel {task.name}", text, core, -1, remedy, error=False, cycles=lost)


def _moves(one: Statement) -> bool:
    return isinstance(one, Scalar) and one.what in MOVES


def _without(block: Block) -> Block:
    return replace(block, body=tuple([one for one in block.body if not _moves(one)]))
