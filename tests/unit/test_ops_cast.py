"""Cast, CastLike, BitCast."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ascendsim import soc
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.ops import default_opset
from ascendsim.opset.work import AiCpuWork, LowerContext, MoveWork, NoTask, VectorWork, Work
from tests.support.gate import in_one
from tests.support.single_node import make_node, run

TYPES = [dtype for dtype in DType if dtype is not DType.BFLOAT16]


@in_one("source, target", list(itertools.product(TYPES, TYPES)))
def test_values_agree_with_numpy(source: DType, target: DType) -> None:
    x = np.array([0, 1, 2, 100, 3], np.int64).astype(source.numpy)
    if source.is_float:
        x = (x + np.array([0, 0.5, 0.75, 0.25, 0.5])).astype(source.numpy)
    np.testing.assert_array_equal(run("Cast", [x], to=target)[0], x.astype(target.numpy))


def test_rounding_and_overflow() -> None:
    x = np.array([2049, 2051, 1e6, -1e6, np.nan, 1e-8], np.float32)
    np.testing.assert_array_equal(
        run("Cast", [x], to=DType.FLOAT16)[0], np.array([2048, 2052, np.inf, -np.inf, np.nan, 0], np.float16)
    )
    half = np.array([-1.75, 2.5, -0.0], np.float16)
    np.testing.assert_array_equal(run("Cast", [half], to=DType.INT32)[0], np.array([-1, 2, 0], np.int32))
    np.testing.assert_array_equal(
        run("Cast", [np.array([np.nan, 0.0, -0.0, 6e-8], np.float16)], to=DType.BOOL)[0],
        [True, False, False, True],
    )
    np.testing.assert_array_equal(
        run("Cast", [np.array([200, -1], np.int16)], to=DType.INT8)[0], np.array([-56, -1], np.int8)
    )


def test_bfloat16_rounds_to_even() -> None:
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, 3.0], np.float64)
    found = run("Cast", [x], to=DType.BFLOAT16)[0]
    np.testing.assert_array_equal(found.astype(np.float32), np.array([1, 1 + 2**-6, 3], np.float32))
    np.testing.assert_array_equal(
        run("Cast", [found], to=DType.FLOAT16)[0], np.array([1, 1 + 2**-6, 3], np.float16)
    )
    assert found.dtype == ml_dtypes.bfloat16


def test_cast_like_and_bit_cast() -> None:
    x = np.array([1.5, -2], np.float32)
    assert run("CastLike", [x, np.zeros(0, np.int16)])[0].tolist() == [1, -2]
    np.testing.assert_array_equal(run("BitCast", [x], to=DType.INT32)[0], x.view(np.int32))
    with pytest.raises(GraphError, match="types of one width"):
        make_node("BitCast", [x], to=DType.INT16)
    with pytest.raises(GraphError, match="supported element type"):
        make_node("Cast", [x])


def _lowered(source: DType, target: DType, name: str = "Cast", chip: str = "Ascend910A") -> Work:
    node = make_node(name, [np.zeros((4, 8), source.numpy)], known=False, to=target)
    definition = default_opset().get(node)
    assert definition.lower is not None
    spec = soc.load(chip)
    return definition.lower(node, LowerContext.of(spec))


def _conversions(work: Work) -> list[Any]:
    assert isinstance(work, VectorWork)
    return [(step.op, step.dtype.value) for step in work.steps]


def test_lowering() -> None:
    assert _conversions(_lowered(DType.FLOAT32, DType.FLOAT16)) == [("vconv", "float32")]
    assert _conversions(_lowered(DType.INT8, DType.FLOAT16)) == [("vconv", "float16")]
    assert _conversions(_lowered(DType.INT8, DType.INT32)) == [("vconv", "int32"), ("vconv", "float16")]
    assert _conversions(_lowered(DType.FLOAT16, DType.BOOL)) == [
        ("vconv", "float16"),
        ("vcmp", "float16"),
        ("vsel", "float16"),
    ]
    assert isinstance(_lowered(DType.INT64, DType.FLOAT32), AiCpuWork)
    assert isinstance(_lowered(DType.FLOAT16, DType.FLOAT16), NoTask)
    assert isinstance(_lowered(DType.FLOAT32, DType.INT32, "BitCast"), MoveWork)


def test_int64_converts_on_the_ai_core_where_the_chip_has_it() -> None:
    chip = "Ascend910B1"
    assert _conversions(_lowered(DType.INT32, DType.INT64, chip=chip)) == [("vconv", "int64")]
    assert _conversions(_lowered(DType.INT64, DType.FLOAT32, chip=chip)) == [("vconv", "int64")]
    assert _conversions(_lowered(DType.INT64, DType.FLOAT16, chip=chip)) == [
        ("vconv", "int64"),
        ("vconv", "float32"),
    ]
    assert _conversions(_lowered(DType.BOOL, DType.INT64, chip=chip)) == [
        ("vconv", "int64"),
        ("vconv", "float32"),
        ("vconv", "float16"),
    ]
    assert isinstance(_lowered(DType.INT64, DType.FLOAT64, chip=chip), AiCpuWork)
    assert isinstance(_lowered(DType.INT32, DType.INT64, chip="Ascend310P3"), AiCpuWork)
