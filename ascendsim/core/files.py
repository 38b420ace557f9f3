"""Files that users name: paths, bounded reading, and writing whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

from ascendsim.core.errors import InputError


def path_option(name: str, value: Any) -> Path:
    """The path that an option gives.

    Raises:
        InputError: If it is no path.
    """
    if not isinstance(value, (str, PathLike)):
        raise InputError(f"option {name}", "must be a path", repr(value))
    return Path(value)


def read_bounded(path: str | PathLike[str], subject: str, most: int, code: str = "") -> bytes:
    """Reads a file that a user names, but no more than one byte beyond a limit, so that the caller can tell
    what is too large.

    Args:
        path: The file.
        subject: What messages call it.
        most: Bytes that it may have.
        code: Put behind the message, for example CANN's code.

    Raises:
        InputError: If it cannot be opened or read.
    """
    try:
        with Path(path).open("rb") as stream:
            return stream.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(
            subject, f"cannot be opened ({why}){code}", remedy="give the path of a readable file"
        ) from None


@contextmanager
def _writing(path: str | PathLike[str], subject: str, remedy: str) -> Iterator[None]:
    """Says in the project's way what cannot be written, and why.

    Raises:
        InputError: In place of an OSError.
    """
    try:
        if "\0" in str(path):
            raise OSError(errno.EINVAL, "it has a NUL character")
        yield
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{subject} {str(path)!r}", f"cannot be written ({why})", remedy=remedy) from None


def check_place(path: str | PathLike[str]) -> Path:
    """Refuses a file that cannot be written where it is to lie, before any work is done; makes nothing.

    Raises:
        InputError: If its folder is not there or cannot be written, or the file is a folder.
    """
    with _writing(path, "file", "choose another place"):
        target = Path(path)
        os.scandir(target.parent).close()
        if target.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    return target


def make_folder(path: str | PathLike[str]) -> Path:
    """Makes a folder that a user names, and those around it, if it is not there.

    Raises:
        InputError: If it cannot be made.
    """
    with _writing(path, "output folder", "choose another folder"):
        Path(path).mkdir(parents=True, exist_ok=True)
    return Path(path)


@contextmanager
def open_whole(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a file to write so that it appears under its name only if the block ends well; a reader never
    sees a part of it.

    Args:
        path: File to write; its folder must exist.

    Raises:
        InputError: If it cannot be written; nothing is left behind then.
    """
    with _writing(path, "file", "choose another place"):
        target = Path(path)
        if not target.name:
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        scratch = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            with scratch.open("wb") as stream:
                yield stream
            scratch.replace(target)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


def write_whole(path: str | PathLike[str], content: bytes) -> Path:
    """Writes a file so that a reader sees the old content or the new one, never a part.

    Args:
        path: File to write; its folder must exist.
        content: All bytes of the file.

    Raises:
        InputError: If it cannot be written; nothing is left behind then.
    """
    with open_whole(path) as stream:
        stream.write(content)
    return Path(path)
