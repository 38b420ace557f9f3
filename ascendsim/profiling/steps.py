"""Steps of tasks that repeat a sequence of parts (LSTM, GRU, RNN): what one costs, and what bounds it."""

from __future__ import annotations

from collections.abc import Iterable

from ascendsim.core.errors import InputError
from ascendsim.core.table import Row, Table
from ascendsim.isa.instructions import Loop, SetFlag, WaitFlag
from ascendsim.isa.program import Block, BlockGroup, CoreKind
from ascendsim.lower.templates.sequence import STEP
from ascendsim.profiling.metrics import PIPE_NAMES
from ascendsim.profiling.select import select
from ascendsim.profiling.view import ProfiledRun, TaskView

_CUBE_SIDE, _VECTOR_SIDE = frozenset({"M", "MTE1", "FIX"}), frozenset({"V", "MTE3"})


def steps(run: ProfiledRun, operators: str | Iterable[str] | None = None) -> Table:
    """One row a task that repeats a sequence: how often, the time of a step, how long each pipe of an average
    core is busy in it, how long the cores wait until all have come to a barrier and go on, and the longest
    of these as the bound.

    Pipes that hand over to one another within a step do not overlap, so that the columns may add up to the
    time of the step, and "Other(us)" is what is in none of them.

    Args:
        run: The run.
        operators: As `select` takes them; None = all tasks that repeat a sequence.

    Raises:
        InputError: If a name matches no task, or only tasks without steps.
    """
    names = [f"{name}(us)" for name in PIPE_NAMES.values()]
    columns = ("Task ID", "Op Name", "Steps", "Step(us)", *names, "Barriers(us)", "Other(us)", "Bound")
    rows = [
        _row(run, view, loop)
        for view in select(run, operators=operators)
        if (loop := _step_of(view)) is not None
    ]
    if operators is not None and not rows:
        raise InputError(
            f"operator {operators!r}",
            "has no steps in one task",
            remedy="a task of its own for each step is a row of op_summary()",
        )
    return Table("steps", columns, tuple(rows))


def _row(run: ProfiledRun, view: TaskView, loop: Loop) -> Row:
    blocks = {kind: sum(g.count for g in view.task.groups if g.block.core is kind) for kind in CoreKind}
    start = run.soc.launch.kernel_init_ns / 1000
    total = run.us(view.record.block_ticks) / view.record.blocks - start
    step = total / loop.trips
    busy = {
        name: run.us(view.busy(pipe)) / loop.trips / _cores(pipe, blocks) for pipe, name in PIPE_NAMES.items()
    }
    met = max(_barriers(group) for group in view.task.groups)
    busy["Barriers"] = met * run.soc.issue.barrier_ns / 1000
    other = max(0.0, step - sum(busy.values()))
    bound = max(busy, key=lambda name: busy[name])
    return (view.id, view.name, loop.trips, step, *busy.values(), other, bound)


def _cores(pipe: str, blocks: dict[CoreKind, int]) -> int:
    """Blocks whose cores have a pipe."""
    of_kind = {CoreKind.CUBE: pipe not in _VECTOR_SIDE, CoreKind.VECTOR: pipe not in _CUBE_SIDE}
    return max(1, sum(count for kind, count in blocks.items() if of_kind.get(kind, True)))


def _step_of(view: TaskView) -> Loop | None:
    """The loop over the steps of a task, if it has one."""
    found = (_loop(group.block) for group in view.task.groups)
    return next((loop for loop in found if loop is not None), None)


def _loop(block: Block) -> Loop | None:
    body = block.template.body
    return body[0] if len(body) == 1 and isinstance(body[0], Loop) and body[0].variable == STEP else None


def _barriers(group: BlockGroup) -> int:
    """How often in a step the cores wait for one another; a barrier sets each of its flags once."""
    loop = _loop(group.block)
    shared = {flag.name for flag in group.block.flags if flag.shared}
    count, told = 0, set[str]()
    for item in () if loop is None else loop.body:
        flag = item.flag if isinstance(item, (SetFlag, WaitFlag)) and item.flag in shared else ""
        if not flag:
            told = set()
        elif isinstance(item, SetFlag):
            if not told or flag in told:
                count, told = count + 1, set()
            told.add(flag)
    return count
