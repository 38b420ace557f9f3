"""Geometry of convolutions against counting: rows of a map that positions of the result need, one by one."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from ascendsim.core.formats import align
from ascendsim.lower.templates.conv import (
    a_bytes,
    input_rows,
    is_direct,
    kernel_rows,
    run_grain,
    skips_rows,
    taps,
    window,
)
from ascendsim.opset.work import ConvGeometry
from tests.support.random_cubes import convolution


def geometries(count: int = 150) -> list[ConvGeometry]:
    random = Random(8)
    return [conv for _ in range(count) if (conv := convolution(random).conv) is not None]


def rows_needed(conv: ConvGeometry, start: int, positions: int, kernel: int) -> set[int]:
    """Rows of the map, padding counted in, from the first to the last that each window at a run of positions
    touches with the first `kernel` rows of the filter."""
    first, last = start // conv.out_w, (start + positions - 1) // conv.out_w
    reach = (kernel - 1) * conv.dilation_h + 1
    return {out * conv.stride_h + row for out in range(first, last + 1) for row in range(reach)}


def runs_of(total: int, share: int, run: int) -> dict[int, list[int]]:
    """First positions of all runs of shares, by length."""
    found: dict[int, list[int]] = {}
    for begin in range(0, total, share):
        end = min(total, begin + share)
        for start in range(begin, end, run):
            found.setdefault(min(run, end - start), []).append(start)
    return found


def test_a_share_loads_the_rows_that_its_windows_touch() -> None:
    """No run touches more rows than are loaded for those of its length; where all ways in which such runs may
    begin inside of an output row occur, one touches as many."""
    random = Random(9)
    exact = inside = 0
    for conv in geometries(400):
        total = conv.out_h * conv.out_w
        share = random.choice([conv.out_w * random.randint(1, conv.out_h), random.randint(1, total)])
        run = min(
            share, random.choice([conv.out_w * random.randint(1, conv.out_h), random.randint(1, total)])
        )
        grain, kernel = run_grain(conv, total, share, run), random.randint(1, conv.kernel_h)
        for length, starts in runs_of(total, share, run).items():
            held = window(conv, length, grain, kernel).rows
            touched = [min(conv.height, len(rows_needed(conv, start, length, kernel))) for start in starts]
            assert held >= max(touched), (conv, share, run, length)
            begins = {start % conv.out_w for start in starts}
            assert not any(begin % grain for begin in begins)
            if begins == set(range(0, conv.out_w, grain)):
                assert held == max(touched), (conv, share, run, length)
                exact += 1
            inside += grain < conv.out_w and length % conv.out_w == 0 and len(begins) > 1
    assert exact > 300
    assert inside > 10  # whole output rows that begin inside of one


def test_a_run_wherever_it_begins_loads_no_more_than_the_whole_map() -> None:
    """Unpadded maps of few rows: what spans more output rows than there are spans all of them."""
    short = 0
    for conv in geometries(400):
        total = conv.out_h * conv.out_w
        everything = min(conv.height, len(rows_needed(conv, 0, total, conv.kernel_h)))
        for length in {total, max(1, total - 1), max(1, total - conv.out_w // 2)}:
            assert window(conv, length, 1).rows <= everything, (conv, length)
        short += everything < conv.height
    assert short > 20


def test_no_run_takes_more_room_than_the_longest() -> None:
    random = Random(10)
    for conv in geometries():
        total, blocks = conv.out_h * conv.out_w, random.randint(1, 2 * taps(conv))
        share, run = random.randint(1, total), random.randint(1, total)
        grain = run_grain(conv, total, share, run)
        room = [a_bytes(conv, length, blocks, grain) for length in sorted(runs_of(total, share, run))]
        assert room == sorted(room)


def test_runs_of_whole_rows_go_on_where_the_last_one_began_plus_its_rows() -> None:
    for conv in geometries():
        for rows in range(1, conv.out_h):
            held = window(conv, rows * conv.out_w, conv.out_w)
            first, second = (min(rows_needed(conv, start, 1, 1)) for start in (0, rows * conv.out_w))
            if not skips_rows(conv, conv.kernel_h):
                assert held.step_rows == second - first == rows * conv.stride_h
            else:
                assert held.step_rows == rows * ((conv.kernel_h - 1) * conv.dilation_h + 1)


def test_rows_are_skipped_where_no_window_covers_them() -> None:
    for conv in geometries():
        for kernel in range(1, conv.kernel_h + 1):
            touched = sorted(rows_needed(conv, 0, conv.out_h * conv.out_w, kernel))
            if conv.dilation_h == 1 and conv.out_h > 1:
                assert skips_rows(conv, kernel) == any(
                    later - earlier > 1 for earlier, later in pairwise(touched)
                ), (conv, kernel)


def test_only_maps_that_are_matrices_already_are_direct() -> None:
    """A matrix whose rows are the positions: as many as the map has, each with one tap."""
    assert is_direct(None)
    for conv in geometries():
        same = (
            (conv.out_h, conv.out_w) == (conv.height, conv.width) and taps(conv) == 1 and not any(conv.pads)
        )
        assert is_direct(conv) == (same and conv.stride_h == conv.stride_w == 1)
        assert taps(conv) == conv.kernel_h * conv.kernel_w


def test_a_chunk_of_k_touches_as_many_rows_of_the_kernel_as_its_taps() -> None:
    for conv in geometries():
        for blocks in range(1, 2 * taps(conv) + 1):
            rows = {tap // conv.kernel_w for tap in range(min(blocks, taps(conv)))}
            assert kernel_rows(conv, blocks) == len(rows)


def test_tiles_of_a_matrix_are_whole_fractals_and_of_a_map_whole_rows() -> None:
    for rows in (1, 15, 16, 17, 100):
        assert a_bytes(None, rows, 3) == align(rows, 16) * 16 * 3 * 2
    for conv in geometries(60):
        blocks = taps(conv) * 2
        if is_direct(conv):
            assert a_bytes(conv, 20, 4) == 20 * 16 * 4 * 2
        else:
            rows = window(conv, conv.out_w, conv.out_w).rows
            assert a_bytes(conv, conv.out_w, blocks, conv.out_w) == rows * conv.width * 16 * 2 * 2


def test_a_fractal_spans_as_many_rows_as_16_positions_reach() -> None:
    for conv in geometries():
        spans = [(start + 15) // conv.out_w - start // conv.out_w + 1 for start in range(conv.out_w)]
        # wider ones count as one, as in the vendor's table
        assert input_rows(conv) == (max(spans) if conv.out_w < 16 else 1)
