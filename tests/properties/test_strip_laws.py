"""The tile form of convolutions against counting: columns under the windows of a strip, one by one, what a
program in strips reads and where its results lie."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from ascendsim.core.formats import ceil_div
from ascendsim.lower.templates.conv import a_bytes, is_direct, skips_rows, taps
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.strips import held_columns, row_parts, skips_columns, strip_of, strip_waste
from ascendsim.lower.templates.tiling import best_tilings
from ascendsim.lower.templates.width_tiles import image_share, strip_views, strips_may_pay, whole_images
from ascendsim.opset.work import ConvGeometry
from ascendsim.soc import load
from tests.support.coverage import transfers
from tests.support.lowering import convolution as square
from tests.support.random_cubes import CHIPS, CubeProgram, convolution, strip_programs


def geometries(count: int = 150) -> list[ConvGeometry]:
    random = Random(18)
    return [conv for _ in range(count) if (conv := convolution(random).conv) is not None]


def columns_needed(conv: ConvGeometry, first: int, count: int, taps: int) -> set[int]:
    """Columns of the map, padding counted in, under the first taps of the windows of some columns of the
    result."""
    return {
        out * conv.stride_w + tap * conv.dilation_w
        for out in range(first, first + count)
        for tap in range(taps)
    }


def test_a_strip_holds_the_columns_under_its_windows() -> None:
    """From the first to the last, or just those if there are gaps that no window reaches."""
    random = Random(19)
    for conv in geometries():
        strip = strip_of(conv, random.randint(1, conv.out_w))
        for part in {conv.kernel_w, *row_parts(strip)}:
            needed = columns_needed(conv, 0, strip.out_w, part)
            hull = max(needed) + 1
            gaps = conv.stride_w > (part - 1) * conv.dilation_w + 1
            assert skips_columns(strip, part) == gaps
            held = held_columns(strip, part)
            assert held >= min(conv.width, len(needed))
            assert held == min(conv.width, hull) or gaps, (strip, part)
            if gaps and conv.dilation_w == 1:
                assert held == min(conv.width, len(needed)), (strip, part)


def test_strips_are_all_of_the_result() -> None:
    random = Random(20)
    for conv in geometries():
        strip = strip_of(conv, random.randint(1, conv.out_w))
        widths = [strip.out_w] * (strip.count - 1) + [strip.tail]
        assert sum(widths) == conv.out_w
        assert min(widths) >= 1
        assert strip.batch == conv.batch * len(widths)
        assert (strip.whole_out, strip.whole_width) == (conv.out_w, conv.width)
        assert strip_of(strip, strip.tail) == strip_of(conv, strip.tail)
        assert strip_of(conv, conv.out_w).count == 1


def test_kernel_rows_come_in_equal_parts() -> None:
    for conv in geometries():
        assert row_parts(conv) == ()
        parts = row_parts(strip_of(conv, 1))
        assert set(parts) == {part for part in range(1, conv.kernel_w) if conv.kernel_w % part == 0}
        assert list(parts) == sorted(parts, reverse=True)


def test_rows_of_a_strip_are_those_of_the_map() -> None:
    for conv in geometries():
        if not is_direct(conv):
            strip = strip_of(conv, conv.out_w)
            for rows in range(1, conv.out_h + 1):
                whole = a_bytes(conv, rows * conv.out_w, taps(conv), conv.out_w)
                part = a_bytes(strip, rows * conv.out_w, taps(conv), conv.out_w)
                assert part * conv.width == whole * strip.width


def test_cores_share_whole_images_or_strips_of_one() -> None:
    random = Random(21)
    for conv in geometries():
        strip = strip_of(replace(conv, batch=random.randint(1, 9)), random.randint(1, conv.out_w))
        wanted = random.randint(1, strip.batch)
        cores = ceil_div(strip.batch, wanted)
        share = whole_images(strip, wanted)
        images, columns = image_share(strip, share)
        used = ceil_div(strip.batch // strip.count, images) * ceil_div(strip.whole_out, columns)
        assert used <= cores, (strip, wanted)
        assert images * ceil_div(columns, strip.out_w) == share
        assert images == 1 or columns == strip.whole_out


@pytest.mark.parametrize(
    ("columns", "rows", "widths"),
    [
        # rows of 3000 columns in at most 64, 32 .. 1 fractals, of equal widths: 3000 / 1024 is three strips
        (3000, 8, [1008, 512, 256, 128, 64, 32, 16]),
        (3000, 1, [1008, 512, 256, 128, 64, 32, 16]),
        (200, 8, [200, 112, 64, 32, 16]),
        (100, 8, [100, 64, 32, 16]),
        (10, 8, [10]),
    ],
)
def test_strips_are_equal_and_as_many_as_widths_of_powers_of_two_need(
    columns: int, rows: int, widths: list[int]
) -> None:
    """The narrowest is one fractal, the widest as wide as what half of L0A holds (1024 rows of a fractal)."""
    soc = load("Ascend310")
    conv = replace(square(16, columns, 16, 3, 1, 1).conv, height=rows, out_h=rows)
    work = replace(square(16, columns, 16, 3, 1, 1), conv=conv, m=columns * rows)
    views = list(strip_views(product_of(work, soc), rates_of(soc, "float16")))
    assert [view.conv.out_w for view in views if view.conv] == widths
    assert all(view.images == ceil_div(columns, view.conv.out_w) for view in views if view.conv)
    assert all(view.m == rows * view.conv.out_w for view in views if view.conv)


def test_a_strip_is_no_wider_than_l0a_unless_the_map_is_one_row() -> None:
    soc = load("Ascend310", {"buffers.l0a": 16 << 10})  # half of it: 16 fractals, 256 rows
    work = square(16, 3000, 16, 3, 1, 1)
    for rows, widest in ((8, 256), (1, 1008)):
        flat = replace(work, conv=replace(work.conv, height=rows, out_h=rows), m=3000 * rows)
        (first, *_) = strip_views(product_of(flat, soc), rates_of(soc, "float16"))
        assert first.conv is not None
        assert first.conv.out_w == widest


def test_strips_are_looked_at_where_two_bands_of_rows_fill_half_of_l1() -> None:
    """A run of 16 positions may lie in two rows of the result, for which a 3 x 3 kernel that slides by one
    reads four rows, of 32 bytes a column and 16 channels, twice in 512 KiB."""
    soc = load("Ascend310")
    rates = rates_of(soc, "float16")
    assert rates.l1 == 1 << 20
    for channels, columns, pay in (
        (16, 2047, False),
        (16, 2049, True),
        (32, 1023, False),
        (32, 1025, True),
    ):
        assert strips_may_pay(product_of(square(channels, columns, 16, 3, 1, 1), soc), rates) is pay
    # a row of 8 positions is one whole row, which reads three
    narrow = square(16, 3000, 16, 3, 1, 1)
    assert narrow.conv is not None
    for columns, pay in ((2730, False), (2731, True)):
        conv = replace(narrow.conv, width=columns, stride_w=columns // 8, out_w=8, pads=(1, 0, 1, 0))
        assert strips_may_pay(product_of(replace(narrow, conv=conv, m=conv.out_h * 8), soc), rates) is pay
    direct = product_of(square(16, 5000, 16, 1), soc)
    assert not strips_may_pay(direct, rates)
    assert not list(strip_views(direct, rates))


def test_short_rows_bring_whole_transactions() -> None:
    """64 columns at 32 B are four transactions of 512 B, 68 columns touch one more than they fill."""
    conv = square(16, 640, 16, 1, 2).conv
    assert conv is not None
    count = strip_of(conv, 64).count
    assert strip_waste(count, 64 * 32) == 1
    assert strip_waste(count, 68 * 32) == 6 * 512 / (68 * 32)
    assert strip_waste(count, 100) == 1024 / 100
    assert strip_waste(strip_of(conv, conv.out_w).count, 100) == 1


def test_any_convolution_fits_where_few_fractals_do() -> None:
    """Two pieces of both operands, 16 positions in rows that may be shorter, 16 columns, and their bias."""
    random = Random(22)
    for number in range(60):
        work = convolution(random, 300)
        soc = load(CHIPS[number % len(CHIPS)], {"buffers.l1": 2 * (2 * 512 + 512) + 16 * 4})
        assert best_tilings(product_of(work, soc), soc)


def test_a_map_of_short_rows_stays_whole() -> None:
    for chip in CHIPS:
        soc = load(chip)
        assert not any(
            tiling.columns for tiling in best_tilings(product_of(square(64, 56, 64, 3, 1, 1), soc), soc)
        )
        (best, *_) = best_tilings(product_of(square(32, 4096, 32, 3, 1, 1), soc), soc)
        assert best.columns


def positions(made: CubeProgram) -> tuple[set[int], set[int]]:
    """Columns of the map that the program reads, and those that some output needs."""
    conv = made.work.conv
    assert conv is not None
    read: set[int] = set()
    line = conv.width * 32
    for first, last in transfers(made.block, "a", False).tolist():
        read |= {place // 32 % conv.width for place in range(first, min(last, first + line), 32)}
    needed = {column - conv.pads[1] for column in columns_needed(conv, 0, conv.out_w, conv.kernel_w)}
    return read, {column for column in needed if 0 <= column < conv.width}


def test_every_column_that_a_window_reaches_is_read() -> None:
    """But for what is left over where strips are spread evenly up to the border, and where rows are left out,
    whose first ones are not followed exactly."""
    seen = 0
    for made in strip_programs():
        conv, tiling = made.work.conv, made.tiling
        assert conv is not None
        in_order = conv.kernel_h == 1 and conv.channels <= 16  # a chunk of k is some taps of the only row
        whole = tiling.hold == "a" or tiling.chunk_k >= conv.kernel_w or in_order
        if whole and not skips_rows(conv, 1 if tiling.hold != "a" else conv.kernel_h):
            read, needed = positions(made)
            seen += len(needed) > tiling.columns
            assert len(needed - read) <= 0.1 * len(needed), made
    assert seen >= 5


def test_a_strip_reads_no_row_of_the_map_beyond_its_end() -> None:
    """Bursts that are shorter than a row lie in one, up to the last strip."""
    seen = 0
    for made in strip_programs():
        conv = made.work.conv
        assert conv is not None
        line = conv.width * 32
        spans = transfers(made.block, "a", False)
        short = spans[spans[:, 1] - spans[:, 0] < line]
        assert (short[:, 0] % line + short[:, 1] - short[:, 0] <= line).all(), made
        seen += len(short) > 0
    assert seen > 20
