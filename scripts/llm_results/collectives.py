"""Collectives alone."""

from __future__ import annotations

from collections.abc import Mapping

from ascendsim.soc.links import collective_us

A2, A3 = "Ascend910B", "Ascend910_93"
_KINDS = {"allGather": "HcomAllGather", "reduceScatter": "HcomReduceScatter", "allReduce": "HcomAllReduce"}
_UNITS = {"KB": 1e3, "MB": 1e6}
_TOKENS, _HIDDEN, _ACTIVE = 4096, 7168, 8


def _bytes(text: str) -> int:
    return round(float(text[:-2]) * _UNITS[text[-2:]])


def _all_to_all(devices: int, itemsize: int) -> float:
    """Bandwidth at the bottleneck in GB/s: what a card sends over the time that takes."""
    size = _TOKENS * _HIDDEN * _ACTIVE * itemsize
    return size / collective_us(A3, "HcomAllToAll", devices, size, in_network=False) / 1e3


def predict(row: Mapping[str, str]) -> float | str:
    """The value of a row, or why it has none."""
    name, cards = row["model_or_op"], int(row["cards"])
    if name in _KINDS:
        return collective_us(A3, _KINDS[name], cards, _bytes(row["shape"]), in_network=False)
    if name == "MoE dispatch":
        return _all_to_all(cards, 1)
    if name == "MoE combine":
        return _all_to_all(cards, 2)
    if name == "HCCS full mesh":
        return 7 * 56.0  # links of a device in a server of eight, both directions of each
    size = 4 * (1 << 20) * 2  # LCAL's constant: 4 Mi float16
    return size / collective_us(A2, "HcomAllReduce", cards, size, in_network=False) / 1e3
