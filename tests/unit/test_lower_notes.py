"""Which work tells what its blocks do to the byte: each condition broken alone, and nothing is told; programs
that tell it are run against numpy in `test_noted_cubes` and `test_noted_vectors`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.lower.templates.cube import cube_stage, product_of
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import (
    ColumnSum,
    CubeWork,
    Maps,
    RawImage,
    RowWindows,
    SideOutput,
    Step,
    Stream,
    VectorWork,
)
from ascendsim.soc import SocSpec, load
from tests.support.gate import in_one
from tests.support.lowering import convolution, matmul, ref
from tests.support.noted_stages import tells_all

HALF, FULL, INT8, INT32 = DType.FLOAT16, DType.FLOAT32, DType.INT8, DType.INT32
COUPLED, SPLIT = load("Ascend310", {"ai_cores": 1}), load("Ascend910B1", {"ai_cores": 1, "vector_cores": 2})
MATMUL = matmul(32, 48, 64, COUPLED)
ROWS = matmul(32, 48, 64, SPLIT)
CONV = replace(convolution(32, 8, 32, 3, 1, 1), bias=None)
FRACTALS, BLOCKS = Format.FRACTAL_NZ, Format.NC1HWC0


def told(work: CubeWork, soc: SocSpec = COUPLED, tiling: Tiling | None = None) -> bool:
    product = product_of(work, soc)
    whole = product.batch, product.images, product.m, product.n
    tiling = tiling or Tiling(*whole, product.m, 32, product.k_blocks, 1, "", 1, 0.0, product.m)
    return tells_all(cube_stage(work, product, tiling, soc, Expansion(soc, noted=True)))


def with_stream(work: CubeWork, stream: Stream) -> CubeWork:
    return replace(work, epilogue=(Step("vadd"),), epilogue_inputs=(stream,))


def typed(work: CubeWork, dtype: DType, out: DType) -> CubeWork:
    """The work on operands of a type."""
    a, b, c = (
        ref(name, one.shape, one.format, kind)
        for name, one, kind in (("a", work.a, dtype), ("b", work.b, dtype), ("c", work.out, out))
    )
    return replace(work, a=a, b=b, out=c, dtype=dtype)


OTHER = replace(MATMUL.out, region="other")
SIDE = replace(MATMUL.out, region="side")
MATRICES: dict[str, tuple[CubeWork, SocSpec, bool]] = {
    "fractals": (MATMUL, COUPLED, True),
    "rows on split cores": (ROWS, SPLIT, True),
    "float32 results": (typed(MATMUL, HALF, FULL), COUPLED, True),
    "float32": (replace(typed(ROWS, FULL, FULL), transpose_b=True), SPLIT, True),
    "float32 whose right operand is turned": (typed(ROWS, FULL, FULL), SPLIT, False),
    "float32 whose left operand is turned": (
        replace(typed(ROWS, FULL, FULL), transpose_b=True, transpose_a=True),
        SPLIT,
        False,
    ),
    "whole numbers": (typed(MATMUL, INT8, INT32), COUPLED, False),
    "a result of whole numbers": (typed(MATMUL, HALF, INT32), COUPLED, False),
    "operands of another type": (replace(MATMUL, a=replace(MATMUL.a, dtype=FULL)), COUPLED, False),
    "a full operand": (with_stream(MATMUL, Stream(OTHER)), COUPLED, True),
    "bits": (with_stream(MATMUL, Stream(replace(OTHER, bits_of=HALF))), COUPLED, False),
    "an operand in another format": (
        with_stream(MATMUL, Stream(replace(OTHER, format=Format.FRACTAL_Z))),
        COUPLED,
        False,
    ),
    "a value on the way": (
        replace(MATMUL, epilogue=(Step("vrelu"),), side_outputs=(SideOutput(SIDE, 0),)),
        COUPLED,
        True,
    ),
    "a value on the way of whole numbers": (
        replace(MATMUL, epilogue=(Step("vrelu"),), side_outputs=(SideOutput(replace(SIDE, dtype=INT8), 0),)),
        COUPLED,
        False,
    ),
    "a value on the way in another format": (
        replace(
            MATMUL,
            epilogue=(Step("vrelu"),),
            side_outputs=(SideOutput(replace(SIDE, format=Format.FRACTAL_Z), 0),),
        ),
        COUPLED,
        False,
    ),
    "sums": (
        replace(MATMUL, sums=(ColumnSum(ref("s", (64,), dtype=FULL), (), Step("vadd", FULL)),)),
        COUPLED,
        False,
    ),
    "left rows of whole blocks": (replace(MATMUL, a=ref("a", (32, 48))), COUPLED, True),
    "left rows that end inside of one": (
        replace(matmul(32, 40, 64, COUPLED), a=ref("a", (32, 40))),
        COUPLED,
        False,
    ),
    "left rows that are turned": (replace(MATMUL, a=ref("a", (48, 32)), transpose_a=True), COUPLED, False),
    "left rows of several products": (
        replace(matmul(32, 48, 64, COUPLED, 2), a=ref("a", (2, 32, 48))),
        COUPLED,
        False,
    ),
    "right rows": (replace(MATMUL, b=ref("b", (48, 64))), COUPLED, False),
    "a filter": (
        replace(MATMUL, b=ref("b", (64, 48, 1, 1), Format.FRACTAL_Z), transpose_b=True),
        COUPLED,
        True,
    ),
    "a filter that is not turned": (
        replace(MATMUL, b=ref("b", (64, 48, 1, 1), Format.FRACTAL_Z)),
        COUPLED,
        False,
    ),
    "a filter for several products": (
        replace(
            matmul(32, 48, 64, COUPLED, 2),
            b=ref("b", (64, 48, 1, 1), Format.FRACTAL_Z),
            transpose_b=True,
            b_shared=True,
        ),
        COUPLED,
        False,
    ),
    "a map of one row": (
        replace(matmul(1, 48, 64, COUPLED), out=ref("c", (1, 64, 1, 1), BLOCKS)),
        COUPLED,
        True,
    ),
    "maps of a row each": (replace(MATMUL, out=ref("c", (32, 64, 1, 1), BLOCKS)), COUPLED, False),
    "result rows": (replace(MATMUL, out=ref("c", (32, 64))), COUPLED, True),
    "a map": (CONV, COUPLED, True),
    "a map from AIPP": (
        replace(
            convolution(3, 8, 16, 3),
            a=ref("x", (1, 8, 8, 3), dtype=DType.UINT8),
            image=RawImage(24, 24, 0, 192),
        ),
        COUPLED,
        False,
    ),
    "a map in rows": (replace(CONV, a=ref("x", (1, 32, 8, 8), Format.NCHW)), COUPLED, False),
    "a result map in rows": (replace(CONV, out=ref("y", (1, 32, 8, 8), Format.NCHW)), COUPLED, False),
    "a filter in fractals": (replace(CONV, b=replace(CONV.b, format=FRACTALS)), COUPLED, False),
    "some of the images": (
        replace(CONV, a=ref("x", (2, 32, 8, 8), BLOCKS)),
        COUPLED,
        False,
    ),
}


@in_one("case", MATRICES)
def test_products_are_told_unless_one_condition_fails(case: str) -> None:
    work, soc, wanted = MATRICES[case]
    assert told(work, soc) is wanted


def test_strips_are_told_where_they_hold_whole_rows_of_the_filter() -> None:
    plain = replace(convolution(32, 40, 32, 3, 1, 1), bias=None)

    def in_strips(work: CubeWork, chunk: int) -> bool:
        tiling = Tiling(1, 1, 1600, 32, 16, 32, chunk, 1, "", 1, 0.0, 16, columns=16)
        assert work.conv is not None
        rows = work.conv.out_h
        return told(work, COUPLED, replace(tiling, share_images=3, share_m=16 * rows))

    assert in_strips(plain, 18)
    assert in_strips(plain, 9)
    assert in_strips(plain, 3)
    assert not in_strips(plain, 1)
    row, column = Stream(ref("r", (1600,)), "row"), Stream(ref("f", (32,)), "col")
    assert in_strips(with_stream(plain, column), 9)
    assert not in_strips(with_stream(plain, row), 9)
    assert told(with_stream(plain, row), COUPLED, Tiling(1, 1, 1600, 32, 40, 32, 9, 1, "", 1, 0.0, 40))
    touching, apart = (replace(convolution(32, 121, 32, 3, stride), bias=None) for stride in (3, 4))
    assert in_strips(touching, 9)
    assert not in_strips(apart, 9)


def vector(**changes: object) -> VectorWork:
    """Elementwise work on rows, with a value a column."""
    x, y = Stream(ref("x", (40, 64))), Stream(ref("y", (40, 64)))
    plain = VectorWork(40, 64, (Step("vadd"),), (x, Stream(ref("c", (64,)), "col")), (y,))
    return replace(plain, **changes)  # type: ignore[arg-type]


X, Y, COLUMN = vector().inputs[0], vector().outputs[0], vector().inputs[1]
MAP = Stream(ref("x", (1, 64, 5, 8), BLOCKS))
MAPS = {"inputs": (MAP, COLUMN), "outputs": (replace(MAP, ref=replace(MAP.ref, region="y")),)}
SUM = {"steps": (Step("vcadd"),), "reduces": "cols", "outputs": (Stream(ref("s", (40,)), "row"),)}
VECTORS: dict[str, tuple[Callable[[], VectorWork], bool]] = {
    "rows": (vector, True),
    "one long row": (lambda: vector(inputs=(X,)), True),
    "one long row of several types": (
        lambda: vector(inputs=(X, Stream(ref("z", (40, 64), dtype=FULL)))),
        True,
    ),
    "maps": (lambda: vector(**MAPS), True),
    "maps of another type": (
        lambda: vector(inputs=MAPS["inputs"], outputs=(Stream(ref("y", (1, 64, 5, 8), BLOCKS, FULL)),)),
        True,
    ),
    "maps in one long row": (lambda: vector(**MAPS | {"inputs": (MAP,)}), True),
    "maps of another type in one long row": (
        lambda: vector(inputs=(MAP,), outputs=(Stream(ref("y", (1, 64, 5, 8), BLOCKS, FULL)),)),
        False,
    ),
    "maps and rows in one long row": (lambda: vector(inputs=(MAP,)), False),
    "whole maps in a row": (
        lambda: VectorWork(
            2,
            64 * 40,
            (Step("vmul"),),
            (Stream(ref("x", (2, 64, 5, 8), BLOCKS)), Stream(ref("r", (2,)), "row")),
            (Stream(ref("y", (2, 64, 5, 8), BLOCKS)),),
        ),
        True,
    ),
    "sums of rows": (lambda: vector(inputs=(X,), **SUM), True),
    "sums of columns": (
        lambda: vector(inputs=(X,), reduces="rows", outputs=(Stream(ref("s", (64,)), "col"),)),
        False,
    ),
    "reads in pieces": (lambda: vector(gather_bytes=64), False),
    "nothing read": (lambda: vector(inputs=()), False),
    "a result a column": (lambda: vector(outputs=(Stream(ref("y", (64,)), "col"),)), False),
    "bits": (lambda: vector(inputs=(X, Stream(replace(Y.ref, region="m", bits_of=HALF)))), False),
    "a filter": (lambda: vector(inputs=(X, Stream(ref("f", (40, 64), Format.FRACTAL_Z)))), False),
    "fewer elements": (lambda: vector(inputs=(X, Stream(ref("z", (39, 64))))), False),
    "fewer columns by a part of a block": (
        lambda: vector(inputs=(X, Stream(ref("c", (33,)), "col"))),
        True,
    ),
    "fewer columns by a block": (lambda: vector(inputs=(X, Stream(ref("c", (32,)), "col"))), False),
    "more columns": (lambda: vector(inputs=(X, Stream(ref("c", (65,)), "col"))), False),
    "a value a row": (lambda: vector(inputs=(X, Stream(ref("r", (40,)), "row"))), True),
    "fewer values than rows": (lambda: vector(inputs=(X, Stream(ref("r", (39,)), "row"))), False),
    "a value for all": (lambda: vector(inputs=(X, COLUMN, Stream(ref("o", (1,)), "one"))), True),
    "two values for all": (lambda: vector(inputs=(X, COLUMN, Stream(ref("o", (2,)), "one"))), False),
    "windows": (
        lambda: VectorWork(
            20,
            16,
            (Step("vmax", run=16),),
            (Stream(ref("x", (5, 9, 16))),),
            (Stream(ref("y", (5, 4, 16))),),
            gather_bytes=288,
            windows=RowWindows(9, 4, 3, 2, 0),
        ),
        True,
    ),
    "windows with a full operand": (
        lambda: VectorWork(
            20,
            16,
            (Step("vmax", run=16),),
            (Stream(ref("x", (5, 9, 16))), Stream(ref("z", (5, 4, 16)))),
            (Stream(ref("y", (5, 4, 16))),),
            gather_bytes=288,
            windows=RowWindows(9, 4, 3, 2, 0),
        ),
        False,
    ),
}


@pytest.mark.parametrize("case", VECTORS)
def test_vector_work_is_told_unless_one_condition_fails(case: str) -> None:
    make, wanted = VECTORS[case]
    for soc in (COUPLED, SPLIT):
        assert tells_all(lower_vector(make(), soc, Expansion(soc, noted=True))) is wanted


def test_maps_plane_by_plane_are_not_told() -> None:
    """Where there is such a kernel: cores that are apart have the plain one."""
    work = vector(**MAPS, maps=Maps(1, 4, "images"))
    for soc, wanted in ((COUPLED, False), (SPLIT, True)):
        assert tells_all(lower_vector(work, soc, Expansion(soc, noted=True))) is wanted


def test_sums_of_planes_are_told_if_each_plane_has_one() -> None:
    def sums(x: Stream, y: Stream, rows: int, **more: object) -> bool:
        steps = (Step("vconv", FULL), Step("vadd", FULL, lanes=16))
        work = VectorWork(rows, 64, steps, (x,), (y,), "rows", planes=True)
        work = replace(work, **more)  # type: ignore[arg-type]
        return tells_all(lower_vector(work, COUPLED, Expansion(COUPLED, noted=True)))

    made = Stream(ref("y", (1, 64, 1, 1), BLOCKS, FULL), "col")
    made = Stream(replace(made.ref, bytes=64 * 4), "col")
    assert sums(MAP, made, 40)
    assert not sums(MAP, Stream(replace(made.ref, bytes=32 * 4), "col"), 40)
    assert not sums(MAP, made, 40, inputs=(MAP, Stream(ref("c", (64,)), "col")))
    assert not sums(Stream(ref("x", (1, 64, 5, 9), BLOCKS)), made, 40)
