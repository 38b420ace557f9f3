"""A device run beside float32: measures worked out by hand, the two stories found, explained and mended."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.accuracy.metrics import MEASURES, distance, measures
from ascendsim.cli.main import main
from ascendsim.frontends.onnx.export import export_onnx
from tests.support.half_stories import Story, loud_voice, written_out_norm

pytestmark = pytest.mark.usefixtures("untimed_tiles")

CHIP = "Ascend910B4"


def compared(story: Story, **options: object) -> asim.Accuracy:
    return asim.accuracy(*story, CHIP, **options)  # type: ignore[arg-type]


def test_measures_by_hand() -> None:
    found = measures(np.array([3.0, 1.0, 0.0]), np.array([4.0, 2.0, 0.0]))
    assert tuple(found) == MEASURES
    assert found["CosineSimilarity"] == pytest.approx(14 / math.sqrt(10 * 20))
    assert found["MaxAbsoluteError"] == 1
    assert found["AccumulatedRelativeError"] == pytest.approx(1 / 4 + 1 / 2)  # the zero is left out
    assert found["RelativeEuclideanDistance"] == pytest.approx(math.sqrt(2 / 20))
    assert found["MeanAbsoluteError"] == pytest.approx(2 / 3)
    assert found["RootMeanSquareError"] == pytest.approx(math.sqrt(2 / 3))
    assert found["MaxRelativeError"] == 0.5
    assert found["MeanRelativeError"] == pytest.approx(3 / 8)
    assert found["StandardDeviation"] == "(1.333;1.247),(2.000;1.633)"
    p, q = np.array([3, 1]) / 4, np.array([4, 2]) / 6  # smallest to 0, largest to 1, shares of the sum
    assert found["KullbackLeiblerDivergence"] == pytest.approx(float((p * np.log(p / q)).sum()), rel=1e-4)


def test_what_is_not_finite_is_infinitely_far() -> None:
    one = np.ones(2)
    assert distance(np.array([1.0, np.nan]), one) == math.inf
    assert distance(np.array([1.0, np.inf]), np.array([1.0, np.inf])) == 0
    assert distance(one, np.zeros(2)) == math.inf
    assert measures(np.zeros(2), one)["CosineSimilarity"] is None


def test_tensors_that_are_fused_away_are_named_as_such() -> None:
    story = written_out_norm()
    found = compared(story)
    rows = {row.golden_name: row for row in found.rows}
    assert len(rows) == len(story[0].nodes)
    assert rows["LayerNorm_1/Sum_1"].why.startswith("fused into LayerNorm_1/Sub+...+Relu_1")
    assert (rows["LayerNorm_1/Sum_1"].mine_type, rows["LayerNorm_1/Sum_1"].overflow) == ("*", "YES")
    assert rows["Dense_0/MatMul"].error() < 1e-3
    off = {row.golden_name: row for row in compared(story, fusion="off").rows}
    assert off["LayerNorm_1/Sum_1"].why == ""
    assert off["LayerNorm_1/Sum_1"].overflow == "YES"


def test_a_fused_operator_is_compared_with_the_last_of_those_it_stands_for() -> None:
    b = asim.GraphBuilder("conv")
    x = b.input("x", (1, 3, 8, 8))
    weight = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    y = b.op("Relu", b.op("Conv", x, weight, name="conv"), name="relu")
    b.output(b.op("MaxPool", y, kernel_shape=[2, 2], name="pool"), "y")
    found = asim.accuracy(b.build(), None, "Ascend310B1")  # FIXPIPE: the convolution's tensor holds the Relu
    rows = {row.golden_name: row for row in found.rows}
    assert rows["conv"].why.startswith("fused into conv")
    assert rows["relu"].mine_name == "conv"
    assert rows["relu"].error() < 1e-3
    assert found.error < 1e-3
    assert found.first() is None


def test_it_begins_where_a_limit_is_passed() -> None:
    found = compared(loud_voice(), fusion="off")
    first = found.first()
    assert first is not None
    assert first.golden_name == "features/Gain"
    assert found.first(0.0) is found.rows[0]
    assert "begins at features/Gain (not finite)" in str(found)
    with pytest.raises(asim.InputError, match="did you mean CosineSimilarity"):
        found.first(measure="CosinSimilarity")


@pytest.mark.parametrize(
    ("story", "needed"),
    [
        (written_out_norm, {"LayerNorm_1/Sum_1", "LayerNorm_1/Scale"}),
        (loud_voice, {"features/Gain", "features/Floor", "features/Log"}),
    ],
)
def test_a_smallest_set_mends_the_network(story: type, needed: set[str], tmp_path: Path) -> None:
    graph, inputs = story()
    found = asim.accuracy(graph, inputs, CHIP, fusion="off")
    kept = found.keep(0.01)
    assert set(kept.names) == needed
    assert kept.reached
    file = kept.write_keep_dtype(tmp_path / "keep.cfg")
    again = asim.accuracy(graph, inputs, CHIP, fusion="off", keep_dtype=file)
    assert again.error == kept.error <= 0.01
    assert again.numerics.overflows == ()
    chosen = next(point for point in kept.points if point.label == "the set")
    assert again.duration_us == chosen.duration_us
    assert kept.cost == pytest.approx(again.duration_us / found.duration_us - 1)
    for name in kept.names:  # none can be left out
        fewer = [other for other in kept.names if other != name]
        assert not asim.accuracy(graph, inputs, CHIP, fusion="off", keep_dtype=fewer).error <= 0.01
    mixed = kept.write_modify_mixlist(tmp_path / "ops_info.json")
    assert json.loads(mixed.read_text())["black-list"]["to-add"] == list(kept.types)
    error = asim.accuracy(
        graph, inputs, CHIP, fusion="off", precision_mode="allow_mix_precision", modify_mixlist=mixed
    ).error
    assert error == next(point.error for point in kept.points if point.label == "modify_mixlist")


def test_nothing_is_kept_where_nothing_is_wrong_and_all_where_all_is_too_little() -> None:
    graph, inputs = written_out_norm(size=1.0)
    found = asim.accuracy(graph, inputs, "Ascend310P3")  # whose products are float16 whatever is kept
    assert found.keep(0.05).names == ()
    best = found.keep(0.0)
    assert not best.reached
    assert len(best.names) == len(graph.nodes)
    assert "do not reach" in str(best)


def test_a_dump_of_the_users_own(tmp_path: Path) -> None:
    story = written_out_norm(size=1.0)
    plain = compared(story)
    exact = np.full((4, 10), 0.1, np.float32)
    np.save(tmp_path / "Softmax_3.0.1682148256368588.npy", exact)
    for golden in (tmp_path, {"y": exact}, {"Softmax_3:0": exact}):
        found = compared(story, golden=golden)
        (row,) = found.rows
        assert row.golden_name == "Softmax_3"
        assert row.error() == distance(plain.outputs["y"], exact) == found.error
    with pytest.raises(asim.InputError, match="no array of the model"):
        compared(story, golden={"nobody": exact})
    with pytest.raises(asim.InputError, match="is no folder"):
        compared(story, golden=tmp_path / "missing")
    with pytest.raises(asim.InputError, match="has no golden array"):
        compared(story, golden={"Relu_1": np.zeros((4, 256), np.float32)}).keep()


@pytest.mark.usefixtures("unpainted")
def test_the_command_writes_what_it_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph, inputs = loud_voice()
    model, data, folder = tmp_path / "voice.onnx", tmp_path / "x.npy", tmp_path / "out"
    model.write_bytes(export_onnx(graph))
    np.save(data, inputs["x"])
    options = ["--soc_version", CHIP, "--input", f"x={data}"]
    assert main(["accuracy", str(model), *options, "--keep", "--output", str(folder), "--limit", "0.01"]) == 0
    text = capsys.readouterr().out
    assert "begins at features/Gain (not finite)" in text
    assert "3 operators in float32 bring the outputs within" in text
    with (folder / "accuracy.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["GroundTruth"] for row in rows][-1] == "head/Sigmoid"
    assert rows[-1]["OverFlow"] == "YES"
    assert {path.name for path in folder.iterdir()} == {
        "accuracy.csv", "accuracy.png", "keep.csv", "keep.png", "keep_dtype.cfg", "modify_mixlist.json",
    }  # fmt: skip
    assert main(["run", str(model), *options, "--keep_dtype", str(folder / "keep_dtype.cfg")]) == 0
    assert "overflows" not in capsys.readouterr().out
    assert main(["run", str(model), *options]) == 0
    assert "features/Gain overflows float16 (" in capsys.readouterr().out


def test_pictures_hold_the_numbers() -> None:
    found = compared(loud_voice())
    errors = found.plot()
    shown = [row for row in found.rows if row.measures or row.overflow == "YES"]
    assert errors.names == tuple(row.golden_name for row in shown)
    assert [*errors.errors] == [row.error() for row in shown]
    assert errors.outputs[-1]
    assert "begins at" in " ".join(text.get_text() for text in errors.ax_.texts)


def test_open_shapes_are_refused() -> None:
    b = asim.GraphBuilder("open")
    b.output(b.op("Relu", b.input("x", ("n", 4))), "y")
    with pytest.raises(asim.InputError, match="has the open shape"):
        asim.accuracy(b.build(), soc="Ascend310P3")
