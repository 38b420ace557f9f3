"""op_summary, op_statistic, task_time, AI Core metrics and the join of records, tasks and nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, SimulationError
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import Block, BlockGroup, CoreKind, MemoryPlan, Program, Task, TaskKind
from ascendsim.profiling import ProfiledRun, ai_core_metrics, op_statistic, op_summary, select, task_time
from ascendsim.profiling.view import TaskView
from ascendsim.trace.records import TaskRecord, Trace
from tests.support.synthetic_run import CORE_TICKS, NAMES, TICK, synthetic_run, tiny_soc

# Headers of real exports: Ascend/msprof@9ba1ac7 op_summary_assembler.cpp with the column masks of each chip.
HEADER_COUPLED = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task "
    "Duration(us),Task Wait Time(us),"
    "Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data "
    "Types,Output Formats,"
    "aicore_time(us),total_cycles,vec_time(us),vec_ratio,mac_time(us),mac_ratio,scalar_time(us),"
    "scalar_ratio,mte1_time(us),mte1_ratio,mte2_time(us),mte2_ratio,mte3_time(us),"
    "mte3_ratio,icache_miss_rate,memory_bound,cube_utilization(%)"
)
HEADER_SPLIT = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),Task "
    "Duration(us),"
    "Task Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,Input Data Types,Input "
    "Formats,Output Shapes,"
    "Output Data Types,Output Formats,Context "
    "ID,aicore_time(us),aic_total_cycles,aic_mac_time(us),aic_mac_ratio,"
    "aic_scalar_time(us),aic_scalar_ratio,aic_mte1_time(us),aic_mte1_ratio,aic_mte2_time(us),aic_mte2_ratio,aic_fixpipe_time(us),"
    "aic_fixpipe_ratio,aic_icache_miss_rate,aiv_time(us),aiv_total_cycles,aiv_vec_time(us),aiv_vec_ratio,aiv_scalar_time(us),"
    "aiv_scalar_ratio,aiv_mte2_time(us),aiv_mte2_ratio,aiv_mte3_time(us),aiv_mte3_ratio,aiv_icache_miss_rate,cube_utilization(%)"
)


@pytest.mark.parametrize(("split", "header"), [(False, HEADER_COUPLED), (True, HEADER_SPLIT)])
def test_op_summary_has_the_complete_header_of_the_generation(split, header):
    table = op_summary(synthetic_run(12, split=split))
    assert table.to_csv().splitlines()[0] == header
    assert len(table) == 12


@pytest.mark.parametrize(
    ("split", "name"), [(False, "profiling/op_summary_coupled.csv"), (True, "profiling/op_summary_split.csv")]
)
def test_op_summary_text(split, name, golden):
    golden(name, op_summary(synthetic_run(12, split=split)).to_csv())


def one_task_run(**changes) -> ProfiledRun:
    """One matrix product of 3 blocks in 2 rounds on 2 cores at 680 MHz; a tick is a tenth of a cycle."""
    graph = Graph("one")
    a = graph.add_input("a", DType.FLOAT16, (4, 8))
    node = graph.add_node("MatMul", [a, a], name="product")
    node.output.dtype, node.output.shape = DType.FLOAT16, (4, 8)
    record = TaskRecord(
        task=7,
        name="product",
        kind="AI_CORE",
        stream=0,
        ready=0,
        start=6_800,
        end=20_400,
        blocks=3,
        rounds=2,
        cores=2,
        busy={"M": 5_100, "MTE2": 10_200, "V": 1_020},
        block_ticks=20_400,
    )
    task = Task(7, "product", TaskKind.AI_CORE)
    trace = Trace(TICK, CORE_TICKS, (replace(record, **changes),), end=20_400)
    return ProfiledRun(graph, Program((task,), MemoryPlan({}, 0, 0)), trace, tiny_soc(), NAMES)


def test_pmu_formulas_by_hand():
    row = op_summary(one_task_run()).records()[0]
    assert row["Task Start Time(us)"] == pytest.approx(1.0)
    assert row["Task Duration(us)"] == pytest.approx(2.0)
    assert row["total_cycles"] == 2040
    assert row["aicore_time(us)"] == pytest.approx(3.0 / 3 * 2)  # 20,400 ticks = 3 us; / blocks * rounds
    assert (row["mac_ratio"], row["mte2_ratio"], row["vec_ratio"]) == (0.25, 0.5, 0.05)
    assert row["mac_time(us)"] == pytest.approx(0.75 / 3 * 2)
    assert row["memory_bound"] == pytest.approx(2.0)  # mte2_ratio / max(mac_ratio, vec_ratio)
    assert row["cube_utilization(%)"] == pytest.approx(100 * 2040 / (680 * 2 * 2.0))
    assert (row["Input Shapes"], row["Input Data Types"], row["icache_miss_rate"]) == (
        "4,8;4,8",
        "FLOAT16;FLOAT16",
        None,
    )


def test_memory_bound_is_missing_without_compute():
    assert op_summary(one_task_run(busy={"MTE2": 100})).column("memory_bound") == (None,)


def test_ai_cpu_rows_have_no_core_figures():
    for split in (False, True):
        table = op_summary(synthetic_run(12, split=split))
        row = table.filter(**{"Task Type": "AI_CPU"}).records()[0]
        first = table.columns.index("aicore_time(us)")
        assert all(row[column] is None for column in table.columns[first:])


def test_wait_is_the_gap_to_the_task_before_and_never_negative():
    waits = op_summary(synthetic_run(30, streams=1)).column("Task Wait Time(us)")
    assert waits[0] == 0.0
    assert all(wait == pytest.approx(1.5, abs=1e-3) for wait in waits[1:])
    assert min(op_summary(synthetic_run(30, streams=2)).column("Task Wait Time(us)")) == 0.0


def test_split_chips_fill_the_columns_of_the_core_kind_that_ran():
    rows = op_summary(synthetic_run(12, split=True)).records()
    conv = next(row for row in rows if row["OP Type"] == "Conv2D")
    relu = next(row for row in rows if row["OP Type"] == "Relu")
    assert conv["aic_total_cycles"] > 0
    assert conv["aic_fixpipe_ratio"] > 0
    assert conv["aiv_total_cycles"] == 0
    assert relu["aiv_vec_ratio"] == pytest.approx(0.3, abs=1e-3)
    assert relu["aic_total_cycles"] == 0


def test_cube_and_vector_cores_of_one_task_have_figures_of_their_own():
    """20 cube and 40 vector cores, by hand; one clock, a tick is a tenth of a cycle."""
    run = one_task_run(
        blocks=60,
        rounds=1,
        busy={"M": 68_000, "MTE2": 340_000, "V": 136_000, "S": 0},
        block_ticks=20 * 13_600 + 40 * 10_200,
        vector_busy={"V": 136_000, "MTE2": 204_000},
        vector_ticks=40 * 10_200,
    )
    groups = tuple(
        BlockGroup(Block((), core=core), count)
        for core, count in ((CoreKind.CUBE, 20), (CoreKind.VECTOR, 40))
    )
    task = replace(run.program.tasks[0], kind=TaskKind.MIX_AIC, groups=groups)
    soc = replace(run.soc, split_cores=True, ai_cores=20, vector_cores=40)
    mixed = replace(run, program=replace(run.program, tasks=(task,)), soc=soc)
    (row,) = op_summary(mixed).records()
    cube = ("aicore_time(us)", "aic_total_cycles", "aic_mac_time(us)", "aic_mac_ratio", "aic_mte2_ratio")
    vector = ("aiv_time(us)", "aiv_total_cycles", "aiv_vec_time(us)", "aiv_vec_ratio", "aiv_mte2_ratio")
    assert [row[name] for name in cube] == pytest.approx([2.0, 27_200, 0.5, 0.25, 0.5])
    assert [row[name] for name in vector] == pytest.approx([1.5, 40_800, 0.5, 1 / 3, 0.5])
    assert row["cube_utilization(%)"] == pytest.approx(100)  # all cube cores for the whole task
    assert mixed.tasks[0].ratio("V") == pytest.approx(1 / 3)  # of the cores that have the unit


def test_statistic_adds_up_and_joins_to_the_metrics_table_by_task_id():
    run = synthetic_run(36)
    table = op_statistic(run, task_ids=True)
    assert table.columns[0] == "Model Name"
    assert sum(table.column("Count")) == 36
    assert sum(table.column("Ratio(%)")) == pytest.approx(100)
    assert sum(table.column("Total Time(us)")) == pytest.approx(
        sum(op_summary(run).column("Task Duration(us)"))
    )
    for row in table.records():
        assert row["Min Time(us)"] <= row["Avg Time(us)"] <= row["Max Time(us)"]
    on_core = set(ai_core_metrics(run).column("Task"))
    for row in table.records():
        ids = {int(number) for number in row["Task IDs"].split(";")}
        assert ids <= on_core if row["Core Type"] == "AI_CORE" else not ids & on_core
    assert sum(len(row["Task IDs"].split(";")) for row in table.records()) == 36


def test_statistic_has_msprof_columns_without_the_ids():
    assert op_statistic(synthetic_run(5, split=True)).columns == (
        "Device_id",
        "OP Type",
        "Core Type",
        "Count",
        "Total Time(us)",
        "Min Time(us)",
        "Avg Time(us)",
        "Max Time(us)",
        "Ratio(%)",
    )


def test_task_time_layouts():
    old = task_time(synthetic_run(8))
    assert old.to_csv().splitlines()[0] == (
        "Time(%),Time(us),Count,Avg(us),Min(us),Max(us),Waiting(us),"
        "Running(us),Pending(us),Type,API,Task ID,Op Name,Stream ID"
    )
    assert sum(old.column("Time(%)")) == pytest.approx(100)
    assert all(waiting == pytest.approx(1.5) for waiting in old.column("Waiting(us)"))
    new = task_time(synthetic_run(8, split=True))
    assert (
        new.to_csv().splitlines()[0]
        == "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)"
    )
    assert set(new.column("kernel_type")) == {"KERNEL_AICORE", "KERNEL_AIVEC"}
    for row in new.records():
        assert row["task_stop(us)"] - row["task_start(us)"] == pytest.approx(row["task_time(us)"])
    assert new.to_csv().splitlines()[1].count("\t") == 2


def test_an_empty_run_gives_empty_tables():
    run = synthetic_run(0)
    assert [len(table(run)) for table in (op_summary, op_statistic, task_time, ai_core_metrics)] == [
        0,
        0,
        0,
        0,
    ]


def test_record_without_task_is_an_error():
    run = synthetic_run(3)
    stranger = replace(run.trace, tasks=(*run.trace.tasks, replace(run.trace.tasks[0], task=99)))
    with pytest.raises(SimulationError, match="record of task 99 has no task in the program"):
        _ = replace(run, trace=stranger).tasks


def test_fused_task_joins_several_nodes_and_shows_outer_tensors_only():
    run = synthetic_run(4)
    names = [node.name for node in run.graph.nodes]
    fused = Task(0, "+".join(names[:3]), TaskKind.AI_CORE, fused=tuple(names[:3]))
    record = next(record for record in run.trace.tasks if record.task == 0)
    view = replace(
        run, program=replace(run.program, tasks=(fused,)), trace=replace(run.trace, tasks=(record,))
    ).tasks[0]
    assert isinstance(view, TaskView)
    assert [node.name for node in view.nodes] == names[:3]
    assert view.op_type == "Conv2D"
    assert [tensor.name for tensor in view.inputs()] == ["input", "weight"]
    assert [tensor.producer.name for tensor in view.outputs()] == [names[2]]


def test_select_by_name_pattern_type_and_window():
    run = synthetic_run(24)
    assert [view.name for view in select(run, operators="/layer0/conv_0")] == ["/layer0/conv_0"]
    assert {view.op_type for view in select(run, operators=["Conv2D", "Softmax"])} == {"Conv2D", "SoftmaxV2"}
    assert all(view.name.startswith("/layer1/") for view in select(run, operators="/layer1/*"))
    early = select(run, window=(0, 100))
    assert early
    assert all(run.us(view.record.start) <= 100 for view in early)
    with pytest.raises(
        InputError, match=r"operator 'Conv2' matches no task of the run; did you mean Conv2D\?"
    ):
        select(run, operators="Conv2")
    with pytest.raises(InputError, match="must have its start before its end"):
        select(run, window=(5, 5))
    with pytest.raises(InputError, match=r"must be \(start_us, end_us\)"):
        select(run, window=(1, 2, 3))  # type: ignore[arg-type]
