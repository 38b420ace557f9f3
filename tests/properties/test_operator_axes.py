"""What operators say of their axes holds for their values: on every node of the ONNX backend cases, on cases
of our own operators, and where ranks or sizes are unknown."""

from __future__ import annotations

import warnings
from collections import Counter
from functools import cache

import pytest

from ascendsim.core.errors import AscendSimError
from ascendsim.core.keys import key_of
from ascendsim.frontends.onnx import load_onnx
from ascendsim.ops import default_opset
from ascendsim.opset.axes import Relation
from tests.support.axes_law import broken_links
from tests.support.gate import every
from tests.support.node_suite import all_cases, case_array
from tests.support.operator_cases import build, few_cases

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


def own_operators():
    """Cases of operators that ONNX has none of; AIPP's are told a type that a lone node has not."""
    return [case for case in few_cases(2) if case.domain and case.op_type not in ("Aipp", "AippConv")]


def test_changes_stay_where_the_map_of_an_operator_of_ours_says():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problems = [
            f"{case.name}: {text}"
            for case in own_operators()
            for text in broken_links(case.op_type, case.inputs, case.outputs, case.domain, **case.attributes)
        ]
    assert not problems, "\n".join(problems[:20])


def more(vague, exact, arrays):
    """What a map says that another one does not; that an axis which broadcasts has one slice is seen where it
    is known alone."""
    return {
        (place, axis, link)
        for place, links in vague.links.items()
        for axis, link in enumerate(links)
        if link.relation not in (Relation.WHOLE, Relation.CHOSEN, Relation.REDUCED)
        and link != exact.link(place[0], axis, place[1])
        and arrays[place[0]].shape[axis] != 1
    }


def test_a_map_of_unknown_ranks_and_sizes_says_no_more_than_that_of_known_ones():
    said = 0
    for case in few_cases(2):
        definition = OPSET.get(build(case))
        exact = definition.facts.axes(build(case))
        for port, array in enumerate(case.inputs):
            if array is None or case.operator == "ascend::Aipp":
                continue
            for shape in (None, (None,) * array.ndim, tuple(f"n{axis}" for axis in range(array.ndim))):
                vague = definition.facts.axes(build(case, None, {port: shape}))
                assert not more(vague, exact, case.inputs), f"{case.name}: input {port} of shape {shape}"
                said += bool(vague.links)
    assert said > 2000
