"""The examples on the Cube: values of all their cases, and what their time depends on."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from ascendsim.isa.instructions import SetFlag
from ascendsim.isa.walk import static
from tests.support.gate import in_turn

FOLDER = Path(__file__).parents[2] / "examples/kernels"
FILES = (
    "matmul",
    "matmul_unit_flag",
    "matmul_int8",
    "split_k",
    "conv2d",
    "matmul_leaky_relu",
    "flash_attention",
)


def names_of(file: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / f"{file}.py"), run_name=file)


@pytest.mark.parametrize(("file", "soc"), in_turn(FILES, ["Ascend910B1", "Ascend910B4"]))
def test_cases_hold(file: str, soc: str) -> None:
    made = asc.cases(names_of(file))
    assert made
    for name, case_of in made.items():
        case = case_of()
        result = asim.run_kernel(case.kernel, case.cores, *case.args, soc=soc)
        assert case.failures() == [], name
        assert result.findings == (), name


@pytest.mark.parametrize("sizes", [(1, 1, 1), (16, 16, 16), (130, 260, 65), (257, 17, 129), (100, 513, 40)])
def test_products_of_any_size(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    names = names_of("matmul")
    a, b, c = names["numbers"](m, k), names["numbers"](k, n, seed=1), np.zeros((m, n), np.float32)
    result = asim.run_kernel(names["matmul_tails"], -(-m // 128), a, b, c, m, n, k)
    assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5, atol=1e-4)
    assert result.findings == ()


def test_unit_flags_order_products_and_fixpipe_of_each_tile() -> None:
    case = names_of("matmul_unit_flag")["case"]()
    block = asim.run_kernel(case.kernel, 2, *case.args).program.tasks[0].groups[0].block
    flags = {flag.name: (flag.source.value, flag.target.value, flag.initial) for flag in block.flags}
    assert flags["unit0x0.full"] == ("M", "FIX", 0)
    assert flags["unit0x10000.free"] == ("FIX", "M", 1)
    early = [item.flag for item, _ in static(block.body) if isinstance(item, SetFlag) and item.unit_flag]
    assert set(early) == {"unit0x0.full", "unit0x10000.full"}  # FIXPIPE may follow inside of the last product


def test_cores_that_share_k_are_faster_than_one() -> None:
    names = names_of("split_k")
    a, b = np.ones((16, 8192), np.float16), np.ones((256, 8192), np.float16)
    times = []
    for cores in (1, 8):
        c = np.zeros((16, 256), np.float32)
        times.append(asim.run_kernel(names["split_k"], cores, a, b, c, 16, 256, 8192).duration_us)
        assert (c == 8192).all()
    assert times[1] < times[0] / 2


def test_one_wrong_row_of_a_case_is_seen() -> None:
    case = names_of("matmul")["whole_tiles"]()
    asim.run_kernel(case.kernel, case.cores, *case.args)
    case.args[2][5, 7] += 1
    assert len(case.failures()) == 1
