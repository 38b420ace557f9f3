"""Which operators are slow and why: the thresholds of the vendor's advisor (msprof-analyze, msopprof) on the
simulated counters.

The method is that of the Ascend 310 tuning guide: find the operator types that take the time in Op Statistic,
note their task ids, and look these up in the AI Core Metrics: an id that is missing there ran on the AI CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from ascendsim.core.table import Row
from ascendsim.isa.program import CoreKind
from ascendsim.opset.facts import Kind
from ascendsim.opset.work import LowerContext, MoveWork
from ascendsim.passes.levers.transpose_list import FILE
from ascendsim.profiling import ProfiledRun, Table, TaskView, ai_core_metrics, op_statistic
from ascendsim.profiling.metrics import PIPE_NAMES

AI_CPU_US = 20.0  # rules/en/aicpu_rules.yaml: tasks of the AI CPU above it are reported
NO_BOUND = 0.80  # config/config.ini operator_bound_ratio: no pipe busier than this = "no bound" operator
NO_BOUND_US = 20.0  # operator_bound_checker.py _MIN_TASK_DURATION
CUBE_MAC = 0.80  # rules/en/aicore_performance.yaml, cube operators
CUBE_MTE2 = 0.95
VECTOR = 0.70  # the same for vector operators: vec, mte2, mte3 each
VECTOR_SUM = 0.90  # vec + mte2 + mte3
MEMORY_BOUND = 1.0  # msprof: mte2_ratio / max(mac_ratio, vec_ratio)
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
                    text if len(ids) == 1 else f"{text} ({count} of {len(ids)})" for text, count in found
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
        return (_types(view),) if us > AI_CPU_US else ()
    found = []
    busiest = max(PIPE_NAMES, key=view.ratio)
    ratios = {pipe: view.ratio(pipe) for pipe in PIPE_NAMES}
    if us > NO_BOUND_US and ratios[busiest] <= NO_BOUND:
        found.append("no bound: no pipe is busy for more than 80 %")
    found += _last_round(run, view)
    compute = max(ratios["M"], ratios["V"])
    if compute and ratios["MTE2"] / compute > MEMORY_BOUND:
        found.append("memory bound: MTE2 is busier than Cube and Vector")
    if us > NO_BOUND_US and compute < LOW_COMPUTE:
        found.append("Cube and Vector are busy for less than 20 %")
    found.append(_bound(view, ratios))
    if Kind.MATMUL in view.kinds:
        inner = view.inputs()[0].static_shape[-1] if view.inputs() and view.inputs()[0].static_shape else 0
        if inner % INNER_AXIS:
            found.append("inner axis is no multiple of 256")
    return tuple(text for text in found if text)


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


def _bound(view: TaskView, ratios: dict[str, float]) -> str:
    if view.busy("M"):
        names = [
            name
            for name, pipe, limit in (("mac", "M", CUBE_MAC), ("mte2", "MTE2", CUBE_MTE2))
            if ratios[pipe] >= limit
        ]
    else:
        names = [
            name
            for name, pipe in (("vec", "V"), ("mte2", "MTE2"), ("mte3", "MTE3"))
            if ratios[pipe] >= VECTOR
        ]
        if not names and ratios["V"] + ratios["MTE2"] + ratios["MTE3"] >= VECTOR_SUM:
            names = ["vec_mte2_mte3"]
        if not names and ratios["S"] >= NO_BOUND:
            names = ["scalar"]
    return f"{'_and_'.join(names)} bound" if names else ""


def _types(view: TaskView) -> str:
    wide = sorted(
        {
            tensor.element_type.value
            for tensor in (*view.inputs(), *view.outputs())
            if tensor.element_type.itemsize > 4
        }
    )
    reason = f" because of {' and '.join(wide)}" if wide else ""
    return f"runs on the AI CPU{reason}"
