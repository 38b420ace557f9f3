"""The table of docs/training_results.md about steps of eight devices that exchange their gradients."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import ascendsim
from ascendsim.validate.training import GROUPS, MOMENTUM

EIGHT = 8
SERVER = "Atlas 800 9000"
HEAD = f"""## Eight devices

Steps that are published for one device and for eight of a server ({SERVER}) by the same source, which
exchange gradients of float32 (`simulate(model, devices=8)`, [training.md](training.md#several-devices)).
Made of the structure, with the gradients as outputs of the step. Published / simulated; of the exchange:
what nothing hides / all of it.

| network | batch of a device | one, ms | eight, ms | efficiency, % | exchange, ms |
|---|---|---|---|---|---|
"""


class Pair(NamedTuple):
    """A step that is published for one device and for eight.

    Attributes:
        network, file, batch: Of a device.
        one, eight: Samples a second of a device.
    """

    network: str
    file: str
    batch: int
    one: float
    eight: float


def pairs() -> Iterator[Pair]:
    """Pairs of the same source in `measured_training.csv`, of steps that are scored."""
    with files("ascendsim.validate").joinpath("data", "measured_training.csv").open(encoding="utf-8") as text:
        rows = [row for row in csv.DictReader(text) if row["trust"] != "none" and not row["step"]]
    for row in rows:
        key = [row[name] for name in ("network", "batch", "framework", "source")]
        for other in rows:
            same = key == [other[name] for name in ("network", "batch", "framework", "source")]
            if same and (row["devices"], other["devices"]) == ("1", str(EIGHT)):
                speeds = (float(one["throughput_per_s"]) for one in (row, other))
                file = row["structure"] or f"{row['network']}.onnx"
                yield Pair(row["network"], file, int(row["batch"]), *speeds)


def row_of(pair: Pair, folder: Path) -> str:
    """A row of the table; simulates."""
    graph = ascendsim.load(folder / pair.file, batch=pair.batch)
    step = ascendsim.training_step(graph, loss="cross_entropy", optimizer=MOMENTUM)
    model = ascendsim.compile(step.graph, GROUPS["910A"], fusion="all", precision_mode="allow_mix_precision")
    (found,) = ascendsim.simulate(model, devices=EIGHT, server=SERVER).communication().records()
    one, eight = (1e3 * pair.batch / speed for speed in (pair.one, pair.eight))
    cells = [
        pair.network,
        str(pair.batch),
        f"{one:.1f} / {found['Step on 1 device(us)'] / 1e3:.1f}",
        f"{eight:.1f} / {found['Step(us)'] / 1e3:.1f}",
        f"{100 * one / eight:.1f} / {found['Efficiency(%)']:.1f}",
        f"{found['Communication(Not Overlapped)(us)'] / 1e3:.1f} / {found['Communication(us)'] / 1e3:.1f}",
    ]
    return f"| {' | '.join(cells)} |"
