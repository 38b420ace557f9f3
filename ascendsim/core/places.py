"""What stands at a path that is to be written: whether a file there may be replaced, and how without taking
away what is not the writer's own (devices, pipes, links, modes, owners).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import BinaryIO

_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_OPEN_FILE = re.compile(r"/(?:dev/fd|proc/(?:self|thread-self|\d+)/fd)/(\d{1,9})")
_MOST_LINKS = 40  # as Linux follows


@dataclass(frozen=True)
class Place:
    """Where a text goes.

    Attributes:
        path: The end of all links, as a link stays what it is and its target gets the text.
        found: The regular file that is there; None if there is none.
        straight: What is there takes bytes but is no regular file (a device, a pipe), so that nothing can
            take its place.
        number: Of the open file of this process that the path names (/dev/stdout); None if it names none.
    """

    path: Path
    found: os.stat_result | None = None
    straight: bool = False
    number: int | None = None

    def in_folder(self) -> bool:
        """Whether a new file can be made beside it; only then can it appear whole."""
        if self.straight:
            return False
        return self.found is None or os.access(self.path.parent, os.W_OK | os.X_OK)

    def open(self) -> BinaryIO:
        """Opens what is there, to write over it."""
        if self.number is None:
            return self.path.open("wb")
        for stream in (sys.stdout, sys.stderr):  # what was printed before comes before
            if stream is not None:
                stream.flush()
        return os.fdopen(os.dup(self.number), "wb")

    def take(self, scratch: Path) -> None:
        """Puts a file that was made beside it in its place. An older file keeps mode, owner and attributes;
        one that has several names (hard links), or that cannot be replaced by a file of the same owner, or
        not at all (mounted by itself, as containers do), is written over.
        """
        if self.found is None:
            scratch.replace(self.path)
            return
        try:
            if self.found.st_nlink > 1:
                raise OSError(errno.EMLINK, os.strerror(errno.EMLINK))
            if hasattr(os, "chown"):
                os.chown(scratch, self.found.st_uid, self.found.st_gid)
            shutil.copystat(self.path, scratch)
            os.utime(scratch)
            scratch.replace(self.path)
        except OSError:
            with scratch.open("rb") as source, self.open() as target:
                shutil.copyfileobj(source, target)
            scratch.unlink()


def place_of(path: str | PathLike[str]) -> Place:
    """Looks at what stands at a path; makes and opens nothing.

    Raises:
        OSError: If it cannot be written: a folder, a file that is read-only (for the superuser too: its mode
            says that it is to stay), a block device, a socket, links in a circle, a NUL character.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "it has a NUL character")
    if not Path(path).name:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    number = _open_file(Path(path))
    if number is not None:
        os.fstat(number)
        return Place(Path(path), straight=True, number=number)
    try:
        found = os.stat(path)
    except FileNotFoundError:  # a new file, also at the end of links
        return Place(Path(os.path.realpath(path)))
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if kind in (stat.S_IFBLK, stat.S_IFSOCK):
        raise OSError(errno.EINVAL, "a block device" if kind == stat.S_IFBLK else "a socket")
    if not found.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, "it is read-only")
    if kind != stat.S_IFREG:
        return Place(Path(path), straight=True)
    return Place(Path(os.path.realpath(path)), found)


def _open_file(path: Path) -> int | None:
    """The number of the open file of this process that a path names, links followed one by one: the kernel's
    own link from there leads to a file that may have lost its name.
    """
    for _ in range(_MOST_LINKS):
        name = os.path.abspath(path)
        if name in _STANDARD:
            return _STANDARD[name]
        if found := _OPEN_FILE.fullmatch(name):
            own = name.startswith(("/dev/", "/proc/self/", "/proc/thread-self/", f"/proc/{os.getpid()}/"))
            return int(found[1]) if own else None
        if not path.is_symlink():
            return None
        path = path.parent / path.readlink()
    return None
