"""What became of the PyTorch operators of captured graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ascendsim.core.table import Row, Table
from ascendsim.frontends.torch.notes import CallNote


def fx_summary(graphs: Iterable[Sequence[CallNote]]) -> Table:
    """One row a captured PyTorch operator, as torchair's summary has them: how often it stands in the graphs,
    on what, and what it became.
    """
    groups: dict[str, list[CallNote]] = {}
    for calls in graphs:
        for note in calls:
            groups.setdefault(note.operator, []).append(note)
    rows: list[Row] = []
    for operator, notes in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        made = Counter(_became(note) for note in notes)
        status = "runs in PyTorch" if any(note.made is None for note in notes) else "supported"
        kind = operator.partition(".")[0]
        inputs, outputs = (_counted(Counter(texts)) for texts in zip(*map(_ends, notes), strict=True))
        rows.append((operator, kind, status, len(notes), _counted(made), inputs, outputs))
    columns = ("Operator", "Type", "Status", "Count", "Converted To", "Inputs", "Outputs")
    return Table("fx_summary", columns, tuple(rows))


def _ends(note: CallNote) -> tuple[str, str]:
    return note.inputs, note.outputs


def _became(note: CallNote) -> str:
    if note.made is None:
        return "PyTorch"
    return " + ".join(note.made) or "no task"


def _counted(texts: Counter[str]) -> str:
    """Texts, the most frequent first, with their numbers where there are several."""
    if len(texts) == 1:
        return next(iter(texts))
    return "; ".join(
        f"{count} x {text}" for text, count in sorted(texts.items(), key=lambda i: (-i[1], i[0]))
    )
