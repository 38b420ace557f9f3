"""What a run is given: axes that come with it, empty arrays, arrays in other forms; each as a user goes,
against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

import ascendsim as asim
from tests.support.onnx_models import model, node, value

SOC = "Ascend310P3"
REDUCTIONS = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, **how: np.abs(x).sum(**how),
    "ReduceL2": lambda x, **how: np.sqrt((x * x).sum(**how)),
    "ReduceSumSquare": lambda x, **how: (x * x).sum(**how),
    "ReduceLogSum": lambda x, **how: np.log(x.sum(**how)),
    "ReduceLogSumExp": lambda x, **how: np.log(np.exp(x).sum(**how)),
}
X = np.random.default_rng(0).uniform(0.5, 1.5, (3, 2, 4)).astype(np.float32)


def reduction(op_type: str, axes: Any, shape: Any, **attributes: Any) -> onnx.ModelProto:
    """A reduction between other operators, whose axes are an input and whose result's shape the file
    declares."""
    nodes = [node("Abs", "x", "a"), node(op_type, "a axes", "r", **attributes), node("Neg", "r", "y")]
    proto = model(nodes, [value("x", X.shape), value("axes", axes, TensorProto.INT64)], ["y"])
    proto.graph.value_info.append(value("r", shape))
    return proto


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("op_type", REDUCTIONS)
def test_axes_come_with_the_run(op_type: str, keep: bool) -> None:
    shape = [3, 1, 4] if keep else [3, 4]
    compiled = asim.compile(asim.load(reduction(op_type, [1], shape, keepdims=int(keep))), SOC)
    for axis in (1, -2):
        wanted = -REDUCTIONS[op_type](X, axis=axis, keepdims=keep)
        inputs = {"x": X, "axes": np.array([axis])}
        exact = asim.run(compiled, inputs, values="float32").outputs["y"]
        np.testing.assert_allclose(exact, wanted, rtol=1e-5)
        np.testing.assert_allclose(asim.run(compiled, inputs).outputs["y"], wanted, rtol=4e-3)


def test_a_model_takes_other_axes_with_the_next_run() -> None:
    compiled = asim.compile(asim.load(reduction("ReduceSum", [None], None, keepdims=0)), SOC)
    for axes in ((0,), (2,), (0, 2), (0, 1, 2), ()):
        result = asim.run(compiled, {"x": X, "axes": np.array(axes, np.int64)}, values="float32")
        wanted = -X.sum(axis=axes or None)
        assert result.outputs["y"].shape == wanted.shape
        np.testing.assert_allclose(result.outputs["y"], wanted, rtol=1e-5)


@pytest.mark.parametrize("noop", [0, 1])
def test_empty_axes_are_all_axes_or_none(noop: int) -> None:
    compiled = asim.compile(asim.load(reduction("ReduceSum", [0], None, noop_with_empty_axes=noop)), SOC)
    found = asim.run(compiled, {"x": X, "axes": np.zeros(0, np.int64)}, values="float32").outputs["y"]
    np.testing.assert_allclose(found, -X if noop else -X.sum(keepdims=True), rtol=1e-5)


def test_axes_of_a_run_cost_what_constant_axes_cost() -> None:
    """The reduction alone: its task is the one that a model with the axes inside gets."""
    given = asim.compile(
        asim.load(
            model([node("ReduceMax", "x axes", "y")], [value("x", (64, 900)), value("axes", [1], 7)], ["y"])
        ),
        SOC,
    )
    fixed = asim.compile(
        asim.load(
            model([node("ReduceMax", "x axes", "y")], [value("x", (64, 900))], ["y"], {"axes": np.array([1])})
        ),
        SOC,
    )
    x = np.ones((64, 900), np.float32)
    traces = [asim.run(given, {"x": x, "axes": np.array([1])}).trace, asim.run(fixed, {"x": x}).trace]
    first, second = ([(task.name, task.end - task.start) for task in trace.tasks] for trace in traces)
    assert first == second


def test_time_without_values_asks_for_the_axes() -> None:
    compiled = asim.compile(asim.load(reduction("ReduceSum", [1], [3, 4], keepdims=0)), SOC)
    with pytest.raises(asim.InputError, match=r"node 'r' \(ReduceSum\) gives depends on values; give inputs"):
        asim.simulate(compiled)


def test_axes_beyond_the_rank_are_named() -> None:
    compiled = asim.compile(asim.load(reduction("ReduceSum", [1], [3, 4], keepdims=0)), SOC)
    with pytest.raises(asim.GraphError, match=r"axes of node 'r' \(ReduceSum\) must be in \[-3, 3\), not 5"):
        asim.run(compiled, {"x": X, "axes": np.array([5])})


@pytest.mark.parametrize("declared", [(0, 4), ("batch", 4)])
def test_empty_arrays_go_through(declared: tuple[Any, ...]) -> None:
    proto = model(
        [node("Relu", "x", "a"), node("MatMul", "a w", "y")],
        [value("x", declared)],
        ["y"],
        {"w": np.ones((4, 8), np.float32)},
    )
    result = asim.run(asim.compile(asim.load(proto), SOC), {"x": np.zeros((0, 4), np.float32)})
    assert result.outputs["y"].shape == (0, 8)
    assert result.duration_us == 0
    assert result.summary().samples_per_s == 0


def test_an_input_that_only_lends_its_type_may_be_empty() -> None:
    proto = model(
        [node("CastLike", "x like", "y")],
        [value("x", (3, 4)), value("like", (0,), TensorProto.DOUBLE)],
        ["y"],
        opset=19,
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    result = asim.run(asim.compile(asim.load(proto), SOC), {"x": x, "like": np.zeros(0)})
    np.testing.assert_array_equal(result.outputs["y"], x.astype(np.float64))


@pytest.mark.parametrize("mode", ["force_fp16", "must_keep_origin_dtype", "allow_mix_precision"])
def test_bits_are_those_of_the_model_under_every_precision(mode: str) -> None:
    nodes = [
        node("BitCast", "x", "bits", to=TensorProto.INT32),
        node("BitCast", "bits", "y", to=TensorProto.FLOAT),
    ]
    proto = model(nodes, [value("x", (2, 3))], ["bits", "y"], opset=26)
    x = np.array([[1.0, -2.5, 1e-30], [np.pi, np.inf, 1e30]], np.float32)
    found = asim.run(asim.compile(asim.load(proto), SOC, precision_mode=mode), {"x": x}).outputs
    np.testing.assert_array_equal(found["bits"], x.view(np.int32))
    np.testing.assert_array_equal(found["y"], x)


@pytest.mark.parametrize("rows", [2, "rows"])
@pytest.mark.parametrize(
    "form", [lambda x: x, numpy_helper.from_array, memoryview], ids=["array", "proto", "buffer"]
)
def test_what_is_accepted_as_an_array(form: Any, rows: Any) -> None:
    compiled = asim.compile(asim.load(model([node("Neg", "x", "y")], [value("x", (rows, 3))], ["y"])), SOC)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(asim.run(compiled, {"x": form(x)}).outputs["y"], -x)


@pytest.mark.parametrize("rows", [2, "rows"])
@pytest.mark.parametrize(
    "given", [None, "text", [[1.0, 2.0], [3.0]], {"a": 1}, object()], ids=lambda given: type(given).__name__
)
def test_what_is_no_array_is_named_before_time_is_spent(given: Any, rows: Any) -> None:
    compiled = asim.compile(asim.load(model([node("Neg", "x", "y")], [value("x", (rows, 3))], ["y"])), SOC)

    def never(done: int, count: int) -> None:
        raise AssertionError("the machine ran")

    with pytest.raises(
        asim.InputError,
        match=r"input 'x' must be an array of numbers: NumPy's, .* or an onnx\.TensorProto, not ",
    ):
        asim.run(compiled, {"x": given}, progress=never)
    with pytest.raises(asim.InputError, match=r"input 'x' must have shape \[(2|rows), 3\], not \[3\]"):
        asim.run(compiled, {"x": np.zeros(3, np.float32)}, progress=never)


def test_a_tensor_without_its_values_is_refused() -> None:
    proto = onnx.TensorProto(
        name="t", data_type=TensorProto.FLOAT, dims=[2, 3], data_location=TensorProto.EXTERNAL
    )
    proto.external_data.add(key="location", value="somewhere.bin")
    compiled = asim.compile(asim.load(model([node("Neg", "x", "y")], [value("x", (2, 3))], ["y"])), SOC)
    with pytest.raises(asim.InputError, match=r"tensor 't' must hold its values itself.*onnx\.load_tensor"):
        asim.run(compiled, {"x": proto})


def test_a_constant_that_is_read_and_handed_out_keeps_its_type() -> None:
    weight = np.array([1, 1e6, 0.1], np.float32)
    proto = model([node("Add", "x w", "y")], [value("x", (3,))], ["y", "w"], {"w": weight})
    found = asim.run(asim.compile(asim.load(proto), SOC), {"x": np.zeros(3, np.float32)}).outputs
    assert found["w"].dtype == np.float32
    np.testing.assert_array_equal(found["w"], weight)
