"""Conditions of single passes at their limits: shapes that a rule lists, what a lever may touch, what is
known of a shape, what a new node of a rule inherits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.core.formats import Format
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Constant, Graph, Node, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.engine.infer_shape import _merged
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext
from ascendsim.passes.fusion.rules.conv.conv_split_concat import RULES as SPLIT_CONV
from ascendsim.passes.fusion.rules.conv.fixpipe_conv import RULES as FIXPIPE
from ascendsim.passes.fusion.rules.edges import _plain, _rsqrt, _square, parse_edges
from ascendsim.passes.fusion.rules.normalise.softmax import RULES as SOFTMAX
from ascendsim.passes.layout.formats import _broadcasts
from ascendsim.passes.levers import LeverContext, find_sites
from ascendsim.passes.levers.attention_pattern import AttentionPattern
from ascendsim.passes.levers.channel_groups import Kind, kind_of
from ascendsim.passes.levers.flat_rows import _last
from ascendsim.passes.levers.resize_sizes import nearest_sizes, regular
from ascendsim.passes.levers.softmax_axis import SoftmaxAxis
from ascendsim.passes.precision.lists import KeepList
from tests.support.fusing import build, context, fused, new_builder, random
from tests.unit.test_fusion_rules_fixpipe import int8_network

OPSET = default_opset()


def reason_of(graph: Graph, rule: Any, **options: Any) -> str | None:
    """Why a rule does not act; None if it does. Nothing is computed."""
    report = FusionReport()
    run_rules(copy_graph(graph), [rule], context(options.pop("generation", "v100"), **options), report)
    reasons = [refusal.reason for record in report.records for refusal in record.refusals]
    return reasons[0] if reasons else None


# ---- softmax between transposes


def softmax(*shape: int, axis: int = -1) -> Graph:
    return build(lambda b: b.op("Softmax", b.input("x", shape), axis=axis))


LISTED, SHORT = SOFTMAX
UNLISTED = "the shape is not one of those listed"


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((2, 8732, 21), None),
        ((2, 8731, 21), UNLISTED),
        ((2, 8733, 21), UNLISTED),
        ((2, 8732, 20), UNLISTED),
        ((2, 8732, 22), UNLISTED),
        ((8732, 21), UNLISTED),
        ((1, 2, 8732, 21), UNLISTED),
        ((1, 224, 224, 160, 4), None),
        ((1, 223, 224, 160, 4), UNLISTED),
        ((1, 224, 225, 160, 4), UNLISTED),
        ((1, 224, 224, 159, 4), UNLISTED),
        ((1, 224, 224, 161, 4), UNLISTED),
        ((1, 224, 224, 160, 3), UNLISTED),
        ((11711, 8732, 21), None),
        ((11712, 8732, 21), "there are more elements than an int32 counts"),
    ],
)
def test_shapes_that_softmax_lists(shape: tuple[int, ...], reason: str | None) -> None:
    graph = softmax(*shape)
    found = [_refusal(graph, LISTED, soc) for soc in ("Ascend910B", "Ascend310")]
    assert found == [reason, reason or "Ascend310 is not among the chips of the rule"]


def _refusal(graph: Graph, rule: Any, soc: str) -> str | None:
    (match,) = rule.find(graph, next(iter(rule.patterns)))
    return rule.check(match, FusionContext(OPSET, "v100", soc, {}))


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((151, 15), None),
        ((150, 15), "the axis before it is not between 10 times as long and 600000"),
        ((161, 16), "the last axis is not below 16"),
        ((599_999, 1), None),
        ((600_000, 1), "the axis before it is not between 10 times as long and 600000"),
        ((15,), "there is no axis before the last one"),
        ((3, 151, 15), None),
    ],
)
def test_short_rows_of_softmax(shape: tuple[int, ...], reason: str | None) -> None:
    assert _refusal(softmax(*shape), SHORT, "Ascend910B") == reason
    if reason is None:
        assert _refusal(softmax(*shape, axis=0), SHORT, "Ascend910B") == "the axis is not the last one"
        assert _refusal(softmax(*shape, axis=len(shape) - 1), SHORT, "Ascend910B") is None


# ---- convolutions of parts


def parts(axis: int | None = 1, joined: int | None = 1, count: int = 2, **attributes: Any) -> Graph:
    def body(b: GraphBuilder) -> Tensor:
        more = {} if axis is None else {"axis": axis}
        made = b.ops("Split", b.input("x", (2, 8, 5, 5)), outputs=count, num_outputs=count, **more)
        channels = 8 // count if axis in (1, -3) else 8
        convs = [
            b.op("Conv", part, random(4, channels, 1, 1, seed=place), **(attributes if place else {}))
            for place, part in enumerate(made)
        ]
        return b.op("Concat", *convs, axis=0 if joined is None else joined)

    graph = build(body)
    if joined is None:
        graph.nodes[-1].attributes.pop("axis")
    return graph


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (parts(), None),
        (parts(axis=-3, joined=-3), None),
        (parts(count=4), None),
        (parts(axis=None, joined=0), "split or concat is not along the channels"),
        (parts(axis=None), "split or concat is not along the channels"),
        (parts(joined=0), "split or concat is not along the channels"),
        (parts(joined=None), "split or concat is not along the channels"),
        (parts(joined=2), "split or concat is not along the channels"),
        (parts(activation="Relu"), "the convolutions differ"),
    ],
)
def test_convolutions_of_parts_are_one_of_groups(graph: Graph, reason: str | None) -> None:
    (rule,) = SPLIT_CONV
    assert reason_of(graph, rule) == reason
    if reason is None:
        assert fused(graph, rule).operators == {"Conv": 1}


# ---- FIXPIPE stores in the form of the sums


@pytest.mark.parametrize("kind", ["AscendDequant", "Relu"])
def test_what_changes_the_form_is_not_stored_by_fixpipe(kind: str) -> None:
    graph = fused(build(int8_network), FIXPIPE[0], generation="c220").graph
    node = next(item for item in graph.nodes if item.op_type == kind)
    node.output.format = Format.FRACTAL_Z
    copy = copy_graph(graph)
    report = FusionReport()
    run_rules(copy, [FIXPIPE[1]], context("c220"), report)
    left = {item.op_type for item in copy.nodes}
    assert kind in left
    assert ("AscendDequant" in left) is (kind == "AscendDequant")


# ---- new nodes of a rule


@pytest.mark.parametrize("like", [False, True])
def test_a_new_node_inherits_where_it_comes_from(like: bool) -> None:
    b = new_builder()
    old = b.op("Abs", b.input("x", (2,))).producer
    assert old is not None
    old.origin.update(framework="onnx", source_names=("a", "b"))
    rules = FusionContext(OPSET, "v100", "Ascend310", {})
    made = rules.add(b.graph, "Neg", [old.output], name="made", like=old if like else None)
    assert made.origin == (old.origin if like else {})
    assert (made.name, made.output.shape, made.output.dtype) == ("made", (2,), DType.FLOAT32)
    made.origin["more"] = 1
    assert "more" not in old.origin


# ---- the graph engine


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [
        (None, None, None),
        (None, (2, 3), (2, 3)),
        ((2, 3), None, (2, 3)),
        ((2, None), (None, 3), (2, 3)),
        ((2, None), (5, "n"), (2, "n")),
        (("n", 3), (4, None), (4, 3)),
        (("n", 3), ("m", None), ("n", 3)),
        (("n", 3), (None, 3), ("n", 3)),
        ((2, None), (3,), (2, None)),
        ((2,), (3, 4), (2,)),
    ],
)
def test_a_shape_keeps_what_only_the_old_one_knows(new: Any, old: Any, wanted: Any) -> None:
    assert _merged(new, old) == wanted


def test_a_size_that_depends_on_values_is_no_constant_that_is_made_later() -> None:
    """Of more than 1 MiB of operands nothing is computed at once, and of an open size nothing later."""
    b = new_builder()
    weight = b.weight("w", (1 << 19,), lambda: np.ones(1 << 19, np.float32))
    b.output(b.op("NonZero", weight), "y")
    after = asim.optimize(b.graph, passes=["ConstantFoldingPass"]).graph
    assert [node.op_type for node in after.nodes] == ["NonZero"]


# ---- levers


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        (1, 1, True),
        (1, 2, False),
        (2, 7, True),
        (7, 7, True),
        (3, 6, False),
        (3, 7, True),
        (7, 1, True),
        (7, 3, False),
    ],
)
def test_sizes_with_a_vector_form(source: int, target: int, fits: bool) -> None:
    assert regular(source, target) is fits


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [(1, 2, None), (7, 3, None), (1, 1, (1, 1)), (2, 9, (2, 9)), (3, 6, (4, 7))],
)
def test_the_nearest_such_sizes(source: int, target: int, wanted: tuple[int, int] | None) -> None:
    assert nearest_sizes(source, target) == wanted


MAP = (2, 8, 5, 5)


def _conv(b: GraphBuilder, **more: Any) -> Tensor:
    return b.op("Conv", b.input("x", MAP), random(8, 8 // more.get("group", 1), 1, 1), **more)


def _run_filter(b: GraphBuilder) -> Tensor:
    return b.op("Conv", b.input("x", MAP), b.input("w", (8, 8, 1, 1)))


def _run_bias(b: GraphBuilder) -> Tensor:
    return b.op("Conv", b.input("x", MAP), random(8, 8, 1, 1), b.input("bias", (8,)))


def _joined(axis: int) -> Callable[[GraphBuilder], Tensor]:
    return lambda b: b.op("Concat", b.input("x", MAP), b.input("z", MAP), axis=axis)


def _squeezed(b: GraphBuilder) -> Tensor:
    return b.op("Mul", b.input("x", MAP), b.op("Sigmoid", b.input("z", (2, 8, 1, 1))))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (_conv, Kind.CONV),
        (lambda b: _conv(b, group=8), Kind.SAME),
        (lambda b: _conv(b, group=2), Kind.OTHER),
        (_run_filter, Kind.OTHER),
        (_run_bias, Kind.OTHER),
        (_joined(1), Kind.CONCAT),
        (_joined(-3), Kind.CONCAT),
        (_joined(0), Kind.OTHER),
        (_joined(2), Kind.OTHER),
        (_joined(-1), Kind.OTHER),
        (lambda b: b.op("Relu", b.input("x", MAP)), Kind.SAME),
        (lambda b: b.op("Relu", b.input("x", (2, 8))), Kind.OTHER),
        (lambda b: b.op("Softmax", b.input("x", MAP), axis=1), Kind.OTHER),
        (lambda b: b.op("Softmax", b.input("x", MAP), axis=2), Kind.SAME),
        (lambda b: b.op("Log", b.input("x", MAP)), Kind.OTHER),
        (lambda b: b.op("Transpose", b.input("x", MAP), perm=(0, 1, 3, 2)), Kind.SAME),
        (lambda b: b.op("Transpose", b.input("x", MAP), perm=(0, 2, 1, 3)), Kind.OTHER),
        (lambda b: b.op("Add", b.input("x", MAP), random(8, 1, 1)), Kind.SAME),
        (lambda b: b.op("Add", b.input("x", MAP), b.input("z", (1, 1, 5, 5))), Kind.SAME),
        (_squeezed, Kind.SAME),
    ],
)
def test_what_a_node_does_with_channels(body: Any, kind: Kind) -> None:
    node = build(body).nodes[-1]
    assert kind_of(node, OPSET) is kind


def test_a_product_keeps_what_works_on_each_element_by_numbers() -> None:
    def chain(b: GraphBuilder, *steps: Callable[[GraphBuilder, Tensor], Tensor]) -> tuple[str, str]:
        y = product = b.op("MatMul", b.input("x", (4, 5, 8)), random(8, 6))
        for step in steps:
            y = step(b, y)
        b.output(y, "y")
        assert product.producer is not None
        return _last(product.producer, OPSET).op_type, b.graph.nodes[-1].op_type

    add = lambda b, y: b.op("Add", y, random(6))
    relu = lambda b, y: b.op("Relu", y)
    assert chain(new_builder(), add, relu) == ("Relu", "Relu")
    for stop, kind in (
        (lambda b, y: b.op("Softmax", y), "Softmax"),
        (lambda b, y: b.op("Add", y, random(5, 6)), "Add"),
        (lambda b, y: b.op("Mul", y, b.input("z", (4, 5, 6))), "Mul"),
        (lambda b, y: b.op("Mul", y, b.input("z", (6,))), "Mul"),
        (lambda b, y: b.op("Transpose", y, perm=(1, 0, 2)), "Transpose"),
        (lambda b, y: b.op("Add", y, random(2, 1, 1, 1)), "Add"),
    ):
        assert chain(new_builder(), relu, stop) == ("Relu", kind)
    b = new_builder()
    product = b.op("MatMul", b.input("x", (4, 5, 8)), random(8, 6))
    b.output(b.op("Relu", product), "y")
    b.output(product, "z")
    assert product.producer is not None
    assert _last(product.producer, OPSET) is product.producer


def attention(
    factor: Any = 0.25,
    mask: tuple[int, ...] = (2, 1, 1, 6),
    kind: str = "Mul",
    axis: int = -1,
    shown: str = "",
    perm: tuple[int, ...] = (0, 2, 3, 1),
    swapped: bool = False,
) -> Graph:
    """Scores of attention as exporters write them."""

    def body(b: GraphBuilder) -> list[Tensor]:
        q, k = b.input("q", (2, 4, 6, 8)), b.input("k", (2, 6, 4, 8))
        keys = b.op("Transpose", k, perm=perm)
        product = b.op("MatMul", q, keys if perm == (0, 2, 3, 1) else b.input("t", (2, 4, 8, 6)))
        held = b.input("factor", ()) if factor is None else b.constant(np.asarray(factor, np.float32), "f")
        scaled = b.op(kind, *((held, product) if swapped else (product, held)))
        scores = b.op("Add", scaled, b.input("mask", mask))
        found = {"product": product, "scaled": scaled, "keys": keys}
        return [b.op("Softmax", scores, axis=axis), *([found[shown]] if shown else [])]

    return build(body)


@pytest.mark.parametrize(
    ("graph", "sites"),
    [
        (attention(), 1),
        (attention(swapped=True), 1),
        (attention(kind="Div"), 1),
        (attention(kind="Div", swapped=True), 0),
        (attention(kind="Sub"), 0),
        (attention(factor=None), 0),
        (attention(factor=[0.25]), 1),
        (attention(factor=[[[[0.25]], [[0.5]], [[1]], [[2]]]]), 0),
        (attention(axis=3), 1),
        (attention(axis=2), 0),
        (attention(mask=(2, 1, 6, 6)), 1),
        (attention(mask=(1, 1, 1, 6)), 0),
        (attention(mask=(2, 4, 1, 6)), 0),
        (attention(mask=(1, 6)), 0),
        (attention(shown="scaled"), 0),
        (attention(shown="product"), 1),
        (attention(shown="keys"), 1),
    ],
)
def test_scores_that_are_written_as_passes_look_for_them(graph: Graph, sites: int) -> None:
    found = find_sites(graph, AttentionPattern(), LeverContext(OPSET))
    assert len(found) == sites


def test_nodes_of_other_domains_are_none_of_onnxs() -> None:
    node = build(lambda b: b.op("Relu", b.input("x", MAP))).nodes[0]
    assert kind_of(node, OPSET) is Kind.SAME
    node.domain = "somebody"
    assert kind_of(node, OPSET) is Kind.OTHER
    assert isinstance(node, Node)


# ---- lists of types


def test_of_unknown_names_the_first_by_letters_is_said() -> None:
    graph = build(lambda b: b.op("Relu", b.input("x", MAP)))
    names = frozenset(f"operator_{letter}" for letter in "zyxwvutsrqponmlkj")
    with pytest.raises(InputError, match="option keep_dtype: operator 'operator_j' is not in the model"):
        KeepList(names).check(graph, OPSET)
    KeepList(frozenset({graph.nodes[0].name})).check(graph, OPSET)
    KeepList(types=frozenset({"Relu"})).check(graph, OPSET)
    with pytest.raises(InputError, match="keep_dtype.*NoSuchType"):
        KeepList(types=frozenset({"NoSuchType"})).check(graph, OPSET)


def test_a_kept_operator_is_one_that_is_named_or_stands_for_one() -> None:
    node = build(lambda b: b.op("ReduceSum", b.input("x", MAP), b.constant(np.array([1])))).nodes[0]
    node.origin["source_names"] = ("before", "after")
    for held, keeps in (
        (KeepList(), False),
        (KeepList(frozenset({node.name})), True),
        (KeepList(frozenset({"after"})), True),
        (KeepList(frozenset({"another"})), False),
        (KeepList(types=frozenset({"ReduceSum"})), True),
        (KeepList(types=frozenset({"ReduceSumD"})), True),
        (KeepList(types=frozenset({"ReduceMax"})), False),
    ):
        assert held.holds(node, OPSET) is keeps
        assert bool(held) is (held != KeepList())


# ---- what lies alike in blocks

NC, NZ = Format.NC1HWC0, Format.FRACTAL_NZ
BLOCKS = (2, 32, 5, 6)


@pytest.mark.parametrize(
    ("shape", "own", "constant", "format", "fits"),
    [
        (BLOCKS, BLOCKS, False, NC, True),
        (BLOCKS, (1, 32, 1, 1), False, NC, True),
        (BLOCKS, (2, 32, 1, 1), False, NC, True),
        (BLOCKS, (1, 32, 5, 6), False, NC, True),
        (BLOCKS, (1, 32, 1, 6), False, NC, False),
        (BLOCKS, (1, 32, 5, 1), False, NC, False),
        (BLOCKS, (2, 1, 5, 6), False, NC, False),
        (BLOCKS, (1, 1, 1, 1), False, NC, True),
        (BLOCKS, (32, 1, 1), False, NC, False),
        (BLOCKS, (32, 1, 1), True, NC, True),
        (BLOCKS, (32, 5, 6), True, NC, True),
        (BLOCKS, (5, 6), True, NC, False),
        (BLOCKS, (), True, NC, True),
        (BLOCKS, (3, 32, 1, 1), True, NC, False),
        ((3, 32, 48), (3, 32, 48), False, NZ, True),
        ((3, 32, 48), (1, 32, 48), False, NZ, True),
        ((3, 32, 48), (3, 1, 48), False, NZ, False),
        ((3, 32, 48), (3, 32, 1), False, NZ, False),
        ((3, 32, 48), (32, 48), False, NZ, False),
        ((3, 32, 48), (48,), True, NZ, True),
        ((3, 32, 48), (1, 48), True, NZ, True),
        ((3, 32, 48), (32, 48), True, NZ, False),
        ((3, 32, 48), (32, 1), True, NZ, False),
        ((3, 32, 48), (1,), True, NZ, True),
    ],
)
def test_operands_that_meet_block_by_block(
    shape: tuple[int, ...], own: tuple[int, ...], constant: bool, format: Format, fits: bool
) -> None:
    tensor = Tensor("t", DType.FLOAT16, own)
    if constant:
        tensor.constant = Constant(absent_because="not asked for")
    assert _broadcasts(tensor, shape, format) is fits


@pytest.mark.parametrize(
    ("computed", "loaded", "absent", "left"),
    [
        (False, False, False, 1),
        (False, True, False, 1),
        (True, True, False, 1),
        (True, False, False, 2),  # they would be computed for this alone
        (False, False, True, 2),
    ],
)
def test_equal_constants_become_one_where_their_values_are_at_hand(
    computed: bool, loaded: bool, absent: bool, left: int
) -> None:
    b = new_builder()
    for number in range(2):
        held = Constant(loader=lambda: np.arange(4, dtype=np.float32), computed=computed)
        held = Constant(absent_because="left out") if absent else held
        if loaded:
            held.array()
        tensor = b.graph.add_tensor(Tensor(f"w{number}", DType.FLOAT32, (4,), constant=held))
        b.output(b.op("Neg", tensor), f"y{number}")
    after = asim.optimize(b.build(), passes=["RemoveSameConstPass"]).graph
    assert len(list(after.constants)) == left


# ---- forms of CANN's operators in patterns that are lists of edges


def node_of(op_type: str, *inputs: Any, domain: str = "") -> Node:
    b = new_builder()
    x = b.input("x", (2, 3))
    ports = [x if item == "x" else item for item in inputs]
    node = b.op(op_type, *ports, domain=domain).producer
    assert node is not None
    return node


def _elsewhere(node: Node) -> Node:
    node.domain = "somebody"
    return node


def _root_elsewhere(node: Node) -> Node:
    root = node.required(0).producer
    assert root is not None
    root.domain = "somebody"
    return node


def _reciprocal(of: str) -> Node:
    b = new_builder()
    node = b.op("Reciprocal", b.op(of, b.input("x", (2, 3)))).producer
    assert node is not None
    return node


@pytest.mark.parametrize(
    ("node", "inputs"),
    [
        (node_of("Square", "x", domain="ascend"), 1),
        (node_of("Mul", "x", "x"), 1),
        (node_of("Mul", "x", np.float32(2)), None),
        (node_of("Pow", "x", np.float32(2)), 1),
        (node_of("Pow", "x", np.float32(3)), None),
        (node_of("Add", "x", "x"), None),
        (_elsewhere(node_of("Square", "x", domain="ascend")), None),
        (_elsewhere(node_of("Mul", "x", "x")), None),
    ],
)
def test_what_stands_for_a_square(node: Node, inputs: int | None) -> None:
    form = _square(node)
    assert (None if form is None else len(form.inputs)) == inputs


@pytest.mark.parametrize(
    ("node", "stands"),
    [
        (_reciprocal("Sqrt"), True),
        (_reciprocal("Exp"), False),
        (node_of("Reciprocal", "x"), False),
        (node_of("Sqrt", "x"), False),
        (_elsewhere(_reciprocal("Sqrt")), False),
        (_root_elsewhere(_reciprocal("Sqrt")), False),
    ],
)
def test_what_stands_for_the_inverse_of_a_root(node: Node, stands: bool) -> None:
    form = _rsqrt(node)
    assert (form is not None) is stands
    if form is not None:
        assert [item.op_type for item in form.nodes] == ["Reciprocal", "Sqrt"]


def test_an_operator_stands_for_itself_by_type_domain_and_inputs() -> None:
    node = node_of("Add", "x", "x")
    assert _plain("Add").form(node) is not None
    assert _plain("Add", 2).form(node) is not None
    assert _plain("Add", 3).form(node) is None
    assert _plain("Sub").form(node) is None
    assert _plain("Add", domain="ascend").form(node) is None
    assert _plain("Add").form(_elsewhere(node)) is None


@pytest.mark.parametrize("text", ["a", "a -> b -> c", "-> b", "a ->", "a#b#c -> b", "Add#a:x -> b"])
def test_edges_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InputError, match="must read `source -> target`, each `Type#id:port` or a name"):
        parse_edges(text)


def rows(shape: tuple[int, ...], axis: int = -1, end: bool = False) -> Graph:
    """Scores between two operators, or at the end of the network."""

    def body(b: GraphBuilder) -> Tensor:
        y = b.op("Softmax", b.op("Abs", b.input("x", shape)), axis=axis)
        return y if end else b.op("Neg", y)

    return build(body)


@pytest.mark.parametrize(
    ("graph", "possible"),
    [
        (rows((2, 4, 5)), True),
        (rows((2, 3, 4, 5)), True),
        (rows((2, 4, 15)), True),
        (rows((2, 4, 16)), None),
        (rows((2, 4, 17)), True),
        (rows((4, 5)), None),
        (rows((5,)), None),
        (rows((2, 4, 5), axis=2), True),
        (rows((2, 4, 5), axis=1), None),
        (rows((2, 4, 5), end=True), False),
    ],
)
def test_rows_that_end_inside_a_block_may_be_columns(graph: Graph, possible: bool | None) -> None:
    """None: there is nothing to change."""
    sites = find_sites(graph, SoftmaxAxis(), LeverContext(OPSET))
    assert [site.possible for site in sites] == ([] if possible is None else [possible])
