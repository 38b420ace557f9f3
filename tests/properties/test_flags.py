"""Every flag of every program is needed: without it two pipes reach the same bytes at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascendsim
from ascendsim.core.formats import Format
from ascendsim.isa.checks import check_block
from ascendsim.isa.instructions import Pipe
from ascendsim.isa.program import Block
from ascendsim.lower.program import Lowering
from ascendsim.opset.work import Copy, MoveWork, ScalarWork, SequenceWork, Step, Stream, VectorWork, Work
from ascendsim.soc import load
from tests.support.flags import needless_flags
from tests.support.gate import in_turn
from tests.support.lowering import convolution, matmul, ref

MODELS = Path(__file__).parent.parent / "data" / "models"
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910B1")
QUICK = ("bert_tiny_s64", "lstm_lm")
LONG = tuple(sorted(path.stem for path in MODELS.glob("*.onnx") if path.stem not in ("lenet5", *QUICK)))

# What a drain waits for may be read by another core only: the cores of a sequence reach the end of a part
# together.
BETWEEN_CORES = {f"drained_{pipe.value}" for pipe in Pipe}


def blocks_of(name: str, chip: str) -> Iterator[tuple[str, Block]]:
    """The different blocks of a network, each with a task that it is of."""
    program = ascendsim.compile(ascendsim.load(MODELS / f"{name}.onnx"), soc=chip).program
    blocks = {group.block.template: task.name for task in program.tasks for group in task.groups}
    yield from ((task, block) for block, task in blocks.items())


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        *in_turn(QUICK, CHIPS),
        *(("lenet5", chip) for chip in CHIPS),
        *(pytest.param(name, chip, marks=pytest.mark.slow) for name in LONG for chip in CHIPS),
    ],
)
def test_every_flag_of_a_network_is_needed(name: str, chip: str) -> None:
    needless = {task: set(needless_flags(block)) - BETWEEN_CORES for task, block in blocks_of(name, chip)}
    assert {task: flags for task, flags in needless.items() if flags} == {}


def works() -> st.SearchStrategy[Work]:
    """Work of every kind, of one tile and of many."""
    size = st.integers(1, 400)
    soc = load("Ascend310")
    steps = st.lists(
        st.sampled_from([Step("vadd"), Step("vdiv"), Step("vgather"), Step("vexp")]), min_size=1, max_size=4
    ).map(tuple)
    return st.one_of(
        st.builds(matmul, size, size, size, st.just(soc), st.integers(1, 4), bias=st.none()),
        st.builds(
            lambda m, k, n, batch: matmul(m, k, n, soc, batch, bias=ref("bias", (n * batch,))),
            size,
            size,
            size,
            st.integers(1, 3),
        ),
        st.builds(
            convolution,
            st.integers(1, 100),
            st.integers(7, 40),
            st.integers(1, 100),
            st.sampled_from([1, 3]),
            st.integers(1, 2),
        ),
        st.builds(lambda n, steps: elementwise(n, 1, steps), st.integers(1, 200_000), steps),
        st.builds(
            lambda n, inputs: elementwise(n, inputs, (Step("vadd"),)),
            st.integers(1, 200_000),
            st.integers(2, 4),
        ),
        st.builds(reduction, size, st.integers(1, 3000), st.sampled_from(["cols", "rows"])),
        st.builds(
            lambda n, steps: MoveWork(
                (Copy(ref("x", (n,)), ref("y", (n,)), 2 * n, 96, 64),), steps, 2, (ref("i", (n,)),)
            ),
            st.integers(1, 100_000),
            st.sampled_from([(), (Step("vnchwconv"),)]),
        ),
        st.builds(
            lambda n: ScalarWork(n, 8, (ref("x", (n,)), ref("z", (n,))), (ref("y", (n,)),)),
            st.integers(1, 100_000),
        ),
        st.builds(
            lambda m, times: SequenceWork((matmul(m, 64, 256, soc), softmax(m, 256)), times),
            st.integers(1, 64),
            st.integers(1, 3),
        ),
    )


def elementwise(count: int, inputs: int, steps: tuple[Step, ...]) -> VectorWork:
    streams = tuple(Stream(ref(f"x{number}", (count,))) for number in range(inputs))
    return VectorWork(1, count, steps, streams, (Stream(ref("y", (count,))),))


def reduction(rows: int, cols: int, kind: str) -> VectorWork:
    x, z = Stream(ref("x", (rows, cols))), Stream(ref("z", (cols,)), "col")
    result = Stream(ref("y", (rows,)), "row") if kind == "cols" else Stream(ref("y", (cols,)), "col")
    step = Step("vcadd") if kind == "cols" else Step("vadd")
    return VectorWork(rows, cols, (Step("vmul"), step), (x, z), (result,), kind)  # type: ignore[arg-type]


def softmax(rows: int, cols: int) -> VectorWork:
    steps = (Step("vcmax"), Step("vsub"), Step("vexp"), Step("vcadd"), Step("vmul"))
    return VectorWork(
        rows,
        cols,
        steps,
        (Stream(ref("c", (rows, cols), Format.FRACTAL_NZ)),),
        (Stream(ref("y", (rows, cols))),),
        "cols",
        3,
    )


@given(work=works(), chip=st.sampled_from(CHIPS))
def test_every_flag_of_random_work_is_needed(work: Work, chip: str) -> None:
    soc = load(chip)
    for stage in Lowering(soc).settled(work, None):
        for group in stage.groups:
            check_block(group.block, soc)
            assert set(needless_flags(group.block)) <= BETWEEN_CORES
