"""The data of a page: JSON, compressed, as text that no name in it can break out of."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

from ascendsim.core.table import Table
from ascendsim.plot.lanes import COLOURED
from ascendsim.plot.palette import KIND_COLOURS
from ascendsim.profiling.select import Window
from ascendsim.report.changes import change_columns
from ascendsim.report.data import run_columns
from ascendsim.report.graphs import graph_columns
from ascendsim.report.provenance import provenance
from ascendsim.report.spans import STEPS_PER_US
from ascendsim.report.subject import Columns, Subject


def payload(
    title: str,
    subjects: Sequence[Subject],
    findings: Table | None = None,
    window: Window | None = None,
    sensitivity: Table | None = None,
) -> Columns:
    """All data of a page.

    Args:
        title: Heading of the page.
        subjects: The runs; changes are against the first.
        findings: What the advisor proposes.
        window: Spans of this time only, (start, end) in us.
        sensitivity: What each figure of the chip could change.
    """
    first = subjects[0].profile
    return {
        "title": title,
        "steps": STEPS_PER_US,
        "kinds": {kind: KIND_COLOURS[kind] for kind in COLOURED},
        "runs": [run_columns(subject, window) for subject in subjects],
        "changes": [change_columns(first, subject.profile) for subject in subjects[1:]],
        "graphs": graph_columns(subjects),
        "findings": None
        if findings is None
        else {"columns": list(findings.columns), "rows": [list(row) for row in findings.rows]},
        "provenance": provenance(subjects, sensitivity),
    }


def packed(data: Columns) -> str:
    """Data as base64 of zlib of JSON; lone surrogates in names stay what they are."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def unpacked(text: str) -> Any:
    """What `packed` packed."""
    return json.loads(zlib.decompress(b64decode(text)))
