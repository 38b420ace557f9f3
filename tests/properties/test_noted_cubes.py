"""What blocks of Cube work do to the byte, against products and convolutions that numpy makes of whole
tensors.

Values are small whole numbers, so that every sum is exact. What the vector unit does to a tile on its way out
stands in the test: it adds up all that it is given, and where in the result it is told to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.isa.notes import Kernel
from ascendsim.lower.templates.cube import cube_stage, product_of
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import Tiling, as_strips, candidates
from ascendsim.lower.templates.width_tiles import strip_views
from ascendsim.opset.work import CubeWork
from ascendsim.runtime.storage import Filters, logical, stored
from ascendsim.soc import SocSpec, load
from tests.support.lowering import convolution as square
from tests.support.noted_stages import like_box, matrix_of, run, tells_all, transfers_of
from tests.support.random_cubes import CHIPS, convolution, matmul, with_epilogue

Array = NDArray[Any]
Made = tuple[CubeWork, SocSpec, Tiling, Stage]
WEIGHTS = {"e_all": 3, "e_col": 5, "e_row": 7, "e_one": 11, "side": 1, "c": 1, "": 1}


def random_stages(count: int, seed: int, strips: bool) -> Iterator[Made]:
    """Programs that say what they do, with tilings of every kind, on chips with up to three cores."""
    random, made = Random(seed), 0
    while made < count:
        chip = load(random.choice(CHIPS))
        few = random.choice((1, 2, 3))
        more = {"vector_cores": 2 * few} if chip.split_cores else {}
        soc = load(chip.name, {"ai_cores": few, "buffers.l1": random.choice((48 << 10, 512 << 10)), **more})
        plain = convolution(random, 40) if strips or random.random() < 0.6 else matmul(random, soc, 150)
        work = replace(with_epilogue(random, plain, soc), sums=())
        product, rates = product_of(work, soc), rates_of(soc, work.dtype.value)
        views = strip_views(product, rates) if strips else [product]
        every = [(view, tiling) for view in views for tiling in candidates(view, rates, few)]
        if not every:
            continue
        view, tiling = random.choice(every)
        tiling = as_strips(view, tiling, rates) if strips else tiling
        try:
            stage = cube_stage(work, product, tiling, soc, Expansion(soc, noted=True))
        except CompileError as error:  # the operands of the epilogue do not fit beside so large a tile
            if "UB" not in str(error):
                raise
            continue
        if tells_all(stage):
            made += 1
            yield work, soc, tiling, stage


@cache
def stages() -> tuple[Made, ...]:
    return (*random_stages(50, 21, strips=False), *random_stages(25, 22, strips=True))


def operands(work: CubeWork, random: np.random.Generator) -> dict[str, Array]:
    """Values of what the work reads, in logical order."""
    found = {"a": random.integers(-1, 2, work.a.shape).astype(np.float16)}
    conv = work.conv
    shape = work.b.shape
    if conv is not None:
        shape = (work.n * work.batch, conv.channels, conv.kernel_h, conv.kernel_w)
    found["b"] = random.integers(-1, 2, shape).astype(np.float16)
    refs = [stream.ref for stream in work.epilogue_inputs] + ([work.bias] if work.bias else [])
    return found | {one.region: random.integers(0, 8, one.shape).astype(one.dtype.numpy) for one in refs}


def product(work: CubeWork, given: dict[str, Array]) -> Array:
    """The product with its bias: images or products, rows, columns; groups of channels side by side."""
    a, b = given["a"].astype(np.int64), given["b"].astype(np.int64)
    bias = given["bias"].astype(np.int64) if work.bias else np.zeros(1, np.int64)
    if work.conv is None:
        left = np.swapaxes(a, -1, -2) if work.transpose_a else a
        right = np.swapaxes(b, -1, -2) if work.transpose_b else b
        whole = (left @ right).reshape(-1, work.m, work.n)
        return whole + (bias.reshape(-1, 1, work.n) if work.bias else 0)
    conv = work.conv
    top, left_pad, bottom, right_pad = conv.pads
    wide = np.pad(a, ((0, 0), (0, 0), (top, bottom + conv.stride_h), (left_pad, right_pad + conv.stride_w)))
    each = a.shape[1] // work.batch
    made = np.zeros((a.shape[0], work.n * work.batch, conv.out_h, conv.out_w), np.int64)
    for group in range(work.batch):
        channels = wide[:, group * each : group * each + conv.channels]
        to = slice(group * work.n, (group + 1) * work.n)
        for y in range(conv.kernel_h):
            for x in range(conv.kernel_w):
                lines = channels[:, :, y * conv.dilation_h :: conv.stride_h][:, :, : conv.out_h]
                points = lines[..., x * conv.dilation_w :: conv.stride_w][..., : conv.out_w]
                made[:, to] += np.einsum("nchw,oc->nohw", points, b[to, :, y, x])
    return made.reshape(*made.shape[:2], -1).transpose(0, 2, 1) + bias


def as_rows(values: Array, work: CubeWork) -> Array:
    """A tensor like the result: images or products, rows, columns."""
    if work.conv is None:
        return values.reshape(-1, work.m, work.n)
    columns = work.n * work.batch
    return values.reshape(*values.shape[:2], -1).transpose(0, 2, 1)[..., :columns]


def columns_of(work: CubeWork, whole: Array) -> Array:
    """Numbers of the columns; those of several products count on."""
    first = 0 if work.conv is not None or work.b_shared else np.arange(len(whole))[:, None, None] * work.n
    return np.arange(whole.shape[2]) + first


def streams_of(work: CubeWork, given: dict[str, Array]) -> dict[str, Array]:
    """What the epilogue reads, each so that it can be added to the product."""
    shapes = {"row": (1, -1, 1), "col": (1, 1, -1), "one": (1, 1, 1)}
    return {
        one.ref.region: as_rows(given[one.ref.region], work)
        if one.over == "all"
        else given[one.ref.region].reshape(shapes[one.over])
        for one in work.epilogue_inputs
    }


def checked(made: Made, random: np.random.Generator) -> list[tuple[str, ...]]:
    """Runs the blocks and compares; returns what tiles were made of, tile by tile."""
    work, soc, tiling, stage = made
    given = operands(work, random)
    tiles: dict[str, set[str]] = {}
    seen: list[tuple[str, ...]] = []

    def compute(kernel: Kernel, arrays: Sequence[Array]) -> Array:
        seen.append(tuple(part.over for part in kernel.sources))
        tiles.setdefault(kernel.target.region, set()).update(part.region for part in kernel.sources)
        total = np.zeros((kernel.rows, kernel.columns))
        for part, array in zip(kernel.sources, arrays, strict=True):
            if part.over == "all":
                total += WEIGHTS[part.region] * matrix_of(array)
                continue
            line = np.zeros(part.count)  # zeros behind the last value of a tensor
            line[: len(array)] = array
            total += WEIGHTS[part.region] * line.reshape(
                {"row": (-1, 1), "col": (1, -1), "one": (1, 1)}[part.over]
            )
        return like_box(total + (np.arange(kernel.columns) + kernel.first[1]) % 5, kernel)

    refs = [work.out, *(side.ref for side in work.side_outputs)]
    held = {
        name: stored(
            array,
            work.b.format
            if name == "b"
            else work.a.format
            if name == "a"
            else work.out.format
            if name == "e_all"
            else Format.ND,
            Filters(work.batch, work.conv.channels, work.n) if work.conv and name == "b" else None,
        )
        for name, array in given.items()
    }
    stores = {one.region: stored(np.zeros(one.shape, one.dtype.numpy), one.format) for one in refs}
    run(stage, soc, held, stores, compute)
    results = {"": product(work, given), **streams_of(work, given)}
    for one in (*(side.ref for side in work.side_outputs), work.out):
        found = as_rows(logical(stores[one.region], one.shape, one.format), work)
        if one.region in tiles:
            parts = [WEIGHTS[name] * results[name] for name in sorted(tiles[one.region])]
            wanted = sum(parts) + columns_of(work, results[""]) % 5
        else:
            wanted = results[""] if one.region != "c" or not work.epilogue else np.maximum(results[""], 0)
        results[one.region] = wanted
        np.testing.assert_array_equal(found, wanted, f"{one.region} of {work}, {tiling}")
    read = {name for sources in tiles.values() for name in sources}
    assert {stream.ref.region for stream in work.epilogue_inputs} <= read
    return seen


def test_blocks_make_the_products_and_convolutions_that_numpy_makes() -> None:
    random, seen = np.random.default_rng(0), set()
    for made in stages():
        work, soc, tiling, stage = made
        overs = {over for one in checked(made, random) for over in one}
        kind = "strips" if tiling.columns else "conv" if work.conv else "matmul"
        seen |= {(kind, soc.split_cores), (kind, sum(group.count for group in stage.groups) > 1), *overs}
        seen |= {(kind, "bias") for _ in range(work.bias is not None)}
        seen |= {(kind, "batch") for _ in range(work.batch > 1)}
        seen |= {("turned", work.transpose_a, work.transpose_b) for _ in range(work.conv is None)}
    kinds = {
        (kind, bool_) for kind in ("strips", "conv", "matmul") for bool_ in (False, True, "bias", "batch")
    }
    turned = {("turned", one, other) for one in (False, True) for other in (False, True)}
    assert kinds | turned | {"all", "row", "col", "one"} <= seen


def test_a_row_of_the_filter_that_lies_outside_of_the_map_brings_nothing() -> None:
    """One output row at a time and one row of the filter: the first and the last one see padding only."""
    soc, plain = load("Ascend310", {"ai_cores": 1}), square(16, 8, 16, 3, 1, 1)
    named = {"a": replace(plain.a, region="a"), "b": replace(plain.b, region="b")}
    work = replace(plain, **named, out=replace(plain.out, region="c"), bias=None)
    tiling = Tiling(1, 1, 64, 16, 8, 16, 3, 3, "", 2, 0.0, 8)
    stage = cube_stage(work, product_of(work, soc), tiling, soc, Expansion(soc, noted=True))
    assert tells_all(stage)
    checked((work, soc, tiling, stage), np.random.default_rng(3))
    brought = [told for region, _, _, told in transfers_of(stage) if region == "a"]
    assert len(brought) == 8 * 3 - 2
    assert all(0 <= first < last <= work.a.bytes for first, last in brought)


def test_what_is_timed_are_the_bytes_that_are_told() -> None:
    """Results to the byte, operands from their first byte on. Rows of a map are left out: those of the run
    that needs most are timed, those of each run told."""
    seen = set()
    for work, _, tiling, stage in stages():
        kind = "strips" if tiling.columns else "conv" if work.conv else "matmul"
        for region, write, timed, told in transfers_of(stage):
            if region == "a" and work.conv is not None:
                continue
            assert timed[0] <= told[0] < timed[1], (region, work, tiling)
            assert told[1] <= timed[1] or (not write and timed[0] == told[0]), (region, work, tiling)
            if kind != "strips":
                assert timed[0] == told[0], (region, work, tiling)
            seen.add((kind, region))
    assert {(kind, region) for kind in ("strips", "conv", "matmul") for region in ("b", "c", "bias")} <= seen
    assert {region for _, region in seen} >= {"a", "side", "e_all", "e_row", "e_col", "e_one"}
