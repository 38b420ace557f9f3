"""What may stand at a path before a file is written there, and what must stand there afterwards."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ascendsim.core.errors import InputError

Writer = Callable[[Path], object]
OLD = b"what was there before"


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _refused(write: Writer, path: Path, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        write(path)
    assert "\n" not in str(caught.value)


def nothing(write: Writer, path: Path) -> bytes:
    write(path)
    assert _mode(path) == 0o666 & ~_umask()
    return path.read_bytes()


def old_file(write: Writer, path: Path) -> bytes:
    path.write_bytes(OLD)
    path.chmod(0o640)
    owner = (12345, 23456) if os.getuid() == 0 else (os.getuid(), os.getgid())
    os.chown(path, *owner)
    write(path)
    about = path.stat()
    assert _mode(path) == 0o640
    assert (about.st_uid, about.st_gid) == owner
    return path.read_bytes()


def link(write: Writer, path: Path) -> bytes:
    (path.parent / "aside").mkdir()
    target = path.parent / "aside" / "target"
    target.write_bytes(OLD)
    (path.parent / "middle").symlink_to("aside/target")
    path.symlink_to("middle")
    write(path)
    assert path.readlink() == Path("middle")
    assert (path.parent / "middle").readlink() == Path("aside/target")
    assert not target.is_symlink()
    return target.read_bytes()


def dangling_link(write: Writer, path: Path) -> bytes:
    path.symlink_to("not_there")
    write(path)
    assert path.readlink() == Path("not_there")
    return (path.parent / "not_there").read_bytes()


def link_without_folder(write: Writer, path: Path) -> None:
    path.symlink_to("none/not_there")
    _refused(write, path, "No such file or directory")
    assert path.is_symlink()


def circle(write: Writer, path: Path) -> None:
    path.symlink_to("other")
    (path.parent / "other").symlink_to(path.name)
    _refused(write, path, "symbolic links")
    assert path.readlink() == Path("other")


def read_only(write: Writer, path: Path) -> None:
    path.write_bytes(OLD)
    path.chmod(0o444)
    _refused(write, path, "it is read-only")
    assert path.read_bytes() == OLD
    assert _mode(path) == 0o444


def link_to_read_only(write: Writer, path: Path) -> None:
    (path.parent / "kept").write_bytes(OLD)
    (path.parent / "kept").chmod(0o400)
    path.symlink_to("kept")
    _refused(write, path, "it is read-only")
    assert path.read_bytes() == OLD


def folder(write: Writer, path: Path) -> None:
    path.mkdir()
    _refused(write, path, "Is a directory")
    assert path.is_dir()


def several_names(write: Writer, path: Path) -> bytes:
    path.write_bytes(OLD)
    (path.parent / "twin").hardlink_to(path)
    write(path)
    assert path.samefile(path.parent / "twin")
    return (path.parent / "twin").read_bytes()


def pipe(write: Writer, path: Path) -> bytes:
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()), daemon=True)
    reader.start()
    write(path)
    reader.join(30)
    assert stat.S_ISFIFO(path.lstat().st_mode)
    return got[0]


def device(write: Writer, path: Path) -> None:
    about = os.stat("/dev/null")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, about.st_rdev)
        path.open("wb").close()
    except PermissionError:  # no superuser, or a file system without devices: the link stands for it
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/null")
    before = path.lstat()
    write(path)
    assert os.path.samestat(path.lstat(), before)
    assert stat.S_ISCHR(path.stat().st_mode)
    assert os.stat("/dev/null").st_ino == about.st_ino


def full_device(write: Writer, path: Path) -> None:
    path.symlink_to("/dev/full")
    _refused(write, path, "No space left")
    assert stat.S_ISCHR(path.stat().st_mode)


def open_file(write: Writer, path: Path) -> bytes:
    """As /dev/stdout: a link of the kernel's to a file of this process, here one that has no name."""
    with (path.parent / "gone").open("w+b") as stream:
        stream.write(OLD)
        stream.flush()
        (path.parent / "gone").unlink()
        path.symlink_to(f"/dev/fd/{stream.fileno()}")
        write(path)
        stream.seek(0)
        got = stream.read()
    assert got.startswith(OLD)
    return got[len(OLD) :]


def long_name(write: Writer, path: Path) -> bytes:
    longest = path.with_name("n" * (255 - len(path.suffix)) + path.suffix)
    write(longest)
    return longest.read_bytes()


# What may stand there, each with what must come of it: the bytes that were written, None where none are
KINDS: tuple[Callable[[Writer, Path], bytes | None], ...] = (
    *(nothing, old_file, link, dangling_link, link_without_folder, circle, read_only, link_to_read_only),
    *(folder, several_names, pipe, device, full_device, open_file, long_name),
)
