"""Shortcuts change nothing: fast-forward, replay and lock-step groups give the trace of the plain simulation,
tick for tick."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

import ascendsim
import ascendsim_kernels.block_walk  # noqa: F401  so that tasks are walked from the first one on
from ascendsim.compiler.model import CompiledModel
from ascendsim.isa.instructions import Loop
from ascendsim.machine import Statistics, run
from tests.support.gate import case
from tests.support.random_programs import ALL_REGIONS, random_block, random_chip, random_program
from tests.support.toy_programs import program_of, task_of

MODELS = Path(__file__).parent.parent / "data" / "models"
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")
QUICK = (("lenet5", 1), ("squeezenet1_1", 1), ("bert_tiny_s64", 1))
LONG = tuple((path.stem, batch) for path in sorted(MODELS.glob("*.onnx")) for batch in (1, 4, 8))
NETWORKS = [(name, batch, True) for name, batch in QUICK]
NETWORKS += [(name, batch, False) for name, batch in LONG if (name, batch) not in QUICK]

CHUNK = 40
CHUNKS = [0, *(pytest.param(number, marks=pytest.mark.slow) for number in range(1, 130))]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_random_programs_give_the_trace_of_the_plain_simulation(chunk: int) -> None:
    jumped = replayed = states = 0
    skipped = 0.0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        random = Random(seed)
        program, soc = random_program(random), random_chip(random)
        groups, instructions = random.random() < 0.7, random.random() < 0.4
        statistics = Statistics()
        short = run(program, soc, instructions=instructions, groups=groups, solo=False, statistics=statistics)
        plain = run(program, soc, instructions=instructions, groups=groups, fast_forward=False, replay=False)
        assert short == plain, f"seed {seed}"
        jumped += statistics.jumps > 0
        replayed += statistics.replayed > 0
        states += statistics.states
        skipped += statistics.ticks / max(1, short.end)
    assert jumped > CHUNK // 2
    assert replayed > CHUNK // 10
    if chunk == 0:  # what they save, counted: states that look different though they are equal cost time only
        assert skipped > 10.6
        assert states < 2800


def turns(seed: int, count: int) -> tuple[int, int]:
    """Ticks of a random program that goes `count` times through the same, and how many were simulated."""
    random, statistics = Random(seed), Statistics()
    soc, groups = random_chip(random), []
    for _ in range(random.choice((1, 1, 2))):
        block = random_block(random)
        turn = replace(block, body=(Loop("turn", count, block.body),))
        groups.append((turn, random.randint(1, 2)))
    program = program_of(task_of(*groups), regions=ALL_REGIONS)
    return (end := run(program, soc, solo=False, statistics=statistics).end), end - statistics.ticks


def test_more_turns_are_skipped_and_not_simulated() -> None:
    """But for programs without transfers, and for those that hardly ever come back to a state."""
    skipped = 0
    for seed in range(12):
        (end, simulated), (later, more) = turns(seed, 60), turns(seed, 120)
        skipped += more - simulated < 0.02 * (later - end)
    assert skipped >= 9


@cache
def compiled(name: str, batch: int, chip: str) -> CompiledModel:
    return ascendsim.compile(ascendsim.load(MODELS / f"{name}.onnx", batch=batch), soc=chip)


@pytest.mark.parametrize(
    ("name", "chip", "batch"),
    [
        case(name, chip, batch, quick=quick, id=f"{name}-{batch}-{chip}")
        for name, batch, quick in NETWORKS
        for chip in CHIPS
    ],
)
def test_networks_give_the_trace_of_the_plain_simulation(name: str, batch: int, chip: str) -> None:
    model = compiled(name, batch, chip)
    plain = run(model.program, model.soc, fast_forward=False, replay=False)
    assert run(model.program, model.soc, solo=False) == plain
    walked = Statistics()
    assert run(model.program, model.soc, statistics=walked) == plain
    assert walked.solo >= 0.8 * walked.simulated  # those of more than a million instructions are SimPy's
