"""Finding the tasks that a user means by a name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from ascendsim.core.errors import GraphError, suggest
from ascendsim.graph.ir import Graph
from ascendsim.graph.scopes import within
from ascendsim.isa.program import Program, Task


class TaskNames:
    """The names of a program's tasks, to be asked for many of them.

    Args:
        graph: The compiled graph.
        program: Its program.
    """

    def __init__(self, graph: Graph, program: Program) -> None:
        self._tasks = program.tasks
        self._known = {node.name: (node.name, *node.origin.get("source_names", ())) for node in graph.nodes}

    @cached_property
    def _of_node(self) -> dict[str, tuple[Task, ...]]:
        return _by_name((task, task.nodes) for task in self._tasks)

    @cached_property
    def _names(self) -> tuple[tuple[Task, frozenset[str]], ...]:
        """All names of each task: its own, its nodes', and those of the operators fused into these."""
        return tuple(
            (task, frozenset((task.name, *(each for node in task.nodes for each in self._known[node]))))
            for task in self._tasks
        )

    @cached_property
    def _of_name(self) -> dict[str, tuple[Task, ...]]:
        return _by_name(self._names)

    def tasks(self, name: str) -> tuple[Task, ...]:
        """The tasks that a name stands for; see `tasks_named`."""
        if name in self._known:
            return self._of_node.get(name, ())
        found = self._of_name.get(name, ())
        if not found:
            found = tuple(task for task, names in self._names if any(within(each, name) for each in names))
        if not found:
            raise GraphError(
                f"node {name!r}",
                "is not in the graph",
                remedy=suggest(name, {*self._known, *self._of_name}),
            )
        return found


def _by_name(tasks: Iterable[tuple[Task, Iterable[str]]]) -> dict[str, tuple[Task, ...]]:
    found: dict[str, list[Task]] = {}
    for task, names in tasks:
        for name in dict.fromkeys(names):
            found.setdefault(name, []).append(task)
    return {name: tuple(tasks) for name, tasks in found.items()}


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
    return TaskNames(graph, program).tasks(name)
