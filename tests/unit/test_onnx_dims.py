"""Names of open dimensions: those that are none, and those that a run contradicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputWarning
from ascendsim.frontends.onnx.types import value_type
from tests.support.onnx_models import model, node, value


def pair(path: Path, names: tuple[str, str]) -> Path:
    """A network that puts two inputs one behind the other, each as long as a name says."""
    inputs = [value(name, (dim, 2)) for name, dim in zip("xy", names, strict=True)]
    network = model([node("Concat", "x y", "t", axis=0), node("Relu", "t", "z")], inputs, ["z"], opset=17)
    onnx.save(network, path)
    return path


@pytest.mark.parametrize("name", ["?", "", "None", "-1", "unk__7", "unk__"])
def test_what_exporters_write_for_unknown_dimensions_is_no_name(name: str, tmp_path: Path) -> None:
    assert value_type(value("x", (name, 3)), "x")[1] == (None, 3)
    compiled = asim.compile(asim.load(pair(tmp_path / "pair.onnx", (name, name))), soc="Ascend310P3")
    ones, twos = np.ones((3, 2), np.float32), np.full((5, 2), 2, np.float32)
    outputs = asim.run(compiled, {"x": ones, "y": twos}).outputs
    np.testing.assert_array_equal(outputs["z"], np.concatenate([ones, twos]))


@pytest.mark.parametrize("name", ["n", "batch", "unknown", "unk__a", "?n", "-1n"])
def test_other_names_are_names(name: str) -> None:
    assert value_type(value("x", (name, 3)), "x")[1] == (name, 3)


def test_equal_names_of_different_sizes_are_run_with_a_warning(tmp_path: Path) -> None:
    compiled = asim.compile(asim.load(pair(tmp_path / "pair.onnx", ("n", "n"))), soc="Ascend310P3")
    arrays = {"x": np.ones((3, 2), np.float32), "y": np.full((5, 2), 2, np.float32)}
    with pytest.warns(InputWarning, match="input 'y': n is 5, and 3 in input 'x'"):
        outputs = asim.run(compiled, arrays).outputs
    assert outputs["z"].shape == (8, 2)


def test_sizes_that_an_operator_needs_equal_are_refused_by_it(tmp_path: Path) -> None:
    inputs = [value("x", (1, "n")), value("y", (1, "n"))]
    path = tmp_path / "sum.onnx"
    onnx.save(model([node("Add", "x y", "z")], inputs, ["z"], opset=17), path)
    compiled = asim.compile(asim.load(path), soc="Ascend310P3")
    with (
        pytest.warns(InputWarning),
        pytest.raises(asim.AscendSimError, match="broadcast"),
    ):
        asim.run(compiled, {"x": np.ones((1, 3), np.float32), "y": np.ones((1, 5), np.float32)})
