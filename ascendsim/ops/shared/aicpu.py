"""Which CANN operator types run on the AI CPU of a chip, from the table `data/aicpu_ops.csv` (its source is
in its head).
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

# Chip families and their column. The longest prefix counts. Chips that the table lacks take the column of the
# chip with the nearest generation of cores (assumed).
_COLUMNS = {
    "Ascend310": "ascend310",
    "Ascend310P": "ascend310p",
    "Ascend310B": "ascend310b",
    "Ascend910": "ascend910",
    "Ascend910B": "ascend910b",
    "Ascend910_": "ascend910b",  # assumed
    "Ascend610": "ascend310p",  # assumed: same core generation, m200
    "": "ascend310b",  # assumed: small chips with m300 cores and the like
}


def column(name: str) -> str:
    """The table's column for a chip, by its short name (full names do as well).

    "Ascend910B" counts as the short name of the 910B1 .. 910B4 family, not as the first-generation chip that
    was sold under it.

    >>> column("Ascend310P3"), column("Ascend910A"), column("Ascend910B1")
    ('ascend310p', 'ascend910', 'ascend910b')
    """
    return _COLUMNS[max((prefix for prefix in _COLUMNS if name.startswith(prefix)), key=len)]


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = files("ascendsim.ops").joinpath("data/aicpu_ops.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def aicpu_types(name: str) -> frozenset[str]:
    """CANN operator types that the chip runs on the AI CPU by default.

    Types that the table does not list at all have no AI CPU kernel or none is known; the AI Core runs them.

    Args:
        name: Short name of the chip ("Ascend310P"), or its full name, see `column`.
    """
    engine = column(name)
    return frozenset(row["op"] for row in _rows() if row[engine] == "aicpu")


@cache
def constant_forms() -> dict[str, str]:
    """AI Core types of Ascend310 by the type they stand in for when axes, sizes and the like are constants
    ("ReduceSum": "ReduceSumD").
    """
    return {row["op"]: row["const_attribute_form"] for row in _rows() if row["const_attribute_form"]}
