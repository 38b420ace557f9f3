"""Convolution, pooling, integer and suppression kernels against their definitions, on random geometries."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim_kernels.conv import convolve, convolve_transposed, fold, integer_convolve
from ascendsim_kernels.detection import suppress
from ascendsim_kernels.pooling import window_argmax, window_max, window_sum
from ascendsim_kernels.windows import Window

Array = np.ndarray[Any, Any]


@st.composite
def windows(draw: st.DrawFn) -> tuple[tuple[int, int, int], Window]:
    """An input size and a window over it with at least one output position on each axis."""
    size, kernel, stride, dilation, before, output = [], [], [], [], [], []
    for _ in range(3):
        taps, spread, step, pad = (
            draw(st.integers(1, 3)),
            draw(st.integers(1, 2)),
            draw(st.integers(1, 3)),
            draw(st.integers(0, 2)),
        )
        length = draw(st.integers(1, 6))
        span = spread * (taps - 1) + 1
        room = length + 2 * pad - span
        if room < 0:
            taps, spread, room = 1, 1, length + 2 * pad - 1
        size.append(length)
        kernel.append(taps)
        stride.append(step)
        dilation.append(spread)
        before.append(pad)
        output.append(room // step + 1)
    triples = [(values[0], values[1], values[2]) for values in (kernel, stride, dilation, before, output)]
    return (size[0], size[1], size[2]), Window(*triples)


def taps_of(window: Window, size: tuple[int, int, int]) -> list[list[tuple[tuple[int, ...], int]]]:
    """For every output position, in order: the input positions under its window with their tap numbers."""
    result = []
    for place in np.ndindex(*window.output):
        under = []
        for number, tap in enumerate(itertools.product(*(range(k) for k in window.kernel))):
            at = tuple(
                o * s + t * d - b
                for o, s, t, d, b in zip(
                    place, window.stride, tap, window.dilation, window.before, strict=True
                )
            )
            if all(0 <= a < n for a, n in zip(at, size, strict=True)):
                under.append((at, number))
        result.append(under)
    return result


@given(
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 3), st.integers(1, 4)),
    st.integers(1, 3),
    st.integers(-1, 3),
    st.booleans(),
)
@settings(max_examples=80)
def test_maps_that_keep_their_width(
    size: tuple[int, int], kernel: tuple[int, int], spread: int, above: int, ahead: bool
) -> None:
    """Windows one step apart over a flat image whose rows stay as long: taps are shifted planes, the border
    may lie on either side."""
    reach = spread * (kernel[1] - 1)
    before = (0, max(0, above), reach if ahead else reach // 2)
    window = Window((1, *kernel), (1, 1, 1), (1, spread, spread), before, (1, size[0], size[1]))
    image = np.random.default_rng(0).integers(-8, 9, (1, 3, 1, *size)).astype(np.float32)
    weight = np.random.default_rng(1).integers(-8, 9, (2, 3, *window.kernel)).astype(np.float32)
    expected = np.zeros((2, size[0] * size[1]), np.float32)
    for position, under in enumerate(taps_of(window, (1, *size))):
        for at, tap in under:
            expected[:, position] += weight.reshape(2, 3, -1)[:, :, tap] @ image[0, :, at[0], at[1], at[2]]
    np.testing.assert_array_equal(convolve(image, weight, window, 1).reshape(expected.shape), expected)


@given(windows(), st.sampled_from([(1, 1, 1), (2, 3, 1), (2, 1, 2), (1, 1, 3), (1, 2, 3)]))
@settings(max_examples=60)
def test_convolution_by_definition(
    case: tuple[tuple[int, int, int], Window], shape: tuple[int, int, int]
) -> None:
    (size, window), (channels, outputs, groups) = case, shape
    rng = np.random.default_rng(0)
    image = rng.integers(-8, 9, (2, channels * groups, *size)).astype(np.float32)
    weight = rng.integers(-8, 9, (outputs * groups, channels, *window.kernel)).astype(np.float32)
    expected = np.zeros((2, outputs * groups, int(np.prod(window.output))), np.float32)
    flat = weight.reshape(outputs * groups, channels, -1)
    for position, under in enumerate(taps_of(window, size)):
        for at, tap in under:
            for o in range(outputs * groups):
                first = o // outputs * channels
                expected[:, o, position] += (
                    image[:, first : first + channels, at[0], at[1], at[2]] @ flat[o, :, tap]
                )
    result = convolve(image, weight, window, groups)
    np.testing.assert_array_equal(result.reshape(expected.shape), expected)
    np.testing.assert_array_equal(
        integer_convolve(image.astype(np.int32), weight.astype(np.int32), window, groups), result
    )
    other = rng.integers(-8, 9, result.shape).astype(np.float32)
    back = convolve_transposed(other, weight, window, groups, size)
    assert np.vdot(back.astype(np.float64), image) == np.vdot(other.astype(np.float64), result)


@given(windows())
def test_pooling_by_definition(case: tuple[tuple[int, int, int], Window]) -> None:
    size, window = case
    image = (
        np.random.default_rng(1).permutation(2 * int(np.prod(size))).reshape(2, *size).astype(np.float32) - 5
    )
    plane = int(np.prod(size))
    highest, place = window_argmax(image, window)
    _, turned = window_argmax(image, window, column_major=True)
    np.testing.assert_array_equal(window_max(image, window), highest)
    sums = window_sum(image, window).reshape(2, -1)
    for number in range(2):
        for position, under in enumerate(taps_of(window, size)):
            values = [image[number][at] for at, _ in under]
            assert sums[number, position] == sum(values)
            assert highest.reshape(2, -1)[number, position] == max(values, default=-np.inf)
            if values:
                best = under[int(np.argmax(values))][0]
                assert place.reshape(2, -1)[number, position] == number * plane + np.ravel_multi_index(
                    best, size
                )
                assert turned.reshape(2, -1)[number, position] == number * plane + np.ravel_multi_index(
                    best, size, order="F"
                )


def test_fold_counts_how_often_a_position_is_seen() -> None:
    window = Window((1, 2, 2), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 2, 2))
    np.testing.assert_array_equal(
        fold(np.ones((4, 4), np.float32), window, (1, 1, 3, 3))[0, 0], [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
    )


def test_two_runs_give_the_same_bytes() -> None:
    rng = np.random.default_rng(2)
    image, weight = (
        rng.standard_normal((1, 16, 1, 40, 40)).astype(np.float32),
        rng.standard_normal((24, 16, 1, 3, 3)).astype(np.float32),
    )
    window = Window((1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1), (1, 40, 40))
    assert convolve(image, weight, window, 1).tobytes() == convolve(image, weight, window, 1).tobytes()


def overlap(a: Array, b: Array) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    return common / float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common)


@given(st.integers(0, 1000), st.floats(0.05, 0.9), st.integers(1, 40))
def test_kept_boxes_overlap_little_and_dropped_ones_have_a_better_rival(
    seed: int, threshold: float, limit: int
) -> None:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 4, (25, 2))
    boxes = np.concatenate([low, low + rng.uniform(0.5, 3, (25, 2))], axis=1).astype(np.float32)
    scores = rng.permutation(25).astype(np.float32)
    kept = suppress(boxes, scores, threshold, limit)
    assert list(scores[kept]) == sorted(scores[kept], reverse=True)
    for a, b in itertools.combinations(kept, 2):
        assert overlap(boxes[a], boxes[b]) <= threshold + 1e-6
    if len(kept) < limit:
        for number in set(range(25)) - set(kept.tolist()):
            assert any(
                scores[k] > scores[number] and overlap(boxes[k], boxes[number]) > threshold - 1e-6
                for k in kept
            )
