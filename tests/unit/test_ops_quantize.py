"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.ops import default_opset
from ascendsim.opset.work import LowerContext, VectorWork
from tests.support.single_node import make_node, run, with_onnxruntime

X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32) * 3


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_per_tensor_and_per_axis_agree_with_onnxruntime(dtype: Any) -> None:
    for scale, zero in (
        (np.float32(0.05), dtype(3)),
        (np.array([0.02, 0.05, 0.1], np.float32), np.array([0, 3, 9], dtype)),
    ):
        found = run("QuantizeLinear", [X, scale, zero])[0]
        np.testing.assert_array_equal(found, with_onnxruntime("QuantizeLinear", [X, scale, zero])[0])
        back = run("DequantizeLinear", [found, scale, zero])[0]
        np.testing.assert_allclose(
            back, with_onnxruntime("DequantizeLinear", [found, scale, zero])[0], rtol=1e-6
        )


def test_ties_saturation_and_special_values() -> None:
    x = np.array([0.5, 1.5, -0.5, 300, -300, np.inf, -np.inf, np.nan], np.float32)
    found = run("QuantizeLinear", [x, np.float32(1), np.int8(0)], axis=0)[0]
    np.testing.assert_array_equal(found, np.array([0, 2, 0, 127, -128, 127, -128, 0], np.int8))
    assert run("QuantizeLinear", [x[:2], np.float32(1)], axis=0)[0].dtype == np.uint8
    assert (
        run("QuantizeLinear", [x[:2], np.float32(1)], axis=0, output_dtype=DType.INT16)[0].dtype == np.int16
    )


def test_blocks_along_an_axis() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    scale = np.array([[1, 2, 4], [1, 0.5, 0.25]], np.float32)
    wide = np.repeat(scale, 2, axis=1)
    found = run("QuantizeLinear", [x, scale, np.zeros((2, 3), np.uint8)], axis=1, block_size=2)[0]
    np.testing.assert_array_equal(found, np.rint(x / wide))
    np.testing.assert_array_equal(
        run("DequantizeLinear", [found, scale], axis=1, block_size=2)[0], found * wide
    )


def test_float16_scales_and_int32_accumulators() -> None:
    half = X.astype(np.float16)
    found = run("QuantizeLinear", [half, np.float16(0.05), np.int8(1)])[0]
    wanted = np.clip(np.rint(half.astype(np.float32) / np.float32(np.float16(0.05))) + 1, -128, 127)
    np.testing.assert_array_equal(found, wanted)
    sums = np.array([70000, -5], np.int32)
    np.testing.assert_array_equal(
        run("DequantizeLinear", [sums, np.float32(0.5)], axis=0)[0], np.array([35000, -2.5], np.float32)
    )
    assert run("DequantizeLinear", [found, np.float16(0.05), np.int8(1)])[0].dtype == np.float16


@pytest.mark.parametrize(
    "x",
    [X, np.abs(X) + 1, -np.abs(X), np.zeros((3,), np.float32)],
    ids=["both", "positive", "negative", "zero"],
)
def test_dynamic_quantization(x: Any) -> None:
    found = run("DynamicQuantizeLinear", [x], outputs=3)
    for ours, theirs in zip(found, with_onnxruntime("DynamicQuantizeLinear", [x], outputs=3), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_quantizing_to_a_float_is_refused() -> None:
    with pytest.raises(GraphError, match="needs an integer type of at most 16 bits to quantize to"):
        make_node("QuantizeLinear", [X, np.float32(1)], output_dtype=DType.FLOAT16)


def test_quantizing_to_integers_that_onnx_does_not_have_there_is_refused() -> None:
    """A zero point of 300 comes as int32 from some tools."""
    with pytest.raises(GraphError, match="needs an integer type of at most 16 bits.*not int32"):
        make_node("QuantizeLinear", [X, np.float32(1), np.int32(300)])


@pytest.mark.parametrize(
    ("format", "rows", "cols", "over"), [(Format.ND, 6, 20, "row"), (Format.NC1HWC0, 40, 16, "col")]
)
def test_lowering(format: Format, rows: int, cols: int, over: str) -> None:
    node = make_node(
        "QuantizeLinear", [X.astype(np.float16), np.ones(3, np.float16), np.zeros(3, np.int8)], known=False
    )
    node.required(0).format = format
    definition = default_opset().get(node)
    assert definition.lower is not None
    work = definition.lower(node, LowerContext())
    assert isinstance(work, VectorWork)
    assert (work.rows, work.cols) == (rows, cols)
    assert [stream.over for stream in work.inputs] == ["all", over, over]
    assert [(step.op, step.over) for step in work.steps][:2] == [("vrec", over), ("vconv", "all")]


def test_the_range_of_a_large_tensor_is_found_by_all_cores() -> None:
    """Small ones stay on one core, where nobody waits for others."""

    def run_on(soc: str, rows: int, **changes: object) -> tuple[float, int]:
        b = asim.GraphBuilder()
        data, scale, zero = b.ops("DynamicQuantizeLinear", b.input("x", (rows, 1024)), outputs=3)
        for tensor in (data, scale, zero):
            b.output(tensor)
        result = asim.simulate(asim.compile(b.build(), soc, set=changes or None))
        (task,) = (task for task in result.model.program.tasks if "DynamicQuantize" in task.name)
        took = next(item for item in result.trace.tasks if item.task == task.id)
        return result.trace.us(took.end - took.start), task.block_dim

    for soc in ("Ascend310P3", "Ascend910B1"):
        assert run_on(soc, 2)[1] == 1
        large, cores = run_on(soc, 1024)
        assert cores > 4
        alone, _ = run_on(soc, 1024, ai_cores=1, **({"vector_cores": 2} if soc == "Ascend910B1" else {}))
        assert large < alone / 3
