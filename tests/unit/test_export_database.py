"""Databases of an export: what stands in them, equal bytes, names and times that are hard to write."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from ascendsim.core.errors import InputError
from ascendsim.profiling import op_summary
from ascendsim.profiling.export import Capture, database, schema
from tests.support.exported import (
    communicating,
    empty_run,
    host_launched,
    planned,
    renamed,
    rows,
    slower,
)
from tests.support.synthetic_run import synthetic_run

BASE = 1_767_225_600_000_000_000  # 2026-01-01 in ns


def dump(content: bytes) -> str:
    with closing(sqlite3.connect(":memory:")) as base:
        base.deserialize(content)
        return "\n".join(base.iterdump()) + "\n"


@pytest.mark.parametrize("split", [False, True], ids=["coupled", "split"])
def test_whole_database_of_six_tasks(golden, split):
    run = planned(synthetic_run(6, split=split, streams=1))
    name = "split" if split else "coupled"
    golden(f"export/torch_{name}.sql", dump(database.torch_database(Capture(run))))


def test_every_database_is_whole_and_has_the_same_pages_each_time():
    for write in (database.msprof_database, database.torch_database, database.analysis_database):
        first, second = (write(Capture(planned(synthetic_run(30)))) for _ in range(2))
        assert first == second
        assert rows(first, "pragma integrity_check") == [("ok",)]
        assert rows(first, "pragma page_size") == [(4096,)]


def test_tables_and_columns_of_msprof():
    content = database.msprof_database(Capture(synthetic_run(6)))
    tables = [name for (name,) in rows(content, "select name from sqlite_master where type = 'table'")]
    assert tables == list(schema.MSPROF)
    assert "PYTORCH_API" not in tables
    for table in tables:
        found = [(name, kind) for _, name, kind, *_ in rows(content, f"pragma table_info({table})")]
        assert found == [(name, kind.removesuffix(" PRIMARY KEY")) for name, kind in schema.MSPROF[table]]


def test_times_are_those_of_the_run_to_the_nanosecond():
    run = synthetic_run(12)
    content = database.msprof_database(Capture(run))
    found = rows(content, "select startNs, endNs, streamId, taskId from TASK")
    assert found[0] == (BASE + 1500, BASE + run.ns(run.tasks[0].record.end), 0, 0)
    for (start, end, stream, task), view in zip(found, run.tasks, strict=True):
        assert (stream, task) == (view.record.stream, view.id)
        assert end - start == pytest.approx(1000 * run.us(view.duration), abs=1)
    assert rows(content, "select min(connectionId) from TASK") == [(1,)]  # readers take 0 for none


def test_counters_agree_with_op_summary():
    run = synthetic_run(12, split=True)
    content = database.msprof_database(Capture(run))
    query = "select p.value from TASK_PMU_INFO p join STRING_IDS s on s.id = p.name where s.value = '{}'"
    table = op_summary(run)
    for column, name, scale in (
        ("aicore_time(us)", "aic_total_time", 1000),
        ("aic_mac_ratio", "aic_mac_ratio", 1),
        ("aic_mac_time(us)", "aic_mac_time", 1000),
        ("aiv_vec_time(us)", "aiv_vec_time", 1000),
        ("aiv_total_cycles", "aiv_total_cycles", 1),
    ):
        expected = [cell * scale for cell in table.column(column) if cell]
        found = [value for (value,) in rows(content, query.format(name))]
        assert found, name
        assert [value for value in found if value] == pytest.approx(expected, abs=0.51 if scale > 1 else 1e-9)


def test_overlap_covers_the_run_once():
    run = communicating(synthetic_run(20), 2)
    capture = Capture(run)
    computing, communication, alone, free = capture.overlap_ns
    whole = run.ns(run.trace.end)
    assert computing + alone + free == whole
    assert 0 < alone < communication
    content = database.msprof_database(capture)
    kinds = rows(content, "select type, sum(endNs - startNs) from OVERLAP_ANALYSIS group by type")
    assert dict(kinds) == dict(enumerate([computing, communication, alone, free]))
    collective = rows(content, "select opId, endNs - startNs from COMMUNICATION_OP")
    assert collective == [(2, communication)]
    assert rows(content, "select count(*) from COMPUTE_TASK_INFO where globalTaskId = 2") == [(0,)]
    step = rows(database.analysis_database(capture), "select computing, free, stage from StepTraceTime")
    assert step == [(computing / 1000, free / 1000, whole / 1000)]


def test_host_launches_are_the_calls_and_nobody_invents_others():
    run = host_launched(synthetic_run(6, streams=1))
    calls = rows(database.msprof_database(Capture(run)), "select startNs, connectionId from CANN_API")
    assert calls == [(BASE + run.ns(view.record.launch_start), view.id + 1) for view in run.tasks]
    sink = synthetic_run(6, streams=1)
    calls = rows(database.msprof_database(Capture(sink)), "select startNs, endNs from CANN_API")
    assert calls == [Capture(sink).span(view) for view in sink.tasks]


def test_memory_over_time():
    run = planned(synthetic_run(6, streams=1))
    content = database.torch_database(Capture(run))
    start = {view.id: BASE + run.ns(view.record.start) for view in run.tasks}
    end = {view.id: BASE + run.ns(view.record.end) for view in run.tasks}
    levels = rows(content, "select timestamp, totalAllocated, totalReserved from MEMORY_RECORD")
    assert levels == [
        (BASE, 0, 7168),
        (start[0], 1024, 7168),
        (start[2], 5120, 7168),
        (end[2], 4096, 7168),
        (end[4], 0, 7168),
    ]
    tensors = rows(content, "select size, allocationTime, releaseTime from OP_MEMORY")
    assert tensors == [(1024, start[0], end[2]), (4096, start[2], end[4])]


@pytest.mark.parametrize(
    "name",
    [
        "x" * 10_000,
        'it\'s "quoted"',
        "a,b;c",
        "nul\0inside",
        "lone \ud800 surrogate",
        "two\nlines",
        "名前 🙂",
    ],
)
def test_names_of_all_kinds(name):
    content = database.torch_database(Capture(renamed(synthetic_run(3), 1, name)))
    (found,) = rows(
        content,
        "select s.value from COMPUTE_TASK_INFO c join STRING_IDS s on s.id = c.name where globalTaskId = 1",
    )
    readable = name.replace("\0", "\ufffd").replace("\ud800", "\ufffd").replace("\n", "\ufffd")
    assert found == (readable,)


def test_an_empty_program():
    content = database.torch_database(Capture(empty_run()))
    assert rows(content, "select count(*) from TASK") == [(0,)]
    assert rows(content, "select startTimeNs, endTimeNs from SESSION_TIME_INFO") == [(BASE, BASE)]
    # a reader takes the largest of this column and divides it
    assert rows(content, "select max(totalReserved) from MEMORY_RECORD") == [(0,)]


def test_times_that_no_float_holds():
    run = slower(synthetic_run(12), 10**11)
    assert run.ns(run.trace.end) > 2**53
    content = database.msprof_database(Capture(run))
    assert rows(content, "select max(endNs) from TASK") == [(BASE + run.ns(run.trace.end),)]


def test_times_that_no_database_holds():
    with pytest.raises(InputError, match=r"2\^63"):
        database.msprof_database(Capture(slower(synthetic_run(12), 10**16)))


def test_a_number_that_no_database_holds():
    run = synthetic_run(3)
    huge = replace(run, program=replace(run.program, tasks=(replace(run.program.tasks[0], id=2**63),)))
    records = (replace(run.trace.tasks[0], task=2**63),)
    with pytest.raises(InputError, match="no database holds"):
        database.msprof_database(Capture(replace(huge, trace=replace(run.trace, tasks=records))))
