"""Arithmetic and mathematical operators: values in every type, integer semantics, lowering."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.ops import default_opset
from ascendsim.opset.work import AiCpuWork, LowerContext, VectorWork
from tests.support.half import emulate, every_half, ulps
from tests.support.single_node import infer, make_node, run, with_onnxruntime

UNARY = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Sqrt": np.sqrt,
    "Reciprocal": np.reciprocal,
    "Exp": np.exp,
    "Log": np.log,
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Round": np.rint,
    "Sign": np.sign,
    "Erf": special.erf,
    "Sin": np.sin,
    "Cos": np.cos,
    "Tan": np.tan,
    "Asin": np.arcsin,
    "Acos": np.arccos,
    "Atan": np.arctan,
    "Sinh": np.sinh,
    "Cosh": np.cosh,
    "Asinh": np.arcsinh,
    "Acosh": np.arccosh,
    "Atanh": np.arctanh,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_float16_rounds_once(name: str) -> None:
    x = every_half()
    assert ulps(run(name, [x])[0], emulate(UNARY[name], x)).max() <= 1


@pytest.mark.parametrize("name", UNARY)
def test_unary_float32_and_float64(name: str) -> None:
    x = np.linspace(-0.9, 0.9, 19) + (2 if name in ("Acosh", "Log", "Sqrt") else 0)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(name, [x])[0], UNARY[name](x), rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(
            run(name, [x.astype(np.float32)])[0],
            UNARY[name](x.astype(np.float32).astype(float)),
            rtol=1e-6,
            atol=1e-7,
        )


def test_bfloat16_goes_through_float32() -> None:
    x = np.array([0.1, -3.25, 100.0, 1e30], ml_dtypes.bfloat16)
    for name in ("Exp", "Erf", "Neg"):
        with np.errstate(all="ignore"):
            wanted = UNARY[name](x.astype(np.float32)).astype(ml_dtypes.bfloat16)
        np.testing.assert_array_equal(run(name, [x])[0].astype(np.float32), wanted.astype(np.float32))
    np.testing.assert_array_equal(
        run("Add", [x, x])[0].astype(np.float32),
        (x.astype(np.float32) * 2).astype(ml_dtypes.bfloat16).astype(np.float32),
    )


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_integer_division_is_cut_off_towards_zero(dtype: Any) -> None:
    a, b = np.array([7, -7, 7, -7, 0, 6], dtype), np.array([2, 2, -2, -2, 5, 3], dtype)
    np.testing.assert_array_equal(run("Div", [a, b])[0], np.array([3, -3, -3, 3, 0, 2], dtype))
    np.testing.assert_array_equal(run("Mod", [a, b])[0], np.array([1, 1, -1, -1, 0, 0], dtype))
    np.testing.assert_array_equal(run("Mod", [a, b], fmod=1)[0], np.array([1, -1, 1, -1, 0, 0], dtype))


def test_integers_wrap_and_never_become_floats() -> None:
    big = np.array([2**62 + 1, -(2**62)], np.int64)
    np.testing.assert_array_equal(run("Add", [big, np.array(1)])[0], big + 1)
    np.testing.assert_array_equal(
        run("Mul", [np.array([200], np.uint8), np.array([2], np.uint8)])[0], np.array([144], np.uint8)
    )


@pytest.mark.parametrize(
    ("base", "exponent"),
    [
        (np.array([1.5, 2, 3], np.float32), np.array(2, np.float32)),
        (np.array([1.5, 2, 3], np.float32), np.array([0.5, -1, 2.5], np.float32)),
        (np.array([1.5, 2, 3], np.float32), np.array([1, 2, 3], np.int64)),
        (np.array([2, 3, -2], np.int32), np.array([3, 2, 1], np.int32)),
        (np.array([2, 3, 4], np.int64), np.array([0.5, 2, 0.5], np.float32)),
        (np.array([-2.0], np.float32), np.array(0.5, np.float32)),
        (np.array([2.0], np.float32), np.array([[1.0], [2.0]], np.float32)),
    ],
)
def test_pow_agrees_with_onnxruntime(base: Any, exponent: Any) -> None:
    np.testing.assert_allclose(
        run("Pow", [base, exponent])[0], with_onnxruntime("Pow", [base, exponent])[0], rtol=1e-6
    )


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0, 1.0, 1.7])
def test_pow_float16_rounds_once(exponent: float) -> None:
    x = every_half()
    found = run("Pow", [x, np.float16(exponent)])[0]
    assert ulps(found, emulate(np.power, x, np.float16(exponent))).max() <= 1


@pytest.mark.parametrize(("name", "function"), [("Max", np.maximum), ("Min", np.minimum), ("Sum", np.add)])
def test_variadic_folds(name: str, function: Any) -> None:
    generator = np.random.default_rng(1)
    a, b, c = (generator.standard_normal(shape).astype(np.float16) for shape in ((3, 1), (4,), (3, 4)))
    wanted = emulate(lambda *v: function(function(v[0], v[1]), v[2]), a, b, c)
    assert ulps(run(name, [a, b, c])[0], wanted).max() <= 1  # float32 inside, whatever the number of inputs
    np.testing.assert_array_equal(run(name, [a])[0], a)
    assert np.isnan(run(name, [np.array([np.nan], np.float32), np.array([1], np.float32)])[0]).all()


def test_mean_of_three() -> None:
    arrays = [np.array([1, 2], np.float32), np.array([3, 4], np.float32), np.array([5, 9], np.float32)]
    np.testing.assert_allclose(run("Mean", arrays)[0], [3, 5])


def test_shapes_with_symbols_and_errors() -> None:
    assert infer("Add", [("n", 3, None), (3, 4)]) == [("n", 3, 4)]
    assert infer("Exp", [None]) == [None]
    with pytest.raises(
        GraphError, match=r"node .*Add.* needs inputs that broadcast, not \(2, 3\) and \(4,\)"
    ):
        infer("Add", [(2, 3), (4,)])


def _lowered(name: str, inputs: list[Any], known: bool = False, **options: Any) -> Any:
    node = make_node(name, inputs, known=known)
    definition = default_opset().get(node)
    assert definition.lower is not None
    return definition.lower(node, LowerContext(options=options))


def test_pow_of_small_constants_is_a_product() -> None:
    x = np.ones((8, 8), np.float16)
    square = _lowered("Pow", [x, np.float16(2)], known=True)
    assert [step.op for step in square.steps] == ["vmul"]
    free = _lowered("Pow", [x, x])
    assert isinstance(free, VectorWork)
    assert {"vln", "vexp"} <= {step.op for step in free.steps}
    assert isinstance(_lowered("Pow", [x, x], aicpu_pow=True), AiCpuWork)


def test_lowering_of_a_channel_bias_and_of_many_inputs() -> None:
    x, bias = np.ones((2, 8, 4, 4), np.float16), np.ones((8, 1, 1), np.float16)
    work = _lowered("Add", [x, bias])
    assert (work.rows, work.cols) == (16, 16)
    assert [stream.over for stream in work.inputs] == ["all", "row"]
    total = _lowered("Sum", [x, x, x, x])
    assert [(step.op, step.count, step.dtype) for step in total.steps] == [("vadd", 3, DType.FLOAT16)]


def test_types_that_the_ai_core_lacks_run_on_the_ai_cpu() -> None:
    longs = [np.ones(4, np.int64), np.ones(4, np.int64)]
    assert isinstance(_lowered("Div", longs), AiCpuWork)
    assert isinstance(_lowered("Exp", [np.ones(4, np.float64)]), AiCpuWork)


# Cycles per element of c220 library functions (cost_models section 6, ATT); instructions are counted at their
# table cost. CANN's Sigmoid writes the ones that it divides first.
TABLE = {"vexp": 2, "vln": 2, "vsqrt": 2, "vdiv": 4}


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("Sigmoid", 0.05, 0.145), ("Tanh", 0.15, 0.20), ("Erf", 0.45, 0.70), ("Sign", 0.12, 0.18)],
)
def test_float32_sequences_cost_what_the_library_functions_cost(name: str, low: float, high: float) -> None:
    work = _lowered(name, [np.ones(64, np.float32)])
    cycles = sum(TABLE.get(step.op, 1) * step.count for step in work.steps) / 64
    assert low <= cycles <= high


def test_every_operator_infers_unknown_dimensions() -> None:
    for name in UNARY:
        assert infer(name, [("n", None, 3)]) == [("n", None, 3)]


def test_powers_of_integers_are_exact_beyond_2_to_the_53() -> None:
    found = run("Pow", [np.full(3, 3, np.int64), np.array([0, 1, 39], np.int64)])[0]
    assert found.tolist() == [1, 3, 3**39]
