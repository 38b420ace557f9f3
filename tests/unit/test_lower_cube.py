"""Cube work: coverage, conservation, hazards, choice of tiles, and speed on the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format, align
from ascendsim.isa.instructions import Img2Col, Mmad, Move, Vector
from ascendsim.isa.program import CoreKind, TaskKind
from ascendsim.lower.templates.conv import window
from ascendsim.lower.templates.cube import lower_cube, product_of
from ascendsim.lower.templates.product import Product, rates_of
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tile_sizes import tile_sizes
from ascendsim.lower.templates.tiling import (
    FEW,
    FEW_SHORTER,
    NEAR,
    best_tilings,
    candidates,
    shares,
)
from ascendsim.lower.templates.traffic import aligned_planes
from ascendsim.machine import run
from ascendsim.opset.work import ConvGeometry, CubeWork, Step, Stream
from ascendsim.soc import SocSpec, load
from tests.support.gate import in_turn
from tests.support.lowering import (
    CHIPS,
    convolution,
    executed,
    matmul,
    moved,
    multiplied,
    program_of,
    ref,
    verify,
)

WORKS = {
    "square": lambda soc: matmul(256, 512, 384, soc),
    "ragged": lambda soc: matmul(197, 770, 1000, soc),
    "one row": lambda soc: matmul(1, 2048, 1000, soc),
    "batched": lambda soc: matmul(50, 64, 50, soc, batch=12),
    "shared": lambda soc: replace(
        matmul(40, 64, 96, soc, batch=6), b=ref("b", (64, 96), Format.FRACTAL_NZ), b_shared=True
    ),
    "transposed": lambda soc: matmul(64, 64, 128, soc, transpose_a=True, transpose_b=True),
    "first layer": lambda soc: convolution(3, 224, 64, 7, 2, 3),
    "3x3": lambda soc: convolution(64, 56, 64, 3, 1, 1),
    "1x1": lambda soc: convolution(256, 14, 1024, 1),
    "1x1 stride 2": lambda soc: convolution(256, 56, 512, 1, 2),
    "two images": lambda soc: convolution(512, 7, 512, 3, 1, 1, images=2),
    "patches": lambda soc: convolution(3, 224, 768, 16, 16),
    "wide": lambda soc: convolution(64, 224, 64, 3, 1, 1),
}


def lowered(work: CubeWork, soc: SocSpec) -> list:  # type: ignore[type-arg]
    return lower_cube(work, soc, Expansion(soc))[0]


@pytest.mark.parametrize(("name", "chip"), in_turn([*WORKS], CHIPS))
def test_every_product_is_computed_once_and_stored_once(chip: str, name: str) -> None:
    soc = load(chip)
    work = WORKS[name](soc)
    stages = lowered(work, soc)
    verify(stages, soc)
    product = product_of(work, soc)
    assert (
        multiplied(stages) == product.batch * product.images * product.m * product.n * product.k_blocks * 16
    )
    rows = align(product.m, 16) if work.out.format is Format.FRACTAL_NZ else product.m
    columns = product.n if work.out.format is Format.ND else align(product.n, 16)
    bytes = moved(stages)
    assert bytes[work.out.region, True] == product.batch * product.images * rows * columns * 2
    assert bytes[work.b.region, False] >= min(work.b.bytes, work.n * work.k * 2)


@pytest.mark.parametrize("chip", CHIPS)
def test_groups_fill_cores_without_exceeding_them(chip: str) -> None:
    soc = load(chip)
    for make in WORKS.values():
        (stage,) = lowered(make(soc), soc)
        assert 1 <= sum(group.count for group in stage.groups) <= soc.ai_cores
        assert stage.kind is TaskKind.AI_CORE
        assert {group.block.core for group in stage.groups} == {
            CoreKind.CUBE if soc.split_cores else CoreKind.AI
        }


def test_first_step_of_k_starts_anew_and_others_accumulate() -> None:
    soc = load("Ascend310")
    fresh = total = 0
    for item, times in executed(lowered(matmul(64, 1024, 64, soc), soc)):
        if isinstance(item, Mmad):
            total += times
            assert item.accumulate == bool(item.fresh_at)
            fresh += bool(item.fresh_at)
    assert total > 1
    assert fresh >= 1


def test_coupled_cores_leave_through_the_vector_unit_and_split_ones_through_fixpipe() -> None:
    for chip, pipe in (("Ascend310", "V"), ("Ascend910B1", "FIX")):
        soc = load(chip)
        ops = [item for item, _ in executed(lowered(convolution(64, 28, 64, 3, 1, 1), soc))]
        assert any(isinstance(op, Vector) and op.op == "l0c_to_ub" for op in ops) == (pipe == "V")
        assert any(isinstance(op, Move) and op.kind == "fixpipe" for op in ops) == (pipe == "FIX")
        assert any(isinstance(op, Move) and op.kind == "bias" for op in ops) == (pipe == "FIX")


def test_only_maps_that_must_be_unfolded_use_img2col() -> None:
    soc = load("Ascend910A")
    for work, expected in (
        (convolution(64, 28, 64, 3, 1, 1), True),
        (convolution(64, 28, 64, 1), False),
        (matmul(64, 64, 64, soc), False),
    ):
        assert any(isinstance(item, Img2Col) for item, _ in executed(lowered(work, soc))) is expected


def test_epilogue_runs_in_ub_on_coupled_cores_and_as_vector_work_on_split_ones() -> None:
    steps = (Step("vmuls"), Step("vadds"))
    coupled, split = load("Ascend310"), load("Ascend910B1")
    work = replace(matmul(64, 64, 64, coupled), epilogue=steps)
    stages, rest = lower_cube(work, coupled, Expansion(coupled))
    verify(stages, coupled)
    assert rest is None
    assert {"vmuls", "vadds"} <= {item.op for item, _ in executed(stages) if isinstance(item, Vector)}
    stages, rest = lower_cube(replace(matmul(64, 64, 64, split), epilogue=steps), split, Expansion(split))
    assert rest is not None
    assert rest.steps == steps
    _, rest = lower_cube(
        replace(matmul(64, 64, 64, split), epilogue=(Step("vrelu"),)), split, Expansion(split)
    )
    assert rest is None


def test_epilogue_inputs_of_every_kind_are_read() -> None:
    soc = load("Ascend310")
    extra = {
        "all": ref("e", (300, 200), Format.FRACTAL_NZ),
        "col": ref("e", (200,)),
        "row": ref("e", (300,)),
        "one": ref("e", (1,)),
    }
    for over, other in extra.items():
        work = replace(
            matmul(300, 64, 200, soc), epilogue=(Step("vadd"),), epilogue_inputs=(Stream(other, over),)
        )
        stages, _ = lower_cube(work, soc, Expansion(soc))
        verify(stages, soc)
        read = moved(stages)["e", False]
        assert read == other.bytes if over == "all" else read >= other.bytes


def test_a_type_that_the_cube_lacks_names_the_remedy() -> None:
    soc = load("Ascend310")
    with pytest.raises(CompileError, match="multiplies .*float16.*not float32; compile with precision_mode"):
        lowered(replace(matmul(64, 64, 64, soc), dtype=DType.FLOAT32), soc)


def test_a_map_that_fits_no_buffer_is_a_compile_error() -> None:
    """Two pieces of both operands, 16 positions and columns and one tap each, and the bias of 16 columns."""
    work = convolution(64, 4096, 64, 7, 1, 3)
    least = 2 * (16 + 16) * 32 + 16 * 4
    assert lowered(work, load("Ascend310", {"buffers.l1": least}))
    with pytest.raises(CompileError, match="must fit its smallest tile and 4 bytes a column"):
        lowered(work, load("Ascend310", {"buffers.l1": least - 1}))


@pytest.mark.parametrize("sizes", [(64, 64, 30000), (16, 16, 16), (300, 200, 100), (40, 2000, 16)])
def test_the_bytes_that_are_missing_are_those_that_would_do(sizes: tuple[int, int, int]) -> None:
    def lower(bytes: int) -> list[Stage]:
        soc = load("Ascend310", {"buffers.l1": bytes})
        return lowered(matmul(*sizes, soc), soc)

    with pytest.raises(CompileError, match="must fit its smallest tile") as caught:
        lower(1024)
    wanted = int(str(caught.value).split("about ")[1].split()[0])
    assert lower(wanted)
    with pytest.raises(CompileError, match="must fit its smallest tile"):
        lower(wanted - 1)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend310P3", "Ascend910A"])
@pytest.mark.parametrize(
    "sizes", [(64, 64, 16), (40, 64, 64), (16, 512, 1000), (1, 2048, 1000), (300, 100, 32)]
)
def test_tiles_of_int8_matrices_hold_whole_blocks(chip: str, sizes: tuple[int, int, int]) -> None:
    """Stored blocks are 32 columns wide there, twice as wide as a block of the Cube."""
    soc, (m, k, n) = load(chip), sizes
    kind, format = DType.INT8, Format.FRACTAL_NZ
    a, b, out = (
        ref("a", (m, k), format, kind),
        ref("b", (k, n), format, kind),
        ref("c", (m, n), format, DType.INT32),
    )
    stages = lowered(CubeWork(m, k, n, a, b, out, dtype=kind), soc)
    verify(stages, soc)
    assert product_of(CubeWork(m, k, n, a, b, out, dtype=kind), soc).b_blocks(16) == 2


def test_window_counts_halo_rows() -> None:
    conv = convolution(64, 56, 64, 3, 1, 1).conv
    assert conv is not None
    assert window(conv, 56, 56).rows == 3
    assert window(conv, 112, 56).rows == 4
    assert window(conv, 112, 1).rows == 5  # spans three output rows if it begins inside of one
    assert window(conv, 16, 8).rows == 4  # from the 48th position on
    assert window(conv, 28, 28).rows == 3  # half a row
    assert window(conv, 64, 1).rows == 5
    assert window(conv, 56 * 56, 1).rows == 56
    strided = convolution(64, 56, 64, 1, 2).conv
    assert strided is not None
    assert window(strided, 28 * 4, 28).rows == 4  # rows between are skipped


@pytest.mark.parametrize(
    ("size", "kernel", "tile", "aligned"),
    [
        (32, 1, 64, True),
        (32, 1, 24, False),  # the second tile begins inside a fractal
        (32, 1, 1032, True),  # there is no second one in a map
        (28, 3, 4 * 28, True),
        (28, 3, 3 * 28, False),
        (7, 1, 16, False),  # channel blocks of 49 values a lane
    ],
)
def test_tiles_of_maps_are_aligned_if_maps_and_tiles_are_whole_fractals(
    size: int, kernel: int, tile: int, aligned: bool
) -> None:
    conv = convolution(64, size, 64, kernel, 1, kernel // 2).conv
    assert conv is not None
    assert aligned_planes(conv, kernel == 1, tile) == aligned


def test_tiles_of_an_axis_of_96_fractals_are_its_even_parts() -> None:
    assert tile_sizes(96 * 16, 64) == [96 * 16 // parts for parts in (2, 3, 4, 6, 8, 12, 24, 48)]


def test_maps_that_are_unfolded_are_shared_by_whole_rows_as_well_as_by_fractals() -> None:
    """Four cores, 28 rows of 28: 13 of 49 fractals each, or 7 rows."""
    soc = load("Ascend910A")
    for kernel, wanted in ((1, {208}), (3, {208, 7 * 28})):
        product = product_of(convolution(64, 28, 64, kernel, 1, kernel // 2), soc)
        assert {share[2] for share in shares(product, 4) if share[2] < 250} == wanted


def test_the_best_tilings_have_the_lowest_scores_and_tiles_of_different_sizes_and_are_remembered() -> None:
    soc = load("Ascend910A")
    product = product_of(matmul(1024, 1024, 1024, soc), soc)
    best = best_tilings(product, soc)
    scores = [tiling.cycles for tiling in best]
    every = list(candidates(product, rates_of(soc, "float16")))
    assert scores[0] == min(tiling.cycles for tiling in every)
    assert scores == sorted(scores)
    for depth, most in ((16, FEW), (8, FEW_SHORTER)):
        few = [tiling for tiling in best if depth in tiling.depths]
        sizes = [(tiling.tile_m, tiling.tile_n) for tiling in few]
        assert 1 < len(sizes) == len(set(sizes)) <= most
        assert few[-1].cycles <= NEAR * few[0].cycles
        for tiling in few:  # each is the best of its size
            same = [
                other.cycles
                for other in every
                if (other.tile_m, other.tile_n) == (tiling.tile_m, tiling.tile_n) and depth in other.depths
            ]
            assert tiling.cycles == min(same)
    assert best_tilings(product, soc) is best


def time_us(work: CubeWork, soc: SocSpec) -> float:
    return run(program_of(lowered(work, soc)), soc).duration_us


# measured of 8192 x 8192 x 8192: 0.73
@pytest.mark.parametrize(("chip", "least"), [("Ascend910A", 0.8), ("Ascend910B1", 0.7)])
def test_a_large_gemm_keeps_the_cube_busy(chip: str, least: float) -> None:
    soc = load(chip)
    ideal = 4096**3 / 4096 / soc.ai_cores / soc.frequency_mhz
    assert ideal <= time_us(matmul(4096, 4096, 4096, soc), soc) <= ideal / least


@pytest.mark.parametrize("shape", [(64, 224), (256, 56), (512, 28)])
def test_vgg_convolutions_keep_the_cube_busy_on_two_cores(shape: tuple[int, int]) -> None:
    soc = load("Ascend310")
    channels, size = shape
    ideal = size * size * channels * channels * 9 / 4096 / soc.ai_cores / soc.frequency_mhz
    assert ideal <= time_us(convolution(channels, size, channels, 3, 1, 1), soc) <= ideal / 0.6


@pytest.mark.parametrize("chip", CHIPS)
def test_the_score_predicts_the_machine_within_a_factor_of_two(chip: str) -> None:
    soc = load(chip)
    for name in ("3x3", "1x1", "wide", "one row"):
        work = WORKS[name](soc)
        score = best_tilings(product_of(work, soc), soc)[0].cycles / soc.frequency_mhz
        heads = soc.launch.kernel_init_ns / 1000 + soc.launch.task_launch_us
        assert 0.5 < (score + heads) / time_us(work, soc) < 2


def test_ties_at_the_dram_go_to_the_tiling_that_moves_least_through_l2() -> None:
    soc = load("Ascend310P3")
    geometry = ConvGeometry(32, 256, 14, 14, 1, 1, 1, 1, 1, 1, (0, 0, 0, 0), 14, 14)
    product = Product(1, 32, 196, 1024, 16, geometry, 2, "float16", 3, extra_in_bytes=2)
    tiling = best_tilings(product, soc)[0]
    assert tiling.hold in ("a", "b")
    longer = best_tilings(replace(product, extra_in_bytes=0), soc)[0]
    assert tiling.cycles > longer.cycles  # the second operand of the sum comes through the same pipe


def test_blocks_of_b_are_32_columns_wide_only_where_int8_matrices_are_stored_so() -> None:
    """Not as filters, not the other way round, and not in maps."""
    soc, kind = load("Ascend310P3"), DType.INT8
    a, out = ref("a", (64, 96), Format.FRACTAL_NZ, kind), ref("c", (64, 80), Format.FRACTAL_NZ)
    for format, shape, turned, wide in (
        (Format.FRACTAL_NZ, (96, 80), False, 32),
        (Format.FRACTAL_NZ, (80, 96), True, 16),
        (Format.FRACTAL_Z, (80, 96, 1, 1), False, 16),
    ):
        b = ref("b", shape, format, kind)
        work = CubeWork(64, 96, 80, a, b, out, dtype=kind, transpose_b=turned)
        assert product_of(work, soc).b_columns == wide
    assert product_of(matmul(64, 96, 80, soc), soc).b_columns == 16


def test_tiles_of_a_row_major_b_may_end_with_its_lines() -> None:
    """A transaction of 512 B or a half of one; where columns of B do not lie in a row there are no lines."""
    soc = load("Ascend910B1")
    for dtype, lines in ((DType.FLOAT16, (256, 128)), (DType.INT8, (512, 256)), (DType.FLOAT32, (128, 64))):
        a, b, out = (ref(name, (640, 640), dtype=dtype) for name in "abc")
        plain = CubeWork(640, 640, 640, a, b, out, dtype=dtype)
        assert product_of(plain, soc).line_columns == lines
        assert product_of(replace(plain, transpose_b=True), soc).line_columns == ()
    coupled = load("Ascend310")
    assert product_of(matmul(64, 64, 64, coupled), coupled).line_columns == ()
