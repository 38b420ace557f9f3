"""`fusion_result.json`: matched and effected times a pass, as CANN writes it, and a reader of the layouts
that its releases wrote.

    {"session_and_graph_id_0_0": {
        "graph_fusion": {"ConvBatchnormFusionPass": {"effect_times": "20", "match_times": "20"}},
        "ub_fusion": {"TbeEltwiseFusionPass": {"effect_times": "16", "match_times": "17",
        "repository_hit_times": "0"}}}}

Counts are strings. Passes that matched nothing or are switched off do not appear, nor does
FusionVirtualOpSetSwitch. Other layouts: one object with the keys `session_and_graph_id`, `graph_fusion`,
`ub_fusion`; a list of such objects.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from ascendsim.core.errors import InputError
from ascendsim.core.files import read_bounded, write_whole
from ascendsim.passes.fusion.catalogue import Family
from ascendsim.passes.fusion.report import FusionReport

MAX_BYTES = 16 << 20
NEVER_LISTED = "FusionVirtualOpSetSwitch"  # it marks operators that need no task and is not counted
_PREFIX = "session_and_graph_id"
_SECTIONS: dict[Family, str] = {"graph": "graph_fusion", "ub": "ub_fusion"}


@dataclass(frozen=True, slots=True)
class FusionCounts:
    """What one graph's compilation counted.

    Attributes:
        key: Session and graph as the file names them ("0_0").
        graph_fusion: Pass name -> (matched, effected).
        ub_fusion: Pass name -> (matched, effected).
    """

    key: str
    graph_fusion: Mapping[str, tuple[int, int]]
    ub_fusion: Mapping[str, tuple[int, int]]


def result_text(report: FusionReport, *, session: int = 0, graph: int = 0) -> str:
    """The content of fusion_result.json.

    Args:
        report: What fusion did.
        session: Number of the session.
        graph: Number of the graph.
    """
    sections: dict[str, dict[str, dict[str, str]]] = {}
    for family, section in _SECTIONS.items():
        passes = {}
        for name, (matched, effected) in report.totals(family).items():
            if name == NEVER_LISTED:
                continue
            passes[name] = {"effect_times": str(effected), "match_times": str(matched)}
            if family == "ub":
                passes[name]["repository_hit_times"] = "0"  # no repository of tuned fusions here
        sections[section] = passes
    return json.dumps({f"{_PREFIX}_{session}_{graph}": sections}, indent=4, sort_keys=True)


def write_result(
    report: FusionReport, path: str | PathLike[str], *, session: int = 0, graph: int = 0
) -> Path:
    """Writes fusion_result.json.

    Args:
        report: What fusion did.
        path: The file, or a folder in which it gets its usual name.
        session: Number of the session.
        graph: Number of the graph.

    Returns:
        The file.

    Raises:
        InputError: If it cannot be written.
    """
    target = Path(path)
    if target.is_dir():
        target /= "fusion_result.json"
    return write_whole(target, result_text(report, session=session, graph=graph).encode())


def read_result(path: str | PathLike[str]) -> tuple[FusionCounts, ...]:
    """Reads a fusion_result.json of any layout.

    Returns:
        Counts by graph, in the order of the file.

    Raises:
        InputError: If the file cannot be read or is no such file.
    """
    subject = f"fusion result file {str(path)!r}"
    content = read_bounded(path, subject, MAX_BYTES)
    if len(content) > MAX_BYTES:
        raise InputError(subject, f"must not be larger than {MAX_BYTES >> 20} MiB")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError(subject, "is not valid JSON") from None
    return parse_result(data, subject)


def parse_result(data: Any, subject: str = "fusion result") -> tuple[FusionCounts, ...]:
    """Reads the parsed JSON of a fusion_result.json of any layout.

    Raises:
        InputError: If it has none of the three layouts or a count is no number.
    """
    if isinstance(data, list):
        return tuple(
            _counts(item.get(_PREFIX), item, subject) if isinstance(item, dict) else _refuse(subject)
            for item in data
        )
    if not isinstance(data, dict):
        _refuse(subject)
    if _PREFIX in data:
        return (_counts(data[_PREFIX], data, subject),)
    found = []
    for key, value in data.items():
        if not key.startswith(f"{_PREFIX}_") or not isinstance(value, dict):
            _refuse(subject)
        found.append(_counts(key.removeprefix(f"{_PREFIX}_"), value, subject))
    return tuple(found)


def _counts(key: Any, data: dict[str, Any], subject: str) -> FusionCounts:
    if not isinstance(key, str):
        _refuse(subject)
    graph, ub = (_section(data.get(name, {}), subject) for name in _SECTIONS.values())
    return FusionCounts(key.removeprefix(f"{_PREFIX}_"), graph, ub)


def _section(data: Any, subject: str) -> dict[str, tuple[int, int]]:
    if not isinstance(data, dict):
        _refuse(subject)
    return {
        name: (_number(name, "match_times", item, subject), _number(name, "effect_times", item, subject))
        for name, item in data.items()
    }


def _number(name: str, key: str, data: Any, subject: str) -> int:
    value = str(data.get(key)) if isinstance(data, dict) else ""
    if not value.isascii() or not value.isdigit() or len(value) > 18:
        raise InputError(f"{subject}: pass {name!r}", f"needs a whole number as {key}", repr(value))
    return int(value)


def _refuse(subject: str) -> NoReturn:
    remedy = (
        "expected are session_and_graph_id_..., or objects with session_and_graph_id, graph_fusion and "
        "ub_fusion"
    )
    raise InputError(subject, "has none of the known layouts", remedy=remedy)
