"""The public msprof-analyze run on exports, and what it finds held against the run.

Every check runs a command in a process of its own, reads what the command wrote, and gives a sentence with
the figures that agree; where they do not, an AssertionError says so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.api.result import Result
from ascendsim.profiling.export import Capture
from ascendsim.profiling.export.modules import has_modules
from tests.support.exported import rows

VERSION = "26.2.0"
MODELS = Path(__file__).resolve().parents[1] / "data" / "models"
MS = 1e-3  # what a figure in milliseconds may be off
BOUND, SHORT_US = 0.8, 20  # of the advisor: a share that is a bound, and tasks that it does not mention


@dataclass(frozen=True)
class Exported:
    """A run and where it was exported to.

    Attributes:
        before: The same without fusion, to compare with.
    """

    result: Result
    msprof: Path
    ascend_pt: Path
    before: Exported | None = None

    @property
    def times_ms(self) -> dict[str, float]:
        """Ours: E2E, computing and free time."""
        run = self.result.profile
        computing, _, _, free = Capture(run).overlap_ns
        return {"E2E": run.trace.duration_us / 1e3, "Computing": computing / 1e6, "Free": free / 1e6}

    @property
    def task_ns(self) -> int:
        """Ours: time of all tasks added up."""
        capture = Capture(self.result.profile)
        return sum(end - start for start, end in map(capture.span, capture.run.tasks))

    @property
    def has_modules(self) -> bool:
        """Whether names of operators tell modules."""
        return has_modules(Capture(self.result.profile))


def exported(
    network: str, batch: int, chip: str, fusion: str, folder: Path, before: Exported | None = None
) -> Exported:
    """Simulates a network of the test data and exports it."""
    graph = asim.load(MODELS / f"{network}.onnx", weights="random", batch=batch)
    return exported_graph(graph, chip, fusion, folder, before)


def exported_graph(
    graph: asim.Graph, chip: str, fusion: str, folder: Path, before: Exported | None = None
) -> Exported:
    """Simulates a graph and exports it."""
    result = asim.simulate(asim.compile(graph, chip, fusion=fusion))
    (msprof,) = result.export(folder / fusion / "msprof", "msprof")
    (ascend_pt,) = result.export(folder / fusion / "ascend_pt", "ascend_pt")
    return Exported(result, msprof, ascend_pt, before)


@dataclass(frozen=True)
class Check:
    """A command on an export.

    Attributes:
        command: Arguments behind `msprof-analyze`; {pt}, {prof}, {before} and {out} are put in.
        read: Which files of the export it reads.
        compare: Output folder, printed text, export -> what agrees.
    """

    command: str
    read: str
    compare: Callable[[Path, str, Exported], str]


def program() -> str:
    """The command; skips the test where it is not installed."""
    beside_python = Path(sys.executable).with_name("msprof-analyze")
    found = str(beside_python) if beside_python.exists() else shutil.which("msprof-analyze")
    if found is None:
        pytest.skip(f"needs the package msprof-analyze (pip install msprof-analyze=={VERSION})")
    return found


def run_check(check: Check, exported: Exported, out: Path) -> str:
    """Runs a command; what its figures say."""
    out.mkdir(parents=True)
    places = {"pt": exported.ascend_pt, "prof": exported.msprof, "out": out}
    if exported.before is not None:
        places["before"] = exported.before.ascend_pt
    words = [word.format(**places) for word in check.command.split()]
    done = subprocess.run(
        [program(), *words, "--force"], capture_output=True, text=True, timeout=600, cwd=out
    )
    text = done.stdout + done.stderr
    assert done.returncode == 0, text
    assert "Traceback" not in text, text
    return check.compare(out, text, exported)


def advisor_times(out: Path, text: str, exported: Exported) -> str:
    """E2E, computing and free time of the advisor's summary."""
    found = {
        name: float(time) for name, time in re.findall(r"(E2E|Computing|Free) Time is ([0-9.]+)ms", text)
    }
    ours = exported.times_ms
    assert set(found) == set(ours), text
    for name, time in ours.items():
        assert abs(found[name] - time) <= MS, (name, found[name], time)
    return ", ".join(f"{name} {time:.3f} ms" for name, time in found.items())


def advisor_issues(out: Path, text: str, exported: Exported) -> str:
    """Operators below every bound, in the advisor's workbook, against the ratios of op_summary; the advisor
    looks no further if the first operator has a bound, and tells nothing if all that it found are short.
    """
    kinds = {"AI_CORE", "AI_VECTOR_CORE", "MIX_AIC", "MIX_AIV"}
    busiest, times = {}, {}
    for row in exported.result.op_summary().records():
        if row["Task Type"] in kinds:
            ratios = [float(cell or 0) for name, cell in row.items() if name.endswith("_ratio")]
            busiest[str(row["Op Name"])], times[str(row["Op Name"])] = max(ratios), row["Task Duration(us)"]
    unbound = {name for name, ratio in busiest.items() if ratio <= BOUND}
    looks, tells = next(iter(busiest)) in unbound, any(times[name] > SHORT_US for name in unbound)
    (path,) = (out / "log").glob("*.xlsx")
    sheet = "Operator No Bound Issues"
    found = {str(row[0]) for row in _sheet(path, sheet)[1:]} if sheet in _sheets(path) else set()
    assert found == (unbound if looks and tells else set()), found ^ unbound
    if not looks:
        return "the first operator has a bound"
    return f"{len(found)} operators without a bound" if tells else f"none without a bound above {SHORT_US} us"


def ran(out: Path, text: str, exported: Exported) -> str:
    """That a command ended well, where it has no figure of ours."""
    assert "ERROR" not in text, text
    return "no error"


def compared_times(out: Path, text: str, exported: Exported) -> str:
    """Times and numbers of kernels of two exports."""
    assert exported.before is not None
    (path,) = out.glob("*.xlsx")
    lines = {str(row[0]).strip(): row for row in _sheet(path, "OverallMetrics") if row[0]}
    for column, side in ((1, exported.before), (4, exported)):
        for name, time in side.times_ms.items():
            assert abs(float(lines[f"{name} Time"][column]) - time) <= MS, (name, lines[f"{name} Time"], time)
        kernels = len(side.result.trace.tasks)
        assert lines["Computing Time"][column + 2] == kernels, (lines["Computing Time"], kernels)
    computing = lines["Computing Time"]
    return (
        f"computing {computing[1]:.3f} and {computing[4]:.3f} ms, {computing[3]} and {computing[6]} kernels"
    )


def compared_kernels(out: Path, text: str, exported: Exported) -> str:
    """Time of every type of kernel of two exports."""
    assert exported.before is not None
    (path,) = out.glob("*.xlsx")
    sheet = next(name for name in ("KernelTypeCompare", "KernelCompare") if name in _sheets(path))
    table = _sheet(path, sheet)
    head = next(row for row in table if row[0] == "Order Id")
    totals = [place for place, name in enumerate(head) if str(name).startswith("Total Duration")]
    told = []
    for place, side in zip(totals, (exported.before, exported), strict=True):
        found = sum(float(row[place] or 0) for row in table[table.index(head) + 1 :])
        assert abs(found - side.task_ns / 1e3) < 1, (found, side.task_ns)
        told.append(f"{found:,.0f}")
    return f"{' and '.join(told)} us in {sheet}"


def database(query: str) -> Callable[[Path], list[tuple[object, ...]]]:
    """Rows of what a mode of the cluster analysis wrote."""
    return lambda out: rows(out / "cluster_analysis_output" / "cluster_analysis.db", query)


def summed(query: str, what: str) -> Callable[[Path, str, Exported], str]:
    """A sum in ns, and a number, that must be those of all tasks."""

    def compare(out: Path, text: str, exported: Exported) -> str:
        ((total, count),) = database(query)(out)
        tasks = len(exported.result.trace.tasks)
        assert (round(float(str(total))), count) == (exported.task_ns, tasks), (
            total,
            count,
            exported.task_ns,
        )
        return f"{what}: {exported.task_ns:,} ns in {tasks}"

    return compare


def gaps(out: Path, text: str, exported: Exported) -> str:
    """The longest times without a task."""
    free = Capture(exported.result.profile).overlap[3]
    ((longest,),) = database('select max("duration(us)") from FreeAnalysis')(out)
    inner = [(end - start) / 1e3 for start, end in free if start > Capture(exported.result.profile).base]
    assert abs(float(str(longest)) - max(inner)) <= MS, (longest, max(inner))
    return f"longest gap {longest} us"


def step(out: Path, text: str, exported: Exported) -> str:
    """The times of the one step."""
    (found,) = database("select stage, computing, free from ClusterStepTraceTime")(out)
    for us, (name, ms) in zip(found, exported.times_ms.items(), strict=True):
        assert abs(float(str(us)) - 1e3 * ms) <= MS, (name, us, ms)
    return "step {} us, computing {} us, free {} us".format(*found)


def clock(out: Path, text: str, exported: Exported) -> str:
    """The clock, which this mode holds against 1800 MHz."""
    mhz = exported.result.model.soc.frequency_mhz
    if mhz == 1800:
        return ran(out, text, exported)
    ((found,),) = database("select aicoreFrequency from AbnormalFrequencyRanks")(out)
    assert str(mhz) in str(found), found
    return f"{mhz} MHz, which is not this tool's 1800"


def utilisation(out: Path, text: str, exported: Exported) -> str:
    """The Cube's peak, and operations a second of every product."""
    soc, views = exported.result.model.soc, exported.result.profile.tasks
    found = database(
        'select kernel_name, "kernel_start(ns)", actual_tflops, chip_peak_tflops from OperatorMFU'
    )(out)
    capture = Capture(exported.result.profile)
    ours = {}
    for view in views:
        if view.record.macs:
            start, end = capture.span(view)
            ours[view.name, start] = 2 * view.record.macs / (end - start) / 1e3
    assert {(name, start) for name, start, *_ in found} == set(ours)
    peak = soc.ai_cores * soc.frequency_mhz * 8192 / 1e6
    for name, start, tflops, its_peak in found:
        assert abs(float(str(tflops)) - ours[name, start]) <= 0.006, (name, tflops, ours[name, start])
        assert abs(float(str(its_peak)) - peak) <= 0.006, (its_peak, peak)
    return f"{len(found)} products of a peak of {peak:.1f} TFLOP/s"


def moduled(out: Path, text: str, exported: Exported) -> str:
    """Time of all modules."""
    ((total, count),) = database(
        'select sum("totalKernelDuration(ns)"), count(distinct parentModule || module) from ModuleStatistic'
    )(out)
    assert round(float(str(total))) == exported.task_ns, (total, exported.task_ns)
    return f"{round(float(str(total))):,} ns in {count} modules"


CHECKS: Mapping[str, Check] = {
    "advisor all": Check(
        "advisor all -d {pt} -o {out} -l en", "PROF op_summary, torch database", advisor_times
    ),
    "advisor computation": Check(
        "advisor computation -d {prof} -o {out} -l en", "op_summary, info.json.0", advisor_issues
    ),
    "advisor schedule": Check("advisor schedule -d {pt} -o {out} -l en", "trace_view.json", ran),
    "compare": Check("compare -d {pt} -bp {before} -o {out}", "torch database", compared_times),
    "compare --use_kernel_type": Check(
        "compare -d {pt} -bp {before} -o {out} --use_kernel_type", "torch database", compared_kernels
    ),
    "cluster -m compute_op_sum": Check(
        "cluster -m compute_op_sum -d {pt}/.. -o {out}",
        "torch database",
        summed("select sum(SumNs), sum(Count) from ComputeOpAllRankStats", "time of types"),
    ),
    "cluster -m cann_api_sum": Check(
        "cluster -m cann_api_sum -d {pt}/.. -o {out}",
        "torch database",
        summed("select sum(totalTimeNs), sum(totalCount) from CannApiSum", "calls"),
    ),
    "cluster -m compute_op_sum (msprof alone)": Check(
        "cluster -m compute_op_sum -d {prof}/.. -o {out}",
        "msprof_*.db",
        summed("select sum(SumNs), sum(Count) from ComputeOpAllRankStats", "time of types"),
    ),
    "cluster -m cann_api_sum (msprof alone)": Check(
        "cluster -m cann_api_sum -d {prof}/.. -o {out}",
        "msprof_*.db",
        summed("select sum(totalTimeNs), sum(totalCount) from CannApiSum", "calls"),
    ),
    "cluster -m freq_analysis": Check(
        "cluster -m freq_analysis -d {pt}/.. -o {out}", "torch database", clock
    ),
    "cluster -m export_summary": Check(
        "cluster -m export_summary -d {pt}/.. -o {out}", "torch database", ran
    ),
    "cluster -m free_analysis": Check("cluster -m free_analysis -d {pt}/.. -o {out}", "torch database", gaps),
    "cluster -m module_statistic": Check(
        "cluster -m module_statistic -d {pt}/.. -o {out}", "torch database", moduled
    ),
    "cluster -m operator_mfu": Check(
        "cluster -m operator_mfu -d {pt}/.. -o {out}", "torch database, info.json.0", utilisation
    ),
    "cluster -m all": Check("cluster -m all -d {pt}/.. -o {out}", "analysis.db", step),
}


def _sheets(path: Path) -> list[str]:
    openpyxl = pytest.importorskip("openpyxl")
    return list(openpyxl.load_workbook(path, read_only=True).sheetnames)


def _sheet(path: Path, name: str) -> list[tuple[object, ...]]:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.load_workbook(path)
    return [tuple(row) for row in book[name].iter_rows(values_only=True)]
