"""What of a prototxt becomes part of the network: phases, inputs, names of blobs, weights in either
precision, and the old forms of layers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.frontends.caffe.loading import read_caffe
from ascendsim.frontends.caffe.messages import net_class
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate
from tests.support.fusing import random
from tests.unit.test_frontend_caffe import written

HEAD = 'name: "n" input: "data" input_shape { dim: 2 dim: 3 dim: 4 dim: 4 }\n'


def kinds(folder: Path, *layers: str, head: str = HEAD) -> list[str]:
    return [node.op_type for node in read_caffe(written(folder, head + "\n".join(layers))).graph.node]


def layer(kind: str, more: str = "", name: str = "l", bottom: str = "data", top: str = "y") -> str:
    return f'layer {{ name: "{name}" type: "{kind}" bottom: "{bottom}" top: "{top}" {more} }}'


@pytest.mark.parametrize(
    ("rule", "runs"),
    [
        ("", True),
        ("include { phase: TEST }", True),
        ("include { phase: TRAIN }", False),
        ("include { phase: TRAIN } include { phase: TEST }", True),
        ("exclude { phase: TEST }", False),
        ("exclude { phase: TRAIN }", True),
        ("include { min_level: 1 }", True),
        ("exclude { min_level: 1 }", True),
        ("include { phase: TEST } exclude { phase: TEST }", False),
    ],
)
@pytest.mark.parametrize("old", [False, True])
def test_layers_of_the_test_phase_run(tmp_path: Path, rule: str, runs: bool, old: bool) -> None:
    layers = [layer("TanH", rule), layer("Sigmoid", name="m", top="z")]
    if old:
        layers = [
            text.replace("layer {", "layers {").replace('"TanH"', "TANH").replace('"Sigmoid"', "SIGMOID")
            for text in layers
        ]
    assert kinds(tmp_path, *layers) == (["Tanh", "Sigmoid"] if runs else ["Sigmoid"])


def test_what_only_training_needs_is_left_out(tmp_path: Path) -> None:
    labels = 'layer { name: "a" type: "Accuracy" bottom: "y" bottom: "label" top: "a" }'
    loss = 'layer { name: "b" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "b" }'
    assert kinds(tmp_path, layer("TanH"), labels, loss) == ["Tanh"]


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (
            'input: "data" input_shape { dim: 2 dim: 0 }\n',
            r"input 'data' needs positive dimensions, not \[2, 0\]",
        ),
        ('input: "data" input_shape { }\n', "input 'data' needs positive dimensions"),
        ('input: "data" input_shape { dim: -1 dim: 3 }\n', "input 'data' needs positive dimensions"),
        ('input: "data" input: "more" input_shape { dim: 1 }\n', "needs one shape for each input, not 1"),
        (
            'input: "data" input_dim: 1 input_dim: 2 input_dim: 3 input_dim: 4 input_dim: 5\n',
            "needs one shape",
        ),
    ],
)
def test_inputs_have_sizes(tmp_path: Path, head: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        kinds(tmp_path, layer("TanH"), head=head)


def test_inputs_may_be_layers_and_sizes_a_list(tmp_path: Path) -> None:
    two = (
        'layer { name: "i" type: "Input" top: "data" top: "more" input_param { shape { dim: 1 dim: 3 } '
        "shape { dim: 1 dim: 3 } } }\n"
    )
    both = 'layer { name: "l" type: "Eltwise" bottom: "data" bottom: "more" top: "y" }'
    model = read_caffe(written(tmp_path, two + both))
    assert [item.name for item in model.graph.input] == ["data", "more"]
    assert model.graph.name == "caffe"
    dims = " ".join(f"input_dim: {dim}" for dim in (2, 3, 4, 5, 1, 3, 4, 5))
    head = f'name: "n" input: "data" input: "more" {dims}\n'
    model = read_caffe(
        written(tmp_path, head + layer("TanH") + layer("TanH", name="m", bottom="more", top="z"))
    )
    shapes = [[dim.dim_value for dim in item.type.tensor_type.shape.dim] for item in model.graph.input]
    assert shapes == [[2, 3, 4, 5], [1, 3, 4, 5]]
    assert model.graph.name == "n"
    assert [item.name for item in model.graph.output] == ["y", "z"]


def test_blobs_that_are_written_over_keep_the_last_name(tmp_path: Path) -> None:
    """In place: readers that follow see what was written last; a layer without a top is named by itself."""
    over = [
        layer("TanH", top="y"),
        layer("Sigmoid", name="m", bottom="y", top="y"),
        layer("AbsVal", name="k", bottom="y", top="z"),
    ]
    model = read_caffe(written(tmp_path, HEAD + "\n".join(over)))
    assert [list(node.output) for node in model.graph.node] == [["y"], ["y_m"], ["z"]]
    assert list(model.graph.node[2].input) == ["y_m"]
    assert [item.name for item in model.graph.output] == ["z"]
    bare = 'layer { name: "bare" type: "TanH" bottom: "data" }'
    model = read_caffe(written(tmp_path, HEAD + bare))
    assert [item.name for item in model.graph.output] == ["bare"]


def test_a_network_that_computes_nothing_is_refused(tmp_path: Path) -> None:
    split = 'layer { name: "s" type: "Split" bottom: "data" top: "a" top: "b" }'
    with pytest.raises(InputError, match="computes nothing; give a network with layers"):
        kinds(tmp_path, split)
    with pytest.raises(
        InputError, match=r"layer 'd' \(DummyData\) reads data of its own; replace it with an Input"
    ):
        kinds(tmp_path, 'layer { name: "d" type: "DummyData" top: "x" }')


DENSE = layer("InnerProduct", "inner_product_param { num_output: 2 }", name="ip")


def _weights(folder: Path, double: bool, *names: str) -> tuple[Path, Any]:
    path = written(folder, HEAD + DENSE)
    net, arrays = net_class()(), (random(2, 48), random(2, seed=1))
    for name in names:
        held = net.layer.add(name=name)
        for array in arrays:
            blob = held.blobs.add()
            (blob.double_data if double else blob.data).extend(array.ravel().tolist())
    net.layer.add(name="nothing")
    path.with_suffix(".caffemodel").write_bytes(net.SerializeToString())
    return path, arrays


@pytest.mark.parametrize("double", [False, True])
def test_weights_are_of_either_precision(tmp_path: Path, double: bool) -> None:
    path, (w, b) = _weights(tmp_path, double, "other", "ip")
    graph: Graph = asim.load(path, weight=path.with_suffix(".caffemodel"))
    x = random(2, 3, 4, 4)
    (found,) = evaluate(graph, default_opset(), {"data": x})
    np.testing.assert_allclose(found, x.reshape(2, 48) @ w.T + b, rtol=1e-5, atol=1e-5)


def test_statistics_have_their_factor_in_either_precision(tmp_path: Path) -> None:
    path = written(tmp_path, HEAD + layer("BatchNorm", name="bn"))
    net = net_class()()
    held = net.layer.add(name="bn")
    for values in ([1.0, 2.0, 3.0], [4.0, 8.0, 12.0], [2.0]):
        held.blobs.add().double_data.extend(values)
    path.with_suffix(".caffemodel").write_bytes(net.SerializeToString())
    graph = asim.load(path, weight=path.with_suffix(".caffemodel"))
    x = random(2, 3, 4, 4)
    (found,) = evaluate(graph, default_opset(), {"data": x})
    mean, variance = np.array([0.5, 1, 1.5]).reshape(3, 1, 1), np.array([2, 4, 6]).reshape(3, 1, 1)
    np.testing.assert_allclose(found, (x - mean) / np.sqrt(variance + 1e-5), rtol=1e-5, atol=1e-5)


def test_weights_that_are_missing_are_said(tmp_path: Path) -> None:
    path, _ = _weights(tmp_path, False, "other")
    with pytest.raises(InputError, match="layer 'ip' has no weights in the caffemodel"):
        asim.load(path, weight=path.with_suffix(".caffemodel"))
    path, _ = _weights(tmp_path, False)
    with pytest.raises(InputError, match="holds no weights; give the .caffemodel of the network"):
        asim.load(path, weight=path.with_suffix(".caffemodel"))


def test_weights_that_are_not_given_have_shapes_alone(tmp_path: Path) -> None:
    """Also where a caffemodel lies beside: the bytes of that file are no weights."""
    path, _ = _weights(tmp_path, False, "ip")
    graph = asim.load(path)
    held = {tensor.name: tensor.constant for tensor in graph.constants if tensor.name.startswith("ip.")}
    assert sorted(held) == ["ip.0", "ip.1"]
    for constant in held.values():
        assert constant is not None
        assert not constant.available
        assert constant.absent_because == "file net.caffemodel is not at hand"


def _old(kind: str, more: str = "", bottom: str = '"data"', top: str = '"y"') -> str:
    tops, bottoms = (
        " ".join(f"{word}: {name}" for name in names.split())
        for word, names in (("top", top), ("bottom", bottom))
    )
    return f'layers {{ layer {{ name: "l" type: "{kind}" {more} }} {bottoms} {tops} }}'


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (_old("conv", "num_output: 2 kernelsize: 3 pad: 1 stride: 2 biasterm: false"), (2, 2, 2, 2)),
        (_old("pool", "pool: MAX kernelsize: 3 stride: 1 pad: 1"), (2, 3, 4, 4)),
        (_old("innerproduct", "num_output: 5"), (2, 5)),
        (_old("concat", "concat_dim: 0", '"data" "data"'), (4, 3, 4, 4)),
        (_old("lrn", "local_size: 3 alpha: 0.1 beta: 0.5 k: 2"), (2, 3, 4, 4)),
        (_old("tanh"), (2, 3, 4, 4)),
    ],
)
def test_parameters_of_the_first_form_go_where_they_belong(tmp_path: Path, text: str, wanted: Any) -> None:
    graph = asim.load(written(tmp_path, HEAD + text))
    assert graph.outputs[0].shape == wanted
    (node,) = (item for item in graph.nodes if item.name == "l")
    if node.op_type == "LRN":
        assert [node.attr(name) for name in ("size", "bias")] == [3, 2.0]
        assert node.attr("alpha") == pytest.approx(0.1)
        assert node.attr("beta") == pytest.approx(0.5)
    if node.op_type == "Conv":
        assert (node.input_count, node.attr("pads"), node.attr("strides")) == (2, (1, 1, 1, 1), (2, 2))


@pytest.mark.parametrize(("bottom", "top"), [('"data" "data"', '"p"'), ('"data"', '"p" "q"'), ("", '"p"')])
def test_a_layer_of_padding_has_one_blob_on_each_side(tmp_path: Path, bottom: str, top: str) -> None:
    with pytest.raises(InputError, match="layer 'l' needs one blob to pad"):
        kinds(tmp_path, _old("padding", "pad: 1", bottom, top))


PROPOSAL = """
input: "scores" input_shape { dim: 1 dim: 18 dim: 4 dim: 5 }
input: "changes" input_shape { dim: 1 dim: 36 dim: 4 dim: 5 }
input: "sizes" input_shape { dim: 1 dim: 3 }
layer { name: "rois" type: "Proposal" bottom: "scores" bottom: "changes" bottom: "sizes" %s
    proposal_param { %s } }
"""


def test_proposals_have_the_anchors_of_faster_rcnn_if_none_are_given(tmp_path: Path) -> None:
    model = read_caffe(written(tmp_path, PROPOSAL % ('top: "rois"', "post_nms_topn: 16")))
    graph = asim.load(model)
    (node,) = graph.nodes
    assert [node.attr(name) for name in ("ratio", "scale")] == [(0.5, 1.0, 2.0), (8.0, 16.0, 32.0)]
    assert len(model.graph.node[0].output) == 1
    assert graph.outputs[0].shape == (1, 5, 16)
    more = "post_nms_topn: 32 ratio: 1 ratio: 2 ratio: 4 scale: 4 scale: 8 scale: 9 base_size: 8 min_size: 3"
    model = read_caffe(written(tmp_path, PROPOSAL % ('top: "rois" top: "count"', more)))
    (node,) = asim.load(model).nodes
    assert [node.attr(name) for name in ("ratio", "scale")] == [(1.0, 2.0, 4.0), (4.0, 8.0, 9.0)]
    assert [node.attr(name) for name in ("base_size", "min_size")] == [8, 3]
    assert [item.name for item in model.graph.output] == ["rois", "count"]
