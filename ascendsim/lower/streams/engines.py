r"""Streams by engine and dependency, as GE's AssignByDependencyPass deals them out.

GE cuts the graph into parts of operators of one engine, as large as they can be without waiting for each
other in a circle. A part takes over the stream of one that it depends on, if that is of the same engine, or
if it is of the AI CPU (an engine that "attaches": assumed), or if that one took its stream over from its own
engine; but not if another part of the predecessor's engine follows the predecessor too, which would then have
to wait. All others get a stream of their own (GE logical_stream_allocator.cc).

    core - cpu - core             one stream
    core - cpu - core             cpu gets its own stream, since the second core part could run beside it
        \- core -/
"""

from __future__ import annotations

from collections.abc import Sequence


def by_engine(on_ai_cpu: Sequence[bool], needs: Sequence[Sequence[int]]) -> list[int]:
    """Streams of tasks, by engine.

    Args:
        on_ai_cpu: By task, in launch order: whether the AI CPU runs it (else an AI Core).
        needs: By task: tasks that must have ended.

    >>> by_engine([False, True, False], [(), (0,), (1,)])
    [0, 0, 0]
    >>> by_engine([False, True, False, False], [(), (0,), (0,), (1, 2)])
    [0, 1, 0, 0]
    """
    if len(set(on_ai_cpu)) < 2:
        return [0] * len(on_ai_cpu)
    parts = _parts(on_ai_cpu, needs)
    engine: dict[int, bool] = dict(zip(parts, on_ai_cpu, strict=True))
    before: dict[int, dict[int, None]] = {part: {} for part in engine}
    after: dict[int, dict[int, None]] = {part: {} for part in engine}
    for part, needed in zip(parts, needs, strict=True):
        for other in dict.fromkeys(parts[task] for task in needed):
            if other != part:
                before[part][other] = None
                after[other][part] = None
    stream: dict[int, int] = {}
    origin: dict[int, int] = {}  # the part that a stream was made for
    for part in sorted(
        engine
    ):  # what a part depends on has a smaller number, though its first task may be launched later
        taken = next(
            (other for other in before[part] if _may_reuse(part, other, engine, after, origin)), None
        )
        origin[part] = part if taken is None else origin[taken]
        stream[part] = len(set(stream.values())) if taken is None else stream[taken]
    return [stream[part] for part in parts]


def _may_reuse(
    part: int, other: int, engine: dict[int, bool], after: dict[int, dict[int, None]], origin: dict[int, int]
) -> bool:
    """Whether a part may follow another one on its stream."""
    if any(rival != part and engine[rival] == engine[other] for rival in after[other]):
        return False
    return engine[part] or engine[part] == engine[other] or engine[part] == engine[origin[other]]


def _parts(on_ai_cpu: Sequence[bool], needs: Sequence[Sequence[int]]) -> list[int]:
    """By task: the number of its part.

    Tasks of one engine between which the longest path changes engines equally often can be one part without a
    cycle.
    """
    changes: list[int] = []
    for here, needed in zip(on_ai_cpu, needs, strict=True):
        changes.append(
            max((changes[other] + (on_ai_cpu[other] != here) for other in needed), default=int(here))
        )
    return changes
