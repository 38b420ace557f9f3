"""Gradients of convolutions: against the convolution of single elements, in float16, and what they ask of the
chip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph
from ascendsim.isa.checks import check_block
from ascendsim.isa.instructions import Buffer, Mmad, Move, Pipe
from ascendsim.isa.walk import in_order
from ascendsim.lower.templates.filter_grad import lower_filter
from ascendsim.lower.templates.steps import Expansion
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from ascendsim.opset.work import AiCpuWork, FilterWork, SequenceWork, VectorWork
from ascendsim.soc import load
from tests.support.coverage import length, transfers, union
from tests.support.filter_work import filter_work
from tests.support.flags import few_trips, has_race
from tests.support.single_node import lower, make_node, run

Array = NDArray[Any]
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 2, 5, 6), (3, 2, 3, 2), {"strides": (2, 1), "pads": (1, 0, 0, 2), "dilations": (1, 2)}),
    ((1, 4, 4, 3), (6, 2, 2, 2), {"groups": 2}),
    ((2, 3, 5, 5), (2, 3, 1, 1), {"strides": (3, 2)}),
    ((1, 2, 6, 5), (2, 2, 3, 3), {"strides": (2, 2), "auto_pad": "SAME_LOWER"}),
    ((1, 1, 3, 4), (1, 1, 3, 3), {"pads": (4, 0, 3, 5)}),
]
NAMES = [("Conv2DBackpropInput", "input_size"), ("Conv2DBackpropFilter", "filter_size")]


def some(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def forward(x: Array, w: Array, attributes: dict[str, Any]) -> Array:
    """The convolution in float64, whose own values stand against onnxruntime's."""
    more = {name: value for name, value in attributes.items() if name != "groups"}
    return run("Conv", [x, w], group=attributes.get("groups", 1), **more)[0]


def slopes(x: Array, w: Array, dy: Array, attributes: dict[str, Any], of_filter: bool) -> Array:
    """sum(dy * y) changes by this much with each element; a convolution is linear in either operand."""
    result = np.zeros_like(w if of_filter else x)
    for place in np.ndindex(result.shape):
        unit = np.zeros_like(result)
        unit[place] = 1
        y = forward(x, unit, attributes) if of_filter else forward(unit, w, attributes)
        result[place] = (y * dy).sum()
    return result


@pytest.mark.parametrize(("x_shape", "w_shape", "attributes"), CASES)
def test_gradients_are_slopes_of_the_convolution(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    x, w = some(x_shape, 1), some(w_shape, 2)
    dy = some(forward(x, w, attributes).shape, 3)
    for of_filter, (name, size) in enumerate(NAMES):
        inputs = [x, dy] if of_filter else [w, dy]
        attributes_ = {**attributes, size: w_shape if of_filter else x_shape}
        (found,) = run(name, [array.astype(np.float32) for array in inputs], domain="ascend", **attributes_)
        wanted = slopes(x, w, dy, attributes, bool(of_filter))
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6 * np.abs(wanted).max())


def test_a_depthwise_gradient_has_a_group_a_channel() -> None:
    x, w, more = some((2, 3, 6, 5), 1), some((6, 1, 3, 2), 2), {"strides": (2, 1), "groups": 3}
    dy = some(forward(x, w, more).shape, 3)
    for of_filter, (name, size) in enumerate(NAMES):
        inputs = [x, dy] if of_filter else [w, dy]
        sizes = {size: w.shape if of_filter else x.shape, "strides": (2, 1)}
        (found,) = run(f"Depthwise{name}", [a.astype(np.float32) for a in inputs], domain="ascend", **sizes)
        wanted = slopes(x, w, dy, more, bool(of_filter))
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-5)


def test_sums_over_a_batch_of_halves_are_exact_until_they_are_rounded() -> None:
    """65536 products of 1 and 1/4096: a float16 sum would stop growing at 1/2, float32 sums of any order are
    exact."""
    x, dy = np.full((4, 1, 128, 128), 1 / 4096, np.float16), np.ones((4, 1, 128, 128), np.float16)
    (result,) = run("Conv2DBackpropFilter", [x, dy], domain="ascend", filter_size=(1, 1, 1, 1))
    assert result.dtype == np.float32
    assert result.item() == 16.0
    third = np.full((1, 3, 1, 1), 1 / 3, np.float16)
    weight = np.full((3, 1, 1, 1), 1 / 3, np.float16)
    (spread,) = run("Conv2DBackpropInput", [weight, third], domain="ascend", input_size=(1, 1, 1, 1))
    assert spread.item() == np.float16(3 * float(np.float16(1 / 3)) ** 2)


def inferred(name: str, shapes: list[Any], **attributes: Any) -> Any:
    graph = Graph()
    tensors = [graph.add_input(f"in{n}", DType.FLOAT16, ()) for n in range(2)]
    for tensor, shape in zip(tensors, shapes, strict=True):
        tensor.shape = shape
    node = graph.add_node(name, tensors, ["out"], domain="ascend", **attributes)
    default_opset().get(node).infer(InferContext(node))
    return node.output.shape, node.output.dtype


def test_shapes_with_unknown_dimensions() -> None:
    sizes = {"input_size": (-1, 4, 9, 9), "strides": (2, 2)}
    shape, dtype = inferred("Conv2DBackpropInput", [(8, 4, 3, 3), ("n", 8, None, 4)], **sizes)
    assert (shape, dtype) == (("n", 4, 9, 9), DType.FLOAT16)
    assert inferred("Conv2DBackpropInput", [None, None], **sizes)[0] == (None, 4, 9, 9)
    sizes = {"filter_size": (8, 4, 3, 3), "strides": (2, 2)}
    for shapes in ([("n", 4, 9, None), ("n", 8, 4, "w")], [None, None]):
        assert inferred("Conv2DBackpropFilter", shapes, **sizes) == ((8, 4, 3, 3), DType.FLOAT32)


SMALL = {"Input": [(8, 4, 3, 3), (1, 8, 4, 4)], "Filter": [(1, 4, 6, 6), (1, 8, 4, 4)]}


@pytest.mark.parametrize(
    ("name", "changed", "attributes", "message"),
    [
        ("Input", {}, {"input_size": (1, 4, 8, 8)}, r"out_backprop of shape \(1, 8, 6"),
        ("Input", {}, {}, "4 positive sizes in input_size"),
        ("Input", {}, {"input_size": (1, 5, 6, 6)}, "4 channels in x"),
        ("Input", {0: (8, 4, 3)}, {"input_size": (1, 4, 6, 6)}, "rank 4"),
        ("Filter", {1: (2, 8, 4, 4)}, {"filter_size": (8, 4, 3, 3)}, r"shape \(1, 8, 4, 4\)"),
        ("Filter", {}, {"filter_size": (8, 4, 3, 0)}, "positive sizes in filter_size"),
        ("Filter", {}, {"filter_size": (8, 2, 3, 3), "groups": 3}, "multiple of groups"),
        ("Filter", {}, {"filter_size": (8, 4, 3, 3), "groups": 0}, "positive groups"),
    ],
)
def test_refusals(name: str, changed: dict[int, Any], attributes: dict[str, Any], message: str) -> None:
    shapes = [changed.get(port, shape) for port, shape in enumerate(SMALL[name])]
    with pytest.raises(GraphError, match=message):
        inferred(f"Conv2DBackprop{name}", shapes, **attributes)


def test_work_of_a_filter_gradient() -> None:
    """Zeros first; useful products are those of the convolution; groups are packed until C0 is full."""
    x, dy = np.zeros((2, 24, 8, 7), np.float16), np.zeros((2, 36, 6, 3), np.float16)
    more: dict[str, Any] = {"filter_size": (36, 6, 3, 2), "groups": 4, "strides": (1, 2)}
    work = lower("Conv2DBackpropFilter", [x, dy], 1, "ascend", **more)
    assert isinstance(work, SequenceWork)
    zeros, product = work.parts
    assert isinstance(zeros, VectorWork)
    assert isinstance(product, FilterWork)
    assert zeros.outputs[0].ref == product.out
    assert product.useful_macs == 2 * 6 * 3 * 36 * 6 * 3 * 2
    assert (product.m, product.n, product.batch) == (36, 24 * 6, 1)
    wide = [array.astype(np.float64) for array in (x, dy)]
    assert isinstance(lower("Conv2DBackpropFilter", wide, 1, "ascend", **more), AiCpuWork)
    empty = lower("Conv2DBackpropFilter", [x[:0], dy[:0]], 1, "ascend", **more)
    assert isinstance(empty, VectorWork)
    assert make_node("Conv2DBackpropFilter", [x, dy], domain="ascend", **more).output.dtype is DType.FLOAT32


GEOMETRIES = [  # images, channels, size, outputs, kernel, stride, pad, groups
    (16, 64, 14, 64, 3, 1, 1, 1),
    (5, 40, 9, 72, 1, 1, 0, 1),
    (3, 3, 40, 20, 7, 2, 3, 1),
    (2, 256, 7, 512, 3, 1, 1, 1),
    (2, 32, 12, 32, 5, 2, 2, 3),
    (1, 16, 30, 16, 1, 2, 0, 1),
]


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910B", "Ascend910B1"])
@pytest.mark.parametrize("sizes", GEOMETRIES)
def test_programs_of_filter_gradients(chip: str, sizes: tuple[int, ...]) -> None:
    """Sound blocks; all cores together multiply what there is, every tile starting anew once; each reads what
    it multiplies and stores its result once."""
    soc, work = load(chip), filter_work(*sizes)
    stage = lower_filter(work, soc, Expansion(soc))
    positions = work.conv.out_h * work.conv.out_w
    multiplied, stored = 0, 0
    for group in stage.groups:
        check_block(group.block, soc)
        assert not has_race(replace(group.block, body=few_trips(group.block.body)))
        area, depth, fresh = 0, 0, 0
        for item, variables in in_order(group.block.body):
            if isinstance(item, Mmad):
                starts = not item.accumulate or (
                    bool(item.fresh_at) and not any(variables[name] for name in item.fresh_at)
                )
                fresh += starts
                depth = item.k if starts else depth + item.k
                area += item.m * item.n if starts else 0
                multiplied += group.count * item.m * item.n * item.k
                assert item.a.bytes == -(-item.m // 16) * 16 * item.k * 2
                assert item.b.bytes == -(-item.n // 16) * 16 * item.k * 2
        loads = [i for i, _ in in_order(group.block.body) if isinstance(i, Move) and i.pipe is Pipe.MTE2]
        assert all(move.dst.buffer is Buffer.L1 for move in loads)
        out = transfers(group.block, "dw", True)
        stored += group.count * int((out[:, 1] - out[:, 0]).sum())
        assert min(area, fresh, depth) > 0
    columns = -(-work.conv.channels // 16) * 16 * work.conv.kernel_h * work.conv.kernel_w
    useful = work.batch * work.m * columns * work.conv.batch * positions
    assert useful <= multiplied <= 1.5 * useful  # positions of an image fill whole blocks of k
    assert stored >= work.out.bytes * (1 if columns == work.n else 0.9)
    assert length(union(transfers(stage.groups[0].block, "dw", True))) <= work.out.bytes


def test_cores_share_images_before_anything_else_where_they_are_coupled() -> None:
    """Profiles: 16 blocks for a batch of 16 on 30 cores, 32 for one of 2 on 32."""
    cases = [("Ascend910B", (16, 64, 14, 64), 16), ("Ascend910A", (2, 384, 13, 256), 32)]
    for chip, sizes, cores in cases:
        soc = load(chip)
        stage = lower_filter(filter_work(*sizes, 3, 1, 1, 1), soc, Expansion(soc))
        assert sum(group.count for group in stage.groups) == cores


def test_a_network_with_both_gradients_runs_on_the_device() -> None:
    """Halves go in, a float32 filter gradient in fractals comes out, and a TransData gives it back row by
    row."""
    x, dy, w = some((4, 20, 10, 10), 1), some((4, 24, 10, 10), 2), some((24, 20, 3, 3), 3)
    builder = asim.GraphBuilder()
    given = {"x": x, "dy": dy, "w": w}
    x_, dy_, w_ = (builder.input(name, array.shape) for name, array in given.items())
    made = builder.op("Relu", x_)
    filters = builder.op(
        "Conv2DBackpropFilter", made, dy_, domain="ascend", filter_size=w.shape, pads=(1, 1, 1, 1)
    )
    image = builder.op("Conv2DBackpropInput", w_, dy_, domain="ascend", input_size=x.shape, pads=(1, 1, 1, 1))
    builder.output(filters, "dw")
    builder.output(image, "dx")
    arrays = {name: array.astype(np.float32) for name, array in given.items()}
    for chip in ("Ascend910A", "Ascend910B1"):
        model = asim.compile(builder.build(), chip)
        node = next(node for node in model.graph.nodes if node.op_type == "Conv2DBackpropFilter")
        assert node.output.dtype is DType.FLOAT32
        assert node.output.format is Format.FRACTAL_Z
        assert [tensor.format for tensor in node.inputs if tensor is not None] == [Format.NC1HWC0] * 2
        assert [tensor.dtype for tensor in node.inputs if tensor is not None] == [DType.FLOAT16] * 2
        device, exact = (asim.run(model, arrays, values=kind).outputs for kind in ("device", "float32"))
        for name in ("dw", "dx"):
            np.testing.assert_allclose(device[name], exact[name], atol=4e-3 * np.abs(exact[name]).max())
