"""What a profile keeps besides times: activities, lines of Python, memory."""

from __future__ import annotations

import inspect
import json

import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

from torch import nn  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("untimed_tiles")]
CPU, NPU = asim.torch.ProfilerActivity.CPU, asim.torch.ProfilerActivity.NPU


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Network(nn.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        y = self.first(x)
        y = torch.tanh(y)
        return self.second(y)


def profiled(**options):
    """A step with something on the host in it."""
    model, x = torch.compile(Network(), backend=asim.torch.backend), torch.ones(4, 6)
    with asim.torch.profile(**options) as profiler:
        loss = model(x).square().sum()
        loss = loss + 1.0
        loss.backward()
        profiler.step()
    return profiler


def lane_names(path):
    events = json.loads(path.read_text())["traceEvents"]
    host = {event["cat"] for event in events if event["ph"] == "X" and event["name"].startswith("aten::")}
    graphs = {event["name"] for event in events if event.get("cat") in ("forward", "backward")}
    arrows = sum(event["ph"] in "sf" and event.get("cat") == "launch" for event in events)
    return bool(host), bool(graphs), bool(arrows), any(e["name"].startswith("ProfilerStep#") for e in events)


@pytest.mark.parametrize(
    ("activities", "lanes"),
    [
        (None, (True, True, True, True)),
        ([CPU], (True, False, False, True)),
        ({NPU}, (False, True, False, True)),
    ],
)
def test_activities_choose_lanes_and_rows(activities, lanes, tmp_path):
    profiler = profiled(activities=activities)
    assert lane_names(profiler.export_chrome_trace(tmp_path / "trace.json")) == lanes
    names = [row["Name"] for row in profiler.key_averages().averages.records()]
    assert (any(name.startswith("aten::") for name in names), "MatMulV2" in names) == lanes[:2]
    asim.torch.tensorboard_trace_handler(tmp_path)(profiler)
    (folder,) = tmp_path.glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT")
    assert (folder / "kernel_details.csv").exists() == lanes[1]


def test_activities_go_by_name():
    from torch.profiler import ProfilerActivity

    assert profiled(activities=[ProfilerActivity.CPU]).wanted.activities == {CPU}
    with pytest.raises(InputError, match="option activities knows CPU and NPU only, not CUDA"):
        asim.torch.profile(activities=[ProfilerActivity.CUDA])
    with pytest.raises(InputError, match="option activities needs at least one"):
        asim.torch.profile(activities=[])


def test_tasks_and_host_calls_know_their_lines(tmp_path):
    profiler = profiled(with_stack=True)
    lines, first = inspect.getsourcelines(Network.forward)
    line = first + next(number for number, text in enumerate(lines) if "tanh" in text)
    rows = profiler.op_summary().records()
    (tanh,) = [row for row in rows if row["OP Type"] == "Tanh"]
    assert tanh["Call Stack"] == f"test_torch_profile_options.py:{line}, y = torch.tanh(y)"
    assert all(
        "test_torch_profile_options.py" in row["Call Stack"] for row in rows if "MatMul" in row["OP Type"]
    )
    events = json.loads(profiler.export_chrome_trace(tmp_path / "trace.json").read_text())["traceEvents"]
    (add,) = [event for event in events if event["name"] == "aten::add" and event["ph"] == "X"]
    lines, first = inspect.getsourcelines(profiled)
    line = first + next(number for number, text in enumerate(lines) if "loss + 1.0" in text)
    assert add["args"]["Call stack"] == f"test_torch_profile_options.py:{line}"
    assert "Call Stack" not in profiled().op_summary().columns


def test_memory_is_that_of_the_plans(tmp_path):
    profiler = profiled(profile_memory=True)
    rows = profiler.memory_record().records()
    figures = [run.result.memory.figures for run in asim.torch.last_runs()]
    assert [run.kind for run in asim.torch.last_runs()] == ["forward", "backward"]
    most = max(figures[0].live) + figures[0].weights
    tasks = len(figures[0].live)
    assert max(row["Total Allocated(MB)"] for row in rows[:tasks]) == pytest.approx(most / 2**20)
    assert rows[0]["Total Reserved(MB)"] == pytest.approx((figures[0].peak + figures[0].weights) / 2**20)
    times = [row["Timestamp(us)"] for row in rows]
    assert times == sorted(times)
    assert (rows[tasks]["Total Allocated(MB)"], rows[-1]["Total Reserved(MB)"]) == (0, 0)
    asim.torch.tensorboard_trace_handler(tmp_path)(profiler)
    (path,) = tmp_path.glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT/memory_record.csv")
    assert path.read_text().startswith("Component,Timestamp(us),Total Allocated(MB),")
    with pytest.raises(InputError, match="memory_record was not asked for; write .*profile_memory=True"):
        profiled().memory_record()
