"""Each operator in the last form before a change and in the first one after it; what has no newer form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from ascendsim.core.errors import GraphError, UnsupportedTypeError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.frontends.onnx.batch_change import BatchAxis, preferred, reshaped
from ascendsim.ops import default_opset
from tests.support.onnx_models import model, node, run, value
from tests.unit.test_onnx_upgrade import check, data, one

SCALES = {"s": np.array([1, 1, 2, 2], np.float32)}
ROIS = {"r": np.array([[0.5, 0.5, 4.0, 4.5]], np.float32), "i": np.array([0])}
NORM = {name: np.abs(data(3, seed=seed)) + 0.1 for seed, name in enumerate("abmv")}
FORMS: dict[str, Any] = {
    "Squeeze 12": one("Squeeze", (1, 3, 1), 12, axes=[2]),
    "Squeeze 13": one("Squeeze", (1, 3, 1), 13, extra="a", constants={"a": np.array([2])}),
    "Squeeze of all": one("Squeeze", (1, 3, 1), 12),
    "Unsqueeze 12": one("Unsqueeze", (3, 4), 12, axes=[0, 2]),
    "Unsqueeze 13": one("Unsqueeze", (3, 4), 13, extra="a", constants={"a": np.array([0, 2])}),
    "ReduceSum 12": one("ReduceSum", (2, 3, 4), 12, axes=[1]),
    "ReduceSum 13": one("ReduceSum", (2, 3, 4), 13, extra="a", constants={"a": np.array([1])}),
    **{
        f"{kind} {opset}": one(kind, (2, 3, 4), opset, axes=[1, -1])
        if opset < 18
        else one(kind, (2, 3, 4), opset, extra="a", constants={"a": np.array([1, -1])})
        for kind in (
            "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
            "ReduceSumSquare",
        )
        for opset in (17, 18)
    },
    "ReduceLogSum 17": model(
        [node("Abs", "x", "p"), node("ReduceLogSum", "p", "y", axes=[0])], [value("x", (2, 3))], ["y"],
        opset=17,
    ),
    "Split 12": one("Split", (4, 6), 12, outputs="a b", axis=1, split=[2, 4]),
    "Split 13": one("Split", (4, 6), 13, "a b", "s", {"s": np.array([1, 3])}),
    "Split in equal parts 17": one("Split", (4, 6), 17, outputs="a b c", axis=1),
    "Split in equal parts 18": one("Split", (4, 6), 18, outputs="a b c", axis=1, num_outputs=3),
    "Split in parts 18": one("Split", (4, 6), 18, "a b", "s", {"s": np.array([1, 3])}),
    "Slice 9": one("Slice", (4, 6, 5), 9, starts=[1, -3], ends=[3, 100], axes=[0, 2]),
    "Slice 10": one(
        "Slice", (4, 6), 10, "y", "s e", {"s": np.array([1, 2]), "e": np.array([3, 100])}
    ),
    "Pad 10": one("Pad", (2, 3), 10, pads=[0, 1, 2, 0], value=1.5),
    "Pad 10 as it is": one("Pad", (2, 3), 10, pads=[0, 1, 2, 0]),
    "Pad 11": one("Pad", (2, 3), 11, "y", "p v", {"p": np.array([0, 1, 2, 0]), "v": np.float32(2)}),
    "Clip 10": one("Clip", (2, 3), 10, min=-0.5, max=0.25),
    "Clip 11": one("Clip", (2, 3), 11, "y", "l", {"l": np.float32(-0.5)}),
    "TopK 9": model(
        [node("TopK", "x", "v i", k=3), node("Cast", "i", "f", to=1)], [value("x", (3, 8))], ["v", "f"],
        opset=9,
    ),
    "Upsample 8": one("Upsample", (1, 2, 4, 6), 8, scales=[1.0, 1.0, 2.0, 1.5]),
    "Upsample 9": one("Upsample", (1, 2, 4, 6), 9, "y", "s", SCALES, mode="linear"),
    "Resize 10": one("Resize", (1, 2, 4, 6), 10, "y", "s", {"s": np.array([1, 1, 0.5, 1.5], np.float32)}),
    "Resize 11": one(
        "Resize", (1, 2, 4, 6), 11, "y", "roi s", {**SCALES, "roi": np.zeros(0, np.float32)}, mode="linear"
    ),
    "Softmax 12": one("Softmax", (2, 3, 4), 12),
    "Softmax 13": one("Softmax", (2, 3, 4), 13),
    "LogSoftmax 12": one("LogSoftmax", (2, 3, 4), 12, axis=0),
    "Hardmax 12": one("Hardmax", (2, 3, 4), 12, axis=-2),
    "BatchNormalization 13": one("BatchNormalization", (2, 3, 4), 13, "y", "a b m v", NORM, epsilon=0.1),
    "BatchNormalization 14": one("BatchNormalization", (2, 3, 4), 14, "y", "a b m v", NORM),
    "BatchNormalization 8": one("BatchNormalization", (2, 3, 4), 8, "y", "a b m v", NORM, spatial=1),
    **{
        f"RoiAlign {opset}": model(
            [node("RoiAlign", "x r i", "y", output_height=2, output_width=3, sampling_ratio=2)],
            [value("x", (1, 1, 6, 6))], ["y"], ROIS, opset,
        )
        for opset in (15, 16)
    },
    "Scatter 10": one(
        "Scatter", (3, 2), 10, "y", "i u", {"i": np.array([[1, 0]]), "u": np.float32([[9.0, 8.0]])}
    ),
}  # fmt: skip


def inputs_of(proto: Any) -> list[Any]:
    shapes = [[dim.dim_value for dim in item.type.tensor_type.shape.dim] for item in proto.graph.input]
    return [data(*shape, seed=number) for number, shape in enumerate(shapes)]


@pytest.mark.parametrize("name", FORMS)
def test_forms_at_both_sides_of_a_change(name: str) -> None:
    check(FORMS[name], *inputs_of(FORMS[name]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("opset", "mode"), [(16, "bilinear"), (19, "bilinear"), (19, "nearest"), (20, "linear")]
)
def test_modes_of_grids_had_other_names_until_20(opset: int, mode: str) -> None:
    proto = model(
        [node("GridSample", "x g", "y", mode=mode)],
        [value("x", (1, 2, 4, 4)), value("g", (1, 3, 3, 2))], ["y"], opset=opset,
    )  # fmt: skip
    graph = load_onnx(proto, opset=default_opset())
    assert graph.nodes[0].attr("mode") == ("nearest" if mode == "nearest" else "linear")
    check(proto, data(1, 2, 4, 4), np.tanh(data(1, 3, 3, 2, seed=1)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [None, 2, 3])
def test_the_axis_of_a_transform_was_an_attribute_until_20(axis: int | None) -> None:
    for opset in (17, 19, 20):
        names = "x" if opset < 20 else "x n a"
        constants = {} if opset < 20 else {"n": np.array(4), "a": np.array(1 if axis is None else axis)}
        more = {} if axis is None or opset >= 20 else {"axis": axis}
        if opset < 20:
            names, constants = "x n", {"n": np.array(4)}
        proto = model(
            [node("DFT", names, "y", **more)], [value("x", (1, 5, 4, 6, 1))], ["y"], constants, opset
        )
        x = data(1, 5, 4, 6, 1)
        wanted = np.fft.fft(x[..., 0], n=4, axis=1 if axis is None else axis)
        (found,) = run(load_onnx(proto, opset=default_opset()), x)
        np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("opset", "spread"), [(18, True), (20, True), (21, False)])
def test_norms_of_groups_hold_one_number_a_channel_since_21(opset: int, spread: bool) -> None:
    scale = np.array([1.0, 3.0] if spread else [1.0, 1.0, 3.0, 3.0], np.float32)
    proto = one(
        "GroupNormalization",
        (2, 4, 5),
        opset,
        "y",
        "s b",
        {"s": scale, "b": scale - 1},
        num_groups=2,
        epsilon=0.1,
    )
    x = data(2, 4, 5)
    grouped = x.reshape(2, 2, 10)
    normal = (grouped - grouped.mean(2, keepdims=True)) / np.sqrt(grouped.var(2, keepdims=True) + 0.1)
    wide = np.repeat(scale, 2) if spread else scale
    wanted = normal.reshape(x.shape) * wide[:, None] + (wide - 1)[:, None]
    (found,) = run(load_onnx(proto, opset=default_opset()), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shape", "groups"), [((2, 4, 5), 3), ((2, 4, 5), 0), ((2, None, 5), 2), (None, 2)])
def test_norms_of_groups_that_cannot_be_spread(shape: Any, groups: int) -> None:
    ones = {name: np.ones(2, np.float32) for name in "sb"}
    proto = model(
        [node("GroupNormalization", "x s b", "y", num_groups=groups)], [value("x", shape)], ["y"], ones, 18
    )
    with pytest.raises(
        GraphError, match="of operator set 18 needs a known number of channels, a multiple of num_gr"
    ):
        load_onnx(proto, opset=default_opset())


def test_scans_of_batches_are_refused_in_their_first_form() -> None:
    body = helper.make_graph(
        [node("Add", "s i", "o"), node("Identity", "o", "c")],
        "body",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2,)) for name in "si"],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, (2,)) for name in "oc"],
    )
    inputs = [value("start", (1, 2)), value("x", (1, 3, 2))]
    scan = helper.make_node("Scan", ["", "start", "x"], ["y", "z"], name="scan", body=body, num_scan_inputs=1)
    with pytest.raises(UnsupportedTypeError, match=r"'scan' \(Scan\) scans a batch of sequences"):
        load_onnx(model([scan], inputs, ["y", "z"], opset=8), opset=default_opset())
    scan = helper.make_node("Scan", ["start", "x"], ["y", "z"], name="scan", body=body, num_scan_inputs=1)
    inputs = [value("start", (2,)), value("x", (3, 2))]
    graph = load_onnx(model([scan], inputs, ["y", "z"], opset=9), opset=default_opset())
    assert graph.outputs[1].shape == (3, 2)


def test_an_input_that_is_missing_is_said() -> None:
    proto = model(
        [onnx.helper.make_node("Resize", ["x"], ["y"], name="r")], [value("x", (1, 2, 4, 4))], ["y"], opset=10
    )
    with pytest.raises(GraphError, match=r"node 'r' \(Resize\) needs input 1"):
        load_onnx(proto, opset=default_opset())


# ---- where a batch may lie


@pytest.mark.parametrize(
    ("shape", "stride", "batch", "wanted"),
    [
        ((2, 64, 12, 64), 64 * 768, 2, [(0, 1)]),
        ((4, 8), 8, 2, [(0, 1)]),
        ((4, 8), 16, 2, [(0, 2)]),
        ((4, 8), 4, 2, [(1, 4)]),
        ((4, 8), 8, 3, []),
        ((1, 6, 1), 1, 6, [(1, 1)]),
        ((4, 0), 8, 2, []),
        ((4, 8), 0, 2, []),
    ],
)
def test_axes_that_can_carry_a_batch(shape: Any, stride: int, batch: int, wanted: Any) -> None:
    assert reshaped(shape, stride, batch) == [BatchAxis(*one) for one in wanted]


@pytest.mark.parametrize(
    ("shape", "candidates", "wanted"),
    [
        ((6, 1, 8), [(0, 1), (1, 1), (2, 8)], [1, 2, 0]),
        ((1, 6, 1), [(0, 6), (0, 1), (2, 1)], [1, 2, 0]),
        ((6, 8), [(0, 1), (1, 8)], [0, 1]),
        ((1, 8), [(1, 8), (0, 2), (0, 1)], [2, 0, 1]),
        ((1, 8, 2), [(1, 8), (0, 2), (0, 1)], [2, 1, 0]),
    ],
)
def test_a_dimension_that_is_the_batch_alone_comes_first(shape: Any, candidates: Any, wanted: Any) -> None:
    axes = [BatchAxis(*one) for one in candidates]
    assert preferred(axes, shape, 1) == [axes[place] for place in wanted]
