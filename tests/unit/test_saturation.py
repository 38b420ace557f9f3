"""What runs on chips that saturate say: which operator left float16, and how much of its result."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.core.dtypes import SATURATING_FLOAT16, DType, saturates
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.ir import Array
from ascendsim.runtime.numerics import Finding, Numerics
from ascendsim.soc import load
from ascendsim.soc.arithmetic import float16_of, in_mode
from tests.support.half_stories import loud_voice, written_out_norm

pytestmark = pytest.mark.usefixtures("untimed_tiles")

CHIP = "Ascend310P3"
FUSIONS = ("off", "all", "graph-kernel")


def seen(graph: asim.Graph, inputs: dict[str, Array], chip: str = CHIP, **options: object) -> Numerics:
    return asim.run(asim.compile(graph, chip, **options), inputs).numerics  # type: ignore[arg-type]


def test_which_chips_have_which_mode() -> None:
    """CANN's list of products: training, inference and 200I/500 A2 saturate only, A2 and A3 have both."""
    for chip in ("Ascend910A", "Ascend310P3", "Ascend310B1", "Ascend310"):
        assert [saturates(float16_of(in_mode(load(chip), mode))) for mode in (None, False)] == [True, True]
    for chip in ("Ascend910B1", "Ascend910B4", "Ascend910_9391"):
        found = [saturates(float16_of(in_mode(load(chip), mode))) for mode in (None, True, False)]
        assert found == [False, False, True]
    assert not saturates(float16_of(load("Ascend910_95")))
    for chip, is_assumed in (
        ("Ascend310", True),
        ("Ascend910A", False),
        ("Ascend310P3", False),
        ("Ascend610", True),
    ):
        assert ("arithmetic.overflow" in load(chip).assumed) == is_assumed


def test_a_chip_file_names_known_modes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = 'name = "Mine"\nextends = "m200"\narchitecture = "dav-m200"\nshort_name = "Mine"\n[arithmetic]\n'
    path.write_text(text + 'overflow = { value = ["saturate"], source = "mine" }\n')
    with pytest.raises(
        asim.AscendSimError, match="'inf_nan' or 'saturation', not 'saturate'.*did you mean saturation"
    ):
        load(path)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_what_saturates_is_found_where_it_does(fusion: str) -> None:
    """The operator that becomes infinite elsewhere, with how much of its result; nothing follows from it."""
    graph, inputs = written_out_norm()
    found, plain = (seen(graph, inputs, chip, fusion=fusion) for chip in (CHIP, "Ascend910B4"))
    (first,), (infinite,) = found.overflows, plain.overflows
    assert (first.sources, first.kind) == (infinite.sources, "overflow")
    assert (first.saturates, infinite.saturates) == (True, False)
    assert first.largest == pytest.approx(infinite.largest, rel=1e-2)
    assert 0 < first.count == infinite.count <= first.elements
    assert (first.after, first.outputs) == ((), ())
    assert f" {first.count} of {first.elements} values saturate to 65,504" in str(first)
    assert "output" not in str(first)
    row = next(row for row in found.table.records() if row["Finding"] == "overflow")
    assert (row["Count"], row["Not finite after"], row["Reaches output"]) == (first.count, 0, None)


@pytest.mark.parametrize("fusion", ["off", "all"])
def test_every_operator_that_saturates_is_named(fusion: str) -> None:
    b = asim.GraphBuilder("chain")
    x = b.input("x", (4, 8))
    large = b.op("Mul", x, np.float32(1000), name="large")
    below = b.op("Sub", large, np.float32(70000), name="below")
    again = b.op("Add", below, below, name="again")
    b.output(b.op("Relu", again, name="relu"), "y")
    found = seen(b.build(), {"x": np.full((4, 8), -100, np.float32)}, fusion=fusion)
    named = {item.sources[0]: item for item in found.overflows if item.op_type != "Constant"}
    assert list(named) == ["large", "below", "again"]
    assert (named["large"].largest, named["large"].count) == (100_000, 32)
    assert named["below"].largest == 2 * 65504  # what it read had been cut, as the constant
    assert str(found).endswith("; 2 more overflow")


@pytest.mark.parametrize("fusion", ["off", "all"])
def test_what_no_float_holds(fusion: str) -> None:
    b = asim.GraphBuilder("undefined")
    x = b.input("x", (4,))
    b.output(b.op("Abs", b.op("Log", x, name="log"), name="abs"), "y")
    found = seen(b.build(), {"x": np.array([1, 0, 2, -1], np.float32)}, fusion=fusion)
    (first,) = found.findings
    assert (first.name, first.kind, first.count, first.after) == ("log", "infinite", 2, ())
    assert str(first) == "Log log saturates 2 of 4 values, infinite or undefined of finite ones (NaN is 0)"


def test_inputs_beyond_float16() -> None:
    b = asim.GraphBuilder("inputs")
    b.output(b.op("Relu", b.input("x", (4,)), name="relu"), "y")
    graph = b.build()
    (large,) = seen(graph, {"x": np.array([1e6, -7e4, 1, 65519], np.float32)}).findings
    assert (
        str(large) == "Cast x_cast overflows float16 (1,000,000 > 65,504), 2 of 4 values saturate to 65,504"
    )
    special = np.array([np.inf, np.nan, 1, 2], np.float32)
    (found,) = seen(graph, {"x": special}).findings
    assert str(found) == "Cast x_cast saturates 2 values of 4 (inf > 65,504)"
    assert seen(graph, {"x": special}, "Ascend910B4").findings == ()
    b = asim.GraphBuilder("halves")
    b.output(b.op("Relu", b.input("x", (4,), DType.FLOAT16), name="relu"), "y")
    (found,) = seen(b.build(), {"x": special.astype(np.float16)}).findings
    assert str(found) == "Data x saturates 2 values of 4 (inf > 65,504)"
    assert seen(b.build(), {"x": special.astype(np.float16)}, "Ascend910B4").findings == ()


def test_large_results_that_lie_over_their_inputs() -> None:
    b = asim.GraphBuilder("large")
    x = b.input("x", (3, 2048, 2816))
    grown = b.op("Mul", b.op("Add", x, np.float32(1), name="add"), np.float32(300), name="grow")
    b.output(b.op("ReduceMax", b.op("Relu", grown, name="relu"), np.array([0, 1, 2]), keepdims=0), "y")
    values = np.zeros((3, 2048, 2816), np.float32)
    values[2, 2047, 2815] = 300
    result = asim.run(asim.compile(b.build(), CHIP), {"x": values})
    (first,) = result.numerics.overflows
    assert (first.name, first.largest, first.saturates, first.after) == ("grow", 301 * 300, True, ())
    assert result.outputs["y"] == 65504


def test_loops_and_open_shapes() -> None:
    body = asim.GraphBuilder("body")
    body.input("n", (), DType.INT64)
    go, held = body.input("go", (), DType.BOOL), body.input("v", (2,))
    body.output(body.op("Identity", go), "still")
    body.output(body.op("Mul", held, np.float32(16), name="grow"), "next")
    b = asim.GraphBuilder("loop")
    x = b.input("x", (2,))
    grown = b.op("Loop", np.array(6, np.int64), np.array(True), x, body=body.graph, name="loop")
    b.output(b.op("Mul", grown, np.float32(1 / 1024)), "y")
    result = asim.run(asim.compile(b.build(), CHIP), {"x": np.array([1, 1 / 4096], np.float32)})
    np.testing.assert_array_equal(result.outputs["y"], np.float32([65504, 4096]).astype(np.float16) / 1024)
    assert any(item.name.endswith("grow") and item.saturates for item in result.numerics.overflows)
    b = asim.GraphBuilder("open")
    x = b.input("x", ("n", 4))
    b.output(b.op("Mul", x, x, name="square"), "y")
    given = {"x": np.full((3, 4), 400, np.float32)}
    result = asim.run(asim.compile(b.build(), CHIP), given)
    assert (result.outputs["y"] == 65504).all()
    (first,) = result.numerics.overflows
    assert (first.count, first.elements) == (12, 12)


def test_accuracy_and_what_must_stay() -> None:
    graph, inputs = loud_voice()
    found = asim.accuracy(graph, inputs, CHIP, fusion="off")
    first = found.first()
    assert first is not None
    assert first.golden_name == "features/Gain"  # as where it becomes infinite
    rows = {row.golden_name: row.overflow for row in found.rows}
    assert rows["features/Gain"] == "YES"
    assert np.isfinite(found.error)
    kept = found.keep(0.01)
    assert kept.reached
    assert "features/Gain" in kept.names


def test_the_command_has_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    b = asim.GraphBuilder("power")
    b.output(b.op("Exp", b.input("x", (1, 16)), name="power"), "y")
    model, data, folder = tmp_path / "power.onnx", tmp_path / "x.npy", tmp_path / "out"
    model.write_bytes(export_onnx(b.build()))
    np.save(data, np.full((1, 16), 12, np.float32))
    given = ["run", str(model), "--input", f"x={data}", "--output", str(folder)]
    assert main([*given, "--soc_version", "Ascend910B3", "--inf_nan_mode_enable", "0"]) == 0
    assert (
        "Exp power overflows float16 (162,755 > 65,504), 16 of 16 values saturate" in capsys.readouterr().out
    )
    assert (np.load(folder / "outputs.npz")["y"] == 65504).all()
    with (folder / "numerics.csv").open() as stream:
        assert [row["Finding"] for row in csv.DictReader(stream) if row["Name"] == "power"] == ["overflow"]
    assert main([*given, "--soc_version", "Ascend910B3", "--inf_nan_mode_enable", "1"]) == 0
    assert np.isinf(np.load(folder / "outputs.npz")["y"]).all()
    assert main([*given, "--soc_version", CHIP, "--inf_nan_mode_enable", "1"]) != 0
    text = capsys.readouterr().err
    assert "option inf_nan_mode_enable must be 0 on Ascend310P3, which has the saturation mode only" in text


def test_the_register_notes_what_saturates() -> None:
    """Gradients of a chip that saturates are finite: the status register alone says that one left float16."""
    b = asim.GraphBuilder("register")
    x = b.input("x", (4,))
    cleared = b.op("NPUClearFloatStatus", b.op("NPUAllocFloatStatus", domain="ascend"), domain="ascend")
    product = b.op("Mul", b.op("Mul", x, x, name="square"), np.float32(1 / 1024), name="back")
    b.output(b.op("NPUGetFloatStatus", cleared, product, domain="ascend"), "status")
    b.output(product, "y")
    model = asim.compile(b.build(), "Ascend910A")
    for size, status in ((400, 1), (2, 0), (400, 1)):
        found = asim.run(model, {"x": np.full(4, size, np.float32)}).outputs
        assert found["status"].tolist() == [status] + 7 * [0]
        assert np.isfinite(found["y"]).all()


def test_saved_models_keep_the_mode(tmp_path: Path) -> None:
    b = asim.GraphBuilder("power")
    b.output(b.op("Exp", b.input("x", (4,))), "y")
    asim.save(asim.compile(b.build(), "Ascend910B3", inf_nan_mode_enable=False), tmp_path / "power.asim")
    model = asim.load_compiled(tmp_path / "power.asim")
    assert asim.run(model, {"x": np.full(4, 12, np.float32)}).outputs["y"].tolist() == [65504.0] * 4


def test_outputs_are_of_numpys_own_type() -> None:
    """NumPy's files cannot hold what tells the two kinds of float16 apart, and warns."""
    b = asim.GraphBuilder("halves")
    b.output(b.op("Exp", b.input("x", (4,), DType.FLOAT16)), "y")
    found = asim.run(asim.compile(b.build(), CHIP), {"x": np.full(4, 12, np.float16)}).outputs["y"]
    assert found.dtype == np.float16
    assert found.dtype.metadata is None
    assert SATURATING_FLOAT16.metadata is not None


def test_words_of_findings() -> None:
    part = ("n", "Op", "overflow", "float16", 7e4, 65504.0, 3, 9)
    assert str(Finding(*part)) == "Op n overflows float16 (70,000 > 65,504) (no output shows it)"  # type: ignore[arg-type]
    text = "Op n overflows float16 (70,000 > 65,504), 3 of 9 values saturate to 65,504"
    assert str(Finding(*part, saturates=True)) == text  # type: ignore[arg-type]
