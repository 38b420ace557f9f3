"""The bias in L0C: written there before the products, one tile ahead of the Cube, or taken from a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim import soc as chips
from ascendsim.core.errors import CompileError
from ascendsim.isa.instructions import Buffer, Mmad, Move, Pipe, Vector
from ascendsim.isa.program import CoreKind
from ascendsim.lower.emit import BlockBuilder, pieces
from ascendsim.lower.templates.bias import BROADCAST, NoBias, bias_of, bias_passes, in_turn
from ascendsim.lower.templates.cube import lower_cube
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.opset.work import CubeWork
from ascendsim.soc import SocSpec
from tests.support.lowering import computed, convolution, executed, matmul, ref, verify

BROADCASTING, TABLES = ("Ascend310", "Ascend310P3", "Ascend910A"), ("Ascend310B1", "Ascend910B1")
WORKS = {
    "convolution": lambda soc: convolution(64, 28, 96, 3, pad=1, images=2),
    "pointwise": lambda soc: convolution(256, 14, 1024, 1),
    "few rows": lambda soc: matmul(16, 512, 4096, soc, bias=ref("bias", (4096,))),
    "many rows": lambda soc: matmul(4096, 64, 48, soc, bias=ref("bias", (48,))),
    "square": lambda soc: matmul(1024, 1024, 1000, soc, bias=ref("bias", (1000,))),
    "batched": lambda soc: matmul(60, 96, 200, soc, batch=3, bias=ref("bias", (200,))),
}


def lowered(work: CubeWork, soc: SocSpec) -> list[Stage]:
    stages, rest = lower_cube(work, soc, Expansion(soc))
    assert rest is None
    return stages


@pytest.mark.parametrize("chip", [*BROADCASTING, *TABLES])
@pytest.mark.parametrize("name", WORKS)
def test_programs_are_sound(chip: str, name: str) -> None:
    soc = chips.load(chip)
    verify(lowered(WORKS[name](soc), soc), soc, limit=6000)


@pytest.mark.parametrize("chip", BROADCASTING)
@pytest.mark.parametrize("name", WORKS)
def test_the_vector_unit_writes_it_before_the_cube_adds(chip: str, name: str) -> None:
    soc = chips.load(chip)
    work: CubeWork = WORKS[name](soc)
    stages = lowered(work, soc)
    assert computed(stages, "vadd") == 0
    assert all(
        item.accumulate and not item.fresh_at for item, _ in executed(stages) if isinstance(item, Mmad)
    )
    writes = [
        (item, times) for item, times in executed(stages) if isinstance(item, Vector) and item.op == BROADCAST
    ]
    assert {item.dst.buffer for item, _ in writes} == {Buffer.L0C}
    assert {item.dtype for item, _ in writes} == {"float32"}
    fetched = computed(stages, "l0c_to_ub")
    # each tile has its bias; the last one of a run has one too many
    assert fetched <= sum(item.elements * times for item, times in writes)


@pytest.mark.parametrize("chip", BROADCASTING)
def test_nothing_is_written_without_a_bias(chip: str) -> None:
    soc = chips.load(chip)
    stages = lowered(replace(convolution(64, 28, 96, 3, pad=1), bias=None), soc)
    assert computed(stages, BROADCAST) == 0
    assert any(not item.accumulate or item.fresh_at for item, _ in executed(stages) if isinstance(item, Mmad))


@pytest.mark.parametrize("chip", TABLES)
@pytest.mark.parametrize("name", WORKS)
def test_a_table_spares_the_vector_unit(chip: str, name: str) -> None:
    soc = chips.load(chip)
    work: CubeWork = WORKS[name](soc)
    stages = lowered(work, soc)
    assert computed(stages, BROADCAST) == computed(stages, "vadd") == 0
    moves = [item for item, _ in executed(stages) if isinstance(item, Move) and item.kind == "bias"]
    assert moves
    assert {(item.pipe, item.src.buffer, item.dst.buffer) for item in moves} == {
        (Pipe.MTE1, Buffer.L1, Buffer.BT)
    }
    assert bias_passes(work, soc) == 0


def test_what_it_costs_in_terms_of_the_vector_unit() -> None:
    """Four bytes an element through a port of 256 B are two passes of 256 B over 16-bit elements."""
    work = convolution(64, 28, 96, 3)
    assert [bias_passes(work, chips.load(chip)) for chip in BROADCASTING] == [2, 2, 2]
    assert bias_passes(replace(work, bias=None), chips.load("Ascend310")) == 0


def test_a_chip_without_a_way_says_so() -> None:
    soc = chips.load("Ascend310")
    soc = replace(soc, ports=replace(soc.ports, ub_to_l0c=None))
    with pytest.raises(
        CompileError, match=r"bias 'bias' has no way into L0C of Ascend310; set ports.ub_to_l0c"
    ):
        lowered(convolution(64, 28, 96, 3), soc)


def test_columns_in_turn_name_the_ones_that_follow() -> None:
    """Three tiles of 32 columns and a tail of 16: the first one follows the last."""
    soc = chips.load("Ascend310")
    work = matmul(64, 64, 112, soc, bias=ref("bias", (112,)))
    b = BlockBuilder(soc, CoreKind.AI)
    l0c = b.ring("l0c", Pipe.M, Pipe.V, 2, (Buffer.L0C, 64 * 112 * 4))
    bias = bias_of(b, work, l0c, Expansion(soc), (64, 32), 112)
    found = []
    for part, index, after in in_turn(b, bias, pieces(112, 32), "n"):
        trips = range(part.trips - 1) if index.terms else (0,)
        found += [(part.at(index).at({"n": n}), after[0].at({"n": n}), after[1]) for n in trips]
    assert found == [(0, 32, 32), (32, 64, 32), (64, 96, 16), (96, 0, 32)]
    plain = [(part.trips, after[1]) for part, _, after in in_turn(b, NoBias(), pieces(112, 32), "n")]
    assert plain == [(3, 32), (1, 16)]
