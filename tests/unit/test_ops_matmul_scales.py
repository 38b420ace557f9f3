"""Products of quantised matrices with scales of rows, columns and groups: values, refusals, times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.opset.axes import Relation
from tests.support.onnx_models import model, node, value
from tests.support.single_node import make_node

RANDOM = np.random.default_rng(4)
M, K, N = 6, 64, 24


def integers(*shape: int, low: int = -128, high: int = 128) -> Any:
    return RANDOM.integers(low, high, shape).astype(np.int8)


def steps(*shape: int) -> Any:
    return (RANDOM.random(shape) * 0.01 + 0.001).astype(np.float32)


def built(operator: str, x: Any, *inputs: Any, **attributes: Any) -> Graph:
    b = asim.GraphBuilder("product")
    held = b.input("x", x.shape, x.dtype.name)
    b.output(b.op(operator, held, *inputs, domain="ascend", name="p", **attributes), "y")
    return b.build()


def computed(operator: str, x: Any, *inputs: Any, values: Any = "device", **attributes: Any) -> Any:
    model = asim.compile(built(operator, x, *inputs, **attributes), "Ascend910B1")
    return asim.run(model, {"x": x}, values=values).outputs["y"]


# ---- int8 by int8


def test_scales_of_rows_and_columns() -> None:
    a, b, columns, rows = integers(M, K), integers(K, N), steps(N), steps(M)
    sums = a.astype(np.int64) @ b.astype(np.int64)
    bias = RANDOM.integers(-5000, 5000, N).astype(np.int32)
    last = RANDOM.standard_normal(N).astype(np.float32)
    name = "QuantBatchMatmulV3"
    plain = computed(name, a, b, columns, dtype=DType.FLOAT16)
    np.testing.assert_array_equal(plain, (sums * columns).astype(np.float16))
    both = computed(name, a, b, columns, None, bias, rows, dtype=DType.FLOAT16)
    np.testing.assert_allclose(both, (sums + bias) * columns * rows[:, None], rtol=1e-3)
    floats = computed(name, a, b, columns, None, last, rows, dtype=DType.FLOAT16)
    np.testing.assert_allclose(floats, sums * columns * rows[:, None] + last, rtol=2e-3, atol=1e-3)
    whole = computed(name, a, b, np.float32(2e-4), np.float32(5), bias, dtype=DType.INT8)
    np.testing.assert_array_equal(whole, np.clip(np.rint((sums + bias) * np.float32(2e-4) + 5), -128, 127))
    np.testing.assert_array_equal(computed(name, a, b, columns, dtype=DType.INT32), sums)
    turned = computed(name, a.T.copy(), b.T.copy(), columns, transpose_x1=1, transpose_x2=1)
    np.testing.assert_array_equal(turned, plain)


def test_prepared_scales_are_registers() -> None:
    a, b, columns = integers(M, K), integers(K, N), steps(N)
    registers = columns.view(np.uint32).astype(np.uint64)
    one, other = (computed("QuantBatchMatmulV3", a, b, scale) for scale in (columns, registers))
    np.testing.assert_array_equal(one, other)


# ---- floats by weights


def grouped(scale: Any, size: int) -> Any:
    return np.repeat(scale, size, axis=0)


def test_weights_of_8_bits() -> None:
    x, w, columns, offset = steps(M, K), integers(K, N), steps(N), steps(N) * 1000
    bias = RANDOM.standard_normal(N).astype(np.float32)
    name = "WeightQuantBatchMatmulV2"
    got = computed(name, x, w, columns, offset, None, None, bias, values="float32")
    np.testing.assert_allclose(got, x @ ((w + offset) * columns) + bias, rtol=1e-4, atol=1e-6)
    groups = steps(2, N)
    got = computed(name, x, w, groups, antiquant_group_size=32, values="float32")
    np.testing.assert_allclose(got, x @ (w * grouped(groups, 32)), rtol=1e-4, atol=1e-6)
    turned = {"transpose_weight": 1, "antiquant_group_size": 32}
    again = computed(name, x, w.T.copy(), groups.T.copy(), values="float32", **turned)
    np.testing.assert_allclose(again, got, rtol=1e-5)
    whole = computed(name, x, w, columns, None, np.float32(100), np.float32(-3), values="float32")
    exact = x.astype(np.float64) @ (w * columns.astype(np.float64)) * 100 - 3
    assert np.abs(whole - np.clip(np.rint(exact), -128, 127)).max() <= 1
    assert whole.dtype == np.int8


def test_weights_of_4_bits_are_eight_to_an_int32() -> None:
    x, w, groups = steps(M, K), integers(K, N, low=-8, high=8), steps(2, N)
    packed = np.zeros((K, N // 8), np.uint32)
    for place in range(8):  # the first in the lowest bits
        packed |= (w[:, place::8].astype(np.uint32) & 15) << np.uint32(4 * place)
    for flip, weight, scale in ((0, packed, groups), (1, None, groups.T.copy())):
        if weight is None:
            turned = w.T
            weight = np.zeros((N, K // 8), np.uint32)
            for place in range(8):
                weight |= (turned[:, place::8].astype(np.uint32) & 15) << np.uint32(4 * place)
        got = computed(
            "WeightQuantBatchMatmulV2",
            x, weight.view(np.int32), scale,
            values="float32", antiquant_group_size=32, transpose_weight=flip,
        )  # fmt: skip
        np.testing.assert_allclose(got, x @ (w * grouped(groups, 32)), rtol=1e-4, atol=1e-6)


def test_on_the_chip_weights_are_halves() -> None:
    x, w, columns = steps(M, K), integers(K, N), steps(N)
    halves = (w * columns.astype(np.float16).astype(np.float32)).astype(np.float16).astype(np.float32)
    got = computed("WeightQuantBatchMatmulV2", x, w, columns)
    np.testing.assert_allclose(got, x.astype(np.float16).astype(np.float32) @ halves, rtol=3e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        (
            "QuantBatchMatmulV3",
            (integers(K, N), steps(3)),
            {},
            "1 or 24 values as input 2, .* not 3",
        ),
        ("QuantBatchMatmulV3", (integers(9, N), steps(N)), {}, "equal inner dimensions, not 64 and 9"),
        ("QuantBatchMatmulV3", (steps(K, N), steps(N)), {}, "needs int8 as input 1, not float32"),
        ("QuantBatchMatmulV3", (integers(K, N), -steps(N)), {}, "scales above 0 as input 2"),
        ("QuantBatchMatmulV3", (integers(K, N), steps(N), None, None, steps(N)), {}, "6 values as input 5"),
        ("QuantBatchMatmulV3", (integers(K, N), steps(N)), {"dtype": 9}, "can give float16, bfloat16.*not 9"),
        ("WeightQuantBatchMatmulV2", (integers(K, N), steps(N)), {}, "floating-point data, not int8"),
    ],
)
def test_refusals(operator: str, inputs: tuple[Any, ...], attributes: dict[str, int], message: str) -> None:
    with pytest.raises(asim.GraphError, match=message):
        built(operator, integers(M, K), *inputs, **attributes)


def test_refusals_of_groups() -> None:
    x, w = steps(M, K), integers(K, N)
    with pytest.raises(asim.GraphError, match="needs 48 scales as input 2, 2 a column, not 24"):
        built("WeightQuantBatchMatmulV2", x, w, steps(N), antiquant_group_size=32)
    with pytest.raises(asim.GraphError, match="antiquant_group_size from 0 to 64, not 99"):
        built("WeightQuantBatchMatmulV2", x, w, steps(N), antiquant_group_size=99)


# ---- times


def time_us(operator: str, m: int, k: int, n: int, *inputs: Any, **attributes: Any) -> float:
    kind = DType.INT8 if operator.startswith("Quant") else DType.FLOAT16
    b = asim.GraphBuilder("timed", dtype=DType.FLOAT16)
    weight = b.weight("w", (k, n), dtype=DType.INT8 if operator != "MatMul" else DType.FLOAT16)
    domain = "" if operator == "MatMul" else "ascend"
    y = b.op(operator, b.input("x", (m, k), kind), weight, *inputs, domain=domain, name="p", **attributes)
    b.output(y)
    result = asim.simulate(asim.compile(b.build(), "Ascend910B2"))
    return result.trace.us(sum(task.end - task.start for task in result.trace.tasks))


@pytest.mark.parametrize(
    ("m", "k", "n", "rows", "measured_us", "share"),
    [
        (1024, 2048, 2048, False, 31.88, 0.77),
        pytest.param(1024, 3584, 3584, False, 71.28, 0.76, marks=pytest.mark.slow),
        pytest.param(1024, 4096, 4096, False, 95.06, 0.823, marks=pytest.mark.slow),
        (1024, 4096, 11008, True, 242.66, 0.845),
        pytest.param(1024, 4096, 14336, False, 281.65, 0.825, marks=pytest.mark.slow),
        pytest.param(1024, 4096, 14336, True, 329.53, 0.78, marks=pytest.mark.slow),
        (4096, 4096, 4096, False, 287.17, 0.925),
    ],
)
def test_times_fall_short_of_those_measured_by_what_is_known(
    m: int, k: int, n: int, rows: bool, measured_us: float, share: float
) -> None:
    """cann-bench's baseline on 910B2, operands in host order, a single kernel: 8 to 24 % less is simulated,
    the start of the matmul library included.

    What is missing is not known: beyond the Cube's own time those kernels take 8,000 to 16,000 cycles for
    each tile of 128 x 256 of a core, and no published figure of an instruction (requantising by FIXPIPE,
    draining L0C, issue) accounts for that. So each row has its own error here, and none may get worse unseen.
    Scales of rows are applied beside the Cube, in one kernel.
    """
    parameters = [np.ones(n, np.float32), None, None, np.ones(m, np.float32) if rows else None]
    simulated_us = time_us("QuantBatchMatmulV3", m, k, n, *parameters)
    assert simulated_us / measured_us == pytest.approx(share, abs=0.01)


def test_more_columns_take_longer_wherever_tiles_end() -> None:
    """Parts of 3584 columns are no powers of two; tiles end on whole blocks of bytes nevertheless."""
    times = [
        time_us("QuantBatchMatmulV3", 1024, 3584, n, np.ones(n, np.float32))
        for n in (2048, 2560, 3072, 3584, 4096, 4608)
    ]
    assert times == sorted(times)
    assert times[-1] < 2.6 * times[0]


def test_bytes_are_quicker_than_halves_on_the_cube() -> None:
    columns = np.ones(4096, np.float32)
    assert time_us("QuantBatchMatmulV3", 1024, 4096, 4096, columns) < 0.7 * time_us(
        "MatMul", 1024, 4096, 4096
    )


# ---- onnxruntime's weights in blocks


@pytest.mark.parametrize(
    ("bits", "zeros", "k"), [(4, False, 64), (4, True, 64), (8, True, 64), (4, True, 50)]
)
def test_matmul_nbits_is_that_of_onnxruntime(bits: int, zeros: int, k: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    block, n, per = 32, 24, 8 // bits
    blocks = -(-k // block)
    inputs = {
        "B": RANDOM.integers(0, 256, (n, blocks, block // per)).astype(np.uint8),
        "scales": steps(n * blocks),
        "zeros": RANDOM.integers(0, 256, (n * -(-blocks // per),)).astype(np.uint8),
        "bias": RANDOM.standard_normal(n).astype(np.float32),
    }
    names = f"A B scales {'zeros' if zeros else ''}".rstrip()
    made = node("MatMulNBits", names, "y", domain="com.microsoft", K=k, N=n, bits=bits, block_size=block)
    made.input.extend([*[""] * (5 - len(made.input)), "bias"])
    held = {name: array for name, array in inputs.items() if zeros or name != "zeros"}
    network = model([made], [value("A", (2, 3, k))], ["y"], held, opset=17)
    network.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    network.graph.output[0].type.Clear()
    network.ir_version = 9
    a = RANDOM.standard_normal((2, 3, k)).astype(np.float32)
    session = onnxruntime.InferenceSession(network.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"A": a})
    loaded = asim.load(network)
    compiled = asim.compile(loaded, "Ascend910B1")
    got = asim.run(compiled, {"A": a}, values="float32").outputs["y"]
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    ran = asim.simulate(compiled).op_summary().column("OP Type")
    assert "WeightQuantBatchMatmulV2" in ran


def test_columns_of_whole_weights_are_those_of_the_result() -> None:
    """Of packed ones nothing is said: eight of theirs are one."""
    x = steps(M, K).astype(np.float16)
    for w, said in ((integers(K, N), [1]), (integers(K, N // 2).view(np.int32), [])):
        node = make_node("WeightQuantBatchMatmulV2", [x, w, steps(N).astype(np.float16)], domain="ascend")
        links = default_opset().get(node).facts.axes(node).of(1)
        assert [link.axis for link in links if link.relation is Relation.PARALLEL] == said
