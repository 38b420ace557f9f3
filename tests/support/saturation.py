"""Saturation in NumPy, apart from the product: float32 numbers, rounded to float16 and cut to its ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

LAST = 65504.0
CHIPS = ("Ascend310", "Ascend310P3", "Ascend310B1", "Ascend910A")
_SMALL = [0, -0.0, 1, -1, 0.5, 12, -12, 255.9, 256, -300, 400, 2049, 6e-8]
_LARGE = [65472, LAST, -LAST, 65519, 65520, 1e6, -1e9, np.inf, -np.inf, np.nan]
SPECIAL = np.array([*_SMALL, *_LARGE], np.float32)


def cut(values: Any) -> NDArray[np.float32]:
    """Numbers as a saturating chip has them in float16, held in float32: 0 for NaN, nothing beyond 65504."""
    wide = np.asarray(values, np.float64).astype(np.float32)
    wide = np.where(np.isnan(wide), np.float32(0), np.clip(wide, np.float32(-LAST), np.float32(LAST)))
    return wide.astype(np.float16).astype(np.float32)


def step(function: Callable[..., Any], *operands: Any) -> NDArray[np.float32]:
    """One operator: what it reads is cut, it computes in float32, what it makes is cut."""
    with np.errstate(all="ignore"):
        return cut(function(*(cut(operand) for operand in operands)))
