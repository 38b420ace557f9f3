"""Which program stands for which row, and what of its run is compared.

The rows of the vendor's examples come from Ascend910B1: they say so or run on 24 cube cores at 1.85 GHz
(total cycles over the time of the cores in the same tables); those of the matmul with 4 and 20 cores from a
part with 20 at 1.85 GHz. Launch and dispatch count where the time of the task was measured, the head of the
kernel where that of the cores was. Conditions that the table does not repeat:

- Rows 49, 50, 1005 and 1006 read past L2: the example gives their tensor the hint CACHE_MODE_DISABLE.
- Kernels of the vendor's matmul library keep two loads in L1 and use UnitFlag in the Norm template (one basic
  block a load), not in MDL (`MatmulConfig`). Rows 1017 to 1019 set the depth of both operands to one load;
  row 53 names no second one, and is not explained with it. Of a depth of more than two (row 76) the Norm
  template holds all blocks but two as one, which is free when the tile is done (`CubeInBuffer` of
  asc-devkit): the next tile's loads wait for that. The type of a result that a row does not name is that of
  the operands.
- With enableKdimReorderLoad (row 70) core i starts at chunk i of k; with doMTE2Preload (row 80) the next load
  goes ahead of the work on this one (`KLoop`, `MatmulSchedulerBase` of asc-devkit).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ascendsim.core.dtypes import DType
from ascendsim.isa.instructions import Buffer
from ascendsim.validate.micro_programs import (
    Build,
    Product,
    Walk,
    both_ways,
    fills,
    matmul,
    matrix_reads,
    on_chip_moves,
    products,
    vector_calls,
)

UNITS, MEMORY, MATMUL = "units of a core", "global memory", "matmul kernels"
KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class Run:
    """What is read off a simulated program: microseconds of a core.

    Attributes:
        task_us: The whole task, launch and dispatch included.
        core_us: From the start of the kernel to the end of its last instruction, mean of the cores.
        work_us: The same from the first instruction on.
        pipe_us: Busy time by pipe, mean of the cores.
    """

    task_us: float
    core_us: float
    work_us: float
    pipe_us: Mapping[str, float]


Read = Callable[[Run], float]


@dataclass(frozen=True, slots=True)
class Case:
    """A row with its program.

    Attributes:
        read: The figure, in the unit of the row.
        settings: Overrides of the chip.
    """

    row: int
    group: str
    chip: str
    build: Build
    read: Read
    settings: Mapping[str, int] = field(default_factory=dict)


def _gb(size: int) -> Read:
    return lambda run: size / run.work_us / 1e3


def _core_gb(size: int) -> Read:
    return lambda run: size / run.core_us / 1e3


def _gflops(operations: int) -> Read:
    return lambda run: operations / run.work_us / 1e3


def _us(run: Run) -> float:
    return run.core_us


def _task_us(run: Run) -> float:
    return run.task_us


def _work_us(run: Run) -> float:
    return run.work_us


def _ticks(run: Run) -> float:
    return run.work_us * 50  # of the 50 MHz system counter


def _mte2(run: Run) -> float:
    return run.pipe_us["MTE2"]


_SMALL, _LARGE, _FAST = "Ascend310", "Ascend910B1", "Ascend910B3"
_MHZ = {"frequency_mhz": 1850}
# us until the vendor's library has worked out its addresses (source of row 106): with its tiling in memory,
# and compiled in
_HEAD, _CONSTANT_HEAD = 3.536, 2.185
_RUNS = 1000


def _unit_cases() -> tuple[Case, ...]:
    """One unit of a core, or of both cores, kept busy by instructions of the largest size."""
    flops = 7936 * 16 * 8 * 16  # of 256 x 128 x 256, counted as the paper does
    found = [Case(1, MEMORY, _SMALL, both_ways(200, 64 * KIB, 2), _gb(200 * 64 * KIB * 4))]
    for row, cores in ((2, 1), (4, 1), (25, 2)):
        found.append(
            Case(row, UNITS, _SMALL, products(_RUNS, (256, 128, 256), cores), _gflops(_RUNS * flops * cores))
        )
    for row, target, cores in (
        (5, Buffer.L0A, 1),
        (7, Buffer.L0B, 1),
        (26, Buffer.L0A, 2),
        (28, Buffer.L0B, 2),
    ):
        size = 64 * KIB
        found.append(
            Case(
                row,
                UNITS,
                _SMALL,
                on_chip_moves(_RUNS, Buffer.L1, target, size, cores),
                _gb(_RUNS * size * cores),
            )
        )
    for row, cores in ((10, 1), (29, 2)):
        size = 255 * 256 // 2  # source and target fit into UB
        found.append(
            Case(
                row,
                UNITS,
                _SMALL,
                on_chip_moves(_RUNS, Buffer.UB, Buffer.UB, size, cores),
                _gb(_RUNS * size * cores),
            )
        )
    found.append(
        Case(
            8,
            UNITS,
            _SMALL,
            vector_calls(_RUNS, "vconv", DType.FLOAT32, 255 * 64, ()),
            _gb(_RUNS * 255 * 256),
        )
    )
    # Ascend910B: 64 repeats of an addition; addresses of result and sources as published, or any that
    # conflict in the stated way
    for row, addresses in (
        (32, (0x10100, 0, 0x10100)),
        (34, (0x14100, 0, 0x10000)),
        (35, (0x10000, 0, 0x4000)),
        (37, (0x4000, 0, 0x10100)),
    ):
        found.append(
            Case(row, UNITS, _LARGE, vector_calls(_RUNS, "vadd", DType.FLOAT32, 4096, addresses), _ticks)
        )
    return tuple(found)


def _memory_cases() -> tuple[Case, ...]:
    """A matrix of 12288 x 12288 halves, or a small one that all cores read, through MTE2; a tensor filled
    with zeros.
    """
    side = 12288
    kernels = (38, 40, 44, 1003)  # measured from the start of the kernel, the others while MTE2 was busy
    walks = {
        38: Walk(side, side, (64, 1024), 24, to_l1=True, repeats=4, slices=4),
        40: Walk(side, side, (64, 1024), 24, to_l1=True, repeats=4),
        41: Walk(side, side, (64, 256), 24, to_l1=True),
        43: Walk(side, side, (64, 64), 24, to_l1=True),
        44: Walk(side, side, (64, 1024), 48, repeats=4),
        46: Walk(side, side, (64, 1024), 48, pitch=side - 1),
        47: Walk(side, side, (64, 64), 48),
    }
    times = {
        49: Walk(6144, 512, (128, 64), 48, shared=True, cached=False),
        50: Walk(6144, 512, (128, 64), 48, shared=True, cached=False, rotated=True),
        1001: Walk(side, side, (1, 64), 48),
        1002: Walk(side, side, (64, 1024), 48),
        1003: Walk(side, side, (64, 1024), 48, repeats=4, slices=4),
        1004: Walk(side, side, (64, 256), 24, to_l1=True, pitch=side - 1),
        1005: Walk(6144, 512, (256, 64), 24, to_l1=True, shared=True, cached=False),
        1006: Walk(6144, 512, (256, 64), 24, to_l1=True, shared=True, cached=False, rotated=True),
    }
    rates = tuple(
        Case(row, MEMORY, _LARGE, matrix_reads(walk), (_core_gb if row in kernels else _gb)(walk.bytes))
        for row, walk in walks.items()
    )
    filled = Case(163, MEMORY, _LARGE, fills(232138240 * 4, 64 * KIB, 48), _task_us)
    spans = (
        Case(row, MEMORY, _LARGE, matrix_reads(walk), _us if row in kernels else _work_us)
        for row, walk in times.items()
    )
    return (filled, *rates, *spans)


def _matmul_cases() -> tuple[Case, ...]:
    """Kernels of the vendor's matmul library with published tilings."""
    long, wide, small = (128, 1280), (128, 256, 64), (64, 64, 256)
    norm = Product(128, 30720, 1024, long, wide, slots=2, unit_flag=True, in_turn=True, head_us=_HEAD)
    mdl = replace(norm, steps=4, unit_flag=False, in_turn=False)
    ragged = Product(1024, 4095, 1024, (128, 1408), wide, steps=4, slots=1, head_us=_HEAD)
    deep = Product(768, 2048, 6144, (128, 512), wide, steps=4, slots=2, head_us=_HEAD)
    staggered = replace(deep, staggered=True)
    # the operand that stays in L1 is the right one here and the left one in the row: the mirror image loads
    # ahead
    ahead = Product(
        24576,
        128,
        512,
        (1024, 128),
        (128, 128, 64),
        steps=8,
        keeps="b",
        a_transposed=True,
        b_transposed=True,
        head_us=_HEAD,
    )
    behind = Product(128, 24576, 512, (128, 1024), (128, 128, 64), steps=8, keeps="a", head_us=_HEAD)
    thin = Product(128, 30720, 64, long, wide, slots=2, head_us=_CONSTANT_HEAD)
    fine = Product(4096, 5120, 4096, (1024, 1024), small, slots=2, unit_flag=True, out=DType.FLOAT32)
    coarse, few = replace(fine, base=wide), replace(fine, share=(2048, 2560))
    alone = Product(8192, 8192, 8192, (8192, 8192), wide, slots=1, unit_flag=True, b_transposed=True)
    huge = Product(8192, 8192, 8192, (2048, 1536), wide, steps=4, slots=2, unit_flag=True, b_transposed=True)
    return (
        Case(53, MATMUL, _LARGE, matmul(ragged), _us),
        Case(70, MATMUL, _LARGE, matmul(staggered), _task_us),
        Case(74, MATMUL, _LARGE, matmul(mdl), _mte2),
        Case(76, MATMUL, _LARGE, matmul(norm), _us),
        Case(80, MATMUL, _LARGE, matmul(ahead), _us),
        Case(82, MATMUL, _FAST, matmul(fine), _mte2, _MHZ),
        Case(83, MATMUL, _FAST, matmul(coarse), _mte2, _MHZ),
        Case(85, MATMUL, _FAST, matmul(few), _us, _MHZ),
        Case(106, MATMUL, _LARGE, matmul(thin), _us),
        Case(1007, MATMUL, _LARGE, matmul(huge), _mte2),
        Case(1008, MATMUL, _LARGE, matmul(huge), _us),
        Case(1009, MATMUL, _LARGE, matmul(huge), _task_us),
        Case(1010, MATMUL, _LARGE, matmul(staggered), _mte2),
        Case(1011, MATMUL, _LARGE, matmul(deep), _mte2),
        Case(1012, MATMUL, _LARGE, matmul(behind), _us),
        Case(1013, MATMUL, _FAST, matmul(fine), _task_us, _MHZ),
        Case(1014, MATMUL, _FAST, matmul(replace(coarse, steps=4, unit_flag=False)), _mte2, _MHZ),
        Case(1015, MATMUL, _LARGE, matmul(norm), _mte2),
        Case(1016, MATMUL, _LARGE, matmul(mdl), _us),
        Case(1017, MATMUL, _LARGE, matmul(replace(alone, base=(64, 64, 64))), _us),
        Case(1018, MATMUL, _LARGE, matmul(alone), _us),
        Case(1019, MATMUL, _LARGE, matmul(replace(alone, share=huge.share)), _us),
        Case(1020, MATMUL, _LARGE, matmul(replace(huge, unit_flag=False)), _us),
    )


def micro_cases() -> tuple[Case, ...]:
    """All cases, by row."""
    return tuple(sorted((*_unit_cases(), *_memory_cases(), *_matmul_cases()), key=lambda case: case.row))
