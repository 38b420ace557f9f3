"""SoftmaxCrossEntropyWithLogits as the kernels of CANN's first years go about it (opp,
softmax_cross_entropy_with_logits.py, and the schedule of TBE that belongs to it).

Rows that a core has in UB together are worked on together, but for what is made of each of them: its largest
score, the sum of its powers and its loss. Rows of whole blocks of 16 values are reduced where they lie;
others are copied to the start of a buffer first, number by number. The loss is a number a row, so a core has
as many rows as fill a block of 32 B at least; where so many rows of all cores do not fit into UB, and where
rows of more than 128 scores fill no whole blocks, they are gone through one by one instead, and what is made
of one on the way lies in global memory.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import BLOCK_BYTES, Format, ceil_div
from ascendsim.graph.ir import Node
from ascendsim.ops.shared.common import converted
from ascendsim.opset.refs import Ref, workspace_of
from ascendsim.opset.steps import REGISTER, Step
from ascendsim.opset.work import LowerContext, SequenceWork, Stream, VectorWork

_WIDE, _NARROW = DType.FLOAT32, DType.FLOAT16  # maxima along a row exist in float16 alone
_IN_PLACE = 16  # rows of a multiple of so many scores are reduced where they lie
_LONG = 128  # scores of a row, beyond which rows of no whole blocks of 32 B are gone through one by one
_UB_VALUES = 5248  # of float32 that UB has room for, all values of a row counted: 124 KiB over 6 of them
# bytes that a core has at least where rows are longer than there are rows, and where not
_FEWEST_BYTES = (8 * 1024, 512)


def loss_by_rows(node: Node, context: LowerContext) -> VectorWork | SequenceWork:
    """The work.

    Args:
        node: Of rows x classes, all of them positive.
        context: The chip.
    """
    scores = node.required(0)
    rows, classes = scores.static_shape
    item = scores.element_type.itemsize
    least = BLOCK_BYTES // item
    parts = shared_by(rows, classes, item, context.cores)
    tile = min(ceil_div(rows, parts), _UB_VALUES // classes)
    ragged = classes > _LONG and classes * _WIDE.itemsize % BLOCK_BYTES
    if ragged or not tile or (parts > 1 and tile < least):
        return _through_memory(node, max(least, ceil_div(rows, context.cores)))
    return _in_buffer(node, parts, copies=classes % _IN_PLACE != 0 and tile > 1)


def shared_by(rows: int, classes: int, itemsize: int, cores: int) -> int:
    """Cores that share rows which stay in UB: they have equally many, and some bytes at least. Where rows are
    longer than there are rows, it is as many as can be, or one.

    >>> shared_by(32, 10, 4, 32), shared_by(64, 100, 4, 30), shared_by(256, 100, 4, 30)
    (2, 1, 16)
    """
    most, fewest = min(cores, rows * itemsize // BLOCK_BYTES), _FEWEST_BYTES[rows > classes]
    even = [parts for parts in range(most, 0, -1) if rows % parts == 0]
    tried = even if rows > classes else even[:1]
    return next((parts for parts in tried if rows // parts * classes * itemsize >= fewest), 1)


def _in_buffer(node: Node, parts: int, copies: bool) -> VectorWork:
    scores, labels = node.required(0), node.required(1)
    rows, classes = scores.static_shape
    copied = (Step(REGISTER, _WIDE),) if copies else ()
    body = (
        Step("vconv", _NARROW),
        *copied,
        Step("vcmax", _NARROW),
        Step("vconv", _WIDE, "row"),
        *(Step(op, _WIDE) for op in ("vsub", "vexp")),
        *copied,
        *(Step(op, _WIDE) for op in ("vcadd", "vdiv", "vln", "vsub", "vmul", "vmuls")),
        *copied,
        *(Step(op, _WIDE) for op in ("vcadd", "vsub")),
    )
    given = [scores.element_type, labels.element_type]
    return VectorWork(
        rows,
        classes,
        converted(body, given, node.outputs[1].element_type, _WIDE),
        (Stream(Ref.of(scores)), Stream(Ref.of(labels))),
        (Stream(Ref.of(node.outputs[0]), "row"), Stream(Ref.of(node.outputs[1]))),
        reduces="cols",
        sweeps=3,
        in_turn=not copied,
        blocks=parts,
    )


def _through_memory(node: Node, each: int) -> SequenceWork:
    """A row of each core at a time: scores less the largest one, their powers, the sum of these for each of
    them, the loss and the gradient, one after the other by way of global memory.

    Args:
        node: The node.
        each: Rows of a core.
    """
    rows, classes = node.required(0).static_shape
    parts = ceil_div(rows, each)

    def row(ref: Ref) -> Ref:
        return replace(ref, shape=(parts, classes), bytes=parts * classes * ref.dtype.itemsize)

    def kept(name: str) -> Ref:
        return Ref(workspace_of(name), (parts, classes), _WIDE, Format.ND, parts * classes * _WIDE.itemsize)

    scores, labels, gradient = (row(Ref.of(one)) for one in (*node.inputs[:2], node.outputs[1]) if one)
    loss = Ref.of(node.outputs[0])
    loss = replace(loss, shape=(parts,), bytes=parts * loss.dtype.itemsize)
    shifted, powers, total = kept("shifted"), kept("powers"), kept("total")

    def part(ops: tuple[Step, ...], read: tuple[Ref, ...], made: Ref, sums: bool = False) -> VectorWork:
        given = [ref.dtype for ref in read if ref.dtype is not _WIDE]
        before = tuple(Step("vconv", _WIDE) for _ in given)
        after = () if made.dtype is _WIDE else (Step("vconv", _WIDE, "row" if made is loss else "all"),)
        return VectorWork(
            parts,
            classes,
            (*before, *ops, *after),
            tuple(Stream(ref) for ref in read),
            (Stream(made, "row" if made is loss else "all"),),
            reduces="cols" if sums else "none",
            in_turn=sums,
            blocks=parts,
            overlaps=False,
        )

    def wide(*ops: str) -> tuple[Step, ...]:
        return tuple(Step(op, _WIDE) for op in ops)

    largest = (Step("vconv", _NARROW), Step("vcmax", _NARROW), Step("vconv", _WIDE, "row"))
    stages = (
        part((*largest, *wide("vsub")), (scores, scores), shifted, sums=True),
        part(wide("vexp"), (shifted,), powers),
        part(wide("vcadd", "vadds"), (powers,), total, sums=True),
        part(wide("vln", "vsub", "vmul", "vmuls", "vcadd"), (total, shifted, labels), loss, sums=True),
        part(wide("vdiv", "vsub"), (powers, total, labels), gradient),
    )
    return SequenceWork(stages, repeat=each, workspace_bytes=3 * math.prod(shifted.shape) * _WIDE.itemsize)
