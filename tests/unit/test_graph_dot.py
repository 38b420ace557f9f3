"""Graphviz text."""

from __future__ import annotations

from ascendsim.graph.dot import to_dot
from ascendsim.graph.text import parse_text

GRAPH = """\
graph "a\\"b" {
  input %x: float32[1,batch]
  const %w: float32[2] = [1.0, 2.0]
  relu: %y: float32[1,?] = Relu(%x)
  add: %z: float32[*] = Add(%y, %y) after (relu)
  if: %q: ?[*] = If(%w) {then_branch = graph t {
    id: %e: float32[] = Identity(%z)
    output %e
  }}
  output %z
}
"""


def test_edges_carry_types_and_shapes_and_multiple_edges_show(golden):
    golden("graph/dot.dot", to_dot(parse_text(GRAPH), constants=True))


def test_constants_are_left_out_by_default():
    text = to_dot(parse_text(GRAPH))
    assert "shape=note" not in text
    assert text == to_dot(parse_text(GRAPH))


def test_names_are_escaped():
    text = to_dot(parse_text('graph g { input %"a\\"b\\\\c\\nd": float32[1] output %"a\\"b\\\\c\\nd" }'))
    assert 'label="a\\"b\\\\c\\nd\\nfloat32[1]"' in text
