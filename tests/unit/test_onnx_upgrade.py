"""Older operator forms against onnxruntime, which implements them as they were."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from ascendsim.core.errors import GraphError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.ops import default_opset
from tests.support.gate import in_one
from tests.support.onnx_models import model, node, run, value


def check(proto, *arrays, rtol=1e-5, atol=1e-6):
    """Loads, checks that only newest forms are left, and compares values with onnxruntime."""
    graph = load_onnx(proto, opset=default_opset())
    proto.ir_version = 8
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(
        None, {item.name: array for item, array in zip(session.get_inputs(), arrays, strict=True)}
    )
    found = run(graph, *arrays)
    assert len(found) == len(wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
    return graph


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def one(op_type, shape, opset, outputs="y", extra="", constants=None, **attributes):
    return model(
        [node(op_type, f"x {extra}", outputs, **attributes)],
        [value("x", shape)],
        outputs.split(),
        constants,
        opset,
    )


@in_one("opset", [7, 9, 11, 12])
@in_one("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@in_one("axis", [None, 0, 1, 2, 3])
def test_softmax_of_all_axes_behind_one(op_type, opset, axis):
    attributes = {} if axis is None else {"axis": axis}
    check(one(op_type, (2, 3, 4, 5), opset, **attributes), data(2, 3, 4, 5))


def test_softmax_over_the_last_axis_stays_one_node():
    graph = check(one("Softmax", (2, 5), 9), data(2, 5))
    assert [(item.op_type, item.attributes["axis"]) for item in graph.nodes] == [("Softmax", -1)]


def test_softmax_of_unknown_rank_is_still_right():
    proto = model([node("Softmax", "x", "y", axis=1)], [value("x", None)], ["y"], opset=9)
    graph = load_onnx(proto, opset=default_opset())
    assert [item.op_type for item in graph.nodes] == ["Flatten", "Softmax", "Shape", "Reshape"]
    x = data(2, 3, 4)
    flat = np.exp(x.reshape(2, 12))
    np.testing.assert_allclose(
        run(graph, x)[0], (flat / flat.sum(1, keepdims=True)).reshape(x.shape), rtol=1e-5
    )


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_squeeze_and_unsqueeze(opset):
    if opset < 13:
        nodes = [node("Squeeze", "x", "a", axes=[0]), node("Unsqueeze", "a", "y", axes=[1, 3])]
        constants = {}
    else:
        nodes = [node("Squeeze", "x one", "a"), node("Unsqueeze", "a two", "y")]
        constants = {"one": np.array([0]), "two": np.array([1, 3])}
    graph = check(model(nodes, [value("x", (1, 3, 4))], ["y"], constants, opset), data(1, 3, 4))
    assert all(item.input_count == 2 for item in graph.nodes)
    assert graph.outputs[0].shape == (3, 1, 4, 1)


@in_one("opset", [7, 11, 13, 17])
@in_one("op_type", ["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp", "ReduceProd"])
@in_one("axes", [None, [1], [0, 2]])
def test_reductions(op_type, opset, axes):
    if op_type == "ReduceSum" and opset >= 13 and axes is not None:
        proto = one(op_type, (2, 3, 4), opset, extra="axes", constants={"axes": np.array(axes)}, keepdims=0)
    else:
        proto = one(op_type, (2, 3, 4), opset, keepdims=0, **({} if axes is None else {"axes": axes}))
    check(proto, data(2, 3, 4))


@pytest.mark.parametrize("opset", [7, 11, 13, 18])
def test_split(opset):
    equal = {"num_outputs": 2} if opset >= 18 else {}
    graph = check(one("Split", (4, 6), opset, outputs="a b", axis=1, **equal), data(4, 6))
    assert graph.nodes[0].attributes["num_outputs"] == 2
    if opset < 13:
        check(one("Split", (4, 6), opset, outputs="a b", axis=1, split=[2, 4]), data(4, 6))


@pytest.mark.parametrize("opset", [7, 9])
def test_slice_with_attributes(opset):
    check(one("Slice", (4, 6, 5), opset, starts=[1, -3], ends=[3, 100], axes=[0, 2]), data(4, 6, 5))
    check(one("Slice", (4, 6, 5), opset, starts=[1], ends=[3]), data(4, 6, 5))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad_with_attributes(mode):
    check(one("Pad", (2, 3, 4), 9, pads=[0, 1, 2, 0, 1, 1], mode=mode, value=1.5), data(2, 3, 4))


@pytest.mark.parametrize("bounds", [{}, {"min": -0.5}, {"max": 0.5}, {"min": -0.5, "max": 0.5}])
def test_clip_with_attributes(bounds):
    check(one("Clip", (2, 3), 7, **bounds), data(2, 3))


@pytest.mark.parametrize("opset", [7, 10, 12])
def test_dropout_is_the_identity(opset):
    proto = one("Dropout", (2, 3), opset, **({"ratio": 0.3} if opset < 12 else {}))
    x = data(2, 3)
    np.testing.assert_array_equal(run(load_onnx(proto, opset=default_opset()), x)[0], x)


@pytest.mark.parametrize("opset", [7, 10, 11])
def test_top_k(opset):
    old = opset < 10
    nodes = [
        node("TopK", "x" if old else "x k", "v i", **({"k": 3} if old else {})),
        node("Cast", "i", "f", to=1),
    ]
    check(
        model(nodes, [value("x", (3, 8))], ["v", "f"], {} if old else {"k": np.array([3])}, opset), data(3, 8)
    )


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("opset", [7, 9, 10])
def test_upsample_and_resize_10(mode, opset):
    scales = [1.0, 1.0, 2.0, 1.5] if mode == "nearest" else [1.0, 1.0, 2.0, 2.0]
    if opset == 7:
        proto = one("Upsample", (1, 2, 4, 6), 7, mode=mode, scales=scales)
    else:
        op_type = "Upsample" if opset == 9 else "Resize"
        proto = one(
            op_type, (1, 2, 4, 6), opset, extra="s", constants={"s": np.array(scales, np.float32)}, mode=mode
        )
    graph = check(proto, data(1, 2, 4, 6))
    assert graph.nodes[0].op_type == "Resize"


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_resize_with_empty_inputs(opset):
    constants = {"roi": np.zeros(0, np.float32), "s": np.array([1, 1, 2, 2], np.float32)}
    graph = check(
        one("Resize", (1, 2, 4, 6), opset, extra="roi s", constants=constants, mode="linear"),
        data(1, 2, 4, 6),
    )
    assert graph.nodes[0].inputs[1] is None


@pytest.mark.parametrize("opset", [7, 9, 14])
def test_batch_normalization(opset):
    constants = {name: np.abs(data(3, seed=seed)) + 0.1 for seed, name in enumerate("abmv")}
    check(one("BatchNormalization", (2, 3, 4), opset, extra="a b m v", constants=constants), data(2, 3, 4))


def test_batch_normalization_forms_without_an_equal():
    constants = {name: np.ones(3, np.float32) for name in "abmv"}
    training = one(
        "BatchNormalization", (2, 3, 4), 9, outputs="y m1 v1", extra="a b m v", constants=constants
    )
    with pytest.raises(GraphError, match=r"node 'y' \(BatchNormalization\) is in training form"):
        load_onnx(training, opset=default_opset())
    with pytest.raises(GraphError, match="has spatial = 0"):
        load_onnx(
            one("BatchNormalization", (2, 3, 4), 7, extra="a b m v", constants=constants, spatial=0),
            opset=default_opset(),
        )


def test_group_normalization_18_spreads_the_parameters_of_a_group():
    constants = {"s": np.array([1.0, 3.0], np.float32), "b": np.array([0.0, 1.0], np.float32)}
    graph = load_onnx(
        one("GroupNormalization", (2, 4, 5), 18, extra="s b", constants=constants, num_groups=2),
        opset=default_opset(),
    )
    x = data(2, 4, 5)
    grouped = x.reshape(2, 2, 10)
    normal = (grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 1e-5)
    wanted = normal * constants["s"][None, :, None] + constants["b"][None, :, None]
    np.testing.assert_allclose(run(graph, x)[0], wanted.reshape(x.shape), rtol=1e-4, atol=1e-5)


def test_roi_align_10_has_no_half_pixel():
    nodes = [node("RoiAlign", "x r i", "y", output_height=2, output_width=2, sampling_ratio=2)]
    constants = {"r": np.array([[0.5, 0.5, 4.0, 4.5]], np.float32), "i": np.array([0])}
    check(model(nodes, [value("x", (1, 1, 6, 6))], ["y"], constants, 10), data(1, 1, 6, 6))


def test_scatter_was_renamed():
    constants = {"i": np.array([[1, 0]]), "u": np.array([[9.0, 8.0]], np.float32)}
    graph = check(one("Scatter", (3, 2), 9, extra="i u", constants=constants), data(3, 2))
    assert graph.nodes[0].op_type == "ScatterElements"


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_grid_sample_16_names(mode):
    proto = model(
        [node("GridSample", "x g", "y", mode=mode)],
        [value("x", (1, 2, 4, 4)), value("g", (1, 3, 3, 2))],
        ["y"],
        opset=16,
    )
    check(proto, data(1, 2, 4, 4), np.tanh(data(1, 3, 3, 2, seed=1)), rtol=1e-4, atol=1e-5)


def test_dft_17_axis():
    proto = one("DFT", (1, 6, 4, 1), 17, axis=2)
    x = data(1, 6, 4, 1)
    wanted = np.fft.fft(x[..., 0], axis=2)
    found = run(load_onnx(proto, opset=default_opset()), x)[0]
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
def test_old_variadic_operators(op_type):
    proto = model([node(op_type, "x z", "y")], [value("x", (2, 3)), value("z", (2, 3))], ["y"], opset=7)
    check(proto, data(2, 3), data(2, 3, seed=1))


@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_recurrent_operators_before_layout(op_type):
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op_type]
    constants = {"w": data(1, gates * 5, 3) * 0.3, "r": data(1, gates * 5, 5, seed=1) * 0.3}
    check(
        one(op_type, (4, 2, 3), 7, outputs="y h", extra="w r", constants=constants, hidden_size=5),
        data(4, 2, 3),
        rtol=1e-4,
        atol=1e-5,
    )
