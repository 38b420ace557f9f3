"""T and clipping of networks that are int8: against `quantize`, which knows them, and against counting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph

RNG = np.random.default_rng(11)
DATA = RNG.standard_normal((16, 3, 12, 12)).astype(np.float32)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def network() -> Graph:
    b = asim.GraphBuilder("n")
    x = b.op("Relu", b.op("Conv", b.input("x", (1, 3, 12, 12)), b.constant(floats(8, 3, 3, 3), "w")))
    b.output(b.op("Conv", x, b.constant(floats(4, 8, 3, 3), "w2")), "y")
    return b.build()


@pytest.mark.parametrize("form", ["qdq", "ascend"])
@pytest.mark.parametrize("method", ["max", "percentile", "mse"])
def test_a_saved_file_tells_the_thresholds_it_was_made_with(tmp_path: Path, form: Any, method: Any) -> None:
    made = asim.quantize(network(), DATA, activation=method, percentile=98.0, form=form)
    table = asim.thresholds(asim.load(made.save(tmp_path / "int8.onnx")), DATA)
    found = {row[0]: row for row in table if row[1] == "data"}
    assert set(found) == {layer.tensor for layer in made.layers}
    for layer in made.layers:
        named: dict[str, Any] = dict(zip(table.columns, found[layer.tensor], strict=True))
        assert named["T"] == pytest.approx(layer.threshold, rel=1e-6)
        assert named["Scale Max"] == pytest.approx(layer.scale, rel=1e-6)
    first = dict(zip(table.columns, found["x"], strict=True))  # nothing is in int8 before it
    assert first["Largest"] == np.abs(DATA).max()
    assert first["Clipped(%)"] == pytest.approx(100 * (np.abs(DATA) > first["T"]).mean())
    assert first["Clipped(%)"] == pytest.approx(100 * made.layers[0].clipped, abs=0.02)
    if form == "qdq":  # weights: no value lies beyond T, which the largest of all reaches
        weights = {row[0]: row for row in table if row[1] == "weights"}
        assert len(weights) == 2
        for row in weights.values():
            named = dict(zip(table.columns, row, strict=True))
            assert named["Largest"] == pytest.approx(named["T"])


def test_without_data_the_file_alone_speaks() -> None:
    made = asim.quantize(network(), DATA, activation="max")
    table = asim.thresholds(made.graph)
    assert {row[1] for row in table} == {"data", "weights"}
    for row in table:
        named = dict(zip(table.columns, row, strict=True))
        assert named["Clipped(%)"] is None
        assert (named["Largest"] is None) == (named["Kind"] == "data")


def of_bytes(scale: float, zero: int) -> Graph:
    """A file in operators of integers: the product's result has a scale of its own."""
    b = asim.GraphBuilder("q")

    def number(value: Any, name: str) -> Any:
        return b.constant(np.asarray(value), name)

    x = b.input("x", (4, 16))
    q = b.op("QuantizeLinear", x, number(np.float32(scale), "s"), number(np.uint8(zero), "z"))
    w = number(RNG.integers(-127, 128, (16, 8)).astype(np.int8), "w")
    sides = [number(np.float32(0.02), "ws"), number(np.int8(0), "wz"), number(np.float32(0.1), "ys")]
    again = number(np.float32(scale), "s2"), number(np.uint8(zero), "z2")
    product = b.op("QLinearMatMul", q, *again, w, *sides, number(np.uint8(128), "yz"))
    b.output(product, "y")
    return b.build()


def test_operators_of_integers_tell_what_lies_at_their_ends() -> None:
    graph = of_bytes(0.01, 100)
    x = RNG.standard_normal((4, 16)).astype(np.float32)
    table = asim.thresholds(graph, {"x": x})
    rows: dict[Any, Any] = {(row[2], row[1]): dict(zip(table.columns, row, strict=True)) for row in table}
    rounded = rows["QuantizeLinear", "data"]
    assert rounded["T"] == pytest.approx(1.55)  # (255 - 100) * 0.01; below it is -1.00
    assert rounded["Clipped(%)"] == pytest.approx(100 * ((x > 1.55) | (x < -1.0)).mean())
    result = asim.run(asim.compile(graph), {"x": x}, values="float32").outputs["y"]
    assert rows["QLinearMatMul", "data"]["At the ends(%)"] == pytest.approx(
        100 * ((result == 0) | (result == 255)).mean()
    )
    assert rows["QLinearMatMul", "data"]["Clipped(%)"] is None
    weights = rows["QLinearMatMul", "weights"]
    assert weights["T"] == pytest.approx(2.54)
    assert weights["Largest"] <= weights["T"]


def test_what_rounds_nothing_is_refused_and_a_quantised_model_is_sent_here() -> None:
    with pytest.raises(InputError, match="rounds nothing to integers"):
        asim.thresholds(network())
    with pytest.raises(InputError, match=r"quantize --thresholds"):
        asim.quantize(asim.quantize(network(), DATA).graph, DATA)


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = asim.quantize(network(), DATA, activation="percentile", percentile=98.0)
    made.save(tmp_path / "int8.onnx")
    np.savez(tmp_path / "x.npz", x=DATA)
    command = ["quantize", str(tmp_path / "int8.onnx"), "--thresholds"]
    assert main([*command, "--data", str(tmp_path / "x.npz")]) == 0
    printed = capsys.readouterr().out
    assert f"{made.layers[0].threshold:.3g}" in printed
    assert main([*command, "--output", "y.onnx"]) == 2
    assert "leave it out" in capsys.readouterr().err
