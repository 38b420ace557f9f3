"""The text form: what it writes, that it reads back, and how it complains."""

from __future__ import annotations

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Constant, Graph
from ascendsim.graph.text import parse_text, to_text

EVERYTHING = """\
graph "a b" {
  input %x: float32[batch,3,?,8]
  input %s: ?[*]
  const %w: float32[4,3,1,1] = large
  const %v: float16<float32>[64] = absent "file weights.bin is missing"
  const %axes: int64[2] = [1, -2]
  const %f: float32[5] = [1.0, -0.5, nan, inf, -inf]
  const %flag: bool[2] = [true, false]
  const %none: int64[0] = []
  conv1: %y: float16<float32>[batch,4,8,8] @NC1HWC0 = Conv(%x, %w, _, %v) {auto_pad = "SAME\\"\\n", group = 1, strides = [1, 1]}
  "n 2": %z: float16<float32>[?,"2nd",8,8] @FRACTAL_NZ = com.microsoft::Gelu(%y) {alpha = 1e-05, empty = []} after (conv1)
  add: %"onnx::Add_1": float32[*], %unused: ?[*] = Add(%z, %z)
  cast: %c: float32[] = Cast(%s) {names = ["a", "b"], to = type float16, value = array float32[1,2] [0.1, nan]}
  if: %q: ?[*] = If(%flag) {else_branch = graph e {
    n0: %e0: float32[] = Identity(%y)
    output %e0
  }, then_branch = graph t {
    n0: %e1: float32[] = If(%flag) {branches = [graph i {
      n1: %i0: float32[] = Identity(%"onnx::Add_1")
      output %i0
    }]}
    output %e1
  }}
  output %z
  output %q
  output %z
}
"""  # noqa: E501


def test_a_graph_with_everything_reads_back():
    graph = parse_text(EVERYTHING)
    assert to_text(graph) == EVERYTHING
    assert to_text(parse_text(to_text(graph))) == EVERYTHING


def test_what_was_read_is_what_was_written():
    graph = parse_text(EVERYTHING)
    assert graph.name == "a b"
    conv, second, add, cast, branch = graph.nodes
    assert conv.inputs == (graph.tensors["x"], graph.tensors["w"], None, graph.tensors["v"])
    assert conv.attributes == {"auto_pad": 'SAME"\n', "group": 1, "strides": (1, 1)}
    assert conv.output.format is Format.NC1HWC0
    assert (conv.output.dtype, conv.output.origin_dtype) == (DType.FLOAT16, DType.FLOAT32)
    assert graph.tensors["x"].shape == ("batch", 3, None, 8)
    assert (second.domain, second.op_type, second.control) == ("com.microsoft", "Gelu", (conv,))
    assert second.attributes["empty"] == ()
    assert [use.index for use in second.output.uses if use.node is add] == [0, 1]
    assert cast.attributes["to"] is DType.FLOAT16
    np.testing.assert_array_equal(cast.attributes["value"], np.array([[0.1, np.nan]], np.float32))
    assert graph.outputs == [second.output, branch.output, second.output]
    inner = dict(branch.subgraphs)["then_branch"].nodes[0]
    deepest = inner.attributes["branches"][0].nodes[0]
    assert deepest.inputs == (add.output,)


def test_forward_references_are_allowed():
    graph = parse_text(
        "graph g { input %x: float32[1] b: %z: float32[1] = Relu(%y) a: %y: float32[1] = Relu(%x) output %z }"
    )
    assert [node.name for node in graph.topological()] == ["a", "b"]


def test_comments_and_layout_do_not_matter():
    graph = parse_text("# first\ngraph g{input %x:float32[1]output %x}# last")
    assert to_text(graph) == "graph g {\n  input %x: float32[1]\n  output %x\n}\n"


def test_large_constants_are_not_touched():
    def refuse():
        raise AssertionError("asked for values")

    graph = Graph("g")
    graph.add_constant("small", np.arange(3))
    tensor = graph.add_constant("big", np.zeros(100, np.float32))
    tensor.constant = Constant(loader=refuse)
    text = to_text(graph)
    assert "const %big: float32[100] = large" in text
    assert "const %small: int64[3] = [0, 1, 2]" in text
    back = parse_text(text).tensors["big"].constant
    assert back is not None
    assert not back.available


def test_the_limit_of_inline_values_is_an_option():
    graph = Graph("g")
    graph.add_constant("c", np.zeros(20, np.int8))
    assert "= large" in to_text(graph)
    assert "= [0, 0" in to_text(graph, inline_elements=20)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 column 1: 'end of text' must be 'graph'"),
        ("graph g {\n  input %x float32[1]\n}", "line 2 column 12: 'float32' must be ':'"),
        (
            "graph g {\n  input %x: float3[1]\n}",
            "line 2 column 13: 'float3' must be an element type; did you mean float32?",
        ),
        ("graph g {\n  input %x: float32[1] @NC\n}", "line 2 column 25: 'NC' must be a format; did you mean"),
        ("graph g { output %y }", "line 1 column 19: 'y' is not a tensor here"),
        (
            "graph g {\n n: %y: ?[*] = Relu(%x) output %y }",
            "line 2 column 22: 'x' is not a tensor here; known are y",
        ),
        ("graph g { input %x: ?[*] input %x: ?[*] }", "'x' is defined twice"),
        ("graph g { input %x: ?[*] n: = A(%x) n: = B(%x) }", "node 'n' must be defined once"),
        ("graph g { input %x: ?[*] n: = A(%x) after (m) }", "'m' is not a node of this graph"),
        ("graph g { const %x: int8[2] = [1] }", "must hold 2 values, not 1"),
        ("graph g { const %x: int8[1] = [300] }", "does not fit int8"),
        ("graph g { const %x: ?[1] = [1] }", "needs a type and a static shape"),
        ("graph g { input %x: ?[*] n: = A(%x) {k = } }", "'}' must be a number"),
        (
            "graph g { input %x: ?[*] n: = A(%x) {k = array float32[?] []} }",
            "needs a type and a static shape",
        ),
        ("graph g { } more", "'more' follows the end of the graph"),
        ("graph g { \x00 }", "is not part of the grammar"),
        ('graph "\\q" { }', "is not a JSON string"),
        ("graph g { n: = A() {k = " + "[" * 40 + "]" * 40 + "} }", "must not nest deeper"),
        ("graph g {" + "n: = A() {k = graph g {" * 40, "must not nest deeper than 32 graphs"),
    ],
)
def test_errors_name_line_and_column(text, message):
    with pytest.raises(GraphError) as caught:
        parse_text(text)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()


def test_the_length_is_bounded(monkeypatch):
    monkeypatch.setattr("ascendsim.graph.parsing.MAX_TEXT", 10)
    with pytest.raises(GraphError, match="must have at most 10 characters"):
        parse_text("graph g { }" * 2)
