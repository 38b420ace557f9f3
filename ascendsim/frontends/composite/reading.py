"""Reads composite JSON into records that are checked field by field; nothing in a file is executed.

What real files do that one would not expect: `input_desc` is a list of lists and may be null, a group of it
may hold several tensors, constants stand only where they are used, `attr` may be null, `format` may be
missing, scalars are `[1]` here and `[]` there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Dim

MAX_FILE_BYTES = 32 * 1024 * 1024  # the largest public file has 197 operators and 180 kB
MAX_OPERATORS = 20_000
MAX_RANK = 16
MAX_CONSTANT_ELEMENTS = 1 << 20

Source = Union[str, Path, bytes, Mapping[str, Any]]
_DEFAULT_FORMAT = "DefaultFormat"


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """One tensor as the file describes it.

    Attributes:
        name: Identifies it.
        shape: As stored: in FRACTAL_NZ already tiled. `[]` and `[1]` both are (1,); dynamic dimensions are
            None or a symbol.
        value: Of a constant: a number or nested lists of numbers; None for all others.
    """

    name: str
    dtype: DType
    shape: tuple[Dim, ...]
    format: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """One operator: its inputs flattened in order, groups of several tensors included."""

    name: str
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CompositeRecord:
    """A whole file.

    Attributes:
        name: Of the kernel.
        header: The other facts that a report may want (platform, process, buffer_stitch ...).
    """

    name: str
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    operators: tuple[OperatorRecord, ...]
    header: Mapping[str, Any]


def is_composite(content: bytes) -> bool:
    """Whether the bytes of a file look like composite JSON."""
    return content[:512].lstrip()[:1] == b"{" and b'"op_desc"' in content


def read_composite(source: Source) -> CompositeRecord:
    """Reads and checks a file.

    Args:
        source: Path of a file, its bytes, or the parsed JSON object.

    Raises:
        InputError: If it cannot be read or breaks the schema; names the place.
    """
    where, data = _parsed(source)
    if not isinstance(data, Mapping):
        raise InputError(where, "must hold a JSON object", type(data).__name__)
    if data.get("composite") is not True:
        raise InputError(
            where, 'must have "composite": true', data.get("composite"), "is it an AKG .info file?"
        )
    operators = _list(data, "op_desc", where)
    if not 0 < len(operators) <= MAX_OPERATORS:
        raise InputError(f"{where}: op_desc", f"must hold 1 to {MAX_OPERATORS} operators", len(operators))
    header = {
        key: value for key, value in data.items() if key not in ("input_desc", "output_desc", "op_desc", "op")
    }
    return CompositeRecord(
        name=_text(data, "op", where),
        inputs=tuple(_groups(data.get("input_desc"), f"{where}: input_desc")),
        outputs=tuple(
            _tensor(item, f"{where}: output_desc[{n}]")
            for n, item in enumerate(_list(data, "output_desc", where))
        ),
        operators=tuple(_operator(item, f"{where}: op_desc[{n}]") for n, item in enumerate(operators)),
        header=header,
    )


def _parsed(source: Source) -> tuple[str, Any]:
    if isinstance(source, Mapping):
        return "composite", source
    where = "composite"
    if not isinstance(source, bytes):
        path = Path(source)
        where = f"composite {path.name!r}"
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                raise InputError(where, f"must have at most {MAX_FILE_BYTES} bytes", path.stat().st_size)
            source = path.read_bytes()
        except OSError as error:
            raise InputError(
                where, f"cannot be read: {error.strerror or error}", remedy="check the path"
            ) from error
    if len(source) > MAX_FILE_BYTES:
        raise InputError(where, f"must have at most {MAX_FILE_BYTES} bytes", len(source))
    try:
        return where, json.loads(source)
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"is no valid JSON: {error}") from error


def _list(data: Mapping[str, Any], key: str, where: str) -> Sequence[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        raise InputError(f"{where}: {key}", "must be a list", type(value).__name__)
    return value


def _text(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: {key}", "must be a name", repr(value))
    return value


def _operator(item: Any, where: str) -> OperatorRecord:
    if not isinstance(item, Mapping):
        raise InputError(where, "must be an object", type(item).__name__)
    name = _text(item, "name", where)
    where = f"{where} ({name})"
    outputs = tuple(
        _tensor(one, f"{where}: output_desc[{n}]") for n, one in enumerate(_list(item, "output_desc", where))
    )
    if not outputs:
        raise InputError(where, "must have an output")
    return OperatorRecord(
        name,
        tuple(_groups(item.get("input_desc"), f"{where}: input_desc")),
        outputs,
        _attributes(item.get("attr"), where),
    )


def _attributes(items: Any, where: str) -> Mapping[str, Any]:
    if items is None:
        return {}
    if not isinstance(items, list) or not all(
        isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items
    ):
        raise InputError(
            f"{where}: attr", "must be null or a list of {name, value}", remedy="see docs/graph_kernel.md"
        )
    return {item["name"]: item.get("value") for item in items}


def _groups(items: Any, where: str) -> Iterator[TensorRecord]:
    """Tensors of nested lists in order; null means none."""
    if items is None:
        return
    if not isinstance(items, list) or not all(isinstance(group, list) for group in items):
        raise InputError(where, "must be null or a list of lists of tensors")
    for number, group in enumerate(items):
        for place, item in enumerate(group):
            yield _tensor(item, f"{where}[{number}][{place}]")


def _tensor(item: Any, where: str) -> TensorRecord:
    if not isinstance(item, Mapping):
        raise InputError(where, "must be a tensor", type(item).__name__)
    name = _text(item, "tensor_name", where)
    where = f"{where} ({name})"
    kind = item.get("data_type")
    try:
        dtype = DType(kind)
    except ValueError:
        known = ", ".join(one.value for one in DType)
        raise InputError(
            where, f"has the element type {kind!r}, which no operator here has", remedy=f"known are {known}"
        ) from None
    shape = item.get("shape")
    if not isinstance(shape, list) or len(shape) > MAX_RANK:
        raise InputError(
            f"{where}: shape", f"must be a list of at most {MAX_RANK} dimensions", repr(shape)[:80]
        )
    format = item.get("format", _DEFAULT_FORMAT)
    if not isinstance(format, str):
        raise InputError(f"{where}: format", "must be a name", repr(format))
    value = item.get("value")
    if value is not None and _count(value, where) > MAX_CONSTANT_ELEMENTS:
        raise InputError(f"{where}: value", f"must have at most {MAX_CONSTANT_ELEMENTS} elements")
    return TensorRecord(name, dtype, tuple(_dim(dim, where) for dim in shape) or (1,), format, value)


def _dim(dim: Any, where: str) -> Dim:
    if isinstance(dim, str) and dim:
        return dim
    if isinstance(dim, int) and not isinstance(dim, bool):
        if dim < 0:
            return None
        if dim < 1 << 40:
            return dim
    raise InputError(f"{where}: shape", "must hold sizes or symbols", repr(dim))


def _count(value: Any, where: str) -> int:
    """Numbers in a value."""
    pending, count = [value], 0
    while pending:
        item = pending.pop()
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, (int, float)):
            count += 1
        else:
            raise InputError(f"{where}: value", "must be a number or lists of numbers", type(item).__name__)
        if count + len(pending) > MAX_CONSTANT_ELEMENTS:
            return MAX_CONSTANT_ELEMENTS + 1
    return count
