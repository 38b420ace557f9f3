"""Whole networks: simulated throughput against published measurements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ascendsim import soc as chips
from ascendsim.api.compiling import CompiledModel, compile
from ascendsim.api.loading import load
from ascendsim.api.running import simulate
from ascendsim.core.errors import InputError
from ascendsim.validate.points import Point
from ascendsim.validate.roofline import roofline_us
from ascendsim.validate.score import Prediction

AIPP = Path(__file__).parent / "data" / "aipp_rgb.cfg"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predictions of the simulator and of the roofline for the same points, in the same order."""

    simulated: tuple[Prediction, ...]
    roofline: tuple[Prediction, ...]

    def of(self, group: str) -> Comparison:
        """The part that belongs to one chip."""
        mine = [index for index, prediction in enumerate(self.simulated) if prediction.point.group == group]
        return Comparison(tuple(self.simulated[i] for i in mine), tuple(self.roofline[i] for i in mine))


def compile_point(point: Point, folder: Path, fusion: str = "all", values: Mapping[str, float] | None = None) -> CompiledModel:
    """A point's network, compiled as ATC would by default: float16, graph and UB fusion on, the whole graph on the device.

    Where the published run had its images converted by AIPP, so has this one (uint8 RGB); all others take float32 in NCHW.

    Args:
        point: What to compile.
        folder: Where the structure files are.
        fusion: Fusion level of `compile`.
        values: Changes to the chip by dotted key.

    Raises:
        InputError: If the structure file is missing.
    """
    path = folder / point.file
    if not path.is_file():
        raise InputError(
            f"network structure {point.file!r}", f"is not in {str(folder)!r}", remedy="name the folder that holds it with --models"
        )
    changes = dict(values) if values else None
    return compile(load(path, batch=point.batch), soc=point.soc, set=changes, fusion=fusion, insert_op_conf=AIPP if point.aipp else None)


def compare_models(
    points: Sequence[Point],
    folder: Path,
    fusion: str = "all",
    progress: Callable[[int, int], None] | None = None,
    values: Callable[[Point], Mapping[str, float]] | None = None,
) -> Comparison:
    """Simulates every point.

    Args:
        points: What to simulate.
        folder: Where the structure files are.
        fusion: Fusion level of `compile`.
        progress: Called with (points done, points in all).
        values: Changes to the chip for a point, by dotted key; None = the chip files as they are.

    Raises:
        InputError: If a structure file is missing.
    """
    simulated, base = [], []
    for done, point in enumerate(points):
        model = compile_point(point, folder, fusion, values(point) if values is not None else None)
        simulated.append(Prediction(point, point.batch / simulate(model).duration_us * 1e6))
        base.append(Prediction(point, point.batch / roofline_us(model.source, chips.load(point.soc)) * 1e6))
        if progress is not None:
            progress(done + 1, len(points))
    return Comparison(tuple(simulated), tuple(base))
