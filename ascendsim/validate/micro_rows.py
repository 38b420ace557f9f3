"""Rows of the published micro-benchmarks: what was measured, where, and why a row has no program of its
own.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

_FILES = ("microbenchmarks.csv", "microbenchmarks_more.csv")


@dataclass(frozen=True, slots=True)
class Row:
    """One published figure, in the columns of the file."""

    id: int
    soc: str
    operation: str
    shape: str
    conditions: str
    cores: str
    metric: str
    value: str
    unit: str
    source: str

    @property
    def measured(self) -> float:
        """The figure as a number.

        Raises:
            ValueError: It is a range.
        """
        return float(self.value)


def micro_rows() -> tuple[Row, ...]:
    """All rows, by id."""
    rows: list[Row] = []
    for name in _FILES:
        with files("ascendsim.validate").joinpath(f"data/{name}").open(encoding="utf-8") as source:
            rows.extend(_row(cells) for cells in csv.DictReader(source))
    return tuple(sorted(rows, key=lambda row: row.id))


def _row(cells: Mapping[str, str]) -> Row:
    texts = (
        "soc",
        "operation",
        "shape",
        "tiling_or_conditions",
        "cores",
        "metric",
        "value",
        "unit",
        "source",
    )
    return Row(int(cells["id"]), *(cells[name] for name in texts))


_NO_SHAPE = "gives no shape, or no program of instructions"
_CHIP_FIGURE = "is a figure of the chip file itself, not a program"
_OTHER_TOOL = "comes from another simulator (its tables, or a pipeline diagram that it drew), not from a chip"
_SCALAR = (
    "most of the time is address arithmetic of the vendor's matmul library, which the row does not "
    "describe (see rows 100 and 103)"
)
_MESSAGES = "most of the time is messages between vector and cube cores, which the row does not describe"
_OPERATOR = "is an operator of a network without its program: see `ascendsim validate operators`"
_NO_TILING = "gives no tiling"
_SEQUENCE = "gives neither masks nor barriers of the instruction sequence"
_NETWORK = "comes from a chip without a name and an operator without a shape"
_APPLICATION = "is a figure of an application"

LEFT_OUT: dict[str, tuple[int, ...]] = {
    _CHIP_FIGURE: (11, 13, 14),
    _NO_SHAPE: (16, 20, 22, 23, 52, 55, 56, 58, 148, 149),
    _OTHER_TOOL: (17, 19, 31, 77, 79),
    _NO_TILING: (59, 61, 62, 64, 71, 73, 98),
    "gives a tile, but neither the step along k nor what a core takes": (137, 139, 140, 142, 143, 145, 146),
    _MESSAGES: (65, 67, 68),
    "gives work for two cores, a time of a hundred times as much and 24 cores: the batch is missing": (86,),
    _SCALAR: (88, 89, 91, 100, 101, 103, 104),
    _SEQUENCE: (92, 94, 95, 97),
    _NETWORK: (
        107,
        109,
        110,
        112,
        113,
        115,
        116,
        118,
        119,
        121,
        122,
        124,
        125,
        127,
        128,
        130,
        131,
        133,
        134,
        136,
    ),
    _OPERATOR: (151, 152, 154, 155, 157, 158, 160, 161),
    _APPLICATION: (164, 166, 167),
}


def reason_of(row: int) -> str | None:
    """Why a row is left out, None if it is not."""
    return next((reason for reason, rows in LEFT_OUT.items() if row in rows), None)
