"""A chip file fitted to a user's own measurements: the shipped chip, and what of its documented constants
(`calibrate.CONSTANTS`) the measurements move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from ascendsim import soc as chips
from ascendsim.core.arguments import checked
from ascendsim.core.errors import AscendSimError, InputError, suggest
from ascendsim.core.files import write_whole
from ascendsim.core.table import GENERAL, Table
from ascendsim.machine import run as run_machine
from ascendsim.soc import SocSpec
from ascendsim.validate.calibrate import CONSTANTS, Case, Constant, Fit, Report, figure, fit, prepare
from ascendsim.validate.models import call_us
from ascendsim.validate.points import CHIPS, Point
from ascendsim.validate.rows import LeftOutRow, read_rows
from ascendsim.validate.score import Prediction

FEWEST_NETWORKS = 2  # a fit is judged by networks that it did not see


@dataclass(frozen=True, slots=True)
class OwnChip:
    """A fit on a user's measurements.

    Attributes:
        soc: The chip that was fitted.
        source: Name of the measurements' file.
        constants: What could move.
        points: What it was fitted on.
        before: Predictions of the shipped chip.
        fitted: Values, and predictions with them.
        left_out: Rows that could not be used.
    """

    soc: str
    source: str
    constants: tuple[Constant, ...]
    points: tuple[Point, ...]
    before: tuple[Prediction, ...]
    fitted: Fit
    left_out: tuple[LeftOutRow, ...]

    def table(self) -> Table:
        """One row a constant: shipped value, fitted value, those of fits that left a network out, range."""
        spec, rows = chips.load(self.soc), []
        for constant in self.constants:
            key = constant.keys[0]
            others = [values[key] for values in self.fitted.left_out.values()]
            value = self.fitted.values[key]
            end = "at an end of its range" if value in (constant.low, constant.high) else ""
            rows.append(
                (key, figure(spec, key), value, min(others), max(others), constant.low, constant.high, end)
            )
        columns = ("Constant", "Shipped", "Fitted", "Left out from", "to", "Range from", "to ", "Note")
        return Table("own_chip", columns, tuple(rows), dict.fromkeys(columns[1:-1], GENERAL))

    def text(self, name: str) -> str:
        """The chip file: what the shipped chip does not say.

        Args:
            name: Of the new chip.
        """
        on = [f"{self.source}: {point.model}, batch {point.batch}" for point in self.points]
        lines = [
            f"# {self.soc}, fitted on {len(on)} points of {_plain(self.source)} by ascendsim calibrate.",
            f"name = {_quoted(name)}",
            f"extends = {_quoted(self.soc)}",
            "",
        ]
        spec = chips.load(self.soc)
        listed = ", ".join(_quoted(item) for item in on)
        for key, value in sorted(self.fitted.values.items()):
            if value == figure(spec, key):  # a constant that did not move keeps its source
                continue
            source = _quoted(f"throughput of networks in {self.source}; {figure(spec, key):g} on {self.soc}")
            lines.append(f"{key} = {{ value = {value!r}, source = {source}, fitted_on = [{listed}] }}")
        return "\n".join(lines) + "\n"

    @checked()
    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the chip file; its name is the file's.

        Raises:
            InputError: If the path does not end in .toml or cannot be written.
        """
        target = Path(path)
        if target.suffix != ".toml":
            raise InputError("a chip file", "must end in .toml", repr(str(target)))
        if target.stem in chips.names():
            raise InputError("a chip file", "must not be named like a shipped chip", repr(target.stem))
        return write_whole(target, self.text(target.stem).encode())


@checked()
def fit_chip(
    rows: str | PathLike[str],
    soc: str,
    *,
    models: str | PathLike[str],
    constants: Sequence[str] | None = None,
    report: Report = lambda line: None,
) -> OwnChip:
    """Fits the documented constants of a chip to one's own measurements.

    Args:
        rows: A CSV file in the columns of docs/validate.md.
        soc: The shipped chip to start from.
        models: Folder with the networks.
        constants: Which of the chip's constants may move, by key; None = all.
        report: Receives a line a run.

    Raises:
        InputError: If the chip has no documented constants, or the rows are too few for them.
    """
    chosen = chosen_constants(soc, constants)
    points, left = read_rows(rows, Path(models), soc)
    cases, refused = _compiled(points, Path(models))
    left = (*left, *refused)
    networks = {case.point.model for case in cases}
    fewest = max(len(chosen), FEWEST_NETWORKS)
    if len(networks) < FEWEST_NETWORKS or len(cases) < fewest:
        first = f"; {left[0].where}: {left[0].reason}" if left else ""
        raise InputError(
            f"measurements {str(rows)!r}",
            f"must hold at least {fewest} usable points of {FEWEST_NETWORKS} networks to fit {len(chosen)} "
            f"constants",
            f"{len(cases)} of {len(networks)}{first}",
            "measure more, or name fewer constants",
        )
    used = tuple([case.point for case in cases])
    spec = chips.load(soc)
    before = tuple([_predicted(case, spec) for case in cases])
    found = fit(cases, chosen, report=report)
    return OwnChip(spec.name, Path(rows).name, chosen, used, before, found, left)


def _predicted(case: Case, spec: SocSpec) -> Prediction:
    us = run_machine(case.program, spec).duration_us + call_us(case.program, spec)
    return Prediction(case.point, case.point.batch / us * 1e6)


def chosen_constants(soc: str, names: Sequence[str] | None = None) -> tuple[Constant, ...]:
    """The documented constants of a chip, or some of them.

    Raises:
        InputError: If the chip has none, or not these.
    """
    known = {CHIPS[group]: constants for group, constants in CONSTANTS.items()}
    name = chips.load(soc).name
    if name not in known:
        raise InputError(f"chip {soc!r}", "has no documented constants to fit", remedy=suggest(name, known))
    if names is None:
        return known[name]
    by_key = {key: constant for constant in known[name] for key in constant.keys}
    for key in names:
        if key not in by_key:
            raise InputError(
                f"constant {key!r}", f"is none that is fitted on {name}", remedy=suggest(key, by_key)
            )
    if not names:
        raise InputError("constants", "must name at least one")
    return tuple(dict.fromkeys(by_key[key] for key in names))


def _compiled(points: Sequence[Point], folder: Path) -> tuple[list[Case], list[LeftOutRow]]:
    cases: list[Case] = []
    left: list[LeftOutRow] = []
    for point in points:
        try:
            cases += prepare([point], folder)
        except AscendSimError as error:
            left.append(LeftOutRow(f"{point.model}, batch {point.batch}", str(error)))
    return cases, left


def _plain(text: str) -> str:
    return text if text.isprintable() else repr(text)


def _quoted(text: str) -> str:
    """A text as TOML writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
