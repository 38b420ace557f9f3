"""asim.torch.profile round a training loop: what it records, when, and the files that it writes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.torch.schedule import always, schedule
from tests.support.gate import every
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from torch import nn  # noqa: E402

from tests.support.perfetto import ERRORS, query  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Talking(nn.Module):
    """Two layers with a graph break between them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        y = torch.relu(self.first(x))
        print("between the layers")
        return self.second(y)


X, TARGET = torch.linspace(-1, 1, 24).reshape(4, 6), torch.tensor([0, 1, 2, 0])


def trained(profiler, steps=4, module=None, optimizer=torch.optim.SGD):
    """Losses of some steps, model and optimizer compiled."""
    module = module or Talking()
    optimizer = optimizer(module.parameters(), lr=0.1)
    model = torch.compile(module, backend=asim.torch.backend)
    update = torch.compile(optimizer.step, backend=asim.torch.backend)
    losses = []
    with profiler:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(X), TARGET)
            loss.backward()
            update()
            losses.append(loss.item())
            profiler.step()
    return losses


def test_forward_backward_and_optimizer_are_on_one_timeline(tmp_path):
    saved = []
    profiler = asim.torch.profile(
        schedule=asim.torch.schedule(wait=1, warmup=1, active=2),
        record_shapes=True,
        on_trace_ready=lambda prof: saved.append(prof.cycles),
    )
    losses = trained(profiler)
    module, wanted = Talking(), []
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(module(X), TARGET)
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)  # the profiler changes no value
    assert saved == [1]
    times = profiler.step_times()
    assert times["Step"] == (2, 3)
    kinds = [graph.run.kind for graph in profiler.timeline.graphs]
    assert kinds == ["forward", "forward", "backward", "backward", "optimizer"] * 2
    runs = {id(graph.run): graph.run for graph in profiler.timeline.graphs}.values()
    forward = sum(run.duration_us for run in runs if run.kind == "forward")
    assert times["Forward(us)"] == (pytest.approx(forward, abs=2e-3),) * 2
    names = [span.name for span in profiler.timeline.host if span.step == 0 and span.kind == "eager"]
    assert "aten::nll_loss_forward" in names  # the loss is not compiled
    assert "aten::copy_" not in names  # of parameters that change in place: no work of the host's
    assert "aten::addmm" not in names  # nor what stands in a graph
    reads = [span.name for span in profiler.timeline.host if span.kind == "read"]
    assert reads == ["aten::_local_scalar_dense"] * 2  # loss.item()
    breaks = profiler.graph_breaks()
    assert times["Graph Breaks"] == (1, 1)
    assert breaks["Reason"] == ("Failed to trace builtin operator",) * 2
    assert all(
        "test_torch_profile.py:" in line and 'print("between the layers")' in line for line in breaks["Line"]
    )
    summary = {row["Operator"]: row for row in profiler.fx_summary().records()}
    assert summary["aten.addmm.default"]["Count"] == 2
    assert summary["aten.addmm.default"]["Converted To"] == "Gemm"
    assert "float32[4, 6]" in summary["aten.addmm.default"]["Inputs"]
    shapes = profiler.key_averages(group_by_input_shape=True).averages
    assert "4x3" in shapes.filter(Name="aten::_log_softmax")["Input Shapes"]


def test_the_trace_holds_every_slice_and_flow(tmp_path):
    profiler = asim.torch.profile()
    trained(profiler, steps=2)
    path = profiler.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads(path.read_bytes())["traceEvents"]
    tasks = sum(len(graph.run.result.trace.tasks) for graph in profiler.timeline.graphs)
    assert sum(event["ph"] == "X" and event["pid"] == 1 for event in events) == tasks
    graphs = [event for event in events if event["ph"] == "X" and event["pid"] == 5]
    assert [event["name"] for event in graphs][:5] == [
        "forward",
        "forward",
        "backward",
        "backward",
        "optimizer",
    ]
    for event, graph in zip(graphs, profiler.timeline.graphs, strict=True):
        assert (event["ts"], event["dur"]) == (graph.start / 1000, (graph.end - graph.start) / 1000)
        inside = [one for one in events if one["ph"] == "X" and one["pid"] == 1]
        inside = [one for one in inside if graph.start / 1000 <= one["ts"] < graph.end / 1000]
        assert len(inside) == len(graph.run.result.trace.tasks)
    errors, slices, flows, counters = query(
        path,
        ERRORS,
        "select count(*) from slice",
        "select count(*) from flow",
        "select count(*) from counter",
    )
    assert errors == []
    assert slices == [[sum(event["ph"] in "Xi" for event in events)]]
    assert flows == [[sum(event["ph"] == "s" for event in events)]]
    assert counters == [[sum(event["ph"] == "C" for event in events)]]


def test_equal_programs_write_equal_folders(tmp_path):
    found = []
    for name in ("one", "two"):
        torch._dynamo.reset()
        handler = asim.torch.tensorboard_trace_handler(tmp_path / name)
        trained(asim.torch.profile(on_trace_ready=handler, record_shapes=True), steps=2)
        folder = tmp_path / name / "ascendsim_001_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert sorted(found[0]) == [
        "fx_summary.csv",
        "kernel_details.csv",
        "step_trace_time.csv",
        "trace_view.json",
    ]
    assert found[0] == found[1]
    assert found[0]["kernel_details.csv"].startswith(
        b"Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,"
    )


def test_cycles_are_saved_one_by_one_and_only_what_is_active_is_kept():
    saved = []
    profiler = asim.torch.profile(
        schedule=schedule(wait=1, warmup=1, active=1, repeat=2, skip_first=1),
        on_trace_ready=lambda prof: saved.append(prof.step_times()["Step"]),
    )
    with profiler:
        for _ in range(9):
            (torch.ones(2) + 1).sum()
            profiler.step()
    assert saved == [(3,), (6,)]


def test_cycles_may_follow_one_another():
    saved = []
    profiler = asim.torch.profile(
        schedule=schedule(wait=0, active=2),
        on_trace_ready=lambda prof: saved.append(prof.step_times()["Step"]),
    )
    with profiler:
        for _ in range(4):
            torch.ones(2) + 1
            profiler.step()
    assert saved == [(0, 1), (2, 3)]


def test_a_schedule_repeats_as_often_as_it_is_told():
    acts = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    names = [acts(step).name for step in range(12)]
    cycle = ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
    assert names == ["NONE", *cycle, *cycle, "NONE", "NONE", "NONE"]


def test_what_is_under_way_at_the_end_is_kept():
    profiler = asim.torch.profile(schedule=schedule(wait=0, active=3))
    with profiler:
        torch.ones(2) + 1
        profiler.step()
        (torch.ones(2) * 2).view(1, 2).t()  # views are no work
    spans = profiler.timeline.host
    assert [(span.step, span.name) for span in spans] == [
        (0, "aten::ones"),
        (0, "aten::add"),
        (1, "aten::ones"),
        (1, "aten::mul"),
    ]


def test_an_exception_ends_the_recording_and_arrives_as_itself():
    called = []
    profiler = asim.torch.profile(on_trace_ready=called.append)

    def loop():
        with profiler:
            torch.ones(2) + 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop()
    assert called == []
    with pytest.raises(InputError, match="has recorded nothing yet"):
        profiler.step_times()
    with profiler:  # it can be used again
        torch.ones(2) + 1
    assert called == [profiler]


def test_operators_without_a_converter_are_on_the_hosts_lane():
    def function(x):
        return torch.linalg.svdvals(torch.tanh(x)) * 2

    model = torch.compile(function, backend=asim.torch.backend, options={"fallback": "host"})
    x = torch.arange(6.0).reshape(2, 3)
    with asim.torch.profile() as profiler:
        found = model(x)
        profiler.step()
        model(x)
        profiler.step()
    np.testing.assert_allclose(found, function(x), rtol=1e-5)
    lane = [(span.kind, span.name) for span in profiler.timeline.host if span.step == 0]
    assert lane == [
        ("launch", "launch inference"),
        ("wait", "wait for the device"),
        ("fallback", "aten::_linalg_svd"),
        ("launch", "launch inference"),
    ]
    svd = next(span for span in profiler.timeline.host if span.kind == "fallback")
    before, behind = profiler.timeline.graphs[:2]
    assert before.end <= svd.start < svd.end < behind.start
    row = profiler.fx_summary().filter(Operator="aten._linalg_svd.default").records()[0]
    assert (row["Status"], row["Count"]) == ("runs in PyTorch", 1)


@pytest.mark.parametrize(
    "optimizer",
    every(3, [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adam, torch.optim.NAdam]),
)
def test_compiled_optimizers_do_what_pytorchs_do(optimizer):
    torch.manual_seed(0)
    mine = [torch.randn(3, 2, requires_grad=True), torch.randn(2, requires_grad=True)]
    theirs = [one.detach().clone().requires_grad_() for one in mine]
    for parameters, wrap in (
        (mine, lambda step: torch.compile(step, backend=asim.torch.backend)),
        (theirs, lambda step: step),
    ):
        made = optimizer(parameters, lr=0.01)
        step = wrap(made.step)
        torch.manual_seed(1)
        for _ in range(3):
            for parameter in parameters:
                parameter.grad = torch.randn(parameter.shape)
            step()
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(one.detach(), other.detach(), rtol=1e-5, atol=1e-6)
    assert {run.kind for run in asim.torch.last_runs()} == {"optimizer"}


def test_what_optimizers_are_made_of():
    """Numbers that tell the two ways of lerp apart, and a product that is scaled."""
    start, end = torch.tensor([1e8, 2.0]), torch.tensor([1.0, 4.0])

    def function(a, b):
        return torch.lerp(a, b, 1.0), torch.lerp(a, b, 0.25), torch.addcdiv(a, a, b, value=0.5)

    found = torch.compile(function, backend=asim.torch.backend)(start, end)
    for mine, theirs in zip(found, function(start, end), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
    assert found[0].tolist() == [1.0, 4.0]


def test_schedules_and_options_are_checked():
    with pytest.raises(InputError, match="argument active must be at least 1, not 0"):
        asim.torch.schedule(wait=1, active=0)
    with pytest.raises(InputError, match="argument repeat must not be negative, not -1"):
        asim.torch.schedule(wait=1, active=1, repeat=-1)
    with pytest.raises(InputError, match="option with_flops is not modelled"):
        asim.torch.profile(with_flops=True)
    with pytest.raises(InputError, match="option record_shape does not exist; did you mean record_shapes"):
        asim.torch.profile(record_shape=True)
    with pytest.raises(InputError, match="the profiler does not run; write with asim.torch.profile"):
        asim.torch.profile().step()
    with asim.torch.profile() as profiler:
        with pytest.raises(InputError, match="the profiler runs already"):
            profiler.start()
        torch.ones(2) + 1
    with pytest.raises(InputError, match="option group_by_input_shape needs recorded shapes"):
        profiler.key_averages(group_by_input_shape=True)
    assert always(7).name == "RECORD"
