"""RpnProposals and RpnProposalsD (domain "ascend"): the best of boxes that are decoded already, as the region
proposal network of a detector of TensorFlow's ends.

Inputs: rois [N, 4], corners x1, y1, x2, y2; cls_bg_prob [N, 1] or [N], their scores; of RpnProposals img_size
[2] besides, which RpnProposalsD has as an attribute. Output: sorted_box [post_nms_num, 4], best first, zeros
behind the last one.

Names, attributes, ranges and steps are those of CANN's kernel:

    top k    the k best scores above score_threshold (k = 0: all, up to 6000)
    cut      to the image, img_size = height and width: coordinates from 0 to its sides
    filter   with box_filter, a box goes unless both its sides are longer than min_size
    NMS      in this order, a box goes if its intersection over union with one that stays is above
             nms_threshold; post_nms_num stay at most

The threshold counts whatever score_filter says, and score_sigmoid changes nothing, since scores are not
handed out: both as in the kernel. Areas count pixels (x2 - x1 + 1), as in Proposal, whose instructions these
are (assumed: what is published of them does not say).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.graph.ir import Array, Node
from ascendsim.ops.image.proposal import GRAIN, MOST_BOXES, NUMBERS, comparisons, scratch, suppression_work
from ascendsim.ops.reduce.sorting import sorting_steps
from ascendsim.ops.shared.common import as_float32, computing_type, finish, make_steps, on_ai_cpu
from ascendsim.ops.shared.dims import may_equal
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import CHOSEN, NOTHING_SAID, AxisMap, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import LowerContext, NoTask, Ref, SequenceWork, Step, Stream, VectorWork, Work

_MOST_SIDES = (2000, 3000)  # of an image: height, width
# CANN's instructions for each step and box: coordinates and score into vectors of their own; cutting and
# filtering between two transpositions of a region proposal's eight numbers
_COMBINING = (("vadds", 5),)
_CUTTING = (("vnchwconv", 8), ("vrelu", 8), ("vmin", 4))
_FILTERING = (("vsub", 2), ("vcmpv_gt", 2), ("vand", 1), ("vsel", 1))
_BACK = (("vnchwconv", 8),)
_HELD = 16  # values of a box that are in UB at once meanwhile


@dataclass(frozen=True, slots=True)
class _Settings:
    """A node's attributes."""

    image: tuple[int, ...]
    least_score: float
    best: int
    least_side: float
    overlap: float
    after: int
    filtered: bool

    @classmethod
    def of(cls, node: Node, image: Sequence[int] | None = None) -> _Settings:
        """Those of a node; `image` as it comes at run time."""
        return cls(
            tuple(int(side) for side in (node.attr("img_size", ()) if image is None else image)),
            float(node.attr("score_threshold", 0.0)),
            int(node.attr("k", 0)),
            float(node.attr("min_size", 0.0)),
            float(node.attr("nms_threshold", 0.7)),
            int(node.attr("post_nms_num", 0)),
            bool(node.attr("box_filter", 1)),
        )

    def fault(self, image: bool = True) -> tuple[str, object] | None:
        """The first attribute that is out of range: the rule, and what it is.

        Args:
            image: Whether the image's size is known.
        """
        high, wide = _MOST_SIDES if image else (0, 0)
        sides = zip(self.image, _MOST_SIDES, strict=False)
        if image and (len(self.image) != 2 or not all(0 < side <= most for side, most in sides)):
            rule = f"needs an img_size of two numbers, height up to {high} and width up to {wide}"
            return rule, list(self.image)
        if not 0 <= self.least_score < math.inf:
            return "needs a score_threshold of at least 0", self.least_score
        if not 0 <= self.best <= MOST_BOXES or self.best % GRAIN:
            return f"needs a k from 0 to {MOST_BOXES} that is a multiple of {GRAIN}", self.best
        if not 0 <= self.least_side <= min(self.image, default=math.inf):
            return "needs a min_size from 0 to the image's shorter side", self.least_side
        if not 0 <= self.overlap <= 1:
            return "needs an nms_threshold from 0 to 1", self.overlap
        if not 1 <= self.after <= MOST_BOXES or self.after % GRAIN:
            return f"needs a post_nms_num up to {MOST_BOXES} that is a multiple of {GRAIN}", self.after
        return None

    def kept(self, boxes: int) -> int:
        """How many boxes go into NMS, at most."""
        return min(self.best or MOST_BOXES, boxes)


def _infer_sized(context: InferContext) -> None:
    """With the image's size as an input, whose values may be known."""
    shape, values = context.shape(2), context.value(2)
    if not may_equal(shape, (2,)):
        raise context.fail("needs height and width of the image as input 2", f"shape {shape}")
    _infer_boxes(context, None if values is None else [int(side) for side in values.reshape(-1)])


def _infer(context: InferContext) -> None:
    _infer_boxes(context, context.node.attr("img_size", ()))


def _infer_boxes(context: InferContext, image: Sequence[int] | None) -> None:
    settings = _Settings.of(context.node, image or ())
    fault = settings.fault(image is not None)
    if fault is not None:
        raise context.fail(*fault)
    boxes, scores = context.shape(0), context.shape(1)
    if boxes is not None and (len(boxes) != 2 or (isinstance(boxes[1], int) and boxes[1] != 4)):
        raise context.fail("needs rows of four corners as input 0", f"shape {boxes}")
    columns = (1,) if scores is None else scores[1:]
    if len(columns) > 1 or any(isinstance(size, int) and size != 1 for size in columns) or scores == ():
        raise context.fail("needs a score for each box as input 1", f"shape {scores}")
    if boxes is not None and scores is not None:
        count, other = boxes[0], scores[0]
        if isinstance(count, int) and isinstance(other, int) and count != other:
            raise context.fail("needs a score for each box as input 1", f"{other} for {count}")
        if isinstance(count, int) and count % GRAIN:
            raise context.fail(f"needs a number of boxes that is a multiple of {GRAIN}", count)
    for port in (0, 1):
        if not context.dtype(port).is_float:
            raise context.fail(f"needs floating-point numbers as input {port}", context.dtype(port).value)
    context.set(0, context.dtype(0), (settings.after, 4))


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    from ascendsim_kernels.detection import suppress

    settings = _Settings.of(node, inputs[2] if len(inputs) > 2 else None)
    boxes, scores = (as_float32(array).astype(np.float32) for array in inputs[:2])
    scores = scores.reshape(-1)
    candidates = np.flatnonzero(scores > np.float32(settings.least_score))
    order = np.argsort(-scores[candidates], kind="stable")
    best = candidates[order][: settings.kept(len(scores))]
    high, wide = settings.image
    corners = np.array([wide, high, wide, high], np.float32)
    cut = np.minimum(np.maximum(boxes[best], np.float32(0)), corners)
    cut = cut[~np.isnan(cut).any(axis=1)]
    if settings.filtered:
        cut = cut[(cut[:, 2:] - cut[:, :2] > np.float32(settings.least_side)).all(axis=1)]
    pixels = cut + np.array([0, 0, 1, 1], np.float32)
    rank = -np.arange(len(cut), dtype=np.float32)  # the best come first already
    stay = suppress(pixels, rank, settings.overlap, settings.after)
    result = np.zeros((settings.after, 4), np.float32)
    result[: len(stay)] = cut[stay]
    return [finish(result, wanted[0])]


def _lower(node: Node, context: LowerContext) -> Work:
    """On one core, as CANN's kernel: its parts hand each other one list. Without the instructions for region
    proposals, by what they are made of; without those that sort, on the AI CPU.
    """
    rois, scores = node.required(0), node.required(1)
    boxes = rois.static_shape[0]
    if boxes == 0:
        return NoTask()
    settings = _Settings.of(node)
    kept = settings.kept(boxes)
    inside = computing_type(rois.element_type, context)
    ordering = sorting_steps(context, inside, boxes, kept)
    again = sorting_steps(context, inside, kept, kept)
    if ordering is None or again is None:
        return on_ai_cpu(node, math.log2(max(2, boxes)) + comparisons(settings.after, kept))
    whole = context.supports("viou", inside)
    built = (Step("vconcat", inside, count=5),) if whole else ()
    proposals = scratch(rois.name, (1, boxes, NUMBERS), inside)
    best = scratch(scores.name, (1, kept, NUMBERS), inside)
    given = (Stream(Ref.of(rois)), Stream(Ref.of(scores)))
    size = node.input(2)
    sides = () if size is None else (Stream(Ref.of(size), "one"),)
    filtering = (*_CUTTING, *(_FILTERING if settings.filtered else ()), *_BACK)
    parts = [
        VectorWork(
            1,
            boxes,
            (*make_steps(_COMBINING, inside), *built),
            given,
            (Stream(proposals),),
            live_bytes=_HELD * inside.itemsize,
        ),
        VectorWork(1, boxes, ordering, (Stream(proposals),), (Stream(best),), reduces="cols"),
        VectorWork(
            1,
            kept,
            make_steps(filtering, inside),
            (Stream(best), *sides),
            (Stream(best),),
            live_bytes=_HELD * inside.itemsize,
        ),
    ]
    if settings.filtered:  # those that went are behind the others then
        parts.append(VectorWork(1, kept, again, (Stream(best),), (Stream(best),), reduces="cols"))
    written = (Stream(Ref.of(node.output)),)
    parts += suppression_work(
        best, images=1, kept=kept, limit=settings.after, written=written, inside=inside, whole=whole
    )
    return SequenceWork(tuple(parts), workspace_bytes=proposals.bytes + best.bytes)


def _links(node: Node) -> AxisMap:
    """Which boxes stay depends on all scores."""
    rank = rank_of(node, 1)
    if rank is None:
        return NOTHING_SAID
    size = {} if node.input(2) is None else {(2, 0): (CHOSEN,)}
    return AxisMap({(0, 0): (CHOSEN, CHOSEN), (1, 0): (CHOSEN,) * rank, **size})


OPERATORS = (
    OpDef(
        "RpnProposals",
        _infer_sized,
        _compute,
        _lower,
        Layout.ND,
        domain="ascend",
        most_inputs=3,
        facts=Facts(_links, Kind.OTHER, Precision.GRAY, parameters=(2,)),
    ),
    OpDef(
        "RpnProposalsD",
        _infer,
        _compute,
        _lower,
        Layout.ND,
        domain="ascend",
        most_inputs=2,
        facts=Facts(_links, Kind.OTHER, Precision.GRAY),
    ),
)
