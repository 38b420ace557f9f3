"""Random graphs survive printing and parsing, copying and verification."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.text import parse_text, to_text
from ascendsim.graph.verify import verify

NAMES = st.one_of(
    st.text(min_size=1, max_size=6),
    st.sampled_from(["input", "const", "output", "graph", "large", "_", "1", "nan", "after"]),
)
DIMS = st.one_of(st.none(), st.integers(0, 1 << 33), st.text(min_size=1, max_size=5))
SCALARS = st.one_of(
    st.integers(-(1 << 62), 1 << 62), st.floats(), st.text(max_size=8), st.sampled_from(list(DType))
)
LISTS = st.one_of(
    st.lists(st.integers(-9, 9), max_size=3).map(tuple),
    st.lists(st.floats(), max_size=3).map(tuple),
    st.lists(st.text(max_size=3), max_size=3).map(tuple),
)


@st.composite
def arrays(draw):
    dtype = draw(st.sampled_from(list(DType)))
    count = draw(st.integers(0, 4))
    bits = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    if dtype is DType.BOOL:
        return np.array([byte & 1 for byte in bits], bool)
    return np.frombuffer(bits, dtype.numpy).copy()


@st.composite
def graphs(draw, depth=0):
    graph = Graph(draw(NAMES))
    pool: list[Tensor] = []

    def fresh():
        return graph.fresh(draw(NAMES))

    for _ in range(draw(st.integers(1, 3))):
        shape = draw(st.one_of(st.none(), st.lists(DIMS, max_size=4).map(tuple)))
        tensor = graph.add_input(fresh(), draw(st.sampled_from(list(DType))), shape)
        tensor.format = draw(st.sampled_from(list(Format)))
        pool.append(tensor)
    pool.extend(graph.add_constant(fresh(), array) for array in draw(st.lists(arrays(), max_size=2)))
    for _ in range(draw(st.integers(0, 5))):
        inputs = draw(st.lists(st.one_of(st.none(), st.sampled_from(pool)), max_size=3))
        inputs.append(draw(st.sampled_from(pool)))
        node = graph.add_node(
            draw(NAMES), inputs, draw(st.integers(1, 2)), draw(NAMES), draw(st.sampled_from(["", "com.x"]))
        )
        node.attributes.update(draw(st.dictionaries(NAMES, st.one_of(SCALARS, LISTS, arrays()), max_size=2)))
        if depth == 0 and draw(st.booleans()):
            node.attributes["body"] = draw(graphs(depth=1))
        if len(graph) > 1 and draw(st.booleans()):
            node.add_control(graph.nodes[draw(st.integers(0, len(graph) - 2))])
        pool.extend(node.outputs)
    graph.outputs.extend(draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3)))
    return graph


@given(graphs())
def test_print_and_parse_are_inverse(graph):
    text = to_text(graph)
    back = parse_text(text)
    assert to_text(back) == text
    assert [tuple(t.name if t else None for t in node.inputs) for node in back.nodes] == [
        tuple(t.name if t else None for t in node.inputs) for node in graph.nodes
    ]
    assert to_text(copy_graph(graph)) == text


@given(graphs())
def test_what_the_ir_builds_verifies_and_so_do_copies(graph):
    verify(graph)
    twin = copy_graph(graph)
    verify(twin)
    assert set(twin.tensors.values()).isdisjoint(graph.tensors.values())
