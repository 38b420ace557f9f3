"""Writes the table of published kernels in docs/kernels_results.md.

    python scripts/make_kernels_page.py [ID ...]

Runs the kernels of examples/kernels/published for their time alone and writes a row for each; with ids, only
these are run, and the others keep what the page says. All of them take some ten minutes. What is above and
below the table on the page stays as it is.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ascendsim.core.files import write_whole

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "kernels_results.md"
FOLDER = ROOT / "examples" / "kernels"
MODULES = ("add", "vector", "copies", "products", "fused", "int8", "attention", "grouped", "split_k")
LIMIT = 25  # percent beyond which a row needs a reason
BEGIN, END = "<!-- published kernels -->\n", "<!-- end of published kernels -->\n"
HEAD = (
    "| id | kernel | variant | chip | cores | shape | what is measured | unit | given | error % | predicted |"
)
MISSING = "no reason is known yet"

REASONS = {
    1: "the scalar unit converts, adds and counts between its accesses; a recording holds the accesses only",
    40: "as row 42",
    42: "one base block a copy and one in L1, so that nothing hides a copy; copies of rows of 128 bytes, 16 KiB "
    "apart, take the chip 8,617 us and the machine 6,902, and the library's scalar work comes on top",
    56: "each flag between a cube core and its vector cores takes 1.2 us here, which measured LSTMs gave for messages "
    "and meetings of all cores together; the vector time that is published leaves 1.3 us a block for two flags, "
    "the store and the first load",
    100: "a kernel of a few microseconds in a library: the scalar unit's work between the instructions is not "
    "part of a recording, and what the chip does before the first load is not known",
    238: "120 cycles from one reduction to the next on the chip; the costs that are published of the "
    "instructions, which are used here, come to 43 with the barrier",
    239: "as row 238",
}


def published() -> dict[int, Any]:
    """The launches by number of their row."""
    sys.path.insert(0, str(FOLDER))
    rows = [row for name in MODULES for row in import_module(f"published.{name}").rows()]
    return {row.number: row for row in sorted(rows, key=lambda row: row.number)}


def given() -> dict[int, dict[str, str]]:
    """What is published of each row: kernel, chip, shape, and the figure where it is known here."""
    with (FOLDER / "published" / "rows.csv").open(encoding="utf-8", newline="") as file:
        return {int(line["id"]): line for line in csv.DictReader(file)}


def predictions(page: str) -> dict[int, float]:
    """What the table of a page says."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    found = re.findall(r"^\| (\d+) \|.*\| ([\d.,]+) \|$", table, re.MULTILINE)
    return {int(number): float(value.replace(",", "")) for number, value in found}


def errors(times: Mapping[int, float], lines: Mapping[int, Mapping[str, str]]) -> dict[int, float]:
    """Errors in percent of the rows whose figure is known."""
    known = {number: float(line["given"]) for number, line in lines.items() if line["given"]}
    return {number: 100 * (times[number] / value - 1) for number, value in known.items() if number in times}


def table(times: Mapping[int, float], lines: Mapping[int, Mapping[str, str]]) -> list[str]:
    """The rows, by number."""
    off = errors(times, lines)
    shown = [HEAD, "|" + "---|" * (HEAD.count("|") - 1)]
    for number in sorted(times):
        line = lines[number]
        columns = [line[key] for key in ("kernel", "variant", "chip", "cores", "shape", "metric", "unit")]
        error = f"{off[number]:+.0f}" if number in off else ""
        cells = [str(number), *columns, line["given"], error, number_text(times[number])]
        shown.append("| " + " | ".join(cells) + " |")
    return shown


def number_text(value: float) -> str:
    """Four figures."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def summary(
    times: Mapping[int, float], lines: Mapping[int, Mapping[str, str]], notes: Mapping[int, str]
) -> list[str]:
    """Errors, and why the largest ones are there."""
    off = errors(times, lines)
    mean = sum(abs(value) for value in off.values()) / len(off)
    near = sum(abs(value) <= LIMIT for value in off.values())
    beyond = [number for number, value in sorted(off.items()) if abs(value) > LIMIT]
    text = [
        f"{len(times)} rows have a kernel; the figures of {len(times) - len(off)} are not known here. Of the "
        f"{len(off)} that are,",
        f"the mean error is {mean:.1f} %, and {near} ({100 * near / len(off):.0f} %) lie within {LIMIT} %. "
        "Beyond are:",
        "",
        *[f"- row {number} ({off[number]:+.0f} %): {REASONS.get(number, MISSING)}." for number in beyond],
    ]
    conditions = [f"- row {number}: {note}." for number, note in notes.items() if note]
    return [*text, "", "Run otherwise than published:", "", *conditions]


def section(times: Mapping[int, float], notes: Mapping[int, str]) -> str:
    """What stands between the two marks."""
    lines = given()
    return "\n".join([*summary(times, lines, notes), "", *table(times, lines), ""])


def main(wanted: Sequence[str]) -> None:
    """Runs rows and writes the page."""
    page = TARGET.read_text(encoding="utf-8")
    launches, times = published(), predictions(page)
    unknown = [text for text in wanted if not text.isdigit() or int(text) not in launches]
    if unknown:
        raise SystemExit(f"no kernel for rows {unknown}; there are {sorted(launches)}")
    before, _, rest = page.partition(BEGIN)
    for number in [int(text) for text in wanted] or launches:
        times[number] = launches[number].predict()
        print(number, number_text(times[number]), flush=True)
        shown = {row: time for row, time in times.items() if row in launches}
        made = section(shown, {row: launches[row].note for row in shown})
        write_whole(TARGET, (before + BEGIN + made + END + rest.partition(END)[2]).encode())
    if MISSING in made:
        raise SystemExit(f"a row is more than {LIMIT} % off and has no reason in {__file__}")


if __name__ == "__main__":
    main(sys.argv[1:])
