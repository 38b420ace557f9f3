"""Formats and TransData."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.frontends.onnx import load_onnx
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.layout import AssignFormats, assign_formats
from ascendsim.passes.layout.fold_batch import fold_batches
from ascendsim.passes.layout.formats import same_bytes
from ascendsim.passes.precision.assign import apply_precision
from ascendsim.soc import load

OPSET = default_opset()
HALF = DType.FLOAT16
MAP = (1, 32, 8, 8)


def put(
    graph: Graph,
    op: str,
    inputs: list[Tensor | None],
    name: str,
    shape: tuple[int, ...],
    **attributes: object,
) -> Tensor:
    node = graph.add_node(op, inputs, [name], name=f"{name}_node", **attributes)  # type: ignore[arg-type]
    node.output.shape, node.output.dtype, node.output.origin_dtype = shape, HALF, HALF
    return node.output


def conv(graph: Graph, x: Tensor, name: str, outputs: int = 32) -> Tensor:
    assert x.shape is not None
    w = graph.add_constant(f"{name}_w", np.zeros((outputs, x.static_shape[1], 1, 1), np.float16))
    return put(graph, "Conv", [x, w], name, (1, outputs, 8, 8))


def start() -> tuple[Graph, Tensor]:
    graph = Graph("maps")
    return graph, graph.add_input("x", HALF, MAP)


def transdata(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op_type == "TransData"]


def assign(graph: Graph, matmul: Format = Format.FRACTAL_NZ) -> None:
    assign_formats(graph, OPSET, matmul)
    verify(graph)


def test_chains_between_convolutions_stay_blocked() -> None:
    graph, x = start()
    a = put(graph, "Relu", [conv(graph, x, "a")], "r", MAP)
    b = put(graph, "Add", [conv(graph, a, "b"), a], "s", MAP)
    graph.outputs.append(conv(graph, b, "y"))
    assign(graph)
    assert [(n.attr("src_format"), n.attr("dst_format")) for n in transdata(graph)] == [
        ("ND", "NC1HWC0"),
        ("NC1HWC0", "ND"),
    ]
    assert all(graph.tensors[name].format is Format.NC1HWC0 for name in ("a", "r", "b", "s"))
    assert graph.tensors["a_w"].format is Format.FRACTAL_Z
    assert graph.outputs[0].name == "y"
    assert graph.outputs[0].format is Format.ND
    assert all(node.origin["inserted"] == "layout" and node.domain == "ascend" for node in transdata(graph))


def test_one_transdata_serves_all_readers() -> None:
    graph, x = start()
    graph.outputs += [conv(graph, x, "a"), conv(graph, x, "b")]
    assign(graph)
    into = [node for node in transdata(graph) if node.attr("dst_format") == "NC1HWC0"]
    assert len(into) == 1
    assert len(into[0].output.uses) == 2


def test_a_row_major_operator_reads_through_transdata_and_the_way_back_is_spared() -> None:
    graph, x = start()
    a = conv(graph, x, "a")
    flat = put(graph, "Reshape", [a, graph.add_constant("shape", np.array([1, 2048]))], "f", (1, 2048))
    graph.outputs += [flat, conv(graph, a, "b")]
    assign(graph)
    assert graph.node("f_node").required(0).format is Format.ND
    assert graph.node("b_node").required(0) is graph.tensors["a"]


def test_maps_of_one_position_need_no_transdata() -> None:
    graph, x = start()
    pooled = put(graph, "GlobalAveragePool", [conv(graph, x, "a")], "p", (1, 32, 1, 1))
    graph.outputs.append(put(graph, "Flatten", [pooled], "y", (1, 32)))
    assign(graph)
    assert len(transdata(graph)) == 1
    assert same_bytes(graph.tensors["p"], Format.NC1HWC0, Format.ND)
    assert not same_bytes(graph.tensors["a"], Format.NC1HWC0, Format.ND)


@pytest.mark.parametrize(("channels", "blocked"), [(32, True), (24, False)])
def test_concat_of_channels_stays_blocked_if_parts_fill_blocks(channels: int, blocked: bool) -> None:
    graph, x = start()
    a, b = conv(graph, x, "a", channels), conv(graph, x, "b", channels)
    joined = put(graph, "Concat", [a, b], "c", (1, 2 * channels, 8, 8), axis=1)
    graph.outputs.append(put(graph, "Relu", [joined], "y", (1, 2 * channels, 8, 8)))
    assign(graph)
    assert (graph.tensors["c"].format is Format.NC1HWC0) is blocked


@pytest.mark.parametrize(
    ("shape", "blocked"),
    [((1, 32, 1, 1), True), ((), True), ((32, 1, 1), True), ((1, 1, 8, 8), False), ((8,), False)],
)
def test_constants_must_broadcast_along_blocks(shape: tuple[int, ...], blocked: bool) -> None:
    graph, x = start()
    c = graph.add_constant("c", np.ones(shape, np.float16))
    graph.outputs.append(put(graph, "Mul", [conv(graph, x, "a"), c], "m", MAP))
    assign(graph)
    multiplied = graph.node("m_node").output
    assert (multiplied.format is Format.NC1HWC0) is blocked


@pytest.mark.parametrize(
    ("shape", "format"), [(MAP, Format.NC1HWC0), ((1, 32, 1, 1), Format.ND), ((), Format.ND)]
)
def test_constants_as_large_as_a_map_lie_as_it_does(shape: tuple[int, ...], format: Format) -> None:
    graph, x = start()
    factors = graph.add_constant("factors", np.ones(shape, np.float16))
    y = put(graph, "Mul", [conv(graph, x, "y"), factors], "scaled", MAP)
    z = put(graph, "Mul", [graph.add_input("rows", HALF, MAP), factors], "row_major", MAP)
    graph.outputs += [conv(graph, y, "last"), z]
    assign(graph)
    assert y.format is Format.NC1HWC0
    assert y.producer is not None
    assert y.producer.required(1).format is format
    assert z.producer is not None
    assert z.producer.required(1).format is Format.ND  # a reader that wants another form has one of its own


def test_matrix_operands_are_fractals_unless_the_chip_converts_on_the_way_in() -> None:
    for matmul in (Format.FRACTAL_NZ, Format.ND):
        graph = Graph("mm")
        x = graph.add_input("x", HALF, (32, 48))
        w = graph.add_constant("w", np.zeros((48, 64), np.float16))
        bias = graph.add_constant("b", np.zeros(64, np.float16))
        product = put(graph, "MatMul", [x, w], "p", (32, 64))
        graph.outputs.append(put(graph, "Add", [product, bias], "y", (32, 64)))
        assign(graph, matmul)
        assert w.format is matmul
        assert graph.tensors["p"].format is matmul
        assert bias.format is Format.ND
        assert len(transdata(graph)) == (2 if matmul is Format.FRACTAL_NZ else 0)


def test_weights_may_lie_in_fractals_where_data_is_row_major() -> None:
    graph = asim.GraphBuilder()
    x = graph.input("x", (32, 48))
    middle = graph.op("Gemm", x, graph.weight("w", (64, 48)), transB=1)
    graph.output(graph.op("MatMul", middle, graph.op("Relu", graph.input("v", (64, 80)))))
    for chosen, format in (({}, Format.ND), ({"weight_format": "FRACTAL_NZ"}, Format.FRACTAL_NZ)):
        model = asim.compile(graph.build(), "Ascend910B1", options=chosen)
        (gemm,) = [node for node in model.graph.nodes if node.op_type == "Gemm"]
        assert gemm.required(1).format is format
        others = [t for t in model.graph.tensors.values() if t is not gemm.required(1)]
        assert {tensor.format for tensor in others} <= {Format.ND, Format.NCHW}
        assert not transdata(model.graph)


def test_other_element_sizes_end_a_blocked_chain() -> None:
    graph, x = start()
    cast = put(graph, "Cast", [conv(graph, x, "a")], "c", MAP, to=DType.FLOAT32)
    cast.dtype = cast.origin_dtype = DType.FLOAT32
    graph.outputs.append(cast)
    assign(graph)
    assert graph.node("c_node").output.format is Format.ND


def reduced(axes: tuple[int, ...], shape: tuple[int, ...], blocked: bool = True, keepdims: int = 0) -> Graph:
    """A mean of what a convolution makes (or of the input as it comes) that a sum reads."""
    graph, x = start()
    source = conv(graph, x, "a") if blocked else x
    over = graph.add_constant("axes", np.array(axes, np.int64))
    mean = put(graph, "ReduceMean", [source, over], "mean", shape, keepdims=keepdims)
    graph.outputs += [put(graph, "Add", [mean, mean], "twice", shape), mean]
    assign(graph)
    return graph


def test_reductions_that_drop_positions_work_on_blocked_maps() -> None:
    graph = reduced((2, 3), (1, 32))
    node = graph.node("mean_node")
    assert (node.input(0), node.output.format) == (graph.tensors["a"], Format.NC1HWC0)
    assert node.output.static_shape == (1, 32, 1, 1)
    turned = [n.required(0).static_shape for n in transdata(graph) if n.attr("dst_format") == "ND"]
    assert all(shape == (1, 32, 1, 1) for shape in turned)
    assert graph.outputs[1].name == "mean"
    assert [(tensor.static_shape, tensor.format) for tensor in graph.outputs] == [((1, 32), Format.ND)] * 2


@pytest.mark.parametrize(
    ("axes", "shape", "blocked"),
    [((1, 2), (1, 8), True), ((0, 1), (8, 8), True), ((2, 3), (1, 32), False), ((3,), (1, 32, 8), True)],
)
def test_other_reductions_that_drop_axes_are_row_major(
    axes: tuple[int, ...], shape: tuple[int, ...], blocked: bool
) -> None:
    node = reduced(axes, shape, blocked).node("mean_node")
    assert (node.attr("keepdims"), node.output.static_shape) == (0, shape)
    assert {tensor.format for tensor in (node.required(0), node.output)} == {Format.ND}


def test_narrow_batches_fold_into_rows() -> None:
    graph = Graph("fold")
    x = graph.add_input("x", HALF, (197, 1, 64))
    w = graph.add_constant("w", np.zeros((64, 128), np.float16))
    graph.outputs.append(put(graph, "MatMul", [x, w], "y", (197, 1, 128)))
    assert fold_batches(graph) == 1
    verify(graph)
    node = graph.node("y_node")
    assert node.required(0).shape == (197, 64)
    assert node.output.shape == (197, 128)
    assert graph.outputs[0].name == "y"
    assert graph.outputs[0].shape == (197, 1, 128)


def test_few_products_of_many_rows_and_batched_weights_stay() -> None:
    graph = Graph("keep")
    x = graph.add_input("x", HALF, (8, 33, 64))
    w = graph.add_constant("w", np.zeros((64, 128), np.float16))
    v = graph.add_constant("v", np.zeros((8, 128, 16), np.float16))
    y = put(graph, "MatMul", [x, w], "y", (8, 33, 128))
    graph.outputs.append(put(graph, "MatMul", [y, v], "z", (8, 33, 16)))
    assert fold_batches(graph) == 0


@pytest.mark.parametrize(("model", "most"), [("resnet50", 3), ("yolov5s", 4), ("squeezenet1_1", 2)])
def test_feature_networks_convert_at_their_borders_only(model: str, most: int, models_dir: Path) -> None:
    graph = load_onnx(models_dir / f"{model}.onnx", opset=OPSET)
    apply_precision(graph, default_opset())
    AssignFormats(OPSET, load("Ascend310")).run(graph)
    verify(graph)
    assert len(transdata(graph)) <= most
