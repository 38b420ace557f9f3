"""Writes docs/operators.md: the supported operators, where each runs on the chip, and the ONNX node cases
that each passes.

    python scripts/make_operator_table.py

The table is generated from the operator set and from a run of the node cases of the ONNX backend suite (half
a minute); a test fails while it is out of date.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from onnx.backend.test.case.test_case import TestCase

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "operators.md"
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # tests.support

from ascendsim.core.errors import AscendSimError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.graph.ir import Constant
from ascendsim.lower.engine import work_of
from ascendsim.ops import default_opset
from ascendsim.ops.shared.aicpu import aicpu_types
from ascendsim.opset import OpDef, OpSet
from ascendsim.opset.work import (
    AiCpuWork,
    CubeWork,
    FilterWork,
    LowerContext,
    MoveWork,
    NoTask,
    ScalarWork,
    SequenceWork,
    VectorWork,
    WorkChoice,
)
from ascendsim.passes.infer import infer
from ascendsim.passes.precision.assign import ApplyPrecision
from tests.support.node_suite import FAIL, PASS, REFUSED, Outcome, all_cases, operators_of, run_case

SUITE_SOC = "Ascend910B1"  # its Cube takes every type that the operators have


def table() -> str:
    """The text of the page."""
    opset, on_cpu = default_opset(), aicpu_types("ascend310")
    outcomes: list[Outcome] = []
    cases: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    units: defaultdict[str, set[str]] = defaultdict(set)
    subjects = {case.name: operators_of(case.model)[:1] for case in all_cases()}
    for case in all_cases():
        outcome = run_case(case, SUITE_SOC)
        outcomes.append(outcome)
        totals[outcome.status] += 1
        subject = next(iter(subjects.get(_EXPANDED.sub("", case.name)) or subjects[case.name]), "Constant")
        cases[subject] += 1
        passed[subject] += outcome.status == PASS
        if outcome.status == PASS:
            for operator, unit in _units(case, opset):
                units[operator].add(unit)
    numbers = {
        "total": totals.total(),
        "passed": totals[PASS],
        "refused": totals[REFUSED],
        "failed": totals[FAIL],
    }
    lines = _HEAD.format(count=len(opset), soc=SUITE_SOC, **numbers).splitlines()
    names = set()
    for item in sorted(opset, key=lambda item: (item.domain, item.name.lower())):
        name, layout, cann = row_start(item)
        names.add(name)
        unit = ", ".join(sorted(units[name])) or (
            "AI CPU" if item.lower is None or cann in on_cpu else "AI Core"
        )
        suite = f"{passed[name]} of {cases[name]}" if cases[name] else ""
        lines.append(f"| {name} | {layout} | {unit} | {cann} | {suite} |")
    lines += _OTHERS.splitlines()
    for name in sorted(cases.keys() - names, key=str.lower):
        how = "turned into others" if passed[name] else "refused"
        lines.append(f"| {name} | {how} | {passed[name]} of {cases[name]} |")
    lines += [*_REFUSED.splitlines(), *_refused(outcomes)]
    return "\n".join(lines) + "\n"


def row_start(item: OpDef) -> tuple[str, str, str]:
    """What a row says of an operator without a run: its name, layout and CANN type."""
    name = f"{item.domain}::{item.name}" if item.domain else item.name
    return (
        name,
        item.layout.value,
        item.cann or (item.name if item.cann_of is None else "depends on the node"),
    )


def _refused(outcomes: list[Outcome]) -> Iterator[str]:
    """Rows of what is refused, the most frequent reason first."""
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.status == REFUSED:
            by_reason[outcome.lacks].append(outcome.case)
    for reason, names in sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0])):
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"| {reason} | {len(names)} | {', '.join(names[:_SHOWN])}{more} |"


def _units(case: TestCase, opset: OpSet) -> Iterator[tuple[str, str]]:
    """Operator and unit of each node of a case, compiled for an Ascend 310 under force_fp16.

    Small operands (axes, sizes, scales) are given as constants, as models have them, so that shapes are
    static.
    """
    graph = load_onnx(case.model, opset=opset)
    given = dict(
        zip(
            [value.name for value in case.model.graph.input],
            (case.data_sets or [([], [])])[0][0],
            strict=False,
        )
    )
    for tensor in graph.inputs[1:]:
        array = given.get(tensor.name)
        if isinstance(array, np.ndarray) and array.ndim <= 1:
            graph.inputs.remove(tensor)
            tensor.constant = Constant(array)
    infer(graph, opset)
    if not all(tensor.is_static for tensor in graph.tensors.values()):
        return
    ApplyPrecision(opset, "force_fp16").run(graph)
    context = LowerContext(aicpu_types("ascend310"))
    for node in graph.nodes:
        with contextlib.suppress(AscendSimError):  # a type that the chip does not have
            work = work_of(node, opset, context)
            name = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            for way in work.ways if isinstance(work, WorkChoice) else (work,):
                yield name, _UNITS[type(way)]


_EXPANDED = re.compile(r"_expanded(_ver\d+)?$")
_UNITS: dict[type, str] = {
    CubeWork: "Cube",
    FilterWork: "Cube",
    VectorWork: "Vector",
    MoveWork: "movement",
    ScalarWork: "Scalar",
    SequenceWork: "several",
    AiCpuWork: "AI CPU",
    NoTask: "no task",
}

_HEAD = """\
# Operators

<!-- generated by scripts/make_operator_table.py: do not edit -->

{count} operators have a definition of their own. Names and meaning are those of the newest ONNX operator set; older forms are
turned into it while loading. Of the {total} node cases of the ONNX backend suite, loaded, compiled for {soc} and run with default
options, {passed} pass, {refused} are refused because of an operator or an element type that is not supported, {failed} fail. Chips whose
Cube does not multiply bfloat16 refuse matrix products in it, too.

*Layout* is the format that an operator wants for its features: `feature` = NC1HWC0, `matmul` = FRACTAL_NZ, `follow` = that of its
inputs, `nd` = row-major. *Unit* is what does the work on an Ascend 310 in the cases of the suite: Cube, Vector, movement (data
movement only), Scalar, several of them in turn, AI CPU, or no task at all (the output is the input's memory under another shape).
Where several units stand, it depends on attributes and types; AI Core stands where no case tells.
The last column counts the cases that are about the operator.

| operator | layout | unit | CANN type | node cases passed |
|---|---|---|---|---|"""

_OTHERS = """

## Operators of the suite without a definition

Operators whose ONNX schema says how they are composed are turned into others; the rest is refused when a model is loaded.

| operator | how | node cases passed |
|---|---|---|"""

_REFUSED = """

## Cases that are refused

Each with an error that names what is not supported.

| reason | cases | names |
|---|---|---|"""
_SHOWN = 3  # names of cases a row


def main() -> None:
    """Writes the page."""
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(table(), encoding="utf-8")


if __name__ == "__main__":
    main()
