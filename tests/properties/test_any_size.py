"""No convolution, pooling, product or resize is refused for its size."""

from __future__ import annotations

import pytest

import ascendsim
from ascendsim.isa.checks import check_program
from ascendsim.isa.instructions import Mmad
from ascendsim.isa.program import Block
from ascendsim.soc import load
from tests.support.any_size import KINDS, infer, layers
from tests.support.gate import every
from tests.support.lowering import CHIPS, statements

COUNT = {"convolution": 60, "pooling": 40, "product": 40, "resize": 40}
PARTS = 4  # the gate takes the first


@pytest.mark.parametrize("part", every(PARTS, range(PARTS)))
@pytest.mark.parametrize("kind", KINDS)
def test_every_size_has_a_program(kind: str, part: int) -> None:
    for number, layer in enumerate(layers(kind, COUNT[kind])):
        if number % PARTS != part:
            continue
        chip = CHIPS[number % len(CHIPS)]
        try:
            model = ascendsim.compile(layer.graph, soc=chip, options={"tiling": "closed_form"})
            check_program(model.program, load(chip))
        except ascendsim.AscendSimError as error:
            pytest.fail(f"{layer.text} on {chip}: {error}")
        assert model.program.tasks


def test_what_a_tile_grows_to_is_rounded_up() -> None:
    """Tiles of the change to blocks write some bytes more than they read."""
    b = ascendsim.GraphBuilder("one", infer=infer)
    b.output(b.op("MatMul", b.input("a", (6902, 11751)), b.input("w", (11751, 46))))
    model = ascendsim.compile(b.build(), soc="Ascend310", options={"tiling": "closed_form"})
    check_program(model.program, load("Ascend310"))


def compiled(kind: str, chip: str, *shapes: tuple[int, ...], **attributes: object) -> ascendsim.CompiledModel:
    b = ascendsim.GraphBuilder("one", infer=infer)
    b.output(
        b.op(kind, b.input("x", shapes[0]), *(b.weight("w", shape) for shape in shapes[1:]), **attributes)
    )
    return ascendsim.compile(b.build(), soc=chip, options={"tiling": "closed_form"})


@pytest.mark.parametrize("chip", CHIPS)
def test_a_product_of_many_columns_has_more_blocks_than_cores_and_makes_each_result_once(chip: str) -> None:
    """The biases of a core's share fill UB or L1 many times."""
    columns, soc = 3_000_000, load(chip)
    model = compiled("Gemm", chip, (40, 16), (16, columns), (columns,))
    check_program(model.program, soc)
    (task,) = [
        task for task in model.program.tasks if any(holds_products(group.block) for group in task.groups)
    ]
    assert sum(group.count for group in task.groups) > soc.ai_cores
    columns_made = sum(
        item.m * item.n * times / 40
        for group in task.groups
        for item, times in statements(group.block.body, group.count)
        if isinstance(item, Mmad)
    )
    assert columns_made == columns


def holds_products(block: Block) -> bool:
    return any(isinstance(item, Mmad) for item, _ in statements(block.body))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_resize_to_few_points_reads_its_input_once(chip: str) -> None:
    """A point is made of more than UB holds."""
    b = ascendsim.GraphBuilder("one", infer=infer)
    x = b.input("x", (1, 1, 26, 892_008))
    b.output(b.op("Resize", x, None, None, b.constant([1, 1, 4, 17]), mode="linear", antialias=1))
    model = ascendsim.compile(b.build(), soc=chip)
    check_program(model.program, load(chip))
    (task,) = [task for task in model.program.tasks if task.name == "Resize"]
    read, written = ([one for one in task.accesses if one.write is write] for write in (False, True))
    whole = 26 * 892_008 * 2
    assert whole <= sum(access.moved_bytes for access in read) <= 1.1 * 16 * whole
    assert sum(access.unique_bytes for access in written) <= 4 * 17 * 64
