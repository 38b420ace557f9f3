"""What shape rules refuse: every operator under inputs and attributes that are wrong in one place.

The table is read for two things: each message says what the operator needs, and each rule that refuses
something has a line. A line that goes, or a count that falls, means that something wrong is now taken; renew
the file only if that was the purpose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tests.support.operator_cases import few_cases_of, initials
from tests.support.operator_mistakes import outcomes

ASK_FOR_RANKS = frozenset("GLNPRS")  # first letters of operators whose rules name an input and its rank
BY_INITIAL = pytest.mark.parametrize("initial", initials())

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


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
