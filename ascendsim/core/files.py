"""Writing output files whole or not at all."""

from __future__ import annotations

import os
from os import PathLike
from pathlib import Path


def write_whole(path: str | PathLike[str], content: bytes) -> Path:
    """Writes a file so that a reader sees the old content or the new one, never a part.

    Args:
        path: File to write; its folder must exist.
        content: All bytes of the file.

    Raises:
        OSError: If it cannot be written; nothing is left behind then.
    """
    target = Path(path)
    scratch = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        scratch.write_bytes(content)
        scratch.replace(target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    return target
