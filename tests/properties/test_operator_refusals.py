"""What shape rules refuse: every operator under inputs and attributes that are wrong in one place.

The table is read for two things: each message says what the operator needs, and each rule that refuses
something has a line. A line that goes, or a count that falls, means that something wrong is now taken; renew
the file only if that was the purpose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from tests.support.operator_cases import Case, build, few_cases_of, initials

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def _resized(array: Any) -> Iterator[Any]:
    """The array with one axis a little longer, shorter, doubled, of size 1 or gone, and with one more in
    front."""
    for axis, size in enumerate(array.shape):
        for other in sorted({size + 1, max(0, size - 1), 2 * size, 1, 3} - {size}):
            yield np.resize(array, (*array.shape[:axis], other, *array.shape[axis + 1 :]))
    yield np.resize(array, (1, *array.shape))
    if array.ndim:
        yield np.resize(array, array.shape[1:])


def _retyped(array: Any) -> Iterator[Any]:
    for dtype in (np.int32, np.float32, np.int8):
        if array.dtype != dtype:
            yield array.astype(dtype)


def _changed(value: Any) -> Iterator[Any]:
    """Other values of an attribute: next to it, far away, of another length, no word that is known."""
    match value:
        case bool() | DType():
            return
        case int():
            yield from (value - 1, value + 1, -value - 3, 0, 99)
        case str():
            yield "nonsense"
        case tuple() if value and all(isinstance(item, int) for item in value):
            yield from (
                (*value, 1),
                value[:-1],
                (value[0] + 1, *value[1:]),
                (-7, *value[1:]),
                (0, *value[1:]),
                (99, *value[1:]),
            )
        case _:
            return


def _mistakes(case: Case) -> Iterator[tuple[int | None, Case]]:
    """Cases that are wrong in one place; the port of the input that is, if it is one."""
    for port, array in enumerate(case.inputs):
        if array is None:
            continue
        others = [*_resized(array), *_retyped(array)]
        if array.dtype.kind == "i" and array.size and array.ndim <= 1:
            others += [array - 7, array + 99, -array, np.zeros_like(array)]
        for other in others:
            yield port, replace(case, inputs=(*case.inputs[:port], other, *case.inputs[port + 1 :]))
    for name, value in case.attributes.items():
        for other in (
            () if name.startswith("aipp_") else _changed(value)
        ):  # those are checked where a configuration is read
            yield None, replace(case, attributes={**case.attributes, name: other})


ASK_FOR_RANKS = frozenset("GLNPR")  # first letters of operators whose rules name an input and its rank
BY_INITIAL = pytest.mark.parametrize("initial", initials())


@cache
def outcomes(initial: str) -> list[tuple[Case, int | None, Case, str]]:
    """Each case, where it was made wrong, how, and what its operator says: nothing where it takes it."""
    found = []
    for case in few_cases_of(initial):
        for port, wrong in _mistakes(case):
            try:
                build(wrong)
                text = ""
            except AscendSimError as error:
                text = str(error).removeprefix(f"node '{case.op_type}' ({case.op_type}) ")
            except Exception as error:
                text = f"CRASH {type(error).__name__}: {error}"
            found.append((case, port, wrong, text))
    return found


@cache
def refusals(initial: str) -> dict[str, Counter[str]]:
    """By operator, what it says of mistakes, numbers left out, and how often."""
    found: dict[str, Counter[str]] = {case.operator: Counter() for case in few_cases_of(initial)}
    for case, _, _, text in outcomes(initial):
        kind = text if text.startswith("CRASH") else re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", text)
        found[case.operator][kind] += 1
    return found


@BY_INITIAL
def test_rules_refuse_in_their_own_words(initial: str) -> None:
    crashes = {
        name: [text for text in counts if text.startswith("CRASH")]
        for name, counts in refusals(initial).items()
    }
    assert not {name: texts for name, texts in crashes.items() if texts}
    for name, counts in refusals(initial).items():
        for text in counts:
            assert not text or re.search(r"\b(must|needs|need|cannot|can|supports|has|is)\b", text), (
                f"{name}: {text}"
            )


@BY_INITIAL
def test_refusals_are_those_of_the_table(initial: str, golden: Callable[[str, str], None]) -> None:
    lines = []
    for name in sorted(refusals(initial)):
        counts = refusals(initial)[name]
        lines.append(f"{name}: takes {counts['']} of {counts.total()}")
        by_rule: Counter[str] = Counter()
        for text, count in counts.items():
            by_rule[_rule(text)] += count
        lines += [f"    {count:4} {text}" for text, count in sorted(by_rule.items()) if text]
    golden(f"ops_refusals/{initial}.txt", "\n".join(lines) + "\n")


@BY_INITIAL
def test_a_rule_that_asks_for_a_rank_names_the_input_that_has_another(initial: str) -> None:
    told = 0
    for case, port, wrong, text in outcomes(initial):
        if port is not None and np.ndim(wrong.inputs[port]) != np.ndim(case.inputs[port]):
            named = re.match(r"needs input (\d+) of rank \d+, ", text)
            assert named is None or int(named[1]) == port, f"{case.name}: {text}"
            told += named is not None
    assert bool(told) == (initial in ASK_FOR_RANKS)


def _rule(text: str) -> str:
    """The rule without what was found in its place."""
    return re.sub(r"(N, )+N|N(?= [a-z])", "N..", text.split(", not ")[0])
