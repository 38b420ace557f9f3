"""Operators of integers that become one: products and biases, batches, x * sigmoid(x); and what does not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.ops import default_opset
from ascendsim.passes.quant.batches import NAME as BATCHES
from ascendsim.passes.quant.early import LEAVING
from ascendsim.passes.quant.qdq import join_quantised
from ascendsim.passes.quant.roundings import NAME as ROUNDINGS
from tests.support.quantised import Qdq, by_onnxruntime, feed, with_bytes

pytestmark = pytest.mark.usefixtures("untimed_tiles")

pytest.importorskip("onnxruntime")
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910B1")


def compiled(network: onnx.ModelProto, chip: str = "Ascend310", **options: Any) -> Any:
    return asim.compile(asim.load(network), chip, **options)


def types(model: Any) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.nodes)


def refusals(model: Any, name: str) -> list[str]:
    return [
        refusal.reason
        for record in model.fusion.records
        if record.name == name
        for refusal in record.refusals
    ]


def steps_apart(network: onnx.ModelProto, **options: Any) -> Any:
    """Steps between the last bytes of the network and onnxruntime's."""
    arrays = feed(network)
    shown = with_bytes(network)
    last = [node.output[0] for node in network.graph.node if node.op_type == "QuantizeLinear"][-1]
    wanted = by_onnxruntime(shown, arrays)[last].astype(int)
    step = next(
        node.input[1]
        for node in network.graph.node
        if node.op_type == "QuantizeLinear" and node.output[0] == last
    )
    held = {item.name: onnx.numpy_helper.to_array(item) for item in network.graph.initializer}
    zero = next(node.input[2] for node in network.graph.node if node.output[0] == last)
    (real,) = asim.run(compiled(network, **options), arrays).outputs.values()
    got = np.rint(real / held[step]).astype(int) + int(held[zero])
    return np.abs(got - wanted)


def linear(middle: float = 0.1, result: float = 0.1, behind: str = "") -> onnx.ModelProto:
    """A product, quantised, and its bias, quantised again (behind one more operator, if any)."""
    net = Qdq()
    weight, _ = net.weight(64, 32, axis=1)
    product = net.pair(net.op("MatMul", net.pair(net.input(2, 5, 64)), weight), middle, 2)
    bias = net.constant(net.random.standard_normal(32).astype(np.float32))
    total = net.op("Add", product, net.pair(bias, 0.02, -1))
    return net.model(net.pair(net.op(behind, total) if behind else total, result, 4))


# ---- a product and its bias


@pytest.mark.parametrize("chip", CHIPS)
def test_a_product_takes_its_bias(chip: str) -> None:
    network = linear()
    model = compiled(network, chip)
    assert types(model)["QGemm"] == 1
    assert not {"QLinearMatMul", "QLinearAdd"} & set(types(model))
    assert steps_apart(network, chip=chip).max() <= 1


def test_without_fusion_every_rounding_is_done() -> None:
    network = linear()
    model = compiled(network, fusion="off")
    assert (types(model)["QLinearMatMul"], types(model)["QLinearAdd"]) == (1, 1)
    assert np.mean(steps_apart(network, fusion="off") == 0) > 0.99
    assert np.mean(steps_apart(network) == 0) < 0.99  # a rounding is missing


def test_a_rounding_that_counts_is_kept() -> None:
    """Half a step of 0.1 is two steps of 0.025."""
    network = linear(0.1, 0.025)
    model = compiled(network)
    assert types(model)["QLinearAdd"] == 1
    assert refusals(model, ROUNDINGS) == ["the rounding between them is worth up to 2 steps of the result"]
    assert steps_apart(network).max() <= 1


def _shared(net: Qdq) -> onnx.ModelProto:
    weight, _ = net.weight(64, 32, axis=1)
    product = net.pair(net.op("MatMul", net.pair(net.input(5, 64)), weight), 0.1)
    bias = net.pair(net.constant(np.ones(32, np.float32)), 0.02)
    return net.model(net.pair(net.op("Add", product, bias), 0.1), net.op("Tanh", product))


def _bounded(net: Qdq) -> onnx.ModelProto:
    weight, _ = net.weight(64, 32, axis=1)
    product = net.op("Relu", net.op("MatMul", net.pair(net.input(5, 64)), weight))
    bias = net.pair(net.constant(np.ones(32, np.float32)), 0.02)
    return net.model(net.pair(net.op("Add", net.pair(product, 0.1, 0), bias), 0.1))


def _row_of_data(net: Qdq) -> onnx.ModelProto:
    weight, _ = net.weight(64, 32, axis=1)
    product = net.pair(net.op("MatMul", net.pair(net.input(5, 64)), weight), 0.1)
    return net.model(net.pair(net.op("Add", product, net.pair(net.input(5, 32))), 0.1))


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (_shared, "something else reads what is between them, or waits"),
        (_bounded, "there are bounds between them"),
        (_row_of_data, "what is added is not one constant a column"),
    ],
)
def test_other_sums_stay(write: Callable[[Qdq], onnx.ModelProto], reason: str) -> None:
    model = compiled(write(Qdq()))
    assert types(model)["QLinearAdd"] == 1
    assert refusals(model, ROUNDINGS) == [reason]


def test_bounds_behind_the_sum_are_kept() -> None:
    network = linear(behind="Relu")
    (joined,) = (node for node in compiled(network).graph.nodes if node.op_type == "QGemm")
    assert joined.attr("low") == 4
    assert steps_apart(network).max() <= 1


# ---- a product and a factor


@pytest.mark.parametrize(("factor", "joins"), [(0.125, True), (-0.5, False)])
def test_a_product_takes_a_factor_above_0(factor: float, joins: bool) -> None:
    net = Qdq()
    x, y = net.pair(net.input(2, 5, 64)), net.pair(net.input(2, 64, 6))
    number = net.pair(net.constant(np.float32(factor)), 0.005, 0)
    network = net.model(net.pair(net.op("Mul", net.pair(net.op("MatMul", x, y), 0.4), number), 0.06))
    model = compiled(network)
    assert types(model)["QLinearMul"] == (0 if joins else 1)
    assert steps_apart(network).max() <= 1


# ---- x * sigmoid(x)


def swish(result: float = 0.03, other: bool = False) -> onnx.ModelProto:
    net = Qdq()
    x = net.pair(net.conv(net.pair(net.input(1, 16, 9, 9), 0.03, 5), (16, 16, 3, 3)), 0.05, -3)
    gate = net.pair(net.op("Sigmoid", x), 1 / 255, -128)
    left = net.pair(net.op("Relu", x), 0.04, -128) if other else x
    return net.model(net.pair(net.op("Mul", left, gate), result, -100))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_product_with_its_own_sigmoid_is_one_operator(chip: str) -> None:
    network = swish()
    model = compiled(network, chip)
    assert types(model)["QuantSwish"] == 1
    assert not {"QLinearSigmoid", "QLinearMul"} & set(types(model))
    assert steps_apart(network, chip=chip).max() <= 1


def test_another_gate_stays() -> None:
    model = compiled(swish(other=True))
    assert types(model)["QLinearSigmoid"] == 1
    assert "the product is not that of a tensor and its sigmoid" in refusals(model, ROUNDINGS)


def test_fine_results_keep_the_rounding_of_the_sigmoid() -> None:
    """|x| reaches 6.5: half a step of 1 / 255 is worth 0.0128 there."""
    for result, joined in ((0.0126, 0), (0.0129, 1)):
        assert types(compiled(swish(result)))["QuantSwish"] == joined


# ---- batches


def folded(rows: int = 10, order: bool = False) -> onnx.ModelProto:
    """A fully connected layer of a batch as it is exported: Reshape, Gemm, Reshape, then a sum."""
    net = Qdq()
    x = net.pair(net.input(2, 5, 64))
    flat = net.op("Reshape", x, net.constant(np.array([rows, 640 // rows])))
    weight, scales = net.weight(32, 640 // rows)
    product = net.pair(net.op("Gemm", net.pair(flat), weight, net.bias(scales), transB=1), 0.1)
    shape = [5, 2, 32] if order else [2, rows // 2, 32]
    back = net.pair(net.op("Reshape", product, net.constant(np.array(shape))), 0.1)
    return net.model(net.pair(net.op("Add", back, net.pair(net.input(*shape), 0.05)), 0.1))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_layer_of_a_batch_needs_no_reshape(chip: str) -> None:
    network = folded()
    model = compiled(network, chip)
    assert types(model)["Reshape"] == 0
    assert [n.output.shape for n in model.graph.nodes if n.op_type == "QGemm"] == [(2, 5, 32)]
    assert steps_apart(network, chip=chip).max() <= 1


@pytest.mark.parametrize(("rows", "order"), [(20, False), (10, True)])
def test_other_reshapes_stay(rows: int, order: bool) -> None:
    network = folded(rows, order)
    model = compiled(network)
    assert refusals(model, BATCHES) == ["the Reshapes do more than to fold a batch"]
    assert types(model)["Reshape"] > 0
    assert steps_apart(network).max() <= 1


def test_a_matrix_is_no_batch_in_a_file() -> None:
    """Only the compiler makes products of a batch; a column of data stays refused."""
    builder = asim.GraphBuilder()
    x = builder.input("x", (7,), DType.INT8)
    scale, zero = builder.constant(np.float32(1), "s"), builder.constant(np.int8(0), "z")
    weight = builder.constant(np.ones((7, 3), np.int8), "w")
    with pytest.raises(asim.AscendSimError, match="two matrices"):
        builder.op("QGemm", x, scale, zero, weight, scale, zero, domain="com.microsoft")


# ---- choices of constants, shared quantisers, numbers


def test_constants_between_which_where_chooses_are_bytes() -> None:
    net = Qdq()
    mask = net.op("Greater", net.input(4, 32), net.constant(np.float32(0)))
    chosen = net.op("Where", mask, net.constant(np.float32(0.5)), net.constant(np.float32(-1)))
    network = net.model(net.pair(net.op("Add", net.pair(chosen, 0.01, 0), net.pair(net.input(4, 32)))))
    (where,) = (node for node in compiled(network).graph.nodes if node.op_type == "Where")
    assert where.output.element_type is DType.INT8
    assert all(tensor.is_constant for tensor in where.inputs[1:] if tensor is not None)
    assert steps_apart(network).max() <= 1


def test_one_quantiser_serves_a_tensor_and_its_reshape() -> None:
    net = Qdq()
    x = net.op("Tanh", net.input(4, 32))
    flat = net.op("Reshape", x, net.constant(np.array([128])))
    total = net.pair(net.op("Add", net.pair(x), net.pair(net.input(4, 32))), 0.06)
    network = net.model(net.pair(net.op("Sigmoid", net.pair(flat)), 0.01), total)
    model = compiled(network, fusion="off")
    tanh = next(node.output for node in model.graph.nodes if node.op_type == "Tanh")
    assert [node.op_type for node in tanh.consumers] == ["QuantizeLinear"]


def test_joined_operators_read_no_scales() -> None:
    """Scales and zero points are numbers of the instructions in a task of several operators as well."""
    net = Qdq()
    x = net.pair(net.input(1, 32, 16, 16))
    gate = net.pair(net.op("Sigmoid", net.pair(net.input(1, 32, 1, 1))), 1 / 255, -128)
    network = net.model(net.pair(net.op("Mul", x, gate)))
    model = compiled(network, "Ascend910B1")
    (scope,) = (scope for scope in model.fusion.scopes if len(scope.nodes) == 2)
    (task,) = (task for task in model.program.tasks if task.name == "+".join(scope.nodes))
    read = {access.region for access in task.accesses if not access.write}
    constants = {name for name, tensor in model.graph.tensors.items() if tensor.is_constant}
    assert not read & constants
    assert len(read) == 2


def test_ties_of_the_order_fall_as_in_the_file() -> None:
    net = Qdq()
    first = net.op("Tanh", net.input(4, 8))
    middle = net.pair(net.op("Sigmoid", net.pair(net.input(4, 8))), 0.01)
    last = net.op("Exp", net.input(4, 8))
    graph = asim.load(net.model(first, middle, last))
    join_quantised(graph, default_opset())
    ran = [node.op_type for node in graph.topological()]
    assert ran.index("Tanh") < ran.index("QLinearSigmoid") < ran.index("Exp")


def test_bytes_change_their_format_before_they_are_handed_out_as_floats() -> None:
    """Where others read the bytes row-major too, one conversion serves both, and it is that of the bytes."""
    net = Qdq()
    weight, scales = net.weight(32, 64)
    made = net.pair(net.op("Gemm", net.pair(net.input(16, 64)), weight, net.bias(scales), transB=1), 0.1)
    picked = net.op("Gather", made, net.constant(np.array([3, 1])), axis=0)
    model = compiled(net.model(made, net.pair(picked, 0.1)))
    (floats,) = (node for node in model.graph.nodes if node.output.name == made)
    assert floats.op_type == "DequantizeLinear"
    conversions = [node for node in model.graph.nodes if node.op_type == "TransData"]
    assert all(node.output.element_type is DType.INT8 for node in conversions)


def leaving_floats(also_out: bool) -> onnx.ModelProto:
    """A layer's floats leave the network, and some of its rows go into a layer of bytes."""
    net = Qdq()
    scale, bias = (net.constant(np.linspace(0.5, 1, 64, dtype=np.float32)) for _ in range(2))
    first, _ = net.weight(64, 64, axis=1)
    summed = net.pair(net.op("MatMul", net.pair(net.input(32, 64)), first), 0.1)
    made = net.op("LayerNormalization", summed, scale, bias)
    picked = net.pair(net.op("Gather", made, net.constant(np.array([3, 1])), axis=0), 0.02)
    second, _ = net.weight(64, 32, axis=1)
    last = net.pair(net.op("MatMul", picked, second), 0.1)
    return net.model(*([made] if also_out else []), last)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3"])
def test_bytes_of_floats_that_leave_are_made_where_these_are_row_major(chip: str) -> None:
    """One TransData for both; the conversion to bytes shares the task of the Cast, behind it."""
    network = leaving_floats(True)
    model = compiled(network, chip)
    (quant,) = (node for node in model.graph.nodes if node.name.endswith("_leaving"))
    cast = quant.required(0).producer
    assert cast is not None
    assert cast.op_type == "Cast"
    assert model.tasks_of(quant.name) == model.tasks_of(cast.name)
    assert model.fusion.totals("graph")[LEAVING] == (1, 1)
    from_bytes = [node for node in model.graph.nodes if node.op_type == "TransData"]
    assert sum(node.required(0).element_type is DType.FLOAT16 for node in from_bytes) == 1
    arrays = feed(network)
    late = asim.run(compiled(network, chip, fusion="off"), arrays).outputs
    for name, values in asim.run(model, arrays).outputs.items():
        np.testing.assert_array_equal(values, late[name])


def test_bytes_of_floats_that_stay_are_made_with_them() -> None:
    names = {node.name for node in compiled(leaving_floats(False)).graph.nodes}
    assert any(name.endswith("_early") for name in names)
    assert not any(name.endswith("_leaving") for name in names)
