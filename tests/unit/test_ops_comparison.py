"""Comparisons, logic, bit operations, Where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import soc
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.ops import default_opset
from ascendsim.opset.work import AiCpuWork, LowerContext, SequenceWork, VectorWork, Work, WorkChoice
from tests.support.single_node import infer, make_node, run

NUMBERS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2], np.float32)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("Equal", np.equal),
        ("Greater", np.greater),
        ("GreaterOrEqual", np.greater_equal),
        ("Less", np.less),
        ("LessOrEqual", np.less_equal),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
def test_comparisons(name: str, function: Any, dtype: Any) -> None:
    values = NUMBERS if dtype is not np.int64 else np.array([-3, 0, 5, 2**60 + 1])
    a, b = values.astype(dtype)[:, None], values.astype(dtype)[None, :]
    found = run(name, [a, b])[0]
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, function(a, b))


def test_logic() -> None:
    a, b = np.array([[True], [False]]), np.array([[True, False]])
    np.testing.assert_array_equal(run("And", [a, b])[0], a & b)
    np.testing.assert_array_equal(run("Or", [a, b])[0], a | b)
    np.testing.assert_array_equal(run("Xor", [a, b])[0], a ^ b)
    np.testing.assert_array_equal(run("Not", [a])[0], ~a)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_and_infinity(dtype: Any) -> None:
    x = NUMBERS.astype(dtype)
    np.testing.assert_array_equal(run("IsNaN", [x])[0], np.isnan(x))
    np.testing.assert_array_equal(run("IsInf", [x])[0], np.isinf(x))
    np.testing.assert_array_equal(run("IsInf", [x], detect_negative=0)[0], np.isposinf(x))
    np.testing.assert_array_equal(run("IsInf", [x], detect_positive=0)[0], np.isneginf(x))


def test_bits() -> None:
    a, b = np.array([0b1100, -1], np.int32), np.array([0b1010, 7], np.int32)
    for name, function in (
        ("BitwiseAnd", np.bitwise_and),
        ("BitwiseOr", np.bitwise_or),
        ("BitwiseXor", np.bitwise_xor),
    ):
        np.testing.assert_array_equal(run(name, [a, b])[0], function(a, b))
    np.testing.assert_array_equal(run("BitwiseNot", [a])[0], ~a)
    u = np.array([1, 255], np.uint8)
    np.testing.assert_array_equal(
        run("BitShift", [u, np.array([3, 1], np.uint8)], direction="LEFT")[0], np.array([8, 254], np.uint8)
    )
    np.testing.assert_array_equal(
        run("BitShift", [u, np.array([3, 1], np.uint8)], direction="RIGHT")[0], np.array([0, 127], np.uint8)
    )


def test_where_keeps_bits() -> None:
    condition = np.array([[True], [False]])
    a, b = np.array([np.nan, -0.0, 6e-8], np.float16), np.array([1, 2, 3], np.float16)
    found = run("Where", [condition, a, b])[0]
    np.testing.assert_array_equal(found.view(np.uint16), np.stack([a, b]).view(np.uint16))


def test_where_needs_one_type() -> None:
    with pytest.raises(GraphError, match="two branches of one type"):
        make_node("Where", [np.array([True]), np.ones(1, np.float32), np.ones(1, np.int32)])
    assert infer("Equal", [("n", 1), (1, 4)]) == [("n", 4)]


def _lowered(name: str, *inputs: Any, chip: str = "Ascend910A") -> Work:
    node = make_node(name, inputs, known=False)
    definition = default_opset().get(node)
    assert definition.lower is not None
    spec = soc.load(chip)
    return definition.lower(node, LowerContext.of(spec))


def test_lowering() -> None:
    half, flags = np.ones((4, 8), np.float16), np.ones((4, 8), np.bool_)
    less = _lowered("Less", half, half)
    assert isinstance(less, VectorWork)
    assert [step.op for step in less.steps] == ["vcmp", "vsel", "vconv"]
    both = _lowered("And", flags, flags)
    assert isinstance(both, VectorWork)
    assert [step.op for step in both.steps] == ["vconv", "vconv", "vmul", "vconv"]
    chosen = _lowered("Where", flags, half.astype(np.float32), half.astype(np.float32))
    assert isinstance(chosen, VectorWork)
    assert chosen.steps[-1].dtype is DType.FLOAT32
    masked = _lowered("BitwiseXor", np.ones(8, np.int32), np.ones(8, np.int32))
    assert isinstance(masked, VectorWork)
    assert [(step.op, step.count, step.dtype) for step in masked.steps] == [
        (op, 2, DType.INT16) for op in ("vor", "vand", "vnot", "vand")
    ]
    assert isinstance(_lowered("BitwiseAnd", np.ones(3, np.int64), np.ones(3, np.int64)), AiCpuWork)
    halves = _lowered("Equal", np.ones(3, np.int64), np.ones(3, np.int64), chip="Ascend910B1")
    assert isinstance(halves, VectorWork)
    assert (halves.steps[0].op, halves.steps[0].count, halves.steps[0].dtype) == ("vcmp", 2, DType.INT32)


def test_where_of_int64_runs_where_the_chip_converts_int64() -> None:
    choice = (np.ones(3, bool), np.ones(3, np.int64), np.ones(3, np.int64))
    assert isinstance(_lowered("Where", *choice, chip="Ascend910A"), AiCpuWork)
    assert isinstance(_lowered("Where", *choice, chip="Ascend910B1"), VectorWork)


@pytest.mark.parametrize("chip", ["Ascend310", "Ascend910A", "Ascend310P3"])
def test_labels_of_int64_are_narrowed_for_the_vector_unit(chip: str) -> None:
    """Only the labels pass the AI CPU, not each of them with each class."""
    labels, classes = np.ones((128, 1), np.int64), np.arange(1000)
    choice = _lowered("Equal", labels, classes, chip=chip)
    assert isinstance(choice, WorkChoice)
    narrowed, whole = choice.ways
    assert isinstance(whole, AiCpuWork)
    assert whole.elements == 128 * 1000
    assert isinstance(narrowed, SequenceWork)
    *casts, compare = narrowed.parts
    assert [(part.elements, part.inputs[0].dtype, part.outputs[0].dtype) for part in casts] == [
        (128, DType.INT64, DType.INT32),
        (1000, DType.INT64, DType.INT32),
    ]
    assert narrowed.workspace_bytes == 4 * 1128
    assert isinstance(compare, VectorWork)
    assert (compare.rows, compare.cols) == (128, 1000)
    assert [(stream.ref.region, stream.over) for stream in compare.inputs] == [
        (part.outputs[0].region, over) for part, over in zip(casts, ("row", "col"), strict=True)
    ]
    assert {step.dtype for step in compare.steps} == {DType.INT32}


def test_a_tensor_that_is_compared_with_itself_is_narrowed_once() -> None:
    builder = asim.GraphBuilder()
    labels = builder.input("labels", (4, 8), dtype="int64")
    node = builder.op("Equal", labels, labels).producer
    assert node is not None
    work = default_opset().get(node).work(node, LowerContext.of(soc.load("Ascend910A")))
    assert isinstance(work, WorkChoice)
    assert isinstance(work.ways[0], SequenceWork)
    assert [type(part) for part in work.ways[0].parts] == [AiCpuWork, VectorWork]


def test_labels_against_a_vocabulary_leave_the_ai_cpu() -> None:
    """Constants need no Cast; two equal tensors of int64 are left to the AI CPU, which narrows no quicker."""
    builder = asim.GraphBuilder()
    labels = builder.input("labels", (64, 1), dtype="int64")
    builder.output(builder.op("Equal", labels, np.arange(20000)), "hot")
    builder.output(builder.op("Equal", labels, labels), "same")
    model = asim.compile(builder.build(), soc="Ascend910A")
    result = asim.run(model, {"labels": np.arange(64).reshape(64, 1) * 300})
    np.testing.assert_array_equal(result.outputs["hot"], np.eye(20000, dtype=bool)[np.arange(64) * 300])
    table = result.op_summary()
    kinds = list(zip(table["Op Name"], table["Task Type"], strict=True))
    assert kinds == [("Equal", "AI_CPU"), ("Equal", "AI_CORE"), ("Equal_1", "AI_CPU")]
