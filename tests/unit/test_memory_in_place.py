"""Results in place: which operators allow them, and that no block program reads what it has overwritten."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.isa.program import Program
from tests.support.in_place import overwritten_reads

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def in_place(program: Program) -> dict[str, str]:
    return {
        name: region.in_place_of
        for name, region in program.memory.regions.items()
        if region.in_place_of is not None
    }


def residual(second_reader: bool = False, kernel: int = 3) -> asim.Graph:
    """A convolution whose result a residual is added to: relu(conv(x) + x')."""
    builder = asim.GraphBuilder("residual")
    x = builder.op("MaxPool", builder.input("x", (1, 32, 32, 32)), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    side = builder.op("MaxPool", x, kernel_shape=[5, 5], pads=[2, 2, 2, 2], name="side")
    rng = np.random.default_rng(7)
    weight = builder.constant(rng.standard_normal((32, 32, kernel, kernel)).astype(np.float32) / 20, "w")
    pad = kernel // 2
    y = builder.op("Conv", x, weight, kernel_shape=[kernel, kernel], pads=[pad] * 4)
    z = builder.op("Relu", builder.op("Add", y, side))
    pooled = builder.op("MaxPool", z, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    builder.output(builder.op("Add", pooled, side) if second_reader else pooled)
    return builder.build()


def test_a_residual_is_overwritten_if_nobody_reads_it_later() -> None:
    assert in_place(asim.compile(residual()).program) == {"Relu_out": "side_out"}
    later = in_place(asim.compile(residual(second_reader=True)).program)
    assert "Relu_out" not in later


def test_alone_each_operator_takes_over_from_the_one_before() -> None:
    assert in_place(asim.compile(residual(), fusion="off").program) == {
        "Add_out": "Conv_out",
        "Relu_out": "Add_out",
    }


def test_the_image_of_a_convolution_is_never_overwritten_by_its_task() -> None:
    program = asim.compile(residual()).program
    assert "MaxPool_out" not in in_place(program).values()


@pytest.mark.parametrize("soc", ["Ascend310", "Ascend910B1"])
@pytest.mark.parametrize("values", ["device", "float32"])
def test_values_are_those_of_a_plan_without_reuse(soc: str, values: str) -> None:
    for second in (False, True):
        graph = residual(second)
        models = [asim.compile(graph, soc, disable_reuse_memory=apart) for apart in (False, True)]
        inputs = asim.random_inputs(models[0])
        first, second_run = (asim.run(model, inputs, values=values).outputs for model in models)  # type: ignore[arg-type]
        assert all(np.array_equal(first[name], second_run[name]) for name in first)


@pytest.mark.parametrize(
    ("name", "soc"),
    [
        ("bert_tiny_s64", "Ascend310"),
        ("bert_tiny_s64", "Ascend910B1"),
        ("llama_mini", "Ascend310"),
        ("llama_mini", "Ascend910B1"),
        pytest.param("ghostnet", "Ascend310", marks=pytest.mark.slow),
        pytest.param("ghostnet", "Ascend910B1", marks=pytest.mark.slow),
        pytest.param("se_resnet50", "Ascend310", marks=pytest.mark.slow),
        pytest.param("se_resnet50", "Ascend910B1", marks=pytest.mark.slow),
    ],
)
def test_no_block_reads_what_it_has_overwritten(name: str, soc: str) -> None:
    program = asim.compile(asim.load(f"tests/data/models/{name}.onnx"), soc).program
    assert in_place(program)
    assert overwritten_reads(program) == []


def test_the_check_sees_a_block_that_reads_what_it_has_overwritten() -> None:
    """As if results of convolutions lay over their images: tiles share rows, and every channel is read for
    each part of the result."""
    program = asim.compile(asim.load("tests/data/models/vgg16.onnx"), fusion="off").program
    regions, broken = dict(program.memory.regions), 0
    for task in program.tasks:
        if program.info.engines[task.name] == "cube":
            image = next(
                access.region
                for access in task.accesses
                if not access.write and regions[access.region].kind == "activation"
            )
            result = next(access.region for access in task.accesses if access.write)
            regions[result] = replace(regions[result], in_place_of=image, first=task.id)
            broken += 1
    found = overwritten_reads(replace(program, memory=replace(program.memory, regions=regions)))
    assert broken > 10
    assert found
