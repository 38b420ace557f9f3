"""Morris's elementary effects: which of many figures matter, and which of them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.core.table import Table
from ascendsim.soc.schema import field_of
from ascendsim.sweep.space import Point
from ascendsim.sweep.store import DONE

if TYPE_CHECKING:
    from ascendsim.sweep.probes import Ask, Probe

_LEVELS = 4  # places of each figure between its ends, as Morris has them


def screened(probes: Sequence[Probe], base: Point, ask: Ask, walks: int, seed: int) -> Table:
    """The effects of figures, the largest first.

    Args:
        probes: Figures with their ends.
        base: The point around which they move.
        ask: Simulates points.
        walks: How many walks through the space.
        seed: Of the walks.

    Raises:
        InputError: If SALib is not installed, or a point fails.
    """
    try:
        from SALib.analyze.morris import analyze
        from SALib.sample.morris import sample
    except ImportError:
        raise InputError(
            "morris",
            "needs SALib, which is not installed",
            remedy='install it with pip install "ascendsim[sweep]"',
        ) from None
    names = [probe.figure.name for probe in probes]
    problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
    places = sample(problem, walks, num_levels=_LEVELS, seed=seed)
    points = [{**base, "set": _between(probes, base, place)} for place in places]
    times = []
    for row in ask(points):
        if row.answer.state != DONE:
            raise InputError("morris", f"came to a point that failed: {row.answer.error}")
        times.append(float(row.answer.figures["Time(us)"]))
    effects = analyze(problem, places, np.array(times), num_levels=_LEVELS, seed=seed)
    rows = [
        (name, float(mean), float(size), float(spread))
        for name, mean, size, spread in zip(
            names, effects["mu"], effects["mu_star"], effects["sigma"], strict=True
        )
    ]
    rows.sort(key=lambda row: -row[2])
    return Table("morris", ("Figure", "mu(us)", "mu*(us)", "sigma(us)"), tuple(rows))


def _between(probes: Sequence[Probe], base: Point, place: Sequence[float]) -> Mapping[str, float]:
    """All figures somewhere between their ends, 0 being the low one."""
    moved = dict(base.get("set", {}))
    for probe, share in zip(probes, place, strict=True):
        for key in probe.figure.figures:
            low, high = probe.low.values[key], probe.high.values[key]
            value = low + (high - low) * float(share)
            moved[key] = round(value) if field_of(key, "").kind == "int" else value
    return moved
