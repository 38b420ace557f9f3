"""RpnProposalsD: boxes against a plain loop over the published steps, what it refuses, and its work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import GraphError
from ascendsim.isa.instructions import Vector
from ascendsim.isa.walk import static
from tests.support.single_node import infer, run

Array = Any
SETTINGS: dict[str, Any] = {
    "img_size": (60, 90),
    "score_threshold": 0.3,
    "k": 48,
    "min_size": 5.0,
    "nms_threshold": 0.5,
    "post_nms_num": 32,
}


def inputs(boxes: int = 160, seed: int = 3) -> list[Array]:
    """Boxes of all sizes, some of them beyond the image; scores among which some are equal."""
    rng = np.random.default_rng(seed)
    low = rng.uniform(-20, 80, (boxes, 2))
    corners = np.concatenate([low, low + rng.uniform(0, 40, (boxes, 2))], axis=1)
    scores = np.round(rng.uniform(0, 1, (boxes, 1)), 2)
    return [np.round(corners * 4).astype(np.float32) / 4, scores.astype(np.float32)]


def overlap(one: list[float], other: list[float]) -> float:
    """Intersection over union of boxes whose sides count their pixels."""
    wide = min(one[2], other[2]) - max(one[0], other[0]) + 1
    high = min(one[3], other[3]) - max(one[1], other[1]) + 1
    if wide <= 0 or high <= 0:
        return 0.0
    both = sum((box[2] - box[0] + 1) * (box[3] - box[1] + 1) for box in (one, other))
    return wide * high / (both - wide * high)


def by_loop(boxes: Array, scores: Array, settings: dict[str, Any]) -> list[list[float]]:
    ranked = sorted(range(len(boxes)), key=lambda at: (-scores[at, 0], at))
    able = [at for at in ranked if scores[at, 0] > np.float32(settings["score_threshold"])]
    high, wide = settings["img_size"]
    kept: list[list[float]] = []
    for at in able[: settings["k"] or 6000]:
        x1, y1, x2, y2 = (float(value) for value in boxes[at])
        box = [min(max(x1, 0), wide), min(max(y1, 0), high), min(max(x2, 0), wide), min(max(y2, 0), high)]
        large = box[2] - box[0] > settings["min_size"] and box[3] - box[1] > settings["min_size"]
        if settings.get("box_filter", 1) and not large:
            continue
        if all(overlap(box, other) <= settings["nms_threshold"] for other in kept):
            kept.append(box)
    return kept[: settings["post_nms_num"]]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"k": 0},
        {"k": 16},
        {"score_threshold": 0.8},
        {"min_size": 20.0},
        {"nms_threshold": 0.1},
        {"post_nms_num": 16, "k": 0},
        {"box_filter": 0},
        {"img_size": (30, 50)},
    ],
    ids=str,
)
def test_boxes_equal_a_plain_loop(changes: dict[str, Any]) -> None:
    boxes, scores = inputs()
    settings = {**SETTINGS, **changes}
    wanted = by_loop(boxes, scores, settings)
    assert 2 < len(wanted) <= settings["post_nms_num"]
    assert not changes or wanted != by_loop(boxes, scores, SETTINGS)  # the case is worth something
    for given in (scores, scores[:, 0]):
        (found,) = run("RpnProposalsD", [boxes, given], 1, "ascend", **settings)
        np.testing.assert_array_equal(found[: len(wanted)], wanted)
        assert not found[len(wanted) :].any()


def test_scores_at_the_threshold_and_sides_at_the_least_do_not_pass() -> None:
    boxes = np.tile(np.array([[0, 0, 10, 10]], np.float32), (16, 1)) + 20 * np.arange(16)[:, None]
    boxes[1, 2] = boxes[1, 0] + 5
    scores = np.full((16, 1), 0.5, np.float32)
    scores[2] = 0.25
    (found,) = run(
        "RpnProposalsD",
        [boxes.astype(np.float32), scores],
        1,
        "ascend",
        **{**SETTINGS, "img_size": (400, 400), "score_threshold": 0.25},
    )
    kept = [at for at in range(16) if at not in (1, 2)]
    np.testing.assert_array_equal(found[:14], boxes[kept])
    assert not found[14:].any()


def test_numbers_that_are_none_propose_nothing() -> None:
    boxes, scores = inputs()
    assert not run("RpnProposalsD", [boxes, scores * np.nan], 1, "ascend", **SETTINGS)[0].any()
    assert not run("RpnProposalsD", [boxes * np.nan, scores], 1, "ascend", **SETTINGS)[0].any()


@pytest.mark.parametrize(
    ("shapes", "attributes", "message"),
    [
        ([(32, 5), (32, 1)], {}, "rows of four corners as input 0.*5"),
        ([(32, 4), (32, 2)], {}, "a score for each box as input 1"),
        ([(32, 4), (48, 1)], {}, "a score for each box as input 1.*48 for 32"),
        ([(30, 4), (30, 1)], {}, "multiple of 16.*30"),
        (None, {"img_size": (60,)}, "img_size of two numbers"),
        (None, {"img_size": (60, 3001)}, "width up to 3000"),
        (None, {"score_threshold": -0.1}, "score_threshold of at least 0"),
        (None, {"k": 40}, "multiple of 16.*40"),
        (None, {"k": 6016}, "from 0 to 6000.*6016"),
        (None, {"min_size": 61.0}, "the image's shorter side.*61"),
        (None, {"nms_threshold": 1.5}, "nms_threshold from 0 to 1"),
        (None, {"post_nms_num": 0}, "post_nms_num up to 6000"),
    ],
)
def test_what_cannot_be_is_refused(shapes: Any, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        infer("RpnProposalsD", shapes or [(32, 4), (32, 1)], domain="ascend", **{**SETTINGS, **attributes})


def test_the_size_of_the_image_may_be_an_input() -> None:
    boxes, scores = inputs()
    size = np.array(SETTINGS["img_size"], np.int32)
    others = {name: value for name, value in SETTINGS.items() if name != "img_size"}
    (wanted,) = run("RpnProposalsD", [boxes, scores], 1, "ascend", **SETTINGS)
    (found,) = run("RpnProposals", [boxes, scores, size], 1, "ascend", **others)
    np.testing.assert_array_equal(found, wanted)
    (smaller,) = run("RpnProposals", [boxes, scores, size // 2], 1, "ascend", **others)
    assert smaller.max() <= max(size // 2) < wanted.max()


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (np.array([60], np.int32), "height and width of the image as input 2"),
        (np.array([[60, 90]], np.int32), "height and width of the image as input 2"),
        (np.array([60, 3001], np.int32), "width up to 3000"),
        (np.array([4, 90], np.int32), "the image's shorter side.*5"),
    ],
)
def test_sizes_that_cannot_be_are_refused(size: Array, message: str) -> None:
    boxes, scores = inputs()
    others = {name: value for name, value in SETTINGS.items() if name != "img_size"}
    b = asim.GraphBuilder("rpn")
    given = b.input("boxes", boxes.shape), b.input("scores", scores.shape)
    with pytest.raises(GraphError, match=message):
        b.op("RpnProposals", *given, b.constant(size, "size"), domain="ascend", **others)


def network(boxes: int = 160, **changes: Any) -> asim.Graph:
    builder = asim.GraphBuilder("rpn")
    given = builder.input("boxes", (boxes, 4)), builder.input("scores", (boxes, 1))
    settings = {**SETTINGS, **changes}
    builder.output(builder.op("RpnProposalsD", *given, domain="ascend", name="rpn", **settings), "best")
    return builder.build()


def test_what_float16_holds_is_the_same_on_the_device() -> None:
    boxes, _ = inputs()
    scores = (np.random.default_rng(1).permutation(160) / 160).astype(np.float16).astype(np.float32)[:, None]
    found = asim.run(asim.compile(network(), soc="Ascend310"), {"boxes": boxes, "scores": scores})
    wanted = by_loop(boxes, scores, SETTINGS)
    assert len(wanted) > 5
    np.testing.assert_array_equal(found.outputs["best"][: len(wanted)], wanted)


@pytest.mark.parametrize(("soc", "has"), [("Ascend310", True), ("Ascend310P3", True), ("Ascend910B1", False)])
def test_it_is_work_of_the_vector_unit_of_one_core(soc: str, has: bool) -> None:
    model = asim.compile(network(), soc=soc)
    (task,) = model.tasks_of("rpn")
    assert sum(group.count for group in task.groups) == 1
    ops = {
        item.op for group in task.groups for item, _ in static(group.block.body) if isinstance(item, Vector)
    }
    assert (ops >= {"vconcat", "vrpac", "viou"}) == has
    assert ops >= {"vrelu", "vmin", "vcmpv_gt"}


def span(boxes: int = 1600, **changes: Any) -> int:
    result = asim.simulate(asim.compile(network(boxes, **{"k": 0, **changes}), soc="Ascend310"))
    (record,) = [record for record in result.trace.tasks if record.name == "rpn"]
    return record.end - record.start


def test_time_follows_candidates_and_filtering_costs_a_second_sorting() -> None:
    base = span()
    assert span(k=400) < 0.6 * base
    assert span(post_nms_num=1024) > 1.3 * base
    assert span(box_filter=0) < base
    assert span(3200) > 1.5 * base
