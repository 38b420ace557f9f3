"""Costs of the computing units: mmad on the Cube, instructions of the vector unit."""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError, suggest
from ascendsim.core.formats import L0C_ELEMENT_BYTES, ceil_div
from ascendsim.isa.cost_model import Cost, path_width, start_cycles, with_start
from ascendsim.isa.instructions import Mmad, Vector
from ascendsim.soc.spec import SocSpec

UNIT_BYTES = (
    512  # of L0C, by which UnitFlag orders mmad and FIXPIPE (Ascend C guide: MatmulConfig, enUnitFlag)
)


def mmad_cost(mmad: Mmad, soc: SocSpec, megahertz: int) -> Cost:
    """Blocks of m0 x k0 x n0 times the cycles of a block, plus the gap to the next mmad; the result is
    visible after the latency.

    v100 adds k1 - 2 cycles if k1 > 1 and m1 or n1 is odd (block counts; from the vendor's own cost model of
    TIK).

    Raises:
        CompileError: The Cube has no instruction for the element type.
    """
    cube = soc.cube
    per_block = cube.block_cycles(mmad.dtype, mmad.hf32)
    if per_block is None:
        raise CompileError(
            f"mmad of {'float32 cut to HF32' if mmad.hf32 else mmad.dtype}",
            f"does not exist on {soc.name}",
            remedy="the Cube takes " + ", ".join(sorted(cube.cycles_per_block)),
        )
    m1, k1, n1 = ceil_div(mmad.m, cube.m0), ceil_div(mmad.k, cube.k0[mmad.dtype]), ceil_div(mmad.n, cube.n0)
    cycles = m1 * k1 * n1 * per_block + cube.gap_cycles
    if cube.odd_size_penalty and k1 > 1 and (m1 % 2 or n1 % 2):
        cycles += k1 - 2
    occupancy, head = with_start(cycles, start_cycles(soc, megahertz))
    return Cost(occupancy, cube.latency_cycles, head=head)


def unit_flag_cycles(mmad: Mmad, soc: SocSpec) -> int:
    """Cycles before the end of an mmad at which FIXPIPE may begin to store its tile, if the two are in step
    unit by unit.

    FIXPIPE follows one unit of 512 B behind: it starts after the first unit if it is the slower one, else
    late enough to end with the last one.
    """
    units = ceil_div(mmad.m * mmad.n * L0C_ELEMENT_BYTES, UNIT_BYTES)
    occupancy = mmad_cost(mmad, soc, soc.frequency_mhz).occupancy
    rate = soc.ports.fixpipe_elements_per_cycle
    stored = occupancy if rate is None else min(occupancy, int(mmad.m * mmad.n / rate))
    return stored * (units - 1) // units


def vector_cost(vector: Vector, soc: SocSpec, megahertz: int) -> Cost:
    """Repeats of `repeat_bytes` of the widest operand times cycles per repeat, for each of the item's calls.

    Cycles per repeat hold for units that take a repeat in a cycle; narrower ones need proportionally longer.
    A call longer than `max_repeat` repeats is several instructions; a length that is no multiple of a repeat
    pays the mask.

    Raises:
        CompileError: The chip lacks the intrinsic, has it for other element types only, or its cost is
            unknown.
    """
    if vector.op == "l0c_to_ub":
        return _with_l0c(vector, path_width(soc.ports.l0c_to_ub, "L0C -> UB", soc), soc, megahertz)
    if vector.op == "broadcast_ub_to_cc":
        return _with_l0c(vector, path_width(soc.ports.ub_to_l0c, "UB -> L0C", soc), soc, megahertz)
    unit = soc.vector
    per_repeat = _cycles_per_repeat(vector, soc) * max(1.0, unit.repeat_bytes / unit.bytes_per_cycle)
    per_repeat += vector.bank_conflict * unit.bank_conflict_cycles
    per_repeat += vector.write_conflict * unit.write_conflict_cycles
    length = vector.elements * DType.of(vector.dtype).itemsize
    repeats = ceil_div(length, unit.repeat_bytes)
    instructions = max(1, ceil_div(repeats, unit.max_repeat))
    cycles = max(repeats * per_repeat, instructions * unit.minimum_cycles)
    if length % unit.repeat_bytes:
        cycles += unit.mask_cycles
    issues = vector.calls * instructions
    occupancy, head = with_start(cycles / instructions, start_cycles(soc, megahertz), issues)
    return Cost(occupancy, unit.latency_cycles, issues, unit.head_cycles + head)


def _with_l0c(vector: Vector, width: float, soc: SocSpec, megahertz: int) -> Cost:
    """The vector unit of coupled cores fetches results from L0C or writes a bias there; the width counts
    bytes in L0C.
    """
    size = vector.elements * DType.of(vector.dtype).itemsize
    occupancy, head = with_start(size / width, start_cycles(soc, megahertz), vector.calls)
    return Cost(
        occupancy, soc.vector.latency_cycles, vector.calls, soc.vector.head_cycles + head, vector.calls * size
    )


def _cycles_per_repeat(vector: Vector, soc: SocSpec) -> float:
    unit = soc.vector
    dtypes = unit.intrinsics.get(vector.op)
    if dtypes is None:
        raise CompileError(
            f"intrinsic {vector.op!r}",
            f"does not exist on {soc.name}",
            remedy=suggest(vector.op, unit.intrinsics),
        )
    if vector.dtype not in dtypes:
        raise CompileError(
            f"intrinsic {vector.op} of {vector.dtype}",
            f"does not exist on {soc.name}",
            remedy="it takes " + ", ".join(sorted(dtypes)),
        )
    for key in (f"{vector.op}.{vector.dtype}", vector.op):
        if key in unit.cycles_per_repeat:
            return unit.cycles_per_repeat[key]
    raise CompileError(
        f"intrinsic {vector.op}",
        f"has no cost on {soc.name}",
        remedy=f"set vector.cycles_per_repeat of {vector.op!r}",
    )
