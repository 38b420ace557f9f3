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
    largest_a_bytes,
    run_lengths,
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
    """Rows of the map, padding counted in, under the first `kernel` rows of the window at a run of
    positions."""
    first, last = start // conv.out_w, (start + positions - 1) // conv.out_w
    return {
        out * conv.stride_h + tap * conv.dilation_h for out in range(first, last + 1) for tap in range(kernel)
    }


def test_a_window_holds_what_any_run_of_its_length_needs() -> None:
    """Wherever the run begins, or at the begin of a row if it is of whole ones; and not a row more, unless
    they are skipped."""
    random = Random(9)
    for conv in geometries():
        every = conv.out_h * conv.out_w
        for positions in {1, conv.out_w, every, *(random.randint(1, every) for _ in range(4))}:
            for kernel in {conv.kernel_h, random.randint(1, conv.kernel_h)}:
                step = conv.out_w if positions % conv.out_w == 0 else 1
                runs = [
                    rows_needed(conv, start, positions, kernel)
                    for start in range(0, every - positions + 1, step)
                ]
                held = window(conv, positions, kernel).rows
                spans = max(max(rows) - min(rows) + 1 for rows in runs)
                most = max(len(rows) for rows in runs) if skips_rows(conv, kernel) else spans
                if positions > conv.out_w or positions == conv.out_w or every - positions + 1 > conv.out_w:
                    dilated = skips_rows(conv, kernel) and conv.dilation_h > 1 and kernel > 1
                    assert held == min(conv.height, most) or dilated or held == min(conv.height, spans), (
                        conv,
                        positions,
                        kernel,
                    )
                assert held >= min(conv.height, most), (conv, positions, kernel)


def test_runs_of_whole_rows_go_on_where_the_last_one_began_plus_its_rows() -> None:
    for conv in geometries():
        for rows in range(1, conv.out_h):
            held = window(conv, rows * conv.out_w)
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
            assert (
                a_bytes(conv, conv.out_w, blocks) == window(conv, conv.out_w).rows * conv.width * 16 * 2 * 2
            )
        assert largest_a_bytes(conv, [3, conv.out_w, 7], blocks) == max(
            a_bytes(conv, run, blocks) for run in (3, conv.out_w, 7)
        )


def test_run_lengths_are_those_of_cutting_shares_in_tiles() -> None:
    random = Random(10)
    for _ in range(300):
        total = random.randint(1, 200)
        share, tile = random.randint(1, total), random.randint(1, 60)
        found = set()
        for begin in range(0, total, share):
            end = min(total, begin + share)
            found |= {min(tile, end - start) for start in range(begin, end, tile)}
        assert run_lengths(total, share, tile) == found


def test_a_fractal_spans_as_many_rows_as_16_positions_reach() -> None:
    for conv in geometries():
        spans = [(start + 15) // conv.out_w - start // conv.out_w + 1 for start in range(conv.out_w)]
        # wider ones count as one, as in the vendor's table
        assert input_rows(conv) == (max(spans) if conv.out_w < 16 else 1)
