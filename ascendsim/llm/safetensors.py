"""Files of weights in the safetensors format: a header in JSON, then values, which are read when needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array

_MOST_HEADER = 100_000_000  # bytes; the format's own limit
_TYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


def checkpoint(path: Path) -> dict[str, Callable[[], Array]]:
    """What reads the tensors of a file, or of all files of a folder, by name.

    Raises:
        InputError: If there is no such file, or one is malformed.
    """
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"folder {str(path)!r}", "has no .safetensors files")
    found: dict[str, Callable[[], Array]] = {}
    for file in files:
        found.update(_tensors(file))
    return found


def _tensors(path: Path) -> Iterator[tuple[str, Callable[[], Array]]]:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(_MOST_HEADER, size - 8):
                raise InputError(
                    f"file {str(path)!r}", "is no safetensors file: its header has a wrong length"
                )
            header = json.loads(file.read(length))
    except OSError as error:
        raise InputError(f"file {str(path)!r}", f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"file {str(path)!r}", f"is no safetensors file: {error}") from error
    if not isinstance(header, dict):
        raise InputError(f"file {str(path)!r}", "is no safetensors file: its header is no object")
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            kind, shape = np.dtype(_TYPES[entry["dtype"]]), tuple(map(int, entry["shape"]))
            first, last = map(int, entry["data_offsets"])
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            raise InputError(
                f"file {str(path)!r}: tensor {name!r}", "is malformed", repr(entry)[:60]
            ) from error
        whole = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        if not 0 <= first <= last <= size - 8 - length or last - first != whole or min(shape, default=1) < 0:
            raise InputError(
                f"file {str(path)!r}: tensor {name!r}", "does not fit its offsets", [first, last]
            )
        yield name, partial(_read, path, 8 + length + first, kind, shape)


def _read(path: Path, offset: int, kind: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    return np.fromfile(path, kind, count, offset=offset).reshape(shape)
