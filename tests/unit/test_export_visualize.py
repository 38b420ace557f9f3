"""visualize_data.bin: blocks that MindStudio Insight can read, with the figures of the run."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.isa.program import MemoryPlan, Program, Task, TaskKind
from ascendsim.profiling.export import export_run
from ascendsim.profiling.view import ProfiledRun
from ascendsim.trace.records import InstructionRecord, TaskRecord, Trace
from tests.support.synthetic_run import NAMES, synthetic_run, tiny_soc

GIB = 1024**3
US = 1000  # ticks of the runs below in a microsecond


def blocks(data: bytes) -> dict[int, Any]:
    """Content by type, read as Insight reads it: eight bytes of size, one of type, one of padding."""
    found: dict[int, Any] = {}
    at = 0
    while at < len(data):
        size, kind, padding = struct.unpack_from("<QBB", data, at)
        assert data[at + 10 : at + 12] == b"\x5a\x5a"
        assert size % 4 == 0
        content = data[at + 12 : at + 12 + size - padding]
        assert kind not in found
        found[kind] = json.loads(content)
        at += 12 + size
    assert at == len(data)
    return found


def exported(run: ProfiledRun, folder: Any) -> dict[int, Any]:
    (path,) = [path for path in export_run(run, folder, ("opprof",)).files if path.suffix == ".bin"]
    found = blocks(path.read_bytes())
    assert set(found) == {2, 5, 6, 7, 8, 9}
    assert found[2] == json.loads((path.parent / "trace.json").read_text())
    return found


def one_task(split: bool, kind: TaskKind, *instructions: tuple[Any, ...], **record: Any) -> ProfiledRun:
    """A task of 10 us at 1 GHz; instructions are (cores, pipe, name, start, end, bytes), times in us."""
    task = Task(3, "made", kind)
    made = TaskRecord(3, "made", kind.value, 0, 0, 0, 10 * US, blocks=2, rounds=1, cores=2, **record)
    rows = tuple(
        InstructionRecord(3, cores, pipe, name, round(start * US), round(end * US), size)
        for cores, pipe, name, start, end, size in instructions
    )
    trace = Trace(Fraction(1, 10**9), 1, (made,), rows, 10 * US)
    run = synthetic_run(1, split=split)
    soc = replace(tiny_soc(split=split), frequency_mhz=1000)
    return ProfiledRun(run.graph, Program((task,), MemoryPlan({}, 0, 0)), trace, soc, NAMES)


def lines(unit: dict[str, Any]) -> dict[int, Any]:
    return {line["memory_path"]: line["bandwidth"] for line in unit["memory_unit"]}


def test_a_product_on_cube_cores(tmp_path: Any) -> None:
    run = one_task(
        True,
        TaskKind.AI_CORE,
        ((0, 1), "MTE2", "copy GM->L1 4096 B", 0, 2, 4096),
        ((0, 1), "MTE2", "nd2nz GM->L1 4096 B", 1, 3, 4096),  # two at a time: busy for 3 us
        ((0, 1), "MTE1", "load2d L1->L0A 2048 B", 3, 4, 2048),
        ((0, 1), "MTE1", "load3d L0B 512 B", 4, 4.5, 512),
        ((0, 1), "M", "mmad 16x16x16", 4, 6, 0),
        ((1,), "M", "mmad 16x16x16", 6, 7, 0),
        ((0, 1), "FIX", "fixpipe L0C->GM 1024 B", 7, 8, 1024),
        read_bytes={"l2": 16384, "ddr": 4608},
    )
    found = exported(run, tmp_path)
    basics = found[5]
    assert (basics["name"], basics["op_type"], basics["block_dim"], basics["duration"]) == (
        "made",
        "cube",
        "2",
        10,
    )
    assert basics["block_detail"] == {
        "head_name": ["Block ID", "Core Type", "Duration (μs)"],
        "size": [3, 3],
        "row": [{"value": ["0", "cube", "8.000"]}, {"value": ["1", "cube", "8.000"]}],
    }
    busy = [(row["block_id"], row["name"], row["unit"], row["value"]) for row in found[6]["subblock_detail"]]
    assert busy == [("0", "Cube All Active", 3, 25.0), ("1", "Cube All Active", 3, 37.5)]
    assert [row["origin_value"] for row in found[6]["subblock_detail"]] == [2000, 3000]  # cycles
    counts = [(row["block_id"], row["unit"], row["value"]) for row in found[7]["subblock_detail"]]
    assert counts == [("0", 1, 1), ("1", 1, 2)]
    first, second = found[8]["core_memory_map"]
    assert (first["core_no"], second["core_no"], first["op_type"], first["soc"]) == ("0", "1", "cube", "910B")
    rates = {2: 8192, 3: 0, 4: 2048, 5: 512, 9: 0, 10: 1024}  # bytes in 10 us
    known = {path: pytest.approx(count / GIB * 1e5) for path, count in rates.items()}
    assert lines(first) == known | dict.fromkeys((0, 1, 6, 7, 8, 11), "NA")
    assert first["Cube"] == {"cycle": 2000, "total_cycles": 8000, "ratio": 25.0}
    assert first["L2cache"]["hit_ratio"] == 75.0  # 4,608 of 2 x (8,192 + 1,024) bytes come from DDR
    pipes, transfers = found[9]["table_per_block"][0]["table_detail"]
    rows = {row["name"]: row["value"] for row in pipes["row"]}
    assert rows["MTE2"] == [2, 3000, "NA", 37.5, pytest.approx(8192 / GIB / 3e-6)]
    assert rows["Scalar"] == ["NA"] * 5
    assert pipes["size"] == [5, 5]
    assert [row["name"] for row in transfers["row"]] == ["GM to L1", "L0C to GM", "L1 to L0A", "L1 to L0B"]
    assert transfers["row"][0]["value"][:2] == [2, 8192]


def test_vector_cores_are_blocks_of_their_own(tmp_path: Any) -> None:
    run = one_task(
        True,
        TaskKind.AI_VECTOR_CORE,
        ((2, 5), "MTE2", "copy GM->UB 64 B", 0, 1, 64),
        ((2, 5), "V", "vadd 128 float16 x3", 1, 2, 0),
        ((2,), "V", "vconv 64 float32", 2, 3, 0),
        ((2,), "V", "vnchwconv", 3, 4, 0),
    )
    found = exported(run, tmp_path)
    assert [row["value"] for row in found[5]["block_detail"]["row"]] == [
        ["0", "vector", "4.000"],
        ["3", "vector", "2.000"],
    ]
    counts = {(row["block_id"], row["name"]): row["value"] for row in found[7]["subblock_detail"]}
    assert counts == {
        ("0", "Vector All Active"): 5,
        ("0", "Vector FP16"): 3,
        ("0", "Vector FP32"): 1,
        ("0", "Vector Misc"): 1,
        ("3", "Vector All Active"): 3,
        ("3", "Vector FP16"): 3,
    }
    assert set(lines(found[8]["core_memory_map"][0])) == {0, 1, 12, 13, 14, 15}


def test_cores_of_both_kinds_are_parts_of_one_block(tmp_path: Any) -> None:
    run = one_task(
        True,
        TaskKind.AI_CORE,
        ((1,), "M", "mmad 16x16x16", 0, 4, 0),
        ((4,), "V", "vadd 128 float16", 0, 1, 0),
        ((5,), "V", "vadd 128 float16", 0, 2, 0),
        ((5,), "MTE3", "copy UB->GM 640 B", 2, 4, 640),
    )
    found = exported(run, tmp_path)
    assert found[5]["op_type"] == "mix"
    assert found[5]["mix_block_detail"]["row"] == [{"value": ["1", "4.000", "1.000", "4.000"]}]
    named = {(row["block_type"], row["name"]): row["value"] for row in found[6]["subblock_detail"]}
    assert named == {
        ("cube0", "Cube All Active"): 100,
        ("vector0", "Vector All Active0"): 100,
        ("vector1", "Vector All Active1"): 50,
    }
    (unit,) = found[8]["core_memory_map"]
    assert (lines(unit)[13], lines(unit)[17]) == (0, pytest.approx(640 / GIB * 1e5))
    assert unit["Vector1"]["ratio"] == 50
    names = [table["table_name"] for table in found[9]["table_per_block"][0]["table_detail"]]
    assert names[::2] == ["Pipe Cube", "Pipe Vector Core0", "Pipe Vector Core1"]


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910B1"])
def test_its_figures_are_those_of_the_task(tmp_path: Any, chip: str) -> None:
    builder = asim.GraphBuilder("net", dtype=DType.FLOAT16)
    x = builder.input("x", (256, 1024))
    builder.output(builder.op("MatMul", x, builder.weight("w", (1024, 512))), "y")
    result = asim.simulate(asim.compile(builder.build(), chip), instructions=True)
    found = exported(result.profile, tmp_path)
    view = max(result.profile.tasks, key=lambda each: each.duration)
    assert found[5]["name"] == view.name
    busy = sum(row["origin_value"] for row in found[6]["subblock_detail"] if row["name"].startswith("Cube"))
    assert busy == pytest.approx(
        view.record.busy["M"] / result.trace.core_ticks, abs=len(found[6]["subblock_detail"])
    )
    tables = [table for unit in found[9]["table_per_block"] for table in unit["table_detail"]]
    moved = [row for table in tables if table["table_name"].startswith("Transfers") for row in table["row"]]
    into = sum(row["value"][1] for row in moved if row["name"].startswith("GM to"))
    out_of = sum(row["value"][1] for row in moved if row["name"].endswith("to GM"))
    read = view.record.read_bytes  # weights that are read once pass the L2 of 310 by
    assert into == read["l2"] + (read["ddr"] if chip == "Ascend310" else 0)
    served = (into + out_of - view.moved("ddr")) / (into + out_of)
    assert found[8]["core_memory_map"][0]["L2cache"]["hit_ratio"] == pytest.approx(100 * served)
    assert out_of == view.record.write_bytes["l2"]
