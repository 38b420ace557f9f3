"""What a comparison found: a row a tensor, in msaccucmp's columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from ascendsim.accuracy.keeping import Keep, find_kept
from ascendsim.accuracy.metrics import MEASURES, output_error
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.table import GENERAL, QUOTED, Cell, Table
from ascendsim.graph.ir import Array
from ascendsim.runtime.numerics import Numerics, number

if TYPE_CHECKING:
    from ascendsim.plot.accuracy import ErrorDisplay

DISTANCE = "RelativeEuclideanDistance"
LIMIT = 0.05
_COLUMNS = (
    "Index", "NPUDump", "DataType", "GroundTruth", "DataType(GroundTruth)", "TensorIndex", "Shape",
    "OverFlow", *MEASURES, "CompareFailReason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One tensor of the model.

    Attributes:
        mine_name: Operator of the device that makes it, or in which it went; "*" if there is none.
        mine_type: Its type there, "*" if it does not exist there.
        golden_name: Operator of the model.
        golden_type: Its type in the golden run.
        tensor: Its name.
        index: msaccucmp's form, operator:output:number.
        shape: Its shape.
        overflow: "YES", "NO", or "NaN" if it does not exist on the device.
        measures: By name; empty if it does not exist on the device.
        why: Why there is no comparison.
        is_output: Whether it is an output of the network.
    """

    mine_name: str
    mine_type: str
    golden_name: str
    golden_type: str
    tensor: str
    index: str
    shape: tuple[int, ...]
    overflow: str
    measures: Mapping[str, Cell]
    why: str = ""
    is_output: bool = False

    def error(self, measure: str = DISTANCE) -> float:
        """A measure as an error, 0 for equal arrays: of similarities what is missing to 1."""
        value = self.measures.get(measure)
        if not isinstance(value, (int, float)):
            nothing = 1.0 if self.measures else 0.0  # zeros have no direction, so are like nothing else
            return math.inf if self.overflow == "YES" else nothing
        if math.isnan(value):
            return math.inf
        return 1 - value if measure == "CosineSimilarity" else abs(value)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """A device run beside a golden one.

    Attributes:
        model: What ran on the device.
        inputs: What both were given.
        rows: A row a tensor of the model, in its order.
        numerics: What left its type in the device run.
        outputs: Of the device.
        golden: Outputs of the golden run, as far as it has them.
        duration_us: Time of the device run in us.
    """

    model: CompiledModel
    inputs: Mapping[str, Array]
    rows: tuple[Row, ...]
    numerics: Numerics
    outputs: Mapping[str, Array]
    golden: Mapping[str, Array]
    duration_us: float

    @property
    def error(self) -> float:
        """The largest relative Euclidean distance of an output."""
        return output_error(self.outputs, self.golden)

    @property
    def table(self) -> Table:
        """The comparison in msaccucmp's columns; tensors that do not exist on the device say why."""
        rows = tuple(
            (
                number_,
                row.mine_name,
                row.mine_type,
                row.golden_name,
                row.golden_type,
                row.index,
                ",".join(map(str, row.shape)),
                row.overflow,
                *(row.measures.get(name) for name in MEASURES),
                row.why,
            )
            for number_, row in enumerate(self.rows)
        )
        return Table("accuracy", _COLUMNS, rows, {"Shape": QUOTED, **dict.fromkeys(MEASURES, GENERAL)})

    @checked()
    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """The table as CSV; see `Table.to_csv`."""
        return self.table.to_csv(path)

    @checked()
    def first(self, limit: float = LIMIT, measure: str = DISTANCE) -> Row | None:
        """Where it begins: the first tensor whose error is above a limit or not finite; None if none is.

        Args:
            limit: Largest error that is no trouble; of CosineSimilarity what may be missing to 1.
            measure: Column of the table.

        Raises:
            InputError: If there is no such measure.
        """
        numbers = tuple(name for name in MEASURES if name != "StandardDeviation")
        if measure not in numbers:
            raise InputError(f"measure {measure!r}", "is no column", remedy=suggest(measure, numbers))
        return next((row for row in self.rows if not row.error(measure) <= limit), None)

    @checked()
    def plot(self, limit: float = LIMIT) -> ErrorDisplay:
        """Draws the error along the network."""
        from ascendsim.plot.accuracy import plot_errors

        compared = [row for row in self.rows if row.measures or row.overflow == "YES"]
        return plot_errors(
            [row.golden_name for row in compared],
            [row.error() for row in compared],
            [row.is_output for row in compared],
            limit,
            f"{self.model.source.name} on {self.model.soc.name}: error of each tensor against float32",
        )

    @checked()
    def keep(self, limit: float = LIMIT, *, most_runs: int = 400) -> Keep:
        """A small set of operators that brings the outputs within a limit if it stays in float32.

        Halves of the network are tried until no part of the set can be left out, each by running it.

        Args:
            limit: Largest relative Euclidean distance of an output from the golden one.
            most_runs: How many sets are tried at most; the best one so far is the answer then.

        Raises:
            InputError: If the dump has not all outputs.
        """
        return find_kept(
            self.model,
            self.inputs,
            self.golden,
            error=self.error,
            duration_us=self.duration_us,
            limit=limit,
            most_runs=most_runs,
        )

    @checked()
    def line(self, limit: float = LIMIT) -> str:
        """One line: how far the outputs are off, and where that begins.

        Args:
            limit: Largest error that is no trouble.
        """
        compared = sum(bool(row.measures) for row in self.rows)
        off = f"within {number(self.error)} of" if math.isfinite(self.error) else "not finite beside"
        text = f"{compared} of {len(self.rows)} tensors compared, outputs {off} float32"
        first = self.first(limit)
        if first is None:
            return text
        said = f"{number(first.error())} > {limit}" if math.isfinite(first.error()) else "not finite"
        return f"{text}; it begins at {first.golden_name} ({said})"

    def __str__(self) -> str:
        return self.line()

    def __repr__(self) -> str:
        return f"Accuracy({self.model.source.name!r} on {self.model.soc.name}: {self})"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()
