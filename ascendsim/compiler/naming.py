"""Finding the tasks that a user means by a name."""

from __future__ import annotations

from ascendsim.core.errors import GraphError, suggest
from ascendsim.graph.ir import Graph
from ascendsim.graph.scopes import within
from ascendsim.isa.program import Program, Task


def tasks_named(graph: Graph, program: Program, name: str) -> tuple[Task, ...]:
    """The tasks that a name stands for, in program order.

    Args:
        graph: The compiled graph.
        program: Its program.
        name: A node, a task (as tables print it, "conv+relu" for a fused operator), an operator of the user's
            model that was fused into another, a scope (`layer1/layer1.0`: everything below it) or a shell
            pattern (`/layer1/*`); tried in this order.

    Returns:
        The tasks; none for a node that needs no task, such as a Reshape.

    Raises:
        GraphError: If nothing has that name (suggests the nearest one).
    """
    known = {node.name: (node.name, *node.origin.get("source_names", ())) for node in graph.nodes}
    if name in known:
        return tuple(task for task in program.tasks if name in task.nodes)
    names = {
        task.id: {task.name, *(each for node in task.nodes for each in known[node])} for task in program.tasks
    }
    found = tuple(task for task in program.tasks if name in names[task.id])
    if not found:
        found = tuple(task for task in program.tasks if any(within(each, name) for each in names[task.id]))
    if not found:
        raise GraphError(
            f"node {name!r}",
            "is not in the graph",
            remedy=suggest(name, {*known, *(each for task in names.values() for each in task)}),
        )
    return found
