"""The node cases of the ONNX backend suite: every case passes, or is refused as an unsupported operator or type."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path

import pytest

from ascendsim.ops import default_opset
from tests.support.node_suite import FAIL, PASS, REFUSED, Outcome, all_cases, operators_of, run, run_case

SHARDS = 8  # so that parallel workers share the work; the whole suite takes some ten seconds
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_operator_table.py"


@pytest.mark.filterwarnings("ignore")  # the suite's own code overflows and divides by zero on purpose
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_case_passes_or_is_refused(shard):
    cases = all_cases()
    assert len(cases) > 1500
    outcomes = run(cases[shard::SHARDS], default_opset())
    failures = [f"{item.case}: {item.reason}" for item in outcomes if item.status == FAIL]
    assert not failures, "\n".join(failures)


@pytest.mark.filterwarnings("ignore")
def test_what_is_refused_is_not_supported():
    """No case of operators that are all supported is refused, except for its types."""
    opset = default_opset()
    names = {f"{item.domain}::{item.name}" if item.domain else item.name for item in opset}
    for case in all_cases():
        if set(operators_of(case.model)) <= names:
            outcome = run_case(case, opset)
            assert outcome.status == PASS or "operators" not in outcome.reason, f"{case.name}: {outcome.reason}"


@pytest.mark.filterwarnings("ignore")
def test_the_table_of_operators_is_up_to_date():
    spec = importlib.util.spec_from_file_location("make_operator_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.TARGET.read_text(encoding="utf-8") == module.table(), "run scripts/make_operator_table.py"


@pytest.mark.filterwarnings("ignore")
def test_at_least_120_operator_types_are_supported():
    standard = [item for item in default_opset() if not item.domain]
    assert len(standard) >= 120
    outcomes: list[Outcome] = run(all_cases()[::40], default_opset())
    counts = Counter(item.status for item in outcomes)
    assert counts[PASS] > counts[REFUSED]
