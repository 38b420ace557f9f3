"""Which CANN operator types run on the AI CPU of a chip, whatever they work on or for certain element types,
from the tables `data/aicpu_ops.csv` and `data/ai_core_types.csv` (their sources are in their heads).
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

from ascendsim.core.errors import SocError, suggest

# The kinds of types that `data/ai_core_types.csv` speaks of
JUDGED = ("int8", "uint8", "bool", "int16", "uint16", "int32", "uint32", "int64", "uint64")


@cache
def _rows(name: str = "aicpu_ops") -> tuple[dict[str, str], ...]:
    text = files("ascendsim.ops").joinpath(f"data/{name}.csv").read_text(encoding="utf-8")
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
def ai_cpu_rules(column: str) -> frozenset[str]:
    """What the chip runs on the AI CPU, as `OpSet.on_ai_cpu` reads it: operator types, and "Mul:int16" for
    one whose kernel of the AI Core lacks an element type.

    Args:
        column: Of the table, for the chip (`KernelSpec.ai_cpu_table`).

    Raises:
        SocError: If the table has no such column.
    """
    whole = aicpu_types(column)
    rows = _rows("ai_core_types")
    field = f"types_{column}" if f"types_{column}" in rows[0] else "types"
    lacking = {f"{row['op']}:{name}" for row in rows for name in JUDGED if name not in row[field].split()}
    return whole | lacking


@cache
def constant_forms() -> dict[str, str]:
    """AI Core types of Ascend310 by the type they stand in for when axes, sizes and the like are constants
    ("ReduceSum": "ReduceSumD").
    """
    return {row["op"]: row["const_attribute_form"] for row in _rows() if row["const_attribute_form"]}


@cache
def ai_core_integers(cann: str, column: str) -> tuple[str, ...] | None:
    """Integers and truth values that the AI Core kernel of a CANN operator type takes on a chip; None if
    nothing is listed of it.
    """
    for row in _rows("ai_core_types"):
        if row["op"] == cann:
            return tuple(row[f"types_{column}" if f"types_{column}" in row else "types"].split())
    return None
