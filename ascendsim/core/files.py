"""Files that users name: paths, bounded reading, and writing whole or not at all. The only module that writes
files: what stands at a path already (`ascendsim/core/places.py`) is nowhere else looked at.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, cast

from ascendsim.core.errors import InputError
from ascendsim.core.places import place_of

_MOST_STEM = 160  # bytes of 255: prefixes, endings and numbers come on top
_IN_MEMORY = 1 << 26  # bytes of a text on its way to a device; the rest waits in a temporary file


def path_option(name: str, value: Any) -> Path:
    """The path that an option gives.

    Raises:
        InputError: If it is no path.
    """
    if not isinstance(value, (str, PathLike)):
        raise InputError(f"option {name}", "must be a path", repr(value))
    return Path(value)


def file_stem(name: str, otherwise: str = "unnamed") -> str:
    """A name from a model as part of the name of a file: what means something in paths becomes "_", and a
    long name keeps its head, so that it and a prefix and an ending fit into 255 bytes, and a digest of the
    whole, so that it stays the only one.

    Args:
        name: Of a graph, node or rule.
        otherwise: In place of an empty one.

    >>> file_stem("torch/main.graph"), file_stem("")
    ('torch_main.graph', 'unnamed')
    """
    stem = "".join("_" if letter in '/\\:*?"<>|' or not letter.isprintable() else letter for letter in name)
    stem = "_" * len(stem) if stem in (".", "..") else stem
    content = stem.encode("utf-8", "replace")
    if len(content) > _MOST_STEM:
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        stem = f"{content[: _MOST_STEM - 17].decode('utf-8', 'ignore')}-{digest}"
    return stem or otherwise


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


def read_text(path: str | PathLike[str], subject: str, most: int) -> str:
    """Reads a text file that a user names.

    Args:
        path: The file.
        subject: What messages call it.
        most: Bytes that it may have.

    Raises:
        InputError: If it cannot be opened or read, is larger, or is not UTF-8.
    """
    content = read_bounded(path, subject, most)
    if len(content) > most:
        raise InputError(subject, f"must not be larger than {most:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            subject, f"must be UTF-8 text (line {line} is not)", remedy="save it as UTF-8"
        ) from None


@contextmanager
def _writing(path: str | PathLike[str], subject: str, remedy: str) -> Iterator[None]:
    """Says in the project's way what cannot be written, and why.

    Raises:
        InputError: In place of an OSError.
    """
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise InputError(f"{subject} {str(path)!r}", f"cannot be written ({why})", remedy=remedy) from None


def check_place(path: str | PathLike[str]) -> Path:
    """Refuses a file that cannot be written where it is to lie, before any work is done; makes nothing.

    Raises:
        InputError: If its folder is not there or cannot be written, or what stands there cannot be written
            (`place_of`).
    """
    with _writing(path, "file", "choose another place"):
        place = place_of(path)
        if place.found is None and not place.straight:
            os.scandir(place.path.parent).close()
            if not os.access(place.path.parent, os.W_OK | os.X_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    return Path(path)


def check_database(path: str | PathLike[str]) -> Path:
    """The file, at the end of all links, in which a database lies or will lie; makes nothing.

    Raises:
        InputError: If what stands there is no regular file or cannot be written (`place_of`).
    """
    with _writing(path, "store", "choose another place"):
        place = place_of(path)
        if place.straight:
            raise OSError(errno.EINVAL, "it is no regular file")
    return place.path


def make_folder(path: str | PathLike[str]) -> Path:
    """Makes a folder that a user names, and those around it, if it is not there. Where a link leads to a
    folder that is not there, that one is made.

    Raises:
        InputError: If it cannot be made.
    """
    with _writing(path, "output folder", "choose another folder"):
        if "\0" in str(path):
            raise OSError(errno.EINVAL, "it has a NUL character")
        try:
            os.stat(path)
        except FileNotFoundError:
            Path(os.path.realpath(path)).mkdir(parents=True, exist_ok=True)
        if not Path(path).is_dir():
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return Path(path)


def remove_file(path: str | PathLike[str]) -> None:
    """Removes a file of an earlier run, if there is one; links stay, as does what is no regular file.

    Raises:
        InputError: If it cannot be removed.
    """
    with _writing(path, "file", "remove it, or choose another place"):
        place = place_of(path)
        if place.found is not None:
            place.path.unlink(missing_ok=True)


@contextmanager
def open_whole(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a file to write so that it appears under its name only if the block ends well; a reader never
    sees a part of it.

    What stands at the path stays what it is: a link, whose target gets the text (one that leads nowhere
    makes the file that it names); a device or a pipe, which gets the bytes when all are there; the mode and
    owner of an older file; and all names of a file that has several (it is written over).

    Args:
        path: File to write; its folder must exist.

    Raises:
        InputError: If it cannot be written; nothing is left behind then.
    """
    with _writing(path, "file", "choose another place"):
        place = place_of(path)
        if not place.in_folder():
            with tempfile.SpooledTemporaryFile(_IN_MEMORY) as waiting:
                yield cast(BinaryIO, waiting)
                waiting.seek(0)
                with place.open() as target:
                    shutil.copyfileobj(waiting, target)
            return
        scratch = place.path.with_name(f".{secrets.token_hex(8)}.partial")  # short: names may be 255 bytes
        try:
            with scratch.open("xb") as stream:
                yield stream
            place.take(scratch)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


def write_whole(path: str | PathLike[str], content: bytes) -> Path:
    """Writes a file so that a reader sees the old content or the new one, never a part.

    Args:
        path: File to write; its folder must exist.
        content: All bytes of the file.

    Raises:
        InputError: If it cannot be written; see `open_whole`.
    """
    with open_whole(path) as stream:
        stream.write(content)
    return Path(path)
