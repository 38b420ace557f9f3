"""Time of collectives as inference stacks call them, by figures of HCCL and LCAL a group of devices.

A collective takes a fixed time and a time a byte, both of the protocol for small or for large messages; a
group changes the protocol at so many bytes. Inside a network devices do not arrive together, which adds a
fixed time. `collectives.py` has HCCL's general model, by which training is timed.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ascendsim.core.errors import InputError
from ascendsim.soc.figures import DATA

_TABLE = DATA / "collectives.csv"
_NUMBERS = (
    "switch_bytes",
    "small_us",
    "small_us_per_mb",
    "large_us",
    "large_us_per_mb",
    "in_network_us",
)
MOST = 16  # devices; larger groups span servers


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """A collective in a group of devices. Bytes are those of the whole tensor: gathered, or to be scattered.

    Attributes:
        switch_bytes: From which on the protocol for large messages is used.
        small_us, small_us_per_mb: Its fixed time and time for 1e6 bytes below that.
        large_us, large_us_per_mb: The same above.
        in_network_us: What it takes longer inside a network.
        source: Of the figures.
        assumed: Whether some are.
    """

    switch_bytes: float
    small_us: float
    small_us_per_mb: float
    large_us: float
    large_us_per_mb: float
    in_network_us: float
    source: str
    assumed: bool

    def us(self, size: int, in_network: bool) -> float:
        """Microseconds for so many bytes of the whole tensor."""
        extra = self.in_network_us if in_network else 0.0
        if size < self.switch_bytes:
            return self.small_us + self.small_us_per_mb * size / 1e6 + extra
        return self.large_us + self.large_us_per_mb * size / 1e6 + extra


def collective_us(short_name: str, kind: str, devices: int, size: int, *, in_network: bool = True) -> float:
    """Microseconds of a collective.

    Args:
        short_name: Of the chip (`SocSpec.short_name`).
        kind: "HcomAllReduce", "HcomAllGather", "HcomReduceScatter" or "HcomAllToAll".
        devices: That take part; 1 takes no time.
        size: Bytes of the whole tensor: gathered, or to be scattered or reduced.
        in_network: Whether it runs inside a network, not in a benchmark.

    Raises:
        InputError: If there are no figures for the chip, or too many devices.
    """
    if devices == 1:
        return 0.0
    known = _figures().get((short_name, kind))
    if known is None:
        chips = ", ".join(sorted({chip for chip, _ in _figures()}))
        raise InputError(f"chip {short_name}", "has no figures of its links", remedy=f"choose one of {chips}")
    if not 1 < devices <= MOST:
        raise InputError("number of devices", f"must be from 1 to {MOST}", devices)
    return _group(known, devices).us(size, in_network)


def extrapolated(short_name: str, devices: int) -> str:
    """What is to be said of times of collectives in a group outside those with figures; "" inside.

    Args:
        short_name: Of the chip (`SocSpec.short_name`).
        devices: That take part.
    """
    groups = sorted(
        {count for (chip, _), known in _figures().items() if chip == short_name for count in known}
    )
    if not groups or devices == 1 or groups[0] <= devices <= groups[-1]:
        return ""
    known = " and ".join(filter(None, (", ".join(map(str, groups[:-1])), str(groups[-1]))))
    text = f"collectives of {devices} devices are extrapolated from figures of groups of {known}"
    return f"{text}, as if no network lay between servers" if devices > groups[-1] else text


def _group(known: Mapping[int, GroupFigures], devices: int) -> GroupFigures:
    """Figures of a group: straight between its neighbours in the table. Outside it those of the nearest
    group, whose protocols change at as many bytes a device; the fixed time of small messages goes on
    straight.
    """
    if devices in known:
        return known[devices]
    counts = sorted(known)
    high = min((place for place, count in enumerate(counts) if count > devices), default=len(counts) - 1)
    high = max(high, 1)
    low, high = counts[high - 1], counts[high]
    share = (devices - low) / (high - low)

    def between(name: str) -> float:
        ends = (getattr(known[low], name), getattr(known[high], name))
        return float(ends[0] + share * (ends[1] - ends[0]))

    nearest = known[low if devices < low else high]
    if low < devices < high:
        numbers = [between(name) for name in _NUMBERS]
    else:
        numbers = [float(getattr(nearest, name)) for name in _NUMBERS]
        numbers[0] *= devices / (low if devices < low else high)
        numbers[1] = max(0.0, between("small_us"))
    switch, small, small_mb, large, large_mb, extra = numbers
    return GroupFigures(switch, small, small_mb, large, large_mb, extra, nearest.source, True)


@cache
def _figures() -> Mapping[tuple[str, str], Mapping[int, GroupFigures]]:
    found: dict[tuple[str, str], dict[int, GroupFigures]] = {}
    with _TABLE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            switch, small, small_mb, large, large_mb, extra = (float(row[name]) for name in _NUMBERS)
            assumed = row["assumed"] == "yes"
            figures = GroupFigures(switch, small, small_mb, large, large_mb, extra, row["source"], assumed)
            found.setdefault((row["short_name"], row["kind"]), {})[int(row["devices"])] = figures
    return found
