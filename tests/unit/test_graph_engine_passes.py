"""Each pass of the graph engine on the smallest graphs that show what it does and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import PassError
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.ops import default_opset
from ascendsim.passes.engine import stages
from ascendsim.passes.engine.trans_ops import is_lossless
from ascendsim.passes.infer import infer
from ascendsim.passes.rewriting.passes import PassResult
from tests.support.evaluate import evaluate
from tests.support.fusing import types
from tests.support.gate import in_one


def left(body, **options) -> list[str]:
    """Operators that are left of what the function builds on a float32 input of shape (2, 3) and sends
    through a Relu."""
    b = asim.GraphBuilder()
    b.output(b.op("Relu", body(b, b.input("x", (2, 3)))), "y")
    return types(asim.optimize(b.build(), **options).graph)[:-1]


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (lambda b, x: b.op("Mul", x, 1.0), []),
        (lambda b, x: b.op("Mul", 1.0, x), []),
        (lambda b, x: b.op("Div", x, 1.0), []),
        (lambda b, x: b.op("Div", b.constant(1.0), x), ["Div"]),
        (lambda b, x: b.op("Sub", x, 0.0), []),
        (lambda b, x: b.op("Sub", x, -0.0), ["Sub"]),  # -0.0 - -0.0 is 0.0
        (lambda b, x: b.op("Sub", b.constant(0.0), x), ["Sub"]),
        (lambda b, x: b.op("Add", x, 0.0), ["Add"]),  # -0.0 + 0.0 is 0.0
        (lambda b, x: b.op("Add", x, -0.0), []),
        (lambda b, x: b.op("Pow", x, 1.0), []),
        (lambda b, x: b.op("Mul", x, b.constant(np.ones((2, 3), np.float32))), []),
        (lambda b, x: b.op("Mul", x, b.constant(np.ones((4, 2, 3), np.float32))), ["Mul"]),  # x is broadcast
        (lambda b, x: b.op("Mul", x, b.constant(np.array([1, 2, 1], np.float32))), ["Mul"]),
        (lambda b, x: b.op("Where", b.constant(np.array(True)), x, np.float32(5)), []),
        (lambda b, x: b.op("Where", b.constant(np.array([True, False, True])), x, np.float32(5)), ["Where"]),
    ],
)
def test_identity_arithmetic_keeps_every_bit(body, kept):
    assert left(body) == kept


def test_integers_have_one_zero():
    b = asim.GraphBuilder()
    x = b.input("x", (2,), DType.INT32)
    b.output(b.op("Neg", b.op("Add", x, 0)), "y")
    assert types(asim.optimize(b.build()).graph) == ["Neg"]


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (lambda b, x: b.op("Identity", x), []),
        (lambda b, x: b.op("Dropout", x), []),
        (lambda b, x: b.op("Dropout", x, 0.5, np.array(True)), ["Dropout"]),
        (lambda b, x: b.op("StopGradient", b.op("Snapshot", x, domain="ascend"), domain="ascend"), []),
        (lambda b, x: b.op("Print", b.op("GuaranteeConst", x, domain="ascend"), domain="ascend"), []),
        (lambda b, x: b.op("Sum", x), []),
        (lambda b, x: b.op("Cast", x, to=DType.FLOAT32), []),
        (lambda b, x: b.op("Reshape", x, [2, 3]), []),
        (lambda b, x: b.op("Reshape", x, [-1, 3]), []),
        (lambda b, x: b.op("Transpose", x, perm=[0, 1]), []),
        (lambda b, x: b.op("Transpose", x, perm=[1, 0]), ["Transpose"]),
        (lambda b, x: b.op("Expand", x, [2, 1]), []),
        (lambda b, x: b.op("Expand", x, [4, 2, 3]), ["Expand"]),
        (lambda b, x: b.op("Tile", x, [1, 1]), []),
        (lambda b, x: b.op("Slice", x, [0], [100], [1]), []),
        (lambda b, x: b.op("Slice", x, [-1], [-100], [1], [-1]), ["Slice"]),  # the same shape, backwards
        (lambda b, x: b.op("Pad", x, [0, 0, 0, 0]), []),
        (lambda b, x: b.op("Pad", x, [1, 0, -1, 0]), ["Pad"]),  # the same shape, moved
        (lambda b, x: b.op("Concat", x, axis=1), []),
    ],
)
def test_operators_that_change_nothing_go(body, kept):
    assert left(body) == kept


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (lambda b, x: b.op("Transpose", b.op("Transpose", x, perm=[1, 0]), perm=[1, 0]), []),
        (lambda b, x: b.op("Cast", b.op("Cast", x, to=DType.FLOAT64), to=DType.FLOAT32), []),
        # rounds
        (lambda b, x: b.op("Cast", b.op("Cast", x, to=DType.FLOAT16), to=DType.FLOAT32), ["Cast", "Cast"]),
        (lambda b, x: b.op("Cast", b.op("Cast", x, to=DType.INT32), to=DType.FLOAT32), ["Cast", "Cast"]),
        (lambda b, x: b.op("Cast", b.op("Cast", x, to=DType.FLOAT64), to=DType.FLOAT16), ["Cast"]),
        (lambda b, x: b.op("Squeeze", b.op("Unsqueeze", x, [0]), [0]), []),
        (lambda b, x: b.op("Reshape", b.op("Flatten", b.op("Unsqueeze", x, [0]), axis=2), [6]), ["Reshape"]),
        (lambda b, x: b.op("Reshape", b.op("Reshape", x, [6]), [2, 3]), []),
    ],
)
def test_neighbours_that_undo_each_other(body, kept):
    assert left(body) == kept


def test_three_transposes_become_one():
    b = asim.GraphBuilder()
    x = b.input("x", (2, 3, 4, 5))
    for perm in ([0, 2, 3, 1], [0, 3, 1, 2], [1, 0, 3, 2]):
        x = b.op("Transpose", x, perm=perm)
    b.output(x, "y")
    (node,) = asim.optimize(b.build()).graph.nodes
    assert node.attributes["perm"] == (1, 0, 3, 2)


def test_a_transpose_of_ones_is_a_reshape():
    b = asim.GraphBuilder()
    b.output(b.op("Transpose", b.input("x", (1, 7, 1, 5)), perm=[1, 0, 3, 2]), "y")
    (node,) = asim.optimize(b.build()).graph.nodes
    assert node.op_type == "Reshape"
    assert node.output.shape == (7, 1, 5, 1)


@in_one("source", list(DType))
@in_one("target", list(DType))
def test_lossless_casts_are_those_that_come_back(source, target):
    """Extremes, neighbours of powers of two, zeros of both signs: all of them come back exactly if and only
    if the cast is lossless."""
    numbers = [
        0,
        1,
        *(2**bits + step for bits in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63) for step in (-1, 0, 1)),
    ]
    if source.is_float:
        kind = source.numpy
        values = np.array(
            [0.0, -0.0, 1.0, 1 / 3, np.inf, -np.inf, 3e38, 1e-40, 65504.0, 1e300, 2.0**-24], np.float64
        )
        with np.errstate(all="ignore"):
            values = values.astype(kind)
    elif source is DType.BOOL:
        values = np.array([False, True])
    else:
        limits = np.iinfo(source.numpy)
        fitting = [sign * n for n in numbers for sign in (1, -1) if limits.min <= sign * n <= limits.max]
        values = np.array([*fitting, limits.min, limits.max], source.numpy)
    with np.errstate(all="ignore"):
        there = values.astype(target.numpy)
        back = there.astype(source.numpy)
    exact = np.array_equal(back, values) and (
        not source.is_float or np.array_equal(np.signbit(back), np.signbit(values))
    )
    if not source.is_float and target.is_float:  # a float above the limit may wrap back to what it was
        exact = exact and all(
            int(b) == int(a)
            for a, b in zip(values.tolist(), there.astype(np.float64).tolist(), strict=True)
            if np.isfinite(b)
        )
        exact = exact and bool(np.isfinite(there.astype(np.float64)).all())
    if not source.is_float and not target.is_float and source is not DType.BOOL:
        exact = exact and there.tolist() == values.tolist()
    assert is_lossless(source, target) == exact


def test_random_and_stateful_nodes_are_not_folded():
    b = asim.GraphBuilder()
    noise = [b.op("RandomNormalLike", b.constant(np.ones(3, np.float32)), seed=1.0) for _ in range(2)]
    b.output(b.op("Add", *noise), "y")
    assert types(asim.optimize(b.build()).graph) == ["RandomNormalLike", "RandomNormalLike", "Add"]


def test_nodes_marked_no_const_folding_stay_but_their_values_reach_shape_rules():
    b = asim.GraphBuilder()
    x = b.input("x", (6,))
    target = b.op("Add", b.constant([1, 2]), b.constant([1, 1]))
    target.producer.attributes["no_const_folding"] = 1
    b.output(b.op("Reshape", x, target), "y")
    result = asim.optimize(b.build())
    assert types(result.graph) == ["Add", "Reshape"]
    assert result.graph.outputs[0].shape == (2, 3)
    assert result.report.totals()["ConstantFoldingPass"]["left: marked no_const_folding"] >= 1


@pytest.mark.parametrize("op_type", ["Shape", "Size"])
def test_dimensions_marked_no_const_folding_stay(op_type):
    b = asim.GraphBuilder()
    asked = b.op(op_type, b.op("Relu", b.input("x", (2, 3))))
    asked.producer.attributes["no_const_folding"] = 1
    b.output(b.op("Neg", asked), "y")
    assert op_type in types(asim.optimize(b.build()).graph)


def test_empty_results_become_constants():
    b = asim.GraphBuilder()
    x = b.input("x", (4, 3))
    nothing = b.op("Exp", b.op("Slice", x, [0], [0], [0]))
    b.output(b.op("Concat", nothing, x, axis=0), "y")
    result = asim.optimize(b.build())
    assert types(result.graph) == ["Concat"]
    assert result.report.totals()["ReplaceWithEmptyConstPass"]["folded nodes"] == 2


def test_quantised_weights_are_not_widened():
    b = asim.GraphBuilder()
    weights = b.op("DequantizeLinear", b.constant(np.ones((3, 3), np.int8)), np.float32(0.5))
    b.output(b.op("MatMul", b.input("x", (2, 3)), weights), "y")
    assert types(asim.optimize(b.build()).graph) == ["DequantizeLinear", "MatMul"]


def test_what_needs_much_more_memory_folded_stays():
    b = asim.GraphBuilder()
    ones = b.op("Expand", 2.0, [1 << 20])
    b.output(b.op("Add", b.input("x", (1 << 20,)), ones), "y")
    result = asim.optimize(b.build())
    assert types(result.graph) == ["Expand", "Add"]
    assert any("stays, its value takes" in note for _, note in result.report.notes())


def test_whole_weights_are_folded_without_being_computed():
    asked = []

    def fill() -> np.ndarray:
        asked.append(1)
        return np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)

    b = asim.GraphBuilder()
    weight = b.weight("w", (1024, 1024), fill)
    b.output(b.op("MatMul", b.input("x", (1, 1024)), b.op("Transpose", weight, perm=[1, 0])), "y")
    result = asim.optimize(b.build())
    assert types(result.graph) == ["MatMul"]
    assert not asked
    (folded,) = result.graph.constants
    np.testing.assert_array_equal(
        folded.constant.array(), np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024).T
    )


def test_weights_without_values_fold_to_weights_without_values():
    b = asim.GraphBuilder()
    weight = b.weight("w", (8, 4))
    b.output(b.op("MatMul", b.input("x", (1, 4)), b.op("Transpose", weight, perm=[1, 0])), "y")
    result = asim.optimize(b.build())
    assert types(result.graph) == ["MatMul"]
    (folded,) = result.graph.constants
    assert folded.shape == (4, 8)
    assert not folded.constant.available


def test_common_subexpressions_need_equal_attributes_inputs_and_ports():
    b = asim.GraphBuilder()
    x = b.input("x", (4, 6))
    halves = [b.ops("Split", x, [3, 3], outputs=2, axis=1) for _ in range(2)]
    others = b.ops("Split", x, [3, 3], outputs=2, axis=1, num_outputs=None)
    softmax = [b.op("Softmax", x, axis=axis) for axis in (0, 1)]
    swapped = [b.op("Sub", halves[0][0], halves[0][1]), b.op("Sub", halves[1][1], halves[1][0])]
    b.output(b.op("Concat", *swapped, others[1], *softmax, axis=1), "y")
    result = asim.optimize(b.build())
    assert sorted(types(result.graph)) == ["Concat", "Softmax", "Softmax", "Split", "Sub", "Sub"]


def test_equal_nodes_that_both_name_outputs_stay():
    b = asim.GraphBuilder()
    x = b.input("x", (4,))
    for name in ("a", "b"):
        b.output(b.op("Exp", x), name)
    result = asim.optimize(b.build())
    assert types(result.graph) == ["Exp", "Exp"]
    assert [tensor.name for tensor in result.graph.outputs] == ["a", "b"]


def test_an_output_keeps_its_name_when_its_node_is_merged():
    b = asim.GraphBuilder()
    x = b.input("x", (4,))
    inner, outer = b.op("Exp", x), b.op("Exp", x)
    b.output(outer, "kept")
    b.output(b.op("Neg", inner), "y")
    result = asim.optimize(b.build())
    assert sorted(types(result.graph)) == ["Exp", "Neg"]
    assert [tensor.name for tensor in result.graph.outputs] == ["kept", "y"]


def test_an_identity_between_input_and_output_stays():
    b = asim.GraphBuilder()
    b.output(b.op("Identity", b.input("x", (4,))), "y")
    assert types(asim.optimize(b.build()).graph) == ["Identity"]


def constants_left(*arrays: np.ndarray) -> int:
    """How many of some constants, each read by a node of its own, RemoveSameConst leaves."""
    b = asim.GraphBuilder()
    for number, array in enumerate(arrays):
        b.output(b.op("Identity", b.constant(array)), f"y{number}")
    return len(list(asim.optimize(b.build(), passes=["RemoveSameConstPass"]).graph.constants))


def test_constants_match_by_type_shape_and_bytes():
    ones = np.ones(4, np.float32)
    assert constants_left(ones, ones.copy()) == 1
    assert constants_left(ones, ones.reshape(2, 2), ones.astype(np.float64), ones.view(np.int32)) == 4
    assert constants_left(np.array([0.0], np.float32), np.array([-0.0], np.float32)) == 2
    assert constants_left(np.array([np.nan], np.float32), np.array([np.nan], np.float32)) == 1


def test_constants_that_differ_in_one_byte_stay_two():
    array = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    other = array.copy()
    other[12_345] += 1
    assert constants_left(array, other) == 2
    assert constants_left(array, other, array.copy(), other.copy()) == 2


def dynamic_chain() -> Graph:
    """Two heads of a (batch, 6, 8) tensor, its shape cut up and joined as exporters write it; only the batch
    is open."""
    b = asim.GraphBuilder()
    x = b.input("x", ("batch", 6, 8))
    shape = b.op("Shape", x)
    batch, length = (b.op("Gather", shape, np.array(axis)) for axis in (0, 1))
    width = b.op("Slice", shape, [2], [3], [0])
    heads = b.op(
        "Concat",
        b.op("Unsqueeze", batch, [0]),
        b.op("Unsqueeze", length, [0]),
        [2],
        b.op("Mul", width, [1]),
        axis=0,
    )
    ones = b.op("Expand", 1.0, b.op("Unsqueeze", b.op("Add", length, 2), [0]))
    b.output(b.op("Reshape", b.op("Concat", x, x, axis=2), heads), "y")
    b.output(b.op("Relu", ones), "ones")
    return b.build()


def test_known_dimensions_of_a_dynamic_shape_fold():
    result = asim.optimize(dynamic_chain())
    y, ones = result.graph.outputs
    assert y.shape == ("batch", 6, 2, 8)
    assert ones.shape == (8,)
    assert "Mul" not in types(result.graph)
    assert "Slice" not in types(result.graph)
    assert result.report.totals()["InferValueRangePass"]["folded nodes"] >= 2
    assert to_text(asim.optimize(result.graph).graph) == to_text(result.graph)


def test_known_dimensions_of_a_dynamic_shape_keep_the_values():
    graph = dynamic_chain()
    x = np.random.default_rng(0).standard_normal((3, 6, 8)).astype(np.float32)
    expected = evaluate(graph, default_opset(), {"x": x})
    for old, new in zip(
        expected, evaluate(asim.optimize(graph).graph, default_opset(), {"x": x}), strict=True
    ):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    "body", [lambda b, s: b.op("Expand", 1.0, s), lambda b, s: b.op("Reshape", b.op("Expand", 1.0, s), s)]
)
def test_a_symbol_that_may_be_one_is_no_dimension_of_expand(body):
    b = asim.GraphBuilder()
    b.output(b.op("Relu", body(b, b.op("Shape", b.input("x", ("n", 4))))), "y")
    shape = asim.optimize(b.build()).graph.outputs[0].shape
    assert shape[1] == 4


def test_an_assertion_goes_with_what_only_it_reads():
    b = asim.GraphBuilder()
    x = b.input("x", (4,))
    b.graph.add_node("Assert", [b.op("Less", x, 9.0)], 0, name="assert", domain="ascend")
    b.output(b.op("Relu", x), "y")
    graph = b.build()
    assert types(asim.optimize(graph).graph) == ["Relu"]
    model = asim.compile(graph, optimize=False, fusion="off")
    assert asim.simulate(model).duration_us > 0


def test_weights_beyond_float16_are_clipped_on_the_device_only():
    b = asim.GraphBuilder()
    mask = np.array([-np.inf, -3e38, 7e4, 1.0], np.float32)
    b.output(b.op("Max", b.input("x", (4,)), b.constant(mask)), "y")
    model = asim.compile(b.build(), fusion="off")
    x = np.full(4, -1e5, np.float32)
    assert asim.run(model, {"x": x}).outputs["y"].tolist() == [-65504.0, -65504.0, 65504.0, 1.0]
    assert asim.run(model, {"x": x}, values="float32").outputs["y"].tolist() == np.maximum(x, mask).tolist()


def test_a_dissolved_call_hides_no_tensor_of_the_same_name():
    """The body calls a tensor as another subgraph, further on, calls its own."""
    b = asim.GraphBuilder()
    x = b.input("x", (3,))
    body, other, rest = Graph("body"), Graph("other"), Graph("rest")
    body.outputs.append(body.add_node("Neg", [x], ["same"], name="node").output)
    called = b.op("PartitionedCall", name="call", domain="ascend", f=body)
    inner = other.add_node("Abs", [called], ["same"], name="node")
    other.outputs.append(other.add_node("Add", [inner.output, called], ["sum"], name="add").output)
    rest.outputs.append(rest.add_node("Identity", [called], ["rest_out"], name="hand_on").output)
    condition = b.op("Cast", b.op("ReduceMax", x, keepdims=0), to=DType.BOOL)
    b.output(b.op("If", condition, name="if", then_branch=other, else_branch=rest), "y")
    graph = b.build()
    infer(graph, default_opset())
    values = {"x": np.array([1, -2, 3], np.float32)}
    (expected,), (got,) = (
        evaluate(item, default_opset(), values) for item in (graph, asim.optimize(graph).graph)
    )
    np.testing.assert_array_equal(expected, got)


def test_who_waited_for_a_removed_node_waits_for_what_made_its_input():
    b = asim.GraphBuilder()
    x = b.input("x", (3,))
    made = b.op("Exp", x, name="made")
    same = b.op("Identity", made, name="same")
    last = b.op("Neg", x, name="last")
    last.producer.add_control(same.producer)
    b.output(b.op("Add", same, last, name="sum"), "y")
    result = asim.optimize(b.build())
    assert [node.name for node in result.graph.node("last").control] == ["made"]


def test_a_pass_that_breaks_the_graph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class LosesOutputs:
        name = "loses-outputs"

        def run(self, graph: Graph) -> PassResult:
            graph.outputs.clear()
            return PassResult(True)

    builder = asim.GraphBuilder()
    builder.output(builder.op("Relu", builder.input("x", (4,))), "y")
    monkeypatch.setattr(stages, "before_fusion", lambda: (stages.Stage("s", passes=(LosesOutputs(),)),))
    with pytest.raises(PassError, match=r"loses-outputs.*left a broken graph: .*must have an output"):
        stages.GraphEngine(default_opset()).prepare(builder.build())
