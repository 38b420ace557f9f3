"""The option --report FILE.html, of every command that has a result to show."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ascendsim.cli.model_options import print_warnings

if TYPE_CHECKING:
    from ascendsim.api.comparing import Comparison
    from ascendsim.api.result import Result
    from ascendsim.core.table import Table


def add_report_option(parser: argparse.ArgumentParser) -> None:
    text = "write one HTML page that shows all of it and needs no network"
    parser.add_argument("--report", metavar="FILE.html", help=text)


def check_report_option(path: str | None) -> None:
    """Refuses a report that cannot be made, before any work is done."""
    from ascendsim.report import check_report

    if path is not None:
        check_report(path)


def write_report(shown: Result | Comparison, path: str | None, findings: Table | None = None) -> None:
    """Writes the page, if one is asked for, and says where and how large it is."""
    import warnings

    if path is None:
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        page = shown.report(path, findings=findings)
    print_warnings(str(item.message) for item in caught)
    print(f"wrote {page.path} ({len(page.html) / 1e6:.2f} MB)")
