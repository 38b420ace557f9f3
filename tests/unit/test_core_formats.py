"""Element types and storage shapes against values worked out by hand and against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format, align, c0, ceil_div, storage_bytes, storage_shape

DIM = st.integers(1, 300)


@pytest.mark.parametrize("dtype", list(DType))
def test_a_dtype_agrees_with_numpy(dtype: DType) -> None:
    assert dtype.numpy.itemsize == dtype.itemsize
    assert DType.of(dtype.numpy) is dtype
    assert DType.of(dtype.value) is dtype


def test_kinds_of_dtypes() -> None:
    assert {dtype for dtype in DType if dtype.is_float} == {
        DType.FLOAT16,
        DType.FLOAT32,
        DType.FLOAT64,
        DType.BFLOAT16,
    }
    assert not DType.BOOL.is_integer
    assert sum(dtype.is_integer for dtype in DType) == 8


def test_unknown_dtype() -> None:
    with pytest.raises(GraphError, match="element type 'complex64' is not supported"):
        DType.of(np.complex64)


@pytest.mark.parametrize(
    ("shape", "format", "dtype", "stored"),
    [
        ((1, 64, 56, 56), Format.NC1HWC0, DType.FLOAT16, (1, 4, 56, 56, 16)),
        ((2, 3, 8, 8), Format.NC1HWC0, DType.INT8, (2, 1, 8, 8, 32)),
        ((128, 768), Format.FRACTAL_NZ, DType.FLOAT16, (48, 8, 16, 16)),
        ((12, 100, 40), Format.FRACTAL_NZ, DType.INT8, (12, 2, 7, 16, 32)),
        ((64, 3, 7, 7), Format.FRACTAL_Z, DType.FLOAT16, (49, 4, 16, 16)),
        ((7,), Format.FRACTAL_NZ, DType.FLOAT16, (7,)),
        ((2, 3, 4), Format.NC1HWC0, DType.FLOAT16, (2, 3, 4)),
        ((), Format.ND, DType.FLOAT32, ()),
    ],
)
def test_storage_shapes(
    shape: tuple[int, ...], format: Format, dtype: DType, stored: tuple[int, ...]
) -> None:
    assert storage_shape(shape, format, dtype) == stored


@given(
    st.tuples(DIM, DIM, DIM, DIM),
    st.sampled_from(list(Format)),
    st.sampled_from([DType.FLOAT16, DType.FLOAT32, DType.INT8]),
)
def test_padding_only_adds(shape: tuple[int, ...], format: Format, dtype: DType) -> None:
    stored = storage_bytes(shape, format, dtype)
    assert stored >= math.prod(shape) * dtype.itemsize
    if format in (Format.NC1HWC0, Format.FRACTAL_NZ, Format.FRACTAL_Z):
        assert stored % (c0(dtype) * dtype.itemsize) == 0


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_rounding_up(value: int, to: int) -> None:
    assert ceil_div(value, to) == math.ceil(value / to) or ceil_div(value, to) * to - value < to
    assert align(value, to) % to == 0
    assert 0 <= align(value, to) - value < to
