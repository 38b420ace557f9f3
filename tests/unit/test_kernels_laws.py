"""Kernels against plain NumPy over random shapes and strides, and what their shortcuts are for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendsim_kernels import conv, elementwise, jit, unfold
from ascendsim_kernels.conv import convolve, convolve_transposed
from ascendsim_kernels.conv_grad import filter_gradient
from ascendsim_kernels.detection import deformed_columns, roi_align, suppress
from ascendsim_kernels.element import kernel_view
from ascendsim_kernels.elementwise import BLOCK, Unary, in_two, unary, where_positive
from ascendsim_kernels.half import narrow, widen
from ascendsim_kernels.normalisation import normalise_rows
from ascendsim_kernels.pairwise import Binary, binary
from ascendsim_kernels.pooling import window_argmax, window_max
from ascendsim_kernels.reduce import Reduction, reduce
from ascendsim_kernels.softmax import softmax
from ascendsim_kernels.windows import Window
from tests.support.gate import in_one
from tests.support.half import emulate, every_half, softmax_by_steps, ulps

Array = Any


def numbers(seed: int, *shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ------------------------------------------------------------------------------------------- sampled points


def bilinear(plane: Array, y: float, x: float) -> float:
    """Value between positions of a plane that is zero outside."""
    padded = np.pad(plane.astype(np.float64), 2)
    low_y, low_x = int(np.floor(y)), int(np.floor(x))
    if not (-2 < low_y < plane.shape[0] and -2 < low_x < plane.shape[1]):
        return 0.0
    corners = padded[low_y + 2 : low_y + 4, low_x + 2 : low_x + 4]
    down, right = y - low_y, x - low_x
    return float(np.array([1 - down, down]) @ corners @ np.array([1 - right, right]))


@given(
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
@settings(max_examples=40)
def test_taps_that_are_moved(
    size: Any, taps: Any, stride: Any, dilation: Any, before: Any, output: Any
) -> None:
    """Each tap is read between positions, with zeros around, and weighed by its mask."""
    window = Window((1, *taps), (1, *stride), (1, *dilation), (0, *before), (1, *output))
    plane = numbers(1, *size, dtype=np.float64)
    count = taps[0] * taps[1]
    offset = np.random.default_rng(2).uniform(-2.5, 2.5, (count, 2, *output))
    offset[:, :, ::2] = np.round(offset[:, :, ::2])
    mask = numbers(3, count, *output, dtype=np.float64)
    found = deformed_columns(plane, offset, mask, window.table())
    for (tap, (kh, kw)), oh, ow in itertools.product(
        enumerate(itertools.product(range(taps[0]), range(taps[1]))), range(output[0]), range(output[1])
    ):
        y = oh * stride[0] + kh * dilation[0] - before[0] + offset[tap, 0, oh, ow]
        x = ow * stride[1] + kw * dilation[1] - before[1] + offset[tap, 1, oh, ow]
        wanted = bilinear(plane, y, x) * mask[tap, oh, ow]
        assert found[tap, oh * output[1] + ow] == pytest.approx(wanted, rel=1e-12, abs=1e-12)


def clamped(plane: Array, y: float, x: float) -> list[float]:
    """The four weighted neighbours of a point, with the border repeated for one position and zeros beyond."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return [0.0] * 4
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    low_y, low_x = int(y), int(x)
    high_y, high_x = min(low_y + 1, height - 1), min(low_x + 1, width - 1)
    down, right = y - low_y, x - low_x
    return [
        (1 - down) * (1 - right) * plane[low_y, low_x],
        (1 - down) * right * plane[low_y, high_x],
        down * (1 - right) * plane[high_y, low_x],
        down * right * plane[high_y, high_x],
    ]


@pytest.mark.parametrize("maximum", [False, True])
@pytest.mark.parametrize(("sampling", "shift"), [(0, 0.5), (2, 0.0), (3, 0.5), (0, 0.0)])
def test_regions_by_definition(maximum: bool, sampling: int, shift: float) -> None:
    image = numbers(4, 2, 2, 5, 7, dtype=np.float64) - (3 if maximum else 0)  # a maximum below zero stays
    rois = np.array(
        [[0, 0, 6, 4], [1, 2, 3.5, 9], [-4, -3, 12, 8], [5, 1, 5, 1], [6.9, 4.2, 15, 11], [2, 1, 4, 1.4]]
    )
    batches = np.array([0, 1, 1, 0, 1, 0])
    found = roi_align(
        image, rois, batches, (2, 3), scale=0.75, shift=shift, sampling=sampling, maximum=maximum
    )
    for region, channel, row, column in itertools.product(range(6), range(2), range(2), range(3)):
        left, top, right, bottom = rois[region] * 0.75 - shift
        wide, high = right - left, bottom - top
        if not shift:
            wide, high = max(wide, 1), max(high, 1)
        down, across = sampling or int(np.ceil(high / 2)), sampling or int(np.ceil(wide / 3))
        plane = image[batches[region], channel]
        points = [
            clamped(
                plane,
                top + (row + (i + 0.5) / down) * high / 2,
                left + (column + (j + 0.5) / across) * wide / 3,
            )
            for i in range(down)
            for j in range(across)
        ]
        if maximum:
            wanted = max((max(point) for point in points), default=0.0)
        else:
            wanted = sum(map(sum, points)) / max(1, len(points))
        assert found[region, channel, row, column] == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def box(*corners: float) -> list[float]:
    return list(corners)


@pytest.mark.parametrize(
    ("boxes", "threshold", "kept"),
    [
        ([box(0, 0, 2, 2), box(0, 2, 2, 4)], 0.0, [0, 1]),  # side by side
        ([box(0, 0, 2, 2), box(2, 0, 4, 2)], 0.0, [0, 1]),
        ([box(0, 0, 2, 2), box(0, 1, 2, 3)], 1 / 3 - 1e-3, [0]),  # 2 of 6 in common
        ([box(0, 0, 2, 2), box(0, 1, 2, 3)], 1 / 3 + 1e-3, [0, 1]),
        ([box(0, 0, 1, 4), box(0, 0, 1, 2)], 0.5, [0, 1]),  # just the threshold
        ([box(0, 0, 4, 1), box(0, 0, 3, 1), box(1, 0, 4, 1)], 0.6, [0]),
        ([box(1, 1, 1, 5), box(1, 1, 1, 5)], 0.0, [0, 1]),  # without area nothing is in common
        ([box(0, 0, 4, 4), box(1, 1, 2, 2), box(1, 1, 2, 2)], 0.5, [0, 1]),
        # what is dropped drops nothing
        ([box(0, 0, 1, 10), box(0, 4, 1, 14), box(0, 8, 1, 18)], 0.4, [0, 2]),
    ],
)
def test_boxes_that_overlap_too_much_go(boxes: Any, threshold: float, kept: list[int]) -> None:
    """Scores fall from box to box; the same boxes with their axes changed, and far from the origin, give the
    same."""
    scores = np.linspace(0.9, 0.1, len(boxes)).astype(np.float32)
    for turn, shift in itertools.product((False, True), (0.0, -50.0, 50.0)):
        arrays = np.array(boxes, np.float32) + np.float32(shift)
        arrays = arrays[:, [1, 0, 3, 2]] if turn else arrays
        assert suppress(arrays, scores, threshold, 10).tolist() == kept


def test_scores_decide_who_stays_and_how_many() -> None:
    apart = np.array([[0, i, 1, i + 1] for i in range(6)], np.float32)
    scores = np.array([0.2, 0.7, 0.7, -np.inf, 0.9, 0.2], np.float32)
    assert suppress(apart, scores, 0.5, 10).tolist() == [4, 1, 2, 0, 5]  # equal scores by number
    assert suppress(apart, scores, 0.5, 3).tolist() == [4, 1, 2]
    assert suppress(apart, scores, 0.5, 0).tolist() == []
    assert suppress(apart, np.full(6, -np.inf, np.float32), 0.5, 3).tolist() == []


# -------------------------------------------------------------------------------------------- shortcuts


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[tuple[Any, ...]]:
    """Arguments of all calls of a function of a module from here on."""
    calls: list[tuple[Any, ...]] = []
    function: Callable[..., Any] = getattr(module, name)

    def noting(*args: Any) -> Any:
        calls.append(args)
        return function(*args)

    monkeypatch.setattr(module, name, noting)
    return calls


def test_what_a_convolution_unfolds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing for one channel a group or one position a window; small maps of several images together."""
    calls = counted(monkeypatch, unfold, "_gather")
    line = Window((1, 1, 3), (1, 1, 1), (1, 1, 1), (0, 0, 1), (1, 4, 6))
    point = Window((1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 4, 6))
    flat = numbers(5, 1, 4, 1, 4, 6)
    convolve(flat, numbers(6, 4, 1, 1, 1, 3), line, 4)
    convolve(flat, numbers(6, 3, 4, 1, 1, 1), point, 1)
    filter_gradient(flat, numbers(7, 1, 3, 1, 4, 6), point, 1)
    assert not calls
    # one input channel alone is no group of its own
    convolve(numbers(5, 1, 1, 1, 4, 6), numbers(6, 2, 1, 1, 1, 3), line, 1)
    assert len(calls) == 1
    calls.clear()
    many = numbers(5, 30, 4, 1, 4, 6)
    weight = numbers(6, 3, 4, 1, 1, 3)
    together = convolve(many, weight, line, 1)
    assert [columns.shape[1] for _, _, columns in calls] == [240, 240, 240]  # 24 positions an image
    calls.clear()
    monkeypatch.setattr(conv, "ENOUGH_PIXELS", 1)
    np.testing.assert_allclose(together, convolve(many, weight, line, 1), rtol=1e-5, atol=1e-5)
    assert [columns.shape[1] for _, _, columns in calls] == [24] * 30


@in_one("window", range(40))
def test_unfolded_columns_hold_what_a_window_sees(window: int) -> None:
    """Against a plain walk through windows of any geometry, some of which see nothing but padding."""
    rng = np.random.default_rng(window)
    kernel, stride, dilation = (tuple(int(v) for v in rng.integers(1, 4, 3)) for _ in range(3))
    before, output = (
        tuple(int(v) for v in rng.integers(0, 4, 3)),
        tuple(int(v) for v in rng.integers(1, 5, 3)),
    )
    geometry = Window(kernel, stride, dilation, before, output)  # type: ignore[arg-type]
    images = rng.standard_normal((2, 3, *rng.integers(1, 6, 3))).astype(np.float32)
    wanted = np.zeros((3, *kernel, 2, *output), np.float32)
    for n, *place in np.ndindex(2, *output):
        for tap in np.ndindex(*kernel):
            at = [
                p * s + t * d - b for p, s, t, d, b in zip(place, stride, tap, dilation, before, strict=True)
            ]
            if all(0 <= v < size for v, size in zip(at, images.shape[2:], strict=True)):
                wanted[(slice(None), *tap, n, *place)] = images[(n, slice(None), *at)]
    found = np.full((3 * math.prod(kernel), 2 * math.prod(output)), np.nan, np.float32)
    for start, stop, columns in unfold.unfolded(images, geometry):
        found[:, start:stop] = columns
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))


@pytest.mark.parametrize("limit", [1, 700, 1500, 1 << 20])
@pytest.mark.parametrize("stride", [1, 2])
def test_unfolded_blocks_are_bounded_and_leave_no_seam(
    monkeypatch: pytest.MonkeyPatch, limit: int, stride: int
) -> None:
    """Blocks of whole output rows, at least one, within the bound; results as with all rows at once."""
    rng = np.random.default_rng(7)
    image = rng.integers(-4, 5, (2, 4, 3, 9, 5)).astype(np.float32)
    weight = rng.integers(-4, 5, (6, 2, 2, 3, 3)).astype(np.float32)
    rows = (9 + 2 - 3) // stride + 1
    window = Window((2, 3, 3), (1, stride, 1), (1, 1, 1), (0, 1, 1), (2, rows, 5))
    wanted = convolve(image, weight, window, 2)
    monkeypatch.setattr(unfold, "COLUMN_BYTES", limit)
    calls = counted(monkeypatch, unfold, "_gather")
    np.testing.assert_array_equal(convolve(image, weight, window, 2), wanted)
    a_row = 2 * 2 * 3 * 3 * 5 * 4  # channels of a group, taps, columns, bytes
    counts = [columns.shape[1] // 5 for _, _, columns in calls]
    for count, (_, _, columns) in zip(counts, calls, strict=True):
        assert count == 1 or columns.nbytes <= limit
        assert columns.nbytes == count * a_row
    assert sum(counts) == 2 * 2 * 2 * rows  # images, groups, output planes
    images = 2 if limit == 1 << 20 else 1  # that share a product
    assert max(counts) == min(images * 2 * rows, max(1, limit // a_row))


@pytest.mark.parametrize("limit", [1, 700, 3000, 1 << 20])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kernel", [1, 3])
def test_gradients_do_not_depend_on_how_many_images_share_a_product(
    monkeypatch: pytest.MonkeyPatch, limit: int, groups: int, kernel: int
) -> None:
    """Whole numbers, so that sums are exact in any order; wanted is image after image in float64."""
    rng = np.random.default_rng(7)
    image = rng.integers(-4, 5, (5, 4, 1, 6, 7)).astype(np.float32)
    weight = rng.integers(-4, 5, (6, 4 // groups, 1, kernel, kernel)).astype(np.float32)
    pad = kernel // 2
    window = Window((1, kernel, kernel), (1, 1, 1), (1, 1, 1), (0, pad, pad), (1, 6, 7))
    made = rng.integers(-4, 5, (5, 6, 1, 6, 7)).astype(np.float32)
    one = [slice(number, number + 1) for number in range(5)]
    wide = [array.astype(np.float64) for array in (image, made, weight)]
    filters = sum(filter_gradient(wide[0][n], wide[1][n], window, groups) for n in one)
    inputs = [convolve_transposed(wide[1][n], wide[2], window, groups, (1, 6, 7)) for n in one]
    monkeypatch.setattr(unfold, "COLUMN_BYTES", limit)
    found = filter_gradient(image, made, window, groups)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, filters)
    spread = convolve_transposed(made, weight, window, groups, (1, 6, 7))
    np.testing.assert_array_equal(spread, np.concatenate(inputs))


@in_one("size", [0, 1, 5, 2 * BLOCK, (1 << 17) - 1, 1 << 17, (1 << 17) + 3, (1 << 18) + 1])
@in_one("step", [1, 7, BLOCK, 70_000, 1 << 17, 1 << 19])
def test_long_arrays_are_cut_once_at_a_multiple(size: int, step: int) -> None:
    """Both parts together are the whole; short arrays, and those without a place to cut, are left whole."""
    parts: list[tuple[int, int]] = []
    in_two(lambda start, stop: parts.append((start, stop)), size, step)
    parts.sort()
    assert parts[0][0] == 0
    assert parts[-1][1] == size
    can_be_cut = size >= 1 << 17 and size // 2 >= step
    assert len(parts) == (2 if can_be_cut else 1)
    if can_be_cut:
        (_, middle), (second, _) = parts
        assert middle == second
        assert middle % step == 0
        assert size // 2 - step < middle <= size // 2


def test_the_second_part_runs_elsewhere_and_is_waited_for() -> None:
    import threading
    import time

    names: list[str] = []

    def run(start: int, _stop: int) -> None:
        if start:
            time.sleep(0.05)
        names.append(threading.current_thread().name)

    in_two(run, 1 << 17, 1)
    assert len(set(names)) == 2


def test_values_that_kernels_see() -> None:
    """Contiguous and writable; a copy only where it must be; float16 as bits."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.shares_memory(kernel_view(x, (12,)), x)
    turned = kernel_view(x.T, (12,))
    assert turned.tolist() == x.T.reshape(-1).tolist()
    frozen = x.copy()
    frozen.flags.writeable = False
    seen = kernel_view(frozen, (4, 3))
    assert seen.flags.writeable
    assert seen.shape == (4, 3)
    assert not np.shares_memory(seen, frozen)
    half = kernel_view(np.array([1.0, -2.0], np.float16), (2,))
    assert half.dtype == np.uint16
    assert half.tolist() == [0x3C00, 0xC000]
    reverse = kernel_view(x[::-1, ::-2], (6,))
    assert reverse.tolist() == [11, 9, 7, 5, 3, 1]


def test_compiled_kernels_lie_in_the_folder_of_their_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user says, with a name that changes with every source."""
    folder = jit.cache_folder.__wrapped__
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/n")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    first = folder()
    assert first.parent == Path("/n")
    assert len(first.name) == 16
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    assert folder() == Path("/x/ascendsim") / first.name
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/h")
    assert folder() == Path("/h/.cache/ascendsim") / first.name
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"#" * (self.name == "windows.py"))
    assert folder().name != first.name


# ---------------------------------------------------------------------------------------- strides and edges


STRIDES: dict[str, Callable[[Array], Array]] = {
    "whole": lambda x: x,
    "turned": lambda x: x.T.copy().T,
    "backwards": lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
    "every other": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
}
HALVES = every_half()


@pytest.mark.parametrize("form", STRIDES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_strides_of_an_operand_change_nothing(form: str, dtype: Any) -> None:
    x = STRIDES[form](numbers(8, 6, 10, dtype=dtype))
    plain = np.ascontiguousarray(x)
    assert np.array_equal(x, plain)
    row = STRIDES[form](numbers(9, 2, 10, dtype=dtype))[:1]
    pairs = [
        (unary(Unary.GELU, x), unary(Unary.GELU, plain)),
        (binary(Binary.SUB, x, row), binary(Binary.SUB, plain, np.ascontiguousarray(row))),
        (binary(Binary.DIV, row, x), binary(Binary.DIV, np.ascontiguousarray(row), plain)),
        (reduce(Reduction.SUM, x, 6, 10, 1), reduce(Reduction.SUM, plain, 6, 10, 1)),
        (softmax(x, 0), softmax(plain, 0)),
        (
            normalise_rows(x, 6, x[0], row[0], epsilon=1e-5, inner=1, centred=True)[0],
            normalise_rows(
                plain, 6, plain[0], np.ascontiguousarray(row[0]), epsilon=1e-5, inner=1, centred=True
            )[0],
        ),
    ]
    for found, wanted in pairs:
        assert found.tobytes() == wanted.tobytes()


def test_both_ways_between_halves_and_singles() -> None:
    square = HALVES.reshape(256, 256).T
    np.testing.assert_array_equal(widen(square), square.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(widen(square)), np.signbit(square))
    with np.errstate(over="ignore", invalid="ignore"):
        between = HALVES[::7].astype(np.float32) * np.float32(1 + 2**-11)
        singles = np.concatenate([between, np.array([np.inf, 1e9, -1e-9], np.float32)])[::-1]
        np.testing.assert_array_equal(narrow(singles), singles.astype(np.float16))
    assert narrow(np.empty((0, 3), np.float32)).shape == (0, 3)


@given(
    st.sampled_from(list(Binary)),
    st.lists(st.sampled_from([1, 2, 3, 5]), min_size=1, max_size=4),
    st.integers(0, 15),
    st.integers(0, 15),
    st.integers(0, 4),
)
@settings(max_examples=120)
def test_halves_broadcast_as_numpy_does(
    op: Binary, shape: list[int], left: int, right: int, cut: int
) -> None:
    """Any axes of either operand may be 1 or missing; one rounding."""
    functions = {
        Binary.ADD: np.add,
        Binary.SUB: np.subtract,
        Binary.MUL: np.multiply,
        Binary.DIV: np.divide,
        Binary.MAX: np.maximum,
        Binary.MIN: np.minimum,
        Binary.PRELU: lambda x, y: np.where(x < 0, x * y, x),
        Binary.SUB_REVERSED: lambda x, y: y - x,
        Binary.DIV_REVERSED: lambda x, y: y / x,
    }
    one, other = (
        tuple(1 if mask >> axis & 1 else size for axis, size in enumerate(shape)) for mask in (left, right)
    )
    x, y = (
        numbers(int(op), *one, dtype=np.float16),
        numbers(20, *other[min(cut, len(other) - 1) :], dtype=np.float16),
    )
    found, wanted = binary(op, x, y), emulate(functions[op], x, y)
    assert found.shape == wanted.shape
    assert ulps(found, wanted).max(initial=0) <= (1 if op in (Binary.DIV, Binary.DIV_REVERSED) else 0)


@pytest.mark.parametrize("op", Reduction, ids=lambda op: op.name)
@given(st.integers(0, 4), st.integers(0, 40), st.sampled_from([1, 2, 7, 8, 9, 17]), st.integers(0, 3))
@settings(max_examples=30)
def test_folds_of_any_size(op: Reduction, outer: int, length: int, inner: int, special: int) -> None:
    """Groups of any length, with NaN and infinities in some; NaN wins everywhere."""
    x = numbers(int(op), outer, length, inner)
    for value, place in zip((np.nan, np.inf, -np.inf), range(0, 5 * special, 5), strict=False):
        x.reshape(-1)[place : place + 1] = value
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        wanted = {
            Reduction.SUM: lambda: wide.sum(axis=1),
            Reduction.MAX: lambda: wide.max(axis=1, initial=-np.inf),
            Reduction.MIN: lambda: wide.min(axis=1, initial=np.inf),
            Reduction.SUM_ABS: lambda: np.abs(wide).sum(axis=1),
            Reduction.SUM_SQUARE: lambda: (wide * wide).sum(axis=1),
        }[op]() * -0.5
    found = reduce(op, x, outer, length, inner, -0.5)
    assert found.shape == (outer, inner)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize("cols", [1, 2, 7, 8, 9, 16, 23])
def test_softmax_wherever_the_largest_is(logarithm: bool, cols: int) -> None:
    """Rows with the peak in each place, far above the rest or equal to its neighbour; halves step by step."""
    x = np.tile(numbers(11, cols), (cols, 1))
    x[np.arange(cols), np.arange(cols)] += 40
    x = np.concatenate([x, np.zeros((1, cols)), np.full((1, cols), -3e4)]).astype(np.float32)
    found = softmax(x, 1, logarithm).astype(np.float64)
    exact = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    wanted = exact / exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, np.log(wanted) if logarithm else wanted, rtol=3e-6, atol=3e-6)
    half = x.astype(np.float16)
    assert ulps(softmax(half, 1, logarithm), softmax_by_steps(half, 1, logarithm)).max() <= 1


def test_the_first_of_equal_maxima_and_windows_of_infinities() -> None:
    image = np.array([[[[5, 5, 1], [5, 5, 9], [9, 1, 9]]]], np.float32)
    window = Window((1, 2, 2), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 2, 2))
    assert window_argmax(image, window)[1].tolist() == [[[[0, 5], [6, 5]]]]
    assert window_argmax(image, window, column_major=True)[1].tolist() == [[[[0, 7], [2, 7]]]]
    low = np.full((1, 1, 2, 2), -np.inf, np.float32)
    found, place = window_argmax(low, window._replace(output=(1, 1, 1)))
    assert found.item() == -np.inf
    assert place.item() == 0
    assert window_max(low, window._replace(output=(1, 1, 1))).item() == -np.inf


def test_exponentials_of_float32_are_close_everywhere() -> None:
    """Within a few steps of float32 over its whole range, down to the subnormal results."""
    x = np.concatenate([np.linspace(-104, 89, 200_001), np.linspace(-1, 1, 50_001)]).astype(np.float32)
    with np.errstate(over="ignore"):
        wanted = np.exp(x.astype(np.float64))
    found = unary(Unary.EXP, x).astype(np.float64)
    finite = wanted < 3.4028235e38
    step = np.maximum(np.spacing(wanted[finite].astype(np.float32)).astype(np.float64), 2.0**-149)
    assert (np.abs(found - wanted)[finite] / step).max() <= 2
    assert np.isinf(found[wanted > 3.5e38]).all()


@pytest.mark.parametrize(
    ("op", "function", "steps"),
    [
        (Unary.TANH, np.tanh, 4),
        (Unary.SIGMOID, lambda x: 1 / (1 + np.exp(-x)), 4),
    ],
)
def test_curves_of_float32_are_close_everywhere(
    op: Unary, function: Callable[[Array], Array], steps: int
) -> None:
    x = np.concatenate([np.linspace(-12, 12, 100_001), np.linspace(-0.7, 0.7, 50_001)]).astype(np.float32)
    wanted = function(x.astype(np.float64))
    step = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    assert (np.abs(unary(op, x) - wanted) / step).max() <= steps


def test_a_group_of_functions_is_cut_as_the_functions_are() -> None:
    """`BLOCK` elements at a time in both, so that three blocks lie in a first-level cache of 32 KB."""
    assert 3 * BLOCK * 4 <= 32 << 10
    assert elementwise.scratch().nbytes == BLOCK * 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_where_positive_takes_what_is_there_and_no_product(dtype: Any) -> None:
    """Infinities and NaN pass where the other is positive, and leave nothing where it is not."""
    test = np.array([[1, 0, -1], [np.nan, np.inf, -0.0], [-np.inf, 1e-30, 2]], dtype)
    values = np.array([[np.inf, np.inf, np.nan], [1, -np.inf, 2], [3, 4, np.nan]], dtype)
    wanted = [[np.inf, 0, 0], [0, -np.inf, 0], [0, 4, np.nan]]
    found = where_positive(test.T, values.T)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.T, np.array(wanted, dtype))
