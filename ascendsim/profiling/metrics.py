"""Where the time of a task went: engine, what bounds it, achieved against peak."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ascendsim.core.dtypes import DType
from ascendsim.isa.program import TaskKind
from ascendsim.profiling.view import ProfiledRun, TaskView
from ascendsim.soc.spec import SocSpec

PIPE_NAMES = {
    "M": "Cube",
    "V": "Vector",
    "S": "Scalar",
    "MTE1": "MTE1",
    "MTE2": "MTE2",
    "MTE3": "MTE3",
    "FIX": "FixPipe",
}
"""Pipes as people call them, in the order of reports."""

LATENCY = "latency"  # the bound of a task in which nothing is near its limit
BOUND_PAGE = "docs/bound_by.md"  # what each bound means, and what to do about it
BOUND_RATIO = 0.80  # a pipe this busy bounds its task: MindStudio's "no bound" rule (operator_bound_ratio)
# bandwidth of DDR or L2 this well used is the bottleneck behind a busy MTE (speed-of-light convention, > 60
# %)
MEMORY_RATIO = 0.60
LAUNCH_RATIO = 0.50  # this much of the time without a running block: launch and dispatch bound
# what runs tasks besides the cores
OTHER_ENGINES = {
    TaskKind.AI_CPU: "AI CPU",
    TaskKind.COMMUNICATION: "Communication",
    TaskKind.DVPP: "DVPP",
    TaskKind.CTRL_CPU: "Ctrl CPU",
    TaskKind.MEMCPY_ASYNC: "Host copy",
}


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """What one task achieved.

    Attributes:
        view: The task.
        engine: See `engine_of`.
        bound: See `bound_by`.
        busiest: The pipe that was busy for most of the time, and for how much of it: "MTE2 39 %"; "" for
            tasks that run elsewhere than on the cores, or kept no pipe busy.
        time_us: Duration.
        tflops: Useful multiply-adds on the Cube x 2 / time, in 10^12/s; 0 if it used no Cube.
        peak_tflops: The whole chip's peak in the task's Cube type.
        ddr_gb_per_s: Useful bytes from and to DDR / time, in 10^9 B/s, reads and writes added.
        l2_gb_per_s: Bytes between the cores and L2 / time (0 on chips whose transfers pass L2 by).
        ddr_utilisation: Share of the chip's DDR bandwidth, 0..1: of the bus if it is half duplex, else of its
            busier direction.
        l2_utilisation: Share of the chip's L2 bandwidth, 0..1, of the busier direction.
    """

    view: TaskView
    engine: str
    bound: str
    busiest: str
    time_us: float
    tflops: float
    peak_tflops: float
    ddr_gb_per_s: float
    l2_gb_per_s: float
    ddr_utilisation: float
    l2_utilisation: float

    @property
    def of_peak(self) -> float:
        """Achieved / peak, 0..1: of the Cube's for tasks with useful multiply-adds, of the busier of DDR and
        L2 for the others.
        """
        if self.tflops and self.peak_tflops:
            return self.tflops / self.peak_tflops
        return max(self.ddr_utilisation, self.l2_utilisation)


def peak_tflops(soc: SocSpec, dtype: str = "float16") -> float:
    """Peak of the chip's Cube units in 10^12 operations a second: 2 * m0 * k0 * n0 * cores * clock / cycles
    of a block.

    0 if the chip has no Cube instruction of that type.
    """
    cube = soc.cube
    if dtype not in cube.cycles_per_block or dtype not in cube.k0:
        return 0.0
    return (
        2
        * cube.m0
        * cube.k0[dtype]
        * cube.n0
        * soc.ai_cores
        * soc.frequency_mhz
        * 1e6
        / cube.cycles_per_block[dtype]
        / 1e12
    )


def ddr_peak_gb_per_s(soc: SocSpec) -> float:
    """What reads and writes together can reach: the bus if it is half duplex, else both directions."""
    dram = soc.dram
    return (
        max(dram.read_gb_per_s, dram.write_gb_per_s)
        if dram.half_duplex
        else dram.read_gb_per_s + dram.write_gb_per_s
    )


def ddr_utilisation(soc: SocSpec, read_bytes: int, write_bytes: int, us: float) -> float:
    """Share 0..1 of the DDR bandwidth that some bytes in some time use."""
    if us <= 0:
        return 0.0
    read = read_bytes / (us * 1e3) / soc.dram.read_gb_per_s
    write = write_bytes / (us * 1e3) / soc.dram.write_gb_per_s
    return read + write if soc.dram.half_duplex else max(read, write)


def l2_utilisation(soc: SocSpec, read_bytes: int, write_bytes: int, us: float) -> float:
    """Share 0..1 of the L2 bandwidth (bytes per cycle and core x cores x clock) that some bytes in some time
    use.
    """
    cycles = us * soc.frequency_mhz * soc.ai_cores
    if cycles <= 0:
        return 0.0
    return (
        max(
            read_bytes / soc.l2.read_bytes_per_cycle_per_core,
            write_bytes / soc.l2.write_bytes_per_cycle_per_core,
        )
        / cycles
    )


def pipe_units(soc: SocSpec, pipe: str) -> int:
    """How many units of a pipe the chip has, over all cores."""
    cube_side, vector_side = pipe in {"M", "MTE1", "FIX"}, pipe in {"V", "MTE3"}
    if cube_side or (vector_side and not soc.split_cores and not soc.vector_cores):
        return soc.ai_cores
    if vector_side and soc.split_cores:
        return soc.vector_cores
    return soc.ai_cores + soc.vector_cores


def core_name(soc: SocSpec, core: int) -> str:
    """Name of a core by its number in instruction records: AI or cube cores come first, vector cores after
    them.
    """
    if core >= soc.ai_cores:
        return f"Vector core {core - soc.ai_cores}"
    return f"Cube core {core}" if soc.split_cores else f"Core {core}"


def engine_of(view: TaskView) -> str:
    """The engine that a task runs on.

    "AI CPU", "Communication", "DVPP" and "Ctrl CPU" for their tasks; "Cube" if the Cube worked;
    else "Scalar" if the scalar unit was the busiest pipe;
    else "Vector" if the Vector unit worked; else "MTE" (nothing but transfers); "-" if no pipe was busy.
    """
    if not view.on_ai_core:
        return OTHER_ENGINES[view.task.kind]
    if view.busy("M"):
        return "Cube"
    busiest = max(PIPE_NAMES, key=view.busy)
    if not view.busy(busiest):
        return "-"
    if busiest == "S":
        return "Scalar"
    return "Vector" if view.busy("V") else "MTE"


def bound_by(view: TaskView, ddr_share: float, l2_share: float, launch_share: float) -> str:
    """What keeps a task from being faster.

    The figures compared are the busy ratios of the pipes (busy ticks / ticks that blocks held their cores)
    and the shares of the chip's DDR and L2 bandwidth that the task used. In this order:

    1. a task that runs elsewhere than on the cores is bound by its engine ("AI CPU", "Communication" ...);
    2. "dispatch" if handing out its blocks took more of its duration than any pipe was busy for, "launch" if
       its whole launch (task, blocks, and their start on the cores) took more than half of it;
    3. the largest of the pipe ratios, if it is at least 0.80, names the bound: "Cube", "Vector", "Scalar",
      "MTE1", "MTE2", "MTE3",
       "FixPipe". But a pipe that waits for memory counts as busy: if the largest is MTE2, MTE3 or FixPipe and
       the share of DDR or L2 is at least 0.60, the bound is the fuller of the two, "DDR" or "L2";
    4. "DDR" or "L2", the fuller one, if its share is at least 0.60;
    5. else "latency": nothing is near its limit, the pipes wait for each other.

    Args:
        view: The task.
        ddr_share: DDR utilisation, 0..1.
        l2_share: L2 utilisation, 0..1.
        launch_share: Part of the duration before and between blocks, and in their start, 0..1.
    """
    if not view.on_ai_core:
        return OTHER_ENGINES[view.task.kind]
    memory = max(ddr_share, l2_share) >= MEMORY_RATIO
    busiest = busiest_pipe(view)
    if view.record.dispatch > view.busy(busiest) / max(view.record.cores, 1):
        return "dispatch"
    if launch_share > LAUNCH_RATIO:
        return "launch"
    if view.ratio(busiest) >= BOUND_RATIO and not (busiest in {"MTE2", "MTE3", "FIX"} and memory):
        return PIPE_NAMES[busiest]
    if memory:
        return "DDR" if ddr_share >= l2_share else "L2"
    return LATENCY


def busiest_pipe(view: TaskView) -> str:
    """The pipe with the largest busy ratio (one of `PIPE_NAMES`' keys); the first of those that are equal."""
    return max(PIPE_NAMES, key=view.ratio)


def busiest_text(view: TaskView) -> str:
    """See `TaskMetrics.busiest`."""
    pipe = busiest_pipe(view)
    share = view.ratio(pipe) if view.on_ai_core else 0.0
    return f"{PIPE_NAMES[pipe]} {100 * share:.0f} %" if share else ""


def task_metrics(run: ProfiledRun, view: TaskView) -> TaskMetrics:
    """Engine, bound and achieved rates of a task."""
    us, record, soc = run.us(view.duration), view.record, run.soc
    ddr = ddr_utilisation(soc, record.read_bytes.get("ddr", 0), record.write_bytes.get("ddr", 0), us)
    l2 = l2_utilisation(soc, record.read_bytes.get("l2", 0), record.write_bytes.get("l2", 0), us)
    starts = max(record.rounds, 1) * soc.launch.kernel_init_ns / 1000 + run.us(record.dispatch)
    working = run.mean_block_us(view, record.block_ticks) - starts
    launch = 1 - min(max(working, 0.0) / us, 1.0) if us else 0.0
    per_us = 1 / us if us else 0.0
    return TaskMetrics(
        view=view,
        engine=engine_of(view),
        bound=bound_by(view, ddr, l2, launch),
        busiest=busiest_text(view),
        time_us=us,
        tflops=2 * record.macs * per_us / 1e6,
        peak_tflops=peak_tflops(soc, _cube_dtype(view)) if record.macs else 0.0,
        ddr_gb_per_s=view.moved("ddr") * per_us / 1e3,
        l2_gb_per_s=view.moved("l2") * per_us / 1e3,
        ddr_utilisation=ddr,
        l2_utilisation=l2,
    )


def main_bound(run: ProfiledRun) -> str:
    """What bounds most of the tasks' time; "-" without tasks."""
    times: dict[str, float] = {}
    for view in run.tasks:
        found = task_metrics(run, view)
        times[found.bound] = times.get(found.bound, 0.0) + found.time_us
    return max(times, key=times.__getitem__, default="-")


def pipe_shares(run: ProfiledRun, view: TaskView) -> Mapping[str, float]:
    """Busy share of each pipe over the task's duration and all units of the chip, 0..1, for pipes that
    worked.
    """
    if not view.duration:
        return {}
    return {
        pipe: view.busy(pipe) / (view.duration * pipe_units(run.soc, pipe))
        for pipe in PIPE_NAMES
        if view.busy(pipe)
    }


def _cube_dtype(view: TaskView) -> str:
    """Type of the Cube operands: int8 if the task's first input has 8-bit integers, else float16."""
    first = next((tensor.dtype for tensor in view.inputs()), None)
    return "int8" if first in (DType.INT8, DType.UINT8) else "float16"
