"""Quantised networks as they are exported: values against onnxruntime's, tasks and times against float16."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.passes.quant.qdq import NAME
from tests.support.gate import every
from tests.support.onnx_models import model, node, value
from tests.support.quantised import (
    Qdq,
    by_onnxruntime,
    feed,
    float_network,
    quantised_by_onnxruntime,
    with_bytes,
)

pytestmark = pytest.mark.usefixtures("untimed_tiles")

pytest.importorskip("onnxruntime")


def compiled(network: onnx.ModelProto, chip: str = "Ascend310", **options: Any) -> Any:
    return asim.compile(asim.load(network), chip, **options)


def types(network: onnx.ModelProto, **options: Any) -> list[str]:
    return sorted(item.op_type for item in compiled(network, fusion="off", **options).graph.nodes)


def refusals(network: onnx.ModelProto) -> dict[str, str]:
    return {
        record.pattern: refusal.reason
        for record in compiled(network).fusion.records
        if record.name == NAME
        for refusal in record.refusals
    }


def differences(network: onnx.ModelProto, chip: str = "Ascend310", **options: Any) -> dict[str, Any]:
    """By tensor of bytes: steps between our values and onnxruntime's."""
    shown = with_bytes(network)
    arrays = feed(network)
    wanted = by_onnxruntime(shown, arrays)
    got = asim.run(asim.compile(asim.load(shown), chip, **options), arrays).outputs
    bytes_ = {name: array for name, array in wanted.items() if array.dtype.itemsize == 1}
    assert bytes_
    return {name: np.abs(got[name].astype(int) - array.astype(int)) for name, array in bytes_.items()}


def assert_near(network: onnx.ModelProto, chip: str = "Ascend310") -> None:
    for name, steps in differences(network, chip).items():
        assert np.mean(steps <= 1) >= 0.999, name


def chain(dtype: Any = np.int8, zero: int = 5) -> onnx.ModelProto:
    """Two convolutions with padding, a Relu and a Clip behind them; data whose zero point is not 0."""
    net = Qdq(dtype)
    x = net.pair(net.input(1, 3, 9, 9), 0.03, zero)
    y = net.pair(net.op("Relu", net.conv(x, (16, 3, 3, 3), pads=[1, 1, 1, 1])), 0.02, zero)
    ends = net.constant(np.float32(-0.4)), net.constant(np.float32(1.1))
    z = net.op("Clip", net.conv(y, (8, 16, 3, 3), 0.02, pads=[1, 1, 1, 1], strides=[2, 2]), *ends)
    return net.model(net.pair(z, 0.03, zero))


# ---- convolutions


@pytest.mark.parametrize(("dtype", "zero"), [(np.int8, 5), (np.uint8, 120)])
def test_padding_holds_the_zero_point_and_bounds_are_those_of_bytes(dtype: Any, zero: int) -> None:
    network = chain(dtype, zero)
    assert types(network).count("QLinearConv") == 2
    assert not {"Conv", "Relu", "Clip"} & set(types(network))
    for name, steps in differences(network).items():
        assert steps.max() <= 1, name
        assert np.mean(steps == 0) > 0.99, name


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910B1"])
def test_conversions_between_convolutions_take_no_task(chip: str) -> None:
    net = Qdq()
    x = net.pair(net.input(1, 3, 9, 9))
    y = net.pair(net.op("Relu", net.conv(x, (16, 3, 3, 3), pads=[1, 1, 1, 1])), 0.02)
    network = net.model(net.pair(net.op("Relu", net.conv(y, (8, 16, 3, 3), 0.02))))
    result = asim.simulate(compiled(network, chip))
    ran = result.op_summary().to_dataframe()["OP Type"].tolist()
    assert ran.count("Conv2D") == 2
    first, last = (ran.index("Conv2D"), len(ran) - 1 - ran[::-1].index("Conv2D"))
    assert last == first + 1
    tensors = result.model.graph.tensors.values()
    kinds = {tensor.dtype for tensor in tensors if tensor.shape == (1, 16, 9, 9)}
    assert kinds == {DType.INT8}


def test_weights_and_biases_in_other_forms() -> None:
    """Weights quantised in the model, unsigned ones, none or a float bias: all are what onnxruntime has."""
    net = Qdq()
    x = net.pair(net.input(1, 4, 7, 7), zero=0)
    given = net.constant(net.random.standard_normal((8, 4, 3, 3)).astype(np.float32))
    y = net.pair(net.op("Conv", x, net.pair(given, 0.02, 0)), zero=-9)
    unsigned, _ = net.weight(8, 8, 3, 3, dtype=np.uint8, zero=128)
    bias = net.constant(net.random.standard_normal(8).astype(np.float32))
    network = net.model(net.pair(net.op("Conv", y, unsigned, bias), 0.05))
    assert types(network).count("QLinearConv") == 2
    assert "Conv" not in types(network)
    for name, steps in differences(network).items():
        assert steps.max() <= 1, name


@pytest.mark.parametrize("zeros", [False, True])
def test_a_bias_in_steps_of_its_own_is_rounded_to_those_of_the_sums(zeros: bool) -> None:
    net = Qdq()
    weight, _ = net.weight(8, 4, 3, 3)
    held = [net.constant(net.random.integers(-99, 99, 8).astype(np.int32)), net.constant(np.float32(0.004))]
    held += [net.constant(np.int32(0))] if zeros else []
    bias = net.op("DequantizeLinear", *held)
    network = net.model(net.pair(net.op("Conv", net.pair(net.input(1, 4, 7, 7)), weight, bias)))
    assert types(network).count("QLinearConv") == 1
    for name, steps in differences(network).items():
        assert steps.max() <= 1, name


def _bias_of_bytes(net: Qdq) -> str:
    weight, _ = net.weight(8, 3, 3, 3)
    held = net.op(
        "DequantizeLinear", net.constant(np.arange(8, dtype=np.int8)), net.constant(np.float32(0.1))
    )
    return net.pair(net.op("Conv", net.pair(net.input(1, 3, 9, 9)), weight, held))


def test_a_zero_point_needs_a_bias_to_go_into() -> None:
    for zero, biases in ((0, 0), (7, 1)):
        net = Qdq()
        weight, _ = net.weight(8, 4, 3, 3)
        x = net.pair(net.input(1, 4, 7, 7), zero=zero)
        network = net.model(net.pair(net.op("Conv", x, weight), zero=0))
        (conv,) = (item for item in compiled(network).graph.nodes if item.op_type == "QLinearConv")
        assert (conv.input(8) is not None) == biases


# ---- whole networks


@pytest.mark.parametrize(("form", "unsigned"), [("QDQ", False), ("QDQ", True), ("QOperator", True)])
def test_a_network_from_the_quantiser(form: str, unsigned: bool, tmp_path: Path) -> None:
    network = quantised_by_onnxruntime(float_network(), tmp_path, form, unsigned)
    assert_near(network)
    left = set(types(network)) & {"Conv", "Add", "Gemm", "GlobalAveragePool", "Relu"}
    assert left == set()


@pytest.mark.parametrize("chip", every(2, ["Ascend310", "Ascend310P3", "Ascend910B1"]))
def test_bytes_are_quicker_than_float16_in_as_many_tasks(chip: str, tmp_path: Path) -> None:
    given = float_network(64, 112)
    plain = asim.simulate(compiled(given, chip))
    result = asim.simulate(compiled(quantised_by_onnxruntime(given, tmp_path, "QDQ"), chip))
    assert len(result.model.program.tasks) <= len(plain.model.program.tasks)
    assert result.duration_us < plain.duration_us


def test_a_residual_sum_shares_the_task_of_its_convolution() -> None:
    net = Qdq()
    x = net.pair(net.input(1, 32, 16, 16), zero=0)
    y = net.pair(net.conv(x, (32, 32, 3, 3), pads=[1, 1, 1, 1]), 0.06, -2)
    network = net.model(net.pair(net.op("Relu", net.op("Add", y, x)), 0.04, -128))
    report = compiled(network).fusion
    assert report.totals("ub")["TbeConvDequantVaddReluQuantFusionPass"] == (1, 1)
    for name, steps in differences(network).items():
        assert steps.max() <= 1, name


# ---- other operators


def _pairwise(op_type: str) -> Callable[[Qdq], str]:
    return lambda net: net.op(
        op_type, net.pair(net.input(1, 4, 6, 6), 0.02, 9), net.pair(net.input(1, 4, 6, 6))
    )


def _alone(op_type: str, **attributes: Any) -> Callable[[Qdq], str]:
    return lambda net: net.op(op_type, net.pair(net.input(1, 4, 6, 6)), **attributes)


def _concat(net: Qdq) -> str:
    return net.op(
        "Concat", net.pair(net.input(1, 4, 6, 6), 0.02), net.pair(net.input(1, 3, 6, 6), 0.04), axis=1
    )


def _matmul(net: Qdq) -> str:
    return net.op("MatMul", net.pair(net.input(2, 5, 8), 0.02), net.pair(net.input(2, 8, 6), 0.03, -4))


def _gemm(net: Qdq) -> str:
    weight, scales = net.weight(6, 8)
    return net.op("Gemm", net.pair(net.input(5, 8)), weight, net.bias(scales), transB=1)


def _conv_transpose(net: Qdq) -> str:
    weight, scales = net.weight(16, 8, 3, 3, axis=1)
    x = net.pair(net.input(1, 16, 5, 5))
    return net.op("ConvTranspose", x, weight, net.bias(scales), strides=[2, 2], pads=[1, 1, 0, 1])


def _clip(net: Qdq) -> str:
    return net.op(
        "Clip", net.pair(net.input(1, 4, 6, 6)), net.constant(np.float32(-0.3)), net.constant(np.float32(0.7))
    )


OTHERS: dict[str, tuple[Callable[[Qdq], str], str]] = {
    "Add": (_pairwise("Add"), "QLinearAdd"),
    "Mul": (_pairwise("Mul"), "QLinearMul"),
    "Sigmoid": (_alone("Sigmoid"), "QLinearSigmoid"),
    "LeakyRelu": (_alone("LeakyRelu", alpha=0.3), "QLinearLeakyRelu"),
    "Relu": (_alone("Relu"), "QLinearLeakyRelu"),
    "Clip": (_clip, "QLinearLeakyRelu"),
    "MaxPool": (_alone("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), "MaxPool"),
    "AveragePool": (_alone("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), "QLinearAveragePool"),
    "GlobalAveragePool": (_alone("GlobalAveragePool"), "QLinearGlobalAveragePool"),
    "Concat": (_concat, "QLinearConcat"),
    "MatMul": (_matmul, "QLinearMatMul"),
    "Gemm": (_gemm, "QGemm"),
    "Softmax": (_alone("Softmax", axis=-1), "QLinearSoftmax"),
    "ConvTranspose": (_conv_transpose, "QuantConvTranspose"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_operators_between_bytes(name: str) -> None:
    write, made = OTHERS[name]
    net = Qdq()
    network = net.model(net.pair(write(net), 0.025, -6))
    assert made in types(network)
    assert made == name or name not in types(network)
    for tensor, steps in differences(network).items():
        assert steps.max() <= 1, tensor
        assert np.mean(steps == 0) > 0.98 or steps.size < 50, tensor


def test_equal_scales_need_no_arithmetic() -> None:
    net = Qdq()
    parts = [net.pair(net.input(1, 4, 6, 6)) for _ in range(2)]
    network = net.model(
        net.pair(net.op("Transpose", net.pair(net.op("Concat", *parts, axis=1)), perm=[0, 2, 3, 1]))
    )
    ran = types(network)
    assert (ran.count("Concat"), ran.count("Transpose")) == (1, 1)
    assert not [name for name in ran if name.startswith("QLinear")]
    assert all(steps.max() == 0 for steps in differences(network).values())


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910B1"])
@pytest.mark.parametrize("name", ["Conv", "ConvTranspose", "MatMul"])
def test_a_result_that_stays_in_float_is_no_reason_to_multiply_floats(name: str, chip: str) -> None:
    """As exporters write that put pairs in front of products only."""
    net = Qdq()
    shape, axis = {"Conv": ((8, 16, 3, 3), 0), "ConvTranspose": ((16, 8, 3, 3), 1), "MatMul": ((16, 8), 1)}[
        name
    ]
    weight, _ = net.weight(*shape, axis=axis)
    x = net.pair(net.input(*((9, 16) if name == "MatMul" else (1, 16, 9, 9))), 0.03, -5)
    network = net.model(net.op("Relu", net.op(name, x, weight)))
    made = {"ConvTranspose": "QuantConvTranspose"}.get(name, f"QLinear{name}")
    assert made in types(network)
    assert name not in types(network)
    arrays = feed(network)
    (wanted,) = by_onnxruntime(network, arrays, optimised=False).values()
    (got,) = asim.run(compiled(network, chip), arrays).outputs.values()
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("form", ["average", "global", "gemm", "concat", "mul", "softmax", "where"])
def test_operators_of_onnxruntime_in_uint8(form: str) -> None:
    """The QOperator form itself, with unsigned tensors and scales of every size."""
    random = np.random.default_rng(3)
    p: dict[str, Any] = {"s": np.float32(0.04), "z": np.uint8(117), "t": np.float32(0.03), "u": np.uint8(90)}
    shape, more = (1, 4, 6, 6), "s z t u"
    if form == "gemm":
        shape = (5, 8)
        p |= {"w": random.integers(-90, 90, (8, 6)).astype(np.int8), "ws": np.float32(0.02), "wz": np.int8(0)}
        p |= {"c": random.integers(-900, 900, 6).astype(np.int32)}
    if form == "where":
        p["c"] = random.integers(0, 2, (4, 1, 6)).astype(bool)
    p["v"] = np.float32(1 / 255)
    made = {
        "average": node(
            "QLinearAveragePool",
            f"q {more}",
            "y",
            kernel_shape=[2, 3],
            count_include_pad=1,
            pads=[1, 1, 0, 1],
        ),
        "global": node("QLinearGlobalAveragePool", f"q {more}", "y"),
        "gemm": node("QGemm", "q s z w ws wz c t u", "y", alpha=0.5),
        "concat": node("QLinearConcat", "t u q s z q t u", "y", axis=1),
        "mul": node("QLinearMul", "q s z q t u t u", "y"),
        # its sums of a table are up to a whole step off
        "softmax": node("QLinearSoftmax", "q s z v z", "y", axis=-1, opset=13),
        "where": node("QLinearWhere", "c q s z q t u t u", "y"),
    }[form]
    made.domain = "com.microsoft"
    nodes = [node("QuantizeLinear", "x s z", "q"), made]
    network = model(nodes, [value("x", shape)], ["y"], p, opset=17, domains=[("com.microsoft", 1)])
    network.ir_version = 9
    network.graph.output[0].type.Clear()
    arrays = feed(network)
    wanted = by_onnxruntime(network, arrays)["y"].astype(int)
    got = asim.run(compiled(network), arrays).outputs["y"].astype(int)
    assert np.abs(got - wanted).max() <= 1
    assert np.mean(got == wanted) > (0.8 if form == "softmax" else 0.98) or got.size < 50


@pytest.mark.parametrize(("axes", "kept"), [([2, 3], 1), ([-1], 0), ([0, 2], 0), (None, 1)])
def test_a_mean_of_bytes(axes: list[int] | None, kept: int) -> None:
    """Of com.microsoft's operator set; onnxruntime's CPU has no kernel, so this is worked out here."""
    p = {"s": np.float32(0.05), "z": np.int8(-3), "t": np.float32(0.02), "u": np.int8(9)}
    more = {} if axes is None else {"axes": axes}
    mean = node("QLinearReduceMean", "q s z t u", "y", keepdims=kept, **more)
    mean.domain = "com.microsoft"
    nodes = [node("QuantizeLinear", "x s z", "q"), mean]
    network = model(nodes, [value("x", (2, 5, 6, 7))], ["y"], p, opset=17, domains=[("com.microsoft", 1)])
    network.graph.output[0].type.Clear()
    x = np.random.default_rng(4).standard_normal((2, 5, 6, 7)).astype(np.float32)
    held = np.clip(np.rint(x / 0.05) - 3, -128, 127)
    exact = (held + 3).mean(None if axes is None else tuple(axes), keepdims=bool(kept)) * 0.05 / 0.02 + 9
    got = asim.run(compiled(network), {"x": x}).outputs["y"]
    assert got.dtype == np.int8
    assert got.shape == exact.shape
    assert np.abs(got - np.clip(exact, -128, 127)).max() <= 0.51
    if axes is not None:
        (given,) = (item for item in network.graph.node[1].attribute if item.name == "axes")
        given.ints[0] = 4
        with pytest.raises(asim.AscendSimError, match="axes of node"):
            asim.load(network)


def test_conversions_join_the_task_that_they_serve() -> None:
    net = Qdq()
    scale, bias = (net.constant(np.linspace(0.5, 1, 64, dtype=np.float32)) for _ in range(2))
    normalised = net.op("LayerNormalization", net.pair(net.input(4, 64)), scale, bias)
    network = net.model(net.pair(normalised))
    assert compiled(network).fusion.totals("ub")["QuantisedUbFusion"][1] >= 2
    assert len(asim.simulate(compiled(network)).model.program.tasks) < len(
        compiled(network, fusion="graph").program.tasks
    )


def test_bytes_are_made_before_elements_change_places() -> None:
    net = Qdq()
    x = net.op("Tanh", net.input(4, 8))
    network = net.model(net.pair(net.op("Reshape", x, net.constant(np.array([8, 4])))))
    order = [item.op_type for item in compiled(network, fusion="off").graph.topological()]
    assert order.index("QuantizeLinear") < order.index("Reshape")


# ---- what is refused


def _float_data(net: Qdq) -> str:
    return net.pair(net.conv(net.input(1, 3, 9, 9), (8, 3, 3, 3)))


def _wrong_axis(net: Qdq) -> str:
    weight, _ = net.weight(8, 3, 3, 3, axis=1)
    return net.pair(net.op("Conv", net.pair(net.input(1, 3, 9, 9)), weight))


def _far_zero(net: Qdq) -> str:
    weight, _ = net.weight(8, 3, 3, 3, zero=40)
    return net.pair(net.op("Conv", net.pair(net.input(1, 3, 9, 9)), weight))


def _two_types(net: Qdq) -> str:
    x = net.pair(net.input(1, 3, 9, 9))
    return net.pair(net.op("Add", x, net.pair(net.input(1, 3, 9, 9), dtype=np.uint8)))


def _grouped(net: Qdq) -> str:
    weight, _ = net.weight(8, 4, 3, 3, axis=1)
    return net.pair(net.op("ConvTranspose", net.pair(net.input(1, 8, 5, 5)), weight, group=2))


def _open_sum(net: Qdq) -> str:
    return net.op("Tanh", net.op("Add", net.pair(net.input(4, 8)), net.pair(net.input(4, 8))))


def _lstm(net: Qdq) -> str:
    weights = [net.weight(1, 16, size, axis=0)[0] for size in (8, 4)]
    return net.pair(net.op("LSTM", net.pair(net.input(5, 1, 8)), *weights, hidden_size=4))


def _erf(net: Qdq) -> str:
    return net.pair(net.op("Erf", net.pair(net.input(4, 8))))


@pytest.mark.parametrize(
    ("write", "name", "reason"),
    [
        (_grouped, "ConvTranspose", "it has groups"),
        (_open_sum, "Add", "the result is not quantised, or has other readers"),
        (_float_data, "Conv", "the data is not quantised"),
        (_wrong_axis, "Conv", "the weights has a scale for every slice of axis 1"),
        (_far_zero, "Conv", "the weights leaves int8 without its zero point"),
        (_two_types, "Add", "its tensors are int8 and uint8"),
        (_bias_of_bytes, "Conv", "the bias is quantised otherwise than in int32"),
        (_lstm, "LSTM", "recurrent layers have a form in float16 only"),
        (_erf, "Erf", "the chip has no such operator of integers"),
    ],
)
def test_what_stays_in_floating_point_says_why(write: Callable[[Qdq], str], name: str, reason: str) -> None:
    net = Qdq()
    network = net.model(write(net))
    assert refusals(network) == {name: reason}
    assert name in types(network)
    arrays = feed(network)
    (wanted,) = by_onnxruntime(network, arrays, optimised=False).values()
    (got,) = asim.run(compiled(network), arrays).outputs.values()
    np.testing.assert_allclose(got, wanted, atol=0.061)  # two steps


def test_attention_in_bytes_is_refused_by_name() -> None:
    made = node("QAttention", "x w b s t", "y", num_heads=2)
    made.domain = "com.microsoft"
    network = model([made], [value("x", (1, 4, 8), onnx.TensorProto.UINT8)], ["y"], {
        "w": np.zeros((8, 24), np.int8), "b": np.zeros(24, np.float32),
        "s": np.float32(1), "t": np.float32(1),
    }, domains=[("com.microsoft", 1)])  # fmt: skip
    with pytest.raises(asim.AscendSimError, match="QAttention"):
        asim.load(network)
