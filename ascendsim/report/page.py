"""The page itself: template, styles and scripts put together, its limits, and what a notebook shows of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from ascendsim.core.errors import InputError, OptionWarning
from ascendsim.core.files import check_place, write_whole
from ascendsim.core.table import Table
from ascendsim.profiling.select import Window, check_window
from ascendsim.report.payload import packed, payload
from ascendsim.report.subject import Subject

LARGE, LARGEST = 10_000_000, 50_000_000  # bytes of a page: from here a warning, and refused
_SCRIPTS = ("core", "timeline", "table", "roofline", "memory", "graph", "start")
SECTIONS = (
    ("summary", "Summary"),
    ("findings", "Findings"),
    ("timeline", "Timeline"),
    ("operators", "Operators"),
    ("changes", "Changes"),
    ("roofline", "Roofline"),
    ("memory", "Memory plan"),
    ("graph", "Graph"),
    ("provenance", "Where the figures come from"),
)


@dataclass(frozen=True, repr=False)
class Report:
    """One HTML page that holds all it shows.

    Attributes:
        html: The page.
        path: Where it was written; None if it was not.
    """

    html: str
    path: Path | None = None

    def save(self, path: str | PathLike[str]) -> Report:
        """Writes the page into a file, whole or not at all.

        Raises:
            InputError: If the file's name does not end in .html, or it cannot be written.
        """
        return Report(self.html, write_whole(check_report(path), self.html.encode("utf-8", "replace")))

    def _repr_html_(self) -> str:
        return (
            '<iframe sandbox="allow-scripts" style="width:100%;height:820px;border:0" '
            f'srcdoc="{escape(self.html)}"></iframe>'
        )

    def __repr__(self) -> str:
        where = "" if self.path is None else f"{str(self.path)!r}, "
        return f"Report({where}{len(self.html):,} bytes)"


def check_report(path: str | PathLike[str]) -> Path:
    """The path of a report that can be made, so that nobody hears of it after a long run.

    Raises:
        InputError: If it cannot be written, its name does not end in .html, or jinja2 is missing.
    """
    target = check_place(path)
    if target.suffix.lower() != ".html":
        raise InputError(f"report {str(path)!r}", "must end in .html", remedy="write report.html")
    _template()
    return target


def make_report(
    title: str,
    subjects: Sequence[Subject],
    findings: Table | None = None,
    window: tuple[float, float] | None = None,
    sensitivity: Table | None = None,
) -> Report:
    """The page on some runs; see `payload` for the arguments.

    Raises:
        InputError: If jinja2 is not there, the window or a table is not usable, or the page would be too
            large.
    """
    template = _template()
    checked_window: Window | None = None if window is None else check_window(window)
    text = template.render(
        title=title,
        sections=SECTIONS,
        css=_asset("report.css"),
        script="\n".join(_asset(f"{name}.js") for name in _SCRIPTS),
        payload=packed(payload(title, subjects, findings, checked_window, sensitivity)),
    )
    if len(text) > LARGEST:
        raise InputError(
            "the report",
            f"would have {len(text) / 1e6:.0f} MB, more than {LARGEST / 1e6:.0f}",
            remedy="record instructions of fewer operators, or give window=(start_us, end_us)",
        )
    if len(text) > LARGE:
        warnings.warn(
            f"the report has {len(text) / 1e6:.0f} MB and will open slowly; record instructions of fewer "
            "operators, or give window=(start_us, end_us)",
            OptionWarning,
            stacklevel=2,
        )
    return Report(text)


@cache
def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _template() -> Any:
    """The page's template; everything that goes into it is escaped but this package's own files."""
    from jinja2 import Environment, StrictUndefined

    source = (resources.files(__package__) / "templates" / "page.html.j2").read_text(encoding="utf-8")
    return Environment(autoescape=True, undefined=StrictUndefined).from_string(source)
