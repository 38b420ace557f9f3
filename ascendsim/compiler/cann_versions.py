"""Versions of CANN: what kernels and launches of a chip were before they became what the chip's file says.

The file has the newest version. Each version here lists what was otherwise up to it, by generation of cores,
as far as public sources tell it; `None` in `compile(cann=None)` is the newest. Names that READMEs and
packages use ("5.0.2.alpha003", "5.1.RC2", "6.3.RC1") stand for the last version here that is not newer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ascendsim.core.errors import InputError
from ascendsim.soc import SocSpec


@dataclass(frozen=True, slots=True)
class Change:
    """A figure or property of a chip that was otherwise.

    Attributes:
        key: Dotted key of `SocSpec`: "kernels.sigmoid_polynomial".
        value: What it was.
        source: Where that is known from.
    """

    key: str
    value: bool | float
    source: str


_LONG_GELU = Change("kernels.gelu_two_exponents", True, "tbe/impl/gelu.py of 2020: one formula for all chips")
_NO_POLYNOMIAL = Change(
    "kernels.sigmoid_polynomial", False, "tbe/impl/dynamic/sigmoid.py of 2021: no impl_mode"
)
_ROWS = Change(
    "kernels.softmax_pads_fractals",
    False,
    "tbe/impl/softmax_v2.py of 2020: NC1HWC0 and ND on Ascend610 and its like",
)
# Assumed. Of eight networks that were published on 310P and on 310P3 at batch 1, the older runs take 0.5 us a
# task longer (median).
_WIDE_GAP = Change(
    "launch.task_gap_us",
    1.2,
    "between queued tasks of Ascend910A, whose profiles are of these versions; nothing says it of 310P",
)
VERSIONS: Mapping[str, Mapping[str, tuple[Change, ...]]] = {
    "5.0": {"m200": (_LONG_GELU, _NO_POLYNOMIAL, _WIDE_GAP, _ROWS)},
    "5.1": {"m200": (_LONG_GELU, _NO_POLYNOMIAL, _WIDE_GAP)},
    "6.0": {},
    "8.0": {},
}
"""By version, oldest first, and generation of cores: how kernels and launches differ from the newest."""
_CUBE_IN_FLOAT16 = "8.0"
# The newest ONNX opset that ATC takes, from a version on: its pages "ONNX operator specifications" of 5.0.4,
# 6.0.1 (opset 9 to 13) and 7.0 (9 to 18), and the one of --framework of GE's main branch in 2026 (11 to 18).
_OPSETS = {(5, 0): 13, (7, 0): 18}
_REMEDY = "give it as 5.0.2 or 7.0; the newest is the default"
_NUMBERS = re.compile(r"\s*(?:CANN\s*)?(\d+)\.(\d+)", re.IGNORECASE)


def version_of(text: str) -> str:
    """The version of this table that a name stands for.

    Raises:
        InputError: If the name does not begin with two numbers, or is older than the table.

    >>> version_of("5.1.RC2"), version_of("CANN 7.0.RC1"), version_of("8.5")
    ('5.1', '6.0', '8.0')
    """
    asked = _numbers(text)
    known = [name for name in VERSIONS if _numbers(name) <= asked]
    if not known:
        raise InputError("option cann", f"must be {next(iter(VERSIONS))} or newer", repr(text), _REMEDY)
    return known[-1]


def _numbers(text: str) -> tuple[int, int]:
    found = _NUMBERS.match(text)
    if found is None:
        raise InputError("option cann", "must be a version of CANN", repr(text), _REMEDY)
    return int(found[1]), int(found[2])


def newest_opset(cann: str | None) -> int:
    """The newest ONNX opset whose operators ATC has parsers for.

    Raises:
        InputError: If the version is not known.
    """
    if cann is None:
        return max(_OPSETS.values())
    version_of(cann)
    return [opset for since, opset in _OPSETS.items() if since <= _numbers(cann)][-1]


def cube_in_float16(cann: str | None) -> bool:
    """Whether allow_fp32_to_fp16 puts float32 operators of the Cube into float16 on chips whose Cube takes
    float32 as well; all other operators keep it.

    ATC's page of --precision_mode: operators that have float32 keep it, whatever they are (CANN 6.0.1);
    matrix operators take float16, vector operators keep what they have (8.0.RC1 and all later ones). No page
    of 6.3 or 7.0 was found: they count as 6.0, which is assumed.

    Raises:
        InputError: If the version is not known.
    """
    names = tuple(VERSIONS)
    return cann is None or names.index(version_of(cann)) >= names.index(_CUBE_IN_FLOAT16)


def changes_of(soc: SocSpec, cann: str | None) -> tuple[Change, ...]:
    """What a version of CANN changes of a chip.

    Raises:
        InputError: If the version is not known.
    """
    return () if cann is None else VERSIONS[version_of(cann)].get(soc.generation, ())


def older_kernels(soc: SocSpec, cann: str | None) -> str:
    """The version of this table that a name stands for if the chip differs from the newest there, else ""."""
    return version_of(cann) if cann is not None and changes_of(soc, cann) else ""


def with_version(soc: SocSpec, cann: str | None) -> SocSpec:
    """A chip as it is with a version of CANN. What the user has set stays.

    Raises:
        InputError: If the version is not known.
    """
    for change in changes_of(soc, cann):
        if change.key not in soc.overrides:
            part, _, name = change.key.partition(".")
            old: dict[str, Any] = {name: change.value}
            soc = replace(soc, **{part: replace(getattr(soc, part), **old)})
    return soc
