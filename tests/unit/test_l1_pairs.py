"""Two convolutions in one task: the program, what it moves, and which pairs are joined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import soc as chips
from ascendsim.core.errors import CompileError
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.isa.instructions import Buffer, Mmad, Move
from ascendsim.lower.templates.cube import lower_cube
from ascendsim.lower.templates.cube_pair import lower_pair
from ascendsim.lower.templates.steps import Expansion
from ascendsim.machine import run
from ascendsim.opset.work import CubePair, SideOutput
from ascendsim.passes.l1 import find_pairs
from tests.support.batched import traffic
from tests.support.fusing import new_builder, random
from tests.support.gate import in_turn
from tests.support.lowering import convolution, executed, moved, multiplied, program_of, ref, verify

ON = {"l1_fusion": True}
SHAPES = [  # channels, size, outputs and kernel of either convolution, images, stride of the second
    (64, 56, 64, 3, 256, 1, 2, 1),
    (64, 56, 64, 1, 64, 3, 2, 1),
    (64, 28, 64, 3, 64, 3, 1, 2),
    (16, 30, 48, 3, 40, 5, 3, 1),
    (32, 7, 32, 1, 32, 1, 1, 1),
]


def pair(
    channels: int,
    size: int,
    middle: int,
    kernel: int,
    outputs: int,
    second: int,
    images: int = 1,
    stride: int = 1,
) -> CubePair:
    first = convolution(channels, size, middle, kernel, 1, kernel // 2, images)
    then = convolution(middle, size, outputs, second, stride, second // 2, images)
    first = replace(first, out=replace(first.out, region="between"))
    return CubePair(
        first, replace(then, a=first.out, b=replace(then.b, region="w2"), bias=ref("bias2", (outputs,)))
    )


@pytest.mark.parametrize(("shape", "chip"), in_turn(SHAPES, ["Ascend310", "Ascend310P3", "Ascend910A"]))
def test_a_pair_is_one_valid_program_without_the_tensor_between(shape: tuple[int, ...], chip: str) -> None:
    soc = chips.load(chip)
    work = pair(*shape)
    stage = lower_pair(work, soc, Expansion(soc))
    verify([stage], soc)
    bytes = moved([stage])
    assert {region for region, _ in bytes} == {"x", "w", "bias", "w2", "bias2", "y"}
    assert bytes["y", True] == work.second.out.bytes
    apart = [
        *lower_cube(work.first, soc, Expansion(soc))[0],
        *lower_cube(work.second, soc, Expansion(soc))[0],
    ]
    assert multiplied([stage]) >= multiplied(apart)  # halo rows are computed again
    assert multiplied([stage]) <= 1.5 * multiplied(apart)
    run(program_of([stage]), soc)


def test_the_way_between_goes_through_ub_into_l1() -> None:
    soc = chips.load("Ascend310")
    work = pair(64, 28, 64, 3, 64, 1)
    stage = lower_pair(work, soc, Expansion(soc))
    into = [
        (move, times)
        for move, times in executed([stage])
        if isinstance(move, Move) and move.dst.buffer is Buffer.L1 and move.src.buffer is Buffer.UB
    ]
    assert sum(move.bytes * times for move, times in into) == work.first.out.bytes  # no halo: each value once
    assert {item.k for item, _ in executed([stage]) if isinstance(item, Mmad)}


def test_a_pair_saves_bytes_and_time_where_memory_is_the_limit() -> None:
    soc = chips.load("Ascend310")
    work = pair(16, 112, 32, 3, 64, 1, 2)
    stage = lower_pair(work, soc, Expansion(soc))
    apart = [
        *lower_cube(work.first, soc, Expansion(soc))[0],
        *lower_cube(work.second, soc, Expansion(soc))[0],
    ]
    assert sum(moved([stage]).values()) < 0.6 * sum(moved(apart).values())
    assert run(program_of([stage]), soc).duration_us < run(program_of(apart), soc).duration_us


def test_what_cannot_be_a_pair_is_refused() -> None:
    soc = chips.load("Ascend310")
    expansion = Expansion(soc)
    work = pair(64, 28, 64, 3, 64, 3)
    with pytest.raises(CompileError, match="way from UB to L1"):
        lower_pair(work, chips.load("Ascend910B1"), expansion)
    with pytest.raises(CompileError, match="one group"):
        lower_pair(replace(work, first=replace(work.first, batch=2)), soc, expansion)
    with pytest.raises(CompileError, match="follow each other"):
        lower_pair(replace(work, second=replace(work.second, a=work.first.a)), soc, expansion)
    with pytest.raises(CompileError, match="one value"):
        lower_pair(
            replace(work, first=replace(work.first, side_outputs=(SideOutput(work.first.out, 0),))),
            soc,
            expansion,
        )
    with pytest.raises(CompileError, match="L1"):
        lower_pair(pair(512, 14, 512, 3, 512, 3), soc, expansion)


def net(batch: int = 2, size: int = 112, both: bool = False) -> Graph:
    """A wide map through a 3x3 and a 1x1 convolution; with `both`, what is between them has another
    reader."""
    b = new_builder()

    def conv(x: Tensor, outputs: int, kernel: int) -> Tensor:
        weight = random(outputs, int(x.static_shape[1]), kernel, kernel) / (4 * kernel)
        return b.op("Relu", b.op("Conv", x, weight, random(outputs), pads=[kernel // 2] * 4))

    x = b.input("x", (batch, 16, size, size))
    y = conv(x, 32, 3)
    b.output(conv(y, 64, 1), "y")
    if both:
        b.output(b.op("GlobalAveragePool", y), "z")
    return b.build()


@pytest.mark.parametrize("values", ["device", "float32"])
def test_values_do_not_change(values: str) -> None:
    graph = net(size=28)
    apart, joined = (
        asim.compile(graph, "Ascend310", fusion="ub"),
        asim.compile(graph, "Ascend310", set={"l2.size": "64KiB"}, options=ON),
    )
    assert len(joined.buffers.l1.pairs) == 1
    inputs = asim.random_inputs(apart)
    one, two = (asim.run(model, inputs, values=values).outputs["y"] for model in (apart, joined))  # type: ignore[arg-type]
    assert np.array_equal(one, two)


def test_a_pair_is_one_task_and_its_report_holds() -> None:
    graph = net()
    apart, joined = (
        asim.compile(graph, "Ascend310", set={"l2.size": "64KiB"}, options={"l1_fusion": on})
        for on in (False, True)
    )
    made = joined.buffers.l1.pairs[0]
    assert made.pair_us < made.apart_us
    assert len(joined.program.tasks) == len(apart.program.tasks) - 1
    assert traffic(apart) - traffic(joined) == made.saved_bytes - made.operand_bytes
    assert asim.simulate(joined).duration_us < asim.simulate(apart).duration_us
    assert {task.id for name in made.nodes for task in joined.tasks_of(name)} == {
        joined.tasks_of(made.nodes[0])[0].id
    }


def test_a_second_reader_keeps_them_apart() -> None:
    model = asim.compile(net(both=True), "Ascend310", fusion="ub")
    assert find_pairs(model.graph) == []
    assert len(find_pairs(asim.compile(net(), "Ascend310", fusion="ub").graph)) == 1


def test_a_small_pair_is_joined_although_its_tensor_fits_into_l2() -> None:
    graph = net(batch=1, size=14)
    model = asim.compile(graph, "Ascend310", options=ON)
    (pair,) = model.buffers.l1.pairs
    assert pair.pair_us < pair.apart_us
    assert not model.buffers.l1.refused


def test_options_switch_it() -> None:
    graph, small = net(), {"l2.size": "64KiB"}
    assert asim.compile(graph, "Ascend310", set=small).buffers.l1.pairs == ()
    assert (
        asim.compile(
            graph, "Ascend310", set=small, options=ON, buffer_optimize="off_optimize"
        ).buffers.l1.pairs
        == ()
    )
    only_l1 = asim.compile(graph, "Ascend310", set=small, options=ON, buffer_optimize="l1_optimize").buffers
    assert only_l1.l2 is None
    assert len(only_l1.l1.pairs) == 1
