"""What the command line says about UB, L1 and L2 fusion of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.main import main

LENET = str(Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx")


def output(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, LENET, "--soc_version", "Ascend310"]) == 0
    return capsys.readouterr().out


def test_a_summary_stands_where_tasks_and_passes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    model = asim.compile(asim.load(LENET), soc="Ascend310")
    plan = model.buffers.l2
    assert plan is not None
    assert plan.placed
    expected = [
        f"UB fusion: {len(model.fusion.scopes)} tasks of several operators, "
        f"{model.fusion.saved_bytes / 2**20:,.1f} MiB less to move",
        f"L2 fusion: {len(plan.placed)} tensors in L2, at most {plan.peak_bytes / 2**20:.1f} of 8.0 MiB, "
        f"{plan.saved_bytes / 2**20:,.1f} MiB less on DDR; {len(plan.refused)} tensors had no place",
    ]
    for words in (("compile",), ("fusion", "list")):
        assert output(capsys, *words).splitlines()[-2:] == expected


def test_every_tensor_in_l2_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    plan = asim.compile(asim.load(LENET), soc="Ascend310").buffers.l2
    assert plan is not None
    lines = output(capsys, "compile", "--buffers").splitlines()
    assert lines[0].split() == [
        "tensor",
        "L2",
        "address",
        "KiB",
        "first",
        "task",
        "last",
        "task",
        "DDR",
        "KiB",
        "saved",
    ]
    listed = [line.split() for line in lines[2 : 2 + len(plan.placed)]]
    for item, cells in zip(plan.placed, listed, strict=True):
        assert cells[:2] == [item.region, f"0x{item.offset:06x}"]
        assert cells[3:5] == [str(item.first), str(item.last)]


@pytest.mark.parametrize("level", ["off", "ub"])
def test_lower_levels_place_nothing(capsys: pytest.CaptureFixture[str], level: str) -> None:
    text = output(capsys, "compile", "--buffers", "--fusion", level)
    assert text.startswith("nothing was placed in L2 or joined through L1")
    assert ("UB fusion" in text) is (level == "ub")


def test_cut_batches_and_joined_convolutions_are_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a small batch nothing pays, so a report of a large one stands in for the compilation's."""
    from dataclasses import replace

    from ascendsim.api import compiling
    from ascendsim.compiler.buffers import BufferReport, SplitBlock
    from ascendsim.compiler.l1_fusion import L1Pair, L1Report

    real = compiling.compile
    pairs = L1Report(
        (L1Pair(("conv1", "conv2"), 4096, 0, 10.0, 12.5),),
        {"conv3 + conv4": "the first one has another reader"},
    )
    report = BufferReport((SplitBlock(("conv1", "relu1"), 2, 4, 90.0, 100.0),), None, pairs)
    monkeypatch.setattr(
        compiling, "compile", lambda *args, **more: replace(real(*args, **more), buffers=report)
    )
    text = output(capsys, "compile", "--buffers")
    assert "4 x 2" in text
    assert "joined: 12.5 -> 10.0 us" in text
    assert "the first one has another reader" in text
    assert "L1 fusion: 1 pairs of convolutions joined, 1 left apart" in text
