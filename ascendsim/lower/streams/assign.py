"""Streams of tasks.

What CANN does by default, and the modes of its option `--multi_stream_parallel_mode`:

    (default)       operators of one engine that depend on each other share a stream; operators of the AI CPU
                    follow the operators
                    before them on their stream unless tasks of the AI Core could run at the same time (see
                    `by_engine`)
    LoadBalance:N   all operators spread evenly over N streams
    MainStream:N    what must run one after another on the main stream, what may run beside it on up to N - 1
                    others
    cv              operators of the Cube on one stream, of the Vector unit on another
    single          one stream (`--enable_single_stream`)

The default does not part branches of AI Core operators: CANN has no multi-stream optimisation unless asked
for. For the two modes with N, tasks are dealt out in launch order to the stream on which they could start
first, by estimated times without any limit of cores (list scheduling); which stream is taken of several that
are free is what the modes differ in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.isa.instructions import Pipe
from ascendsim.isa.program import Task, TaskKind
from ascendsim.isa.walk import static
from ascendsim.lower.streams.dependencies import task_dependencies
from ascendsim.lower.streams.engines import by_engine
from ascendsim.lower.streams.events import needed_waits
from ascendsim.lower.task_cost import closed_form
from ascendsim.soc.spec import SocSpec

PARALLEL_MODES = ("cv", "LoadBalance", "MainStream")
_MOST_STREAMS = 64  # ATC: N is 1 to 64


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How many streams there are, and for what.

    Attributes:
        single: One stream for all tasks.
        mode: "", "cv", "LoadBalance" or "MainStream".
        count: Streams at most, for the two modes with a number.
    """

    single: bool = False
    mode: str = ""
    count: int = 1

    @classmethod
    def of(cls, enable_single_stream: bool = False, multi_stream_parallel_mode: str = "") -> StreamOptions:
        """Checks the options of `compile`.

        Raises:
            InputError: If the mode is not known, its number is out of range, or both options are given.

        >>> StreamOptions.of(multi_stream_parallel_mode="MainStream:4")
        StreamOptions(single=False, mode='MainStream', count=4)
        """
        mode, colon, number = str(multi_stream_parallel_mode).partition(":")
        if enable_single_stream and multi_stream_parallel_mode:
            raise InputError(
                "option multi_stream_parallel_mode",
                "goes without enable_single_stream",
                remedy="leave one of them out",
            )
        if mode in ("", "cv") and not colon:
            return cls(bool(enable_single_stream), mode)
        if mode not in PARALLEL_MODES[1:]:
            rule = "must be cv, LoadBalance:N or MainStream:N"
            raise InputError("option multi_stream_parallel_mode", rule, repr(multi_stream_parallel_mode))
        if (
            not number.isascii()
            or not number.isdigit()
            or len(number) > 2
            or not 1 <= int(number) <= _MOST_STREAMS
        ):
            raise InputError(
                "option multi_stream_parallel_mode", f"needs a number from 1 to {_MOST_STREAMS}", repr(number)
            )
        return cls(False, mode, int(number))


def with_streams(
    graph: Graph,
    tasks: Sequence[Task],
    tasks_of: Mapping[str, Sequence[int]],
    soc: SocSpec,
    options: StreamOptions,
) -> list[Task]:
    """The tasks with their streams, numbered from 0 by first use, and the events that they need.

    Args:
        graph: The lowered graph.
        tasks: Numbered in launch order.
        tasks_of: Tasks of each node.
        soc: The chip; its costs decide where modes balance.
        options: How to deal tasks out.
    """
    on_ai_cpu = [task.kind is TaskKind.AI_CPU for task in tasks]
    if options.single or (not options.mode and len(set(on_ai_cpu)) < 2):  # one engine has one stream
        return list(tasks)
    needs = task_dependencies(graph, tasks, tasks_of)
    if options.mode == "cv":
        streams = [_unit_of(task) for task in tasks]
    elif options.mode:
        streams = _dealt_out(tasks, needs, soc, options)
    else:
        streams = by_engine(on_ai_cpu, needs)
    numbers = {stream: number for number, stream in enumerate(dict.fromkeys(streams))}
    streams = [numbers[stream] for stream in streams]
    waits = needed_waits(streams, needs)
    return [
        replace(task, stream=stream, waits_for=awaited)
        for task, stream, awaited in zip(tasks, streams, waits, strict=True)
    ]


def _unit_of(task: Task) -> int:
    """0 for tasks that use the Cube, 1 for those that do not, 2 for the AI CPU."""
    if task.kind is TaskKind.AI_CPU:
        return 2
    cube = any(
        instruction.pipe is Pipe.M
        for group in task.groups
        for instruction, _ in static(group.block.template.body)
    )
    return 0 if cube else 1


def _dealt_out(
    tasks: Sequence[Task], needs: Sequence[Sequence[int]], soc: SocSpec, options: StreamOptions
) -> list[int]:
    """List scheduling: each task on the stream where it could start first; ties as the mode has them."""
    free, load = [0.0] * options.count, [0.0] * options.count
    ends: list[float] = []
    streams: list[int] = []
    known: dict[Hashable, float] = {}  # equal layers cost the same
    preferred: Callable[[int], tuple[float, int]] = (
        (lambda stream: (load[stream], stream))
        if options.mode == "LoadBalance"
        else (lambda stream: (0.0, stream))
    )
    for task, needed in zip(tasks, needs, strict=True):
        ready = max((ends[other] for other in needed), default=0.0)
        stream = min(range(options.count), key=lambda s: (max(free[s], ready), *preferred(s)))
        kind = (tuple((id(group.block.template), group.count) for group in task.groups), task.cpu_us)
        if kind not in known:
            known[kind] = closed_form(task, soc).near
        seconds = known[kind]
        ends.append(max(free[stream], ready) + seconds)
        free[stream] = ends[-1]
        load[stream] += seconds
        streams.append(stream)
    return streams
