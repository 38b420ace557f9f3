"""What docs/sources.md says of sentences of the documents that no other test is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError, InputError
from ascendsim.frontends.aipp import parse_aipp_text
from ascendsim.graph.ir import Graph
from tests.support.fusing import build, random

AIPP = """aipp_op { aipp_mode: static input_format: YUV420SP_U8 src_image_size_w: 64 src_image_size_h: 64
    csc_switch: true matrix_r0c0: 256 matrix_r0c1: 0 matrix_r0c2: 359 matrix_r1c0: 256 matrix_r1c1: -88
    matrix_r1c2: -183 matrix_r2c0: 256 matrix_r2c1: 454 matrix_r2c2: 0 input_bias_0: 0 input_bias_1: 128
    input_bias_2: 128 }"""


def test_colour_conversion_has_a_row_when_it_is_not_on_the_way_into_the_convolution(tmp_path: Path) -> None:
    """Tuning guide: colour conversion. AIPP is part of the way into L1, so its own task is one of MTE."""
    path = tmp_path / "aipp.cfg"
    path.write_text(AIPP)
    assert parse_aipp_text(AIPP)
    graph = build(lambda b: b.op("Conv", b.input("x", (1, 3, 64, 64)), random(16, 3, 3, 3), name="conv"))

    def rows(state: str) -> dict[str, str]:
        switch = f"TbeAippCommonFusionPass:{state}"
        model = asim.compile(graph, "Ascend310", insert_op_conf=str(path), optimization_switch=switch)
        table = asim.simulate(model).op_statistic()
        at = table.index("OP Type"), table.index("Core Type")
        return {str(row[at[0]]): str(row[at[1]]) for row in table}

    assert "Aipp" not in rows("on")
    assert rows("off")["Aipp"] == "AI_CORE"


def power() -> Graph:
    b = asim.GraphBuilder("power")
    b.output(b.op("Pow", b.op("Exp", b.input("x", (1, 64, 56, 56))), 2.0, name="power"), "y")
    return b.build()


def test_a_square_leaves_the_ai_cpu_by_itself_unless_its_rule_is_off() -> None:
    """Tuning guide: tf.pow(x, 2) as tf.mul(x, x). Pow2SquareFusionPass does it here unasked."""
    on = asim.advise(power(), soc="Ascend310", release="ddk")
    assert [p.lever for p in on.proposals if p.lever == "pow-to-mul"] == []
    off = asim.advise(power(), soc="Ascend310", release="ddk", optimization_switch="Pow2SquareFusionPass:off")
    (proposal,) = [p for p in off.proposals if p.lever == "pow-to-mul"]
    assert proposal.before_us > 10 * proposal.after_us


def test_equal_weights_of_two_layouts_lie_on_the_device_once() -> None:
    """Graph engine: one Const of two that are equal. Two products may want it in two formats; the graph then
    has it twice, device memory once.
    """
    weight = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    b = asim.GraphBuilder("g")
    first = b.op("Relu", b.op("MatMul", b.input("x", (64, 256)), b.constant(weight, "w1")))
    b.output(b.op("MatMul", first, b.constant(weight.copy(), "w2")), "y")
    for chip in ("Ascend310P3", "Ascend910B1"):
        assert asim.compile(b.build(), chip).program.memory.weight_bytes == weight.size * 2


@pytest.mark.parametrize(("mode", "waiting"), [("sink", 0), ("host", 2), ("eager", 2)])
def test_the_hosts_launch_shows_where_the_device_waits_for_it(mode: Any, waiting: int) -> None:
    """Computational graphs: E is the launch. A host that is ahead hides it behind the task before."""

    def emits(size: int) -> list[float]:
        b = asim.GraphBuilder("chain")
        x = b.input("x", (1, 64, size, size))
        for _ in range(3):
            x = b.op("Conv", x, random(64, 64, 3, 3), pads=(1, 1, 1, 1))
        b.output(x, "y")
        table = asim.simulate(asim.compile(b.build(), "Ascend310P3", schedule=mode, fusion="off")).phases()
        return [float(str(value)) for value in table.column("Emit(us)")]

    launch = 8.0  # us; a launch of the device itself takes less
    assert sum(us > launch for us in emits(8)[1:]) >= waiting
    if mode == "host":  # long tasks: the host is ahead after the first ones
        assert emits(224)[-1] < launch


def test_nodes_without_inputs_run_and_without_readers_go() -> None:
    """Computational graphs: every node has in- and out-edges. Sources have none here, as in GE."""
    b = asim.GraphBuilder("g")
    noise = b.op("RandomNormal", name="noise", shape=(8, 16), seed=1.0)
    b.op("Neg", noise, name="dead")
    b.output(b.op("Relu", noise, name="relu"), "y")
    graph = b.build()
    assert "dead" not in [node.name for node in asim.compile(graph).graph.nodes]
    empty = Graph("empty")
    with pytest.raises(GraphError, match="must have an output"):
        asim.compile(empty)


@pytest.mark.parametrize(
    ("name", "text"), [("net.air", "asim.from_torch"), ("net.pb", r"tf2onnx.convert --graphdef net\.pb")]
)
def test_files_without_a_front_end_name_the_way(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(b"\x08\x01")
    with pytest.raises(InputError, match=text):
        asim.load(tmp_path / name)
