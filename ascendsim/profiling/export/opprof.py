"""The folder of CANN's operator simulator (msopprof, `msprof op simulator`): every instruction of every core.

    OPPROF_<time>_ASCENDSIM/simulator/
      core0.cubecore0/{core0.cubecore0_instr_exe.csv, core0.cubecore0_code_exe.csv, trace.json}
      ...
      trace.json            all cores: a process a core, a thread a pipe
      visualize_data.bin    the same, and one operator in detail (`visualize`)

A pipe that has several instructions under way gets further lanes (MTE2_2 ...), since viewers drop what
partly overlaps. The machine knows no addresses of code and no lines of source: "addr" numbers instructions by
first use on the core, and a line of "code" is the operator.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascendsim.core.errors import InputError
from ascendsim.core.files import make_folder, write_whole
from ascendsim.core.table import Row, Table
from ascendsim.profiling.export.capture import Capture, readable
from ascendsim.profiling.export.core_parts import core_place
from ascendsim.profiling.export.msprof_folder import write_table
from ascendsim.profiling.export.visualize import visualize_data
from ascendsim.profiling.lanes import sub_lanes
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import InstructionRecord

Event = dict[str, Any]

# our pipe -> the simulator's name of its lane, its process and its colour in a core's own trace
LANES = {
    "S": ("SCALAR", 10, "thread_state_runnable"),
    "V": ("VECTOR", 30, "rail_animation"),
    "M": ("CUBE", 40, "rail_load"),
    "MTE1": ("MTE1", 50, "rail_response"),
    "MTE2": ("MTE2", 60, "good"),
    "MTE3": ("MTE3", 70, "cq_build_passed"),
    "FIX": ("FIXP", 80, "thread_state_iowait"),
}


def core_folder(soc: SocSpec, core: int) -> str:
    """What the operator simulator calls a core: on split chips by the AI Core that it belongs to.

    A core of a chip whose cores have all units is `core0`.
    """
    place = core_place(soc, core)
    short = {"cube": f".cubecore{place.number}", "vector": f".veccore{place.number}"}.get(place.kind, "")
    return f"core{place.core}{short}"


def write_opprof(capture: Capture, folder: Path) -> tuple[Path, ...]:
    """Writes an OPPROF_... folder.

    Returns:
        The folder, and the files in it.

    Raises:
        InputError: If the run recorded no instructions, or something cannot be written.
    """
    if not capture.run.trace.instructions:
        raise InputError(
            'form "opprof"',
            "needs a run that recorded instructions",
            remedy="simulate with instructions=True, or on the command line with --instructions NODE",
        )
    top = make_folder(folder / f"OPPROF_{capture.long_stamp}_ASCENDSIM")
    simulator = make_folder(top / "simulator")
    by_core: dict[int, list[InstructionRecord]] = {}
    for record in sorted(capture.run.trace.instructions, key=lambda item: (item.start, item.end, item.task)):
        for core in record.cores:
            by_core.setdefault(core, []).append(record)
    written, whole = [], list[Event]()
    for core, records in sorted(by_core.items()):
        name = core_folder(capture.run.soc, core)
        place = make_folder(simulator / name)
        written += [
            write_table(_instructions(capture, records), place / f"{name}_instr_exe.csv"),
            write_table(_code(capture, records), place / f"{name}_code_exe.csv"),
            write_whole(place / "trace.json", _trace(1, _own_events(capture, records))),
        ]
        whole += _chip_events(capture, name, records)
    trace = _trace(2, whole)
    written += [
        write_whole(simulator / "trace.json", trace),
        write_whole(simulator / "visualize_data.bin", visualize_data(capture, trace)),
    ]
    return (top, *written)


def _trace(version: int, events: list[Event]) -> bytes:
    # Insight looks for profilingType in front of the first "["
    head = {"profilingType": "op", "schemaVersion": version, "displayTimeUnit": "ns", "traceEvents": events}
    return json.dumps(head, separators=(",", ":")).encode()


def _addresses(records: list[InstructionRecord]) -> dict[tuple[str, str], str]:
    keys = dict.fromkeys((record.pipe, record.name) for record in records)
    return {key: f"{4 * number:#x}" for number, key in enumerate(keys)}


def _instructions(capture: Capture, records: list[InstructionRecord]) -> Table:
    """One row an instruction of a core."""
    addresses = _addresses(records)
    groups: dict[tuple[str, str], list[InstructionRecord]] = {}
    for record in records:
        groups.setdefault((record.pipe, record.name), []).append(record)
    rows: list[Row] = []
    for (pipe, name), members in groups.items():
        moved = sum(record.bytes for record in members)
        detail = f"{name} bytes:{moved}" if moved else name
        what = (name.split(" ")[0], addresses[pipe, name], LANES[pipe][0], len(members))
        rows.append((*what, *_spent(capture, members), detail))
    columns = ("instr", "addr", "pipe", "call_count", "cycles", "running_time(us)", "detail")
    return Table("instr_exe", columns, tuple(rows))


def _code(capture: Capture, records: list[InstructionRecord]) -> Table:
    """One row an operator."""
    names = {view.id: view.name for view in capture.run.tasks}
    groups: dict[str, list[InstructionRecord]] = {}
    for record in records:
        groups.setdefault(names[record.task], []).append(record)
    rows = tuple([(name, len(members), *_spent(capture, members)) for name, members in groups.items()])
    return Table("code_exe", ("code", "call_count", "cycles", "running_time(us)"), rows)


def _spent(capture: Capture, records: list[InstructionRecord]) -> tuple[int, float]:
    """Cycles and microseconds of some instructions, added up."""
    run = capture.run
    ticks = sum(record.end - record.start for record in records)
    return run.cycles(ticks), run.us(ticks)


def _own_events(capture: Capture, records: list[InstructionRecord]) -> list[Event]:
    """A core by itself: a process a pipe, a thread a lane."""
    events: list[Event] = []
    for pipe, members, lanes in _by_pipe(capture, records):
        name, pid, _ = LANES[pipe]
        events.append({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}})
        events.append(
            {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
        )
        for lane in range(max(lanes) + 1):
            title = {"name": f"{name}_{lane + 1}"}
            events.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": lane, "args": title})
        places = [(pid, lane) for lane in lanes]
        events += _slices(capture, records, members, places)
    return events


def _chip_events(capture: Capture, core: str, records: list[InstructionRecord]) -> list[Event]:
    """A core among all: its process and threads bear their names in place of numbers."""
    events: list[Event] = []
    for pipe, members, lanes in _by_pipe(capture, records):
        name = LANES[pipe][0]
        places = [(core, name + (f"_{lane + 1}" if lane else "")) for lane in lanes]
        events += _slices(capture, records, members, places)
    return events


def _by_pipe(
    capture: Capture, records: list[InstructionRecord]
) -> list[tuple[str, list[InstructionRecord], list[int]]]:
    """Instructions of each pipe, with their lanes."""
    found = []
    for pipe in LANES:
        members = [record for record in records if record.pipe == pipe]
        if members:
            spans = [(capture.run.ns(record.start), capture.run.ns(record.end)) for record in members]
            found.append((pipe, members, sub_lanes(spans)))
    return found


def _slices(
    capture: Capture,
    records: list[InstructionRecord],
    members: list[InstructionRecord],
    places: Sequence[tuple[int | str, int | str]],
) -> list[Event]:
    run, addresses = capture.run, _addresses(records)
    names = {view.id: view.name for view in run.tasks}
    events = []
    for record, (pid, tid) in zip(members, places, strict=True):
        start, end = run.ns(record.start), run.ns(record.end)
        args = {
            "pc_addr": addresses[record.pipe, record.name],
            "code": readable(names[record.task]),
            "detail": readable(record.name),
            "process_bytes": str(record.bytes),
        }
        events.append(
            {
                "name": readable(record.name.split(" ")[0]),
                "ph": "X",
                "pid": pid,
                "tid": tid,
                "ts": start / 1000,
                "dur": (end - start) / 1000,
                "cname": LANES[record.pipe][2],
                "args": args,
            }
        )
    return events
