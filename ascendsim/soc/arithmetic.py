"""Which float16 a chip computes in: CANN's INF_NAN_MODE_ENABLE, for the chips that have both modes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import SATURATING_FLOAT16
from ascendsim.core.errors import InputError
from ascendsim.soc.spec import INF_NAN, SATURATION, SocSpec

_TITLES = {INF_NAN: "the INF_NAN mode", SATURATION: "the saturation mode"}


def in_mode(soc: SocSpec, inf_nan_mode_enable: bool | None) -> SocSpec:
    """The chip with one of its modes as its default.

    Args:
        soc: The chip.
        inf_nan_mode_enable: True: overflow gives infinity, as IEEE 754 has it. False: it gives the last
            number, and NaN is 0. None: as the chip has it.

    Raises:
        InputError: If the chip has not that mode.
    """
    if inf_nan_mode_enable is None:
        return soc
    has, mode = soc.arithmetic.overflow, INF_NAN if inf_nan_mode_enable else SATURATION
    if mode not in has:
        rule = f"must be {int(INF_NAN in has)} on {soc.name}, which has {_TITLES[has[0]]} only"
        raise InputError("option inf_nan_mode_enable", rule, int(inf_nan_mode_enable), "leave it out")
    if has[0] == mode:
        return soc
    ordered = (mode, *(other for other in has if other != mode))
    return replace(soc, arithmetic=replace(soc.arithmetic, overflow=ordered))


def float16_of(soc: SocSpec) -> np.dtype[Any]:
    """The type of float16 numbers on a chip, in its default mode (`core.dtypes.saturates` says which)."""
    return SATURATING_FLOAT16 if soc.arithmetic.overflow[:1] == (SATURATION,) else np.dtype(np.float16)
