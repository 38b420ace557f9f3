"""Softmax family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.opset.work import AiCpuWork, LowerContext, VectorWork
from tests.support.half import softmax_by_steps, ulps
from tests.support.single_node import infer, make_node, run


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(
    ("name", "function"), [("Softmax", special.softmax), ("LogSoftmax", special.log_softmax)]
)
def test_values(name: str, function: Any, axis: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, 8, 17)) * 4
    np.testing.assert_allclose(run(name, [x], axis=axis)[0], function(x, axis=axis), rtol=1e-12)
    np.testing.assert_allclose(
        run(name, [x.astype(np.float32)], axis=axis)[0],
        function(x.astype(np.float32).astype(float), axis=axis),
        rtol=3e-6,
        atol=1e-7,  # the sum of a row is a float32, so its logarithm is off by half a last place of 1
    )
    half = x.astype(np.float16)
    found, emulated = run(name, [half], axis=axis)[0], softmax_by_steps(half, axis, name == "LogSoftmax")
    if name == "Softmax":
        assert ulps(found, emulated).max() <= 1
    else:
        # one unit of the logarithm of the sum, which may be larger than the small difference that it ends in
        unit = np.spacing(np.maximum(np.abs(emulated), np.float16(np.log(half.shape[axis]))))
        assert (np.abs(found.astype(float) - emulated) <= unit).all()


def test_hardmax_takes_the_first_of_equals() -> None:
    x = np.array([[1, 3, 3], [2, 1, 0]], np.float16)
    np.testing.assert_array_equal(run("Hardmax", [x])[0], np.array([[0, 1, 0], [1, 0, 0]], np.float16))
    np.testing.assert_array_equal(
        run("Hardmax", [x], axis=0)[0], np.array([[0, 1, 1], [1, 0, 0]], np.float16)
    )


def test_shapes() -> None:
    assert infer("Softmax", [("n", None)]) == [("n", None)]
    with pytest.raises(GraphError, match="axis of node"):
        infer("Softmax", [(2, 3)], axis=2)


def _work(shape: tuple[int, ...], axis: int, dtype: Any = np.float16, name: str = "Softmax") -> Any:
    node = make_node(name, [np.zeros(shape, dtype)], known=False, axis=axis)
    definition = default_opset().get(node)
    assert definition.lower is not None
    return definition.lower(node, LowerContext(intrinsics={"vexp": ("float16", "float32")}))


def test_lowering() -> None:
    last = _work((2, 8, 50), -1)
    assert isinstance(last, VectorWork)
    assert (last.rows, last.cols, last.reduces, last.sweeps) == (16, 50, "cols", 3)
    assert [step.op for step in last.steps] == ["vcmax", "vsub", "vconv", "vexp", "vcadd", "vdiv", "vconv"]
    assert [step.dtype for step in last.steps] == [DType.FLOAT16] * 2 + [DType.FLOAT32] * 5
    middle = _work((2, 8, 50), 1)
    assert (middle.rows, middle.cols, middle.reduces, middle.gather_bytes) == (8, 100, "rows", 100)
    first = _work((8, 50), 0)
    assert (first.reduces, first.gather_bytes) == ("rows", 0)
    assert isinstance(_work((4, 4), -1, np.float64), AiCpuWork)


@pytest.mark.parametrize(
    ("shape", "axis", "format", "wanted"),
    [
        ((4, 32, 48), -1, Format.FRACTAL_NZ, True),
        ((4, 32, 48), 1, Format.FRACTAL_NZ, False),
        ((4, 32, 50), -1, Format.FRACTAL_NZ, True),
        ((32, 50), -1, Format.FRACTAL_NZ, False),
        ((1, 16, 8, 8), 1, Format.NC1HWC0, False),
    ],
)
def test_blocked_formats(shape: tuple[int, ...], axis: int, format: Format, wanted: bool) -> None:
    definition = default_opset().find("Softmax")
    assert definition is not None
    assert definition.in_blocks is not None
    graph = Graph()
    node = graph.add_node("Softmax", [graph.add_input("x", DType.FLOAT16, shape)], axis=axis)
    assert definition.in_blocks(node, format) is wanted
