"""The way out of the Cube through UB: tiles leave in as few pieces as there is room for, read off the
program's allocations."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import align, ceil_div
from ascendsim.isa.instructions import Allocation, Buffer
from ascendsim.lower.templates.cube import cube_stage, product_of
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import candidates
from ascendsim.opset.work import CubeWork, SideOutput, Step, Stream
from ascendsim.soc import load
from tests.support.coverage import transfers, union
from tests.support.lowering import convolution
from tests.support.random_cubes import matmul, with_epilogue

COUPLED = ("Ascend310", "Ascend310P3", "Ascend910A")
SPARE = 256  # bytes of UB that templates leave


def grows(allocation: Allocation, work: CubeWork) -> bool:
    """Whether it holds a piece of a tile, rather than a value a row or column."""
    if allocation.name.startswith("x"):
        return True
    return allocation.name in ("out_ub", "tmp_ub") or allocation.name.startswith("side")


@pytest.mark.parametrize("chip", COUPLED)
def test_a_tile_leaves_in_as_few_pieces_as_fit(chip: str) -> None:
    """One piece less, of equal widths, would not fit beside what stays in UB."""
    random, cut, refused = Random(7), 0, 0
    for _ in range(40):
        size = random.choice((6, 8, 12, 16, 24, 32)) << 10
        soc = load(chip, {"ai_cores": 1, "buffers.ub": size})
        work = with_epilogue(random, matmul(random, soc), soc)
        product = product_of(work, soc)
        tiling = random.choice(list(candidates(product, rates_of(soc, work.dtype.value), 1)))
        try:
            (group,) = cube_stage(work, product, tiling, soc, Expansion(soc)).groups
        except CompileError as error:
            refused += "must hold 16 columns of a Cube tile" in str(error)
            continue
        inside = [one for one in group.block.allocations if one.buffer is Buffer.UB]
        (result,) = [one for one in inside if one.name == "out_ub"]
        rows, columns = align(tiling.tile_m, 16), align(tiling.tile_n, 16)
        wide = max([work.out.dtype.itemsize, *(side.ref.dtype.itemsize for side in work.side_outputs), 2])
        step = result.slot_bytes // rows // wide
        pieces = ceil_div(columns, step)
        assert step % 16 == 0
        assert step == align(ceil_div(columns, pieces), 16)
        taken = sum(one.bytes for one in inside)
        assert taken <= size - SPARE
        if pieces > 1:
            cut += 1
            wider = align(ceil_div(columns, pieces - 1), 16)
            more = sum(one.bytes for one in inside if grows(one, work)) * (wider / step - 1)
            assert taken + more > size - SPARE, (chip, size, str(work), tiling)
    assert cut > 6
    assert refused > 0


def test_operands_and_stored_values_of_other_widths_go_image_by_image() -> None:
    """Each byte of each image once, however wide an element is beside one of the result."""
    soc = load("Ascend310", {"ai_cores": 1})
    plain = convolution(16, 9, 32, 3, images=3)
    wide, side = (
        replace(plain.out, region=name, dtype=DType.FLOAT32, bytes=2 * plain.out.bytes)
        for name in ("wide", "side")
    )
    steps = (Step("vadd"), Step("vrelu"))
    work = replace(
        plain, epilogue=steps, epilogue_inputs=(Stream(wide),), side_outputs=(SideOutput(side, 1),)
    )
    product = product_of(work, soc)
    tilings = list(candidates(product, rates_of(soc, work.dtype.value), 1))
    for tiling in (tilings[0], tilings[-1]):
        (group,) = cube_stage(work, product, tiling, soc, Expansion(soc)).groups
        for ref, write in ((wide, False), (side, True), (plain.out, True)):
            spans = transfers(group.block, ref.region, write)
            assert union(spans) == [(0, ref.bytes)], (ref.region, tiling)
            assert int((spans[:, 1] - spans[:, 0]).sum()) == ref.bytes
