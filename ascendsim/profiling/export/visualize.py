"""visualize_data.bin: the instructions of a run and one operator in detail, as MindStudio Insight shows them.

A file is a row of blocks: a head (<u64 size, u8 type, u8 padding, 0x5A, 0x5A>) and JSON, filled up to four
bytes. Types and JSON: Ascend/msopprof@d6c29df, csrc/op_profiling/common/visualize.cpp and
profiling/device/data_visualize, and what Ascend/msinsight@4e16fca1f reads of it,
server/src/modules/source/parser. The operator is the longest one whose instructions were recorded. What the
tool counts on the bus (requests, waits, transfers between L0 and the units) the machine does not know: NA.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from ascendsim.profiling.export.capture import Capture, readable
from ascendsim.profiling.export.core_parts import Part, Unit, span, units_of
from ascendsim.profiling.view import TaskView
from ascendsim.trace.records import InstructionRecord

TRACE, BASICS, LOAD_FIGURE, LOAD_TABLE, HEAT_MAP, ACCESS_TABLE = 2, 5, 6, 7, 8, 9  # types of blocks
NA = "NA"
_HEAD = struct.Struct("<QBBBB")
_RESERVED = 0x5A
_ALIGNMENT = 4
_INSTRUCTIONS, _PERCENT = 1, 3  # units of a figure
_GIB = 1 << 30  # what the tool calls a GB
_TYPES = {"float32": "FP32", "float16": "FP16", "int32": "S32", "int16": "S16"}
_PIPES = {"MTE1": "MTE1", "MTE2": "MTE2", "MTE3": "MTE3", "FIX": "FIXP", "S": "Scalar"}
# numbers of the lines in the tool's drawing of a core, by (from, to); "" = from anywhere
_COUPLED_PATHS = {
    ("", "L1"): 20, ("", "L0A"): 21, ("", "L0B"): 22, ("L0C", "UB"): 24, ("", "UB"): 25, ("UB", "GM"): 13,
}  # fmt: skip
_CUBE_PATHS = {
    ("GM", "L1"): 2, ("L1", "GM"): 3, ("", "L0A"): 4, ("", "L0B"): 5, ("L0C", "L1"): 9, ("L0C", "GM"): 10,
}  # fmt: skip
_VECTOR_PATHS = {("GM", "UB"): 12, ("UB", "GM"): 13}
_SECOND_VECTOR_PATHS = {("GM", "UB"): 16, ("UB", "GM"): 17}
# the others, which nothing is known of: between main memory and L2, L0 and the Cube, UB and Vector
_UNKNOWN = {"AiCore": (6, 7, 8, 14, 15, 23), "cube": (0, 1, 6, 7, 8, 11), "vector": (0, 1, 14, 15)}
_UNKNOWN["mix"] = (*_UNKNOWN["cube"], 14, 15, 18, 19)


def visualize_data(capture: Capture, trace: bytes) -> bytes:
    """The file.

    Args:
        capture: A run that recorded instructions.
        trace: All cores as a Chrome trace.
    """
    recorded = {record.task for record in capture.run.trace.instructions}
    view = max((each for each in capture.run.tasks if each.id in recorded), key=lambda each: each.duration)
    kind, units = units_of(capture, view)
    parts = [(unit, part) for unit in units for part in unit.parts]
    ratio = _hit_ratio(view, parts)
    blocks: list[tuple[int, Any]] = [
        (BASICS, _basics(capture, view, kind, parts)),
        (LOAD_FIGURE, _details(row for unit, part in parts for row in _load(capture, kind, unit, part))),
        (LOAD_TABLE, _details(row for unit, part in parts for row in _counts(kind, unit, part))),
        (HEAT_MAP, {"core_memory_map": [_heat_map(capture, view, kind, unit, ratio) for unit in units]}),
        (ACCESS_TABLE, {"table_per_block": [_tables(capture, view, kind, unit) for unit in units]}),
    ]
    written = [block(number, json.dumps(data, separators=(",", ":")).encode()) for number, data in blocks]
    return b"".join([*written, block(TRACE, trace)])


def block(kind: int, content: bytes) -> bytes:
    """One block of the file."""
    padding = -len(content) % _ALIGNMENT
    return _HEAD.pack(len(content) + padding, kind, padding, _RESERVED, _RESERVED) + content + bytes(padding)


def _basics(
    capture: Capture, view: TaskView, kind: str, parts: Sequence[tuple[Unit, Part]]
) -> dict[str, Any]:
    run = capture.run
    mix = kind == "mix"
    if mix:
        head = ["Block ID", "Cube0 Duration (μs)", "Vector0 Duration (μs)", "Vector1 Duration (μs)"]
        times: dict[str, dict[str, str]] = {}
        for unit, part in parts:
            times.setdefault(unit.id, {})[part.name] = f"{run.us(part.ticks):.3f}"
        names = ("cube0", "vector0", "vector1")
        rows = [[number, *(known.get(name, NA) for name in names)] for number, known in times.items()]
    else:
        head = [*(["Block ID"] if kind != "AiCore" else []), "Core Type", "Duration (μs)"]
        rows = [
            [*([unit.id] if kind != "AiCore" else []), kind, f"{run.us(span(records)):.3f}"]
            for unit, part in parts
            for records in part.cores
        ]
    detail = {
        "head_name": head,
        "size": [len(rows) + 1, len(head)],
        "row": [{"value": row} for row in rows],
    }
    vector = view.vector_blocks
    clock = str(run.soc.frequency_mhz)
    return {
        "name": readable(view.name),
        "soc": readable(run.soc.name),
        "op_type": kind,
        "block_dim": str(view.record.blocks - vector if mix else view.record.blocks),
        "mix_block_dim": str(vector) if mix else NA,
        "device_id": "0",
        "pid": NA,
        "duration": run.us(view.duration),
        "cur_freq": clock,
        "rated_freq": clock,
        "advice": [],
        "mix_block_detail" if mix else "block_detail": detail,
    }


def _details(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"advice": [], "subblock_detail": list(rows)}


def _row(kind: str, unit: Unit, part: Part, name: str) -> dict[str, Any]:
    return {"block_id": unit.id, "block_type": part.name if kind == "mix" else kind, "name": name}


def _load(capture: Capture, kind: str, unit: Unit, part: Part) -> Iterable[dict[str, Any]]:
    """How much of its time each unit of a block computed."""
    for title, pipe in _computing(part):
        busy = part.busy(pipe)
        name = f"{title} All Active" + (part.name[-1] if kind == "mix" and pipe == "V" else "")
        share = _percent(busy, part.ticks)
        cycles = capture.run.cycles(busy)
        figures = {"unit": _PERCENT, "value": share, "origin_value": cycles}
        yield {**_row(kind, unit, part, name), **figures}


def _counts(kind: str, unit: Unit, part: Part) -> Iterable[dict[str, Any]]:
    """How many instructions each unit of a block computed, by type."""
    for title, pipe in _computing(part):
        counts = {f"{title} All Active": 0}
        for record in part.of(pipe):
            words = record.name.split(" ")
            times = int(words[-1][1:]) if re.fullmatch(r"x\d+", words[-1]) else 1
            counts[f"{title} All Active"] += times
            if pipe == "V":
                name = f"Vector {_TYPES.get(words[2] if len(words) > 2 else '', 'Misc')}"
                counts[name] = counts.get(name, 0) + times
        for name, count in counts.items():
            yield {**_row(kind, unit, part, name), "unit": _INSTRUCTIONS, "value": count}


def _computing(part: Part) -> list[tuple[str, str]]:
    """The units that compute in a part, with their pipes."""
    return [
        (title, pipe)
        for title, pipe in (("Cube", "M"), ("Vector", "V"))
        if part.name == "AiCore" or part.name.startswith(title.lower())
    ]


def _hit_ratio(view: TaskView, parts: Sequence[tuple[Unit, Part]]) -> float | str:
    """What share of the operator's transfers from and to main memory L2 served, in percent of the bytes."""
    transfers = (item for _, part in parts for item in part.moved().items())
    moved = sum(_bytes(records) for ends, records in transfers if "GM" in ends)
    return _percent(max(moved - view.moved("ddr"), 0), moved) if moved else NA


def _heat_map(
    capture: Capture, view: TaskView, kind: str, unit: Unit, hit_ratio: float | str
) -> dict[str, Any]:
    """What went over each line of the drawing of a core."""
    us = capture.run.us(view.duration)
    rates: dict[int, float | str] = dict.fromkeys(_UNKNOWN[kind], NA)
    if kind == "AiCore":  # all cores together, so main memory's traffic is theirs
        rates[0] = _rate(view.record.read_bytes.get("ddr", 0), us)
        rates[1] = _rate(view.record.write_bytes.get("ddr", 0), us)
    for part in unit.parts:
        known = _paths(part.name)
        moved = dict.fromkeys(known.values(), 0)
        for ends, records in part.moved().items():
            path = known.get(ends, known.get(("", ends[1])))
            if path is not None:
                moved[path] += _bytes(records)
        rates.update({path: _rate(count, us) for path, count in moved.items()})
    lines = [
        {
            "memory_path": path,
            "request": NA,
            "bandwidth": rate,
            "peak_ratio": NA,
            "display": 1,
            "bandwidth_suffix": "",
            "requests_suffix": "",
        }
        for path, rate in sorted(rates.items())
    ]
    computed = {
        title + (part.name[-1] if part.name == "vector1" else ""): {
            "cycle": capture.run.cycles(part.busy(pipe)),
            "total_cycles": capture.run.cycles(part.ticks),
            "ratio": _percent(part.busy(pipe), part.ticks),
        }
        for part in unit.parts
        for title, pipe in _computing(part)
    }
    return {
        "core_no": unit.id,
        "op_type": kind,
        "soc": "310P" if kind == "AiCore" else "910B",  # which of the tool's drawings
        "memory_unit": lines,
        "L2cache": {"hit": NA, "miss": NA, "total_request": NA, "hit_ratio": hit_ratio},
        "advice": [],
        **computed,
    }


def _paths(part: str) -> dict[tuple[str, str], int]:
    """Lines of the drawing by (from, to), for one kind of cores."""
    if part == "AiCore":
        return _COUPLED_PATHS
    if part.startswith("cube"):
        return _CUBE_PATHS
    return _SECOND_VECTOR_PATHS if part == "vector1" else _VECTOR_PATHS


def _tables(capture: Capture, view: TaskView, kind: str, unit: Unit) -> dict[str, Any]:
    """Pipes and transfers of a block."""
    tables = []
    for part in unit.parts:
        title = {"cube0": " Cube", "vector0": " Vector Core0", "vector1": " Vector Core1"}.get(part.name, "")
        title = title if kind == "mix" else ""
        pipes = [_pipe_row(capture, part, pipe) for pipe in _PIPES]
        head = ["", "instructions", "cycle", "wait cycles", "active rate(%)", "active bw(GB/s)"]
        tables.append(_table(f"Pipe{title}", head, pipes))
        us = capture.run.us(view.duration)
        moved = [
            (f"{start} to {end}", [len(records), _bytes(records), _rate(_bytes(records), us)])
            for (start, end), records in sorted(part.moved().items())
        ]
        tables.append(_table(f"Transfers{title}", ["", "instructions", "bytes", "throughput(GB/s)"], moved))
    return {"block_id": unit.id, "table_op_type": kind, "table_detail": tables, "advice": []}


def _pipe_row(capture: Capture, part: Part, pipe: str) -> tuple[str, list[Any]]:
    records = part.of(pipe)
    if pipe == "S":  # its instructions are not recorded
        return _PIPES[pipe], [NA] * 5
    busy = part.busy(pipe)
    rate = _rate(_bytes(records), capture.run.us(busy))
    return _PIPES[pipe], [len(records), capture.run.cycles(busy), NA, _percent(busy, part.ticks), rate]


def _table(name: str, head: list[str], rows: list[tuple[str, list[Any]]]) -> dict[str, Any]:
    return {
        "table_name": name,
        "size": [len(rows), len(head) - 1],
        "header_name": head,
        "row": [{"name": title, "value": values} for title, values in rows],
    }


def _bytes(records: Iterable[InstructionRecord]) -> int:
    return sum(record.bytes for record in records)


def _rate(count: int, us: float) -> float:
    """GB/s in the tool's gigabytes."""
    return count / _GIB * 1e6 / us if us else 0.0


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
