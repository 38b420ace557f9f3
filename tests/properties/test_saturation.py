"""Values on chips whose float16 saturates, against saturation in NumPy: operators, chains, kernels."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ascendsim as asim
from ascendsim import asc
from ascendsim.core.dtypes import SATURATING_FLOAT16, DType
from ascendsim.ops import default_opset
from ascendsim.ops.shared.common import settled
from tests.support.half import ulps
from tests.support.operator_cases import build, few_cases, ports_of_values
from tests.support.saturation import CHIPS, LAST, SPECIAL, cut, step

pytestmark = [pytest.mark.usefixtures("untimed_tiles"), pytest.mark.filterwarnings("ignore::RuntimeWarning")]
Function = Callable[..., Any]

ONE: dict[str, Function] = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Reciprocal": lambda x: 1 / x,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x.astype(np.float64))),
    "Tanh": np.tanh,
    "Floor": np.floor,
    "Sinh": np.sinh,
    "Softplus": lambda x: np.logaddexp(0, x),
    "LeakyRelu": lambda x: np.where(x < 0, np.float32(0.01) * x, x),
    "ThresholdedRelu": lambda x: np.where(x > 1, x, 0),
}
TWO: dict[str, Function] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
}
CURVED = {"Exp", "Log", "Sigmoid", "Tanh", "Sinh", "Softplus"}  # float32 functions, within a step of float16
TRUTH: dict[str, Function] = {
    "IsNaN": np.isnan,
    "IsInf": np.isinf,
    "Greater": np.greater,
    "Equal": np.equal,
}
FOLDS: dict[str, Function] = {
    "ReduceSum": np.sum,
    "ReduceMean": np.mean,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSumSquare": lambda x, **more: np.sum(x * x, **more),
    "ReduceL1": lambda x, **more: np.sum(np.abs(x), **more),
    "ReduceL2": lambda x, **more: np.sqrt(np.sum(x * x, **more)),
    "ReduceLogSumExp": lambda x, axis: np.logaddexp.reduce(x, axis=axis),
}


def ran(chip: str, graph: asim.Graph, inputs: dict[str, Any], **options: Any) -> dict[str, Any]:
    values = options.pop("values", "device")
    result = asim.run(asim.compile(graph, chip, **options), inputs, values=values)
    return dict(result.outputs)


def pairs() -> tuple[Any, Any]:
    """All pairs of special numbers."""
    left, right = np.meshgrid(SPECIAL, SPECIAL, indexing="ij")
    return np.ascontiguousarray(left), np.ascontiguousarray(right)


def is_near(found: Any, wanted: Any, steps: int) -> bool:
    narrow = np.asarray(found, np.float32).astype(np.float16)
    return bool(ulps(narrow, np.asarray(wanted, np.float32).astype(np.float16)).max(initial=0) <= steps)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("fusion", ["off", "all"])
def test_elementwise_operators(chip: str, fusion: str) -> None:
    """Each of a special number or two, all in one network, whose inputs have not been cut."""
    a, b = pairs()
    wanted = {name: step(function, a) for name, function in ONE.items()}
    wanted |= {name: step(function, a, b) for name, function in TWO.items()}
    builder = asim.GraphBuilder("elementwise")
    x, y = builder.input("x", a.shape), builder.input("y", b.shape)
    for name in wanted:
        builder.output(builder.op(name, *((x, y) if name in TWO else (x,)), name=name.lower()), name)
    for name in TRUTH:
        operands = (x, y) if name in ("Greater", "Equal") else (x,)
        builder.output(builder.op(name, *operands, name=name.lower()), name)
    found = ran(chip, builder.build(), {"x": a, "y": b}, fusion=fusion)
    for name, values in wanted.items():
        assert is_near(found[name], values, 1 if name in CURVED else 0), name
        assert np.isfinite(found[name]).all(), name
    for name, function in TRUTH.items():
        both = (cut(a), cut(b)) if name in ("Greater", "Equal") else (cut(a),)
        np.testing.assert_array_equal(found[name], function(*both), err_msg=name)


@settings(max_examples=20)
@given(
    st.lists(st.sampled_from(["Abs", "Neg", "Relu", "Sqrt", *TWO]), min_size=2, max_size=6),
    st.integers(0, 99),
)
def test_chains_saturate_at_every_operator(names: list[str], seed: int) -> None:
    """As one task and as several: x * x / 1024 of 400 is 63.97, not 156.25."""
    random = np.random.default_rng(seed)
    size = 3 * len(SPECIAL)
    arrays = {"x": np.resize(SPECIAL, size)} | {
        f"c{number}": random.permutation(np.resize(SPECIAL, size)) for number in range(len(names))
    }
    builder = asim.GraphBuilder("chain")
    given_ = {name: builder.input(name, (size,)) for name in arrays}
    last, wanted = given_["x"], cut(arrays["x"])
    for number, name in enumerate(names):
        other = f"c{number}"
        last = builder.op(name, *((last, given_[other]) if name in TWO else (last,)))
        wanted = step(TWO[name], wanted, arrays[other]) if name in TWO else step(ONE[name], wanted)
    builder.output(last, "out")
    graph = builder.build()
    for fusion in ("off", "all"):
        found = ran("Ascend310P3", graph, arrays, fusion=fusion)["out"]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("chip", CHIPS)
def test_reductions(chip: str) -> None:
    random = np.random.default_rng(1)
    x = random.choice(SPECIAL, (12, 40)).astype(np.float32)
    x[0], x[1], x[2] = 65504, -2000, np.resize([3e4, -3e4, 1], 40)
    builder = asim.GraphBuilder("folds")
    tensor = builder.input("x", x.shape)
    for name in FOLDS:
        builder.output(builder.op(name, tensor, np.array([1], np.int64), name=name.lower(), keepdims=0), name)
    found = ran(chip, builder.build(), {"x": x}, fusion="off")
    for name, function in FOLDS.items():
        wide = cut(x).astype(np.float64)
        wanted = cut(function(wide, axis=1))
        np.testing.assert_allclose(found[name], wanted, rtol=2e-3, atol=1e-3, err_msg=name)
        ends = np.abs(wanted) == LAST
        np.testing.assert_array_equal(found[name][ends], wanted[ends], err_msg=name)


@pytest.mark.parametrize(
    ("chip", "values", "mode"),
    [
        *((chip, "device", None) for chip in CHIPS),
        ("Ascend910B1", "device", False),
        ("Ascend910B1", "tile", False),
    ],
)
def test_products_round_once_at_their_end(chip: str, values: str, mode: bool | None) -> None:
    """Sums are float32: terms beyond float16 that cancel leave no trace."""
    a = np.zeros((16, 32), np.float32)
    a[0, :2], a[1, :2], a[2, :2], a[3, 0], a[4] = (
        (30000, 30000),
        (30000, -30000),
        (-40000, -40000),
        np.inf,
        np.nan,
    )
    b = np.zeros((32, 16), np.float32)
    b[:2] = 100
    b[0, 1] = 1e6
    builder = asim.GraphBuilder("product")
    builder.output(builder.op("MatMul", builder.input("a", a.shape), builder.input("b", b.shape)), "y")
    found = ran(chip, builder.build(), {"a": a, "b": b}, values=values, inf_nan_mode_enable=mode)["y"]
    np.testing.assert_array_equal(found, step(np.matmul, a, b))


@pytest.mark.parametrize("chip", CHIPS)
def test_convolutions_and_softmax(chip: str) -> None:
    random = np.random.default_rng(2)
    x = random.choice(SPECIAL, (1, 16, 6, 6)).astype(np.float32)
    w = random.integers(-9, 9, (16, 16, 1, 1)).astype(np.float32)
    builder = asim.GraphBuilder("conv")
    tensor = builder.input("x", x.shape)
    builder.output(builder.op("Conv", tensor, w, name="conv"), "conv")
    for number, mask in enumerate((-np.inf, -1e9, -65504)):
        masked = builder.op("Add", tensor, np.float32(mask), name=f"mask{number}")
        builder.output(builder.op("Softmax", masked, axis=-1, name=f"softmax{number}"), f"masked{number}")
    found = ran(chip, builder.build(), {"x": x})
    wanted = step(lambda a, f: np.einsum("nchw,fc->nfhw", a.astype(np.float64), f[:, :, 0, 0]), x, w)
    assert is_near(found["conv"], wanted, 1)
    for number, mask in enumerate((-np.inf, -1e9, -65504)):
        scores = step(np.add, x, np.float32(mask)).astype(np.float64)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        # scores that were cut are equal: a row of them is shared evenly, where IEEE 754 has NaN
        np.testing.assert_allclose(
            found[f"masked{number}"], powers / powers.sum(axis=-1, keepdims=True), atol=2e-3
        )


# operators that round on their way, whose results are no float16, or whose numbers say sizes
_OTHER = frozenset(
    (
        *(
            "Cast",
            "CastLike",
            "BitCast",
            "RNN",
            "GRU",
            "LSTM",
            "Unique",
            "MatMulNBits",
            "WeightQuantBatchMatmulV2",
        ),
        *("LogSoftmax", "Softmax", "UnsortedSegmentMax", "UnsortedSegmentMin", "split_qkv_rmsnorm_rope"),
        *(
            "FlashAttentionScore",
            "FlashAttentionScoreGrad",
            "FusedInferAttentionScore",
            "IncreFlashAttention",
        ),
        *(
            "PromptFlashAttention",
            "AddRmsNorm",
            "AddRmsNormBias",
            "AddRmsNormQuant",
            "AddRmsNormDynamicQuant",
        ),
        *("RmsNormQuant", "RmsNormDynamicQuant", "MelWeightMatrix"),
    )
)


def test_every_operator_ends_where_float16_ends() -> None:
    """Whatever an operator makes of large numbers: as in float32, cut, so that nothing is infinite or NaN."""
    seen, saturated = 0, set()
    for case in few_cases():
        if case.op_type in _OTHER:
            continue
        node, steering = build(case), ports_of_values(case)
        narrow = [
            cut(array * np.float32(3000)).astype(np.float16)
            if port not in steering and array is not None and array.dtype in (np.float16, np.float32)
            else array
            for port, array in enumerate(case.inputs)
        ]
        wide = [
            array.astype(np.float32)
            if port not in steering and array is not None and array.dtype == np.float16
            else array
            for port, array in enumerate(narrow)
        ]
        types = [tensor.element_type.numpy for tensor in node.outputs]
        wanted = [SATURATING_FLOAT16 if dtype in (np.float16, np.float32) else dtype for dtype in types]
        single = [np.dtype(np.float32) if dtype == np.float16 else dtype for dtype in types]
        compute = default_opset().get(node).compute
        try:
            with np.errstate(all="ignore"):
                made, exact = compute(node, narrow, wanted), compute(node, wide, single)
        except asim.GraphError:  # places and sizes that the factor has led out of the tensor
            continue
        for array, reference, dtype in zip(made, exact, wanted, strict=True):
            if array is None or dtype != np.float16:
                continue
            found, seen = settled(np.asarray(array), dtype), seen + 1
            assert found.dtype.metadata is None
            assert np.isfinite(found).all(), case.name
            ends = ~(np.abs(np.asarray(reference)) < 65520)
            np.testing.assert_array_equal(found[ends], cut(reference)[ends], err_msg=case.name)
            saturated |= {case.op_type} if ends.any() else set()
    assert seen > 500
    assert len(saturated) > 100


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910A"])
def test_values_tile_by_tile(chip: str) -> None:
    """The blocks of elementwise tasks, alone and fused, on what the vector unit loads and stores."""
    a, b = (np.tile(array, (2, 2)) for array in pairs())
    builder = asim.GraphBuilder("tiles")
    x, y = builder.input("x", a.shape), builder.input("y", b.shape)
    builder.output(builder.op("Relu", builder.op("Add", builder.op("Mul", x, y), y)), "z")
    for fusion in ("off", "all"):
        found = ran(chip, builder.build(), {"x": a, "y": b}, values="tile", fusion=fusion)["z"]
        wanted = step(ONE["Relu"], step(np.add, step(np.multiply, a, b), b))
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("chip", CHIPS)
def test_casts_and_constants(chip: str) -> None:
    builder = asim.GraphBuilder("casts")
    x, n = builder.input("x", SPECIAL.shape), builder.input("n", (5,), DType.INT32)
    h = builder.input("h", SPECIAL.shape, DType.FLOAT16)
    builder.output(builder.op("Identity", x), "same")
    builder.output(builder.op("Cast", builder.op("Add", x, x), to=DType.FLOAT16), "narrow")
    builder.output(builder.op("Cast", n, to=DType.FLOAT16), "numbers")
    builder.output(builder.op("Cast", h, to=DType.FLOAT32), "wide")
    builder.output(builder.op("Cast", h, to=DType.INT32), "whole")
    builder.output(builder.op("Mul", h, builder.op("Exp", np.full(1, 12, np.float16))), "folded")
    numbers = np.array([1, -70000, 65520, 65519, 1 << 30], np.int32)
    inputs = {"x": SPECIAL, "n": numbers, "h": SPECIAL.astype(np.float16)}
    found = ran(chip, builder.build(), inputs)
    np.testing.assert_array_equal(found["same"], cut(SPECIAL))
    np.testing.assert_array_equal(found["narrow"], step(np.add, SPECIAL, SPECIAL))
    np.testing.assert_array_equal(found["numbers"], cut(numbers))
    np.testing.assert_array_equal(found["wide"], cut(inputs["h"]))
    np.testing.assert_array_equal(found["whole"], cut(inputs["h"]).astype(np.int32))
    np.testing.assert_array_equal(found["folded"], step(np.multiply, inputs["h"], np.float32(LAST)))


def test_chips_with_both_modes() -> None:
    a, b = pairs()
    builder = asim.GraphBuilder("both")
    builder.output(builder.op("Mul", builder.input("x", a.shape), builder.input("y", b.shape)), "out")
    graph, inputs = builder.build(), {"x": a, "y": b}
    with np.errstate(all="ignore"):
        plain = (a.astype(np.float16) * b.astype(np.float16)).astype(np.float32)
    for chip in ("Ascend910B3", "Ascend910_9391"):
        for mode, wanted in ((None, plain), (True, plain), (False, step(np.multiply, a, b))):
            found = ran(chip, graph, inputs, inf_nan_mode_enable=mode)["out"]
            np.testing.assert_array_equal(found, wanted, err_msg=f"{chip} {mode}")
    for chip, mode in (*((chip, True) for chip in CHIPS), ("Ascend910_95", False)):
        with pytest.raises(
            asim.InputError, match=f"must be {int(not mode)} on {chip}, which has the .* only"
        ) as error:
            asim.compile(graph, chip, inf_nan_mode_enable=mode)
        assert "\n" not in str(error.value)


def test_the_models_own_types_are_those_of_ieee_754() -> None:
    """Conformance is asked of the model, float32 of no chip saturates here."""
    builder = asim.GraphBuilder("own")
    x = builder.input("x", SPECIAL.shape)
    builder.output(builder.op("Mul", x, x), "y")
    graph, inputs = builder.build(), {"x": SPECIAL}
    with np.errstate(all="ignore"):
        wanted = SPECIAL * SPECIAL
    for found in (
        ran("Ascend310P3", graph, inputs, values="float32"),
        ran("Ascend310P3", graph, inputs, precision_mode="must_keep_origin_dtype"),
    ):
        np.testing.assert_array_equal(found["y"], wanted)


@asc.jit
def _kernel(
    x: asc.GlobalAddress, y: asc.GlobalAddress, wide: asc.GlobalAddress, out: asc.GlobalAddress, n: int
):
    x_gm, y_gm, wide_gm, out_gm = (asc.GlobalTensor() for _ in range(4))
    for gm, address in ((x_gm, x), (y_gm, y), (wide_gm, wide), (out_gm, out)):
        gm.set_global_buffer(address, 8 * n)
    pipe = asc.TPipe()
    halves, singles = asc.TBuf(asc.TPosition.VECCALC), asc.TBuf(asc.TPosition.VECCALC)
    pipe.init_buffer(halves, 8 * n * 2)
    pipe.init_buffer(singles, n * 4)
    room, single = halves.get(asc.float16), singles.get(asc.float32)
    a, b = room[0:], room[n:]
    asc.data_copy(a, x_gm, n)
    asc.data_copy(b, y_gm, n)
    asc.data_copy(single, wide_gm, n)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.mul(room[2 * n :], a, b, n)
    asc.div(room[3 * n :], a, b, n)
    asc.exp(room[4 * n :], a, n)
    asc.sqrt(room[5 * n :], b, n)
    asc.cast(room[6 * n :], single, asc.RoundMode.CAST_NONE, n)
    asc.adds(room[7 * n :], a, 60000.0, n)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(out_gm, room, 8 * n)


@pytest.mark.parametrize(
    ("chip", "mode"), [("Ascend910A", None), ("Ascend310P3", None), ("Ascend910B1", False)]
)
def test_kernels_of_ones_own(chip: str, mode: bool | None) -> None:
    a, b = (array.reshape(-1)[:512] for array in pairs())
    x, y, wide = a.astype(np.float16), b.astype(np.float16), (a * 3).astype(np.float32)
    out = np.zeros(8 * 512, np.float16)
    asim.run_kernel(_kernel, 1, x, y, wide, out, 512, soc=chip, inf_nan_mode_enable=mode)
    parts = out.reshape(8, 512)[2:].astype(np.float32)
    wanted = (
        step(np.multiply, x, y),
        step(np.divide, x, y),
        step(np.exp, x),
        step(np.sqrt, y),
        cut(wide),
        step(lambda v: v + np.float32(60000), x),
    )
    for number, (found, values) in enumerate(zip(parts, wanted, strict=True)):
        assert is_near(found, values, 1), number
        assert np.isfinite(found).all()


def test_kernels_where_nothing_saturates() -> None:
    x = np.full(512, 400, np.float16)
    out = np.zeros(8 * 512, np.float16)
    asim.run_kernel(_kernel, 1, x, x, x.astype(np.float32), out, 512, soc="Ascend910B1")
    assert math.isinf(out[2 * 512])
    with pytest.raises(asim.InputError, match="must be 0 on Ascend310P3"):
        asim.run_kernel(
            _kernel, 1, x, x, x.astype(np.float32), out, 512, soc="Ascend310P3", inf_nan_mode_enable=True
        )


def test_the_same_network_has_one_set_of_numbers_for_each_mode() -> None:
    """Runs of a chip with both modes do not disturb each other: constants are converted for each."""
    weight = np.array([np.inf, np.nan, 1e6, 2], np.float16)
    builder = asim.GraphBuilder("constants")
    builder.output(builder.op("Add", builder.input("x", (4,), DType.FLOAT16), weight), "y")
    graph, inputs = builder.build(), {"x": np.zeros(4, np.float16)}
    for _ in range(2):
        for mode in (False, True):
            found = ran("Ascend910B3", graph, inputs, inf_nan_mode_enable=mode)["y"]
            np.testing.assert_array_equal(found, weight if mode else cut(weight).astype(np.float16))
    assert zlib.crc32(weight.tobytes()) == zlib.crc32(
        np.array([np.inf, np.nan, 1e6, 2], np.float16).tobytes()
    )
