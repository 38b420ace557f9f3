"""Files of an export: layout, contents that readers need, equal bytes, and what cannot be exported."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections import defaultdict

import pytest

from ascendsim.core.errors import InputError
from ascendsim.profiling.export import FORMS, Capture, export_run, msprof_timeline, write_prof_folder
from ascendsim.profiling.export.kineto import kineto_trace
from ascendsim.profiling.export.opprof import core_folder
from tests.support.exported import communicating, empty_run, host_launched, planned, renamed, slower
from tests.support.synthetic_run import synthetic_run, tiny_soc

EPOCH_US = 1_767_225_600_000_000


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def named(written, pattern):
    (path,) = [path for path in written.files if re.fullmatch(pattern, path.name)]
    return path


def bars(events, pid=None):
    return [event for event in events if event["ph"] == "X" and pid in (None, event["pid"])]


@pytest.mark.parametrize("split", [False, True], ids=["coupled", "split"])
def test_prof_folder_has_the_layout_that_tools_look_for(tmp_path, split):
    run = synthetic_run(12, split=split)
    folder, *files = write_prof_folder(Capture(run), tmp_path)
    assert re.fullmatch(r"PROF_\d{6}_\d{17}_\w+", folder.name)
    assert (folder / "host").is_dir()
    names = sorted(path.name for path in (folder / "mindstudio_profiler_output").iterdir())
    stems = ["api_statistic", "fusion_op", "msprof", "op_statistic", "op_summary", "step_trace", "task_time"]
    assert [re.fullmatch(r"(\w+)_\d{14}\.(csv|json)", name)[1] for name in names] == stems
    assert re.fullmatch(r"msprof_\d{14}\.db", files[-1].name)
    assert files[-1].parent == folder
    info = json.loads((folder / "device_0" / "info.json.0").read_text())
    device = {"id": 0, "ai_core_num": 2, "aiv_num": 4 if split else 0, "aic_frequency": "680"}
    assert info == {"DeviceInfo": [device], "rank_id": 0, "hostUid": "ascendsim"}
    rows = table(next((folder / "mindstudio_profiler_output").glob("op_summary*")))
    assert len(rows) == 12
    assert rows[0]["Task Start Time(us)"] == f"{EPOCH_US + 1}.500\t"


def test_framework_folder(tmp_path):
    run = planned(host_launched(communicating(synthetic_run(12), 2)))
    written = export_run(run, tmp_path, ("ascend_pt",))
    (top,) = written
    assert re.fullmatch(r"synthetic_\d{17}_ascend_pt", top.name)
    output = top / "ASCEND_PROFILER_OUTPUT"
    assert sorted(path.name for path in output.iterdir()) == [
        "analysis.db",
        "api_statistic.csv",
        "ascend_pytorch_profiler_0.db",
        "kernel_details.csv",
        "memory_record.csv",
        "op_statistic.csv",
        "operator_memory.csv",
        "step_trace_time.csv",
        "trace_view.json",
    ]
    assert next(top.glob("PROF_*/msprof_*.db")).is_file()
    kernels = table(output / "kernel_details.csv")
    assert list(kernels[0])[:2] == ["Step Id", "Device_id"]
    assert {"Name", "Type", "Accelerator Core", "Start Time(us)", "Duration(us)"} <= set(kernels[0])
    assert [row["Name"] for row in kernels] == [view.name for view in run.tasks]
    (step,) = table(output / "step_trace_time.csv")
    alone, both = float(step["Communication(Not Overlapped)"]), float(step["Communication"])
    assert float(step["Overlapped"]) == pytest.approx(both - alone, abs=1e-3)
    total = float(step["Computing"]) + alone + float(step["Free"])
    assert total == pytest.approx(run.trace.duration_us, abs=2e-3)
    (calls,) = table(output / "api_statistic.csv")
    assert (calls["API Name"], calls["Count"]) == ("launch", "12")
    taken = [float(row["Total Allocated(MB)"]) for row in table(output / "memory_record.csv")]
    assert (len(taken), max(taken)) == (5, pytest.approx(5120 / 2**20, abs=1e-3))
    sizes = [float(row["Size(KB)"]) for row in table(output / "operator_memory.csv")]
    assert sizes == [1.0, 4.0]


def test_equal_runs_give_equal_bytes(tmp_path):
    contents = []
    for place in ("a", "b"):
        run = planned(synthetic_run(12, instructions=True))
        written = export_run(run, tmp_path / place, tuple(FORMS))
        contents.append({path.relative_to(tmp_path / place): path.read_bytes() for path in written.files})
        assert written.bytes == sum(map(len, contents[-1].values()))
    assert contents[0] == contents[1]
    assert len(contents[0]) == len(written.files)
    everything = [path for path in (tmp_path / "b").rglob("*") if path.is_file()]
    assert sorted(everything) == sorted(written.files)  # nothing half written lies beside


def test_timeline_of_tasks():
    run = synthetic_run(12)
    events = [event for event in msprof_timeline(Capture(run)) if event["pid"] == (1 << 10) | (14 << 5)]
    tasks = bars(events)
    assert len(tasks) == 12
    assert tasks[0]["ts"] == f"{EPOCH_US + 1}.500"  # 2026-01-01 and 1.5 us, to the nanosecond
    assert set(tasks[0]["args"]) == {
        "Model Id",
        "Task Type",
        "Physic Stream Id",
        "Task Id",
        "Batch Id",
        "Subtask Id",
        "connection_id",
    }


def test_timeline_of_what_the_device_did():
    run = communicating(synthetic_run(20), 2)
    pid = (1 << 10) | (17 << 5)
    events = [event for event in msprof_timeline(Capture(run)) if event["pid"] == pid]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == dict(enumerate(["Computing", "Communication", "Communication(Not Overlapped)", "Free"]))
    spent = defaultdict(float)
    for event in bars(events):
        spent[event["name"]] += event["dur"]
    parts = [spent[name] for name in ("Computing", "Communication(Not Overlapped)", "Free")]
    assert sum(parts) == pytest.approx(run.trace.duration_us, abs=1e-3)


def test_timeline_of_launches_and_bytes():
    run = host_launched(synthetic_run(12))
    events = msprof_timeline(Capture(run))
    host = (1 << 10) | (7 << 5) | 31
    assert len(bars(events, host)) == 12
    arrows = defaultdict(dict)
    for event in events:
        if event.get("cat") == "HostToDevice":
            arrows[event["id"]][event["ph"]] = event
    starts = {event["args"]["connection_id"]: event["ts"] for event in bars(events, (1 << 10) | (14 << 5))}
    assert len(arrows) == 12
    for number, ends in arrows.items():
        assert ends["f"]["ts"] == starts[int(number)]
        assert float(ends["s"]["ts"]) < float(ends["f"]["ts"])
    counters = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            counters[event["name"]].append(next(iter(event["args"].values())))
    assert set(counters) == {"DDR 0/Read", "DDR 0/Write", "L2 0/Read"}  # nobody wrote to L2
    assert all(levels[-1] == 0 and max(levels) > 0 for levels in counters.values())
    assert not bars(msprof_timeline(Capture(synthetic_run(12))), host)  # the device launched by itself


def test_bytes_over_time_are_those_of_the_tasks():
    run = synthetic_run(12, streams=1)
    read, last, level = 0.0, 0.0, 0.0
    for event in msprof_timeline(Capture(run)):
        if event["ph"] == "C" and event["name"] == "DDR 0/Read":
            now = float(event["ts"]) - EPOCH_US
            read, last, level = read + level * (now - last), now, event["args"]["Read(MB/s)"]
    assert read == pytest.approx(sum(view.record.read_bytes.get("ddr", 0) for view in run.tasks), rel=1e-3)


def test_kineto_joins_operator_launch_and_kernel():
    run = host_launched(synthetic_run(12, streams=3))
    trace = kineto_trace(Capture(run))
    kinds = defaultdict(dict)
    for event in bars(trace["traceEvents"]):
        if event["cat"] != "user_annotation":
            kinds[event["args"]["External id"]][event["cat"]] = event
    assert len(kinds) == 12
    for view in run.tasks:
        joined = kinds[view.id + 1]
        assert set(joined) == {"cpu_op", "cuda_runtime", "kernel"}
        assert joined["cuda_runtime"]["args"]["correlation"] == joined["kernel"]["args"]["correlation"]
        assert joined["kernel"]["ts"] * 1000 == pytest.approx(run.ns(view.record.start))
        assert joined["kernel"]["args"]["stream"] == view.record.stream
        assert joined["cpu_op"]["args"]["Input Dims"][0] == [4, 32, 28, 28]
        assert joined["cpu_op"]["args"]["Input type"][0] == "c10::Half"
    (step,) = [event for event in bars(trace["traceEvents"]) if event["name"] == "ProfilerStep#1"]
    assert step["dur"] * 1000 == pytest.approx(run.ns(run.trace.end))
    flows = [event["ph"] for event in trace["traceEvents"] if event.get("cat") == "ac2g"]
    assert sorted(flows) == ["f"] * 12 + ["s"] * 12


def test_opprof_has_every_instruction_of_every_core(tmp_path):
    run = synthetic_run(6, instructions=True)
    written = export_run(run, tmp_path, ("opprof",))
    simulator = written.paths[0] / "simulator"
    whole = (simulator / "trace.json").read_text()
    assert whole.index('"profilingType":"op"') < whole.index("[")
    chip = json.loads(whole)["traceEvents"]
    assert len(chip) == sum(len(record.cores) for record in run.trace.instructions)
    assert {event["pid"] for event in chip} == {"core0", "core1"}
    lanes = defaultdict(list)
    for event in chip:
        lanes[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert ("core0", "MTE2_2") in lanes  # two loads are under way at a time
    for spans in lanes.values():
        ordered = sorted(spans)
        assert all(first[1] <= second[0] + 1e-6 for first, second in itertools.pairwise(ordered))
    rows = table(simulator / "core1" / "core1_instr_exe.csv")
    assert sum(int(row["call_count"]) for row in rows) == len(run.trace.instructions)
    spent = sum(run.us(record.end - record.start) for record in run.trace.instructions)
    assert sum(float(row["running_time(us)"]) for row in rows) == pytest.approx(spent, abs=0.01)
    code = table(simulator / "core1" / "core1_code_exe.csv")
    assert sorted(row["code"] for row in code) == sorted(view.name for view in run.tasks)
    own = json.loads((simulator / "core0" / "trace.json").read_text())
    assert own["schemaVersion"] == 1
    assert {event["pid"] for event in bars(own["traceEvents"])} <= set(range(10, 130, 10))


def test_names_of_cores():
    split = tiny_soc(split=True)  # 2 cube cores, 4 vector cores
    names = ["core0.cubecore0", "core1.cubecore0", "core0.veccore0", "core0.veccore1", "core1.veccore0"]
    assert [core_folder(split, core) for core in range(5)] == names
    assert [core_folder(tiny_soc(), core) for core in range(2)] == ["core0", "core1"]


def test_names_of_all_kinds(tmp_path):
    hard = ["x" * 10_000, 'it\'s "quoted"', "a,b;c", "nul\0inside", "lone \ud800 surrogate", "two\nlines"]
    run = synthetic_run(6, instructions=True)
    for number, name in enumerate(hard):
        run = renamed(run, number, name)
    written = export_run(run, tmp_path, tuple(FORMS))
    readable = {re.sub("[\0\n\ud800]", "\ufffd", name) for name in hard}
    assert {row["Name"] for row in table(named(written, "kernel_details.csv"))} == readable
    assert {row["code"] for row in table(named(written, "core0_code_exe.csv"))} == readable
    timeline = json.loads(named(written, "trace_view.json").read_text())
    assert readable <= {event["name"] for event in timeline}
    for path in written.files:
        if path.suffix in (".csv", ".json"):
            path.read_text(encoding="utf-8")


def test_a_model_name_that_no_folder_can_have(tmp_path):
    run = synthetic_run(3)
    run.graph.name = "../../a b/\0" + "x" * 300
    (top,) = export_run(run, tmp_path, ("ascend_pt",))
    assert top.parent == tmp_path
    assert len(top.name) < 100


def test_an_empty_program(tmp_path):
    written = export_run(empty_run(), tmp_path, ("msprof", "ascend_pt", "kineto"))
    assert any(lack.startswith("tasks") for lack in written.lacking)
    assert table(named(written, "kernel_details.csv")) == []


def test_times_beyond_what_a_float_holds(tmp_path):
    run = slower(synthetic_run(3, streams=1), 10**12)
    written = export_run(run, tmp_path, ("ascend_pt",))
    assert run.ns(run.trace.end) > 2**53
    last = table(named(written, "kernel_details.csv"))[-1]["Start Time(us)"]
    ns = EPOCH_US * 1000 + run.ns(run.tasks[-1].record.start)
    assert last == f"{ns // 1000}.{ns % 1000:03d}\t"


def test_what_cannot_be_exported(tmp_path):
    run = synthetic_run(3)
    with pytest.raises(InputError, match="'msprov'.*msprof"):
        export_run(run, tmp_path, ("msprov",))
    with pytest.raises(InputError, match="recorded instructions.*instructions=True"):
        export_run(run, tmp_path, ("msprof", "opprof"))
    with pytest.raises(InputError, match="2\\^63"):
        export_run(slower(run, 10**16), tmp_path)
    assert list(tmp_path.iterdir()) == []  # refused before anything is written
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        export_run(run, tmp_path / "file")
