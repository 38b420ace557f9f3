"""Products of the first generation of training chips: published block counts, tiles that divide, whole
images.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.lower.templates.cube import cube_options, lower_cube, product_of
from ascendsim.lower.templates.even_tiling import (
    cores_of_columns,
    cores_of_images,
    even_tiling,
    map_tiling,
    quickest_even,
)
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.machine import run
from ascendsim.opset.steps import Step
from ascendsim.opset.work import CubeWork, Stream
from ascendsim.soc import SocSpec, load
from tests.support.lowering import convolution, matmul, moved, multiplied, program_of, ref, verify


@pytest.fixture(scope="module")
def soc() -> SocSpec:
    return load("Ascend910B")


def gradient(m: int, k: int, n: int, soc: SocSpec) -> CubeWork:
    """Of a weight: the left operand is turned."""
    turned = ref("a", (k, m), Format.FRACTAL_NZ)
    return replace(matmul(m, k, n, soc), a=turned, transpose_a=True)


def blocks(work: CubeWork, soc: SocSpec) -> int:
    (stage,) = lower_cube(work, soc, Expansion(soc))[0]
    return sum(group.count for group in stage.groups)


@pytest.mark.parametrize(
    ("m", "k", "n", "published"),
    [
        (12800, 768, 768, 30),
        (12544, 3072, 768, 28),
        (20000, 1024, 512, 25),
        (256, 1008, 768, 24),
        (64, 112, 2048, 32),
        (16, 2048, 112, 7),
        (112, 32, 2048, 28),
    ],
)
def test_blocks_are_those_of_the_published_profile(
    m: int, k: int, n: int, published: int, soc: SocSpec
) -> None:
    assert blocks(matmul(m, k, n, soc), soc) == published


def test_fewer_cores_are_taken_where_columns_must_be_cut(soc: SocSpec) -> None:
    """15 x 8 blocks: 15 x 2 parts for 30 cores, but 3 x 8 if a share may have 2 blocks of columns at most."""
    product, rates = product_of(matmul(240, 512, 128, soc), soc), rates_of(soc, "float16")
    for most, parts in ((product.most_share_n, 30), (32, 24)):
        tiling = even_tiling(replace(product, most_share_n=most), rates, turned=False)
        assert tiling is not None
        assert 240 * 128 / (tiling.share_m * tiling.share_n) == parts
        assert tiling.share_n <= most


@pytest.mark.parametrize(
    ("m", "n", "published"), [(768, 768, 32), (1024, 512, 32), (1008, 768, 28), (3120, 1024, 30)]
)
def test_blocks_of_gradients_are_those_of_the_published_profile(
    m: int, n: int, published: int, soc: SocSpec
) -> None:
    assert blocks(gradient(m, 3200, n, soc), soc) == published


@pytest.mark.parametrize(
    ("m", "n", "shares"),
    [
        (768, 3072, (48, 1536)),  # 16 x 2 parts
        (3072, 768, (192, 384)),
        (1024, 512, (64, 256)),
        (3120, 1024, (208, 512)),  # 15 x 2 for 30 cores
        (1008, 768, (144, 192)),  # 28 parts are 7 x 4 only
    ],
)
def test_gradients_of_weights_have_two_parts_along_n(
    m: int, n: int, shares: tuple[int, int], soc: SocSpec
) -> None:
    rates = rates_of(soc, "float16")
    tiling = even_tiling(product_of(gradient(m, 3200, n, soc), soc), rates, turned=True)
    assert tiling is not None
    assert (tiling.share_m, tiling.share_n) == shares


def test_gradients_of_wide_weights_take_about_as_long_as_published(soc: SocSpec) -> None:
    """A step of ViT: 387 us for 768 x 3072 and 289 for 3072 x 768, over 3,200 rows, with a product behind."""

    def us(m: int, n: int) -> float:
        stages = lower_cube(gradient(m, 3200, n, soc), soc, Expansion(soc))[0]
        trace = run(program_of(stages), soc)
        return trace.us(trace.end)

    assert 387 / us(768, 3072) == pytest.approx(1, abs=0.3)
    assert 289 / us(3072, 768) == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("sizes", [(12800, 768, 3072), (12544, 3072, 768), (20000, 1024, 512), (240, 48, 80)])
def test_shares_and_tiles_have_equal_sizes(sizes: tuple[int, int, int], soc: SocSpec) -> None:
    m, k, n = sizes
    work = matmul(m, k, n, soc)
    tiling = even_tiling(product_of(work, soc), rates_of(soc, "float16"), turned=False)
    assert tiling is not None
    assert m % tiling.share_m == n % tiling.share_n == 0
    assert tiling.share_m % tiling.tile_m == tiling.share_n % tiling.tile_n == 0
    assert 2 * tiling.tile_m * tiling.tile_n * 4 <= soc.buffers.l0c  # type: ignore[operator]
    assert 2 * tiling.step_k * 32 * max(tiling.tile_m, tiling.tile_n) <= soc.buffers.l0a  # type: ignore[operator]
    assert k // 16 % tiling.step_k == 0


def test_of_tiles_that_fill_as_much_the_longest_is_taken(soc: SocSpec) -> None:
    """640 x 128 a core: 80 blocks are 10 x 8, 20 x 4 or 40 x 2."""
    tiling = even_tiling(product_of(matmul(3200, 768, 768, soc), soc), rates_of(soc, "float16"), turned=False)
    assert tiling is not None
    assert (tiling.tile_m, tiling.tile_n) == (40 * 16, 2 * 16)


def test_sizes_that_fill_the_chip_badly_cost_more_than_their_products(soc: SocSpec) -> None:
    """Published: 20000 rows take 2.7 times as long as 16000."""

    def ticks(m: int) -> int:
        stages = lower_cube(matmul(m, 1024, 512, soc), soc, Expansion(soc))[0]
        return run(program_of(stages), soc).end

    assert ticks(20000) > 2 * ticks(16000)


def test_everything_is_computed_and_moved(soc: SocSpec) -> None:
    work = matmul(240, 160, 80, soc)
    stages = lower_cube(work, soc, Expansion(soc))[0]
    verify(stages, soc)
    assert multiplied(stages) == 240 * 160 * 80
    assert moved(stages)["c", True] == 240 * 80 * 2


@pytest.mark.parametrize("rows", [37, 7, 13])
def test_sizes_without_even_cuts_for_most_cores_keep_the_search(soc: SocSpec, rows: int) -> None:
    """37 x 37 blocks can be cut for one core or 37, 13 x 37 for 13."""
    work = matmul(rows * 16, 64, 37 * 16, soc)
    assert even_tiling(product_of(work, soc), rates_of(soc, "float16"), turned=False) is None
    assert len(cube_options(work, soc, Expansion(soc))) > 1
    assert blocks(work, soc) >= min(rows, 10)


def test_other_chips_keep_the_search() -> None:
    other = load("Ascend310P3")
    assert len(cube_options(matmul(3200, 768, 768, other), other, Expansion(other))) > 1


@pytest.fixture(scope="module")
def wider() -> SocSpec:
    return load("Ascend910A")  # 32 cores


def ticks(work: CubeWork, soc: SocSpec) -> int:
    """Of the quickest of the stages that are worth a run."""
    stages = (make() for make in cube_options(work, soc, Expansion(soc)))
    return min(run(program_of([stage]), soc).end for stage in stages)


@pytest.mark.parametrize("sizes", [(6304, 768, 768), (6304, 768, 3072), (32768, 3072, 768), (240, 48, 80)])
def test_with_32_cores_all_that_is_timed_is_even_and_holds_nothing(
    sizes: tuple[int, int, int], wider: SocSpec
) -> None:
    m, k, n = sizes
    found = quickest_even(product_of(matmul(m, k, n, wider), wider), rates_of(wider, "float16"))
    assert found
    work = matmul(m, k, n, wider)
    assert [make.args[2] for make in cube_options(work, wider, Expansion(wider))] == list(found)  # type: ignore[attr-defined]
    for tiling in found:
        assert m % tiling.share_m == n % tiling.share_n == 0
        assert tiling.share_m % tiling.tile_m == tiling.share_n % tiling.tile_n == 0
        assert tiling.hold == ""
        assert tiling.chunk_k == tiling.step_k
        assert k // 16 % tiling.step_k == 0
        assert m * n // (tiling.share_m * tiling.share_n) <= 32
    cycles = [tiling.cycles for tiling in found]
    assert 0 < min(cycles) == cycles[0]


@pytest.mark.parametrize(("m", "n"), [(6304, 768), (2048, 2048), (240, 80), (16, 16)])
def test_more_cores_make_no_product_slower_that_all_of_them_cut_evenly(
    m: int, n: int, wider: SocSpec
) -> None:
    """Even cuts of fewer cores stay possible. Where the search gives way to even cuts it may be slower:
    13 x 37 blocks with 8 and 16 cores.
    """
    times = [ticks(matmul(m, 512, n, wider), replace(wider, ai_cores=cores)) for cores in (8, 16, 32, 64)]
    assert all(after <= 1.01 * before for before, after in itertools.pairwise(times))


def test_with_32_cores_few_divisors_cost_a_multiple(wider: SocSpec) -> None:
    """32 x 197 tokens of ViT-B/16 are 2 x 197 blocks of rows, 32 x 200 would be 400."""
    assert ticks(matmul(32 * 197, 768, 768, wider), wider) > 4 * ticks(
        matmul(32 * 200, 768, 768, wider), wider
    )


def test_with_32_cores_powers_of_two_cost_what_the_search_finds(wider: SocSpec) -> None:
    """Products of BERT with 256 x 128 words: equal parts are within a half of what holds a panel in L1."""
    free = replace(wider, kernels=replace(wider.kernels, even_products=""))
    for k, n in ((768, 768), (768, 3072), (3072, 768)):
        assert ticks(matmul(32768, k, n, wider), wider) < 1.5 * ticks(matmul(32768, k, n, free), free)


@pytest.mark.parametrize("rows", [37, 7, 13])
def test_with_32_cores_sizes_without_even_cuts_keep_the_search(rows: int, wider: SocSpec) -> None:
    work = matmul(rows * 16, 64, 37 * 16, wider)
    assert quickest_even(product_of(work, wider), rates_of(wider, "float16")) == ()
    assert blocks(work, wider) > 1


@pytest.mark.parametrize(
    ("images", "cores"), [(16, 16), (32, 16), (15, 15), (20, 20), (60, 30), (64, 22), (8, 30), (1, 30)]
)
def test_cores_have_whole_images(images: int, cores: int, soc: SocSpec) -> None:
    product = product_of(convolution(64, 14, 64, 3, 1, 1, images=images), soc)
    assert cores_of_images(product, soc.ai_cores) == cores


def test_a_convolution_of_sixteen_images_takes_sixteen_cores(soc: SocSpec) -> None:
    assert blocks(convolution(256, 14, 256, 3, 1, 1, images=16), soc) == 16


@pytest.mark.parametrize(
    ("m", "n", "published"), [(32, 4096, 16), (32, 1000, 21), (32, 9216, 24), (1, 9496, 22)]
)
def test_few_rows_are_cut_into_equal_numbers_of_column_blocks(m: int, n: int, published: int) -> None:
    """MatMulV2 in AlexNet's training steps on Ascend910B; the last one has 594 blocks."""
    split = load("Ascend910B1")
    work = replace(matmul(m, 4096, n, split), b=ref("b", (n, 4096)), transpose_b=True)
    assert cores_of_columns(product_of(work, split), 24) == published
    used = {
        sum(group.count for group in make().groups) for make in cube_options(work, split, Expansion(split))
    }
    assert max(used) == published


def test_many_rows_and_awkward_columns_take_all_cores() -> None:
    split = load("Ascend910B1")
    for m, n in ((4096, 4096), (32, 16 * 37), (32, 16 * 11)):
        expected = 11 if n == 16 * 11 else 24  # 37 blocks cannot be dealt out; of 11 each core has one
        assert cores_of_columns(product_of(matmul(m, 512, n, split), split), 24) == expected


def map_gradient(images: int, size: int, channels: int, soc: SocSpec) -> CubeWork:
    """Of maps of a 3 x 3 convolution that keeps their size."""
    return replace(convolution(channels, size, channels, 3, 1, 1, images=images), transposed=True)


@pytest.mark.parametrize(("images", "each"), [(16, 1), (32, 2), (64, 3)])
def test_gradients_of_maps_have_whole_images_and_keep_filters_in_l1(
    images: int, each: int, soc: SocSpec
) -> None:
    product = product_of(map_gradient(images, 28, 128, soc), soc)
    tiling = map_tiling(product, rates_of(soc, "float16", True))
    assert tiling is not None
    assert (tiling.share_images, tiling.share_m, tiling.share_n) == (each, 28 * 28, 128)
    assert tiling.hold == "b"


def test_filters_that_l1_cannot_hold_stream_with_the_maps(soc: SocSpec) -> None:
    """9 x 1024 x 1024 values; of 16 columns 288 KiB for the whole of k."""
    product = product_of(map_gradient(16, 7, 1024, soc), soc)
    small = replace(rates_of(soc, "float16", True), l1=256 << 10)
    tiling = map_tiling(product, small)
    assert tiling is not None
    assert tiling.hold != "b"


@pytest.mark.parametrize("images", [1, 8, 14])
def test_gradients_of_few_maps_keep_the_search(images: int, soc: SocSpec) -> None:
    work = map_gradient(images, 28, 128, soc)
    assert map_tiling(product_of(work, soc), rates_of(soc, "float16", True)) is None
    assert len(cube_options(work, soc, Expansion(soc))) > 1


def test_shares_have_no_more_columns_than_a_block_keeps_values_for(wider: SocSpec) -> None:
    """With a bias that UB holds for 256 columns 16 x 64 blocks have 4 parts along n at least; of 8 columns
    there is no even cut.
    """
    product, rates = product_of(matmul(256, 512, 1024, wider), wider), rates_of(wider, "float16")
    found = quickest_even(replace(product, most_share_n=256), rates)
    assert found
    assert all(tiling.share_n <= 256 for tiling in found)
    assert quickest_even(replace(product, most_share_n=8), rates) == ()
    tall = product_of(matmul(8192, 512, 32, wider), wider)  # 32 parts along m alone are the quickest
    assert {tiling.share_n for tiling in quickest_even(tall, rates)} == {32}
    assert {tiling.share_n for tiling in quickest_even(replace(tall, most_share_n=16), rates)} == {16}


def test_tiles_have_no_more_columns_than_they_may(wider: SocSpec) -> None:
    product, rates = product_of(matmul(2048, 512, 2048, wider), wider), rates_of(wider, "float16")
    assert max(tiling.tile_n for tiling in quickest_even(product, rates)) > 64
    assert max(tiling.tile_n for tiling in quickest_even(replace(product, most_n=64), rates)) <= 64


def test_few_blocks_need_no_half_of_the_cores(wider: SocSpec) -> None:
    """Two blocks are cut for two cores at most."""
    assert quickest_even(product_of(matmul(32, 64, 16, wider), wider), rates_of(wider, "float16"))


def test_products_of_bytes_keep_the_search(wider: SocSpec) -> None:
    product = replace(product_of(matmul(2048, 512, 2048, wider), wider), dtype="int8")
    assert quickest_even(product, rates_of(wider, "int8")) == ()


def test_tiles_beside_which_the_epilogue_does_not_fit_are_left_out(wider: SocSpec) -> None:
    """Twenty float32 matrices are read beside each tile."""
    shape = (2048, 2048)
    more = tuple(Stream(ref(f"x{number}", shape, dtype=DType.FLOAT32)) for number in range(20))
    steps = (Step("vadd", DType.FLOAT32),) * 20
    work = replace(matmul(2048, 512, 2048, wider), epilogue=steps, epilogue_inputs=more, epilogue_values=21)
    product, rates = product_of(work, wider), rates_of(wider, "float16")
    made = [make.args[2] for make in cube_options(work, wider, Expansion(wider))]  # type: ignore[attr-defined]
    assert 0 < len(made) < len(quickest_even(product, rates))
    assert set(made) < set(quickest_even(product, rates))


def test_convolutions_of_the_wider_chip_take_all_cores(wider: SocSpec) -> None:
    """Whole images on each core are the other chip's."""
    assert blocks(convolution(256, 14, 256, 3, 1, 1, images=24), wider) > 24
