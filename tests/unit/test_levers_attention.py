"""The lever that writes attention as CANN's passes for it look for it."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.passes.levers import AttentionPattern, LeverContext, apply_lever, find_sites
from tests.support.evaluate import evaluate

OPSET = default_opset()
CONTEXT = LeverContext(OPSET)
BATCH, HEADS, TOKENS, SIZE = 2, 3, 32, 16


def attention(scale: str = "Div", rows: int = 1, keys: tuple[int, ...] = (0, 2, 3, 1)) -> Graph:
    """Scores of heads, scaled and masked as exporters write it."""
    b = asim.GraphBuilder("attention")
    x = b.input("x", (BATCH, TOKENS, HEADS, SIZE))
    query, value = (b.op("Transpose", x, perm=(0, 2, 1, 3)) for _ in range(2))
    key = b.op("Transpose", b.input("k", (BATCH, TOKENS, HEADS, SIZE)), perm=keys)
    key = key if keys[2:] == (3, 1) else b.op("Transpose", key, perm=(0, 1, 3, 2))
    factor = b.constant(np.array(3.0 if scale == "Div" else 0.3, np.float32))
    scores = b.op(scale, b.op("MatMul", query, key), factor)
    masked = b.op("Add", scores, b.input("mask", (BATCH, 1, rows, TOKENS)))
    b.output(b.op("MatMul", b.op("Softmax", masked, axis=-1), value), "y")
    return b.build()


def values(graph: Graph) -> np.ndarray:
    random = np.random.default_rng(3)
    feeds = {one.name: random.standard_normal(one.static_shape).astype(np.float32) for one in graph.inputs}
    (found,) = evaluate(graph, OPSET, feeds)
    return found


@pytest.mark.parametrize("scale", ["Div", "Mul"])
@pytest.mark.parametrize("rows", [1, TOKENS])
def test_values_stay_and_the_pattern_is_there(scale: str, rows: int) -> None:
    graph = attention(scale, rows)
    after = apply_lever(graph, AttentionPattern(), CONTEXT).graph
    np.testing.assert_allclose(values(after), values(graph), rtol=1e-5, atol=1e-6)
    assert not find_sites(after, AttentionPattern(), CONTEXT)
    (softmax,) = [node for node in after.nodes if node.op_type == "Softmax"]
    add = softmax.required(0).producer
    assert add is not None
    mul, mask = add.required(0).producer, add.required(1)
    assert mul is not None
    assert mul.op_type == "Mul"
    assert "bert" in mul.name  # what MulAddFusionPass asks for
    assert mask.static_shape == (BATCH, 1, TOKENS, TOKENS)
    product = mul.required(0).producer
    assert product is not None
    turned = product.required(1).producer
    assert turned is not None
    assert tuple(turned.attr("perm")) == (0, 1, 3, 2)
    assert turned.required(0).static_shape == (BATCH, HEADS, TOKENS, SIZE)


def test_scores_leave_the_product_scaled_and_masked() -> None:
    graph = attention()
    after = apply_lever(graph, AttentionPattern(), CONTEXT).graph
    old, new = (asim.compile(one, soc="Ascend310P3").program.tasks for one in (graph, after))
    assert not any(task.name.startswith("MatMul") and "Add" in task.name for task in old)
    assert any("FusedMulAdd" in task.name and len(task.nodes) == 2 for task in new)


def test_other_scores_are_left_alone() -> None:
    plain = asim.GraphBuilder("plain")
    product = plain.op("MatMul", plain.input("q", (2, 3, 32, 16)), plain.input("k", (2, 3, 16, 32)))
    plain.output(plain.op("Softmax", product, axis=-1), "y")
    assert not find_sites(plain.build(), AttentionPattern(), CONTEXT)
    (site,) = find_sites(attention("Mul", TOKENS, (0, 2, 1, 3)), AttentionPattern(), CONTEXT)
    assert site.possible  # for the name alone


def test_an_output_stays_as_it_is() -> None:
    b = asim.GraphBuilder("shown")
    product = b.op("MatMul", b.input("q", (2, 3, 32, 16)), b.input("k", (2, 3, 16, 32)))
    scores = b.op("Mul", product, b.constant(np.array(0.25, np.float32)))
    masked = b.op("Add", scores, b.input("mask", (2, 1, 32, 32)))
    b.output(b.op("Softmax", masked, axis=-1), "y")
    b.output(scores, "scores")
    assert not find_sites(b.build(), AttentionPattern(), CONTEXT)
