"""Where a profile's timeline puts graphs, operators of the host, breaks and steps; needs no PyTorch."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.frontends.torch.eager import HostCall
from ascendsim.frontends.torch.notes import Break, CallNote
from ascendsim.profiling import chrome_trace
from ascendsim.torch import profile_tables
from ascendsim.torch.fx_summary import fx_summary
from ascendsim.torch.profile_trace import profile_trace
from ascendsim.torch.recording import Run, StepEnd
from ascendsim.torch.timeline import timeline_of

LAUNCH, EAGER = 20_000, 90_000  # ns, set below


def run(kind, schedule="sink", soc="Ascend910A", size=64):
    builder = asim.GraphBuilder()
    x = builder.input("x", (size, size), "float16")
    builder.output(builder.op("Relu", builder.op("MatMul", x, x)), "y")
    changes = {"launch.host_launch_us": 20, "launch.eager_launch_us": 90}
    model = asim.compile(builder.build(), soc, set=changes, schedule=schedule)
    return Run(kind, asim.simulate(model))


@pytest.fixture(scope="module")
def forward():
    return run("forward")


@pytest.fixture(scope="module")
def large():
    return run("backward", size=2048)


def ns(one):
    return one.result.profile.ns(one.result.trace.end)


def test_graphs_are_launched_one_after_the_other_while_the_device_works(forward, large):
    assert ns(large) > 2 * LAUNCH
    found = timeline_of([forward, large, forward, StepEnd(0)])
    assert [(span.start, span.end) for span in found.host] == [
        (0, LAUNCH),
        (LAUNCH, 2 * LAUNCH),
        (2 * LAUNCH, 3 * LAUNCH),
    ]
    starts = [graph.start for graph in found.graphs]
    assert starts == [LAUNCH, 2 * LAUNCH, 2 * LAUNCH + ns(large)]  # the last one waits for the device
    assert (found.steps[0].start, found.steps[0].end) == (0, 2 * LAUNCH + ns(large) + ns(forward))


def test_operators_of_the_host_delay_what_comes_behind_them_and_reads_wait(forward, large):
    events = [large, HostCall("aten::add_", "eager"), HostCall("aten::item", "read"), forward, StepEnd(4)]
    found = timeline_of(events)
    kinds = [(span.kind, span.end - span.start) for span in found.host]
    waited = ns(large) - EAGER
    assert kinds == [
        ("launch", LAUNCH),
        ("eager", EAGER),
        ("wait", waited),
        ("read", EAGER),
        ("launch", LAUNCH),
    ]
    assert found.graphs[1].start == LAUNCH + ns(large) + EAGER + LAUNCH
    row = profile_tables.step_times(found).records()[0]
    assert row["Step"] == 4
    assert row["Host(us)"] == (2 * LAUNCH + 2 * EAGER) / 1000  # waiting is no work
    assert row["Time(us)"] == (found.graphs[1].end) / 1000
    assert row["Device Free(us)"] == (2 * LAUNCH + EAGER) / 1000
    assert (row["Forward(us)"], row["Backward(us)"]) == (ns(forward) / 1000, ns(large) / 1000)


def test_a_graph_that_the_host_launches_task_by_task_keeps_it_busy():
    hosted = run("forward", schedule="host")
    last = max(record.launch_end for record in hosted.result.trace.tasks)
    found = timeline_of([hosted, hosted, StepEnd(0)])
    busy = hosted.result.profile.ns(last)
    assert busy > LAUNCH
    assert found.host[0].end == busy
    assert found.graphs[1].start == ns(hosted)


def test_steps_end_when_the_device_has_done_their_work(forward, large):
    alone = timeline_of([large, StepEnd(0)]).end
    found = timeline_of([large, StepEnd(0), forward, Break("why", "where"), StepEnd(1)])
    assert found.steps[1].start == found.steps[0].end == alone
    # the launch of the second step's graph began while the device was at work
    assert found.graphs[1].start == max(alone, 2 * LAUNCH)
    assert profile_tables.step_times(found)["Graph Breaks"] == (0, 1)
    assert profile_tables.graph_breaks(found).rows == ((1, 2 * LAUNCH / 1000, "why", "where"),)


def test_graphs_of_two_chips_have_no_common_timeline(forward):
    with pytest.raises(InputError, match="must be of one chip .* not Ascend310P3, Ascend910A"):
        timeline_of([forward, run("forward", soc="Ascend310P3")])


def test_tasks_of_later_calls_start_later(forward, large):
    late = [HostCall("aten::add_", "eager")] * 20  # the device has to wait for the host
    found = timeline_of([forward, large, StepEnd(0), *late, forward, StepEnd(1)])
    table = profile_tables.op_summary(found)
    single = forward.result.op_summary()
    count = len(single)
    assert len(table) == 2 * count + len(large.result.op_summary())
    assert table["Step Id"] == (0,) * (len(table) - count) + (1,) * count
    assert table["Model ID"][-1] == table["Model ID"][0] == 1 != table["Model ID"][count]
    starts = table["Task Start Time(us)"]
    assert starts[0] == pytest.approx(LAUNCH / 1000 + single["Task Start Time(us)"][0])
    shift = (found.graphs[2].start - found.graphs[0].start) / 1000
    assert starts[-1] - starts[count - 1] == pytest.approx(shift)
    gap = found.graphs[2].start - found.graphs[1].end
    assert gap > EAGER
    waits = table["Task Wait Time(us)"]
    assert waits[-count] == pytest.approx(gap / 1000 + single["Task Start Time(us)"][0])
    assert waits[1 - count] == single["Task Wait Time(us)"][1]
    details = profile_tables.kernel_details(found)
    assert details["Start Time(us)"] == starts
    assert details.styles["Start Time(us)"] == table.styles["Task Start Time(us)"]


def test_averages_add_calls_of_host_and_device(forward):
    calls = [HostCall("aten::add_", "eager", ((2, 3),)), HostCall("aten::add_", "eager", ((4,),))]
    found = timeline_of([forward, *calls, forward, StepEnd(0)])
    plain = profile_tables.key_averages(found, by_shape=False).averages
    row = plain.filter(Name="aten::add_").records()[0]
    assert (row["Self CPU(us)"], row["# of Calls"], row["Self NPU(us)"]) == (2 * EAGER / 1000, 2, 0)
    statistic = {row[1]: (row[3], row[4]) for row in forward.result.op_statistic()}
    for name, (count, total) in statistic.items():
        row = plain.filter(Name=name).records()[0]
        assert row["# of Calls"] == 2 * count
        assert row["Self NPU(us)"] == pytest.approx(2 * total)
    assert sum(plain["Self NPU(%)"]) == pytest.approx(100)
    shaped = profile_tables.key_averages(found, by_shape=True)
    assert {row[-1] for row in shaped.averages.filter(Name="aten::add_")} == {"2x3", "4"}
    lines = shaped.table(sort_by="count", row_limit=1).splitlines()
    assert len(lines) == 4  # title, columns, rule, one row
    with pytest.raises(InputError, match="argument sort_by is not known, not 'cpu_time'; did you mean"):
        shaped.table(sort_by="cpu_time")


def test_a_summary_of_captured_calls_says_what_became_of_them():
    notes = [
        CallNote("aten.add.Tensor", "float32[2]", "float32[2]", ("Mul", "Add")),
        CallNote("aten.add.Tensor", "float32[3]", "float32[2]", ("Add",)),
        CallNote("aten.add.Tensor", "float32[2]", "float32[2]", ("Add",)),
        CallNote("aten.t.default", "float32[2]", "float32[2]", ()),
    ]
    missing = [CallNote("prims.rare.default", "float32[2]", "float32[]", None)]
    assert fx_summary([notes, missing]).rows == (
        (
            "aten.add.Tensor",
            "aten",
            "supported",
            3,
            "2 x Add; 1 x Mul + Add",
            "2 x float32[2]; 1 x float32[3]",
            "float32[2]",
        ),
        ("aten.t.default", "aten", "supported", 1, "no task", "float32[2]", "float32[2]"),
        ("prims.rare.default", "prims", "runs in PyTorch", 1, "PyTorch", "float32[2]", "float32[]"),
    )


def test_arrows_and_lanes_of_several_calls_do_not_mix():
    builder = asim.GraphBuilder()
    x = builder.input("x", (64, 64), "float16")
    branches = [builder.op("Relu", builder.op("MatMul", x, x)) for _ in range(2)]
    builder.output(builder.op("Add", *branches), "y")
    model = asim.compile(builder.build(), "Ascend910A", multi_stream_parallel_mode="LoadBalance:2")
    wide = Run("forward", asim.simulate(model))
    own = [event for event in chrome_trace(wide.result.profile)["traceEvents"] if event["ph"] == "s"]
    assert own  # streams wait for each other
    events = profile_trace(timeline_of([wide, wide, StepEnd(0)]))["traceEvents"]
    ends = {ph: sorted(event["id"] for event in events if event["ph"] == ph) for ph in "sf"}
    assert ends["s"] == ends["f"]
    assert len({*ends["s"]}) == len(ends["s"]) == 2 * (1 + len(own))
    names = [(event["name"], event["pid"], event["tid"]) for event in events if event["ph"] == "M"]
    assert len({*names}) == len(names)
