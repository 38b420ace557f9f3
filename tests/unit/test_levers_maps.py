"""Levers on feature maps: channels to multiples of 16, sizes of Resize, the identity convolution."""

from __future__ import annotations

import numpy as np
import pytest

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.levers import (
    AlignChannels,
    IdentityConv,
    Lever,
    LeverContext,
    Relation,
    ResizeSizes,
    apply_lever,
    find_sites,
)
from ascendsim.passes.levers.resize_sizes import nearest_sizes, regular
from tests.support.evaluate import evaluate as evaluate_list
from tests.support.fusing import build, random
from tests.support.gate import in_one

CONTEXT = LeverContext(default_opset())


def evaluate(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    """Outputs by name."""
    return dict(
        zip(
            (tensor.name for tensor in graph.outputs),
            evaluate_list(graph, default_opset(), inputs),
            strict=True,
        )
    )


def conv(b: GraphBuilder, x: Tensor, out: int, kernel: int = 3, group: int = 1, seed: int = 0) -> Tensor:
    weight = random(out, x.static_shape[1] // group, kernel, kernel, seed=seed) * 0.2
    return b.op(
        "Conv",
        x,
        b.constant(weight, "w"),
        b.constant(random(out, seed=seed), "bias"),
        pads=(kernel // 2,) * 4,
        group=group,
    )


def check_same(graph: Graph, lever: Lever, tolerance: float = 1e-5) -> Graph:
    """Applies a lever everywhere and compares the outputs before and after."""
    changed = apply_lever(graph, lever, CONTEXT)
    assert changed.sites
    inputs = {tensor.name: random(*tensor.static_shape) for tensor in graph.inputs}
    before, after = evaluate(graph, inputs), evaluate(changed.graph, inputs)
    assert list(before) == list(after)
    for name, old in before.items():
        np.testing.assert_allclose(after[name], old, atol=tolerance * max(1e-3, float(np.ptp(old))))
    return changed.graph


def channels(graph: Graph) -> list[int]:
    return [node.output.static_shape[1] for node in graph.topological() if node.op_type == "Conv"]


def test_a_chain_of_convolutions_is_widened() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Relu", conv(b, b.input("x", (1, 3, 9, 9)), 24))
        return b.op("GlobalAveragePool", conv(b, b.op("MaxPool", x, kernel_shape=(2, 2)), 40))

    changed = check_same(build(body), AlignChannels())
    assert channels(changed) == [32, 48]
    assert changed.outputs[0].static_shape == (1, 40, 1, 1)  # cut out again for the network's output


def test_everything_between_convolutions_goes_along() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = conv(b, b.input("x", (2, 3, 8, 8)), 20)
        stats = [b.constant(random(20, seed=n, positive=True), "stat") for n in range(4)]
        x = b.op("BatchNormalization", x, *stats)
        x = b.op("PRelu", x, random(20, 1, 1))
        squeezed = b.op("Sigmoid", conv(b, b.op("GlobalAveragePool", x), 20, 1))
        x = b.op("Mul", x, squeezed)
        x = conv(b, x, 20, group=20)
        x = b.op("Add", b.op("Mul", x, random(1, 20, 1, 1)), 1.5)
        x = b.op("Resize", x, None, None, np.array([2, 20, 12, 12]), mode="nearest")
        x = b.op("Pad", x, np.array([0, 0, 1, 1, 0, 0, 1, 1]), mode="reflect")
        return conv(b, b.op("Clip", x, 0.0, 6.0), 16)

    changed = check_same(build(body), AlignChannels())
    assert channels(changed) == [32, 32, 32, 16]
    assert not any(node.op_type in ("Slice", "Gather") for node in changed.nodes)


def test_concat_keeps_track_of_where_channels_went() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (1, 16, 6, 6))
        parts = [conv(b, x, 8), conv(b, x, 24, 1), conv(b, x, 16)]
        joined = b.op("Concat", *parts, x, axis=1)
        shortcut = b.op("Add", joined, conv(b, x, 64, 1))
        again = b.op("Concat", shortcut, parts[0], axis=1)
        return conv(b, again, 5)

    changed = check_same(build(body), AlignChannels())
    joined = next(node for node in changed.topological() if node.op_type == "Concat")
    assert joined.output.static_shape[1] == 16 + 32 + 16 + 16
    assert [node.op_type for node in changed.nodes].count(
        "Slice"
    ) == 1  # only the network's own 5 channels are cut


def test_readers_that_mix_channels_get_them_as_they_were() -> None:
    def body(b: GraphBuilder) -> list[Tensor]:
        x = b.input("x", (1, 16, 4, 4))
        parts = b.op("Concat", conv(b, x, 8), conv(b, x, 8, seed=1), axis=1)
        return [conv(b, parts, 16), b.op("Softmax", parts, axis=1), b.op("Flatten", parts)]

    changed = check_same(build(body), AlignChannels())
    # 8 of 16 and 8 of 16 channels: no plain prefix
    assert any(node.op_type == "Gather" for node in changed.nodes)


def test_concats_that_disagree_stay() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (1, 16, 4, 4))
        one = b.op("Concat", conv(b, x, 8), conv(b, x, 24), axis=1)
        two = b.op("Concat", conv(b, x, 24, seed=2), conv(b, x, 8, seed=3), axis=1)
        return conv(b, b.op("Add", one, two), 16)

    (site,) = find_sites(build(body), AlignChannels(), CONTEXT)
    assert not site.possible
    assert "8 channels are no multiple of 16, but Concat Concat needs them where they are" in site.reason


def test_channels_that_come_from_elsewhere_stay() -> None:
    graph = build(
        lambda b: conv(b, b.op("Add", conv(b, b.input("x", (1, 8, 4, 4)), 8), b.input("y", (1, 8, 4, 4))), 16)
    )
    (site,) = find_sites(graph, AlignChannels(), CONTEXT)
    assert not site.possible
    assert "y is an input of the network" in site.reason


def test_weights_without_values_can_be_widened() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Conv", b.input("x", (1, 3, 4, 4)), b.weight("w", (24, 3, 1, 1)))
        return b.op("Conv", x, b.weight("v", (16, 24, 1, 1)))

    changed = apply_lever(build(body), AlignChannels(), CONTEXT).graph
    assert channels(changed) == [32, 16]


def test_aligned_networks_have_no_site() -> None:
    graph = build(lambda b: conv(b, conv(b, b.input("x", (1, 3, 4, 4)), 32), 16))
    assert find_sites(graph, AlignChannels(), CONTEXT) == ()


@in_one("source", range(2, 40))
@in_one("target", [2, 20, 39, 78, 100])
def test_nearest_sizes_are_regular_and_not_smaller(source: int, target: int) -> None:
    pair = nearest_sizes(source, target)
    if pair is None:
        assert target < source
        return
    assert regular(*pair)
    assert pair[0] >= source
    assert pair[1] >= target


def resize(x: Tensor, b: GraphBuilder, size: int, **attributes: str) -> Tensor:
    shape = x.static_shape
    options = {"mode": "linear", "coordinate_transformation_mode": "align_corners", **attributes}
    return b.op("Resize", x, None, None, np.array([*shape[:2], size, size]), **options)


def test_the_sizes_of_the_guide_are_proposed() -> None:
    graph = build(lambda b: resize(b.input("x", (1, 18, 175, 175)), b, 350))
    (site,) = find_sites(graph, ResizeSizes(), CONTEXT)
    assert site.relation is Relation.RETRAIN
    assert "349/174 is not integral" in site.reason
    changed = apply_lever(graph, ResizeSizes(), CONTEXT).graph
    assert changed.inputs[0].shape == (1, 18, 176, 176)
    assert changed.outputs[0].shape == (1, 18, 351, 351)


def test_inside_a_network_the_map_is_grown_and_cut() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Relu", b.input("x", (1, 2, 15, 15)))
        return b.op("Add", resize(x, b, 30), b.input("other", (1, 2, 30, 30)))

    graph = build(body)
    changed = apply_lever(graph, ResizeSizes(), CONTEXT).graph
    assert [node.op_type for node in changed.topological()] == ["Relu", "Pad", "Resize", "Slice", "Add"]
    assert changed.outputs[0].shape == graph.outputs[0].shape
    ramp = np.broadcast_to(np.arange(15, dtype=np.float32), (1, 2, 15, 15))
    inputs = {"x": ramp, "other": np.zeros((1, 2, 30, 30), np.float32)}
    old, new = evaluate(graph, inputs)["out0"], evaluate(changed, inputs)["out0"]
    assert np.abs(old - new).max() < 0.6  # of 14: points lie less than a pixel beside those of the old grid


@pytest.mark.parametrize(
    ("size", "attributes", "possible"),
    [
        (29, {}, None),
        (30, {"mode": "nearest"}, None),
        (30, {"coordinate_transformation_mode": "half_pixel"}, None),
        (7, {}, False),
    ],
)
def test_resize_that_needs_no_change_or_has_none(
    size: int, attributes: dict[str, str], possible: bool | None
) -> None:
    graph = build(lambda b: resize(b.input("x", (1, 2, 15, 15)), b, size, **attributes))
    sites = find_sites(graph, ResizeSizes(), CONTEXT)
    if possible is None:
        assert sites == () or regular(15, size)
    else:
        assert [site.possible for site in sites] == ([] if regular(15, size) else [possible])


def mirror(b: GraphBuilder, mode: str = "reflect", channels: int = 4) -> Tensor:
    padded = b.op(
        "Pad", b.input("x", (1, channels, 5, 5)), np.array([0, 0, 1, 1, 0, 0, 1, 1]), mode=mode, name="mirror"
    )
    return b.op("Mul", padded, 0.5)


def test_the_identity_convolution_changes_nothing() -> None:
    changed = check_same(build(mirror), IdentityConv(), tolerance=0.0)
    assert [node.op_type for node in changed.topological()] == ["Pad", "Conv", "Mul"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda b: mirror(b, channels=600), "600 channels make the identity too expensive"),
        (lambda b: [mirror(b), b.graph.node("mirror").output], "an output of the network itself"),
        (
            lambda b: b.op(
                "Mul", b.op("Pad", b.input("x", (4, 5)), np.array([1, 1, 1, 1]), mode="reflect"), 2.0
            ),
            "a feature map of four axes",
        ),
    ],
)
def test_identity_convolutions_that_make_no_sense_say_why(body: object, reason: str) -> None:
    (site,) = find_sites(build(body), IdentityConv(), CONTEXT)  # type: ignore[arg-type]
    assert not site.possible
    assert reason in site.reason


def test_other_pads_are_left_alone() -> None:
    assert find_sites(build(lambda b: mirror(b, "edge")), IdentityConv(), CONTEXT) == ()
