"""Levers of transformers: tokens padded to fill fractals, Softmax on an axis in the middle."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.levers import (
    FlatRows,
    LayerNormPattern,
    Lever,
    LeverContext,
    PadTokens,
    SoftmaxAxis,
    apply_lever,
    find_sites,
)
from tests.support.evaluate import evaluate

OPSET = default_opset()
CONTEXT = LeverContext(OPSET)
RNG = np.random.default_rng(7)


def weights(b: asim.GraphBuilder, *shape: int) -> Tensor:
    return b.constant(RNG.standard_normal(shape).astype(np.float32) / shape[0] ** 0.5)


def encoder(
    tokens: int = 21, batch: int = 2, heads: int = 3, mean: bool = False, bias: bool = False
) -> Graph:
    """A layer of a vision transformer: attention with a residual, then the class token or the mean."""
    wide = 16 * heads
    b = asim.GraphBuilder("encoder")
    x = b.op("Add", b.input("x", (batch, tokens, wide)), weights(b, 1, tokens, wide))
    ones, zeros = b.constant(np.ones(wide, np.float32)), b.constant(np.zeros(wide, np.float32))
    normal = b.op("LayerNormalization", x, ones, zeros)
    parts = []
    for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        part = b.op("Add", b.op("MatMul", normal, weights(b, wide, wide)), weights(b, wide))
        split = b.op("Reshape", part, np.array([batch, tokens, heads, 16]))
        parts.append(b.op("Transpose", split, perm=order))
    scores = b.op("MatMul", parts[0], parts[1])
    if bias:
        scores = b.op("Add", scores, weights(b, 1, heads, tokens, tokens))
    mixed = b.op("Transpose", b.op("MatMul", b.op("Softmax", scores, axis=-1), parts[2]), perm=(0, 2, 1, 3))
    out = b.op("MatMul", b.op("Reshape", mixed, np.array([batch * tokens, wide])), weights(b, wide, wide))
    x = b.op("Add", x, b.op("Reshape", out, np.array([batch, tokens, wide])))
    if mean:
        b.output(b.op("ReduceMean", x, np.array([1]), keepdims=0), "y")
    else:
        b.output(b.op("Gather", b.op("LayerNormalization", x, ones, zeros), np.array(0), axis=1), "y")
    return b.build()


def same_values(graph: Graph, lever: Lever) -> Graph:
    """The graph after a lever; its values stay."""
    after = apply_lever(graph, lever, CONTEXT).graph
    x = RNG.standard_normal(graph.inputs[0].static_shape).astype(np.float32)
    (old,), (new,) = (evaluate(g, OPSET, {"x": x}) for g in (graph, after))
    np.testing.assert_allclose(new, old, rtol=2e-4, atol=2e-5)
    return after


def of_type(graph: Graph, op_type: str) -> list[tuple[int, ...]]:
    return [node.output.static_shape for node in graph.topological() if node.op_type == op_type]


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_padded_tokens_give_the_same_values(mean: bool, bias: bool) -> None:
    after = same_values(encoder(mean=mean, bias=bias, batch=1), PadTokens())
    assert set(of_type(after, "Softmax")) == {(1, 3, 32, 32)}
    assert {shape[1] for shape in of_type(after, "LayerNormalization")} == {32}
    assert of_type(after, "Slice") == ([(1, 21, 48)] if mean else [])  # only a mean would see the others
    assert len(of_type(after, "Pad")) == 1


def test_tokens_that_lie_inside_a_merged_axis_leave_before_it() -> None:
    """[2, 21, 48] -> [42, 48]: rows of the second image would move."""
    after = same_values(encoder(batch=2), PadTokens())
    assert (2, 21, 3, 16) in of_type(after, "Slice")
    assert set(of_type(after, "Softmax")) == {(2, 3, 32, 32)}


def test_the_mask_matters() -> None:
    after = apply_lever(encoder(batch=1), PadTokens(), CONTEXT).graph
    (mask,) = (node for node in after.topological() if node.name.endswith("_masked"))
    values = mask.required(1).constant
    assert values is not None
    assert values.array().shape == (1, 1, 1, 32)
    assert (values.array()[..., :21] == 0).all()
    assert (np.exp(values.array()[..., 21:]) == 0).all()


@pytest.mark.parametrize("tokens", [16, 32, 9])
def test_tokens_that_fill_fractals_and_few_ones_are_left(tokens: int) -> None:
    assert not find_sites(encoder(tokens), PadTokens(), CONTEXT)


def test_every_image_network_of_the_suite_is_padded_once() -> None:
    for name in ("vit_b_16", "vit_s_16"):
        graph = asim.load(f"tests/data/models/{name}.onnx", batch=2)
        (site,) = find_sites(graph, PadTokens(), CONTEXT)
        assert site.reason == "197 tokens do not fill fractals; 208 do"
        after = apply_lever(graph, PadTokens(), CONTEXT).graph
        assert all(208 in shape for shape in of_type(after, "LayerNormalization"))
        assert not of_type(after, "ReduceMean")


def test_softmax_on_another_axis_gives_the_same_values() -> None:
    after = same_values(encoder(), SoftmaxAxis())
    assert of_type(after, "Softmax") == [(2, 21, 3, 21)]
    assert {node.attr("axis") for node in after.nodes if node.op_type == "Softmax"} == {1}


def test_softmax_over_whole_blocks_and_results_are_left() -> None:
    assert not find_sites(encoder(32), SoftmaxAxis(), CONTEXT)
    b = asim.GraphBuilder("g")
    b.output(b.op("Softmax", b.input("x", (2, 5, 21)), axis=-1), "y")
    (site,) = find_sites(b.build(), SoftmaxAxis(), CONTEXT)
    assert not site.possible


def test_advice_for_plain_attention() -> None:
    """On chips whose kernels go row by row much of the time is for want of padding."""
    advice = asim.advise(encoder(197, batch=1, heads=6), "Ascend310", trials=0)
    found = {proposal.lever: proposal for proposal in advice.proposals}
    assert found["pad-tokens"].gain_us > 0.4 * found["pad-tokens"].before_us


def feed_forward(batch: int = 3, tokens: int = 21) -> Graph:
    b = asim.GraphBuilder("ffn")
    hidden = b.op(
        "Add", b.op("MatMul", b.input("x", (batch, tokens, 32)), weights(b, 32, 64)), weights(b, 64)
    )
    b.output(b.op("Relu", b.op("MatMul", b.op("Gelu", hidden), weights(b, 64, 32))), "z")
    b.output(b.op("Exp", b.op("MatMul", hidden, weights(b, 64, 32))), "w")
    return b.build()


def test_flat_rows_give_the_same_values() -> None:
    graph = feed_forward()
    after = apply_lever(graph, FlatRows(), CONTEXT).graph
    x = RNG.standard_normal((3, 21, 32)).astype(np.float32)
    for old, new in zip(evaluate(graph, OPSET, {"x": x}), evaluate(after, OPSET, {"x": x}), strict=True):
        np.testing.assert_allclose(new, old, rtol=2e-4, atol=2e-5)
    assert of_type(after, "Gelu") == [(3, 21, 64)], "hidden has two readers, so it ends the flat part"
    assert of_type(after, "MatMul")[0] == (63, 64)


@pytest.mark.parametrize(("batch", "tokens"), [(1, 21), (3, 32)])
def test_one_batch_and_whole_fractals_are_not_folded(batch: int, tokens: int) -> None:
    assert not find_sites(feed_forward(batch, tokens), FlatRows(), CONTEXT)


def layer_norm_parts(twice: bool, other_axis: bool = False) -> Graph:
    b = asim.GraphBuilder("norm")
    x = b.input("x", (2, 32, 48))
    first = b.op("Sub", x, b.op("ReduceMean", x, np.array([-1]), keepdims=1))
    second = first
    if twice:
        axis = np.array([1 if other_axis else -1])
        second = b.op("Sub", x, b.op("ReduceMean", x, axis, keepdims=1))
    variance = b.op("ReduceMean", b.op("Mul", first, first), np.array([-1]), keepdims=1)
    normal = b.op("Div", second, b.op("Sqrt", b.op("Add", variance, np.float32(1e-5))))
    b.output(b.op("Add", b.op("Mul", normal, weights(b, 48)), weights(b, 48)), "y")
    return b.build()


@pytest.mark.parametrize("twice", [False, True])
def test_a_restored_pattern_is_fused(twice: bool) -> None:
    graph = layer_norm_parts(twice)
    after = same_values(graph, LayerNormPattern())

    def fused(g: Graph) -> bool:
        return any(n.op_type == "LayerNormalization" for n in asim.compile(g, "Ascend310P3").graph.nodes)

    assert fused(after)
    assert not fused(graph)


def test_differences_from_other_means_stay() -> None:
    after = same_values(layer_norm_parts(twice=True, other_axis=True), LayerNormPattern())
    assert len(of_type(after, "Sub")) == 2


def test_what_is_taken_from_a_mean_of_another_tensor_is_no_equal_difference() -> None:
    """Where x is itself the mean of z: z - x and x - mean(x) share x, and their axes are equal."""
    b = asim.GraphBuilder("means")
    z, axes = b.input("x", (2, 3, 8)), np.array([-1])
    x = b.op("ReduceMean", z, axes, keepdims=1)
    difference = b.op("Sub", x, b.op("ReduceMean", x, axes, keepdims=1))
    variance = b.op("ReduceMean", b.op("Mul", difference, difference), axes, keepdims=1)
    b.output(b.op("Add", variance, b.op("Sub", z, x)), "y")
    after = same_values(b.build(), LayerNormPattern())
    assert len(of_type(after, "Sub")) == 2
