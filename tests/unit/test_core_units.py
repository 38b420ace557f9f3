"""Quantities: what is read back is what was written, and nonsense is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.core.errors import InputError
from ascendsim.core.units import format_size, parse_number, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("512B", 512),
        ("16KiB", 16384),
        ("16 kib", 16384),
        ("1.5MiB", 1572864),
        ("2GiB", 1 << 31),
        ("1KB", 1000),
        ("3MB", 3_000_000),
        ("1e3KB", 1_000_000),
        ("0.5 GB", 500_000_000),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text, "x") == size


@pytest.mark.parametrize(
    "text", ["", "MiB", "16 Mi", "16MiBs", "1..5", "0x10", "nan", "1e", "1_000", "9" * 50, "1,000"]
)
def test_no_size(text: str) -> None:
    with pytest.raises(InputError, match="^l2.size must be "):
        parse_size(text, "l2.size")


def test_fraction_of_a_byte() -> None:
    with pytest.raises(InputError, match="must be a whole number of bytes, not '1.0001KiB'"):
        parse_size("1.0001KiB", "x")


@pytest.mark.parametrize(("text", "number"), [("60", 60), ("-1", -1), ("0.25", 0.25), (" 1e3 ", 1000.0)])
def test_numbers(text: str, number: float) -> None:
    parsed = parse_number(text, "x")
    assert parsed == number
    assert type(parsed) is type(number)


def test_number_with_unit() -> None:
    with pytest.raises(InputError, match="frequency_mhz takes a plain number, not '900MHz'; leave out 'MHz'"):
        parse_number("900MHz", "frequency_mhz")


@given(st.integers(min_value=0, max_value=1 << 45))
def test_formatted_size_reads_back(size: int) -> None:
    assert parse_size(format_size(size), "x") == size
