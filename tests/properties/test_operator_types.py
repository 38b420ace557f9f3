"""What operators say of their elements (`Facts.elements`) holds for their values: with a narrower type at the
ports that they name they give the same in it; indices may have either integer type."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from ascendsim.ops import default_opset
from ascendsim.opset.facts import Elements, Facts, Kind
from tests.support.operator_cases import Case, build, compute, few_cases

OPSET = default_opset()
Array = Any
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INTEGERS, REALS = (np.int64, np.int32), (np.float64, np.float32)
PAIRS = {
    Elements.KEPT: (INTEGERS, REALS),
    Elements.COMPARED: (INTEGERS, REALS),
    Elements.COMPUTED: (INTEGERS, REALS),
    Elements.REAL: (REALS,),
}


def facts_of(case: Case) -> Facts:
    definition = OPSET.find(case.op_type, case.domain)
    assert definition is not None
    return definition.facts


def numeric(case: Case, ports: Collection[int]) -> bool:
    """Whether there are numbers, one at least, at some ports."""
    arrays = [case.inputs[port] for port in ports]
    return all(array is not None and array.size and array.dtype.kind in "iuf" for array in arrays)


def small(array: Array) -> Array:
    """Numbers like those of an array that every type holds."""
    near = np.nan_to_num(array.astype(np.float64), nan=1, posinf=9, neginf=-9)
    return np.clip(np.round(near * 64) / 64, -2, 2)


def with_type(case: Case, ports: Collection[int], kind: type) -> tuple[DType, list[Array]]:
    """Type and values of the results with another element type at some ports."""
    arrays = tuple(
        small(array).astype(kind) if port in ports else array for port, array in enumerate(case.inputs)
    )
    node = build(replace(case, inputs=arrays))
    return node.output.element_type, compute(node, arrays)


def broken(case: Case) -> Iterator[str]:
    facts = facts_of(case)
    given = [port for port, array in enumerate(case.inputs) if array is not None]
    ports = [port for port in given if not facts.typed or port in facts.typed]
    for wide, narrow in PAIRS[facts.elements] if facts.elements is not None and numeric(case, ports) else ():
        try:
            kind, before = with_type(case, ports, wide)
        except (AscendSimError, TypeError):  # attributes that hold numbers of another type, say
            continue
        other, after = with_type(case, ports, narrow)
        if (kind, other) != (DType.of(np.dtype(wide)), DType.of(np.dtype(narrow))) and kind is not other:
            yield f"{case.name}: types {kind} and {other} from {wide} and {narrow}"
        exact = facts.elements in (Elements.KEPT, Elements.COMPARED)
        for old, new in zip(before, after, strict=True):
            if not np.allclose(
                old, new, rtol=0 if exact else 1e-4, atol=0 if exact else 1e-5, equal_nan=True
            ):
                yield f"{case.name}: other values in {narrow}"
    ports = [port for port in facts.indices if port in given]
    if ports:
        (_, before), (_, after) = (with_type(case, ports, kind) for kind in INTEGERS)
        if not all(map(np.array_equal, before, after)):
            yield f"{case.name}: other values by indices of 32 bits"


# What moves data and yet says nothing
TYPE_OF_ITS_OWN = {"Cast", "CastLike", "BitCast", "ConstantOfShape", "EyeLike", "OneHot", "Shape", "Size"}
# those that scatter may add; parts of a QLinearConcat get the scale of the result
COMPUTES_TOO = {"Resize", "GridSample", "Col2Im", "ScatterElements", "ScatterND", "QLinearConcat"}
OF_DEVICE_GRAPHS = {
    "Aipp",
    "Assign",
    "ConfusionTransposeD",
    "MemcpyAsync",
    "StridedRead",
    "StridedWrite",
    "TransData",
}


@cache
def cases() -> tuple[Case, ...]:
    """Of operators that say something; made when a test asks, not when tests are collected."""
    few = few_cases()
    return tuple(case for case in few if facts_of(case).elements is not None or facts_of(case).indices)


def test_what_they_say_is_so() -> None:
    problems = [text for case in cases() for text in broken(case)]
    assert not problems, "\n".join(problems)


def test_there_are_cases_of_each_kind() -> None:
    assert {facts_of(case).elements for case in cases()} >= set(Elements)
    assert {"Gather", "GatherElements", "ScatterElements", "OneHot"} <= {
        case.op_type for case in cases() if facts_of(case).indices
    }


def test_what_only_moves_data_says_what_it_moves() -> None:
    """An operator that says nothing keeps its neighbours in wide types; those that do so need a reason."""
    silent = {
        definition.name
        for definition in OPSET
        if definition.facts.kind is Kind.MOVEMENT and definition.facts.elements is None
    }
    assert silent == TYPE_OF_ITS_OWN | COMPUTES_TOO | OF_DEVICE_GRAPHS
