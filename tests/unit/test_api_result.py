"""What a result hands out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim


@pytest.fixture(scope="module")
def result() -> asim.Result:
    """A product on the AI Core and a Det, which runs on the AI CPU."""
    b = asim.GraphBuilder("mixed")
    x = b.input("x", (4, 16))
    b.output(b.op("MatMul", x, b.weight("w", (16, 8))), "y")
    b.output(b.op("Det", b.input("square", (3, 4, 4))), "z")
    return asim.simulate(asim.compile(b.build(), soc="Ascend310"))


def test_task_ids_join_the_statistic_to_the_metrics_of_ai_core_tasks(result: asim.Result) -> None:
    on_core = set(result.ai_core_metrics().column("Task"))
    kinds = set()
    for row in result.op_statistic(task_ids=True).records():
        ids = {int(number) for number in row["Task IDs"].split(";")}
        kinds.add(row["Core Type"])
        assert ids <= on_core if row["Core Type"] == "AI_CORE" else not ids & on_core
    assert kinds == {"AI_CORE", "AI_CPU"}
    assert "Task IDs" not in result.op_statistic().columns


def test_outputs_of_a_run_without_values_are_an_error(result: asim.Result) -> None:
    with pytest.raises(asim.InputError, match="simulated for timing only"):
        _ = result.outputs


def test_a_folder_that_cannot_be_made_is_an_error(result: asim.Result, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(asim.InputError, match="choose another folder"):
        result.save(tmp_path / "file" / "out")


def test_a_result_shows_itself(result: asim.Result) -> None:
    assert repr(result).startswith("Result('mixed' on Ascend310: ")
    assert "<table" in result._repr_html_()
    assert np.isclose(result.duration_us, result.cycles / result.model.soc.frequency_mhz, rtol=1e-3)
