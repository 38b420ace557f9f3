"""What operators say of themselves, as a table that a person reads: facts that other layers ask for, and
where the axes of small cases go.

`test_operator_axes`, `test_operator_axes_complete` and `test_operator_types` hold what it says against
values; the table shows what becomes less than it was, and what no value tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from enum import Enum

import pytest

from ascendsim.ops import default_opset
from ascendsim.opset import OpDef
from ascendsim.opset.axes import Link, Relation
from ascendsim.opset.facts import Facts
from tests.support.operator_cases import few_cases, settled

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
PLAIN = {item.name: item.default for item in (*fields(Facts), *fields(OpDef)) if item.name != "facts"}
OF_DEFINITION = ("layout", "cann", "foldable", "infers_bodies", "in_place", "steered_by", "most_inputs")
OF_FACTS = tuple(item.name for item in fields(Facts) if item.name != "axes")


def _value(value: object) -> str:
    if callable(value):
        return "by node"
    if isinstance(value, tuple):
        more = f"+.. {len(value)} of them up to {value[-1]}" if len(value) > 12 else ""
        return "+".join(map(_value, value[:12])) + more
    return value.value if isinstance(value, Enum) else str(value)


def _said(definition: OpDef) -> str:
    """What differs from what an operator says that says nothing."""
    given = [(name, getattr(definition, name)) for name in OF_DEFINITION]
    given += [(name, getattr(definition.facts, name)) for name in OF_FACTS]
    return ", ".join(f"{name} {_value(value)}" for name, value in given if value != PLAIN[name])


def _link(link: Link) -> str:
    axis = "" if link.axis is None else str(link.axis)
    match link.relation:
        case Relation.PARALLEL:
            return axis
        case Relation.GROUP:
            return f"{axis}:{link.take}>{link.make}"
        case Relation.WINDOW:
            return f"{axis}~{link.reach} by {link.stride} from {-link.before}"
        case relation:
            return relation.value + axis


def test_what_operators_say_of_themselves(golden: Callable[[str, str], None]) -> None:
    forms: dict[tuple[str, str], dict[str, None]] = {}
    for case in few_cases():
        node = settled(case)
        inputs = " ".join("-" if array is None else str(list(array.shape)) for array in case.inputs)
        links = default_opset().get(node).facts.axes(node).links
        said = "; ".join(
            f"{port}>{output} " + " ".join(map(_link, of))
            for (port, output), of in sorted(links.items())
            if of
        )
        forms.setdefault((case.domain, case.op_type), {})[f"    {inputs}: {said or 'nothing'}"] = None
    lines = []
    for definition in sorted(default_opset(), key=lambda item: item.key):
        lines.append(f"{'::'.join(filter(None, definition.key))}: {_said(definition)}")
        lines += forms.get(definition.key, ())
    golden("ops_facts.txt", "\n".join(lines) + "\n")
