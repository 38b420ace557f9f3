"""What goes wrong with quantisation ends in one line that says what and where, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.core.dtypes import DType
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.ir import Graph
from tests.support.quantised import float_network

GOOD = np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype(np.float32)


def with_one(value: float) -> Any:
    data = GOOD.copy()
    data[1, 2, 3, 4] = value
    return data


DATA: dict[str, tuple[Any, str]] = {
    "nothing": ({}, r"input 'x' is missing in data; add float32\[1, 3, 12, 12\]"),
    "empty": (GOOD[:0], "argument data holds no sample; pass at least one batch"),
    "no batches": ([], "argument data holds no sample"),
    "shape": (
        GOOD[:, :, :6],
        r"'x' in data must have shape \[n \* 1, 3, 12, 12\], not \[2, 3, 6, 12\]; resh",
    ),
    "rank": (GOOD[0], r"must have shape \[n \* 1, 3, 12, 12\], not \[3, 12, 12\]"),
    "type": (GOOD.astype(complex), "must be of type float32, not complex128; convert it by .astype"),
    "text": (np.array([["a"]]), "must have shape"),
    "nan": (with_one(np.nan), r"input 'x' in data must be finite, not nan at \[1, 2, 3, 4\]; leave such"),
    "infinite": (with_one(-np.inf), r"must be finite, not -inf at \[1, 2, 3, 4\]"),
    "name": ({"y": GOOD}, "input 'y' in data is not an input of the model; known are x"),
    "zeros": (
        np.zeros_like(GOOD),
        r"tensor 'x' must have a T above 0 in the data, not 0.0; .* skip=\['conv0'\]",
    ),
    "file": ("no/such.npz", "file 'no/such.npz' does not exist"),
}


@pytest.mark.parametrize("name", DATA)
def test_data(name: str) -> None:
    data, message = DATA[name]
    with pytest.raises(asim.InputError, match=message) as caught:
        asim.quantize(asim.load(float_network()), data)
    assert "\n" not in str(caught.value)


def test_batches_that_do_not_go_together() -> None:
    b = asim.GraphBuilder("two")
    x, y = b.input("x", (2, 4)), b.input("y", (2, 4))
    b.output(b.op("MatMul", b.op("Add", x, y), np.eye(4, dtype=np.float32), name="product"))
    graph = b.build()
    data = np.ones((4, 4), np.float32)
    with pytest.raises(asim.InputError, match="as many batches of every input, not 2 of 'x', 1 of 'y'"):
        asim.quantize(graph, {"x": data, "y": data[:2]})
    with pytest.raises(asim.InputError, match=r"must have shape \[n \* 2, 4\], not \[3, 4\]"):
        asim.quantize(graph, {"x": data[:3], "y": data})
    with pytest.raises(asim.InputError, match="argument data must name the inputs 'x', 'y'"):
        asim.quantize(graph, data)


def test_numbers_that_overflow_on_the_way_name_the_tensor() -> None:
    b = asim.GraphBuilder("overflow")
    y = b.op("Exp", b.input("x", (1, 4)))
    b.output(b.op("MatMul", y, np.eye(4, dtype=np.float32), name="product"))
    with pytest.raises(asim.InputError, match="tensor 'Exp_out' must be finite for all data, not NaN"):
        asim.quantize(b.build(), np.full((1, 4), 200, np.float32))


def test_models_that_cannot_be_quantised() -> None:
    graph = asim.load(float_network())
    again = asim.quantize(graph, GOOD).graph
    with pytest.raises(asim.InputError, match=r"is quantised already \(QuantizeLinear\); give the float"):
        asim.quantize(again, GOOD)
    with pytest.raises(asim.InputError, match="option skip: 'conv7' names no node; did you mean conv2"):
        asim.quantize(graph, GOOD, skip=["conv7"])
    with pytest.raises(asim.InputError, match="has no layer that can be int8; conv0: left out by skip"):
        asim.quantize(graph, GOOD, skip=["*"])
    with pytest.raises(asim.InputError, match="option percentile must be above 0 and at most 100, not 101"):
        asim.quantize(graph, GOOD, percentile=101.0)
    with pytest.raises(asim.InputError, match="input 'x' must have a static shape"):
        asim.quantize(asim.load(float_network(), shapes={"x": (-1, 3, 12, 12)}), GOOD)
    absent = asim.load("tests/data/models/squeezenet1_1.onnx")
    with pytest.raises(asim.GraphError, match="has no values"):
        asim.quantize(absent, np.ones((1, 3, 224, 224), np.float32))


# ---- scales and zero points of models that are read


ZERO = np.int8(0)


def quantised(scale: Any, zero: Any = ZERO, **attributes: int) -> Callable[[], Graph]:
    """QuantizeLinear of [2, 4, 3] by these numbers."""

    def make() -> Graph:
        b = asim.GraphBuilder("q")
        x = b.input("x", (2, 4, 3))
        b.output(
            b.op("QuantizeLinear", x, np.asarray(scale, np.float32), np.asarray(zero), name="q", **attributes)
        )
        return b.build()

    return make


def dequantised() -> Graph:
    b = asim.GraphBuilder("d")
    x = b.input("x", (2, 4), DType.INT8)
    b.output(b.op("DequantizeLinear", x, np.float32(1), np.array(300, np.int32), name="d"))
    return b.build()


def convolved(scale: float) -> Callable[[], Graph]:
    def make() -> Graph:
        b = asim.GraphBuilder("c")
        x = b.input("x", (1, 4, 3, 3), DType.INT8)
        zero, one = np.int8(0), np.float32(1)
        weight, scales = np.ones((2, 4, 1, 1), np.int8), np.array([1, scale], np.float32)
        b.output(b.op("QLinearConv", x, one, zero, weight, scales, np.zeros(2, np.int8), one, zero, name="c"))
        return b.build()

    return make


def by_cann(**attributes: float) -> Callable[[], Graph]:
    def make() -> Graph:
        b = asim.GraphBuilder("a")
        b.output(b.op("AscendQuant", b.input("x", (2, 4)), domain="ascend", name="a", **attributes))
        return b.build()

    return make


NUMBERS: dict[str, tuple[Callable[[], Graph], str]] = {
    "zero scale": (
        quantised(0.0),
        r"'q' \(QuantizeLinear\) needs scales above 0 as input 1, not 0; ",
    ),
    "negative scale": (
        quantised([1, -0.5], np.zeros(2, np.int8), axis=0),
        "needs scales above 0 as input 1, not -0.5",
    ),
    "nan scale": (quantised(np.nan), "needs scales above 0 as input 1, not nan"),
    "scales of an axis": (
        quantised([1, 1, 1], np.zeros(3, np.int8)),
        "1 or 4 scales as input 1.*axis 1, not 3",
    ),
    "axis": (quantised([1, 1], np.zeros(2, np.int8), axis=3), "needs an axis from -3 to 2.*, not 3"),
    "zero points": (quantised([1, 1], np.zeros(4, np.int8), axis=0), "as many zero points .* not 4 and 2"),
    "type of the zero point": (
        dequantised,
        "zero points in the range of int8, of that type, .* not int32",
    ),
    "scale of a convolution": (convolved(-2), "needs scales above 0 as input 4, not -2"),
    "scale for CANN": (by_cann(scale=0.0), "needs a scale above 0, not 0"),
    "offset for CANN": (by_cann(scale=1.0, offset=300.0), "needs a whole offset from -128 to 127, not 300"),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name: str) -> None:
    make, message = NUMBERS[name]
    with pytest.raises(asim.GraphError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


# ---- the command


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.onnx"
    path.write_bytes(export_onnx(asim.load(float_network())))
    return str(path)


def failing(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["quantize", *map(str, arguments)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    return line


def test_the_command_fails_in_one_line_and_writes_nothing(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, data, pictures = tmp_path / "out" / "q.onnx", tmp_path / "x.npz", tmp_path / "images"
    np.savez(data, x=with_one(np.nan))
    assert "must be finite, not nan at" in failing(capsys, model, "--data", data, "--output", out)
    assert "does not exist" in failing(capsys, model, "--data", tmp_path / "no.npz", "--output", out)
    data.write_bytes(b"no archive")
    assert "is no .npz archive of arrays" in failing(capsys, model, "--data", data, "--output", out)
    assert "option --data is missing" in failing(capsys, model, "--output", out)
    assert "option --output is missing" in failing(capsys, model, "--data", data)
    assert "options --mean and --std" in failing(
        capsys, model, "--data", data, "--output", out, "--mean", "1"
    )
    pictures.mkdir()
    assert "must hold at least 1 images" in failing(capsys, model, "--data", pictures, "--output", out)
    (pictures / "a.png").write_bytes(b"no picture")
    assert "a.png' cannot be read as an image" in failing(capsys, model, "--data", pictures, "--output", out)
    text = failing(capsys, model, "--data", pictures, "--output", out, "--std", "1,0,1")
    assert "option std must be above 0" in text
    assert "must be numbers" in failing(capsys, model, "--data", data, "--output", out, "--mean", "a,b")
    assert not out.parent.exists()


def test_the_command_writes_what_the_function_gives(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures, out = tmp_path / "images", tmp_path / "out" / "q.onnx"
    pictures.mkdir()
    random = np.random.default_rng(1)
    pixels = random.integers(0, 256, (3, 12, 12, 3), dtype=np.uint8)
    for number, array in enumerate(pixels):
        Image.fromarray(array).save(pictures / f"{number}.png")
    options = [
        "--activation",
        "max",
        "--skip",
        "head",
        "--mean",
        "100,110,120",
        "--std",
        "50",
        "--sensitivity",
    ]
    assert (
        main(["quantize", model, "--data", str(pictures), "--output", str(out), "--sensitivity", *options])
        == 0
    )
    said = capsys.readouterr().out
    assert "in floating point: head (left out by skip)" in said
    assert "us in float16" in said
    scaled = (pixels.transpose(0, 3, 1, 2) - np.array([100, 110, 120]).reshape(1, 3, 1, 1)) / 50
    result = asim.quantize(asim.load(model), scaled, activation="max", skip=["head"])
    result.save(tmp_path / "mine.onnx")
    assert out.read_bytes() == (tmp_path / "mine.onnx").read_bytes()
