"""What `ascendsim compile --memory` prints, and the picture that `--memory_map` draws."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.common import print_table

if TYPE_CHECKING:
    from ascendsim.compiler.model import CompiledModel


def print_memory(model: CompiledModel) -> None:
    """Prints where every tensor lies, then the peaks of planners and what is saved."""
    report = model.memory
    table = report.table()
    print_table(table.columns, [["-" if cell is None else str(cell) for cell in row] for row in table])
    print()
    planners = report.planners()
    print_table(
        planners.columns, [(str(name), f"{size:,}", f"{share:.3f}") for name, size, share in planners]
    )
    figures = report.figures
    print()
    print(
        f"results in place: {figures.in_place / 2**20:,.2f} MiB; "
        f"weights {figures.weights / 2**20:,.2f} MiB, equal ones once saves "
        f"{figures.saved_weights / 2**20:,.2f} MiB"
    )


def save_map(model: CompiledModel, path: str) -> Path:
    """Draws the memory map into a file.

    Raises:
        InputError: If the file cannot be written or has another ending.
    """
    return model.memory.plot().save(path)
