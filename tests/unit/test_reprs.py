"""What an interpreter and a notebook show of the objects that users hold: a few lines each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ascendsim as asim
from ascendsim.torch.recording import Run, Runs

MODEL = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"


@pytest.fixture(scope="module")
def result() -> asim.Result:
    return asim.simulate(asim.compile(asim.load(MODEL), soc="Ascend310"))


def held(result: asim.Result) -> dict[str, Any]:
    model = result.model
    return {
        "graph": model.source, "model": model, "program": model.program, "soc": model.soc,
        "fusion": model.fusion, "memory": model.memory, "result": result, "profile": result.profile,
        "trace": result.trace,
    }  # fmt: skip


def test_reprs_are_a_line(result: asim.Result) -> None:
    for name, value in held(result).items():
        assert "\n" not in repr(value), name
        assert len(repr(value)) < 200, name
    tasks = len(result.model.program.tasks)
    assert f"Program({tasks} tasks" in repr(result.model.program)
    assert f"{result.trace.duration_us:,.3f} us, {tasks} tasks, 0 instructions" in repr(result.trace)
    assert "'Ascend310'" in repr(result.model.soc)
    changed = asim.compile(result.model.source, soc="Ascend310", set={"ai_cores": 1}).soc
    assert "changed: ai_cores" in repr(changed)


def test_notebooks_get_html(result: asim.Result) -> None:
    for name in ("graph", "model", "soc", "fusion", "memory", "result"):
        text = held(result)[name]._repr_html_()
        assert "<table>" in text, name
        assert len(text) < 40_000, name


def test_the_tables_behind_them(result: asim.Result) -> None:
    model = result.model
    counts = dict(model.source.operators())
    assert counts["Conv"] == sum(node.op_type == "Conv" for node in model.source.nodes)
    fused = {row[1]: row[2:4] for row in model.fusion.table() if row[0] == "ub"}
    assert fused == model.fusion.totals("ub")
    figures = {row[0]: row[1] for row in model.soc.table()}
    assert figures["AI Cores"] == f"{model.soc.ai_cores} at {model.soc.frequency_mhz} MHz"
    assert figures["L2"] == f"{model.soc.l2.size // 2**20} MiB"


def test_runs_of_compiled_modules_are_a_line_each_and_fit_a_screen(result: asim.Result) -> None:
    one = Run("forward", result, 1, [None] * 1000)  # type: ignore[list-item]
    assert repr(one) == f"Run(forward, 1 call, {result.duration_us:,.1f} us)"
    assert repr(Runs([one, one])) == f"({one!r},\n {one!r},)"
    lines = repr(Runs([one] * 64)).splitlines()
    assert len(lines) == 32
    assert lines[1] == " ... 33 more ..."
    assert (repr(Runs()), Runs([one])[0]) == ("()", one)
