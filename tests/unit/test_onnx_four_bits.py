"""Weights of 4 bits in files, and products of integers that give floats, against values worked out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ascendsim as asim
from ascendsim.core.errors import GraphError, UnsupportedTypeError
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


def test_what_would_have_to_give_four_bits_is_refused() -> None:
    proto = built([node("Identity", "w", "y", name="i")], [], [stored("w", weights())], opset=21)
    with pytest.raises(UnsupportedTypeError, match=r"node 'i' \(Identity\) cannot take 4-bit integers"):
        asim.load(proto)
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
