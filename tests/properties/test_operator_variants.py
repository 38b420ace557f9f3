"""What operators ask of the chip where a case differs in one thing from another, and its rule takes it: a
longer or shorter axis, one axis more, another type, another attribute.

The table has a line for each form of work that comes of it, with the number of variants and the first of them
in sizes; conditions inside of rules move counts from one line to the next.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ascendsim.core.errors import AscendSimError
from ascendsim.ops import default_opset
from tests.support.operator_cases import build, few_cases_of, initials, work_of
from tests.support.operator_mistakes import outcomes
from tests.support.work_text import describe

CHIPS = ("Ascend310P3", "Ascend910B1")

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.mark.parametrize("initial", initials())
def test_works_of_variants_are_those_of_the_table(initial: str, golden: Callable[[str, str], None]) -> None:
    found: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for case, _, other, refused in outcomes(initial):
        if refused:
            continue
        node = build(other)
        if not all(tensor.is_static for tensor in node.outputs):
            continue
        try:
            works = [work_of(node, chip) for chip in CHIPS]
        except AscendSimError as error:  # of what is known when all values are
            key: tuple[str, ...] = (f"refuses: {type(error).__name__}",)
            texts = [""]
        else:
            key = (default_opset().cann_type(node), *(describe(work, sizes=False) for work in works))
            texts = [describe(work) for work in works]
        found.setdefault(case.operator, {}).setdefault(key, []).append(_joined(texts))
    lines = []
    for operator, forms in sorted(found.items()):
        lines.append(operator)
        for key, texts in forms.items():
            lines.append(f"    {len(texts)} {key[0]}: {texts[0]}")
    golden(f"ops_variants/{initial}.txt", "\n".join(lines) + "\n")


def _joined(texts: list[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else " || ".join(texts)


@pytest.mark.parametrize("initial", initials())
def test_kernels_have_names_before_shapes_are_known(initial: str) -> None:
    """Rules of fusion ask for them then."""
    for case in few_cases_of(initial):
        for port, array in enumerate(case.inputs):
            if array is not None:
                assert default_opset().cann_type(build(case, (), {port: None})), f"{case.name} without {port}"
