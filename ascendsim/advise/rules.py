"""Which operators are slow and why: what bounds them (`profiling.metrics.bound_by`), and the thresholds of
the vendor's advisor (msprof-analyze, msopprof) on the simulated counters.

The method is that of the Ascend 310 tuning guide: find the operator types that take the time in Op Statistic,
note their task ids, and look these up in the AI Core Metrics: an id that is missing there ran on the AI CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ascendsim.advise.formats import transdata, transdata_finding
from ascendsim.core.dtypes import DType
from ascendsim.core.table import Row
from ascendsim.isa.program import CoreKind
from ascendsim.ops.shared.aicpu import aicpu_types
from ascendsim.opset.facts import Kind
from ascendsim.opset.work import LowerContext, MoveWork
from ascendsim.passes.layout.causes import TRANSDATA
from ascendsim.passes.levers.transpose_list import FILE
from ascendsim.profiling import ProfiledRun, Table, TaskView, ai_core_metrics, op_statistic
from ascendsim.profiling.metrics import LATENCY, PIPE_NAMES, busiest_pipe, task_metrics

AI_CPU_US = 20.0  # rules/en/aicpu_rules.yaml: tasks of the AI CPU above it are reported
LONG_US = 20.0  # operator_bound_checker.py _MIN_TASK_DURATION
LOW_COMPUTE = 0.20  # msopprof storage_access.cpp: compute usage below it
INNER_AXIS = 256  # ai_core_performance_checker.py INNER_AXIS_256, matrix products
_SHOWN = 4  # findings of one operator type in the table, most frequent first
# percent of the time that an operator type takes to be listed (relevance rule of fusible_operator.yaml)
LEAST_SHARE = 1.0


def element_by_element(run: ProfiledRun) -> dict[str, tuple[int, ...]]:
    """Operators that move single elements where their shape is not on the white list of the quick kernel,
    and the shapes that they turn.
    """
    context = LowerContext.of(run.soc, options={"transpose_white_list": False})
    found = {}
    for node in (node for view in run.tasks if view.on_ai_core for node in view.nodes):
        work = run.opset.get(node).work(node, context)
        if isinstance(work, MoveWork) and work.one_by_one:
            found[node.name] = tuple(node.attr("shape", ())) or node.required(0).static_shape
    return found


def slow_operators(run: ProfiledRun, single: Collection[str] = (), listed: bool = True) -> Table:
    """Operator types that take at least 1 % of the time or run on the AI CPU for more than 20 us, with what
    the rules say of them.

    Columns: type, task count, total time, share, names of operators and ids of their tasks in the same order,
    engine ("AI CPU" for ids that the AI Core metrics lack), findings.

    Args:
        run: The run.
        single: Operators of `element_by_element`.
        listed: Whether their shapes are on the white list.
    """
    listing = (
        f"so quick only on the white list of {FILE} (option transpose_white_list=off: without)"
        if listed
        else f"goes element by element: not on the white list of {FILE}"
    )
    causes = transdata(run)
    on_core = set(ai_core_metrics(run).column("Task"))
    views = {view.id: view for view in run.tasks}
    rows: list[Row] = []
    for record in op_statistic(run, task_ids=True).records():
        ids = [int(text) for text in str(record["Task IDs"]).split(";")]
        total, share = float(record["Total Time(us)"] or 0), float(record["Ratio(%)"] or 0)
        on_cpu = not on_core.issuperset(ids)
        if share < LEAST_SHARE and not (on_cpu and total > AI_CPU_US):
            continue
        said = [text for number in ids for text in findings(run, views[number])]
        forced = transdata_finding(causes) if record["OP Type"] == TRANSDATA else ""
        turned = [listing for number in ids if any(node.name in single for node in views[number].nodes)]
        found = Counter([*turned, *said]).most_common(_SHOWN)
        engine = "AI CPU" if on_cpu else "AI Core"
        rows.append(
            (
                record["OP Type"],
                len(ids),
                total,
                share,
                record["Op Names"],
                record["Task IDs"],
                engine,
                "; ".join(
                    (
                        *([forced] if forced else []),
                        *(
                            text if len(ids) == 1 else f"{text} ({count} of {len(ids)})"
                            for text, count in found
                        ),
                    )
                ),
            )
        )
    return Table(
        "slow_operators",
        ("Type", "Count", "Time(us)", "Share(%)", "Op Names", "Task IDs", "Engine", "Findings"),
        tuple(rows),
    )


def findings(run: ProfiledRun, view: TaskView) -> tuple[str, ...]:
    """What the rules say of one task; nothing for one that is fine."""
    us = run.us(view.duration)
    if view.is_communication or view.for_images:
        return ()
    if not view.on_ai_core:
        return (_reason(run, view),) if us > AI_CPU_US else ()
    found = [_bound(run, view), *_last_round(run, view)]
    if us > LONG_US and max(view.ratio("M"), view.ratio("V")) < LOW_COMPUTE:
        found.append("Cube and Vector are busy for less than 20 %")
    if Kind.MATMUL in view.kinds:
        inner = view.inputs()[0].static_shape[-1] if view.inputs() and view.inputs()[0].static_shape else 0
        if inner % INNER_AXIS:
            found.append("inner axis is no multiple of 256")
    return tuple(found)


def _last_round(run: ProfiledRun, view: TaskView) -> list[str]:
    """Kinds of cores that the last blocks of a task leave idle in part."""
    blocks = Counter[CoreKind]()
    for group in view.task.groups:
        blocks[group.block.core] += group.count
    found = []
    for kind, count in blocks.items():
        cores = run.soc.vector_units if kind is CoreKind.VECTOR else run.soc.ai_cores
        name = f"{kind.value} cores" if run.soc.split_cores else "cores"
        if count % cores:
            found.append(f"{count % cores} of {cores} {name} busy in the last round of blocks")
    return found


def _bound(run: ProfiledRun, view: TaskView) -> str:
    """What bounds a task, by the one rule that tables of runs have too; where nothing is near its limit, the
    pipe that comes nearest.
    """
    bound = task_metrics(run, view).bound
    pipe = busiest_pipe(view)
    if bound == LATENCY and view.busy(pipe):
        return f"bound by {bound}, {PIPE_NAMES[pipe]} busiest"
    return f"bound by {bound}"


def _reason(run: ProfiledRun, view: TaskView) -> str:
    """Why a task is not on the AI Core: the types of the data of its operators, the result's for a Cast; or
    that CANN has no kernel for it there whatever the type.
    """
    whole = aicpu_types(run.soc.kernels.ai_cpu_table)
    types: set[str] = set()
    for node in view.nodes:
        if run.opset.cann_type(node) not in whole:
            tensors = run.opset.get(node).facts.data(node) + (node.outputs if "to" in node.attributes else [])
            types |= {tensor.element_type.value for tensor in tensors if tensor.dtype is not DType.FLOAT16}
    reason = f" because of {' and '.join(sorted(types))}" if types else ""
    return f"runs on the AI CPU{reason}"
