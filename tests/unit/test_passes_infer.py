"""Shape inference with folding, dead code, and the pass manager, on a few toy operators."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, PassError
from ascendsim.graph.ir import Constant, Graph
from ascendsim.graph.text import parse_text, to_text
from ascendsim.opset import InferContext, OpDef, OpSet
from ascendsim.opset.structure import ELEMENTWISE
from ascendsim.passes.infer import infer
from ascendsim.passes.rewriting.passes import PassResult, run_passes
from ascendsim.passes.rewriting.removal import remove_dead


def same(ctx: InferContext) -> None:
    ctx.set(0, ctx.dtype(0), ctx.shape(0))


def reshape(ctx: InferContext) -> None:
    target = ctx.value(1)
    ctx.set(0, ctx.dtype(0), None if target is None else tuple(int(dim) for dim in target))


def concat(ctx: InferContext) -> None:
    shapes = [ctx.shape(port) for port in range(ctx.node.input_count)]
    known = all(shape is not None and isinstance(shape[0], int) for shape in shapes)
    ctx.set(0, ctx.dtype(0), (sum(shape[0] for shape in shapes),) if known else (None,))


def gather(ctx: InferContext) -> None:
    ctx.set(0, ctx.dtype(0), ctx.shape(1))


def fill(ctx: InferContext) -> None:
    target = ctx.value(0)
    ctx.set(0, DType.FLOAT32, None if target is None else tuple(int(dim) for dim in target))


def to_int64(ctx: InferContext) -> None:
    shape = ctx.shape(0)
    ctx.set(0, DType.INT64, None if shape is None else (len(shape),))


def unary(function):
    return lambda node, inputs, dtypes: [function(inputs[0]).astype(dtypes[0])]


OPS = OpSet(
    [
        OpDef("Relu", same, unary(lambda x: np.maximum(x, 0)), facts=ELEMENTWISE),
        OpDef(
            "Reshape",
            reshape,
            lambda node, inputs, dtypes: [inputs[0].reshape(inputs[1])],
            most_inputs=2,
            facts=ELEMENTWISE,
        ),
        OpDef("Shape", to_int64, unary(lambda x: np.array(x.shape)), facts=ELEMENTWISE),
        OpDef(
            "Concat",
            concat,
            lambda node, inputs, dtypes: [np.concatenate(inputs)],
            most_inputs=None,
            facts=ELEMENTWISE,
        ),
        OpDef(
            "Gather",
            gather,
            lambda node, inputs, dtypes: [inputs[0][inputs[1]]],
            most_inputs=2,
            facts=ELEMENTWISE,
        ),
        OpDef(
            "ConstantOfShape",
            fill,
            lambda node, inputs, dtypes: [np.zeros(inputs[0], dtypes[0])],
            facts=ELEMENTWISE,
        ),
        OpDef("RandomNormalLike", same, unary(lambda x: x), foldable=False, facts=ELEMENTWISE),
        OpDef("Broken", same, unary(lambda x: 1 / 0), facts=ELEMENTWISE),
        OpDef(
            "Malformed",
            lambda ctx: ctx.set(0, ctx.dtype(0), (ctx.node.attributes["missing"],)),
            unary(lambda x: x),
            facts=ELEMENTWISE,
        ),
        OpDef("Negative", lambda ctx: ctx.set(0, ctx.dtype(0), (-1,)), unary(lambda x: x), facts=ELEMENTWISE),
        OpDef(
            "Huge",
            lambda ctx: ctx.set(0, ctx.dtype(0), (1 << 30, 1 << 30)),
            unary(lambda x: x),
            facts=ELEMENTWISE,
        ),
    ]
)

CHAIN = """\
graph g {{
  input %x: float32[{dims}]
  const %one: int64[1] = [0]
  const %rest: int64[1] = [{rest}]
  shape: %s: ?[*] = Shape(%x)
  gather: %d: ?[*] = Gather(%s, %one)
  concat: %t: ?[*] = Concat(%d, %rest)
  reshape: %y: ?[*] = Reshape(%x, %t)
  output %y
}}
"""


def test_shape_arithmetic_of_static_inputs_vanishes():
    graph = parse_text(CHAIN.format(dims="2,3,4", rest=12))
    infer(graph, OPS)
    assert (
        to_text(graph)
        == """\
graph g {
  input %x: float32[2,3,4]
  const %t: int64[2] = [2, 12]
  reshape: %y: float32[2,12] = Reshape(%x, %t)
  output %y
}
"""
    )


def test_symbolic_inputs_keep_their_arithmetic():
    graph = parse_text(CHAIN.format(dims="n,3,4", rest=12))
    infer(graph, OPS)
    assert [node.name for node in graph.nodes] == ["shape", "gather", "concat", "reshape"]
    assert graph.tensors["s"].shape == (3,)
    assert graph.tensors["s"].dtype is DType.INT64
    assert graph.outputs[0].shape is None


def test_part_of_a_shape_folds_if_that_part_is_static():
    graph = parse_text("graph g { input %x: float32[n,3,4] s: %s: ?[*] = Shape(%x) {start = 1} output %s }")
    infer(graph, OPS)
    np.testing.assert_array_equal(graph.outputs[0].constant.array(), [3, 4])


def test_size_folds():
    ops = OpSet([OpDef("Size", lambda ctx: ctx.set(0, DType.INT64, ()), unary(np.size), facts=ELEMENTWISE)])
    graph = parse_text("graph g { input %x: float32[5,3,4] s: %s: ?[*] = Size(%x) output %s }")
    infer(graph, ops)
    assert int(graph.outputs[0].constant.array()) == 60


def test_an_output_that_folds_keeps_its_name():
    graph = parse_text("graph g { const %c: float32[2] = [-1.0, 2.0] r: %y: ?[*] = Relu(%c) output %y }")
    infer(graph, OPS)
    assert to_text(graph) == "graph g {\n  const %y: float32[2] = [0.0, 2.0]\n  output %y\n}\n"


@pytest.mark.parametrize(
    "text",
    [
        "const %c: int64[2] = [1024, 1024] n: %y: ?[*] = ConstantOfShape(%c)",  # 4 MiB are too much to fold
        "const %c: float32[2] = [1.0, 2.0] n: %y: ?[*] = RandomNormalLike(%c)",  # not foldable
        'const %c: float32[2] = absent "no file" n: %y: ?[*] = Relu(%c)',  # no values
        "const %c: float32[20000000] = large n: %y: ?[*] = Relu(%c)",
    ],
)
def test_what_does_not_fold(text):
    graph = parse_text(f"graph g {{ {text} output %y }}")
    infer(graph, OPS)
    assert len(graph) == 1
    assert graph.outputs[0].is_static


def test_large_weights_are_not_read():
    def refuse():
        raise AssertionError("asked for values")

    graph = parse_text("graph g { const %c: float32[40000000] = large n: %y: ?[*] = Relu(%c) output %y }")
    graph.tensors["c"].constant = Constant(loader=refuse)
    infer(graph, OPS)
    assert len(graph) == 1


def test_folding_computes_in_the_models_own_types():
    graph = parse_text("graph g { const %c: float16<float32>[1] = [0.1] r: %y: ?[*] = Relu(%c) output %y }")
    infer(graph, OPS)
    assert graph.outputs[0].constant.array().dtype == np.float32


def test_unknown_operators_stop_inference_behind_them_without_an_error():
    graph = parse_text(
        "graph g { input %x: float32[2] a: %a: ?[*] = Mystery(%x) b: %b: ?[*] = Relu(%a) c: %c: ?[*] = "
        "Relu(%x) output %b output %c }"
    )
    infer(graph, OPS)
    assert graph.tensors["b"].dtype is None
    assert graph.tensors["c"].shape == (2,)


def test_subgraphs_are_inferred_with_what_they_capture():
    graph = parse_text(
        "graph g { input %c: bool[] input %x: float32[2,3] r: %r: ?[*] = Relu(%x) "
        "if: %y: ?[*] = If(%c) {then_branch = graph t { n: %n: ?[*] = Relu(%r) s: %s: ?[*] = Shape(%r) "
        "output %n output %s }} output %y }"
    )
    infer(graph, OPS)
    inner = dict(graph.node("if").subgraphs)["then_branch"]
    assert inner.outputs[0].shape == (2, 3)
    np.testing.assert_array_equal(inner.outputs[1].constant.array(), [2, 3])


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        ("Broken", r"node 'n' \(Broken\) fails on its constant inputs: division by zero"),
        ("Malformed", r"node 'n' \(Malformed\) is malformed: KeyError: 'missing'"),
        ("Negative", r"output 'y' of node 'n' \(Negative\) must have no negative dimension, not \[-1\]"),
        ("Huge", r"output 'y' of node 'n' \(Huge\) must have at most"),
    ],
)
def test_errors_name_the_node(operator, message):
    with pytest.raises(GraphError, match=message):
        infer(
            parse_text(f"graph g {{ const %c: float32[1] = [1.0] n: %y: ?[*] = {operator}(%c) output %y }}"),
            OPS,
        )


def test_dead_chains_go_but_control_edges_hold():
    graph = parse_text(
        "graph g { input %x: float32[1] const %w: float32[1] = [1.0] a: %a: ?[*] = Add(%x, %w) b: %b: ?[*] "
        "= Relu(%a) "
        "c: %c: ?[*] = Relu(%x) d: %d: ?[*] = Relu(%x) after (c) output %d }"
    )
    assert remove_dead(graph) == (2, 1)
    assert [node.name for node in graph.nodes] == ["c", "d"]
    assert "w" not in graph.tensors


def test_a_dead_node_with_a_subgraph_releases_what_it_captured():
    graph = parse_text(
        "graph g { input %c: bool[] input %x: float32[1] r: %r: ?[*] = Relu(%x) "
        "if: %y: ?[*] = If(%c) {b = graph t { n: %n: ?[*] = Relu(%r) output %n }} output %x }"
    )
    remove_dead(graph)
    assert len(graph) == 0
    assert graph.inputs[1].uses == ()


@dataclass(frozen=True)
class Toy:
    name: str
    action: object = None

    def run(self, graph: Graph) -> PassResult:
        if self.action:
            self.action(graph)
        return PassResult(bool(self.action), {"things": 1})


def simple() -> Graph:
    return parse_text("graph g { input %x: float32[1] r: %y: float32[1] = Relu(%x) output %y }")


def test_passes_run_in_order_and_report():
    seen = []
    results = run_passes(simple(), [Toy("a"), Toy("b", lambda graph: seen.append(len(graph)))])
    assert [(name, result.changed) for name, result in results] == [("a", False), ("b", True)]
    assert seen == [1]


def test_a_pass_that_breaks_the_graph_is_named_with_those_before_it():
    passes = [Toy("first"), Toy("bad", lambda graph: graph.outputs.clear())]
    with pytest.raises(
        PassError,
        match=r"pass 'bad' left a broken graph: graph 'g' must have an output.*passes before it: first",
    ):
        run_passes(simple(), passes)


def test_the_graph_may_be_verified_behind_the_last_pass():
    passes = [Toy("bad", lambda graph: graph.outputs.clear()), Toy("last")]
    with pytest.raises(
        PassError,
        match=(
            r"pass 'last' left a broken graph: .*defect of this pass or one before it; passes before it: "
            r"bad"
        ),
    ):
        run_passes(simple(), passes, check="last")


def test_a_pass_that_fails_is_named():
    def fail(graph):
        raise GraphError("node 'r'", "is not to its liking")

    with pytest.raises(
        PassError, match=r"pass 'bad' failed: node 'r' is not to its liking; passes before it: none"
    ):
        run_passes(simple(), [Toy("bad", fail)])


def test_a_pass_may_not_leave_unknown_operators():
    def change(graph):
        graph.node("r").op_type = "Nonsense"

    run_passes(simple(), [Toy("bad", change)])
    with pytest.raises(PassError, match="Nonsense"):
        run_passes(simple(), [Toy("bad", change)], known_ops=OPS)
