"""Which CANN operator types run on the AI CPU of a chip, from the table `data/aicpu_ops.csv` (its source is
in its head).
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from ascendsim.core.errors import SocError, suggest


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = files("ascendsim.ops").joinpath("data/aicpu_ops.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


@cache
def aicpu_types(column: str) -> frozenset[str]:
    """CANN operator types that the chip runs on the AI CPU by default.

    Types that the table does not list at all have no AI CPU kernel or none is known; the AI Core runs them.

    Args:
        column: Of the table, for the chip (`KernelSpec.ai_cpu_table`).

    Raises:
        SocError: If the table has no such column.
    """
    columns = [name for name in _rows()[0] if name.startswith("ascend")]
    if column not in columns:
        rule = "must name a column of the table of AI CPU operators"
        raise SocError("key kernels.ai_cpu_table", rule, repr(column), suggest(column, columns))
    return frozenset(row["op"] for row in _rows() if row[column] == "aicpu")


@cache
def constant_forms() -> dict[str, str]:
    """AI Core types of Ascend310 by the type they stand in for when axes, sizes and the like are constants
    ("ReduceSum": "ReduceSumD").
    """
    return {row["op"]: row["const_attribute_form"] for row in _rows() if row["const_attribute_form"]}
