"""Numbers of inputs, and tensors of one element: an operator takes no more inputs than some case of it gives,
and what has one element asks for what a list of it, or more, asks for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Node
from ascendsim.ops import default_opset
from ascendsim.opset.work import Work
from tests.support.operator_cases import (
    CHIPS,
    Case,
    all_operator_cases,
    build,
    ports_of_values,
    settled,
    work_of,
)
from tests.support.work_text import describe

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

# Inputs behind those that any case gives: what CANN's operators list and nothing here reads, or what another
# suite of tests gives.
MORE = {
    "ascend::CompositeMatMul": 3,  # a bias
    "ascend::Proposal": 4,  # the third shape of the documents
    "ascend::FlashAttentionScore": 12,
    "ascend::FlashAttentionScoreGrad": 16,
    "ascend::PromptFlashAttention": 26,
    "ascend::IncreFlashAttention": 26,
    "ascend::RmsNormDynamicQuant": 4,
    "ascend::DequantConv": 6,
    "ascend::MemcpyAsync": 1,
    **dict.fromkeys(
        (f"ascend::Hcom{name}" for name in ("AllReduce", "AllGather", "ReduceScatter", "AllToAll")), 1
    ),
    "If": 1,
    "ai.onnx.ml::LabelEncoder": 1,
}


def test_operators_take_the_inputs_that_their_cases_give_and_no_more() -> None:
    given: dict[str, int] = dict(MORE)
    for case in all_operator_cases():
        if case.operator not in MORE:
            given[case.operator] = max(given.get(case.operator, 0), len(case.inputs))
    taken = {
        f"{item.domain}::{item.name}" if item.domain else item.name: item.most_inputs
        for item in default_opset()
    }
    assert {name: most for name, most in taken.items() if most is not None and most != given[name]} == {}


def _of_one(case: Case, shape: tuple[int, ...]) -> Node | None:
    """A case with one element in every input, as a shape; None if the operator refuses it in words."""
    arrays = tuple(
        None if array is None else array.reshape(-1)[:1].reshape(shape) if array.size else array
        for array in case.inputs
    )
    attributes = {
        name: -1 if name == "axis" and isinstance(value, int) else value
        for name, value in case.attributes.items()
        if name != "axes"
    }
    try:
        return build(replace(case, inputs=arrays, attributes=attributes))
    except AscendSimError:
        return None


def test_a_number_asks_for_what_a_list_of_one_asks_for() -> None:
    """And what a shape rule takes can be lowered, whatever the ranks are."""
    checked = set()
    for case in all_operator_cases():
        number, single = _of_one(case, ()), _of_one(case, (1,))
        works = [
            [describe(work_of(node, chip)) for chip in CHIPS]
            for node in (number, single)
            if node is not None and all(tensor.is_static for tensor in node.outputs)
        ]
        if number is None or single is None or any(tensor.shape for tensor in number.outputs):
            continue
        if all(tensor.shape == (1,) for tensor in single.outputs):
            checked.add(case.operator)
            assert works[0] == works[1], case.name
    assert len(checked) > 150


# One element moves without a vector unit, or is one burst; a bias of one is a number; other than larger ones
OTHER_WAYS = {
    *("Gemm", "CumSum", "CumProd", "Transpose", "Slice", "ReverseSequence", "ascend::TransData", "Gather"),
    *("GatherElements", "GatherND", "ascend::GroupedMatmul", "Concat"),
}


def test_one_element_is_made_by_the_kind_of_work_that_makes_many() -> None:
    """With every axis cut to one: no rule takes a single element for none."""
    checked = set()
    for case in all_operator_cases():
        if case.operator in OTHER_WAYS:
            continue
        decides = ports_of_values(case)
        arrays = [
            array if array is None or port in decides else array[(slice(0, 1),) * array.ndim]
            for port, array in enumerate(case.inputs)
        ]
        try:
            one = build(replace(case, inputs=tuple(arrays)))
        except AscendSimError:
            continue
        many = settled(case)
        if {tensor.elements if tensor.is_static else 0 for tensor in one.outputs} == {1} and all(
            tensor.elements > 1 for tensor in many.outputs
        ):
            checked.add(case.operator)
            for chip in CHIPS:
                assert _kind(work_of(one, chip)) == _kind(work_of(many, chip)), f"{case.name}, {chip}"
    assert len(checked) > 240


def _kind(work: Work | None) -> tuple[str, bool]:
    """What does it, and whether with instructions of the vector unit."""
    text = describe(work, sizes=False)
    return re.split(r"[ :]", text)[0], re.search(r"\bv[a-z]", text) is not None
