"""The channel shuffle: which shuffles go into filters, values, what is declined; what forces TransData."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.advise import advise
from ascendsim.api.saving import load_compiled
from ascendsim.compiler.compiling import compile_until
from ascendsim.compiler.options import CompileOptions
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.layout.causes import GRAPH_INPUT, GRAPH_OUTPUT, Cause
from ascendsim.passes.levers import LEVERS, ChannelShuffle, LeverContext, apply_lever, find_sites
from ascendsim.passes.rewriting.replace import sources_of
from tests.support.evaluate import evaluate
from tests.support.fusing import build, random

OPSET = default_opset()
CONTEXT = LeverContext(OPSET)


def conv(b: GraphBuilder, x: Tensor, group: int = 1, seed: int = 0) -> Tensor:
    channels = x.static_shape[1]
    return b.op(
        "Conv",
        x,
        random(channels, channels // group, 1, 1, seed=seed),
        random(channels, seed=seed),
        group=group,
    )


def shuffle(b: GraphBuilder, x: Tensor, parts: Sequence[int], perm: Sequence[int]) -> Tensor:
    """Channels in parts, the parts in another order."""
    n, _, h, w = x.static_shape
    split = b.op("Reshape", x, np.array([n, *parts, h, w], np.int64))
    rank = len(parts) + 3
    turned = b.op("Transpose", split, perm=(0, *(axis + 1 for axis in perm), rank - 2, rank - 1))
    return b.op("Reshape", turned, np.array(x.static_shape, np.int64))


def steps(*names: str, parts: Sequence[int] = (3, 4), perm: Sequence[int] = (1, 0)) -> Graph:
    """A row of operators on maps of 12 channels: conv, grouped, relu, prelu, shuffle, out."""

    def body(b: GraphBuilder) -> list[Tensor]:
        x, outputs = b.input("x", (2, 12, 3, 3)), []
        for number, name in enumerate(names):
            if name == "conv":
                x = conv(b, x, seed=number)
            elif name == "grouped":
                x = conv(b, x, group=3, seed=number)
            elif name == "relu":
                x = b.op("Relu", x)
            elif name == "prelu":
                x = b.op("PRelu", x, random(12, 1, 1))
            elif name == "out":
                outputs.append(x)
            else:
                x = shuffle(b, x, parts, perm)
        return [*outputs, x]

    return build(body)


def shuffles(graph: Graph) -> int:
    return sum(node.op_type == "Transpose" for node in graph.nodes)


@pytest.mark.parametrize(
    "names",
    [
        ("conv", "shuffle"),
        ("conv", "relu", "shuffle", "relu"),
        ("conv", "relu", "shuffle", "conv"),
        ("grouped", "shuffle", "relu", "conv"),
        ("relu", "shuffle", "conv", "relu"),
        ("conv", "shuffle", "conv", "shuffle", "conv", "shuffle"),
    ],
)
@pytest.mark.parametrize(
    ("parts", "perm"), [((3, 4), (1, 0)), ((2, 6), (1, 0)), ((2, 3, 2), (2, 0, 1)), ((3, 4), (0, 1))]
)
def test_shuffles_that_a_convolution_takes(
    names: tuple[str, ...], parts: tuple[int, ...], perm: tuple[int, ...]
) -> None:
    graph = steps(*names, parts=parts, perm=perm)
    assert len([site for site in find_sites(graph, ChannelShuffle(), CONTEXT) if site.possible]) == shuffles(
        graph
    )
    changed = apply_lever(graph, ChannelShuffle(), CONTEXT).graph
    assert shuffles(changed) == 0
    assert [tensor.name for tensor in changed.outputs] == [tensor.name for tensor in graph.outputs]
    inputs = {"x": random(2, 12, 3, 3)}
    for new, old in zip(evaluate(changed, OPSET, inputs), evaluate(graph, OPSET, inputs), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "names",
    [
        ("grouped", "shuffle", "grouped"),  # groups see the order
        ("relu", "shuffle", "relu"),  # nobody could take it
        ("conv", "prelu", "shuffle", "relu"),  # a slope a channel
        ("conv", "out", "relu", "shuffle", "grouped"),  # the map is handed out
    ],
)
def test_shuffles_that_stay(names: tuple[str, ...]) -> None:
    graph = steps(*names)
    if "out" in names:  # the map itself, in front of Relu
        assert len(graph.outputs) == 2
    (site,) = find_sites(graph, ChannelShuffle(), CONTEXT)
    assert not site.possible
    assert "no convolution without groups" in site.reason
    assert shuffles(apply_lever(graph, ChannelShuffle(), CONTEXT).graph) == 1


def test_a_transpose_of_the_map_itself_is_no_shuffle() -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = conv(b, b.input("x", (1, 12, 4, 4)))
        split = b.op("Reshape", x, np.array([1, 3, 4, 4, 4], np.int64))
        turned = b.op("Transpose", split, perm=(0, 2, 1, 4, 3))
        return b.op("Reshape", turned, np.array([1, 12, 4, 4], np.int64))

    assert not find_sites(build(body), ChannelShuffle(), CONTEXT)


def storm() -> Graph:
    def body(b: GraphBuilder) -> Tensor:
        x = b.input("x", (1, 32, 16, 16))
        for number in range(3):
            weights = random(32, 32, 3, 3, seed=number) * 0.1
            x = shuffle(b, b.op("Relu", b.op("Conv", x, weights, pads=(1, 1, 1, 1))), (2, 16), (1, 0))
        return x

    return build(body)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A"])
def test_the_advisor_says_what_forces_transdata_and_takes_it_away(chip: str) -> None:
    found = advise(storm(), chip)
    rows = found.transdata.records()
    shuffled = {"Reshape", "ConfusionTransposeD"}  # of the device: fusion joins a Reshape with its Transpose
    assert rows[0]["Forced by"] in shuffled
    assert {row["Forced by"] for row in rows} <= {*shuffled, GRAPH_INPUT, GRAPH_OUTPUT}
    shown = {row["Type"]: row for row in found.operators.records()}["TransData"]
    assert sum(int(str(row["Tasks"])) for row in rows) == shown["Count"]
    assert sum(float(str(row["Share(%)"])) for row in rows) == pytest.approx(float(str(shown["Share(%)"])))
    assert str(shown["Findings"]).startswith(f"forced by {rows[0]['Forced by']} (")
    proposal = next(one for one in found.proposals if one.lever == "channel-shuffle")
    assert len(proposal.sites) == 3
    assert proposal.gain_us > 0.2 * found.duration_us
    assert any(name == "x" and "--is_input_adjust_hw_layout" in why for _, name, why in found.declined)
    after = advise(found.apply("channel-shuffle"), chip, trials=0)
    assert {row["Forced by"] for row in after.transdata.records()} <= {GRAPH_INPUT, GRAPH_OUTPUT}


def test_levers_know_what_forces_transdata() -> None:
    context = LeverContext(OPSET, forced={"a": "Reshape", "b": "MatMul (FRACTAL_NZ next to NC1HWC0)"})
    sites = find_sites(steps("conv", "relu"), ChannelShuffle(), context)
    assert [(site.node, site.possible) for site in sites] == [("a", False), ("b", False)]
    assert "one of the two operators has to change" in sites[1].reason
    assert any(isinstance(lever, ChannelShuffle) for lever in LEVERS)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910B1"])
@pytest.mark.parametrize("mode", ["force_fp16", "allow_mix_precision"])
def test_every_transdata_that_is_inserted_has_a_cause(chip: str, mode: str) -> None:
    """An operator of the graph, or one of its ends."""

    def body(b: GraphBuilder) -> list[Tensor]:
        x, other = b.input("x", (1, 16, 8, 8)), b.input("other", (1, 16, 8, 8))
        first = b.op("Conv", b.op("Relu", x), random(16, 16, 1, 1), name="first")
        both = b.op("Add", first, other)
        rows = b.op("Reshape", both, np.array([16, 64], np.int64), name="rows")
        product = b.op("MatMul", rows, random(64, 32), name="product")
        again = b.op("Reshape", b.op("Tanh", product), np.array([1, 32, 4, 4], np.int64), name="again")
        return [both, product, b.op("Conv", again, random(16, 32, 1, 1), name="second")]

    graph = compile_until(build(body), CompileOptions(chip, precision_mode=mode), "types-and-formats").graph
    turned = [node for node in graph.nodes if node.op_type == "TransData"]
    assert turned
    for node in turned:
        cause = Cause.of(node)
        assert cause is not None
        if cause.kind == GRAPH_INPUT:
            assert cause.name in [tensor.name for tensor in graph.inputs]
        elif cause.kind == GRAPH_OUTPUT:
            assert cause.name in [tensor.name for tensor in graph.outputs]
        else:
            kind = cause.kind.partition(" (")[0]
            assert cause.names in [sources_of([one]) for one in graph.nodes if one.op_type == kind]
    kinds = {cause.kind for node in turned if (cause := Cause.of(node)) is not None}
    assert {GRAPH_INPUT, GRAPH_OUTPUT, "Reshape"} <= kinds


def test_causes_are_kept_with_a_saved_model(tmp_path: Path) -> None:
    model = asim.compile(storm(), "Ascend310")
    kept = load_compiled(asim.save(model, tmp_path / "storm.asim"))
    found = [[Cause.of(node) for node in one.graph.nodes] for one in (model, kept)]
    assert found[0] == found[1]
    assert any(found[0])
