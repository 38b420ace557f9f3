"""What nodes of MindIR hand to each other: tensors, constants, and tuples of both."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto, helper

from ascendsim.core.errors import InputError
from ascendsim.frontends.mindir.messages import (
    BOOL,
    DOUBLE,
    FLOAT,
    INTEGERS,
    LIST,
    STRING,
    TENSOR,
    TENSORS,
    TUPLE,
)

Dims = tuple[int, ...]
# both formats number their types alike, but for MindIR's second name of float64
_TYPES: Mapping[int, int] = {**{kind: kind for kind in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16)}, 17: 11}


@dataclass(frozen=True)
class Ref:
    """A tensor of the ONNX model.

    Attributes:
        name: Of the tensor; "" = the form of one that is still to come.
        dims: As the file says; -1 = open.
        dtype: ONNX's number of the type.
    """

    name: str
    dims: Dims
    dtype: int


def data_type(number: int, subject: str) -> int:
    """ONNX's number of a type.

    Raises:
        InputError: If the type is not known.
    """
    kind = _TYPES.get(number)
    if kind is None:
        raise InputError(subject, "has a type that is not known", number)
    return kind


def form(proto: Any, name: str, subject: str) -> Ref:
    """A tensor as its declaration has it."""
    return Ref(name, tuple(int(dim) for dim in proto.dims), data_type(proto.data_type, subject))


def array(proto: Any, name: str, subject: str) -> onnx.TensorProto:
    """A constant with its values.

    Raises:
        InputError: If there are not as many bytes as its dimensions need.
    """
    ref = form(proto, name, subject)
    if proto.compression_type:
        raise InputError(subject, "is compressed", remedy="export it without compression")
    if any(dim < 0 for dim in ref.dims):
        raise InputError(subject, "needs known dimensions", list(ref.dims))
    made = TensorProto(name=name, data_type=ref.dtype, dims=ref.dims)
    if proto.HasField("external_data"):
        made.data_location = TensorProto.EXTERNAL
        beside = proto.external_data
        made.external_data.add(key="location", value=beside.location or "weights")
        for key in ("offset", "length"):
            if beside.HasField(key):
                made.external_data.add(key=key, value=str(getattr(beside, key)))
        return made
    need = math.prod(ref.dims) * helper.tensor_dtype_to_np_dtype(ref.dtype).itemsize
    if len(proto.raw_data) != need:
        raise InputError(subject, f"needs {need} bytes of values", len(proto.raw_data))
    made.raw_data = proto.raw_data
    return made


def decoded(attribute: Any, subject: str) -> Any:
    """The value of an attribute: a number, text, tuple, tensor (`onnx.TensorProto`), or None for what
    stands for no value (types, monads, closures).
    """
    kind = attribute.type
    if kind in (TUPLE, LIST):
        return tuple(decoded(value, subject) for value in attribute.values)
    if kind in (TENSOR, TENSORS):
        protos = attribute.tensors or ([attribute.t] if attribute.HasField("t") else [])
        return array(protos[0], "", subject) if protos else None
    fields = {FLOAT: "f", DOUBLE: "d", STRING: "s", BOOL: "i", **dict.fromkeys(INTEGERS, "i")}
    field = fields.get(kind)
    if field is None:
        return None
    many = getattr(attribute, {"f": "floats", "d": "doubles", "s": "strings", "i": "ints"}[field])
    if not attribute.HasField(field) and not many:
        return None  # the name of a type
    value = getattr(attribute, field) if attribute.HasField(field) else many[0]
    if kind == STRING:
        return value.decode("utf-8", "replace")
    return bool(value) if kind == BOOL else value


def result_form(attribute: Any, subject: str) -> Any:
    """What a node makes: the form of a tensor, a tuple of such, or None."""
    if attribute.type in (TUPLE, LIST):
        return tuple(result_form(value, subject) for value in attribute.values)
    return form(attribute.tensors[0], "", subject) if attribute.tensors else None
