"""Small Cube work with tilings by hand, one for each way in which the Cube's template runs; their programs
are golden files (`tests/golden/lower`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.lower.templates.tiling import Tiling
from ascendsim.opset.work import ColumnSum, CubePair, CubeWork, RawImage, SideOutput, Step, Stream
from ascendsim.soc import load
from tests.support.lowering import convolution, matmul, ref

HALF, FULL = DType.FLOAT16, DType.FLOAT32


@dataclass(frozen=True)
class Tiled:
    """Work and how it is tiled."""

    work: CubeWork
    share: tuple[int, int, int, int]  # batch, images, m, n
    tile: tuple[int, int]
    chunk_k: int
    step_k: int
    hold: str = ""
    accumulators: int = 2
    band_m: int = 0
    l1_slots: int = 2

    @property
    def tiling(self) -> Tiling:
        return Tiling(
            *self.share,
            *self.tile,
            self.chunk_k,
            self.step_k,
            self.hold,
            self.accumulators,
            0.0,
            self.band_m or self.tile[0],
            self.l1_slots,
        )


def maps_in_bands() -> Tiled:
    """B is held, A comes in bands of two tiles; a bias, a scale a channel and a residual."""
    plain = convolution(40, 20, 64, 3, pad=1)
    residual = Stream(ref("e", (1, 64, 20, 20), Format.NC1HWC0))
    work = replace(
        plain,
        epilogue=(Step("vmul"), Step("vadd"), Step("vrelu")),
        epilogue_inputs=(Stream(ref("s", (64,)), "col"), residual),
    )
    return Tiled(work, (1, 1, 400, 64), (48, 32), 27, 9, "b", band_m=96)


def rows_outside() -> Tiled:
    """A is held: tiles of rows outside, columns inside; sums of columns, a value on the way is stored too."""
    plain = convolution(24, 17, 72, 5, stride=2, pad=2, images=2)
    whole = (2, 72, 9, 9)
    work = replace(
        plain,
        epilogue=(Step("vmuls"), Step("vrelu")),
        side_outputs=(SideOutput(ref("before", whole, Format.NC1HWC0), 1),),
        sums=(
            ColumnSum(ref("sum", (72,), dtype=FULL), (Step("vconv", FULL),), Step("vadd", FULL)),
            ColumnSum(ref("squares", (72,), dtype=FULL), (Step("vmul", FULL),), Step("vadd", FULL)),
        ),
    )
    return Tiled(work, (1, 2, 81, 72), (27, 32), 50, 25, "a")


def both_stream() -> Tiled:
    """Two products whose operands come in chunks of k; one accumulator, a value a row and one for all."""
    work = matmul(96, 300, 90, load("Ascend310P3"), 2, bias=ref("bias", (180,), dtype=FULL))
    shape = (2, 90, 300)
    work = replace(
        work,
        b=ref("b", shape, Format.FRACTAL_NZ),
        transpose_b=True,
        epilogue=(Step("vmul"), Step("vexp")),
        epilogue_inputs=(Stream(ref("r", (192,)), "row"), Stream(ref("o", (1,)), "one")),
        epilogue_values=2,
    )
    return Tiled(work, (1, 1, 96, 90), (48, 48), 8, 4, "", 1)


def split_cores() -> Tiled:
    """Row-major matrices, blocked on the way into L1; bias through the table, ReLU on the way out."""
    work = matmul(200, 600, 100, load("Ascend910B1"), bias=ref("bias", (100,)), epilogue=(Step("vrelu"),))
    work = replace(work, a=ref("a", (600, 200)), transpose_a=True)
    return Tiled(work, (1, 1, 112, 100), (112, 64), 12, 5, "b", l1_slots=2)


def shared_left() -> Tiled:
    """Three products of one left matrix; tiles of a chunk that the Cube takes long for are brought ahead."""
    work = matmul(64, 1200, 80, load("Ascend910A"), 3)
    work = replace(work, a=ref("a", (64, 1200), Format.FRACTAL_NZ), a_shared=True)
    return Tiled(work, (2, 1, 64, 80), (64, 80), 32, 1, "", 2)


def shared_right() -> Tiled:
    """One right matrix for three images of rows, held while they pass."""
    work = matmul(50, 64, 40, load("Ascend310"), 3, bias=ref("bias", (40,)))
    work = replace(work, b=ref("b", (64, 40), Format.FRACTAL_NZ), b_shared=True)
    return Tiled(work, (1, 3, 50, 48), (32, 48), 4, 4, "b", band_m=32)


def groups() -> Tiled:
    """A convolution of 1 x 1 in two groups: its rows are those of the map."""
    plain = convolution(48, 10, 32, 1)
    assert plain.conv is not None
    work = replace(
        plain,
        batch=2,
        a=ref("x", (1, 96, 10, 10), Format.NC1HWC0),
        b=ref("w", (64, 48, 1, 1), Format.FRACTAL_Z),
        out=ref("y", (1, 64, 10, 10), Format.NC1HWC0),
        bias=ref("bias", (64,)),
    )
    return Tiled(work, (2, 1, 100, 32), (64, 32), 2, 1)


def images() -> Tiled:
    """Images that AIPP converts on their way into L1: rows of 3 x 40 bytes, of which 36 pixels are read."""
    plain = convolution(3, 36, 16, 3, stride=2, images=2)
    image = RawImage(row_bytes=120, used_bytes=108, first_byte=126, image_bytes=40 * 120)
    work = replace(plain, a=ref("x", (2, 40, 40, 3), dtype=DType.UINT8), image=image)
    return Tiled(work, (1, 1, 153, 16), (48, 16), 9, 9)


def whole_numbers() -> Tiled:
    """int8 with results in int32: k blocks of 32."""
    format = Format.FRACTAL_NZ
    a, b = ref("a", (40, 160), format, DType.INT8), ref("b", (160, 64), format, DType.INT8)
    work = CubeWork(40, 160, 64, a, b, ref("c", (40, 64), format, DType.INT32), dtype=DType.INT8)
    return Tiled(work, (1, 1, 40, 64), (48, 64), 5, 2)


def skipped_rows() -> Tiled:
    """A convolution of 1 x 1 with stride 3: only every third row of the map is read."""
    return Tiled(convolution(32, 22, 16, 1, stride=3), (1, 1, 64, 16), (32, 16), 2, 1, "b", band_m=32)


CASES: tuple[tuple[Callable[[], Tiled], str], ...] = (
    (maps_in_bands, "Ascend310"),
    (rows_outside, "Ascend910A"),
    (both_stream, "Ascend310P3"),
    (split_cores, "Ascend910B1"),
    (shared_left, "Ascend910A"),
    (shared_right, "Ascend310"),
    (groups, "Ascend910A"),
    (images, "Ascend310"),
    (whole_numbers, "Ascend310P3"),
    (skipped_rows, "Ascend910A"),
)


def pair() -> CubePair:
    """Two convolutions in bands of rows, the second one with a bias, what is between them in L1."""
    first = convolution(24, 20, 40, 1)
    first = replace(first, out=replace(first.out, region="between"), epilogue=(Step("vrelu"),), bias=None)
    then = convolution(40, 20, 20, 3, stride=2, pad=1)
    bias = ref("bias2", (20,), dtype=FULL)
    return CubePair(first, replace(then, a=first.out, b=replace(then.b, region="w2"), bias=bias))
