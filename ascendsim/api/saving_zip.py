"""The container of a saved model: a ZIP archive whose entries are stored as they are, each with a checksum.

Nothing is compressed, so no entry can be larger than the file itself.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from ascendsim.core.errors import InputError

MAX_TEXT = 256 << 20  # bytes of an entry that is parsed; the graph of BERT-large has about 1 MB
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal models give equal files
# What zipfile raises where an archive is damaged, besides BadZipFile.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,  # a compression or version that zipfile does not know
    RuntimeError,
    LookupError,
    ValueError,
    OverflowError,
)


def write_entries(stream: BinaryIO, texts: Mapping[str, bytes], name: str, chunks: Iterable[bytes]) -> None:
    """Writes small entries, and one large entry piece by piece."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for text_name, content in texts.items():
            archive.writestr(zipfile.ZipInfo(text_name, _EPOCH), content)
        with archive.open(zipfile.ZipInfo(name, _EPOCH), "w", force_zip64=True) as entry:
            for chunk in chunks:
                entry.write(chunk)


def read_entries(path: str | PathLike[str], names: Iterable[str], large: str) -> dict[str, bytes]:
    """Reads the named entries; all of them must be there, others are passed over.

    Args:
        path: The file.
        names: Of all entries.
        large: Name of the only entry that may be larger than `MAX_TEXT`.

    Raises:
        InputError: If the file cannot be read, is no archive, or is damaged.
    """
    subject = f"file {str(path)!r}"
    try:
        size = Path(path).stat().st_size
        with zipfile.ZipFile(path) as archive:
            return {
                name: _content(archive, name, size if name == large else min(size, MAX_TEXT), subject)
                for name in names
            }
    except OSError as error:
        raise InputError(
            subject, f"cannot be read ({error.strerror or error})", remedy="check the name"
        ) from None
    except _DAMAGE as error:
        raise InputError(
            subject, f"is no saved model, or damaged ({error})", remedy="save the model again"
        ) from None


def _content(archive: zipfile.ZipFile, name: str, limit: int, subject: str) -> bytes:
    info = archive.getinfo(name)
    if (
        info.compress_type != zipfile.ZIP_STORED
        or info.file_size != info.compress_size
        or info.file_size > limit
    ):
        raise InputError(
            subject, f"has an entry {name} that no saved model has", remedy="save the model again"
        )
    content = archive.read(info)  # compares the checksum
    if len(content) != info.file_size:
        raise InputError(subject, f"ends within its entry {name}", remedy="save the model again")
    return content
