"""plog lines, fusion_result.json and fusion_op.csv: their form, the filters users type, and files that CANN
wrote."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ascendsim.api.compiling import compile
from ascendsim.api.running import simulate
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.errors import InputError
from ascendsim.passes.fusion.plog import LINE, PlogLine, plog_lines, read_plog, write_plog
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.result_file import (
    MAX_BYTES,
    FusionCounts,
    parse_result,
    read_result,
    result_text,
    write_result,
)
from ascendsim.passes.rewriting.report import PatternRecord
from tests.support.toy_rules import ONLY_TOYS, DropNeutral, JoinRelu, neutral_graph, relu_chain

DATA = Path(__file__).parents[1] / "data" / "fusion"


def report() -> FusionReport:
    """Two graph passes, one with two patterns and one without effect, and two UB passes."""
    return FusionReport(
        [
            PatternRecord("graph", "V200NotRequantFusionPass", "notRequantPassPattern1", 2, 2),
            PatternRecord("graph", "V200NotRequantFusionPass", "notRequantPassPattern2", 3, 1),
            PatternRecord("graph", "AConv2dMulFusion", "pass_name", 57, 0),
            PatternRecord("ub", "TbeEltwiseFusionPass", "TbeEltwiseFusionPass", 17, 16),
            PatternRecord("ub", "FusionVirtualOpSetSwitch", "FusionVirtualOpSetSwitch", 4, 4),
            PatternRecord("graph", "PoolingFusionPass", "never", 0, 0),
        ],
        {"SoftmaxFusionPass": "switch file"},
    )


def test_the_anchored_expression_reads_the_introductions_log() -> None:
    text = (DATA / "plog_introduction.log").read_text(encoding="utf-8")
    lines = read_plog(text)
    assert len(lines) == len(text.splitlines()) == 11
    assert lines[6] == PlogLine(0, "ZConcatExt2FusionPass", "ConcatExt2FusionPass", 1, 1)
    assert [line.name for line in lines[3:5]] == ["V200NotRequantFusionPass"] * 2
    match = LINE.match(text.splitlines()[0])
    assert match is not None
    assert (match["pid"], match["proc"], match["file"], match["line"]) == (
        "3675829",
        "atc.bin",
        "pattern_fusion_base_pass.cc",
        "259",
    )
    assert match["ts"] == "2025-04-10-20:10:58.288.365"


def test_our_lines_have_canns_form() -> None:
    lines = plog_lines(report(), pid=77, start=datetime(2025, 4, 10, 20, 10, 58, 940829), process="atc.bin")
    assert lines[0] == (
        "[INFO] GE(77,atc.bin):2025-04-10-20:10:58.941.829 [pattern_fusion_base_pass.cc:259]77 "
        "RunOnePattern:GraphId[0], "
        "GraphFusionPass[V200NotRequantFusionPass]: pattern=notRequantPassPattern1, matched_times=2, "
        "effected_times=2."
    )
    assert [LINE.match(line) is not None for line in lines] == [True] * 3 + [False] * 6
    assert [(line.pattern, line.matched, line.effected) for line in read_plog("\n".join(lines))] == [
        ("notRequantPassPattern1", 2, 2),
        ("notRequantPassPattern2", 3, 1),
        ("pass_name", 57, 0),
    ]
    (told,) = [line for line in lines if line.startswith("[INFO] FE(") and "Eltwise" in line]
    counts = "matched_times=17, effect_times=16."
    assert told.endswith(f"RunBufferFusion:GraphId[0], BufferFusionPass[TbeEltwiseFusionPass]: {counts}")
    assert "SessionId 0 graph_id 0 buffer_fusion_pass[TbeEltwiseFusionPass]: matched_times=17." in lines[5]
    assert "SessionId 0 graph_id 0 buffer_fusion_pass[TbeEltwiseFusionPass]: effect_times=16." in lines[7]
    assert all(line.startswith("[DEBUG] FE(77,atc.bin):") for line in lines[5:])


def test_the_log_is_the_same_every_time(golden: Callable[[str, str], None]) -> None:
    golden("fusion/plog.txt", "\n".join(plog_lines(report())) + "\n")


@pytest.mark.skipif(shutil.which("grep") is None, reason="needs grep")
def test_the_filters_that_users_type(tmp_path: Path) -> None:
    (tmp_path / "plog").mkdir()
    assert write_plog(report(), tmp_path / "plog", pid=5).name == "plog-5_20260101000000000.log"

    def lines(command: str) -> list[str]:
        done = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path / "plog", capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    effective = lines('cat * | grep "GraphId" | grep -v "effected_times=0" | grep "effected_times="')
    matched = lines('cat * | grep "GraphId" | grep "effected_times="')
    assert [line.pattern for line in read_plog("\n".join(effective))] == [
        "notRequantPassPattern1",
        "notRequantPassPattern2",
    ]
    assert [line.pattern for line in read_plog("\n".join(matched))] == [
        "notRequantPassPattern1",
        "notRequantPassPattern2",
        "pass_name",
    ]
    assert (len(effective), len(matched)) == (2, 3)


def test_a_log_may_have_any_name(tmp_path: Path) -> None:
    path = write_plog(FusionReport(), tmp_path / "empty.log")
    assert path == tmp_path / "empty.log"
    assert path.read_bytes() == b""


def test_the_result_file_has_canns_form(golden: Callable[[str, str], None]) -> None:
    text = result_text(report())
    golden("fusion/fusion_result.json", text)
    data = json.loads(text)["session_and_graph_id_0_0"]
    assert data["graph_fusion"]["V200NotRequantFusionPass"] == {"effect_times": "3", "match_times": "5"}
    assert data["graph_fusion"]["AConv2dMulFusion"] == {"effect_times": "0", "match_times": "57"}
    assert data["ub_fusion"] == {
        "TbeEltwiseFusionPass": {"effect_times": "16", "match_times": "17", "repository_hit_times": "0"}
    }
    assert set(data["graph_fusion"]) == {"V200NotRequantFusionPass", "AConv2dMulFusion"}


def test_canns_own_file_is_written_as_it_was_read() -> None:
    """Read, turned into a report and written again, a file of CANN comes out byte for byte."""
    path = DATA / "fusion_result_example.json"
    (counts,) = read_result(path)
    again = FusionReport()
    for family, passes in (("graph", counts.graph_fusion), ("ub", counts.ub_fusion)):
        again.records += [PatternRecord(family, name, name, *pair) for name, pair in passes.items()]
    assert result_text(again) == path.read_text(encoding="utf-8").rstrip("\n")
    assert counts.key == "0_0"
    assert counts.ub_fusion["TbeConvSigmoidMulQuantFusionPass"] == (57, 57)
    assert counts.graph_fusion["FixPipeAbilityProcessPass"] == (60, 60)
    assert counts.graph_fusion["RemoveCastFusionPass"] == (137, 0)
    assert all(
        matched >= effected
        for matched, effected in [*counts.graph_fusion.values(), *counts.ub_fusion.values()]
    )


def test_the_three_layouts_mean_the_same() -> None:
    graph = {"A": {"effect_times": "1", "match_times": "2"}}
    ub = {"B": {"effect_times": "0", "match_times": "4", "repository_hit_times": "0"}}
    sections = {"graph_fusion": graph, "ub_fusion": ub}
    expected = FusionCounts("0_3", {"A": (2, 1)}, {"B": (4, 0)})
    assert parse_result({"session_and_graph_id_0_3": sections}) == (expected,)
    assert parse_result({"session_and_graph_id": "0_3", **sections}) == (expected,)
    two = parse_result(
        [{"session_and_graph_id": "0_3", **sections}, {"session_and_graph_id": "0_4", "graph_fusion": graph}]
    )
    assert two == (expected, FusionCounts("0_4", {"A": (2, 1)}, {}))


BAD_RESULTS: list[tuple[Any, str]] = [
    (3, "none of the known layouts"),
    ([3], "none of the known layouts"),
    ([{"graph_fusion": {}}], "none of the known layouts"),
    ({"other": {}}, "none of the known layouts"),
    ({"session_and_graph_id_0_0": []}, "none of the known layouts"),
    ({"session_and_graph_id_0_0": {"graph_fusion": []}}, "none of the known layouts"),
    (
        {"session_and_graph_id_0_0": {"graph_fusion": {"A": {"match_times": "x"}}}},
        "pass 'A' needs a whole number as match_times, not 'x'",
    ),
    (
        {"session_and_graph_id_0_0": {"graph_fusion": {"A": {"match_times": "1"}}}},
        "pass 'A' needs a whole number as effect_times",
    ),
    ({"session_and_graph_id_0_0": {"graph_fusion": {"A": 1}}}, "pass 'A' needs a whole number"),
]


@pytest.mark.parametrize(("data", "message"), BAD_RESULTS)
def test_other_files_are_refused(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_result(data)


def test_result_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("{")
    (tmp_path / "deep.json").write_text("[" * 200000)
    (tmp_path / "huge.json").write_bytes(b" " * (MAX_BYTES + 1))
    for name, message in (
        ("none", "cannot be opened"),
        ("text", "not valid JSON"),
        ("deep", "not valid JSON"),
        ("huge", "larger than 16 MiB"),
    ):
        with pytest.raises(InputError, match=message):
            read_result(tmp_path / f"{name}.json")


@pytest.fixture(scope="module")
def model() -> CompiledModel:
    return compile(neutral_graph(), passes=[DropNeutral(), JoinRelu()], **ONLY_TOYS)


def test_a_compiled_model_carries_its_report(model: CompiledModel) -> None:
    assert model.fusion.totals("graph") == {"DropNeutral": (3, 2), "JoinRelu": (1, 1)}
    off = compile(
        neutral_graph(),
        passes=[DropNeutral(), JoinRelu()],
        **ONLY_TOYS | {"optimization_switch": "DropNeutral:on;JoinRelu:off"},
    )
    assert set(off.fusion.totals("graph")) == {"DropNeutral"}
    assert off.fusion.switched_off["JoinRelu"] == "--optimization_switch"


def test_result_and_log_of_a_compiled_model(model: CompiledModel, tmp_path: Path) -> None:
    (counts,) = read_result(write_result(model.fusion, tmp_path))
    assert counts.graph_fusion == {"DropNeutral": (3, 2), "JoinRelu": (1, 1)}
    assert [line.pattern for line in read_plog("\n".join(plog_lines(model.fusion)))] == [
        "mulOne",
        "addZero",
        "reluRelu",
    ]


def test_fusion_op_lists_tasks_of_several_operators(model: CompiledModel) -> None:
    table = simulate(model).fusion_op()
    (row,) = table.records()
    assert row["Fusion Op"] == "joined"
    assert row["Original Ops"] == "first;second"
    assert row["Device_id"] == "host"
    (node,) = [node for node in model.graph.nodes if node.name == "joined"]
    assert row["Memory Input(KB)"] == node.required(0).storage_bytes / 1024
    assert row["Memory Output(KB)"] == node.output.storage_bytes / 1024
    assert row["Memory Total(KB)"] == (node.required(0).storage_bytes + node.output.storage_bytes) / 1024
    assert table.to_csv().splitlines()[0] == (
        "Device_id,Model Name,Model ID,Fusion Op,Original Ops,Memory Input(KB),Memory Output(KB),Memory "
        "Weight(KB),"
        "Memory Workspace(KB),Memory Total(KB)"
    )


def test_an_unfused_model_has_no_fused_operators() -> None:
    assert len(simulate(compile(relu_chain(2), fusion="off")).fusion_op()) == 0


def test_save_writes_results_and_log(model: CompiledModel, tmp_path: Path) -> None:
    written = {path.relative_to(tmp_path).as_posix() for path in simulate(model).save(tmp_path)}
    assert {"fusion_result.json", "fusion_op.csv", "plog/plog-1_20260101000000000.log"} < written
    assert all((tmp_path / name).is_file() for name in written)
