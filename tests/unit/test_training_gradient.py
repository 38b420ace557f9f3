"""`asim.gradient`: what comes out, under which names, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.ops import default_opset
from tests.support.evaluate import evaluate


def _net() -> Graph:
    """loss = sum of tanh(x w) + sum of (x w)^2; `spare` counts for the second output only."""
    b = asim.GraphBuilder("net")
    x, w = b.input("x", (2, 3)), b.constant(np.ones((3, 2), np.float32), "w")
    spare = b.input("spare", (2, 2))
    product = b.op("MatMul", x, w, name="product")
    total = b.op("Add", b.op("Tanh", product), b.op("Mul", product, product))
    b.output(b.op("ReduceSum", total, keepdims=0), "loss")
    b.output(b.op("Add", product, spare), "wide")
    return b.build()


def test_outputs_names_and_the_given_graph() -> None:
    net = _net()
    before = to_text(net)
    new = asim.gradient(net, "loss", ["w", "x"])
    assert to_text(net) == before
    assert [tensor.name for tensor in new.outputs] == ["loss", "wide", "w.grad", "x.grad"]
    added = [node.name for node in new.nodes if node.name not in {old.name for old in net.nodes}]
    assert added
    assert all(name.startswith("Gradients/") for name in added)
    assert any(name.startswith("Gradients/product/") for name in added)
    assert to_text(new) == to_text(asim.gradient(_net(), ["loss"], ["w", "x"]))


def test_only_what_is_asked_for_is_made() -> None:
    both, one = (asim.gradient(_net(), "loss", names) for names in (["w", "x"], "w"))
    assert len(one.nodes) < len(both.nodes)


def test_several_uses_are_added_up() -> None:
    b = asim.GraphBuilder()
    x = b.input("x", (3,))
    parts = [b.op("Mul", x, factor) for factor in (2.0, 3.0, 5.0)]
    b.output(b.op("ReduceSum", b.op("Sum", *parts, x), keepdims=0), "y")
    new = asim.gradient(b.build(), "y", "x")
    values = evaluate(new, default_opset(), {"x": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(values[1], [11, 11, 11])


def test_one_gradient_of_two_tensors_has_both_names() -> None:
    b = asim.GraphBuilder()
    x, y = b.input("x", (3,)), b.input("y", (3,))
    b.output(b.op("ReduceSum", b.op("Add", x, y), keepdims=0), "z")
    new = asim.gradient(b.build(), "z", ["x", "y", "z"])
    values = evaluate(new, default_opset(), {name: np.zeros(3, np.float32) for name in "xy"})
    assert [tensor.name for tensor in new.outputs] == ["z", "x.grad", "y.grad", "z.grad"]
    assert [value.tolist() for value in values[1:]] == [[1, 1, 1], [1, 1, 1], 1]


def test_gradients_of_several_outputs_are_summed() -> None:
    b = asim.GraphBuilder()
    x = b.input("x", (1,))
    for factor in (2.0, 7.0):
        b.output(b.op("Mul", x, factor), f"y{factor:g}")
    new = asim.gradient(b.build(), ["y2", "y7"], "x")
    assert evaluate(new, default_opset(), {"x": np.zeros(1, np.float32)})[2].tolist() == [9]


def test_what_nothing_depends_on_is_listed_or_left_out() -> None:
    with pytest.raises(AscendSimError, match=r"gradients of 'spare' are not there.*allow_unused=True"):
        asim.gradient(_net(), "loss", ["w", "spare"])
    new = asim.gradient(_net(), "loss", ["w", "spare"], allow_unused=True)
    assert [tensor.name for tensor in new.outputs][2:] == ["w.grad"]


def test_a_rule_of_ones_own_wins() -> None:
    rules = {("", "Tanh"): lambda step: (step.op("Neg", step.grad),)}
    new = asim.gradient(_net(), "loss", "w", rules=rules)
    assert "TanhGrad" not in {node.op_type for node in new.nodes}


def _missing() -> Graph:
    b = asim.GraphBuilder()
    x = b.input("x", (4,))
    y = b.op("Acosh", b.op("Acosh", b.op("Atan", x)))
    b.output(b.op("ReduceSum", y, keepdims=0), "y")
    return b.build()


def _choice() -> Graph:
    """The branches read x from outside."""
    b = asim.GraphBuilder()
    x, flag = b.input("x", (1,)), b.input("flag", (), "bool")
    branches = {}
    for name in ("then_branch", "else_branch"):
        inner = asim.GraphBuilder(name)
        inner.output(inner.op("Neg", x))
        branches[name] = inner.graph
    b.output(b.op("If", flag, name="choice", **branches), "y")
    return b.build()


def _open() -> Graph:
    b = asim.GraphBuilder()
    x = b.input("x", ("n", 2))
    b.output(b.op("ReduceSum", x, keepdims=0), "y")
    return b.build()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no rule": (
        lambda: asim.gradient(_missing(), "y", "x"),
        r"missing: Acosh \(2\), Atan \(1\); give rules=",
    ),
    "wide output": (
        lambda: asim.gradient(_net(), "wide", "w"),
        r"output 'wide' must be a single number.*\(2, 2\)",
    ),
    "name": (lambda: asim.gradient(_net(), "los", "w"), r"tensor 'los' is not in the graph; .*'?loss"),
    "open shape": (lambda: asim.gradient(_open(), "y", "x"), r"needs a static shape"),
    "control flow": (lambda: asim.gradient(_choice(), "y", "x"), r"control flow, not choice \(If\)"),
    "type": (lambda: asim.gradient(_net(), 3, "w"), r"argument outputs must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case: str) -> None:
    make, says = REFUSED[case]
    with pytest.raises(AscendSimError, match=says):
        make()


def test_integers_have_no_gradient() -> None:
    b = asim.GraphBuilder()
    i = b.input("i", (2,), "int64")
    b.output(b.op("ReduceSum", b.op("Cast", i, to=b.input("x", (1,)).element_type), keepdims=0), "y")
    with pytest.raises(AscendSimError, match=r"tensor 'i' must be floating-point.*int64"):
        asim.gradient(b.graph, "y", "i")


def test_ports_without_a_gradient_say_so() -> None:
    b = asim.GraphBuilder()
    x, bound = b.input("x", (2,)), b.input("bound", ())
    b.output(b.op("ReduceSum", b.op("Clip", x, bound), keepdims=0), "y")
    with pytest.raises(
        AscendSimError, match=r"gradient of node 'Clip' \(Clip\) is not known for input 1 \('bound'\)"
    ):
        asim.gradient(b.graph, "y", "bound")


def test_further_outputs_are_not_forgotten() -> None:
    """Only the first output of a layer normalisation is differentiated."""
    b = asim.GraphBuilder()
    x = b.input("x", (2, 4))
    first, mean = b.ops("LayerNormalization", x, np.ones(4, np.float32), outputs=2)
    total = b.op("Add", b.op("ReduceSum", first, keepdims=0), b.op("ReduceSum", mean, keepdims=0))
    b.output(total, "y")
    with pytest.raises(AscendSimError, match="can be differentiated by its first output only"):
        asim.gradient(b.graph, "y", "x")


@pytest.mark.parametrize(
    ("low", "high", "kinds", "wanted"),
    [
        (0.0, 6.0, ["Relu6Grad"], [0, 0, 1, 0, 0]),  # nothing on the bounds, as of the frameworks' ReLU6
        (-1.0, 6.0, ["HardtanhGrad"], [0, 1, 1, 0, 0]),
        (0.0, None, ["GreaterOrEqual", "Where"], [0, 1, 1, 1, 1]),
        (None, 6.0, ["LessOrEqual", "Where"], [1, 1, 1, 1, 0]),
    ],
)
def test_a_clip_between_two_numbers_has_one_kernel(
    low: float | None, high: float | None, kinds: list[str], wanted: list[int]
) -> None:
    b = asim.GraphBuilder()
    x = b.input("x", (5,))
    b.output(b.op("ReduceSum", b.op("Clip", x, low, high), keepdims=0), "y")
    new = asim.gradient(b.build(), "y", "x")
    assert [node.op_type for node in new.nodes if "Clip" in node.name and node.op_type != "Clip"] == kinds
    values = evaluate(new, default_opset(), {"x": np.array([-2, 0, 3, 6, 7], np.float32)})
    np.testing.assert_array_equal(values[1], wanted)
