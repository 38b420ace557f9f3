"""The node cases of the ONNX backend suite as users run them: every case passes, or is refused as an
unsupported operator or type."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from ascendsim.ops import default_opset
from tests.support.gate import every
from tests.support.node_suite import (
    FAIL,
    PASS,
    REFUSED,
    SOC,
    all_cases,
    evaluate_case,
    operators_of,
    representative_cases,
    run_case,
)

SHARDS = 6  # so that parallel workers share the work
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_operator_table.py"

pytestmark = pytest.mark.usefixtures("untimed_tiles")


@pytest.mark.parametrize("shard", every(6, range(2 * SHARDS)))
def test_representative_cases_pass_or_are_refused(shard: int) -> None:
    """Of every set of operators one case; default options, warnings are errors. What the chip lacks
    (bfloat16) runs on one that has it."""
    outcomes = [run_case(case) for case in representative_cases()[shard :: 2 * SHARDS]]
    for place, case in enumerate(representative_cases()[shard :: 2 * SHARDS]):
        if outcomes[place].lacks == f"chip {SOC}":
            outcomes[place] = run_case(case, "Ascend910B1")
    counts = Counter(item.status for item in outcomes)
    assert not counts[FAIL], "\n".join(
        f"{item.case}: {item.reason}" for item in outcomes if item.status == FAIL
    )
    assert counts[PASS] > 5 * counts[REFUSED]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_operators_compute_every_case(shard: int) -> None:
    """The operators alone, one after the other, in the model's own types."""
    problems = [evaluate_case(case) for case in all_cases()[shard::SHARDS]]
    assert not any(problems), "\n".join(filter(None, problems))


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("soc", [SOC, "Ascend310", "Ascend910A", "Ascend910B1"])
def test_every_case_passes_or_is_refused(soc: str, shard: int) -> None:
    cases = all_cases()
    assert len(cases) > 1500
    known = {f"{item.domain}::{item.name}" if item.domain else item.name for item in default_opset()}
    outcomes = [run_case(case, soc) for case in cases[shard::SHARDS]]
    failures = [f"{item.case}: {item.reason}" for item in outcomes if item.status == FAIL]
    assert not failures, "\n".join(failures)
    for item in outcomes:  # operators that are all supported are refused for their types alone
        if item.status == REFUSED and set(item.operators) <= known:
            assert not item.lacks.startswith("operator"), f"{item.case}: {item.reason}"


@pytest.mark.parametrize(
    "case",
    ["causal_nonpad_batch_prefill", "local_window_ext_cache_float16_mask", "diff_heads_mask4d_padded_kv"],
)
def test_branches_of_masks_on_the_ai_cpu_meet_late(case: str) -> None:
    """Parts of these graphs are launched before the first task of a part that they need."""
    found = [item for item in all_cases() if case in item.name]
    assert found
    for item in found:
        outcome = run_case(item)
        assert outcome.status == PASS, f"{item.name}: {outcome.reason}"


def test_the_table_lists_every_operator() -> None:
    script = _script()
    page = script.TARGET.read_text(encoding="utf-8")
    for item in default_opset():
        name, layout, cann = script.row_start(item)
        starts = [
            line
            for line in page.splitlines()
            if line.startswith(f"| {name} | {layout} |") and f"| {cann} |" in line
        ]
        assert len(starts) == 1, f"{name}: run scripts/make_operator_table.py"


@pytest.mark.slow
def test_the_table_of_operators_is_up_to_date() -> None:
    script = _script()
    assert script.TARGET.read_text(encoding="utf-8") == script.table(), "run scripts/make_operator_table.py"


def test_at_least_120_operator_types_are_supported() -> None:
    assert len([item for item in default_opset() if not item.domain]) >= 120


def test_representative_cases_have_every_operator() -> None:
    everything, chosen = (
        {name for case in cases for name in operators_of(case.model)}
        for cases in (all_cases(), representative_cases())
    )
    assert chosen == everything


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_operator_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
