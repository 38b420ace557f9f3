"""Training steps under UB fusion: masks of activations inside scopes of the Cube and of the vector unit."""

from __future__ import annotations

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.isa.instructions import Vector
from ascendsim.lower.templates.stage import Stage
from tests.support.fusing import build, random
from tests.support.gate import in_turn
from tests.support.lowering import executed
from tests.support.ub import Fused, moved, same_values, ub

CHIPS = ("Ascend310P3", "Ascend910A", "Ascend910B")
SHAPES = [  # images, channels of the result and of its gradient, size of the result, kernel, stride
    (2, 32, 48, 14, 1, 1),
    (1, 40, 64, 9, 3, 1),
    (3, 64, 32, 12, 3, 2),
    (16, 16, 32, 28, 1, 2),
]


def gradient(b: GraphBuilder, shape: tuple[int, ...], summed: bool) -> Tensor:
    """Gradient of a convolution's map, perhaps a sum with another branch, gradient of an activation."""
    images, inner, outer, size, kernel, stride = shape
    made = (size + 2 * (kernel // 2) - kernel) // stride + 1
    dx = b.op(
        "Conv2DBackpropInput",
        b.input("w", (outer, inner, kernel, kernel)),
        b.input("dy", (images, outer, made, made)),
        domain="ascend",
        input_size=(images, inner, size, size),
        strides=(stride, stride),
        pads=(kernel // 2,) * 4,
        name="dx",
    )
    if summed:
        dx = b.op("Sum", dx, b.input("branch", (images, inner, size, size)), name="sum")
    mask = b.input("mask", (images, -(-inner // 8), size, size), DType.UINT8)
    return b.op("ReluGradV2", dx, mask, domain="ascend", name="grad")


@pytest.mark.parametrize(("shape", "chip", "summed"), in_turn(SHAPES, CHIPS, [False, True]))
def test_the_gradient_of_a_map_runs_through_the_activations_mask(
    chip: str, shape: tuple[int, ...], summed: bool
) -> None:
    """The mask comes once, a bit for each element that is stored."""
    result = ub(build(lambda b: gradient(b, shape, summed)), chip)
    between = ("Sum",) if summed else ()
    assert result.scopes == [("Conv2DBackpropInput", *between, "ReluGradV2")]
    assert set(result.counts) == {"TbeConv2DBackpropElemwiseFusionPass"}
    images, inner, _, size, *_ = shape
    bits = moved(result.after.program)["mask", False]
    assert bits == moved(result.before.program)["mask", False] == images * inner * size * size // 8
    assert same_values(result)


@pytest.mark.parametrize("summed", [False, True])
def test_mindspore_has_passes_for_both(summed: bool) -> None:
    """Its pass for a single operator wants one data input, so that a mask alone keeps it apart."""
    result = ub(build(lambda b: gradient(b, SHAPES[0], summed)), "Ascend910A", profile="MindSpore")
    names = [record.name for record in result.report.scopes]
    assert names == (["Conv2DBackpropEltwiseEltwiseFusionPass"] if summed else [])
    assert same_values(result)


def block(b: GraphBuilder, residual: bool) -> list[Tensor]:
    """The second half of batch normalisation, perhaps a sum, and an activation that makes its mask."""
    shape, channels = (4, 32, 12, 12), 32
    x = b.input("x", shape)
    sums = b.ops("BNTrainingReduce", x, outputs=2, domain="ascend", name="reduce")
    parameters = [random(channels, seed=seed, positive=True) for seed in range(4)]
    y, *running = b.ops("BNTrainingUpdate", x, *sums, *parameters, outputs=5, domain="ascend", name="update")
    if residual:
        y = b.op("Add", y, b.input("r", shape))
    return [*b.ops("ReluV2", y, outputs=2, domain="ascend", name="relu"), *running]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("residual", [False, True])
def test_the_activation_behind_a_normalisation_stores_its_mask(chip: str, residual: bool) -> None:
    """What the scope makes, it does not read: neither the mask nor the statistics."""
    result = ub(build(lambda b: block(b, residual)), chip)
    between = ("Add",) if residual else ()
    assert result.scopes == [("BNTrainingUpdate", *between, "ReluV2")]
    bytes = moved(result.after.program)
    assert bytes[_mask(result), True] == 4 * 32 * 12 * 12 // 8
    (task,) = result.fused_tasks
    own = {access.region for access in task.accesses if access.write}
    assert len(own) == 6
    assert not {access.region for access in task.accesses if not access.write} & own
    assert same_values(result)


def _mask(result: Fused) -> str:
    return result.after.graph.node("relu").outputs[1].name


@pytest.mark.parametrize("joined", [False, True])
def test_normalisation_by_float32_statistics_computes_in_float32(joined: bool) -> None:
    """Maps are float16; scale and offset are applied in float32, on every element."""
    result = ub(build(lambda b: block(b, residual=False)), "Ascend910A")
    compiled = result.after if joined else result.before
    (task,) = (task for task in compiled.program.tasks if "update" in task.nodes)
    done = [item for item, _ in executed([Stage(task.groups)]) if isinstance(item, Vector)]
    large = max(item.elements for item in done)
    kinds = {item.dtype for item in done if item.op in ("vmul", "vadd", "vmadd") and item.elements == large}
    assert kinds == {"float32"}


@pytest.mark.parametrize(("chip", "most"), [("Ascend910A", 128), ("Ascend310P3", None)])
def test_the_first_chips_choose_by_a_mask_register(chip: str, most: int | None) -> None:
    """It holds the bits of one repeat: 128 float16 elements an instruction, and another one to set it."""
    result = ub(build(lambda b: gradient(b, SHAPES[0], summed=False)), chip)
    for compiled in (result.before, result.after):
        (task,) = (task for task in compiled.program.tasks if "grad" in task.nodes)
        done = [item for item, _ in executed([Stage(task.groups)]) if isinstance(item, Vector)]
        chosen = [item for item in done if item.op == "vsel"]
        assert chosen
        if most is None:
            assert any(item.elements > 128 for item in chosen)
        else:
            assert all(item.elements <= most for item in chosen)
            assert all(item.calls >= 2 for item in chosen)
