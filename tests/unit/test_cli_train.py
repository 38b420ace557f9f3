"""`ascendsim train --fusion A,B`: one training step under several fusion levels, in one table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.main import main

LENET = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"
COMMAND = ["train", str(LENET), "--weights", "random", "--optimizer", "momentum", "--soc", "Ascend910A"]


def test_levels_stand_side_by_side_with_mindspores_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMAND, "--fusion", "off,mindspore,graph-kernel"]) == 0
    printed = capsys.readouterr().out
    graph = asim.load(LENET, weights="random")
    step = asim.training_step(graph, loss="cross_entropy", optimizer="momentum").graph
    settings = {"soc": "Ascend910A", "precision_mode": "allow_mix_precision"}
    ways = {
        "off": {"fusion": "off"},
        "mindspore": {"fusion": "ub", "options": {"ub_limits": "MindSpore"}},
        "graph-kernel": {"fusion": "graph-kernel"},
    }
    took = {
        name: asim.simulate(asim.compile(step, **settings, **way)).duration_us  # type: ignore[arg-type]
        for name, way in ways.items()
    }
    assert all(f"{time:,.1f}" in printed for time in took.values())
    assert len({round(time, 1) for time in took.values()}) == 3
    for name in ("off", "mindspore"):
        (told,) = re.findall(rf"graph-kernel against {name}: (\S+) % of the time", printed)
        assert float(told) == pytest.approx((took["graph-kernel"] / took[name] - 1) * 100, abs=0.051)


@pytest.mark.parametrize(
    ("levels", "message"),
    [("off,mindspor", "did you mean mindspore"), ("off,off", "twice"), (",", "must name something")],
)
def test_wrong_lists_are_told_before_anything_is_loaded(
    levels: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "no_such_file.onnx", "--fusion", levels]) == 2
    assert message in capsys.readouterr().err
