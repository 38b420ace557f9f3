"""The work of a composite: its body in phases, all in one task.

Most bodies are one chain and so one phase: nothing but their inputs and outputs touches global memory.
Reductions over different axes, matrix products and transposes start phases of their own; what passes from
phase to phase lies in the task's workspace. Where a body can be cut in several ways (`composite_plans`) the
lowering takes the quickest, so that a composite is never slower than its parts one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops.fused.composite_body import Body
from ascendsim.ops.fused.composite_plans import Plan, plans_of, stores, works_of
from ascendsim.opset import OpSet
from ascendsim.opset.regions import with_regions
from ascendsim.opset.work import (
    AiCpuWork,
    CubeWork,
    FilterWork,
    LowerContext,
    MoveWork,
    NoTask,
    Part,
    Ref,
    ScalarWork,
    SequenceWork,
    VectorWork,
    Way,
    Work,
    WorkChoice,
    workspace_of,
)


def composite_work(graph: Graph, outer: Mapping[Tensor, Ref], opset: OpSet, context: LowerContext) -> Work:
    """The work of a body.

    Args:
        graph: Body of the composite.
        outer: Global memory of its inputs and outputs.
        opset: Operators.
        context: The chip.

    Raises:
        GraphError: If an operator repeats work in a way that cannot be part of a composite; names it.
    """
    body = Body(graph, outer, opset, context)
    found = dict.fromkeys(work for plan in plans_of(body) if (work := _of_plan(body, plan)) is not None)
    ways: list[Way] = [work for work in found if not isinstance(work, NoTask)]
    works = [body.lowered(node) for node in body.nodes]
    if any(isinstance(work, AiCpuWork) for work in works):
        ways.append(_on_ai_cpu(body, works))
    if not ways:
        return NoTask()
    return ways[0] if len(ways) == 1 else WorkChoice(tuple(ways))


def _of_plan(body: Body, plan: Plan) -> Way | NoTask | None:
    """The phases of a plan one after the other; None if one does not fit together."""
    joined = works_of(body, plan)
    if joined is None:
        return None
    by_itself = len(plan) > 1 and all(len(phase) == 1 for phase in plan)
    works: list[Work] = []
    for phase, work in zip(plan, joined, strict=True):
        works.append(body.single(phase[0]) if work is None or by_itself else work)
    copies = body.copies() if body.copied else None
    if copies is not None:
        works.append(copies)
    parts: list[Part] = []
    for number, item in enumerate(works):
        if isinstance(item, SequenceWork) and item.repeat == 1 and not item.workspace_bytes:
            parts.extend(item.parts)
        elif isinstance(item, (CubeWork, FilterWork, VectorWork, MoveWork, ScalarWork, AiCpuWork)):
            parts.append(item)
        elif not isinstance(item, NoTask):
            node = plan[number][0]
            raise GraphError(
                f"node {node.name!r} ({node.op_type})", "cannot be part of a composite", remedy="leave it out"
            )
    if len(parts) <= 1:
        return parts[0] if parts else NoTask()
    places = shared_scratch(body, plan)
    return SequenceWork(with_regions(tuple(parts), lambda name: places.get(name, name)))


def shared_scratch(body: Body, plan: Plan) -> dict[str, str]:
    """New names for workspace: a tensor takes the place of one that no later phase reads, as L2 then has
    nothing to save of that.
    """
    made: dict[Tensor, int] = {}
    last: dict[Tensor, int] = {}
    for number, phase in enumerate(plan):
        for tensor in stores(body, plan, number):
            if body.ref(tensor).region == workspace_of(tensor.name):
                made[tensor] = last[tensor] = number
        last.update(
            (tensor, number)
            for node in phase
            for tensor in body.reads(node)
            if tensor in made and tensor.producer not in phase
        )
    free_from: list[tuple[int, int]] = []  # by place: the first phase that may write it anew, and its bytes
    names: dict[str, str] = {}
    for tensor, number in made.items():
        size = body.bytes(tensor)
        free = [place for place, (first, _) in enumerate(free_from) if first <= number]
        place = min(free, key=lambda place: (abs(free_from[place][1] - size), place), default=len(free_from))
        held = (last[tensor] + 1, max(size, free_from[place][1] if place < len(free_from) else 0))
        free_from[place : place + 1] = [held]
        names[workspace_of(tensor.name)] = workspace_of(str(place))
    return names


def _on_ai_cpu(body: Body, works: Sequence[Work]) -> AiCpuWork:
    """A body on the AI CPU as a whole, where it has operators that the AI Core lacks: one dispatch."""
    elements = [tensor.elements for node in body.nodes for tensor in node.outputs]
    given = [work for work in works if isinstance(work, AiCpuWork)]
    extra = sum(work.elements * (work.operations - 1.0) for work in given)
    total = max(1, sum(elements))
    inputs = tuple(body.refs[tensor] for tensor in body.graph.inputs)
    outputs = tuple(body.refs[tensor] for tensor in body.graph.outputs)
    return AiCpuWork(total, 1.0 + max(0.0, extra) / total, inputs, outputs)
