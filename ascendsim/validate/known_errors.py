"""The errors that intervals of predictions come from (`profiling/interval.py` reads the tables): every
published point beside a simulation whose constants have not seen the network, every published operator beside
its simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median

from ascendsim.api.network_kind import network_kind
from ascendsim.api.running import simulate
from ascendsim.compiler.cann_versions import older_kernels
from ascendsim.core.table import Row, Table
from ascendsim.ops import default_opset
from ascendsim.opset.facts import Kind
from ascendsim.profiling.interval import (
    COLUMNS,
    FEWEST,
    OPERATOR,
    MeasuredError,
    measured_errors,
    ratios,
    rows_for,
)
from ascendsim.profiling.metrics import main_bound
from ascendsim.validate.calibrate import unseen_values
from ascendsim.validate.models import call_us, compile_point, of_points
from ascendsim.validate.operators import compare_operators
from ascendsim.validate.operators_graphs import one_operator
from ascendsim.validate.operators_rows import CHIPS, OperatorRow
from ascendsim.validate.points import Point

# Left out of what intervals come from: two types of operators, run alone with tilings that were searched for,
# which would count for more than all that networks on this chip say.
_TUNED = frozenset({"910A-tuned"})


def error_rows(points: Sequence[Point], folder: Path, processes: int = 1) -> Iterator[Row]:
    """A row of `COLUMNS` a point, as each is done.

    Args:
        points: What was measured.
        folder: Where the structure files are.
        processes: How many points are simulated at a time.
    """
    values = unseen_values(point.group for point in points)
    yield from of_points(partial(_row, folder), points, values, processes)


def operator_rows(progress: Callable[[int, int], None] | None = None, processes: int = 1) -> Iterator[Row]:
    """A row of `COLUMNS` for each published operator that can be simulated; nothing is fitted on most of
    them.
    """
    groups = [group for group in CHIPS if group not in _TUNED]
    timings, _ = compare_operators(groups, progress, processes=processes)
    kinds: dict[str, str] = {}
    for timing in timings:
        row = timing.row
        if row.op_type not in kinds:
            kinds[row.op_type] = OPERATOR + _purpose(row)
        measured, simulated = round(row.duration_us, 3), round(timing.simulated_us, 3)
        case = f"{row.file}:{row.line}"
        yield row.group, row.soc, "", kinds[row.op_type], "", row.op_type, case, measured, simulated


def _purpose(row: OperatorRow) -> str:
    """What an operator is for."""
    built = one_operator(row)
    nodes = [] if isinstance(built, str) else [node for node in built.graph.nodes if node.name == built.node]
    return (default_opset().get(nodes[0]).facts.kind if nodes else Kind.OTHER).value


def error_table(name: str, rows: Sequence[Row]) -> Table:
    """The rows in an order that does not depend on which was done first."""
    return Table(name, COLUMNS, tuple(sorted(rows, key=str)))


@dataclass(frozen=True, slots=True)
class Coverage:
    """How intervals do on a chip whose families are predicted in turn, each from all others.

    Attributes:
        soc: The chip.
        older: Whether under an older CANN.
        operators: Whether of single operators, whose families are their types; those of networks are kinds.
        known, points: How many networks or types of operators, and how many measurements of them.
        held: Share of the points inside their interval, 0..1.
        width: Median of highest / lowest end.
    """

    soc: str
    older: bool
    operators: bool
    known: int
    points: int
    held: float
    width: float


def coverages(share: float = 0.8) -> tuple[Coverage, ...]:
    """For every chip on which enough was measured: what intervals hold of families that they did not see.

    Args:
        share: Of the points that the intervals shall hold.
    """
    found = []
    for group in sorted({(row.soc, row.older, row.kind.startswith(OPERATOR)) for row in measured_errors()}):
        rows, operators = rows_for(*group), group[2]
        inside: list[bool] = []
        widths: list[float] = []
        for family in sorted({_family(row, operators) for row in rows}):
            mine = [row for row in rows if _family(row, operators) == family]
            seen = [row for row in rows if _family(row, operators) != family]
            if len({row.name for row in seen}) >= FEWEST:
                low, high = ratios(seen, mine[0].kind, share)
                inside += [low <= math.exp(row.log_ratio) <= high for row in mine]
                widths += [high / low] * len(mine)
        if inside:
            known = len({row.name for row in rows})
            found.append(Coverage(*group, known, len(inside), fmean(inside), median(widths)))
    return tuple(found)


def _family(row: MeasuredError, operators: bool) -> str:
    return row.name if operators else row.kind


def _row(folder: Path, point: Point, values: Mapping[str, float] | None) -> Row:
    result = simulate(compile_point(point, folder, values=values))
    return (
        point.group,
        point.soc,
        older_kernels(result.model.soc, point.conditions.cann or None),
        network_kind(result.model.source, result.model.opset),
        main_bound(result.profile),
        point.model,
        point.batch,
        round(point.batch / point.throughput * 1e6, 3),
        round(result.duration_us + call_us(result.model.program, result.model.soc), 3),
    )
