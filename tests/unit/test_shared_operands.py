"""Operands behind a batched product that serve several of its products: the mask of all heads of an image,
the bias of all images of a head.
"""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.model import CompiledModel
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import Task
from tests.support.coverage import length, transfers, union
from tests.support.ub import Fused, same_values, ub

TOKENS, DEPTH = 48, 24  # rows of 48 bytes, so that both operands come as fractals
SHAPES = {
    "mask": (3, 1, TOKENS, TOKENS),
    "bias": (1, 4, TOKENS, TOKENS),
    "one": (1, 1, TOKENS, TOKENS),
}


def scores(*shapes: tuple[int, ...], images: int = 3, heads: int = 4) -> Graph:
    """Products of heads, to which operands of these shapes are added."""
    b = asim.GraphBuilder("scores")
    left, right = b.input("q", (images, heads, TOKENS, DEPTH)), b.input("k", (images, heads, DEPTH, TOKENS))
    x = b.op("MatMul", left, right)
    for number, shape in enumerate(shapes):
        x = b.op("Add", x, b.input(f"e{number}", shape))
    b.output(x, "y")
    return b.build()


def fused_task(fused: Fused) -> Task:
    (task,) = fused.fused_tasks
    return task


def tiles_agree(model: CompiledModel) -> bool:
    """Whether the blocks that were timed, run on bytes, give what the operators give."""
    inputs = asim.random_inputs(model)
    tile, device = (asim.run(model, inputs, values=kind).outputs["y"] for kind in ("tile", "device"))
    return bool(np.allclose(tile, device, rtol=2e-3, atol=2e-3))


@pytest.mark.parametrize("name", SHAPES)
def test_each_product_gets_its_own_matrix(name: str) -> None:
    fused = ub(scores(SHAPES[name]))
    assert len(fused_task(fused).nodes) == 2
    assert same_values(fused)
    assert tiles_agree(fused.after)


@pytest.mark.parametrize(("images", "heads"), [(5, 3), (2, 12), (16, 2)])
def test_cores_that_have_parts_of_images(images: int, heads: int) -> None:
    """Eight cores share 15, 24 and 32 products: two, three and four each."""
    fused = ub(scores((images, 1, TOKENS, TOKENS), images=images, heads=heads))
    assert len(fused_task(fused).nodes) == 2
    assert tiles_agree(fused.after)


@pytest.mark.parametrize("name", ["mask", "bias"])
def test_a_matrix_is_read_for_every_product_that_it_serves(name: str) -> None:
    shape = (8, *SHAPES[name][1:]) if name == "mask" else SHAPES[name]
    fused = ub(scores(shape, images=8), chip="Ascend310")
    block, count = fused_task(fused).groups[0].block, sum(g.count for g in fused_task(fused).groups)
    (region,) = {access.region for access in fused_task(fused).accesses if access.region.startswith("e0")}
    spans = transfers(block, region, write=False)
    products = 8 * 4 // count
    each = TOKENS * TOKENS * 2
    assert int((spans[:, 1] - spans[:, 0]).sum()) == products * each
    first = np.arange(products)  # of the first core: images one after the other, each with all heads
    wanted = first // 4 if name == "mask" else first % 4
    assert length(union(spans)) == len(set(wanted.tolist())) * each


def scaled_and_masked(batch: tuple[int, ...], first: tuple[int, ...], second: tuple[int, ...]) -> Graph:
    """Products of a batch, times one operand, plus another one."""
    b = asim.GraphBuilder("scores")
    x = b.op("MatMul", b.input("q", (*batch, TOKENS, DEPTH)), b.input("k", (*batch, DEPTH, TOKENS)))
    others = [b.input(f"e{number}", (*shape, TOKENS, TOKENS)) for number, shape in enumerate((first, second))]
    b.output(b.op("FusedMulAdd", x, *others, domain="ascend"), "y")
    return b.build()


def test_operands_that_go_on_or_begin_again_together() -> None:
    """One changes with the image, one with the head: both after four products."""
    fused = ub(scaled_and_masked((3, 4), (3, 1), (1, 4)))
    assert len(fused_task(fused).nodes) == 2
    assert tiles_agree(fused.after)


@pytest.mark.parametrize("first", [(2, 1, 1), (1, 3, 1)])
def test_operands_that_change_at_different_products_stay_apart(first: tuple[int, ...]) -> None:
    """After twelve products, or four of twelve, beside one that begins again after four."""
    fused = ub(scaled_and_masked((2, 3, 4), first, (1, 1, 4)))
    assert not any("MatMul" in task.fused for task in fused.fused_tasks)
    assert same_values(fused)


def test_a_mask_of_single_rows_has_a_task_of_its_own() -> None:
    """[n, 1, 1, t] repeats inside of a product, which its way out cannot follow."""
    fused = ub(scores((3, 1, 1, TOKENS)))
    assert not any("MatMul" in task.fused for task in fused.fused_tasks)
    assert any("must be" in reason or "must have" in reason for reason in fused.reasons), fused.reasons
