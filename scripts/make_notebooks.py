"""Runs the notebooks and keeps what they print and draw, so that they can be read without running them.

    python scripts/make_notebooks.py                 # all, or those that are named
    python scripts/make_notebooks.py --check         # says which are out of date

Kept are texts, tables and pictures (with few colours, which makes them a third as large). Wall-clock times and
messages on stderr are not. A test runs the notebooks and compares the words of every output; `--check` compares
the figures as well. Cells with the tag "long" repeat on more networks or chips what others show; the gate leaves
them out.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LONG = "long"  # tag of cells that the gate leaves out
COLOURS = 64  # of a picture; bars and texts have fewer
_WALL_CLOCK = re.compile(r"[\d.]+ ms in passes")
_WALL_CELL = re.compile(r"[\d.]+</td></tr>")  # of tables that end with a column of such times


def opened(path: Path, short: bool = False) -> Any:
    """The notebook; `short` without its long cells."""
    notebook = nbformat.read(path, as_version=4)
    if short:
        notebook.cells = [cell for cell in notebook.cells if LONG not in cell.metadata.get("tags", ())]
    return notebook


def executed(path: Path, folder: Path, short: bool = False) -> Any:
    """The notebook, or what is short of it, after a run in an empty folder beside a link to the tests' data."""
    notebook = opened(path, short)
    (folder / "notebooks").mkdir()
    (folder / "tests").symlink_to(ROOT / "tests")
    here = {"metadata": {"path": str(folder / "notebooks")}}
    # with another backend of matplotlib, as tests have it, plt.show() shows nothing
    environment = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    NotebookClient(notebook, timeout=300, kernel_name="python3", record_timing=False, resources=here).execute(
        env=environment
    )
    for number, cell in enumerate(cell for cell in notebook.cells if cell.cell_type == "code"):
        cell.execution_count = number + 1
        cell.outputs = _kept(cell.outputs, number + 1)
    return notebook


def words(notebook: Any) -> list[list[str]]:
    """By code cell, what its outputs say, without figures and without the ways that tables are set."""
    return [[re.sub(r"[\s\d.,%+-]+", " ", text).strip() for text in said] for said in texts(notebook)]


def texts(notebook: Any) -> list[list[str]]:
    """By code cell, what its outputs say; of pictures that there is one."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            found.append([])
            for output in cell.outputs:
                data = output.get("data", {})
                kinds = sorted({*data} - {"text/plain"})
                said = data.get("text/html") or data.get("text/plain") or output.get("text", "")
                found[-1].append(f"{kinds} {said}")
    return found


def _kept(outputs: list[Any], number: int) -> list[Any]:
    kept: list[Any] = []
    for output in outputs:
        if output.output_type == "stream":
            if output.name == "stderr":
                continue
            output.text = _timeless(output.text)
            if kept and kept[-1].output_type == "stream":
                kept[-1].text += output.text
                continue
        else:
            data = output.get("data", {})
            for kind in ("text/plain", "text/html"):
                if kind in data:
                    data[kind] = _timeless(data[kind])
            if "image/png" in data:
                data["image/png"] = _small(data["image/png"])
            if "execution_count" in output:
                output.execution_count = number
        kept.append(output)
    return kept


def _timeless(text: str) -> str:
    """A text without the times that this machine took."""
    text = _WALL_CLOCK.sub("some ms in passes", text)
    return _WALL_CELL.sub("some</td></tr>", text) if "<th>time(ms)</th></tr>" in text else text


def _small(picture: str) -> str:
    """A PNG with a palette."""
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    buffer = io.BytesIO()
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


def main() -> int:
    """Runs the notebooks that are asked for; 1 if one of them is out of date."""
    parser = argparse.ArgumentParser(description="Runs the notebooks and keeps what they print and draw.")
    parser.add_argument("notebooks", nargs="*", type=Path, default=NOTEBOOKS)
    parser.add_argument("--check", action="store_true", help="change nothing; 1 if one is out of date")
    args = parser.parse_args()
    late = 0
    for path in args.notebooks:
        with tempfile.TemporaryDirectory() as folder:
            made = executed(path, Path(folder))
        if args.check:
            fresh = texts(made) == texts(nbformat.read(path, as_version=4))
            late += not fresh
            print(f"{path.name}: {'as it runs' if fresh else 'out of date'}")
        else:
            nbformat.write(made, path)
            print(f"{path.name}: {path.stat().st_size / 1024:,.0f} KiB")
    return int(late > 0)


if __name__ == "__main__":
    sys.exit(main())
