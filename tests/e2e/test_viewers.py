"""TensorBoard's plug-ins, Holistic Trace Analysis and TraceLens read exports (in an environment of their own,
see tests/requirements-viewers.txt).
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ascendsim.profiling.export import Capture, export_run
from tests.support.exported import host_launched, planned
from tests.support.synthetic_run import synthetic_run

pytestmark = pytest.mark.slow

TENSORBOARD = """
import json, sys
from torch_tb_profiler import io
from torch_tb_profiler.profiler.loader import RunLoader

if __name__ == "__main__":
    run = RunLoader("run", sys.argv[1], io.Cache(), sys.argv[2]).load()
    profile = next(iter(run.profiles.values()))
    print("FOUND", json.dumps({
        "views": sorted(view.display_name for view in run.views),
        "kernels": profile.kernel_pie["total"]["rows"],
    }))
"""
HTA = """
import json, sys
from hta.trace_analysis import TraceAnalysis

if __name__ == "__main__":
    analysis = TraceAnalysis(trace_dir=sys.argv[1])
    times = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    launches = next(iter(analysis.get_cuda_kernel_launch_stats(visualize=False).values()))
    print("FOUND", json.dumps({
        "kernel": float(times["kernel_time(us)"]), "idle": float(times["idle_time(us)"]),
        "durations": float(launches["gpu_duration"].sum()), "joined": len(launches),
    }))
"""
TRACELENS = """
import json, sys
from TraceLens import TreePerfAnalyzer

if __name__ == "__main__":
    analyser = TreePerfAnalyzer.from_file(sys.argv[2])
    timeline = analyser.get_df_gpu_timeline().set_index("type")["time ms"]
    launchers = analyser.get_df_kernel_launchers()
    print("FOUND", json.dumps({
        "timeline": timeline.to_dict(),
        "operators": launchers.groupby("name")["total_direct_kernel_time"].sum().to_dict(),
        "kernels": int(launchers["direct_kernel_count"].sum()),
    }))
"""


def viewed(script: str, folder: Path, *arguments: str) -> Any:
    """What a script in the viewers' environment finds."""
    python = os.environ.get("ASCENDSIM_VIEWERS")
    if not python:
        pytest.skip("needs ASCENDSIM_VIEWERS, see tests/requirements-viewers.txt")
    file = folder / "view.py"
    file.write_text(script)
    done = subprocess.run(
        [python, str(file), str(folder / "runs"), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    return json.loads(line.removeprefix("FOUND "))


def test_tensorboard_shows_the_ascend_folder(tmp_path: Path) -> None:
    run = planned(host_launched(synthetic_run(40, split=True)))
    export_run(run, tmp_path / "runs", ("ascend_pt",))
    found = viewed(TENSORBOARD, tmp_path, "Ascend")
    assert found["views"] == ["Kernel", "Memory", "Trace"]
    times = dict(found["kernels"])
    assert times == pytest.approx({view.name: run.us(view.duration) for view in run.tasks}, abs=1e-3)


def test_tensorboard_shows_the_kineto_trace(tmp_path: Path) -> None:
    run = host_launched(synthetic_run(40))
    export_run(run, tmp_path / "runs", ("kineto",))
    found = viewed(TENSORBOARD, tmp_path, "GPU")
    assert {"Overview", "Operator", "Kernel", "Trace"} <= set(found["views"])
    expected = {f"{view.op_type}:{view.name}": run.us(view.duration) for view in run.tasks}
    assert dict(found["kernels"]) == pytest.approx(expected, abs=1e-3)


def test_holistic_trace_analysis_finds_our_times(tmp_path: Path) -> None:
    run = synthetic_run(200, streams=1)  # with pandas 3 it cannot read less than some 130 events
    export_run(run, tmp_path / "runs", ("kineto",))
    found = viewed(HTA, tmp_path)
    first = Capture(run).span(run.tasks[0])[0] - Capture(run).base
    computing, _, _, free = Capture(run).overlap_ns
    assert found["joined"] == 200
    # it drops what is below a microsecond of every start and end, and counts from the first kernel on
    assert 0 <= computing / 1000 - found["durations"] <= 200
    assert 0 <= found["idle"] - (free - first) / 1000 <= 201


@pytest.mark.parametrize("launched", [False, True], ids=["by the device", "by the host"])
def test_trace_lens_finds_our_times(tmp_path: Path, launched: bool) -> None:
    run = synthetic_run(40, streams=1)
    run = host_launched(run) if launched else run
    (trace,) = export_run(run, tmp_path / "runs", ("kineto",)).files
    found = viewed(TRACELENS, tmp_path, str(trace))
    times: dict[str, float] = {}
    for view in run.tasks:
        times[view.op_type] = times.get(view.op_type, 0.0) + run.us(view.duration)
    assert found["kernels"] == 40
    assert found["operators"] == pytest.approx(times, abs=1e-3 * 40)
    capture = Capture(run)
    spans = [
        capture.span(view) for view in run.tasks
    ]  # it counts from the first kernel to the end of the last
    whole = (max(end for _, end in spans) - min(start for start, _ in spans)) / 1e6
    computing = capture.overlap_ns[0] / 1e6
    assert found["timeline"]["computation_time"] == pytest.approx(computing, abs=1e-3)
    assert found["timeline"]["total_time"] == pytest.approx(whole, abs=1e-3)
    assert found["timeline"]["idle_time"] == pytest.approx(whole - computing, abs=2e-3)
