"""onnxruntime's operators on bytes: values against exact arithmetic at ties and at the ends of the range, and
which instructions zero points cost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.opset.work import MoveWork, NoTask
from tests.support.integer_laws import bytes_of, counts, lowered, nearest, whole
from tests.support.single_node import make_node, run

A, B, C = (0.5, 3), (0.25, -7), (1.0, 5)  # scales and zero points; powers of two are exact
KINDS = pytest.mark.parametrize("kind", [np.int8, np.uint8])


def pair(numbers: tuple[float, int], kind: Any) -> tuple[Any, Any]:
    """Scale and zero point; those of unsigned bytes are higher by 128."""
    scale, zero = numbers
    return np.float32(scale), kind(zero + (128 if kind is np.uint8 else 0))


def real(array: Any, numbers: tuple[Any, Any]) -> Any:
    return (array.astype(float) - float(numbers[1])) * float(numbers[0])


def joined(name: str, *inputs: Any, **attributes: Any) -> Any:
    return run(name, list(inputs), domain="com.microsoft", **attributes)[0]


def stored(exact: Any, result: tuple[Any, Any]) -> Any:
    """Ties to even before the zero point comes, which differs from behind it where that is odd."""
    limits = np.iinfo(result[1].dtype)
    numbers = [round(float(value) / float(result[0])) + int(result[1]) for value in exact.reshape(-1)]
    return np.clip(numbers, limits.min, limits.max).reshape(exact.shape)


@KINDS
@pytest.mark.parametrize("shape", [(40, 30), (30,), (40, 1)])
def test_products_of_quantised_tensors(kind: Any, shape: tuple[int, ...]) -> None:
    a, b = whole(kind, 40, 30), whole(kind, *shape)
    sides = pair(A, kind), pair(B, kind), pair((32.0, 5), kind)
    found = joined("QLinearMul", a, *sides[0], b, *sides[1], *sides[2])
    np.testing.assert_array_equal(found, stored(real(a, sides[0]) * real(b, sides[1]), sides[2]))


@KINDS
@pytest.mark.parametrize("shape", [(40, 30), (30,), (40, 1)])
def test_sums_of_quantised_tensors_are_onnxruntimes(kind: Any, shape: tuple[int, ...]) -> None:
    """The zero point is added before the rounding there: ties differ where it is odd."""
    a, b = whole(kind, 40, 30), whole(kind, *shape)
    sides = pair(A, kind), pair(B, kind), pair(C, kind)
    found = joined("QLinearAdd", a, *sides[0], b, *sides[1], *sides[2])
    exact = real(a, sides[0]) + real(b, sides[1]) + float(sides[2][1])
    limits = np.iinfo(kind)
    assert found.reshape(-1).tolist() == nearest(exact, limits.min, limits.max)
    bare = joined("QLinearAdd", a, sides[0][0], None, b, sides[1][0], None, sides[2][0])
    exact = a.astype(float) * A[0] + b.astype(float) * B[0]
    assert bare.reshape(-1).tolist() == nearest(exact, limits.min, limits.max)


@KINDS
def test_functions_of_a_quantised_tensor(kind: Any) -> None:
    limits = np.iinfo(kind)
    x = np.arange(limits.min, limits.max + 1).astype(kind)
    own, thin, flat = (
        pair((0.0625, 3), kind),
        (np.float32(1 / 256), kind(limits.min)),
        pair((0.125, -2), kind),
    )
    values = real(x, own)
    found = joined("QLinearSigmoid", x, *own, *thin)
    assert np.abs(found - stored(1 / (1 + np.exp(-values)), thin)).max() == 0
    leaky = np.where(values < 0, values * 0.25, values)
    np.testing.assert_array_equal(joined("QLinearLeakyRelu", x, *own, *flat, alpha=0.25), stored(leaky, flat))
    usual = joined("QLinearLeakyRelu", x, *own, *flat)
    np.testing.assert_array_equal(usual, joined("QLinearLeakyRelu", x, *own, *flat, alpha=0.01))
    low, high = int(flat[1]) - 3, int(flat[1]) + 9
    cut = joined("QLinearLeakyRelu", x, *own, *flat, alpha=0.25, low=low, high=high)
    np.testing.assert_array_equal(cut, np.clip(stored(leaky, flat), low, high))


@KINDS
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parts_are_joined_in_the_steps_of_the_result(kind: Any, axis: int) -> None:
    a, b = whole(kind, 6, 4), whole(kind, 6, 4)
    sides = pair(A, kind), pair(B, kind), pair((0.5, 9), kind)
    found = joined("QLinearConcat", *sides[2], a, *sides[0], b, *sides[1], axis=axis)
    parts = [stored(real(array, side), sides[2]) for array, side in zip((a, b), sides, strict=False)]
    np.testing.assert_array_equal(found, np.concatenate(parts, axis=axis))
    bare = joined("QLinearConcat", *sides[2], a, *sides[0], b, sides[1][0], axis=axis)
    parts[1] = stored(b.astype(float) * B[0], sides[2])
    np.testing.assert_array_equal(bare, np.concatenate(parts, axis=axis))


@pytest.mark.parametrize("zeros", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)])
def test_zero_points_that_are_0_cost_nothing(zeros: tuple[int, ...]) -> None:
    """A sum takes all zero points in one step, a product each in its own."""
    x, scale = bytes_of(3, 8), np.float32(0.5)
    a, b, c = (np.int8(zero) for zero in zeros)
    given = x, scale, a, x, scale, b, scale, c
    found = counts(lowered("QLinearAdd", *given, domain="com.microsoft"))
    assert found == {"vconv": 3, "vmuls": 1, "vaxpy": 1} | ({"vadds": 1} if any(zeros) else {})
    found = counts(lowered("QLinearMul", *given, domain="com.microsoft"))
    assert found == {"vconv": 3, "vmul": 1, "vmuls": 1} | ({"vadds": sum(zeros)} if any(zeros) else {})
    single = x, scale, a, scale, c
    kept = sum((zeros[0], zeros[2]))
    leaky = counts(lowered("QLinearLeakyRelu", *single, domain="com.microsoft", low=0, high=9))
    bounds = {"vmaxs": 1, "vmins": 1}
    assert leaky == {"vconv": 2, "vmuls": 1, "vlrelu": 1} | bounds | ({"vadds": kept} if kept else {})
    bare = counts(lowered("QLinearSigmoid", x, scale, np.int8(0), scale, np.int8(0), domain="com.microsoft"))
    more = counts(lowered("QLinearSigmoid", *single, domain="com.microsoft"))
    assert more["vadds"] - bare["vadds"] == kept
    unknown = counts(lowered("QLinearMul", *given, domain="com.microsoft", known=False))
    assert unknown["vadds"] == 3  # whatever they will be


def test_bytes_that_are_read_are_those_of_the_data_alone() -> None:
    x, row, scale, zero = bytes_of(3, 8), bytes_of(8), np.float32(0.5), np.int8(1)
    work = lowered("QLinearMul", x, scale, zero, row, scale, zero, scale, zero, domain="com.microsoft")
    assert (work.rows, work.cols) == (3, 8)
    assert [(stream.ref.bytes, stream.over) for stream in work.inputs] == [(24, "all"), (8, "col")]
    assert {step.dtype for step in work.steps} == {DType.FLOAT16}
    parts = lowered("QLinearConcat", scale, zero, x, scale, zero, x, scale, zero, domain="com.microsoft")
    assert isinstance(parts, MoveWork)
    assert [step.op for step in parts.steps][-4:] == ["vconv", "vmuls", "vadds", "vconv"]
    empty = np.zeros((0, 8), np.int8)
    given = empty, scale, zero, scale, zero
    assert isinstance(lowered("QLinearSigmoid", *given, domain="com.microsoft", known=False), NoTask)


@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul"])
def test_inputs_are_bytes_of_one_type_that_broadcast_with_a_single_step(name: str) -> None:
    x, scale, zero = bytes_of(3, 8), np.float32(0.5), np.int8(1)
    good = [x, scale, zero, x, scale, zero, scale, zero]
    for port, wrong in (
        (0, x.astype(np.uint8)),
        (3, x.astype(np.uint8)),
        (3, bytes_of(5)),
        (1, np.ones(3, np.float32)),
        (4, np.ones(3, np.float32)),
        (5, bytes_of(3)),
        (6, np.ones(3, np.float32)),
        (7, bytes_of(3)),
    ):
        given = list(good)
        given[port] = wrong
        with pytest.raises(GraphError):
            make_node(name, given, domain="com.microsoft")
    floats = [array.astype(np.float32) if array is x else array for array in good]
    with pytest.raises(GraphError, match="of one type"):
        make_node(name, floats, domain="com.microsoft")
