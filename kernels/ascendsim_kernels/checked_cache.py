"""Numba's cache of compiled kernels, with a sum in front of each file: what a disk has damaged, and what lies
under the name of something else, is compiled anew, as its machine code would run as it is. A disk that takes
no more stops nothing. Files lie where the content of a function's source says, not its path, so that all
environments with one version of the package share what is compiled.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import config
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    UserProvidedCacheLocator,
)

_LOG = logging.getLogger("ascendsim")
_SUM = 16  # bytes


class _CheckedFile(IndexDataCacheFile):  # type: ignore[misc]
    """The files of one function: an index of signatures and one file for each, in numba's layout."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        try:
            found = super().load(key)
        except OSError:  # cannot be read: as if it were not there
            return None
        return found[1] if found is not None and found[0] == key else None

    def _load_index(self) -> Any:
        found = _content(Path(self._index_path))
        version, stamp, names = pickle.loads(found) if found is not None else (None, None, {})
        return names if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, overloads: Any) -> None:
        content = self._dump((self._version, self._source_stamp, overloads))
        self._write(Path(self._index_path), content)

    def _load_data(self, name: str) -> Any:
        found = _content(Path(self._data_path(name)))
        return None if found is None else pickle.loads(found)

    def _save_data(self, name: str, data: Any) -> None:
        self._write(Path(self._data_path(name)), self._dump(data))

    def _write(self, path: Path, content: bytes) -> None:
        with self._open_for_write(str(path)) as file:
            file.write(_sum(path, content) + content)


class _ByContent(UserProvidedCacheLocator):  # type: ignore[misc]
    """The folder of a function: named by what its source file says."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)
        self._content = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        self._cache_path = str(Path(config.CACHE_DIR) / f"{Path(file).stem}_{self._content[:16]}")

    def get_source_stamp(self) -> str:
        return self._content


class _Files(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_ByContent,)


class CheckedCache(FunctionCache):  # type: ignore[misc]
    """The cache of one function.

    Args:
        function: To be compiled; numba's setting CACHE_DIR says where.

    Raises:
        RuntimeError: If there is no place for it.
    """

    _impl_class = _Files

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CheckedFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keeps what was compiled, where it can be kept."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _told(self._cache_path, error.strerror or str(error))


def _sum(path: Path, content: bytes) -> bytes:
    return hashlib.blake2b(path.name.encode() + b"\0" + content, digest_size=_SUM).digest()


def _content(path: Path) -> bytes | None:
    """What a file holds, None if there is none or its sum is not that of its content."""
    try:
        found = path.read_bytes()
    except FileNotFoundError:
        return None
    if found[:_SUM] == _sum(path, found[_SUM:]):
        return found[_SUM:]
    _LOG.warning("compiled kernels in %s are damaged and made anew", path)
    return None


@cache
def _told(folder: str, why: str) -> None:
    """Says once a folder and reason that what is compiled lives no longer than the process."""
    _LOG.warning("compiled kernels are not kept: %s cannot be written (%s)", folder, why)
