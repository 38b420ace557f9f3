"""What changed between two runs of a model: tasks matched by the operators of the model that they stand for.

Fusion gives several operators one task, and splitting gives one operator several; so tasks of both runs that
have an operator in common, directly or by way of others, form a group, and groups are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.profiling.view import ProfiledRun
from ascendsim.report.subject import Columns, short, task_sources

_NAMED = 3  # operators that the name of a group lists
REST = "time without a task, less tasks side by side"


def change_columns(first: ProfiledRun, other: ProfiledRun) -> Columns:
    """Time by operator type and by group of tasks in both runs, largest difference first.

    The differences of either table, and `rest` (what the sums of task times do not tell of the device time),
    add up to the difference of the device times.
    """
    sums = [sum(run.us(view.duration) for view in run.tasks) for run in (first, other)]
    whole = other.trace.duration_us - first.trace.duration_us
    return {
        "types": _by_type(first, other),
        "nodes": _by_group(first, other),
        "rest": [REST, short(whole - (sums[1] - sums[0]), 9)],
        "whole": short(whole, 9),
    }


def _by_type(first: ProfiledRun, other: ProfiledRun) -> list[list[str | int | float | None]]:
    """Rows (type, tasks before, tasks after, us before, us after, difference)."""
    found: dict[str, list[float]] = {}
    for side, run in enumerate((first, other)):
        for view in run.tasks:
            row = found.setdefault(view.op_type, [0, 0, 0.0, 0.0])
            row[side] += 1
            row[2 + side] += run.us(view.duration)
    rows = [
        [name, int(one), int(two), short(before, 7), short(after, 7), short(after - before, 7)]
        for name, (one, two, before, after) in found.items()
    ]
    return sorted(rows, key=lambda row: (-abs(_number(row[-1])), str(row[0])))


def _by_group(first: ProfiledRun, other: ProfiledRun) -> list[list[object]]:
    """Rows (operators, tasks before, tasks after, us before, us after, difference), tasks by their place in
    `run.tasks`.
    """
    operators = [[task_sources(view) for view in run.tasks] for run in (first, other)]
    joined = _groups([names for side in operators for names in side])
    groups: dict[int, tuple[list[int], list[int]]] = {}
    for index, root in enumerate(joined):
        after = index >= len(operators[0])
        groups.setdefault(root, ([], []))[after].append(index - after * len(operators[0]))
    rows: list[list[object]] = []
    for members in groups.values():
        times = [
            sum(run.us(run.tasks[task].duration) for task in tasks)
            for run, tasks in zip((first, other), members, strict=True)
        ]
        names = dict.fromkeys(
            name
            for side, tasks in zip(operators, members, strict=True)
            for task in tasks
            for name in side[task]
        )
        difference = short(times[1] - times[0], 7)
        rows.append([_title(list(names)), *members, short(times[0], 7), short(times[1], 7), difference])
    return sorted(rows, key=lambda row: (-abs(_number(row[-1])), str(row[0])))


def _groups(members: Sequence[Sequence[str]]) -> list[int]:
    """For each list of names the number of its group: lists with a name in common are of one group.

    >>> _groups([["a"], ["b"], ["c"], ["a", "b"]])
    [0, 0, 2, 0]
    """
    parent = list(range(len(members)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    owner: dict[str, int] = {}
    for index, names in enumerate(members):
        for name in names:
            one, two = root(owner.setdefault(name, index)), root(index)
            parent[max(one, two)] = min(one, two)
    return [root(index) for index in range(len(members))]


def _title(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return " + ".join(names[:_NAMED]) + more


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0
