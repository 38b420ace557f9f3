"""How sure a predicted duration is: an interval from the errors of what was measured.

`data/network_errors.csv` holds published durations of networks beside simulated ones, simulated with
constants that have not seen the network, `data/operator_errors.csv` those of single operators
(`scripts/make_errors.py`). The interval of a prediction lies between two quantiles of measured / simulated on
its chip. In them every network, and every type of operator, counts once, however many sizes of it were
measured, and those of the same kind (`network_kind`) count `SAME_KIND` times: a chip has some twenty networks
of ten kinds, so a kind alone is too few for quantiles, and other kinds say what to expect of kernels that
nobody measured. The share is widened by (n + 1) / n, which is what quantiles of n lack to hold the next one
that often (split conformal prediction).

Where nothing was measured, or only other ways of running it, the interval is an assumption: a factor of
`UNMEASURED` to both sides for a share of 80 %.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from statistics import NormalDist

from ascendsim.core.errors import InputError

OPERATOR = "operator: "  # what kinds of single operators begin with
COLUMNS = ("chip", "soc", "cann", "kind", "bound", "name", "case", "measured_us", "simulated_us")
UNMEASURED = 2.0  # assumed: about the largest errors of networks on chips where some were measured
SAME_KIND = 4.0  # how often a network of the same kind counts
FEWEST = 8  # networks, or types of operators, of a chip from which on their quantiles say something
SHARES = (0.1, 0.9)  # a wider interval would need more networks than were measured


@dataclass(frozen=True, slots=True)
class MeasuredError:
    """A published point beside its simulation.

    Attributes:
        soc: The chip that was simulated.
        older: Whether an older CANN was simulated.
        kind: Of the network, see `network_kind`; of an operator `OPERATOR` and what it is for.
        name: The network, or the operator's type; only tells points of one from those of another.
        log_ratio: Logarithm of measured / simulated duration.
    """

    soc: str
    older: bool
    kind: str
    name: str
    log_ratio: float


@dataclass(frozen=True, slots=True)
class DurationInterval:
    """Where the duration of a real execution is likely to be.

    Attributes:
        low_us, high_us: Its ends.
        share: Of executions that lie in such an interval, 0..1.
        kind: Of the network or operator.
        known, alike: Measured networks, or types of operators, that it rests on, and those of the same kind
            among them.
        note: What it rests on, in one line.
    """

    low_us: float
    high_us: float
    share: float
    kind: str
    known: int
    alike: int
    note: str

    @property
    def measured(self) -> bool:
        """Whether this kind was measured on this chip."""
        return self.alike > 0

    def __str__(self) -> str:
        digits = 2 if self.low_us < 10 else 1 if self.low_us < 100 else 0
        return f"likely {self.low_us:,.{digits}f} to {self.high_us:,.{digits}f} us"


def interval_of(
    duration_us: float, soc: str, kind: str, share: float = 0.8, *, older: bool = False, unlike: str = ""
) -> DurationInterval:
    """The interval of a predicted duration.

    Args:
        duration_us: As simulated.
        soc: Name of the chip.
        kind: Of the network or operator.
        share: Part of real executions that shall lie inside.
        older: Whether an older CANN was simulated.
        unlike: What it is a case of that was never measured ("several devices together"); "" = of none.

    Raises:
        InputError: If the share is none of `SHARES`' range.
    """
    low, high = SHARES
    if not low <= share <= high:
        remedy = "too little was measured for more"
        raise InputError("share of an interval", f"must be from {low} to {high}", repr(share), remedy)
    operators = kind.startswith(OPERATOR)
    thing, things = ("operator", "types of operators") if operators else ("network", "networks")
    one = "type of operator" if operators else "network"
    rows = rows_for(soc, older, operators)
    known = {row.name for row in rows}
    alike = {row.name for row in rows if row.kind == kind}
    if unlike or len(known) < FEWEST:
        spread = assumed_spread(share)
        few = f"only {len(known)} {things} were measured on {soc}"
        if len(known) == 1:
            few = f"only one {one} was measured on {soc}"
        lacking = few if known and not unlike else f"no measurement of {unlike or things} on {soc} exists"
        note = f"{lacking}: expect a factor of {UNMEASURED:g}"
        return DurationInterval(duration_us / spread, duration_us * spread, share, kind, 0, 0, note)
    below, above = ratios(rows, kind, share)
    if alike:
        note = f"errors of {len(known)} {things} on {soc}, {len(alike)} of them of this kind ({kind})"
    else:
        worst = math.exp(max(abs(row.log_ratio) for row in rows))
        note = (
            f"no measurement of this kind of {thing} ({kind}) on {soc} exists: the errors are those of other "
            f"kinds there, up to a factor of {worst:.1f}"
        )
    low_us, high_us = duration_us * below, duration_us * above
    return DurationInterval(low_us, high_us, share, kind, len(known), len(alike), note)


def shared_intervals(
    found: Mapping[str, DurationInterval], durations_us: Mapping[str, float], alike: Mapping[str, Hashable]
) -> dict[str, DurationInterval]:
    """Intervals of variants that are compared: what their errors have in common cancels, so those of one
    kind on one chip get the factors of the one that rests on measurements.

    Args:
        found: The interval of each variant by itself.
        durations_us: As simulated, by the same names.
        alike: By the same names, what variants with common errors have the same of.

    Returns:
        By the same names, in their order.
    """
    anchors: dict[Hashable, str] = {}
    for name, interval in found.items():
        if interval.known:
            anchors.setdefault(alike[name], name)
    shared = dict(found)
    for name, interval in found.items():
        anchor = anchors.get(alike[name])
        if anchor is None or interval.known or not durations_us[anchor]:
            continue
        known, ratio = found[anchor], durations_us[name] / durations_us[anchor]
        shared[name] = replace(
            known,
            low_us=known.low_us * ratio,
            high_us=known.high_us * ratio,
            note=f"by the factors of {anchor}, whose errors are known: {known.note}",
        )
    return shared


def rows_for(soc: str, older: bool = False, operators: bool = False) -> tuple[MeasuredError, ...]:
    """The errors on a chip, under the newest CANN or under older ones: of networks, or of single
    operators.
    """
    return tuple(
        [
            row
            for row in measured_errors()
            if row.soc == soc and row.older == older and row.kind.startswith(OPERATOR) == operators
        ]
    )


@cache
def measured_errors() -> tuple[MeasuredError, ...]:
    """All errors of both tables."""
    found: list[MeasuredError] = []
    for table in ("network_errors", "operator_errors"):
        with files("ascendsim.profiling").joinpath(f"data/{table}.csv").open(encoding="utf-8") as source:
            found += [_row(row) for row in csv.DictReader(source)]
    return tuple(found)


def _row(row: dict[str, str]) -> MeasuredError:
    ratio = float(row["measured_us"]) / float(row["simulated_us"])
    return MeasuredError(row["soc"], bool(row["cann"]), row["kind"], row["name"], math.log(ratio))


def ratios(rows: Sequence[MeasuredError], kind: str, share: float) -> tuple[float, float]:
    """Lowest and highest measured / simulated to expect.

    Args:
        rows: Errors of at least one network, or one type of operator.
        kind: Of the network or operator.
        share: Part of those that shall lie between.
    """
    points: dict[str, int] = {}
    for row in rows:
        points[row.name] = points.get(row.name, 0) + 1
    weighted = [(row.log_ratio, (SAME_KIND if row.kind == kind else 1.0) / points[row.name]) for row in rows]
    level = min(share * (len(points) + 1) / len(points), 1.0)
    low, high = quantile(weighted, (1 - level) / 2), quantile(weighted, (1 + level) / 2)
    return math.exp(low), math.exp(high)


def quantile(weighted: Iterable[tuple[float, float]], level: float) -> float:
    """The value below which a part of the weight lies; between values, each of which stands at the middle of
    its weight, it is interpolated.

    Args:
        weighted: Values with their weights, at least one.
        level: The part, 0..1.

    >>> quantile([(1.0, 1.0), (3.0, 1.0)], 0.5), quantile([(1.0, 1.0), (3.0, 1.0), (9.0, 2.0)], 0.75)
    (2.0, 9.0)
    """
    ordered = sorted(weighted)
    target = level * sum(weight for _, weight in ordered)
    passed, place, value = 0.0, -math.inf, ordered[0][0]
    for here, weight in ordered:
        middle = passed + weight / 2
        if middle >= target:
            if math.isinf(place):
                return here
            return value + (here - value) * (target - place) / (middle - place)
        passed, place, value = passed + weight, middle, here
    return value


def assumed_spread(share: float) -> float:
    """The factor to both sides where nothing was measured: `UNMEASURED` for 80 %, others as in a log-normal
    distribution.

    >>> assumed_spread(0.8)
    2.0
    """
    normal = NormalDist()
    wide, told = normal.inv_cdf(0.5 + share / 2), normal.inv_cdf(0.9)
    return math.exp(math.log(UNMEASURED) * wide / told)
