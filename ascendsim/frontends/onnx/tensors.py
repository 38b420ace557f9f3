"""Tensors that a model file holds or names: checked against what the file really has, and read when asked
for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, InputError, UnsupportedTypeError
from ascendsim.frontends.onnx.four_bits import FourBits, nibbles
from ascendsim.frontends.onnx.types import FOUR_BITS, element_type
from ascendsim.graph.ir import Array, Constant

MAX_TENSOR_BYTES = 1 << 40  # of one external tensor, far above any weight

# Which repeated field holds the values of a type when raw_data does not, and how many entries an element
# takes.
_FIELDS: dict[DType, str] = {
    DType.FLOAT32: "float_data",
    DType.FLOAT64: "double_data",
    DType.INT64: "int64_data",
    DType.UINT32: "uint64_data",
    DType.UINT64: "uint64_data",
}
_DEFAULT_FIELD = "int32_data"  # all shorter types, float16 and bfloat16 as bits

Absent = Callable[[onnx.TensorProto, DType, tuple[int, ...], str], Constant]


class ExternalFiles:
    """Files beside a model that hold its tensors, each looked for once.

    Args:
        folder: Of the model.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, tuple[Path, int | None]] = {}

    def find(self, location: str, subject: str) -> tuple[Path, int | None]:
        """A file and its bytes; None if there is no such file.

        Raises:
            GraphError: If it would not lie in the model's folder.
        """
        if location not in self._found:
            path = _inside(self._folder, location, subject)
            self._found[location] = path, path.stat().st_size if path.is_file() else None
        return self._found[location]


def read_tensor(
    proto: onnx.TensorProto, files: ExternalFiles | None, absent: Absent, alone: bool = True
) -> tuple[DType, tuple[int, ...], Constant]:
    """Type, shape and (lazy) value of a tensor proto.

    Args:
        proto: The tensor; its values are not copied before they are asked for.
        files: Beside the model file, where external data lies; None if the model came without a file.
        absent: Makes the constant for a tensor whose external file does not exist, from (proto, type, shape,
            reason).
        alone: Whether nobody knows what becomes of it: integers of 4 bits are weights or nothing.

    Raises:
        UnsupportedTypeError: If the element type is not supported.
        GraphError: If the tensor claims more or less than the file holds, or its external data is not where
            it may be.
    """
    subject = f"tensor {proto.name!r}"
    narrow = proto.data_type in FOUR_BITS and not alone
    dtype = FOUR_BITS[proto.data_type] if narrow else element_type(proto.data_type, subject)
    shape = tuple(int(dim) for dim in proto.dims)
    if any(dim < 0 for dim in shape):
        raise GraphError(
            subject, "must have dimensions that are not negative", list(shape), "check the model file"
        )
    if proto.HasField("segment"):
        raise UnsupportedTypeError(
            subject, "is stored in segments", remedy="save the model again with the onnx package"
        )
    size = math.prod(shape) * dtype.itemsize
    if narrow:
        stored = (math.prod(shape) + 1) // 2
        bytes_of = _stored(proto, stored, files, absent, subject)
        if not bytes_of.available:
            return dtype, shape, FourBits(absent_because=bytes_of.absent_because)
        signed = dtype is DType.INT8
        return dtype, shape, FourBits(loader=lambda: nibbles(bytes_of.array(), shape, signed))
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        return (
            dtype,
            shape,
            _external(proto, dtype, shape, size, files=files, absent=absent, subject=subject),
        )
    _check_size(proto, dtype, math.prod(shape), subject)
    return dtype, shape, Constant(loader=lambda: _inline_values(proto, dtype, shape))


def _stored(
    proto: onnx.TensorProto, size: int, files: ExternalFiles | None, absent: Absent, subject: str
) -> Constant:
    """The bytes that hold a tensor of 4-bit integers, two to a byte."""
    if proto.data_location == onnx.TensorProto.EXTERNAL:
        kind = DType.UINT8
        return _external(proto, kind, (size,), size, files=files, absent=absent, subject=subject)
    if proto.HasField("raw_data"):
        _check_size(proto, DType.UINT8, size, subject)
        return Constant(loader=lambda: np.frombuffer(proto.raw_data, np.uint8))
    if len(proto.int32_data) != size:
        held = len(proto.int32_data)
        raise GraphError(subject, f"of shape {list(proto.dims)} must hold {size} values", held)
    return Constant(loader=lambda: np.array(proto.int32_data, np.int64).astype(np.uint8))


def tensor_values(proto: onnx.TensorProto) -> Array:
    """Values of a tensor proto that stands alone.

    Raises:
        AscendSimError: As `read_tensor`, and if its values are in a file.
    """

    def refuse(proto: onnx.TensorProto, dtype: DType, shape: tuple[int, ...], reason: str) -> Constant:
        raise InputError(
            f"tensor {proto.name!r}", "must hold its values itself", reason, "load them with onnx.load_tensor"
        )

    return read_tensor(proto, None, refuse)[2].array()


def _check_size(proto: onnx.TensorProto, dtype: DType, elements: int, subject: str) -> None:
    """Compares what the tensor claims with what the file holds, before anything is allocated."""
    if proto.HasField("raw_data"):
        held, unit, claimed = len(proto.raw_data), "bytes", elements * dtype.itemsize
    else:
        held, unit, claimed = len(getattr(proto, _FIELDS.get(dtype, _DEFAULT_FIELD))), "values", elements
    if held != claimed:
        raise GraphError(
            subject,
            f"of shape {list(proto.dims)} must hold {claimed} {unit}",
            held,
            "the file is truncated or damaged; export it again",
        )


def _inline_values(proto: onnx.TensorProto, dtype: DType, shape: tuple[int, ...]) -> Array:
    if proto.HasField("raw_data"):
        return (
            np.frombuffer(proto.raw_data, dtype.numpy.newbyteorder("<"))
            .astype(dtype.numpy, copy=False)
            .reshape(shape)
        )
    return np.asarray(numpy_helper.to_array(proto)).astype(dtype.numpy, copy=False).reshape(shape)


def _external(
    proto: onnx.TensorProto,
    dtype: DType,
    shape: tuple[int, ...],
    size: int,
    *,
    files: ExternalFiles | None,
    absent: Absent,
    subject: str,
) -> Constant:
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    if not location:
        raise GraphError(subject, "names no file for its external data", remedy="export the model again")
    if size > MAX_TENSOR_BYTES:
        raise GraphError(subject, f"must have at most {MAX_TENSOR_BYTES} bytes", size, "check its shape")
    offset = _number(entries, "offset", 0, subject)
    length = _number(entries, "length", size, subject)
    if length != size:
        raise GraphError(
            subject,
            f"of shape {list(shape)} must have {size} bytes of external data",
            length,
            "check the model file",
        )
    if files is None:
        return absent(proto, dtype, shape, f"file {location} is not at hand")
    path, held = files.find(location, subject)
    if held is None:
        return absent(proto, dtype, shape, f"file {location} is missing")
    if offset + length > held:
        raise GraphError(
            subject,
            f"must find bytes {offset} to {offset + length} in {location}",
            f"a file of {held} bytes",
            "it is truncated: copy or export it again",
        )
    return Constant(loader=lambda: _read_file(path, dtype.numpy, shape, offset, subject))


def _number(entries: dict[str, str], key: str, default: int, subject: str) -> int:
    text = entries.get(key, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise GraphError(
            subject,
            f"must have a number as {key} of its external data",
            repr(text[:40]),
            "export the model again",
        )
    return int(text)


def _inside(folder: Path, location: str, subject: str) -> Path:
    """The external file, which must lie in the model's folder (no absolute path, no way out through `..` or
    links).
    """
    try:
        root = folder.resolve()
        path = (root / location).resolve()
        inside = not Path(location).is_absolute() and path.is_relative_to(root)
        path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name that no file can have
        inside = False
    if not inside:
        raise GraphError(
            subject,
            "must have its external data inside the model's folder",
            repr(location[:80]),
            "move the file beside the model",
        )
    return path


def _read_file(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int, subject: str) -> Array:
    try:
        values = np.fromfile(path, dtype.newbyteorder("<"), math.prod(shape), offset=offset)
    except OSError as error:
        raise InputError(
            f"file {path.name!r}", f"cannot be read: {error.strerror}", remedy=f"it holds {subject}"
        ) from None
    return values.astype(dtype, copy=False).reshape(shape)
