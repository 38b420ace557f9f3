"""The table of docs/quantisation.md says what the notebook printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_accuracies_are_those_of_the_notebook() -> None:
    page = (ROOT / "docs" / "quantisation.md").read_text()
    table = page.split("<!-- digits -->")[1].split("<!-- end of digits -->")[0]
    written = {
        row[0]: row[1:]
        for row in re.findall(r"^\| (\w+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", table, re.M)
    }
    cells = json.loads((ROOT / "notebooks" / "08_int8.ipynb").read_text())["cells"]
    said = ["".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", ())]
    (printed,) = (text for text in said if text.startswith("T by"))
    shown = {line.split()[0]: tuple(re.findall(r"([\d.]+) %", line)) for line in printed.splitlines()[1:]}
    assert written == shown
    assert set(written) == {"max", "percentile", "mse", "kl"}
    (float16,) = (re.match(r"float16: ([\d.]+) %", text)[1] for text in said if text.startswith("float16:"))  # type: ignore[index]
    assert f"(float16: {float16})" in page
