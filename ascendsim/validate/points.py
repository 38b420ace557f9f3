"""Published measurements as points to score against: one a chip, network and batch size."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from statistics import median

from ascendsim.validate.conditions import UNSAID, Conditions

CHIPS = {
    "310": "Ascend310",
    "310P3": "Ascend310P3",
    "310P": "Ascend310P3",
    "310B1": "Ascend310B1",
    "910B4": "Ascend910B4",
}
_TRUST = {"high": 2, "medium": 1}  # rows of any other trust are not scored


@dataclass(frozen=True, slots=True)
class Point:
    """One measured operating point.

    Attributes:
        group: Chip as published ("310", "310P3" ...); scores are reported by it.
        soc: Chip of this project that stands for it.
        model: Name of the network.
        file: Its structure file ("resnet50.onnx").
        throughput: Samples per second of one chip: the median of the rows with the highest trust.
        aipp: Whether the published run had its image conversion done by AIPP.
        conditions: How it was compiled, as far as that is known.
    """

    group: str
    soc: str
    model: str
    file: str
    batch: int
    throughput: float
    aipp: bool
    conditions: Conditions = UNSAID


def measured_points(groups: Iterable[str] | None = None) -> tuple[Point, ...]:
    """All published points, or those of some chips, ordered by chip, network and batch."""
    wanted = set(groups) if groups is not None else set(CHIPS)
    with files("ascendsim.validate").joinpath("data/measured_models.csv").open(encoding="utf-8") as source:
        return points_of([row for row in csv.DictReader(source) if row["soc"] in wanted])


def points_of(rows: Iterable[Mapping[str, str]], chips: Mapping[str, str] = CHIPS) -> tuple[Point, ...]:
    """Rows of one operating point as one, those of low trust left out.

    Args:
        rows: As in `measured_models.csv`.
        chips: The chip of this project by the one that a row names.
    """
    same: dict[tuple[str, str, int], list[Mapping[str, str]]] = {}
    for row in rows:
        if row["trust"] in _TRUST:
            same.setdefault((row["soc"], row["model"], int(row["batch"])), []).append(row)
    points = []
    for (group, model, batch), found in sorted(same.items(), key=lambda item: item[0]):
        best = max(_TRUST[row["trust"]] for row in found)
        trusted = [row for row in found if _TRUST[row["trust"]] == best]
        throughput = median(float(row["throughput_per_s"]) for row in trusted)
        aipp = sum(row["aipp"] == "yes" for row in trusted) * 2 > len(trusted)
        told = [Conditions.of(row) for row in trusted]
        conditions = next((item for item in told if item.known), told[0])
        points.append(
            Point(group, chips[group], model, found[0]["onnx"], batch, throughput, aipp, conditions)
        )
    return tuple(points)
