"""Caffe's networks, the origin of operators, and files that have no front end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.core.errors import InputError
from ascendsim.frontends.caffe.loading import TEXT_BYTES, _read
from ascendsim.frontends.caffe.messages import net_class
from ascendsim.frontends.caffe.old_layers import V1_TYPES
from ascendsim.graph.text import to_text
from tests.support.caffe_nets import NETWORKS, Net
from tests.support.fusing import random

LENET = "tests/data/caffe/lenet.prototxt"
RNG = np.random.default_rng(3)


def written(
    tmp_path: Path, text: str, weights: dict[str, list[Any]] | None = None, old: bool = False
) -> Path:
    """A prototxt, and beside it a caffemodel if weights are given."""
    path = tmp_path / "net.prototxt"
    path.write_text(text)
    if weights is not None:
        net = net_class()()
        for name, arrays in weights.items():
            layer = (net.layers if old else net.layer).add(name=name)
            for array in arrays:
                blob = layer.blobs.add()
                blob.data.extend(np.asarray(array, np.float32).ravel().tolist())
                blob.shape.dim.extend(np.shape(array))
        path.with_suffix(".caffemodel").write_bytes(net.SerializeToString())
    return path


def run(path: Path, x: Any) -> Any:
    graph = asim.load(path, weight=path.with_suffix(".caffemodel"))
    (result,) = asim.run(asim.compile(graph), {"data": x}, values="float32").outputs.values()
    return result


def windows(x: Any, size: int, stride: int, pad: int) -> Any:
    """Caffe's average pooling by hand: sizes round up, padding counts, what lies beyond it does not."""
    n, c, h, w = x.shape
    side = -(-(h + 2 * pad - size) // stride) + 1
    side -= pad > 0 and (side - 1) * stride >= h + pad
    out = np.zeros((n, c, side, side))
    for row in range(side):
        for column in range(side):
            top, left = row * stride - pad, column * stride - pad
            below, right = min(top + size, h + pad), min(left + size, w + pad)
            part = x[:, :, max(top, 0) : min(below, h), max(left, 0) : min(right, w)]
            out[:, :, row, column] = part.sum((2, 3)) / ((below - top) * (right - left))
    return out


@pytest.mark.parametrize(
    ("size", "stride", "pad", "side"), [(3, 2, 0, 8), (3, 2, 1, 9), (2, 3, 1, 7), (2, 2, 0, 7)]
)
def test_averages_are_caffes(tmp_path: Path, size: int, stride: int, pad: int, side: int) -> None:
    net = Net("pool", 1, 2, side, side)
    net.pool("pool", size, stride, f"pool: AVE pad: {pad}")
    path = written(tmp_path, "\n".join(net.lines), {"unused": [[1.0]]})
    x = random(1, 2, side, side)
    np.testing.assert_allclose(run(path, x), windows(x.astype(np.float64), size, stride, pad), atol=1e-5)


@pytest.mark.parametrize("old", [False, True])
def test_a_network_with_weights_computes_what_caffe_documents(tmp_path: Path, old: bool) -> None:
    """Statistics are sums over a factor, Scale has a bias, ReLU and Scale write over what they read."""
    net = Net("small", 2, 3, 4, 4)
    net.conv("conv", 5, 1, "bias_term: false", relu=False)
    net.add("BatchNorm", "bn", "batch_norm_param { eps: 0.001 }", "conv", "conv")
    net.add("Scale", "scale", "scale_param { bias_term: true }", "conv", "conv")
    net.add("ReLU", "relu", "relu_param { negative_slope: 0.25 }", "conv", "conv")
    net.add("Power", "power", "power_param { scale: 0.5 shift: 2 power: 2 }")
    net.add("InnerProduct", "ip", "inner_product_param { num_output: 6 }")
    w, mean, variance = random(5, 3, 1, 1), random(5, seed=1), random(5, seed=2, positive=True)
    gamma, beta, dense, bias = (
        random(5, seed=3),
        random(5, seed=4),
        random(6, 80, seed=5) / 9,
        random(6, seed=6),
    )
    weights = {"conv": [w], "bn": [mean, variance, [4.0]], "scale": [gamma, beta], "ip": [dense, bias]}
    path = written(tmp_path, "\n".join(net.lines), weights, old)
    x = random(2, 3, 4, 4, seed=7)
    y = np.einsum("mc,nchw->nmhw", w[:, :, 0, 0], x)
    column = (slice(None), None, None)
    y = (y - (mean / 4)[column]) / np.sqrt(variance / 4 + 0.001)[column] * gamma[column] + beta[column]
    y = (np.where(y < 0, 0.25 * y, y) * 0.5 + 2) ** 2
    np.testing.assert_allclose(run(path, x), y.reshape(2, -1) @ dense.T + bias, rtol=2e-4, atol=2e-4)


def test_layers_of_several_blobs(tmp_path: Path) -> None:
    net = Net("blobs", 1, 6, 2, 2)
    net.lines.append(
        'layer { name: "cut" type: "Slice" bottom: "data" top: "a" top: "b" slice_param { slice_point: 2 } }'
    )
    net.add("Permute", "turned", "permute_param { order: 0 order: 2 order: 3 order: 1 }", "b")
    net.add("Reshape", "flat", "reshape_param { shape { dim: 0 dim: -1 } }")
    net.add("Flatten", "side", bottom="a")
    net.add("Concat", "joined", bottom=("flat", "side"))
    net.add("Eltwise", "sum", "eltwise_param { coeff: 1 coeff: -2 }", ("joined", "joined"))
    net.add("Reduction", "total", "reduction_param { operation: SUMSQ axis: 1 coeff: 0.5 }")
    path = written(tmp_path, "\n".join(net.lines), {"unused": [[1.0]]})
    x = random(1, 6, 2, 2)
    joined = np.concatenate([x[:, 2:].transpose(0, 2, 3, 1).ravel(), x[:, :2].ravel()])
    np.testing.assert_allclose(run(path, x), [0.5 * (joined**2).sum()], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "products", "million"),
    [("alexnet", 8, 61), ("vgg16", 16, 138), ("googlenet", 58, 7), ("resnet50", 54, 26)],
)
def test_classic_networks_have_their_structure(
    tmp_path: Path, name: str, products: int, million: int
) -> None:
    graph = asim.load(written(tmp_path, NETWORKS[name]()))
    kinds = [node.op_type for node in graph.nodes]
    assert sum(kind in ("Conv", "Gemm") for kind in kinds) == products
    weights = sum(t.elements for t in graph.constants if t.constant and not t.constant.available)
    assert round(weights / 1e6) == million
    assert graph.outputs[0].static_shape == (1, 1000)
    assert {node.origin["framework"] for node in graph.nodes} == {"caffe"}


V1_NAMES = {
    "Convolution": "CONVOLUTION", "ReLU": "RELU", "LRN": "LRN", "Pooling": "POOLING", "Dropout": "DROPOUT",
    "InnerProduct": "INNER_PRODUCT", "Softmax": "SOFTMAX", "Concat": "CONCAT",
}  # fmt: skip


@pytest.mark.parametrize("name", ["alexnet", "vgg16", "googlenet"])
def test_classic_networks_as_they_were_published(tmp_path: Path, name: str) -> None:
    """In layers of 2014: the same graph."""
    new = NETWORKS[name]()
    old = re.sub(r'type: "(\w+)"', lambda kind: f"type: {V1_NAMES[kind[1]]}", new).replace(
        "layer {", "layers {"
    )
    assert to_text(asim.load(written(tmp_path, old))) == to_text(asim.load(written(tmp_path, new)))


# caffe.proto, V1LayerParameter.LayerType, from 0 on
V1_NUMBERS = (
    "NONE", "ACCURACY", "BNLL", "CONCAT", "CONVOLUTION", "DATA", "DROPOUT", "EUCLIDEAN_LOSS",
    "FLATTEN", "HDF5_DATA", "HDF5_OUTPUT", "IM2COL", "IMAGE_DATA", "INFOGAIN_LOSS", "INNER_PRODUCT",
    "LRN", "MULTINOMIAL_LOGISTIC_LOSS", "POOLING", "RELU", "SIGMOID", "SOFTMAX", "SOFTMAX_LOSS",
    "SPLIT", "TANH", "WINDOW_DATA", "ELTWISE", "POWER", "SIGMOID_CROSS_ENTROPY_LOSS", "HINGE_LOSS",
    "MEMORY_DATA", "ARGMAX", "THRESHOLD", "DUMMY_DATA", "SLICE", "MVN", "ABSVAL", "SILENCE",
    "CONTRASTIVE_LOSS", "EXP", "DECONVOLUTION",
)  # fmt: skip


def test_types_of_2014_have_caffes_numbers() -> None:
    """Names of today are those of the list in other spelling, but for one."""
    plain = {number: name.replace("_", "").lower() for number, name in enumerate(V1_NUMBERS) if number}
    plain[V1_NUMBERS.index("SOFTMAX_LOSS")] = "softmaxwithloss"
    assert {number: name.lower() for number, name in V1_TYPES.items()} == plain


def test_a_prototxt_has_at_most_16_mib(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    for more in (0, 1):
        with path.open("wb") as file:
            file.truncate((16 << 20) + more)
        if not more:
            assert len(_read(path, "file", TEXT_BYTES)) == 16 << 20
    with pytest.raises(InputError, match="must have at most 16 MiB"):
        asim.load(path)


V0 = """name: "first" input: "data" input_dim: 1 input_dim: 4 input_dim: 9 input_dim: 9
layers { layer { name: "pad" type: "padding" pad: 2 } bottom: "data" top: "padded" }
layers { layer { name: "conv" type: "conv" num_output: 6 kernelsize: 3 stride: 2 group: 2 biasterm: false
    weight_filler { type: "gaussian" } blobs_lr: 1. } bottom: "padded" top: "conv" }
layers { layer { name: "act" type: "relu" } bottom: "conv" top: "conv" }
layers { layer { name: "norm" type: "lrn" local_size: 3 alpha: 0.5 beta: 0.25 } bottom: "conv" top: "norm" }
layers { layer { name: "pool" type: "pool" pool: AVE kernelsize: 3 stride: 2 } bottom: "norm" top: "pool" }
layers { layer { name: "both" type: "concat" } bottom: "pool" bottom: "pool" top: "both" }
layers { layer { name: "ip" type: "innerproduct" num_output: 5 } bottom: "both" top: "ip" }
layers { layer { name: "loss" type: "softmax_loss" } bottom: "ip" bottom: "label" }"""
TODAY = """name: "first" input: "data" input_dim: 1 input_dim: 4 input_dim: 9 input_dim: 9
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
    convolution_param { num_output: 6 kernel_size: 3 stride: 2 pad: 2 group: 2 bias_term: false } }
layer { name: "act" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "norm" type: "LRN" bottom: "conv" top: "norm"
    lrn_param { local_size: 3 alpha: 0.5 beta: 0.25 } }
layer { name: "pool" type: "Pooling" bottom: "norm" top: "pool"
    pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "both" type: "Concat" bottom: "pool" bottom: "pool" top: "both" }
layer { name: "ip" type: "InnerProduct" bottom: "both" top: "ip" inner_product_param { num_output: 5 } }"""


def test_the_first_form_of_layers(tmp_path: Path) -> None:
    """V0: all parameters side by side, padding a layer of its own, weights inside the inner layer."""
    weights = {"conv": random(6, 2, 3, 3), "ip": random(5, 108, seed=1), "bias": random(5, seed=2)}
    net = net_class()()
    for name, blobs in (("conv", ["conv"]), ("ip", ["ip", "bias"])):
        layer = net.layers.add().layer
        layer.name = name
        for blob in blobs:
            layer.blobs.add().data.extend(weights[blob].ravel().tolist())
    x = random(1, 4, 9, 9)
    path = written(tmp_path, V0)
    path.with_suffix(".caffemodel").write_bytes(net.SerializeToString())
    first = run(path, x)
    today = run(
        written(tmp_path, TODAY, {"conv": [weights["conv"]], "ip": [weights["ip"], weights["bias"]]}), x
    )
    np.testing.assert_array_equal(first, today)


def test_lenet_runs_with_another_batch() -> None:
    graph = asim.load(LENET, batch=2, weights="random")
    model = asim.compile(graph)
    (result,) = asim.run(model, asim.random_inputs(model)).outputs.values()
    assert result.shape == (2, 10)
    np.testing.assert_allclose(result.sum(1), 1, atol=0.01)


def test_rules_ask_where_operators_come_from(tmp_path: Path) -> None:
    """Tuning guide: "a reduction of Caffe cannot be fused, one of TensorFlow can"; and Caffe's Pooling has a
    pass of its own."""
    net = Net("origin", 1, 32, 14, 14)
    net.pool("pool", 3, 1, "pool: AVE")
    net.add("Reduction", "mean", "reduction_param { operation: MEAN axis: 1 }")
    net.add("TanH", "tanh")
    net.add("Power", "half", "power_param { scale: 0.5 }")
    model = asim.compile(asim.load(written(tmp_path, "\n".join(net.lines))))
    assert model.fusion.totals("graph")["PoolingFusionPass"] == (1, 1)
    assert "AvgPoolFusionPass" not in model.fusion.totals("graph")
    reasons = {refusal.reason for record in model.fusion.records for refusal in record.refusals}
    assert any("a reduction of Caffe cannot be fused" in reason for reason in reasons)


@pytest.mark.parametrize("framework", ["caffe", "tensorflow", "mindspore"])
def test_an_onnx_file_may_come_from_elsewhere(framework: Any) -> None:
    graph = asim.load("tests/data/models/lenet5.onnx", framework=framework)
    assert {node.origin["framework"] for node in graph.nodes} == {framework}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: 3 {", "is no prototxt"),
        ('name: "empty"', "has no layers"),
        ('layers { name: "x" }', "layer 'x' needs a type of Caffe's list, not 0"),
        (
            'layers { layer { name: "x" type: "interp" } }',
            "layer 'x' must be one of accuracy, .* not 'interp'",
        ),
        ('layer { name: "x" }\nlayers { name: "x" type: TANH }', "must have layers of one form"),
        (
            'layers { layer { name: "p" type: "padding" pad: 1 } bottom: "x" top: "q" }\n'
            'layers { layer { name: "r" type: "relu" } bottom: "q" top: "r" }',
            "must be conv or pool to read a padded blob, not ReLU",
        ),
        ('layer { name: "d" type: "Data" top: "data" }', "reads data of its own"),
        (
            'input: "x"\ninput_shape { dim: 1 }\nlayer { name: "l" type: "Threshold" bottom: "x" }',
            "must be one of",
        ),
        (
            'input: "x"\ninput_shape { dim: 1 }\nlayer { name: "l" type: "TanH" bottom: "y" }',
            "reads a blob that no",
        ),
        ('input: "x"\nlayer { name: "l" type: "TanH" bottom: "x" }', "needs one shape for each input"),
        (
            'input: "x"\ninput_dim: 1 input_dim: 3 input_dim: 4 input_dim: 4\n'
            'layer { name: "l" type: "Convolution" bottom: "x" '
            "convolution_param { num_output: 2 kernel_size: 9 } }",
            "larger than its input",
        ),
    ],
)
def test_wrong_prototxts(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        asim.load(written(tmp_path, text))


def test_wrong_weights(tmp_path: Path) -> None:
    net = Net("w", 1, 3, 4, 4)
    net.dense("ip", 2, relu=False)
    path = written(tmp_path, "\n".join(net.lines), {"ip": [random(2, 47), random(2)]})
    weight = path.with_suffix(".caffemodel")
    with pytest.raises(InputError, match="layer 'ip' needs 96 numbers as blob 0, not 94"):
        asim.load(path, weight=weight)
    weight.write_bytes(b"\xff\xff nothing")
    with pytest.raises(InputError, match="is no caffemodel, or is truncated"):
        asim.load(path, weight=weight)
    with pytest.raises(InputError, match="holds the weights of a network alone"):
        asim.load(weight)
    with pytest.raises(InputError, match="option weight goes with a prototxt"):
        asim.load("tests/data/models/lenet5.onnx", weight=weight)


@pytest.mark.parametrize(
    ("suffix", "message"),
    [("pb", "python -m tf2onnx.convert --graphdef net.pb"), ("air", 'file_format="MINDIR"')],
)
def test_files_without_a_front_end_say_how_they_are_converted(
    tmp_path: Path, suffix: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"net.{suffix}"
    path.write_bytes(b"\x08\x01")
    assert main(["compile", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_atcs_command_line_for_caffe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Net("line", 1, 3, 4, 4)
    net.dense("ip", 2, relu=False)
    path = written(tmp_path, "\n".join(net.lines), {"ip": [random(2, 48), random(2)]})
    line = ["compile", "--model", str(path), "--weight", str(path.with_suffix(".caffemodel"))]
    assert main([*line, "--framework", "0", "--soc_version", "Ascend310"]) == 0
    assert "ip" in capsys.readouterr().out
    assert main([*line, "--framework", "5"]) == 2
    assert "must be caffe for a file .prototxt" in capsys.readouterr().err
