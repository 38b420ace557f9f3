"""Batch normalisation in training under UB fusion: its sums join the convolution before it, its update the
operators behind it."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.isa.instructions import Move, Pipe, Vector
from ascendsim.lower.templates.stage import Stage
from ascendsim.passes.fusion.rules.normalise.split_batchnorm import FusedBatchnormFusionPass
from tests.support.fusing import build, fused, random
from tests.support.gate import in_turn
from tests.support.lowering import executed
from tests.support.ub import Fused, moved, same_values, ub

COUPLED = ("Ascend310", "Ascend310P3", "Ascend910A")
SHAPES = [  # images, channels in and out, size, kernel, groups
    (2, 32, 32, 14, 3, 1),
    (1, 16, 24, 9, 1, 1),
    (3, 32, 48, 7, 3, 2),
    (4, 64, 128, 14, 1, 1),
]


def block(
    b: GraphBuilder,
    shape: tuple[int, ...],
    residual: bool = False,
    activation: str = "Relu",
    outputs: int = 3,
) -> list[Tensor]:
    """Convolution, batch normalisation in training, perhaps a sum with another branch, activation."""
    images, inner, channels, size, kernel, groups = shape
    x = b.input("x", (images, inner, size, size))
    weight = random(channels, inner // groups, kernel, kernel) / (inner * kernel * kernel) ** 0.5
    y = b.op("Conv", x, weight.astype("float32"), pads=(kernel // 2,) * 4, group=groups, name="conv")
    parameters = [
        random(channels, positive=True),
        *(random(channels, seed=seed) for seed in (1, 2)),
        random(channels, seed=3, positive=True),
    ]
    y, *running = b.ops("BatchNormalization", y, *parameters, outputs=outputs, training_mode=1, name="bn")
    if residual:
        y = b.op("Add", y, b.input("r", (images, channels, size, size)), name="add")
    return [b.op(activation, y, name="act"), *running]


def split(graph: Graph) -> Graph:
    """The graph with its normalisation in two halves."""
    return fused(graph, FusedBatchnormFusionPass()).graph


@pytest.mark.parametrize(("chip", "shape"), in_turn(COUPLED, SHAPES))
def test_both_halves_join_their_neighbours(chip: str, shape: tuple[int, ...]) -> None:
    """Programs are checked, bytes are those of the report, values are the same bits."""
    result = ub(split(build(lambda b: block(b, shape))), chip)
    assert sorted(result.scopes) == [("BNTrainingUpdate", "Relu"), ("Conv", "BNTrainingReduce")]
    assert {record.name for record in result.report.scopes} == {
        "TbeConvBnreduceFusionPass",
        "BNUpdateEltwiseFusionPass",
    }
    assert same_values(result)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910A"])
def test_the_map_is_not_read_again_for_its_sums(chip: str) -> None:
    shape = SHAPES[3]
    result = ub(split(build(lambda b: block(b, shape))), chip)
    size = shape[0] * shape[2] * shape[3] ** 2 * 2
    before, after = moved(result.before.program), moved(result.after.program)
    assert (before["conv_out", False], after["conv_out", False]) == (2 * size, size)
    assert before["conv_out", True] == after["conv_out", True] == size
    assert _vector_elements(result, "vadd") >= 2 * size // 2  # both sums see every element


def _vector_elements(result: Fused, op: str) -> int:
    """Elements of float32 instructions of a kind in the fused task of the convolution."""
    (task,) = (task for task in result.after.program.tasks if task.nodes[:1] == ("conv",))
    items = executed([Stage(task.groups)])
    return sum(
        item.elements * times
        for item, times in items
        if isinstance(item, Vector) and (item.op, item.dtype) == (op, "float32")
    )


def test_every_core_adds_its_share_to_the_sums() -> None:
    """Cores have rows of the same channels: each stores one value a channel and sum, which memory adds up."""
    shape = SHAPES[3]
    result = ub(split(build(lambda b: block(b, shape))), "Ascend910A")
    (task,) = (task for task in result.after.program.tasks if task.nodes[:1] == ("conv",))
    sums = {tensor.name for tensor in result.after.graph.node("bn_reduce").outputs}
    assert {tensor.dtype for tensor in result.after.graph.node("bn_reduce").outputs} == {DType.FLOAT32}
    stores = [
        (item, times)
        for item, times in executed([Stage(task.groups)])
        if isinstance(item, Move) and item.dst.name in sums
    ]
    assert all(item.pipe is Pipe.MTE3 for item, _ in stores)
    covered = sum(item.bytes * times for item, times in stores) // (shape[2] * 4 * 2)
    assert covered >= 1
    assert sum(group.count for group in task.groups) % covered == 0


@pytest.mark.parametrize("chip", COUPLED)
def test_the_end_of_a_residual_block_is_one_task(chip: str) -> None:
    result = ub(split(build(lambda b: block(b, SHAPES[0], residual=True))), chip)
    assert result.scopes == [("Conv", "BNTrainingReduce"), ("BNTrainingUpdate", "Add", "Relu")]
    assert result.counts["BnupdateEltwiseEltwiseFusionPass"] == (1, 1)
    assert same_values(result)


def test_mindspore_has_the_same_passes() -> None:
    for residual, name in ((False, "BnupdateEltwiseFusionPass"), (True, "BnupdateEltwiseEltwiseFusionPass")):
        result = ub(
            split(build(lambda b, residual=residual: block(b, SHAPES[0], residual))),
            "Ascend910A",
            profile="MindSpore",
        )
        assert [record.name for record in result.report.scopes] == ["ConvBnReduceFusionPass", name]
        assert same_values(result)


def test_row_major_maps_have_channels_as_rows() -> None:
    """Three-dimensional maps stay row-major; the update joins all the same, the sums do not."""

    def body(b: GraphBuilder) -> list[Tensor]:
        y = b.op("Conv", b.input("x", (2, 16, 40)), random(32, 16, 3), pads=(1, 1))
        parameters = [random(32, seed=seed, positive=True) for seed in range(4)]
        y, *running = b.ops("BatchNormalization", y, *parameters, outputs=3, training_mode=1)
        return [b.op("Relu", y), *running]

    result = ub(split(build(body)), "Ascend910A")
    assert result.scopes == [("BNTrainingUpdate", "Relu")]
    assert any("must be elementwise" in reason for reason in result.reasons)
    assert same_values(result)


def test_split_cores_keep_the_sums_apart() -> None:
    result = ub(split(build(lambda b: block(b, SHAPES[0]))), "Ascend910B1")
    assert result.scopes == [("BNTrainingUpdate", "Relu")]
    assert any("takes only what FIXPIPE does on its way" in reason for reason in result.reasons)


@pytest.mark.parametrize(("chip", "residual", "kernel"), in_turn(COUPLED, [False, True], [1, 3]))
def test_training_gets_faster_and_moves_less(chip: str, residual: bool, kernel: int) -> None:
    """Ascend310P3 holds these maps in L2, where sums by halves take longer than their way saves. Where L2 is
    quick, the timed tiling may read the map again to hide the sums: fusion counts with the closed form's."""
    graph = build(lambda b: block(b, (8, 64, 64, 28, kernel, 1), residual))
    unfused, joined = (asim.compile(graph, soc=chip, fusion=level) for level in ("off", "ub"))
    if chip != "Ascend310P3":
        assert asim.simulate(joined).duration_us < asim.simulate(unfused).duration_us
    closed = {"tiling": "closed_form"}
    unfused, joined = (asim.compile(graph, soc=chip, fusion=level, options=closed) for level in ("off", "ub"))
    assert sum(moved(joined.program).values()) < sum(moved(unfused.program).values())
