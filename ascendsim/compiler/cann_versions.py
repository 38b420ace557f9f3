"""Versions of CANN: what the kernels of a chip did before they became what the chip's file says.

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
    """A property of `soc.KernelSpec` that was otherwise.

    Attributes:
        key: Field of `KernelSpec`.
        value: What it was.
        source: Where that is known from.
    """

    key: str
    value: bool
    source: str


_LONG_GELU = Change("gelu_two_exponents", True, "tbe/impl/gelu.py of 2020: one formula for all chips")
_NO_POLYNOMIAL = Change("sigmoid_polynomial", False, "tbe/impl/dynamic/sigmoid.py of 2021: no impl_mode")
_ROWS = Change(
    "softmax_pads_fractals", False, "tbe/impl/softmax_v2.py of 2020: NC1HWC0 and ND on Ascend610 and its like"
)
VERSIONS: Mapping[str, Mapping[str, tuple[Change, ...]]] = {
    "5.0": {"m200": (_LONG_GELU, _NO_POLYNOMIAL, _ROWS)},
    "5.1": {"m200": (_LONG_GELU, _NO_POLYNOMIAL)},
    "6.0": {},
}
"""By version, oldest first, and generation of cores: how it differs from the newest."""
_NUMBERS = re.compile(r"\s*(?:CANN\s*)?(\d+)\.(\d+)", re.IGNORECASE)


def version_of(text: str) -> str:
    """The version of this table that a name stands for.

    Raises:
        InputError: If the name does not begin with two numbers, or is older than the table.

    >>> version_of("5.1.RC2"), version_of("CANN 7.0.RC1")
    ('5.1', '6.0')
    """
    found = _NUMBERS.match(text)
    remedy = "give it as 5.0.2 or 5.1.RC1; the newest is the default"
    if found is None:
        raise InputError("option cann", "must be a version of CANN", repr(text), remedy)
    asked = (int(found[1]), int(found[2]))
    known = [name for name in VERSIONS if tuple(map(int, name.split("."))) <= asked]
    if not known:
        raise InputError("option cann", f"must be {next(iter(VERSIONS))} or newer", repr(text), remedy)
    return known[-1]


def older_kernels(soc: SocSpec, cann: str | None) -> str:
    """The version of this table that a name stands for if kernels of the chip differ from the newest there,
    else "".
    """
    if cann is None:
        return ""
    version = version_of(cann)
    return version if VERSIONS[version].get(soc.generation) else ""


def with_version(soc: SocSpec, cann: str | None) -> SocSpec:
    """A chip with the kernels of a version of CANN.

    Raises:
        InputError: If the version is not known.
    """
    if cann is None:
        return soc
    changes = VERSIONS[version_of(cann)].get(soc.generation, ())
    if not changes:
        return soc
    old: dict[str, Any] = {change.key: change.value for change in changes}
    return replace(soc, kernels=replace(soc.kernels, **old))
