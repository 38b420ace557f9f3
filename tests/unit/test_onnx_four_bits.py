"""Weights of 4 bits in files, and products of integers that give floats, against values worked out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ascendsim as asim
from ascendsim.core.errors import GraphError, UnsupportedOperatorError, UnsupportedTypeError
from tests.support.onnx_models import model, node, value

RANDOM = np.random.default_rng(3)
M, K, N = 3, 32, 16


def stored(name: str, values: Any, unsigned: bool = False, raw: bool = True) -> onnx.TensorProto:
    """Two to a byte, the first one in the lower half."""
    flat = (values.reshape(-1).astype(np.int64) & 15).astype(np.uint8)
    flat = np.append(flat, np.zeros(flat.size % 2, np.uint8))
    held = flat[::2] | flat[1::2] << 4
    proto = TensorProto(name=name, data_type=TensorProto.UINT4 if unsigned else TensorProto.INT4)
    proto.dims.extend(values.shape)
    if raw:
        proto.raw_data = held.astype(np.uint8).tobytes()
    else:
        proto.int32_data.extend(held.tolist())
    return proto


def built(nodes: Any, inputs: Any, held: Any, **more: Any) -> Any:
    proto = model(nodes, inputs, ["y"], **more)
    proto.graph.initializer.extend(held)
    return proto


def weights(unsigned: bool = False) -> Any:
    return RANDOM.integers(0, 16, (K, N)) if unsigned else RANDOM.integers(-8, 8, (K, N))


def quantised(w: Any, scale: Any, zero: Any = None, unsigned: bool = False, **attributes: Any) -> Any:
    """MatMul by DequantizeLinear of such weights."""
    held = [stored("w", w, unsigned), onnx.numpy_helper.from_array(scale, "s")]
    inputs = "w s"
    if zero is not None:
        held.append(stored("z", zero, unsigned, raw=False))
        inputs = "w s z"
    nodes = [
        node("DequantizeLinear", inputs, "f", name="d", **attributes),
        node("MatMul", "x f", "y", name="p"),
    ]
    return built(nodes, [value("x", (M, K))], held, opset=21)


def outcome(proto: Any, chip: str = "Ascend910B1", **inputs: Any) -> tuple[Any, Any]:
    made = asim.compile(asim.load(proto), chip)
    return asim.run(made, inputs).outputs["y"], made


def steps(*shape: int) -> Any:
    return (RANDOM.random(shape) * 0.1 + 0.01).astype(np.float32)


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("group", [0, 16])
@pytest.mark.parametrize("moved", [False, True])
def test_scaled_weights_make_the_product_of_packed_weights(unsigned: bool, group: int, moved: bool) -> None:
    w, form = weights(unsigned), (K // group, N) if group else (N,)
    scale, zero = steps(*form), RANDOM.integers(0, 8, form) if moved else None
    attributes = {"axis": 0, "block_size": group} if group else {"axis": 1}
    x = RANDOM.standard_normal((M, K)).astype(np.float32)
    y, made = outcome(quantised(w, scale, zero, unsigned, **attributes), x=x)
    middle = 0 * scale if zero is None else zero
    spread, shift = (np.repeat(p, group, axis=0) if group else p for p in (scale, middle))
    np.testing.assert_allclose(y, x @ ((w - shift) * spread), rtol=2e-2, atol=2e-2)
    (product,) = [n for n in made.graph.nodes if n.op_type == "WeightQuantBatchMatmulV2"]
    assert product.required(1).static_shape == (K, N // 8)
    assert not [n for n in made.graph.nodes if n.op_type == "DequantizeLinear"]


def test_other_scales_stay_as_they_are() -> None:
    w, scale = weights(), steps(K, N // 8)
    x = RANDOM.standard_normal((M, K)).astype(np.float32)
    y, made = outcome(quantised(w, scale, axis=1, block_size=8), x=x)
    np.testing.assert_allclose(y, x @ (w * np.repeat(scale, 8, axis=1)), rtol=2e-2, atol=2e-2)
    assert not [n for n in made.graph.nodes if n.op_type == "WeightQuantBatchMatmulV2"]


def linear(form: str, w: Any, scale: Any, group: int, bias: Any) -> Any:
    """A linear layer with weights [N, K], as exporters write it; in 3 of the forms they move as integers."""
    held = [stored("w", w), onnx.numpy_helper.from_array(scale, "s"), onnx.numpy_helper.from_array(bias, "b")]
    attributes = {"axis": 1, "block_size": group} if group else {"axis": 0}
    made, moves = "w", []
    if form == "reshaped":
        held[0] = stored("w", w.reshape(-1, 8))
        held.append(onnx.numpy_helper.from_array(np.array(w.shape), "shape"))
        moves, made = [node("Reshape", "w shape", "m")], "m"
    elif form == "squeezed":
        held[0] = stored("w", w[None])
        moves = [node("Identity", "w", "i"), node("Squeeze", "i axes", "m")]
        held.append(onnx.numpy_helper.from_array(np.array([0]), "axes"))
        made = "m"
    elif form == "stored transposed":
        held[0] = stored("w", np.ascontiguousarray(w.T))
        moves, made = [node("Transpose", "w", "m", perm=[1, 0])], "m"
    nodes = [*moves, node("DequantizeLinear", f"{made} s", "f", **attributes)]
    if form == "Gemm":
        nodes.append(node("Gemm", "x f b", "y", name="p", transB=1))
    else:
        nodes.append(node("Transpose", "f", "t", perm=[1, 0]))
        nodes += [node("MatMul", "x t", "u", name="p"), node("Add", "u b", "y")]
    return built(nodes, [value("x", (M, K))], held, opset=21)


@pytest.mark.parametrize("group", [0, 16])
@pytest.mark.parametrize("form", ["Gemm", "Transpose", "reshaped", "squeezed", "stored transposed"])
def test_linear_layers_in_every_form_are_products_of_packed_weights(form: str, group: int) -> None:
    w, bias = RANDOM.integers(-8, 8, (N, K)), steps(N)
    scale = steps(N, K // group) if group else steps(N)
    x = RANDOM.standard_normal((M, K)).astype(np.float32)
    y, made = outcome(linear(form, w, scale, group, bias), x=x)
    spread = np.repeat(scale, group, axis=1) if group else scale[:, None]
    np.testing.assert_allclose(y, x @ (w * spread).T + bias, rtol=2e-2, atol=2e-2)
    (product,) = [n for n in made.graph.nodes if n.op_type == "WeightQuantBatchMatmulV2"]
    assert product.required(1).static_shape == (N, K // 8)
    assert not {"DequantizeLinear", "Transpose", "Reshape"} & {n.op_type for n in made.graph.nodes}


def test_a_product_whose_weights_are_not_turned() -> None:
    """A Gemm that says nothing of its operands takes its weights as [K, N]."""
    w, scale, bias = weights(), steps(N), steps(N)
    held = [stored("w", w), onnx.numpy_helper.from_array(scale, "s"), onnx.numpy_helper.from_array(bias, "b")]
    nodes = [node("DequantizeLinear", "w s", "f", axis=1), node("Gemm", "x f b", "y")]
    x = RANDOM.standard_normal((M, K)).astype(np.float32)
    y, made = outcome(built(nodes, [value("x", (M, K))], held, opset=21), x=x)
    np.testing.assert_allclose(y, x @ (w * scale) + bias, rtol=2e-2, atol=2e-2)
    assert "WeightQuantBatchMatmulV2" in {n.op_type for n in made.graph.nodes}


def test_a_product_of_somebody_else_is_not_taken_for_onnxs() -> None:
    proto = quantised(weights(), steps(N), axis=1)
    proto.graph.node[1].domain = "my.ops"
    proto.opset_import.append(helper.make_opsetid("my.ops", 1))
    with pytest.raises(UnsupportedOperatorError, match="MatMul"):
        asim.load(proto)


def test_what_would_have_to_give_four_bits_is_refused() -> None:
    proto = built([node("Relu", "w", "y", name="i")], [], [stored("w", weights())], opset=21)
    with pytest.raises(UnsupportedTypeError, match=r"node 'i' \(Relu\) cannot take 4-bit integers"):
        asim.load(proto)
    shape = value("shape", (2,), TensorProto.INT64)
    moved = [node("Reshape", "w shape", "m", name="r"), node("DequantizeLinear", "m s", "y")]
    held = [stored("w", weights()), onnx.numpy_helper.from_array(np.float32(1), "s")]
    with pytest.raises(UnsupportedTypeError, match=r"'r' \(Reshape\) cannot move .* by what is not known"):
        asim.load(built(moved, [shape], held, opset=21))
    held.append(onnx.numpy_helper.from_array(np.array([7, 9]), "shape"))
    with pytest.raises(GraphError, match=r"'r' \(Reshape\) cannot move weights"):
        asim.load(built(moved, [], held, opset=21))
    short = stored("w", weights())
    short.raw_data = short.raw_data[:-1]
    proto = built([node("DequantizeLinear", "w s", "y")], [], [short], opset=21)
    with pytest.raises(GraphError, match="must hold 256 bytes"):
        asim.load(proto)


@pytest.mark.parametrize("with_bias", [False, True])
def test_integer_products_that_give_floats(with_bias: bool) -> None:
    a, b = (RANDOM.integers(0, 256, shape).astype(np.uint8) for shape in ((M, K), (K, N)))
    held = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in {
            "b": b,
            "sa": np.float32(0.02),
            "sb": steps(N),
            "za": np.uint8(120),
            "zb": np.uint8(131),
            "c": steps(N),
        }.items()
    ]
    names = ["a", "b", "sa", "sb", "za", "zb", *(["c"] if with_bias else [])]
    made = helper.make_node("MatMulIntegerToFloat", names, ["y"], name="p", domain="com.microsoft")
    inputs = [value("a", (M, K), TensorProto.UINT8)]
    proto = built([made], inputs, held, domains=[("com.microsoft", 1)])
    scales = {p.name: onnx.numpy_helper.to_array(p) for p in held}
    expected = ((a.astype(int) - 120) @ (b.astype(int) - 131)) * 0.02 * scales["sb"]
    got, _ = outcome(proto, "Ascend310P3", a=a)
    np.testing.assert_allclose(got, expected + scales["c"] * with_bias, rtol=2e-3, atol=2e-2)
