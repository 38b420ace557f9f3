"""Steps of kernels that add row to row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ascendsim.core.formats import Format, ceil_div
from ascendsim.lower.templates.sharing import lanes_of
from ascendsim.opset.work import Step, VectorWork
from ascendsim.soc.spec import SocSpec


def added_up(steps: Sequence[Step], work: VectorWork, width: int, soc: SocSpec) -> tuple[Step, ...]:
    """Those steps that are done on a tile of rows, which are added up.

    The last one waits for its own result again and again (`KernelSpec.adds_rows_cycles`); a row takes whole
    repeats of its own, however few columns there are. Sums of feature maps go plane by plane instead.

    Args:
        steps: Of the work; the last one on elements or rows adds.
        work: What they are part of.
        width: Columns of the tile.
        soc: The chip.
    """
    inner = tuple(step for step in steps if step.over in ("all", "row"))
    cycles, ref = soc.kernels.adds_rows_cycles, work.inputs[0].ref
    if (
        cycles == 1
        or not inner
        or inner[-1].op != "vadd"
        or inner[-1].run  # which waits for the one before it anyway
        or ref.format in (Format.NC1HWC0, Format.FRACTAL_NZ)
    ):
        return inner
    lanes = soc.vector.repeat_bytes // inner[-1].dtype.itemsize
    if not lanes_of(ref):
        cycles *= ceil_div(width, lanes) * lanes / width
    return (*inner[:-1], replace(inner[-1], count=max(1, round(inner[-1].count * cycles))))
