"""onnxruntime's dynamic quantisation: integer sums are scaled on the way out and never float16."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.ir import Graph, Tensor
from tests.support.half_stories import quantised_block
from tests.support.oracle import exact_options


def matmul(scales: tuple[int, ...], cast_read_twice: bool = False) -> tuple[Graph, dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    b = asim.GraphBuilder("quantised")
    x = b.input("x", (2, 6, 64))
    quantised, step, zero = b.ops("DynamicQuantizeLinear", x, outputs=3, name="quant")
    weight = random.integers(-127, 128, (64, 48)).astype(np.int8)
    total = b.op("MatMulInteger", quantised, weight, zero, name="product")
    wide = b.op("Cast", total, to=DType.FLOAT32, name="cast")
    columns = (random.random(scales) * 0.01 + 0.001).astype(np.float32)
    scaled = b.op("Mul", wide, b.op("Mul", step, columns, name="scales"), name="dequant")
    result: Tensor = b.op("Add", scaled, wide, name="both") if cast_read_twice else scaled
    b.output(result, "y")
    return b.build(), {"x": (30 * random.standard_normal((2, 6, 64))).astype(np.float32)}


def reference(graph: Graph, inputs: dict[str, np.ndarray]) -> np.ndarray:
    content = export_onnx(graph)
    options = exact_options(onnx.load_from_string(content))
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, inputs)[0])


@pytest.mark.parametrize("fusion", ["off", "all"])
@pytest.mark.parametrize("soc", ["Ascend310", "Ascend310P3", "Ascend910B1"])
def test_a_quantised_block_is_as_exact_as_float16(soc: str, fusion: str) -> None:
    graph, inputs = quantised_block()
    model = asim.compile(graph, soc, fusion=fusion)
    result = asim.run(model, inputs)
    assert result.numerics.findings == ()
    expected = reference(graph, inputs)
    error = np.linalg.norm(result.outputs["y"] - expected) / np.linalg.norm(expected)
    assert error < 5e-3
    assert not [node for node in model.graph.nodes if DType.INT32 in [t.dtype for t in node.outputs]]
    product = next(node for node in model.graph.nodes if node.op_type == "DequantConv")
    assert product.origin["source_names"][:3] == ("down_integer", "down_cast", "down_dequant")


@pytest.mark.parametrize("scales", [(), (1,), (48,), (1, 48)])
def test_one_scale_or_one_a_column(scales: tuple[int, ...]) -> None:
    graph, inputs = matmul(scales)
    model = asim.compile(graph, "Ascend310P3")
    left = {node.op_type for node in model.graph.nodes}
    assert "DequantMatMul" in left
    assert "Mul" not in left  # both factors of the scale go in
    expected = reference(graph, inputs)
    size = np.abs(expected).max()
    exact = asim.run(model, inputs, values="float32").outputs["y"]
    np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-6 * size)
    found = asim.run(model, inputs).outputs[
        "y"
    ]  # float16 data falls to another side of a step here and there
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-2 * size)


def test_the_step_of_the_data_is_never_float16() -> None:
    graph, _ = matmul((48,))
    model = asim.compile(graph, "Ascend310P3")
    (step,) = (node.outputs[1] for node in model.graph.nodes if node.op_type == "DynamicQuantizeLinear")
    assert step.dtype is DType.FLOAT32
    assert [node.op_type for node in step.consumers] == ["DequantMatMul"]


def test_scales_of_rows_and_sums_that_others_read_stay() -> None:
    for graph, _ in (matmul((6, 1)), matmul((), cast_read_twice=True)):
        model = asim.compile(graph, "Ascend310P3")
        assert {node.op_type for node in model.graph.nodes} & {"MatMulInteger", "DequantMatMul"} == {
            "MatMulInteger"
        }


@pytest.mark.parametrize(
    ("scale", "joined"), [((4, 1, 1), True), ((1, 4, 1, 1), True), ((4, 1, 1, 1), False)]
)
def test_a_convolution_is_scaled_by_channel_and_not_by_sample(scale: tuple[int, ...], joined: bool) -> None:
    b = asim.GraphBuilder("quantised")
    x = b.input("x", (4, 3, 6, 6), DType.UINT8)
    sums = b.op("ConvInteger", x, np.ones((4, 3, 3, 3), np.int8), kernel_shape=[3, 3])
    scales = np.arange(1, 5, dtype=np.float32).reshape(scale)
    b.output(b.op("Mul", b.op("Cast", sums, to=DType.FLOAT32), scales), "y")
    model = asim.compile(b.build(), "Ascend310P3", fusion="off")
    assert ("DequantConv" in {node.op_type for node in model.graph.nodes}) == joined
