"""Instructions of vector programs, as operators ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ascendsim.core.dtypes import DType

# pseudo-intrinsics: the scalar unit walks over the elements, or moves them one by one through a register
SCALAR, REGISTER = "scalar", "register"
Over = Literal["all", "row", "col", "one"]


@dataclass(frozen=True, slots=True)
class Step:
    """One vector intrinsic of a vector program.

    Attributes:
        op: Intrinsic ("vadd", "vexp", "vcadd" ...). If the chip lacks it for the dtype, the template expands
            it (vdiv -> vrec, vmul; vsqrt -> vrsqrt, vrec; vgather -> scalar path).
        over: "all" = every element of the tile, "row" = one value a row (after a reduction), "col" = one a
            column, "one".
        dtype: Element type it computes in.
        count: How many times it is issued (Newton steps, polynomial terms).
        run: Elements that one instruction takes at most, where it cannot go on from row to row (windows with
            strides); 0 = no such limit.
        lanes: Elements that a repeat takes where it cannot be filled (blocks of channels added up one
            position after the other); 0 = all.
        overruns: Whether an instruction of a run takes whole repeats, since what it writes beyond its run is
            made anew by the next one.
        indexed: Whether the scalar unit reads the place of what the instruction finds
            (`lower.templates.searching`).
    """

    op: str
    dtype: DType = DType.FLOAT16
    over: Over = "all"
    count: int = 1
    run: int = 0
    lanes: int = 0
    overruns: bool = False
    indexed: bool = False
