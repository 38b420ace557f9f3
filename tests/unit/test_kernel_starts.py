"""What CANN's kernels spend beside their bytes: masks of a repeat, arguments of a layout change."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph


def mish(elements: int) -> Graph:
    builder = asim.GraphBuilder("mish")
    builder.output(builder.op("Mish", builder.input("x", (elements,), DType.FLOAT32)))
    return builder.build()


def timed(graph: Graph, name: str, **figures: float) -> tuple[float, int]:
    """Time of a graph of one operator, and its blocks."""
    changes = {f"kernels.{key}": value for key, value in figures.items()}
    keep = "must_keep_origin_dtype"
    model = asim.compile(graph, soc=name, set=changes, fusion="off", optimize=False, precision_mode=keep)
    (task,) = model.program.tasks
    return asim.simulate(model).duration_us, task.block_dim


def test_a_selection_of_a_repeat_waits_and_takes_no_other_cores() -> None:
    """Of Mish on 910B2 67 M float16 elements take 640 us, 52 cycles for a repeat of float32 on each of 48
    cores; its two selections need a third of it.
    """
    rates = []
    for by_repeat in (True, False):
        (short, _), (long, _) = (
            timed(mish(count), "Ascend910B2", selects_by_repeat=by_repeat) for count in (1 << 21, 1 << 22)
        )
        rates.append((long - short) * 1800 * 48 * 64 / (1 << 21))
    assert 47 < rates[0] < 60
    assert 15 < rates[0] - rates[1] < 30
    few = [timed(mish(40_000), "Ascend910B2", selects_by_repeat=by_repeat)[1] for by_repeat in (True, False)]
    assert few == [40, 40]


@pytest.mark.parametrize(("name", "starts"), [("Ascend910A", True), ("Ascend310P3", False)])
def test_layout_changes_of_the_first_training_chips_start_later(name: str, starts: bool) -> None:
    builder = asim.GraphBuilder("turn")
    given = builder.input("x", (64, 768), DType.FLOAT16)
    builder.output(builder.op("TransData", given, domain="ascend", src_format="ND", dst_format="FRACTAL_NZ"))
    graph = builder.build()
    times = [timed(graph, name, transdata_start_ns=ns)[0] for ns in (0, 2000)]
    assert times[1] - times[0] == pytest.approx(2.0 if starts else 0.0, abs=0.05)
