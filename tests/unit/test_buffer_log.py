"""L1, L2 and UB fusion in the log: a line for each decision, with the number of the graph, at level info."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.api.compiling import compile
from ascendsim.compiler.buffer_log import buffer_texts
from ascendsim.compiler.buffers import BufferReport, SplitBlock
from ascendsim.compiler.l1_fusion import L1Pair, L1Report
from ascendsim.compiler.model import CompiledModel


def told(model: CompiledModel, level: str, folder: Path) -> list[str]:
    path = asim.save_log(model, level, folder)
    assert path is not None
    return path.read_text().splitlines()


def lines_of(lines: list[str], what: str) -> list[str]:
    return [line.partition("GraphId[0], ")[2] for line in lines if f" {what}:GraphId[0], " in line]


@pytest.mark.usefixtures("untimed_tiles")
def test_every_tensor_of_l2_fusion_has_a_line(tmp_path: Path, models_dir: Path) -> None:
    model = compile(asim.load(models_dir / "squeezenet1_1.onnx", batch=8), "Ascend310")
    plan = model.buffers.l2
    assert plan is not None
    assert plan.placed
    assert plan.refused
    lines = lines_of(told(model, "info", tmp_path), "L2Fusion")
    for item in plan.placed:
        (line,) = [line for line in lines if line.startswith(f"tensor[{item.region}]: in L2 at ")]
        assert f"0x{item.offset:06x}, bytes={item.bytes}, tasks={item.first}..{item.last}" in line
        assert line.endswith(f"saved_bytes={item.saved_bytes}")
    for name, reason in plan.refused.items():
        assert f"tensor[{name}]: in DDR, {reason}" in lines
    assert len(lines) == len(plan.placed) + len(plan.refused)


def test_pairs_and_blocks_have_a_line_each() -> None:
    pairs = (L1Pair(("c1", "c2"), 100, 0, 11.5, 12.25),)
    blocks = (SplitBlock(("a", "b", "c"), 2, 4, 30.0, 40.0),)
    report = BufferReport(blocks, None, L1Report(pairs, {"c3 + c4": "two readers"}), "batches stay whole")
    assert [(level, *text.split("], ")) for level, _, _, _, text in buffer_texts(report)] == [
        ("INFO", "GraphId[0", "nodes[c1 + c2]: joined, 12.250 -> 11.500 us"),
        ("INFO", "GraphId[0", "nodes[c3 + c4]: apart, two readers"),
        ("INFO", "GraphId[0", "nodes[a .. c]: 3 nodes in 4 passes of batch 2"),
        ("INFO", "GraphId[0", "batches stay whole"),
    ]
    assert list(buffer_texts(BufferReport())) == []


def test_rules_of_ub_fusion_are_told_at_level_info(tmp_path: Path, models_dir: Path) -> None:
    model = compile(asim.load(models_dir / "lenet5.onnx"), "Ascend310")
    totals = model.fusion.totals("ub")
    assert totals
    for level, debug in (("info", False), ("debug", True)):
        lines = told(model, level, tmp_path / level)
        found = lines_of(lines, "RunBufferFusion")
        assert found == [
            f"BufferFusionPass[{name}]: matched_times={matched}, effect_times={effected}."
            for name, (matched, effected) in totals.items()
        ]
        assert any(line.startswith("[DEBUG] FE(") for line in lines) == debug
    assert told(model, "warning", tmp_path / "warning") == []
