"""ONNX element types and value types as the IR has them."""

from __future__ import annotations

import re

import onnx

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import FIXED_SHAPES, GraphError, UnsupportedTypeError
from ascendsim.graph.ir import Dim, Shape

_P = onnx.TensorProto
DTYPES: dict[int, DType] = {
    _P.FLOAT: DType.FLOAT32,
    _P.FLOAT16: DType.FLOAT16,
    _P.BFLOAT16: DType.BFLOAT16,
    _P.DOUBLE: DType.FLOAT64,
    _P.INT8: DType.INT8,
    _P.INT16: DType.INT16,
    _P.INT32: DType.INT32,
    _P.INT64: DType.INT64,
    _P.UINT8: DType.UINT8,
    _P.UINT16: DType.UINT16,
    _P.UINT32: DType.UINT32,
    _P.UINT64: DType.UINT64,
    _P.BOOL: DType.BOOL,
}
FOUR_BITS: dict[int, DType] = {
    _P.INT4: DType.INT8,
    _P.UINT4: DType.UINT8,
}  # of weights alone: one a byte in the graph
ONNX_TYPES: dict[DType, int] = {kind: number for number, kind in DTYPES.items()}


def element_type(number: int, subject: str) -> DType:
    """The DType of an ONNX element type number.

    Raises:
        UnsupportedTypeError: If the IR has no such type (strings, complex, float8, 4-bit).
    """
    found = DTYPES.get(number)
    if found is None:
        names = {value: name for name, value in _P.DataType.items()}
        remedy = "supported are " + ", ".join(kind.value for kind in DType)
        raise UnsupportedTypeError(
            subject, f"has element type {names.get(number, number)}, which is not supported", remedy=remedy
        )
    return found


def value_type(value: onnx.ValueInfoProto, subject: str) -> tuple[DType | None, Shape | None]:
    """Type and shape that a model declares for a value; None where it declares nothing.

    Raises:
        UnsupportedTypeError: If the value is no dense tensor (sequence, optional, map, sparse), or of an
            unsupported element type.
        GraphError: If a dimension is negative.
    """
    kind = value.type.WhichOneof("value")
    if kind is None:
        return None, None
    if kind != "tensor_type":
        name = kind.removesuffix("_type").replace("_", " ")
        raise UnsupportedTypeError(subject, f"is of kind {name!r}", remedy="only dense tensors are supported")
    tensor = value.type.tensor_type
    dtype = None if tensor.elem_type == _P.UNDEFINED else element_type(tensor.elem_type, subject)
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, tuple(_dim(dim, subject) for dim in tensor.shape.dim)


# what exporters write where they know no name (PaddlePaddle, tf2onnx): two of them need not be equal
_NO_NAME = re.compile(r"|\?|-1|None|unk__\d*")


def _dim(dim: onnx.TensorShapeProto.Dimension, subject: str) -> Dim:
    if dim.HasField("dim_value"):
        if dim.dim_value == -1:  # how PaddlePaddle's exporter writes a dynamic dimension
            return None
        if dim.dim_value < 0:
            raise GraphError(
                subject,
                "must have dimensions that are not negative",
                dim.dim_value,
                FIXED_SHAPES,
            )
        return int(dim.dim_value)
    return None if _NO_NAME.fullmatch(dim.dim_param) else dim.dim_param
