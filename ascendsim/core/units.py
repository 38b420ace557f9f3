"""Quantities as people write them: sizes with unit suffixes in, short readable text out."""

from __future__ import annotations

import re

from ascendsim.core.errors import InputError

GIB = 1 << 30
_FACTORS = {
    "": 1,
    "B": 1,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
}
_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z]*)\s*")
_MAX_LENGTH = 40  # characters of a quantity; longer text is no number that means anything here


def parse_number(text: str, subject: str) -> int | float:
    """Reads a plain number; an int where the text has neither point nor exponent.

    Raises:
        InputError: If the text is no number; `subject` names it.

    >>> parse_number("60", "dram.read_gb_per_s"), parse_number("0.5", "x")
    (60, 0.5)
    """
    number, unit = _split(text, subject)
    if unit:
        raise InputError(subject, "takes a plain number", repr(text), f"leave out {unit!r}")
    return int(number) if number.lstrip("+-").isdigit() else float(number)


def parse_size(text: str, subject: str) -> int:
    """Reads a number of bytes: plain, or with KiB, MiB, GiB (powers of 1024) or KB, MB, GB (powers of 1000).

    Raises:
        InputError: If the text is no whole number of bytes; `subject` names it.

    >>> parse_size("16MiB", "l2.size"), parse_size("1.5 KB", "x"), parse_size("8192", "x")
    (16777216, 1500, 8192)
    """
    number, unit = _split(text, subject)
    factor = _FACTORS.get(unit.upper())
    if factor is None:
        raise InputError(subject, "must be bytes with one of the units KiB, MiB, GiB, KB, MB, GB", repr(text))
    if number.lstrip("+-").isdigit():
        return int(number) * factor
    size = float(number) * factor
    if not size.is_integer():
        raise InputError(subject, "must be a whole number of bytes", repr(text))
    return int(size)


def format_size(size: int) -> str:
    """The shortest exact text of a number of bytes, in powers of 1024.

    >>> format_size(8388608), format_size(253952), format_size(100)
    ('8 MiB', '248 KiB', '100 B')
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} B"


def _split(text: str, subject: str) -> tuple[str, str]:
    match = _NUMBER.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise InputError(subject, "must be a number", repr(text[:_MAX_LENGTH]))
    return match[1], match[2]
