"""What GE's introduction says its techniques bring: "graph optimisation, sinking, reuse of memory and several
streams raise performance by 20 %". Each is switched on by itself, over a graph that the host launches."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.api.building_up import TECHNIQUES
from ascendsim.cli.main import main
from ascendsim.core.errors import InputError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.plot import plot_waterfall
from tests.support.fusing import build, random

CHIP = "Ascend310P3"


def branches(b: GraphBuilder) -> Tensor:
    """Four small branches of convolutions on one map, joined, with a constant that can be computed."""
    x = b.op("Relu", b.input("x", (1, 32, 28, 28)))
    factor = b.op("Add", b.constant(random(1, 32, 1, 1), "a"), b.constant(random(1, 32, 1, 1), "b"))
    made = []
    for number in range(4):
        y = b.op("Conv", b.op("Mul", x, factor), random(32, 32, 3, 3, seed=number), pads=(1,) * 4)
        made.append(b.op("Relu", y))
    return b.op("Concat", *made, axis=1)


@pytest.fixture(scope="module")
def network() -> Graph:
    return build(branches)


@pytest.fixture(scope="module")
def found(network: Graph) -> asim.BuildUp:
    return asim.build_up(network, CHIP)


def step(found: asim.BuildUp, name: str) -> dict[str, float]:
    (row,) = (row for row in found.table().records() if row["Technique"] == name)
    return row  # type: ignore[return-value]


def test_each_technique_does_what_the_text_says_of_it(found: asim.BuildUp) -> None:
    assert [item.name for item in found.steps] == list(TECHNIQUES)
    rows = found.table().records()
    assert step(found, "constant folding")["Tasks"] == rows[0]["Tasks"] - 1  # type: ignore[operator]
    # four equal products become one, and so do the conversions behind them: common subexpressions
    assert step(found, "graph engine")["Tasks"] == step(found, "constant folding")["Tasks"] - 6
    assert step(found, "UB fusion")["Tasks"] < step(found, "graph fusion")["Tasks"]
    assert step(found, "sinking")["Gain(%)"] > 20  # tasks are shorter than their launches
    assert step(found, "memory reuse")["Memory(MiB)"] < step(found, "sinking")["Memory(MiB)"]
    assert step(found, "several streams")["Gain(%)"] > 0  # branches beside each other
    assert rows[-1]["In all(%)"] > 100  # type: ignore[operator]


def test_ends_are_those_of_plain_compilations(network: Graph, found: asim.BuildUp) -> None:
    bare = asim.compile(
        network,
        CHIP,
        schedule="host",
        fusion="off",
        optimize=False,
        disable_reuse_memory=True,
        enable_single_stream=True,
    )
    everything = asim.compile(network, CHIP, multi_stream_parallel_mode="MainStream:4")
    for model, end in ((bare, found.steps[0]), (everything, found.steps[-1])):
        assert asim.simulate(model).duration_us == end.time_us
        assert len(model.program.tasks) == end.tasks
        assert model.program.memory.peak_bytes == end.memory_bytes


def test_gains_multiply(found: asim.BuildUp) -> None:
    whole = found.gain("constant folding", "several streams")
    assert whole == pytest.approx(found.steps[0].time_us / found.steps[-1].time_us - 1)
    parts = (found.gain("constant folding", "L2 fusion"), found.gain("sinking", "several streams"))
    assert (1 + parts[0]) * (1 + parts[1]) == pytest.approx(1 + whole)
    with pytest.raises(InputError, match="technique 'sunk' must be one of constant folding"):
        found.gain("sunk", "several streams")


def test_the_picture_hangs_each_bar_between_two_times() -> None:
    display = plot_waterfall(("start", "a", "b"), (100.0, 60.0, 75.0), "net on chip")
    assert display.gains == pytest.approx((0.0, 100 / 60 - 1, 60 / 75 - 1))
    bars = sorted(display.ax_.patches, key=lambda bar: bar.get_y())  # type: ignore[attr-defined]
    assert [bar.get_x() for bar in bars] == [0, 60, 60, 0]  # type: ignore[attr-defined]
    assert [bar.get_width() for bar in bars] == [100, 40, 15, 75]  # type: ignore[attr-defined]
    # what saves time and what costs some are told apart
    assert bars[1].get_facecolor() != bars[2].get_facecolor()
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == ["start", "+ a", "+ b", "all together"]
    notes = [text.get_text() for text in display.ax_.texts]
    assert {"+66.7 %", "-20.0 %"} <= set(notes)


def test_one_command_prints_and_draws_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = "tests/data/models/lenet5.onnx"
    out = tmp_path / "out"
    assert main(["compare", model, "--build_up", "--soc_version", CHIP, "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in TECHNIQUES)
    with (out / "build_up.csv").open(newline="") as stream:
        assert [row["Technique"] for row in csv.DictReader(stream)] == list(TECHNIQUES)
    assert (out / "build_up.png").read_bytes().startswith(b"\x89PNG")


def test_the_reading_that_is_nearest_to_the_text_has_a_command(
    network: Graph, found: asim.BuildUp, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a fused graph on: the same steps with the same times, and what three techniques add together."""
    fused = asim.build_up(network, CHIP, start="fused")
    whole = list(found.steps)
    assert [step.name for step in fused.steps[1:]] == ["sinking", "memory reuse", "several streams"]
    assert [replace(step, name="") for step in fused.steps] == [replace(step, name="") for step in whole[-4:]]
    together = fused.gain("sinking", "several streams")
    assert together == found.gain("sinking", "several streams")
    assert together == fused.steps[0].time_us / fused.steps[-1].time_us - 1
    with pytest.raises(InputError, match="option start must be one of host, fused, not 'fuse'; did you mean"):
        asim.build_up(network, CHIP, start="fuse")
    model = "tests/data/models/lenet5.onnx"
    assert main(["compare", model, "--build_up_fused", "--soc_version", CHIP]) == 0
    gain = asim.build_up(asim.load(model), CHIP, start="fused").gain("sinking", "several streams")
    told = f"sinking, memory reuse and several streams together: {gain:+.1%} throughput"
    assert told in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    "more",
    [["--ablate"], ["--mode", "host,sink"], ["--fusion", "graph"], ["--enable_single_stream", "true"]],
)
def test_what_the_steps_switch_cannot_be_asked_for(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], network: Graph
) -> None:
    command = ["compare", "tests/data/models/lenet5.onnx", "--build_up", "--output", str(tmp_path / "out")]
    assert main([*command, *more]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="option schedule is switched step by step"):
        asim.build_up(network, CHIP, schedule="host")
