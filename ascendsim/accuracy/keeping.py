"""Which operators must stay in float32: a set of which no part can be left out, found by running.

The network's operators are halved again and again (QuickXplain, Junker 2004): what one half needs of the
other is found first, then what the other needs of that. k operators of n take about 2 k log2(n / k) runs. A
run computes the device's values operator by operator, in the types that the compilation with this set
assigns; only the points of the curve are compiled whole and timed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.accuracy.metrics import output_error
from ascendsim.compiler.compiling import compile_graph, compile_until
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.options import MIXED, CompileOptions
from ascendsim.core.arguments import checked
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.core.table import GENERAL, Table
from ascendsim.graph.ir import Array
from ascendsim.machine import run as run_machine
from ascendsim.opset.facts import Precision
from ascendsim.passes.precision.lists import write_keep, write_mix
from ascendsim.runtime.evaluate import evaluate
from ascendsim.runtime.numerics import number
from ascendsim.runtime.plain import evaluate_plain

if TYPE_CHECKING:
    from ascendsim.plot.accuracy import PriceDisplay

_TYPED = "device-fusion"  # the stage behind which types are settled and nothing is lowered
_STEPS = 6  # points of the curve between nothing and the whole set

Unit = tuple[str, ...]  # operators of the model that one device operator stands for


@dataclass(frozen=True, slots=True)
class Point:
    """A compilation that was timed.

    Attributes:
        label: What was kept.
        operators: How many operators of the model stay in float32.
        error: Largest relative Euclidean distance of an output.
        duration_us: Device time in us.
    """

    label: str
    operators: int
    error: float
    duration_us: float


@dataclass(frozen=True, eq=False)
class Keep:
    """The set that was found, and its price.

    Attributes:
        names: Operators of the model, in its order.
        types: CANN's types of them, for a list of mixed precision.
        limit: Error that was asked for.
        reached: Whether the outputs are within it, as a device run shows.
        error: Of that run.
        points: The curve of error against time: nothing kept, growing parts of the set, the set, then
            mixed precision with and without a list of the set's types, and everything in float32.
        runs: How many sets were tried.
        complete: False where the runs were used up and more may be left out.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    limit: float
    reached: bool
    error: float
    points: tuple[Point, ...]
    runs: int
    complete: bool = True

    @property
    def cost(self) -> float:
        """Device time with the set over that without, less 1."""
        chosen = next(point for point in self.points if point.label == _CHOSEN)
        return chosen.duration_us / self.points[0].duration_us - 1

    @property
    def table(self) -> Table:
        """The points of the curve."""
        first = self.points[0].duration_us
        rows = tuple(
            (
                point.label,
                point.operators,
                point.error,
                point.duration_us,
                100 * (point.duration_us / first - 1),
            )
            for point in self.points
        )
        return Table("keep", _COLUMNS, rows, {"Error": GENERAL})

    @checked()
    def plot(self) -> PriceDisplay:
        """Draws error against time."""
        from ascendsim.plot.accuracy import plot_price

        return plot_price(
            [point.label for point in self.points],
            [point.error for point in self.points],
            [point.duration_us for point in self.points],
            self.limit,
            "Error of the outputs against device time",
        )

    @checked()
    def write_keep_dtype(self, path: str | PathLike[str]) -> Path:
        """Writes the file for `--keep_dtype`.

        Raises:
            InputError: If it cannot be written.
        """
        write_keep(path, self.names)
        return Path(path)

    @checked()
    def write_modify_mixlist(self, path: str | PathLike[str]) -> Path:
        """Writes the file for `--modify_mixlist`, which goes with --precision_mode allow_mix_precision.

        Raises:
            InputError: If it cannot be written.
        """
        write_mix(path, self.types)
        return Path(path)

    def __str__(self) -> str:
        """One line: how many operators, what they bring and what they cost."""
        if not self.names:
            return f"nothing needs to stay in float32: the outputs are within {number(self.error)}"
        many = f"{len(self.names)} operator{'s' * (len(self.names) != 1)}"
        off = f"within {number(self.error)}" if math.isfinite(self.error) else "to values that are not finite"
        found = f"{off}, {100 * self.cost:+.1f} % time"
        if not self.reached:
            return f"{many} in float32 do not reach {number(self.limit)}: they bring the outputs {found}"
        rest = "" if self.complete else "; the runs are used up, fewer may do"
        return f"{many} in float32 bring the outputs {found}: {', '.join(self.names)}{rest}"

    def __repr__(self) -> str:
        return f"Keep({self})"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


_CHOSEN = "the set"
_COLUMNS = ("Kept in float32", "Operators", "Error", "Time(us)", "Time(%)")


def find_kept(
    model: CompiledModel,
    inputs: Mapping[str, Array],
    golden: Mapping[str, Array],
    *,
    error: float,
    duration_us: float,
    limit: float,
    most_runs: int,
) -> Keep:
    """A small set of operators that brings the outputs within a limit if it stays in float32.

    Args:
        model: As it was compared.
        inputs: By name.
        golden: Outputs as they should be.
        error: Of the model as it is.
        duration_us: Device time of the model as it is.
        limit: Largest relative Euclidean distance of an output.
        most_runs: How many sets are tried.

    Raises:
        InputError: If an output has no golden array, or the model keeps operators already.
    """
    missing = [tensor.name for tensor in model.source.outputs if tensor.name not in golden]
    if missing:
        raise InputError(f"output {missing[0]!r}", "has no golden array", remedy="leave golden out")
    if model.options.keep_dtype is not None:
        raise InputError("keep()", "starts from a model without keep_dtype", remedy="leave it out")
    search = _Search(model, inputs, golden, limit, most_runs)
    chosen = search.chosen()
    return search.priced(chosen, Point("nothing", 0, error, duration_us))


class _Search:
    """Sets of operators and how exact the network is with them."""

    def __init__(
        self,
        model: CompiledModel,
        inputs: Mapping[str, Array],
        golden: Mapping[str, Array],
        limit: float,
        most_runs: int,
    ) -> None:
        self._model, self._inputs, self._golden = model, inputs, golden
        self._limit, self._most = limit, most_runs
        self._options: CompileOptions = replace(model.options, save_graphs=None)
        self._errors: dict[tuple[Unit, ...], float] = {}
        self.units = self._units()

    def chosen(self) -> tuple[Unit, ...]:
        """The set, in the model's order; all operators where even they are not enough."""
        if self.fits(()):
            return ()
        if not self.fits(self.units):
            return self.units
        found = set(self.smallest((), False, self.units))
        return tuple(unit for unit in self.units if unit in found)

    def _units(self) -> tuple[Unit, ...]:
        """Operators that compute in float16 where the model has float32, in order."""
        known = {node.name for node in self._model.source.nodes}
        graph = compile_until(self._model.source, self._options, _TYPED).graph
        units: dict[Unit, None] = {}
        for node in graph.topological():
            narrowed = any(
                tensor is not None and tensor.dtype is DType.FLOAT16 and tensor.origin_dtype is DType.FLOAT32
                for tensor in (*node.inputs, *node.outputs)
            )
            names = tuple(name for name in node.origin.get("source_names", (node.name,)) if name in known)
            if narrowed and names and "inserted" not in node.origin:
                units[names] = None
        return tuple(units)

    def fits(self, units: Sequence[Unit]) -> bool:
        """Whether the outputs are within the limit if these operators stay in float32.

        When the runs are used up nothing fits any more but what is known to, so that the search ends with
        the best set so far.
        """
        key = tuple(units)
        if key not in self._errors:
            if len(self._errors) >= self._most:
                return False
            work = compile_until(self._model.source, self._kept(key), _TYPED)
            outputs = evaluate_plain(
                work.graph, work.opset, self._inputs, device=True, half=self._model.float16
            )
            self._errors[key] = output_error(outputs, self._golden)
        return self._errors[key] <= self._limit

    def smallest(self, around: tuple[Unit, ...], grown: bool, units: tuple[Unit, ...]) -> tuple[Unit, ...]:
        """The part of `units` that is needed beside `around`.

        Args:
            around: Operators that stay in float32 whatever is found.
            grown: Whether there are more of them than when it was last asked.
            units: Of which, with `around`, all together are enough.
        """
        if grown and self.fits(around):
            return ()
        if len(units) == 1:
            return units
        middle = len(units) // 2
        first, second = units[:middle], units[middle:]
        later = self.smallest(around + first, True, second)
        return self.smallest(around + later, bool(later), first) + later

    def priced(self, chosen: tuple[Unit, ...], nothing: Point) -> Keep:
        """The set with the curve of what its parts bring and cost."""
        points = [nothing]
        steps = sorted({round(len(chosen) * step / _STEPS) for step in range(1, _STEPS)} - {0, len(chosen)})
        many = sum(map(len, chosen))
        points += [
            self._timed(f"first {sum(map(len, part))} of {many}", part, self._kept(part))
            for part in (chosen[:count] for count in steps)
        ]
        whole = points[0] if not chosen else self._timed(_CHOSEN, chosen, self._kept(chosen))
        points.append(replace(whole, label=_CHOSEN))
        types = self._types(chosen)
        mixed = replace(self._options, precision_mode=MIXED, modify_mixlist=None)
        points.append(self._timed(MIXED, (), mixed))
        if types:
            lists = {"black-list": {"to-add": types}}
            points.append(self._timed("modify_mixlist", (), replace(mixed, modify_mixlist=lists)))
        points.append(self._timed("everything", self.units, self._kept(self.units)))
        return Keep(
            tuple(dict.fromkeys(name for unit in chosen for name in unit)),
            types,
            self._limit,
            whole.error <= self._limit,
            whole.error,
            tuple(points),
            len(self._errors),
            len(self._errors) < self._most,
        )

    def _kept(self, units: Sequence[Unit]) -> CompileOptions:
        names = [name for unit in units for name in unit]
        return replace(self._options, keep_dtype=names or None)

    def _timed(self, label: str, units: Sequence[Unit], options: CompileOptions) -> Point:
        """A device run."""
        model = compile_graph(self._model.source, options)
        trace = run_machine(model.program, model.soc)
        order = [record.task for record in trace.tasks]
        outputs: dict[str, Array] = evaluate(
            model.graph,
            model.program,
            model.opset,
            order,
            self._inputs,
            values="device",
            half=model.float16,
        )
        error = output_error(outputs, self._golden)
        return Point(label, sum(map(len, units)), error, trace.duration_us)

    def _types(self, chosen: Sequence[Unit]) -> tuple[str, ...]:
        """CANN's types of what is kept, as far as mixed precision would not keep them anyway."""
        names = {name for unit in chosen for name in unit}
        graph, opset = self._model.graph, self._model.opset
        found: dict[str, None] = {}
        for node in graph.topological():
            own = opset.get(node).facts.precision
            sources = node.origin.get("source_names", (node.name,))
            kept = "inserted" not in node.origin and not names.isdisjoint(sources)
            if kept and not own.sensitive and own is not Precision.BITS:
                found[opset.cann_type(node)] = None
        return tuple(found)
