"""Files of arrays: a dump of the user's own, by tensor or operator, from a dictionary or a folder of .npy
files; and outputs as an .npz file.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Union

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.core.files import open_whole
from ascendsim.graph.ir import Array, Graph, Tensor

Golden = Union[str, PathLike[str], Mapping[str, Any], None]

# msaccucmp's form of a file of an ONNX dump: operator.output.time stamp.npy, "/" written as "_"
_DUMPED = re.compile(r"(?P<name>.+)\.(?P<index>\d{1,4})\.\d{8,20}")


def read_golden(golden: Golden, graph: Graph) -> Mapping[Tensor, Callable[[], Array]]:
    """The arrays of a dump, to be read when their turn comes.

    Args:
        golden: By name of a tensor, or `operator:output`, or `operator` for its first output; a folder has
            such names as names of files, "/" written as "_", or those of msaccucmp's ONNX dumps,
            operator.output.timestamp.npy.
        graph: The user's graph.

    Raises:
        InputError: If the folder does not exist, or nothing in the dump has a name that the model knows.
    """
    known: dict[str, Tensor] = {}
    for node in graph.nodes:
        for number, tensor in enumerate(node.outputs):
            for name in (f"{node.name}:{number}", *([node.name] if not number else [])):
                known.setdefault(name, tensor)
    known.update({tensor.name: tensor for node in graph.nodes for tensor in node.outputs})
    if isinstance(golden, Mapping):
        arrays: dict[str, Callable[[], Array]] = {
            name: partial(np.asarray, array) for name, array in golden.items()
        }
        named = known
    else:
        arrays = _files(Path(str(golden)))
        named = {name.replace("/", "_"): tensor for name, tensor in known.items()}
    found = {named[name]: array for name, array in arrays.items() if name in named}
    if not found:
        raise InputError(
            "option golden",
            f"has no array of the model among {len(arrays)}",
            ", ".join(list(arrays)[:3]),
            "name arrays after tensors of the model or after operator:output",
        )
    return found


def _files(folder: Path) -> dict[str, Callable[[], Array]]:
    if not folder.is_dir():
        raise InputError(f"option golden: {str(folder)!r}", "is no folder")
    found: dict[str, Callable[[], Array]] = {}
    for path in sorted(folder.glob("*.npy")):
        dumped = _DUMPED.fullmatch(path.stem)
        name = path.stem if dumped is None else f"{dumped['name']}:{int(dumped['index'])}"
        found[name] = partial(read_array, path)
    return found


def read_array(path: str | PathLike[str]) -> Array:
    """Reads a .npy file; never executes what is in it.

    Raises:
        InputError: If the file is missing or is no plain array.
    """
    try:
        array: Any = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"file {str(path)!r}", "does not exist") from None
    except Exception as error:
        # damaged headers end in all sorts: TokenError, SyntaxError, MemoryError for a claimed size ...
        raise InputError(
            f"file {str(path)!r}", f"is no .npy array ({error})", remedy="write it with numpy.save"
        ) from None
    if not isinstance(array, np.ndarray):
        raise InputError(
            f"file {str(path)!r}", "must hold one array", "an archive of several", "write it with numpy.save"
        )
    return array


def write_arrays(path: str | PathLike[str], arrays: Mapping[str, Array]) -> Path:
    """Writes arrays as an .npz file, each under its name with "/" written as "_". `numpy.savez` takes names
    as those of its arguments, so that an output could not be called "file".

    Args:
        path: The file.
        arrays: By name. Of two whose written names are alike the later one has a number behind it.

    Raises:
        InputError: If it cannot be written.
    """
    taken: set[str] = set()
    with open_whole(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            written = stem = name.replace("/", "_")
            number = 1
            while written in taken:
                number += 1
                written = f"{stem}_{number}"
            taken.add(written)
            with archive.open(f"{written}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
    return Path(path)
