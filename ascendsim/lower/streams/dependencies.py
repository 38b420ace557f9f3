"""Which tasks must have ended before a task starts, by the edges of the graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ascendsim.graph.ir import Graph
from ascendsim.isa.program import Task


def task_dependencies(
    graph: Graph, tasks: Sequence[Task], tasks_of: Mapping[str, Sequence[int]]
) -> list[tuple[int, ...]]:
    """Tasks that each task needs directly, rising.

    A node that runs nothing (its output is its input's memory) hands on what its producers run. Tasks of one
    node follow each other.

    Args:
        graph: The lowered graph.
        tasks: Numbered in launch order.
        tasks_of: Tasks of each node.
    """
    made_by: dict[str, frozenset[int]] = {}  # by node: tasks whose end means that its outputs are there
    needs: list[set[int]] = [set() for _ in tasks]
    for node in graph.topological():
        own = tasks_of.get(node.name, ())
        before = frozenset[int]().union(
            *(made_by[other.name] for other in graph.predecessors(node) if other.name in made_by)
        )
        if not own:
            made_by[node.name] = before
            continue
        for task in own:
            needs[task] |= {other for other in before if other != task}
        for earlier, later in pairwise(own):
            needs[later].add(earlier)
        made_by[node.name] = frozenset({own[-1]})
    return [tuple(sorted(found)) for found in needs]
