"""What operators say of their axes holds for their values: on every node of the ONNX backend cases, and on
cases of our own operators."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import cache

import pytest

from ascendsim.core.errors import AscendSimError
from ascendsim.core.keys import key_of
from ascendsim.frontends.onnx import load_onnx
from ascendsim.ops import default_opset
from tests.support.axes_law import broken_links
from tests.support.gate import every
from tests.support.node_suite import all_cases, case_array

OPSET = default_opset()
PARTS = 8  # so that parallel workers share the work


def form_of(node, arrays):
    inputs = tuple(None if array is None else (array.shape, array.dtype) for array in arrays)
    return node.domain, node.op_type, len(node.outputs), inputs, key_of(node.attributes)


def broken_in(case, seen):
    """What is broken in a case; nodes that look like one of `seen` but for their values are passed over."""
    try:
        graph = load_onnx(case.model, opset=OPSET)
    except AscendSimError:
        return
    for given, _ in (case.data_sets or ())[:1]:
        names = [value.name for value in case.model.graph.input]
        values = dict(zip(names, [case_array(item) for item in given], strict=False))
        values |= {
            tensor.name: tensor.constant.array() for tensor in graph.constants if tensor.constant.available
        }
        for node in graph.topological():
            arrays = [None if tensor is None else values.get(tensor.name) for tensor in node.inputs]
            if node.subgraphs or any(
                t is not None and a is None for t, a in zip(node.inputs, arrays, strict=True)
            ):
                return
            form = form_of(node, arrays)
            if form not in seen:
                seen.add(form)
                yield from broken_links(
                    node.op_type, arrays, len(node.outputs), node.domain, **node.attributes
                )
            wanted = [tensor.origin_dtype.numpy for tensor in node.outputs]
            results = OPSET.get(node).compute(node, arrays, wanted)
            values |= {tensor.name: array for tensor, array in zip(node.outputs, results, strict=True)}


@cache
def cases_of(turn):
    """Of the cases of each operator the first, third, ..., or the others."""
    found, counts = [], Counter()
    for case in all_cases():
        kind = frozenset(node.op_type for node in case.model.graph.node)
        if counts[kind] % 2 == turn:
            found.append(case)
        counts[kind] += 1
    return found


@pytest.mark.parametrize("turn", every(2, range(2)))
@pytest.mark.parametrize("part", range(PARTS))
def test_changes_stay_where_the_map_says(part, turn):
    """Cases of one operator follow each other, so that a part meets most of the nodes that look alike."""
    cases = cases_of(turn)
    size = -(-len(cases) // PARTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen = set()
        part_of_them = cases[part * size : (part + 1) * size]
        problems = [f"{case.name}: {text}" for case in part_of_them for text in broken_in(case, seen)]
    assert not problems, "\n".join(problems[:20])
