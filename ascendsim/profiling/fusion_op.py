"""fusion_op: which operators of the user's model run as one, and the memory that they touch. msprof's
columns.

Columns and order: Ascend/msprof, summary/fusion_op_assembler.cpp. Device_id is the word "host", since fusion
happens there.
"""

from __future__ import annotations

from ascendsim.core.table import Row, Table
from ascendsim.graph.ir import Tensor
from ascendsim.profiling.op_summary import MODEL_ID
from ascendsim.profiling.view import ProfiledRun, TaskView

COLUMNS = (
    "Device_id",
    "Model Name",
    "Model ID",
    "Fusion Op",
    "Original Ops",
    "Memory Input(KB)",
    "Memory Output(KB)",
    "Memory Weight(KB)",
    "Memory Workspace(KB)",
    "Memory Total(KB)",
)


def fusion_op(run: ProfiledRun) -> Table:
    """One row a task that runs several operators of the user's model, whether they became one operator or
    share a task.

    Memory is what the task's tensors take on the device, padding of their formats included; a task of several
    parts that belong to one operator gives one row.

    Args:
        run: The run.
    """
    rows: list[Row] = []
    seen: set[str] = set()
    for view in run.tasks:
        sources = original_operators(view)
        if len(sources) < 2 or view.name in seen:
            continue
        seen.add(view.name)
        inputs = [tensor for tensor in dict.fromkeys(view.inputs()) if not tensor.is_constant]
        weights = [tensor for tensor in dict.fromkeys(view.inputs()) if tensor.is_constant]
        sizes = (_kib(inputs), _kib(view.outputs()), _kib(weights), _workspace_kib(run, view))
        rows.append(
            ("host", run.graph.name or None, MODEL_ID, view.name, ";".join(sources), *sizes, sum(sizes))
        )
    return Table("fusion_op", COLUMNS, tuple(rows))


def original_operators(view: TaskView) -> tuple[str, ...]:
    """Names of the user's operators that a task runs, in order, each once."""
    return tuple(
        dict.fromkeys(name for node in view.nodes for name in node.origin.get("source_names", (node.name,)))
    )


def _kib(tensors: tuple[Tensor, ...] | list[Tensor]) -> float:
    return sum(tensor.storage_bytes for tensor in tensors) / 1024


def _workspace_kib(run: ProfiledRun, view: TaskView) -> float:
    regions = run.program.memory.regions
    names = {access.region for access in view.task.accesses}
    return (
        sum(regions[name].bytes for name in names if name in regions and regions[name].kind == "workspace")
        / 1024
    )
