"""Writes what README.md shows of a run: the picture of ResNet-18 unfused against fused, the first rows of its
tables, and a line each on accuracy, of errors that the package holds, and on speed, of a page of docs/. A test
compares.

    python scripts/make_readme.py
"""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import ascendsim as asim
from ascendsim.core.table import Table, cell_text
from ascendsim.profiling.interval import rows_for

ROOT = Path(__file__).resolve().parents[1]
README, PICTURE = ROOT / "README.md", ROOT / "docs" / "images" / "unfused_fused.png"
BEGIN, END = "<!-- example -->\n", "<!-- end of example -->"
CHIP, NETWORK = "Ascend310P3", "resnet18"
COLUMNS = (
    "Variant",
    "Time(us)",
    "Speed-up",
    "DDR read(MB)",
    "DDR write(MB)",
    "L2(MB)",
    "Tasks",
    "Launch(us)",
)
OPERATORS = ("Operator", "Type", "Engine", "Time(us)", "Share(%)", "Bound by", "Of peak(%)")


def comparison() -> asim.Comparison:
    """The run that the page opens with."""
    graph = asim.load(ROOT / "tests" / "data" / "models" / f"{NETWORK}.onnx", weights="random")
    return asim.compare(
        {
            name: asim.compile(graph, soc=CHIP, fusion=level)
            for name, level in (("unfused", "off"), ("fused", "all"))
        }
    )


def block(compared: asim.Comparison) -> str:
    """What stands between the marks."""
    fused = compared.results["fused"]
    return "\n".join(
        (
            f"![{NETWORK} on {CHIP}, unfused and fused](docs/images/{PICTURE.name})",
            "",
            markdown(compared.table(), COLUMNS),
            f"The longest tasks of the fused run, `result.top_operators(4)`:\n\n"
            f"{markdown(fused.top_operators(4), OPERATORS)}",
            f"- **Accuracy**, of throughput that others published ([all of it](docs/how_accurate_is_it.md)): {accuracy()}.",
            f"- **Speed** ([all of it](docs/performance.md)): {speed()}.",
            "",
        )
    )


def markdown(table: Table, columns: tuple[str, ...]) -> str:
    """Some columns of a table as Markdown."""
    rows = zip(*(table.column(name) for name in columns), strict=True)
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for row in rows:
        texts = [f"{cell:,.1f}" if isinstance(cell, float) else cell_text(cell) for cell in row]
        lines.append(f"| {' | '.join(texts)} |")
    return "\n".join(lines) + "\n"


def accuracy() -> str:
    """Mean absolute error on throughput a chip, by constants that have not seen the network."""
    parts = []
    for chip in ("Ascend310", "Ascend310P3"):
        errors = [abs(math.exp(row.log_ratio) - 1) for row in rows_for(chip)]
        parts.append(f"{100 * statistics.fmean(errors):.1f} % mean error over {len(errors)} points on {chip}")
    return f"{', '.join(parts)}, each by constants that have not seen the network"


def speed() -> str:
    """Whole processes of ResNet-50, and other simulators on the same job."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    rows = [cells for cells in map(cells_of, page.splitlines()) if len(cells) == 7 and cells[0] != "workload"]
    network = next(cells for cells in rows if cells[0] == "resnet50-b1")
    product = next(cells for cells in rows if cells[0] == "gemm-1024")
    return (
        f"ResNet-50 in {network[2]} s as a whole process ({network[6]}), a product of 1024^3 in {product[2]} s "
        f"({product[6]})"
    )


def cells_of(line: str) -> list[str]:
    """The cells of a row of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []


def renewed(page: str, text: str) -> str:
    """The page with another text between the marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + text + END + after


if __name__ == "__main__":
    compared = comparison()
    compared.plot_timelines().save(PICTURE)
    README.write_text(renewed(README.read_text(encoding="utf-8"), block(compared)), encoding="utf-8")
