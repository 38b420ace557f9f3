"""Vector instructions of kernels against NumPy: counts, masks, repeats and strides."""

import ml_dtypes
import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from tests.support.asc_kernels import applied, softmax
from tests.support.gate import in_one

RANDOM = np.random.default_rng(11)
FLOATS, INTEGERS = ("float16", "float32"), ("int16", "int32")


def values(dtype, count=500, low=-50, high=50):
    if np.dtype(dtype).kind == "f":
        return RANDOM.uniform(low, high, count).astype(dtype)
    return RANDOM.integers(low, high, count).astype(dtype)


def relu(x):
    return np.maximum(x, x.dtype.type(0))


EXACT = [
    ("add", FLOATS + INTEGERS, lambda x, y: x + y),
    ("sub", FLOATS + INTEGERS, lambda x, y: x - y),
    ("mul", FLOATS + INTEGERS, lambda x, y: x * y),
    ("max", FLOATS + INTEGERS, np.maximum),
    ("min", FLOATS + INTEGERS, np.minimum),
    ("div", FLOATS, lambda x, y: x / y),
    ("add_relu", FLOATS, lambda x, y: relu(x + y)),
    ("bitwise_and", ("int16", "uint16"), np.bitwise_and),
    ("bitwise_or", ("int16", "uint16"), np.bitwise_or),
    ("abs", FLOATS, np.abs),
    ("relu", (*FLOATS, "int32"), relu),
    ("bitwise_not", ("int16", "uint16"), np.invert),
]


@in_one("name, dtype, wanted", [(n, d, f) for n, ds, f in EXACT for d in ds])
def test_exact_operations_equal_numpy(name, dtype, wanted):
    sources = [values(dtype, low=0 if dtype == "uint16" else -50) for _ in range(wanted_inputs(wanted))]
    found, result = applied(lambda *t: getattr(asc, name)(*t, 500), sources[0], *sources)
    np.testing.assert_array_equal(found, wanted(*sources))
    assert result.findings == ()


def wanted_inputs(function):
    return function.nin if isinstance(function, np.ufunc) else function.__code__.co_argcount


def test_integers_wrap_around_and_nan_stays():
    x = np.full(32, 30000, np.int16)
    found, _ = applied(lambda d, a, b: asc.add(d, a, b, 32), x, x, x)
    assert (found == 60000 - 65536).all()
    x, y = np.full(32, np.nan, np.float32), np.zeros(32, np.float32)
    for name in ("max", "min"):
        found, _ = applied(lambda d, a, b, name=name: getattr(asc, name)(d, a, b, 32), y, y, x)
        assert np.isnan(found).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("exp", np.exp),
        ("ln", np.log),
        ("sqrt", np.sqrt),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("reciprocal", lambda x: 1 / x),
    ],
)
def test_functions_are_as_exact_as_those_of_operators(name, dtype, wanted):
    x = values(dtype, low=0.1, high=9)
    found, _ = applied(lambda dst, src: getattr(asc, name)(dst, src, 500), x, x)
    exact = wanted(x.astype(np.float64))
    unit = np.spacing(np.abs(exact).astype(dtype)).astype(np.float64)
    assert (np.abs(found - exact) <= 2 * unit).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("adds", lambda x, s: x + s),
        ("muls", lambda x, s: x * s),
        ("maxs", np.maximum),
        ("mins", np.minimum),
    ],
)
def test_scalars(name, dtype, wanted):
    x, scalar = values(dtype), np.dtype(dtype).type(3)
    found, _ = applied(lambda dst, src: getattr(asc, name)(dst, src, 3, 500), x, x)
    np.testing.assert_array_equal(found, wanted(x, scalar))


def test_a_scalar_takes_the_type_of_the_tensor_first():
    x = np.ones(64, np.float16)
    found, _ = applied(lambda dst, src: asc.muls(dst, src, 0.1, 64), x, x)
    assert found[0] == np.float16(0.1)


def test_leaky_relu_shifts_and_duplicate():
    x = values("float32")
    found, _ = applied(lambda dst, src: asc.leaky_relu(dst, src, 0.5, 500), x, x)
    np.testing.assert_array_equal(found, np.where(x >= 0, x, x * np.float32(0.5)))
    n = values("int32", low=-4000, high=4000)
    found, _ = applied(lambda dst, src: asc.shift_left(dst, src, 3, 500), n, n)
    np.testing.assert_array_equal(found, n << 3)
    found, _ = applied(lambda dst, src: asc.shift_right(dst, src, 3, 500), n, n)
    np.testing.assert_array_equal(found, n >> 3)
    found, _ = applied(lambda dst: asc.duplicate(dst, 7, 500), n)
    assert (found == 7).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_instructions_that_add_to_their_target_round_once(dtype):
    x, y, z = (values(dtype) for _ in range(3))
    wide = [array.astype(np.float64) for array in (x, y, z)]
    found, _ = applied(lambda dst, src: asc.axpy(dst, src, 2.5, 500), z, x)
    np.testing.assert_array_equal(found, (wide[0] * 2.5 + wide[2]).astype(np.float32).astype(dtype))
    found, _ = applied(lambda dst, a, b: asc.mul_add_dst(dst, a, b, 500), z, x, y)
    np.testing.assert_array_equal(found, (wide[0] * wide[1] + wide[2]).astype(np.float32).astype(dtype))
    found, _ = applied(lambda dst, a, b: asc.fused_mul_add(dst, a, b, 500), z, x, y)
    np.testing.assert_array_equal(found, (wide[0] * wide[2] + wide[1]).astype(np.float32).astype(dtype))


def lanes_written(count, mask, strides, each=8, blocks=8):
    """Element numbers that repeats touch, in order: what Ascend C's strides say, written out."""
    block, between = strides
    for repeat in range(count):
        for lane in range(each * blocks):
            if mask >> lane & 1:
                yield repeat * between * each + lane // each * block * each + lane % each


@pytest.mark.parametrize("mask", [64, 37, 5, [0x00FF00FF12345678, 0]])
@pytest.mark.parametrize(
    "params",
    [(1, 1, 1, 8, 8, 8), (1, 1, 0, 8, 8, 0), (2, 1, 1, 16, 8, 8), (1, 2, 1, 8, 16, 8), (1, 1, 1, 8, 4, 2)],
)
def test_masks_and_strides(mask, params):
    x, y, z = (values("float32", 1024) for _ in range(3))
    found, result = applied(
        lambda dst, a, b: asc.add(dst, a, b, mask, 4, asc.BinaryRepeatParams(*params)), z, x, y
    )
    bits = mask[0] if isinstance(mask, list) else (1 << mask) - 1
    wanted = z.copy()
    strides = [(params[i], params[i + 3]) for i in range(3)]
    places = [list(lanes_written(4, bits, pair)) for pair in strides]
    for to, first, second in zip(*places, strict=True):
        wanted[to] = x[first] + y[second]
    np.testing.assert_array_equal(found, wanted)
    assert result.findings == ()


@pytest.mark.parametrize("lanes", [range(128), range(70), range(16, 128), range(16, 64), range(64, 128), ()])
def test_masks_of_two_words(lanes):
    """Blocks of 16 lanes that a mask has as a whole go another way than those of which it has a part."""
    wanted_lanes = sorted({*lanes, 3, 127})
    bits = sum(1 << lane for lane in wanted_lanes)
    x, y, z = (values("float16", 256) for _ in range(3))
    mask, params = [bits & 2**64 - 1, bits >> 64], asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8)
    found, _ = applied(lambda dst, a, b: asc.add(dst, a, b, mask, 2, params), z, x, y)
    wanted = z.copy()
    for start in (0, 128):
        at = [start + lane for lane in wanted_lanes]
        wanted[at] = x[at] + y[at]
    np.testing.assert_array_equal(found, wanted)


def test_repeats_onto_one_place_add_up():
    """A target that stays where it is takes the result of each repeat before the next one reads it."""
    x, z = values("float32", 64 * 5), np.zeros(64, np.float32)
    found, _ = applied(
        lambda dst, src: asc.add(dst, dst, src, 64, 5, asc.BinaryRepeatParams(1, 1, 1, 0, 0, 8)), z, x
    )
    wanted = z
    for row in x.reshape(5, 64):
        wanted = wanted + row
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("of", "to"),
    [
        ("float16", "float32"),
        ("float32", "float16"),
        ("float32", "bfloat16"),
        ("bfloat16", "float32"),
        ("int32", "float32"),
        ("int16", "float16"),
        ("float16", "int16"),
        ("float32", "int32"),
    ],
)
def test_casts_to_the_nearest_equal_numpy(of, to):
    kinds = {name: ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name) for name in (of, to)}
    x = RANDOM.uniform(-3000, 3000, 500).astype(np.float32).astype(kinds[of])
    z = np.zeros(500, kinds[to])
    found, _ = applied(lambda dst, src: asc.cast(dst, src, asc.RoundMode.CAST_RINT, 500), z, x)
    wanted = np.rint(x.astype(np.float64)) if to.startswith("int") else x
    np.testing.assert_array_equal(found, wanted.astype(kinds[to]))


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [
        ("CAST_FLOOR", [-3, -2, -1, 0, 0, 1, 2, 2]),
        ("CAST_CEIL", [-2, -1, 0, 0, 1, 2, 3, 3]),
        ("CAST_TRUNC", [-2, -1, 0, 0, 0, 1, 2, 2]),
        ("CAST_ROUND", [-3, -2, -1, 0, 1, 2, 3, 2]),
        ("CAST_RINT", [-2, -2, 0, 0, 0, 2, 2, 2]),
    ],
)
def test_modes_of_rounding(mode, wanted):
    x = np.array([-2.5, -1.5, -0.5, 0, 0.5, 1.5, 2.5, 2.25], np.float32)
    z = np.zeros(8, np.int32)
    found, _ = applied(lambda dst, src: asc.cast(dst, src, asc.RoundMode[mode], 8), z, x)
    assert found.tolist() == wanted


def test_integers_keep_within_their_range():
    x = np.array([np.inf, -np.inf, 300, -300, np.nan, 5, 6, 7] * 8, np.float16)
    z = np.zeros(64, np.int8)
    found, _ = applied(lambda dst, src: asc.cast(dst, src, asc.RoundMode.CAST_RINT, 64), z, x)
    assert found[:8].tolist() == [127, -128, 127, -128, 0, 5, 6, 7]


@pytest.mark.parametrize("count", [64, 100, 4096, 64 * 70 + 3])
def test_reductions_of_any_length(count):
    x = values("float32", count)
    z, room = np.zeros(8, np.float32), np.zeros(count, np.float32)
    for name, wanted in (("max", x.max()), ("min", x.min()), ("sum", None)):
        found, result = applied(
            lambda dst, src, tmp, name=name: getattr(asc, f"reduce_{name}")(dst, src, tmp, count), z, x, room
        )
        if wanted is not None:
            assert found[0] == wanted
        else:
            assert abs(found[0] - x.sum(dtype=np.float64)) <= 1e-6 * np.abs(x).sum(dtype=np.float64)
        assert result.findings == ()


def test_whole_reduce_gives_values_and_indices():
    x = values("float32", 256)
    x[200] = x[210] = 99  # the first of equal ones counts
    z = np.zeros(8, np.float32)
    found, _ = applied(lambda dst, src: asc.whole_reduce_max(dst, src, 64, 4, 1, 1, 8), z, x)
    rows = x.reshape(4, 64)
    np.testing.assert_array_equal(found[::2], rows.max(1))
    np.testing.assert_array_equal(found[1::2].view(np.int32), rows.argmax(1))
    only = asc.ReduceOrder.ORDER_ONLY_VALUE
    found, _ = applied(lambda dst, src: asc.whole_reduce_min(dst, src, 40, 4, 2, 1, 8, only), z, x)
    np.testing.assert_array_equal(found[::2], rows[:, :40].min(1))
    assert not found[1::2].any()


@pytest.mark.parametrize("count", [40, 3000])
def test_reductions_with_an_index(count):
    x = values("float32", count).round()
    z, room = np.zeros(8, np.float32), np.zeros(256, np.float32)
    for name, wanted in (("max", np.argmax), ("min", np.argmin)):
        found, result = applied(
            lambda d, s, t, name=name: getattr(asc, f"reduce_{name}")(d, s, t, count, cal_index=True),
            z,
            x,
            room,
        )
        assert found[0] == x[wanted(x)]
        assert found.view(np.int32)[1] == wanted(x)
        assert result.findings == ()


@pytest.mark.parametrize("dtype", FLOATS)
def test_block_and_pair_reductions(dtype):
    x = values(dtype, 512, -8, 8).round()
    each = 32 // x.itemsize
    z = np.zeros(512 // each, dtype)
    times = 512 * x.itemsize // 256
    found, _ = applied(lambda d, s: asc.block_reduce_sum(d, s, times, 256 // s.dtype.sizeof(), 1, 1, 8), z, x)
    np.testing.assert_array_equal(found, x.reshape(-1, each).sum(1))
    found, _ = applied(lambda d, s: asc.block_reduce_max(d, s, times, 256 // s.dtype.sizeof(), 1, 1, 8), z, x)
    np.testing.assert_array_equal(found, x.reshape(-1, each).max(1))
    z = np.zeros(256, dtype)
    found, _ = applied(lambda d, s: asc.pair_reduce_sum(d, s, times, 256 // s.dtype.sizeof(), 1, 1, 8), z, x)
    np.testing.assert_array_equal(found, x.reshape(-1, 2).sum(1))


@pytest.mark.parametrize("mode", list(asc.CMPMODE))
@pytest.mark.parametrize("dtype", FLOATS)
def test_comparisons_and_selections(mode, dtype):
    x, y = (values(dtype, 512, 0, 4).round() for _ in range(2))
    relation = {"LT": x < y, "GT": x > y, "EQ": x == y, "LE": x <= y, "GE": x >= y, "NE": x != y}[mode.name]
    bits = np.zeros(64, np.uint8)
    found, _ = applied(lambda dst, a, b: asc.compare(dst, a, b, mode, 512), bits, x, y)
    np.testing.assert_array_equal(np.unpackbits(found, bitorder="little"), relation)
    lanes = 256 // x.itemsize
    params = asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8)
    found, _ = applied(lambda d, a, b: asc.compare(d, a, b, mode, lanes, 512 // lanes, params), bits, x, y)
    np.testing.assert_array_equal(np.unpackbits(found, bitorder="little"), relation)
    against = {"LT": x < 2, "GT": x > 2, "EQ": x == 2, "LE": x <= 2, "GE": x >= 2, "NE": x != 2}[mode.name]
    found, _ = applied(lambda dst, a: asc.compare_scalar(dst, a, 2, mode, 512), bits, x)
    np.testing.assert_array_equal(np.unpackbits(found, bitorder="little"), against)
    mask = np.packbits(relation, bitorder="little")
    both, one = asc.SelMode.VSEL_TENSOR_TENSOR_MODE, asc.SelMode.VSEL_TENSOR_SCALAR_MODE
    found, _ = applied(lambda dst, m, a, b: asc.select(dst, m, a, b, both, 512), x, mask, x, y)
    np.testing.assert_array_equal(found, np.where(relation, x, y))
    found, _ = applied(lambda dst, m, a: asc.select(dst, m, a, -1.0, one, 512), x, mask, x)
    np.testing.assert_array_equal(found, np.where(relation, x, np.dtype(dtype).type(-1)))


def test_brcb_and_gather():
    x = values("float32", 16)
    z = np.zeros(128, np.float32)
    found, _ = applied(lambda d, s: asc.brcb(d, s, 2, asc.BrcbRepeatParams(1, 8)), z, x)
    np.testing.assert_array_equal(found, np.repeat(x, 8))
    table, order = values("float16", 256), RANDOM.permutation(256).astype(np.uint32)
    z = np.zeros(256, np.float16)
    found, _ = applied(lambda d, s, o: asc.gather(d, s, o, 0, 256), z, table, order * 2)
    np.testing.assert_array_equal(found, table[order])
    found, _ = applied(
        lambda d, s, o: asc.gather(d, s, o, 64, 224), z, table, np.arange(256, dtype=np.uint32) * 2
    )
    np.testing.assert_array_equal(found[:224], table[32:])


def test_transpositions():
    x = values("float16", 256)
    found, _ = applied(asc.transpose, x, x)
    np.testing.assert_array_equal(found.reshape(16, 16), x.reshape(16, 16).T)

    def rows(dst, src):
        each = 32 // src.dtype.sizeof()
        params = asc.TransDataTo5HDParams(False, False, 2, 16, 16)
        asc.trans_data_to_5hd([dst[i * each] for i in range(16)], [src[i * each] for i in range(16)], params)

    x = values("int16", 512)
    found, _ = applied(rows, x, x)
    np.testing.assert_array_equal(found.reshape(2, 16, 16), x.reshape(2, 16, 16).transpose(0, 2, 1))
    x = values("float32", 256)
    found, _ = applied(rows, x, x)
    np.testing.assert_array_equal(found.reshape(2, 8, 16), x.reshape(2, 16, 8).transpose(0, 2, 1))


def test_orders_of_axes():
    x, room = values("float16", 2 * 16 * 4 * 4), np.zeros(4096, np.uint8)

    def change(kind):
        return lambda d, s, t: asc.transpose(
            d, s, t, asc.TransposeParamsExt(2, 16, 4, 4, asc.TransposeType[kind])
        )

    found, _ = applied(change("TRANSPOSE_NCHW2NHWC"), x, x, room)
    np.testing.assert_array_equal(found.reshape(2, 4, 4, 16), x.reshape(2, 16, 4, 4).transpose(0, 2, 3, 1))
    back, _ = applied(change("TRANSPOSE_NHWC2NCHW"), x, found, room)
    np.testing.assert_array_equal(back, x)


def test_a_mask_of_all_ones_is_all_lanes_of_any_type():
    x, z = values("float32", 64), np.zeros(64, np.float32)
    full = [2**64 - 1, 2**64 - 1]
    found, _ = applied(lambda d, s: asc.abs(d, s, full, 1, asc.UnaryRepeatParams()), z, x)
    np.testing.assert_array_equal(found, np.abs(x))


def test_copy_with_strides():
    x = np.arange(256, dtype=np.float32)
    z = np.zeros(256, np.float32)
    found, _ = applied(lambda d, s: asc.copy(d, s, 16, 4, asc.CopyRepeatParams(1, 2, 8, 4)), z, x)
    wanted = np.zeros((4, 64), np.float32)
    for repeat in range(4):
        wanted[repeat, :8] = x[repeat * 32 : repeat * 32 + 8]
        wanted[repeat, 8:16] = x[repeat * 32 + 16 : repeat * 32 + 24]
    np.testing.assert_array_equal(found, wanted.reshape(-1))


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910B4"])
def test_softmax_of_rows(soc):
    x = RANDOM.standard_normal((16, 1024)).astype(np.float32) * 3
    y = np.zeros_like(x)
    result = asim.run_kernel(softmax, 4, x, y, 4, 1024, soc=soc)
    exact = np.exp(x - x.max(1, keepdims=True).astype(np.float64))
    exact /= exact.sum(1, keepdims=True)
    np.testing.assert_allclose(y, exact, rtol=3e-6)
    assert result.findings == ()  # lanes 1..7 of `red` are garbage, and stay inside
    assert result.pipes()["V"] > 0
