"""Element types: the names, sizes and NumPy equivalents that graph, kernels and machine share."""

from __future__ import annotations

from enum import Enum
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ascendsim.core.errors import UnsupportedTypeError


class DType(Enum):
    """An element type; the value is its name in listings (ONNX's spelling without `TensorProto.`)."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT64 = "float64"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    BOOL = "bool"

    __hash__ = object.__hash__  # members are single objects; Enum would hash their names, in Python

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _SIZES[self]

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype (bfloat16 comes from ml_dtypes, loaded on first use)."""
        return _numpy_of(self)

    @property
    def is_float(self) -> bool:
        return self in _FLOATS

    @property
    def is_integer(self) -> bool:
        return not self.is_float and self is not DType.BOOL

    @property
    def cann(self) -> str:
        """The name that CANN's tools print (DT_ prefix left out), for example FLOAT16."""
        return {"float32": "FLOAT", "float64": "DOUBLE", "bfloat16": "BF16"}.get(
            self.value, self.value.upper()
        )

    @classmethod
    def of(cls, dtype: object) -> DType:
        """The DType of a NumPy dtype, NumPy scalar type or name.

        >>> DType.of(np.float16)
        <DType.FLOAT16: 'float16'>
        """
        if isinstance(dtype, DType):
            return dtype
        name = dtype if isinstance(dtype, str) else name_of(np.dtype(dtype))  # type: ignore[call-overload]
        try:
            return cls(name)
        except ValueError:
            raise UnsupportedTypeError(
                f"element type {name!r}", "is not supported", remedy="cast the tensor to a numeric type"
            ) from None


# float16 of a chip, or of a mode of it, in which results beyond the type become its last number and NaN is 0.
# It is NumPy's float16 in every respect; who rounds to a type asks `saturates`.
SATURATING_FLOAT16: np.dtype[Any] = np.dtype(np.float16, metadata={"overflow": "saturation"})


def saturates(dtype: np.dtype[Any]) -> bool:
    """Whether numbers beyond a type become its last number.

    >>> saturates(SATURATING_FLOAT16), saturates(np.dtype(np.float16)), SATURATING_FLOAT16 == np.float16
    (True, False, True)
    """
    return dtype.metadata is not None and dtype.metadata.get("overflow") == "saturation"


@lru_cache(maxsize=64)
def name_of(dtype: np.dtype[Any]) -> str:
    """NumPy's name of a type."""
    return dtype.name  # which NumPy puts together anew each time


_SIZES = {
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.FLOAT64: 8,
    DType.INT8: 1,
    DType.INT16: 2,
    DType.INT32: 4,
    DType.INT64: 8,
    DType.UINT8: 1,
    DType.UINT16: 2,
    DType.UINT32: 4,
    DType.UINT64: 8,
    DType.BOOL: 1,
}
_FLOATS = {DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64}


@cache
def _numpy_of(dtype: DType) -> np.dtype[Any]:
    if dtype is DType.BFLOAT16:
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(str(dtype.value))
