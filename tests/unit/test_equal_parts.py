"""Products of prime numbers of blocks, which equal parts would leave to one core."""

from __future__ import annotations

import pytest

from ascendsim.lower.templates.cube import cube_options
from ascendsim.lower.templates.steps import Expansion
from ascendsim.machine import run
from ascendsim.soc import load
from tests.support.lowering import matmul, program_of

CHIPS = ("Ascend310", "Ascend310P3", "Ascend310B1")  # those of 910A do: `kernels.even_products`


@pytest.mark.parametrize("chip", CHIPS)
def test_a_product_of_prime_numbers_of_blocks_takes_no_multiple_of_its_neighbours_time(chip: str) -> None:
    soc = load(chip)

    def ticks(rows: int, columns: int) -> int:
        stage = cube_options(matmul(16 * rows, 1024, 16 * columns, soc), soc, Expansion(soc))[0]()
        return run(program_of([stage]), soc).end

    for rows, columns in ((37, 67), (37, 65), (38, 67), (1, 67)):
        assert ticks(rows, columns) < 2.5 * ticks(min(rows, 36), 64)
