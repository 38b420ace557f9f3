"""The stages of a compilation: which there are, what each leaves behind, and which options reach them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.buffers import BufferReport
from ascendsim.compiler.options import CompileOptions
from ascendsim.compiler.pipeline import PREPARATION, STAGES, Compilation, run_stages, up_to
from ascendsim.compiler.settings import Settings
from ascendsim.core.errors import CompileError, InputError
from ascendsim.graph.ir import Graph
from ascendsim.lower.l2_placement import L2Plan, Placement

NAMES = [
    "ends",
    "engine",
    "graph-fusion",
    "engine-after",
    "composite-marks",
    "types-and-formats",
    "device-fusion",
    "tasks",
    "order",
    "program",
]
QUICK = {"tiling": "closed_form"}


def network() -> Graph:
    """Two convolutions, a normalisation between them, and a second output."""
    rng = np.random.default_rng(5)
    b = asim.GraphBuilder("stages")
    x = b.input("x", (1, 16, 12, 12))

    def conv(data: asim.Tensor, name: str) -> asim.Tensor:
        weight = b.constant(rng.standard_normal((16, 16, 3, 3)).astype(np.float32), f"{name}_w")
        return b.op("Conv", data, weight, kernel_shape=[3, 3], pads=[1] * 4, name=name)

    four = [b.constant(np.ones(16, np.float32), f"p{number}") for number in range(4)]
    first = b.op("BatchNormalization", conv(x, "one"), *four)
    side = b.op("Sigmoid", first, name="side")
    scaled = b.op("Mul", b.op("Relu", first), b.op("Exp", b.constant(np.float32(1))))
    b.output(b.op("Relu", conv(scaled, "two"), name="last"), "y")
    b.output(side, "s")
    return b.build()


def work(**options: Any) -> Compilation:
    return Compilation.of(network(), Settings.of(CompileOptions(options=QUICK, **options)))


def test_stages_and_where_they_end() -> None:
    assert [stage.name for stage in STAGES] == NAMES
    assert STAGES[: len(PREPARATION)] == PREPARATION == up_to("engine")
    assert up_to(None) == STAGES == up_to("program")
    for count, name in enumerate(NAMES, 1):
        assert [stage.name for stage in up_to(name)] == NAMES[:count]
    with pytest.raises(InputError, match="stop_after must name a stage, not 'task'; did you mean tasks"):
        up_to("task")


def test_each_stage_hands_over_what_it_says() -> None:
    seen: dict[str, Graph] = {}
    made = work(soc="Ascend310")
    kinds: dict[str, list[str]] = {}

    def dump(name: str, graph: Graph) -> None:
        kinds[name] = [node.op_type for node in graph.nodes]
        seen[name] = graph

    run_stages(made, STAGES[:-1], dump)
    assert list(kinds) == [f"{number:02}_{name}" for number, name in enumerate(NAMES[:-1])]
    assert kinds["00_ends"].count("Exp") == 1
    assert "Exp" not in kinds["01_engine"]  # of a constant
    assert "BatchNormalization" not in kinds["02_graph-fusion"]  # in the weights before it
    assert "Cast" not in kinds["03_engine-after"]
    assert {"Cast", "TransData"} & set(kinds["05_types-and-formats"])
    with pytest.raises(CompileError, match="graph 'stages' has no program before the last stage"):
        made.model()
    run_stages(made, STAGES[-1:])
    assert made.model().program.tasks
    assert made.source is not made.graph


def test_outputs_that_are_asked_for_are_all_there_are() -> None:
    for outputs, kinds in ((["last:0"], {"two"}), (["side:0"], {"side"}), (None, {"two", "side"})):
        made = work(soc="Ascend310", outputs=outputs)
        run_stages(made, PREPARATION)
        names = {tensor.name for tensor in made.graph.outputs}
        assert len(names) == len(kinds)
        assert ("Sigmoid" in [node.op_type for node in made.graph.nodes]) == ("side" in kinds)
        assert ([node.name for node in made.graph.nodes].count("two") == 1) == ("two" in kinds)


@pytest.mark.parametrize(
    ("options", "placed"),
    [
        ({}, True),
        ({"fusion": "ub"}, False),
        ({"fusion": "off"}, False),
        ({"buffer_optimize": "l1_optimize"}, False),
        ({"buffer_optimize": "off_optimize"}, False),
        ({"soc": "Ascend910A"}, False),
    ],
)
def test_tensors_are_placed_in_l2_where_software_manages_it(options: dict[str, Any], placed: bool) -> None:
    model = asim.compile(network(), options=QUICK, **{"soc": "Ascend310", **options})
    plan, info = model.buffers.l2, model.program.info
    assert (plan is not None) == placed
    assert bool(info.l2_placed) == placed
    assert model.program.mode == "sink"
    if plan is not None:
        assert info.l2_placed == tuple(item.region for item in plan.placed)
        assert info.l2_kept == ()
        assert plan.capacity == model.soc.l2.size
        moved = sum(
            access.moved_bytes
            for task in model.program.tasks
            for access in task.accesses
            if access.region in info.l2_placed
        )
        assert model.buffers.saved_bytes == moved > 0
    else:
        assert model.buffers == BufferReport()
        assert model.buffers.saved_bytes == 0


def test_bytes_that_l2_carries_are_those_of_all_pieces() -> None:
    pieces = (Placement("a", 0, 64, 0, 1, 10, 20), Placement("b", 64, 64, 1, 2, 3, 4, weight=True))
    assert BufferReport(l2=L2Plan(1 << 20, pieces)).saved_bytes == 37
    assert L2Plan(1 << 20, pieces).peak_bytes == 128


@pytest.mark.parametrize("schedule", ["sink", "host", "eager"])
def test_a_program_knows_who_launches_it(schedule: str) -> None:
    model = asim.compile(network(), "Ascend310", options=QUICK, schedule=schedule)
    assert model.program.mode == schedule
    assert any(task.fused for task in model.program.tasks) == (schedule != "eager")
