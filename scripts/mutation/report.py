"""What a file of results says: kill rates by package, and the mutants that no test noticed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

DETECTED = ("killed", "timeout", "crashed")


def report(path: Path) -> str:
    """A table by package and the list of survivors; of a mutant that ran more than once the last result
    counts.
    """
    runs = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    rows = {(row["file"], row["original"], row["mutated"]): row for row in runs}
    packages: dict[str, Counter[str]] = {}
    for row in rows.values():
        packages.setdefault(_package(row["file"]), Counter())[row["status"]] += 1
    lines = [
        f"{'package':<12}{'mutants':>8}{'killed':>8}{'timeout':>8}{'crashed':>8}{'alive':>8}{'unseen':>8}{'error':>8}{'equal':>8}{'rate':>8}"
    ]
    total: Counter[str] = Counter()
    for name, counts in sorted(packages.items()):
        total += counts
        lines.append(_row(name, counts))
    lines += [_row("all", total), ""]
    for status in ("survived", "not covered", "error"):
        found = sorted(
            (row for row in rows.values() if row["status"] == status),
            key=lambda row: (row["file"], row["line"]),
        )
        if found:
            lines += [
                f"{status}:",
                *(
                    f"- {row['file']}:{row['line']} `{row['original']}` -> `{row['mutated']}`"
                    for row in found
                ),
                "",
            ]
    return "\n".join(lines)


def _package(path: str) -> str:
    return "kernels" if path.startswith("kernels/") else path.split("/")[1].removesuffix(".py")


def _row(name: str, counts: Counter[str]) -> str:
    judged = counts.total() - counts["equivalent"] - counts["error"]
    rate = f"{100 * sum(counts[status] for status in DETECTED) / judged:7.1f}%" if judged else f"{'-':>8}"
    shown = ("killed", "timeout", "crashed", "survived", "not covered", "error", "equivalent")
    return f"{name:<12}{counts.total():>8}" + "".join(f"{counts[status]:>8}" for status in shown) + rate
