"""Which float16 a chip computes in: CANN's INF_NAN_MODE_ENABLE, for the chips that have both modes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascendsim.core.dtypes import SATURATING_FLOAT16
from ascendsim.core.errors import InputError
from ascendsim.soc.spec import INF_NAN, SATURATION, SocSpec

OPTION = "inf_nan_mode_enable"
_TITLES = {INF_NAN: "the INF_NAN mode", SATURATION: "the saturation mode"}


def float16_of(soc: SocSpec, inf_nan_mode_enable: bool | None = None) -> np.dtype[Any]:
    """The type of float16 numbers on a chip (`core.dtypes.saturates` tells the two apart).

    Args:
        soc: The chip.
        inf_nan_mode_enable: True: overflow gives infinity, as IEEE 754 has it. False: it gives the last
            number, and NaN is 0. None: as the chip has it by default.

    Raises:
        InputError: If the chip has not that mode.
    """
    has = soc.arithmetic.overflow
    mode = has[0] if inf_nan_mode_enable is None else INF_NAN if inf_nan_mode_enable else SATURATION
    if mode not in has:
        rule = f"must be {int(INF_NAN in has)} on {soc.name}, which has {_TITLES[has[0]]} only"
        raise InputError(f"option {OPTION}", rule, int(mode == INF_NAN), "leave it out")
    return SATURATING_FLOAT16 if mode == SATURATION else np.dtype(np.float16)
