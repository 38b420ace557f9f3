"""Small works of every form that the vector and movement templates know, each with tails in all its loops;
their programs are golden files (`tests/golden/lower`)."""

from __future__ import annotations

from collections.abc import Callable

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.opset.work import Copy, MoveWork, Over, RowWindows, ScalarWork, Step, Stream, VectorWork, Work
from tests.support.lowering import ref

HALF, FULL = DType.FLOAT16, DType.FLOAT32
WHOLE = 1 << 30  # a burst that never ends


def stream(name: str, shape: tuple[int, ...], over: Over = "all", dtype: DType = HALF) -> Stream:
    return Stream(ref(name, shape, dtype=dtype), over)


def flat() -> VectorWork:
    """One long row: two operands of different types and one value for all."""
    inputs = (stream("x", (90_000,)), stream("z", (90_000,), dtype=FULL), stream("s", (1,), "one"))
    steps = (Step("vmul", FULL), Step("vadds"))
    return VectorWork(1, 90_000, steps, inputs, (stream("y", (90_000,)),))


def broadcast() -> VectorWork:
    """A value a row and a value a column."""
    inputs = (stream("x", (300, 200)), stream("r", (300,), "row"), stream("c", (200,), "col"))
    return VectorWork(300, 200, (Step("vmul"), Step("vadd")), inputs, (stream("y", (300, 200)),))


def wide_rows() -> VectorWork:
    """Rows that do not fit into UB: columns are cut as well."""
    inputs = (stream("x", (3, 100_000)), stream("c", (100_000,), "col"))
    return VectorWork(3, 100_000, (Step("vmul"),), inputs, (stream("y", (3, 100_000)),))


def maps() -> VectorWork:
    """A scale a channel, of a feature map in NC1HWC0: one burst a channel block."""
    x, y = (ref(name, (2, 40, 30, 30), Format.NC1HWC0) for name in "xy")
    return VectorWork(1800, 48, (Step("vmul"),), (Stream(x), stream("c", (48,), "col")), (Stream(y),))


def fractals() -> VectorWork:
    """Softmax of rows that lie in fractals."""
    x, y = (ref(name, (400, 128), Format.FRACTAL_NZ) for name in "xy")
    steps = (Step("vcmax"), Step("vsub"), Step("vexp"), Step("vcadd"), Step("vmul"))
    return VectorWork(400, 128, steps, (Stream(x),), (Stream(y),), "cols", 3)


def sweeps() -> VectorWork:
    """Rows that are read three times, with a value a row and a column, and a result of either kind."""
    inputs = (stream("x", (2, 150_000)), stream("r", (2,), "row"), stream("c", (150_000,), "col"))
    steps = (Step("vcmax"), Step("vsub"), Step("vexp"), Step("vcadd"), Step("vmul"))
    outputs = (stream("y", (2, 150_000)), stream("t", (2,), "row", FULL))
    return VectorWork(2, 150_000, steps, inputs, outputs, "cols", 3)


def down() -> VectorWork:
    """Sums over rows, scaled at the end, with a result a row on the way."""
    inputs = (stream("x", (700, 300)), stream("r", (700,), "row"), stream("c", (300,), "col"))
    outputs = (stream("t", (300,), "col", FULL), stream("q", (700,), "row"))
    steps = (Step("vmul"), Step("vadd", FULL), Step("vmuls", FULL, "col"), Step("vrec", FULL, "one"))
    return VectorWork(700, 300, steps, inputs, outputs, "rows")


def planes() -> VectorWork:
    """Global pooling: sums over the positions of each channel block."""
    x = ref("x", (2, 40, 60, 60), Format.NC1HWC0)
    y = ref("y", (2, 40, 1, 1), Format.NC1HWC0)
    steps = (Step("vconv", FULL), Step("vadd", FULL, lanes=16), Step("vconv", FULL, "col"))
    return VectorWork(3600, 96, steps, (Stream(x),), (Stream(y, "col"),), "rows", planes=True)


def windows() -> VectorWork:
    """Reads in pieces of 96 bytes, instructions that go on for 96 elements at most."""
    steps = (Step("vmax", run=96), Step("vmax", count=3))
    inputs = (stream("x", (30_000,)),)
    return VectorWork(1, 30_000, steps, inputs, (stream("y", (30_000,)),), gather_bytes=96)


def pooled_rows() -> VectorWork:
    """Windows of 3 x 3, two apart, over 61 maps of 46 x 46: the second core begins inside of one."""
    x, y = (Stream(ref(name, (61, size, size))) for name, size in (("x", 46), ("y", 22)))
    steps = (Step("vmax", run=22, count=4), Step("vmax", count=2))
    windows = RowWindows(46, 22, 3, 2, 0)
    return VectorWork(1342, 22, steps, (x,), (y,), gather_bytes=4232, windows=windows)


def long_reduction() -> VectorWork:
    """Two rows that all cores share: partial results meet in global memory."""
    inputs = (stream("x", (2, 200_000)),)
    return VectorWork(2, 200_000, (Step("vcadd"),), inputs, (stream("y", (2,), "row", FULL),), "cols")


def built_steps() -> VectorWork:
    """A division, an exponential in float32 and a lookup: instructions that Ascend310 lacks."""
    steps = (Step("vdiv"), Step("vexp", FULL), Step("vgather"), Step("vadds", DType.INT64))
    inputs = (stream("x", (3000,)),)
    return VectorWork(1, 3000, steps, inputs, (stream("y", (3000,)),), live_bytes=12)


def copies() -> MoveWork:
    """Two copies of different lengths with indices: bursts of 96 bytes, each with an address of its own."""
    x, y, z = ref("x", (21_000,)), ref("y", (21_000,)), ref("z", (5000,))
    parts = (Copy(x, y, 42_000, 96, WHOLE), Copy(x, z, 10_000, WHOLE, WHOLE))
    return MoveWork(parts, scalar_per_burst=2, extra_inputs=(ref("i", (9000,), dtype=DType.INT32),))


def transpose() -> MoveWork:
    """Bursts of 2048 bytes become bursts of 64, turned and widened on the way."""
    x, y = ref("x", (60_000,)), ref("y", (60_000,), dtype=FULL)
    steps = (Step("vnchwconv"), Step("vconv", FULL))
    return MoveWork((Copy(x, y, 120_000, 2048, 64, write_bytes=240_000),), steps)


def padding() -> MoveWork:
    """More is written than is read, and one part is only written."""
    x, y, z = ref("x", (100, 100)), ref("y", (120, 130)), ref("z", (4000,))
    parts = (
        Copy(x, y, 20_000, 200, 260, write_bytes=31_200),
        Copy(x, z, 0, WHOLE, WHOLE, write_bytes=8000),
    )
    return MoveWork(parts, (Step("vectordup"),))


def scalar() -> ScalarWork:
    """Element by element, two operands of different types."""
    x, z, y = ref("x", (50_000,)), ref("z", (50_000,), dtype=DType.INT32), ref("y", (100_000,))
    return ScalarWork(50_000, 8, (x, z), (y,))


def blocked_columns() -> VectorWork:
    """So many channels that a tile of all of them would have few rows: short bursts."""
    x, y = (ref(name, (1, 2064, 20, 20), Format.NC1HWC0) for name in "xy")
    return VectorWork(400, 2064, (Step("vmul"),), (Stream(x), stream("c", (2064,), "col")), (Stream(y),))


def two_rows() -> VectorWork:
    """Sums over two rows, whose columns the cores share."""
    inputs = (stream("x", (2, 3000), dtype=FULL), stream("c", (3000,), "col"))
    steps = (Step("vmul", FULL), Step("vadd", FULL), Step("vconv", HALF, "col"))
    return VectorWork(2, 3000, steps, inputs, (stream("y", (3000,), "col"),), "rows")


def scattered() -> MoveWork:
    """Pieces of 64 bytes out of a tensor that is hardly larger than a tile: they lie as far apart as it
    allows."""
    return MoveWork((Copy(ref("x", (20_480,), dtype=DType.INT8), ref("y", (10_240,)), 20_480, 64, WHOLE),))


def looked_up() -> VectorWork:
    """Lookups between vector steps: the vector unit is drained around each of them."""
    steps = (Step("vgather"), Step("vgatherb"), Step("vadds"), Step("vmuls"), Step("vgather"))
    return VectorWork(1, 800, steps, (stream("x", (800,)),), (stream("y", (800,)),))


def moved_lookups() -> MoveWork:
    """Two lookups one after the other on the way: the vector unit is drained before and after both."""
    copy = Copy(ref("x", (4000,)), ref("y", (4000,)), 8000, WHOLE, WHOLE)
    return MoveWork((copy,), (Step("vmuls"), Step("vgather"), Step("vgatherb"), Step("vadds")))


def long_fractals() -> VectorWork:
    """Softmax of rows in fractals that are so long that fewer than 16 of them fit into UB."""
    x, y = (ref(name, (40, 6000), Format.FRACTAL_NZ) for name in "xy")
    return VectorWork(40, 6000, (Step("vcmax"), Step("vsub")), (Stream(x),), (Stream(y),), "cols", 3)


CASES: tuple[tuple[Callable[[], Work], str], ...] = (
    (flat, "Ascend310"),
    (broadcast, "Ascend910A"),
    (wide_rows, "Ascend910B1"),
    (maps, "Ascend310P3"),
    (fractals, "Ascend310P3"),
    (sweeps, "Ascend310"),
    (down, "Ascend910A"),
    (planes, "Ascend310P3"),
    (windows, "Ascend310"),
    (pooled_rows, "Ascend310"),
    (long_reduction, "Ascend310P3"),
    (built_steps, "Ascend310"),
    (copies, "Ascend910B1"),
    (transpose, "Ascend310P3"),
    (padding, "Ascend310"),
    (scalar, "Ascend910A"),
    (blocked_columns, "Ascend310P3"),
    (two_rows, "Ascend910A"),
    (scattered, "Ascend310"),
    (looked_up, "Ascend310"),
    (moved_lookups, "Ascend310"),
    (long_fractals, "Ascend310P3"),
)
