"""The report on memory: figures, tables, the map, and what the command prints."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.cli.main import main

pytestmark = pytest.mark.usefixtures("untimed_tiles")

NETWORKS = sorted(path.stem for path in Path("tests/data/models").glob("*.onnx"))


@pytest.mark.parametrize("name", ["lenet5", "bert_tiny_s64"])
def test_the_peak_is_close_to_the_largest_live_set(name: str) -> None:
    report = asim.compile(asim.load(f"tests/data/models/{name}.onnx")).memory
    assert report.figures.lower_bound <= report.figures.peak <= 1.05 * report.figures.lower_bound
    assert report.figures.lower_bound == max(report.figures.live)
    assert (
        report.figures.planners["no reuse"]
        > report.figures.planners["binary-block"]
        >= report.figures.lower_bound
    )


@pytest.mark.slow
@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910B1"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_peak_is_close_to_the_largest_live_set_on_every_network(name: str, soc: str) -> None:
    figures = asim.compile(asim.load(f"tests/data/models/{name}.onnx"), soc).memory.figures
    most = 1.12 if (name, soc) == ("swin_t", "Ascend310") else 1.05  # windows of many sizes leave gaps
    assert figures.lower_bound <= figures.peak <= most * figures.lower_bound


def test_no_reuse_takes_what_the_report_says() -> None:
    graph = asim.load("tests/data/models/lenet5.onnx")
    plain, apart = (asim.compile(graph, disable_reuse_memory=off).memory.figures for off in (False, True))
    assert apart.peak == plain.planners["no reuse"] > plain.peak


@cache
def gated() -> asim.CompiledModel:
    """A network with results in place."""
    return asim.compile(asim.load("tests/data/models/mobilenet_v3_small.onnx"))


def test_the_table_and_the_map_show_every_tensor() -> None:
    model = gated()
    report = model.memory
    rows = {row["Tensor"]: row for row in report.table().records()}
    owners = {name for name, region in model.program.memory.regions.items() if region.alias_of is None}
    assert set(rows) == owners
    taken = [row for row in rows.values() if row["In place of"] is not None]
    assert taken
    assert all(row["Offset(B)"] == rows[str(row["In place of"])]["Offset(B)"] for row in taken)
    shown = report.plot()
    assert {item.name for item in shown.rectangles} == {
        name for name, row in rows.items() if row["Kind"] != "weight"
    }
    assert max(shown.live) <= shown.lower_bound
    assert len(shown.ax_.patches) == len(shown.rectangles)  # sums of bytes are no addresses: a strip apart
    (strip,) = shown.ax_.child_axes
    (alive,) = strip.patches
    assert max(alive.get_data().values) * 2**20 == pytest.approx(max(shown.live))


def test_rectangles_of_the_map_overlap_only_where_a_result_is_in_place() -> None:
    shown = asim.simulate(gated()).memory.plot()
    assert shown.unit == "us"
    for number, one in enumerate(shown.rectangles):
        for other in shown.rectangles[:number]:
            together = one.start < other.stop and other.start < one.stop
            shared = one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes
            assert not (together and shared) or "in place" in (one.kind, other.kind)


def test_equal_weights_are_counted_as_saved() -> None:
    builder = asim.GraphBuilder("twins")
    x = builder.input("x", (16, 64))
    values = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
    for name in "ab":
        x = builder.op("Tanh", builder.op("MatMul", x, builder.constant(values.copy(), name)))
    builder.output(x)
    model = asim.compile(builder.build(), optimize=False)
    assert model.memory.figures.saved_weights == 64 * 64 * 2
    single = asim.compile(builder.build(), optimize=False, disable_reuse_memory=True)
    assert single.memory.figures.weights == model.memory.figures.weights + 64 * 64 * 2
    inputs = asim.random_inputs(model)
    for name, array in asim.run(model, inputs).outputs.items():
        assert np.array_equal(array, asim.run(single, inputs).outputs[name])


def test_the_command_prints_tensors_and_planners_and_draws_the_map(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "map.png"
    assert main(["compile", "tests/data/models/lenet5.onnx", "--memory", "--memory_map", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "Offset(B)" in printed
    assert "binary-block" in printed
    assert picture.stat().st_size > 5000


def test_a_picture_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["compile", "tests/data/models/lenet5.onnx", "--memory_map", str(tmp_path / "no" / "map.png")])
        != 0
    )
    assert "cannot be written" in capsys.readouterr().err
