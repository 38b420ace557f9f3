"""Convolutions that write into a Concat's result and read out of a Split's input: rules, memory plan, values
on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError, SimulationError
from ascendsim.core.formats import Format
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.isa.program import MemoryPlan, Region
from ascendsim.lower.memory import plan_memory, slice_offset
from ascendsim.machine.l2 import L2State
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rules.conv.concat_conv import ConvConcatFusionPass
from ascendsim.passes.fusion.rules.conv.split_conv_concat import SplitConvConcatFusionPass
from ascendsim.runtime.device_memory import DeviceMemory
from tests.support.fusing import EXACT, build, context, fused, random
from tests.support.gate import in_turn

pytestmark = pytest.mark.usefixtures("untimed_tiles")

CONCAT, SPLIT = ConvConcatFusionPass(), SplitConvConcatFusionPass()


def fire(
    b: GraphBuilder,
    channels: Sequence[int] = (32, 48),
    batch: int = 1,
    axis: int = 1,
    tail: str = "Relu",
    after: str = "MaxPool",
) -> Tensor:
    """Convolutions of one map side by side, joined, then read."""
    x = b.input("x", (batch, 16, 9, 9))
    parts = []
    for number, count in enumerate(channels):
        conv = b.op(
            "Conv",
            x,
            random(count, 16, 3, 3, seed=number) / 12,
            random(count, seed=number),
            pads=(1, 1, 1, 1),
        )
        parts.append(b.op(tail, conv) if tail else conv)
    joined = b.op("Concat", *parts, axis=axis)
    return b.op("MaxPool", joined, kernel_shape=(2, 2), strides=(2, 2)) if after else joined


def forked(b: GraphBuilder, counts: Sequence[int] = (32, 16), batch: int = 1, outer: bool = False) -> Tensor:
    """Split, two different convolutions, Concat."""
    x = b.input("x", (batch, sum(counts), 9, 9))
    parts = b.ops("Split", x if outer else b.op("Relu", x), list(counts), outputs=len(counts), axis=1)
    convs = [
        b.op("Conv", part, random(32, count, size, size, seed=size) / 10, pads=(size // 2,) * 4)
        for part, count, size in zip(parts, counts, (3, 5), strict=False)
    ]
    return b.op("Relu", b.op("Concat", *(b.op("LeakyRelu", conv) for conv in convs), axis=1))


@pytest.mark.parametrize("tail", ["Relu", "LeakyRelu", ""])
def test_concat_of_convolutions_has_no_task(tail: str) -> None:
    result = fused(build(lambda b: fire(b, tail=tail)), CONCAT)
    assert result.operators["StridedWrite"] == 2
    assert result.error == EXACT
    (concat,) = (node for node in result.graph.nodes if node.op_type == "Concat")
    assert concat.attr("no_task") == 1
    assert [
        tensor.producer.attr("first") for tensor in concat.inputs if tensor is not None and tensor.producer
    ] == [0, 32]


def test_split_and_concat_around_convolutions_have_no_task() -> None:
    result = fused(build(forked), SPLIT)
    assert (result.operators["StridedRead"], result.operators["StridedWrite"]) == (2, 2)
    assert result.error == EXACT


def test_refusals_of_concat() -> None:
    def reason(body: Any) -> str:
        result = fused(build(body), CONCAT)
        assert result.effected(CONCAT.name) == 0
        return result.reason

    def shared(b: GraphBuilder) -> list[Tensor]:
        joined = fire(b)
        relu = next(node for node in b.graph.nodes if node.op_type == "Relu")
        return [joined, b.op("Tanh", relu.output)]

    def two_activations(b: GraphBuilder) -> Tensor:
        conv = b.op("Conv", b.input("x", (1, 16, 3, 3)), random(16, 16, 1, 1))
        other = b.op("Conv", b.graph.inputs[0], random(16, 16, 1, 1))
        return b.op("Concat", b.op("LeakyRelu", b.op("Relu", conv)), other, axis=1)

    unusual = (
        "an input does not come from a convolution, or by way of an operator that cannot write with a stride"
    )
    assert reason(lambda b: fire(b, tail="Sigmoid")) == unusual
    assert reason(two_activations) == unusual
    assert reason(lambda b: fire(b, (32, 20))) == "the channels of a part are no multiple of 16"
    assert reason(lambda b: fire(b, (32, 32), axis=2)) == "it is not along the channels"
    assert reason(lambda b: fire(b, (32,))) == "the concatenation has one input"
    assert reason(shared) == "an input has other readers"


def test_refusals_of_split() -> None:
    def reason(body: Any) -> str:
        result = fused(build(body), SPLIT)
        assert result.effected(SPLIT.name) == 0
        return result.reason

    def a_part_besides(b: GraphBuilder) -> list[Tensor]:
        joined = forked(b, (32, 16, 16))
        split = next(node for node in b.graph.nodes if node.op_type == "Split")
        return [joined, b.op("Tanh", split.outputs[2])]

    def read_twice(b: GraphBuilder) -> list[Tensor]:
        joined = forked(b)
        split = next(node for node in b.graph.nodes if node.op_type == "Split")
        return [joined, b.op("Tanh", split.outputs[0])]

    assert reason(lambda b: forked(b, outer=True)) == "the split reads an input of the graph or a constant"
    assert reason(lambda b: forked(b, (24, 24))) == "the channels of a part are no multiple of 16"
    assert reason(a_part_besides) == "split and concatenation differ in the number of parts"
    assert reason(read_twice) == "a part has other readers"
    assert reason(fire) == "the inputs do not come from convolutions of the parts of one split"


def test_yolov5s_matches_every_concat_and_changes_none() -> None:
    """Behind every convolution there stands a Sigmoid with a Mul, which no strided write can follow."""
    report = FusionReport()
    run_rules(asim.load("tests/data/models/yolov5s.onnx"), [SPLIT, CONCAT], context(), report)
    assert report.totals("graph") == {SPLIT.name: (14, 0), CONCAT.name: (14, 0)}


@pytest.mark.parametrize(
    ("body", "batch", "chip"), in_turn([fire, forked], [1, 2], ["Ascend310", "Ascend910B1"])
)
def test_device_values_stay_and_copies_go(body: Any, batch: int, chip: str) -> None:
    graph = build(lambda b: body(b, batch=batch))
    switch = f"{CONCAT.name}:{{0}};{SPLIT.name}:{{0}};ASplitConv2dConcatPass:off"
    inputs = {"x": random(*graph.inputs[0].static_shape)}
    found = {}
    for state in ("off", "on"):
        model = asim.compile(graph, chip, fusion="graph", optimization_switch=switch.format(state))
        found[state] = (asim.run(model, inputs), model)
    (before, plain), (after, joined) = found["off"], found["on"]
    np.testing.assert_array_equal(before.outputs["out0"], after.outputs["out0"])
    wanted = asim.run(plain, inputs, values="float32").outputs["out0"]
    np.testing.assert_array_equal(asim.run(joined, inputs, values="float32").outputs["out0"], wanted)
    names = [task.name for task in joined.program.tasks]
    gone = {node.name for node in plain.graph.nodes if node.op_type in ("Concat", "Split")}
    assert len(plain.program.tasks) - len(names) == len(gone)
    assert not gone & set(names)
    assert after.duration_us < before.duration_us
    regions = joined.program.memory.regions
    assert sum(region.cut is not None for region in regions.values()) == 2 * len(gone)


def test_in_row_major_form_parts_are_slices_too() -> None:
    """The result of the Concat is an output of the graph in row-major form of its own type."""
    graph = build(lambda b: fire(b, after=""))
    run_rules(graph, [CONCAT], context(), FusionReport())
    model = asim.compile(graph, "Ascend310", fusion="off")
    inputs = {"x": random(1, 16, 9, 9)}
    plain = asim.compile(build(lambda b: fire(b, after="")), "Ascend310", fusion="off")
    np.testing.assert_array_equal(
        asim.run(model, inputs).outputs["out0"], asim.run(plain, inputs).outputs["out0"]
    )


def whole_and_parts() -> Graph:
    """Two producers, a whole that they fill, a reader."""
    graph = Graph()
    x = graph.add_input("x", DType.FLOAT16, (1, 32, 2, 2))
    for name, inputs in (("a", ["x"]), ("b", ["x"]), ("whole", ["a", "b"]), ("y", ["whole"])):
        node = graph.add_node(
            "Concat" if name == "whole" else "Relu", [graph.tensors[i] for i in inputs], [name], name=name
        )
        node.output.dtype = node.output.origin_dtype = DType.FLOAT16
        node.output.shape = (1, 64, 2, 2) if name in ("whole", "y") else x.shape
        node.output.format = Format.NC1HWC0
    graph.outputs.append(graph.tensors["y"])
    return graph


def test_slices_lie_inside_their_whole_from_the_first_write_to_the_last_read() -> None:
    graph = whole_and_parts()
    plan = plan_memory(
        graph,
        [["x", "a"], ["x", "b"], ["whole", "y"]],
        {"a": "whole", "b": "whole"},
        {},
        cuts={"a": (1, 0), "b": (1, 32)},
    )
    whole, a, b = (plan.regions[name] for name in ("whole", "a", "b"))
    # two blocks of 16 channels, four positions each
    assert (a.offset - whole.offset, b.offset - whole.offset) == (0, 2 * 4 * 32)
    assert (a.cut, b.cut, whole.cut) == ((1, 0), (1, 32), None)
    assert (whole.first, whole.last) == (0, 2)
    assert plan.regions["x"].offset not in range(whole.offset, whole.offset + whole.bytes)


def test_slices_that_no_format_can_hold() -> None:
    tensor = Tensor("t", DType.FLOAT16, (1, 64, 2, 2), Format.NC1HWC0)
    with pytest.raises(CompileError, match="cannot be cut along axis 1 at 20"):
        slice_offset(tensor, 1, 20)
    tensor.format = Format.ND
    assert slice_offset(tensor, 1, 20) == 20 * 4 * 2


def test_device_memory_writes_slices_in_place() -> None:
    graph = whole_and_parts()
    regions = {
        "whole": Region("whole", 0, 512, "activation"),
        "a": Region("a", 0, 256, "activation", "whole", cut=(1, 0)),
        "b": Region("b", 256, 256, "activation", "whole", cut=(1, 32)),
        "flat": Region("flat", 256, 256, "activation", "b"),
    }
    flat = graph.add_tensor(Tensor("flat", DType.FLOAT16, (32, 4)))
    memory = DeviceMemory(graph, MemoryPlan(regions, 512, 0), "device")
    first, second = random(1, 32, 2, 2, dtype=np.float16), random(1, 32, 2, 2, seed=1, dtype=np.float16)
    memory.write(graph.tensors["a"], first)
    memory.write(graph.tensors["b"], second)
    np.testing.assert_array_equal(
        memory.read(graph.tensors["whole"]), np.concatenate([first, second], axis=1)
    )
    np.testing.assert_array_equal(memory.read(flat), second.reshape(32, 4))


def test_slices_of_a_batch_cannot_be_written_under_another_shape() -> None:
    graph = Graph()
    for name, shape in (("whole", (2, 4)), ("part", (2, 2)), ("flat", (4,))):
        graph.add_tensor(Tensor(name, DType.FLOAT16, shape))
    regions = {
        "whole": Region("whole", 0, 16, "activation"),
        "part": Region("part", 0, 8, "activation", "whole", cut=(1, 0)),
        "flat": Region("flat", 0, 8, "activation", "part"),
    }
    memory = DeviceMemory(graph, MemoryPlan(regions, 16, 0), "device")
    with pytest.raises(SimulationError, match="slice under another shape"):
        memory.write(graph.tensors["flat"], np.zeros(4, np.float16))


def test_slices_add_up_in_l2() -> None:
    from ascendsim.isa.program import Access

    spec = asim.compile(build(fire), "Ascend910A", fusion="off").soc.l2
    regions = {"whole": Region("whole", 0, 4096, "activation")}
    regions |= {
        name: Region(name, start, 2048, "activation", "whole", cut=(1, start))
        for name, start in (("a", 0), ("b", 2048))
    }
    state = L2State(spec, MemoryPlan(regions, 4096, 0))
    state.enter([], [Access("a", 2048, 2048, True)], {})
    assert state.resident("whole") == 2048
    state.enter([], [Access("b", 2048, 2048, True)], {})
    assert state.resident("whole") == 4096
    state.enter([], [Access("b", 2048, 2048, True)], {})
    assert state.resident("whole") == 4096


@pytest.mark.parametrize("same", [True, False])
def test_parts_that_are_quantised_alike_are_quantised_before_the_split(same: bool) -> None:
    def body(b: GraphBuilder) -> Tensor:
        x = b.op("Abs", b.input("x", (1, 64, 6, 6)))
        made = []
        for number, part in enumerate(b.ops("Split", x, [32, 32], outputs=2, axis=1)):
            small = b.op("AscendQuant", part, domain="ascend", scale=20.0 if same else 20.0 + number)
            weight = (
                np.random.default_rng(number).integers(-9, 9, (32, 32, 1 + 2 * number, 1)).astype(np.int8)
            )
            pads = (number, 0, number, 0)
            sums = b.op("QuantConv", small, weight, domain="ascend", pads=pads)
            made.append(b.op("AscendDequant", sums, np.array([0.001], np.float32), domain="ascend"))
        return b.op("Concat", *made, axis=1)

    result = fused(build(body), SplitConvConcatFusionPass())
    if same:
        assert result.operators["AscendQuant"] == 1
        assert result.error == EXACT
        (split,) = (node for node in result.graph.nodes if node.op_type == "Split")
        assert split.attr("no_task") == 1
    else:
        assert result.reason == "the parts are quantised differently"
