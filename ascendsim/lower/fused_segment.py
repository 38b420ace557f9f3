"""Elementwise work around a segment operator as one task.

in front    its instructions work on every row on its way to the row's place: what they made is not stored
behind      a last part of the same task, over the whole result, where the rows were added up; that the
            result is whole then is what the barrier between parts says
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ascendsim.core.errors import CompileError, Named, Subject
from ascendsim.graph.ir import Node, Tensor
from ascendsim.opset.work import MoveWork, Ref, SequenceWork, Step, Stream, VectorWork, Work


def is_segment_work(work: Work) -> bool:
    """Whether work fills its result and then carries rows to their places."""
    return (
        isinstance(work, SequenceWork)
        and work.repeat == 1
        and len(work.parts) > 1
        and isinstance(work.parts[0], VectorWork)
        and not work.parts[0].inputs
        and isinstance(work.parts[1], MoveWork)
    )


def join_segment(nodes: Sequence[Node], works: Sequence[Work], internal: Sequence[Tensor]) -> SequenceWork:
    """The work of a segment operator and of elementwise operators around it.

    Args:
        nodes: In execution order, one of them the segment operator.
        works: Of the single nodes.
        internal: Tensors that need no memory.

    Raises:
        CompileError: Says which node does not fit.
    """
    at, *others = (number for number, work in enumerate(works) if is_segment_work(work))
    if others:
        raise _refused(nodes[others[0]], "must be the only segment operator of its task")
    for node in nodes[:-1]:
        if node.output not in internal:
            raise _refused(node, "must hand its result to its task alone")
    middle = works[at]
    assert isinstance(middle, SequenceWork)
    fill, move = middle.parts[:2]
    assert isinstance(fill, VectorWork)
    assert isinstance(move, MoveWork)
    result = Ref.of(nodes[-1].output)
    if (result.shape, result.dtype, result.format) != (
        move.copies[0].dst.shape,
        move.copies[0].dst.dtype,
        move.copies[0].dst.format,
    ):
        raise _refused(nodes[-1], "must keep shape, type and format of the segments' result")
    own = {move.copies[0].dst.region: result}
    source, steps, extra = _before(nodes[:at], works[:at], move.copies[0].src)
    old = move.copies[0]
    copy = replace(
        old,
        src=source,
        dst=result,
        bytes=source.bytes,
        read_burst=old.read_burst * source.dtype.itemsize // old.src.dtype.itemsize,
        write_bytes=old.written,
    )
    inputs = tuple(own.get(ref.region, ref) for ref in (*move.extra_inputs, *extra))
    parts: list[VectorWork | MoveWork] = [
        replace(fill, outputs=(Stream(result),)),
        replace(move, copies=(copy,), steps=(*steps, *move.steps), extra_inputs=inputs),
    ]
    behind = [*middle.parts[2:], *works[at + 1 :]]
    for work in behind:
        if not isinstance(work, VectorWork) or work.reduces != "none" or len(work.outputs) != 1:
            raise _refused(nodes[at], "must have elementwise operators behind it")
        made = own.setdefault(work.outputs[0].ref.region, result)
        streams = tuple(replace(item, ref=own.get(item.ref.region, item.ref)) for item in work.inputs)
        parts.append(replace(work, inputs=streams, outputs=(replace(work.outputs[0], ref=made),)))
    return SequenceWork(tuple(parts))


def _before(
    nodes: Sequence[Node], works: Sequence[Work], source: Ref
) -> tuple[Ref, tuple[Step, ...], tuple[Ref, ...]]:
    """What the rows come from in place of `source`, the instructions on their way, and what else is read."""
    steps: tuple[Step, ...] = ()
    extra: list[Ref] = []
    for node, work in zip(reversed(nodes), reversed(works), strict=True):
        if (
            not isinstance(work, VectorWork)
            or work.reduces != "none"
            or len(work.outputs) != 1
            or work.outputs[0].ref.region != source.region
        ):
            raise _refused(node, "must hand its result to the segment operator alone")
        whole = [stream.ref for stream in work.inputs if stream.over == "all"]
        if len(whole) != 1 or math.prod(whole[0].shape) != math.prod(source.shape):
            raise _refused(node, "must work on one tensor of the size of the rows to share their way")
        extra += [stream.ref for stream in work.inputs if stream.over != "all"]
        steps = (*work.steps, *steps)
        source = whole[0]
    return source, steps, tuple(extra)


def _refused(node: Node, rule: str) -> CompileError:
    return CompileError(Subject.of("node ", Named("node", node.name), f" ({node.op_type})"), rule)
