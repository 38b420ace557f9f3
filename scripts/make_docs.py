"""Builds the documentation site into out/docs: `make docs`. Any warning, dead link or file from the network is
an error.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "kernels"), str(ROOT / "scripts")]

from docsite import api, columns, commands, links

REFERENCE = ROOT / "docs" / "reference"
TARGET = ROOT / "out" / "docs"
MODELS = ROOT / "tests" / "data" / "models"
GALLERY = """# Reports to try

Each is one file, made by `ascendsim report` ([how](../report.md)); it opens in any browser and needs no network.

| report of a comparison, unfused and fused | size |
|---|---|
"""


def generated() -> dict[str, str]:
    """Text of every page that is made from code or data, by path."""
    return {**api.pages(), **commands.pages(), **columns.pages()}


def main() -> int:
    """Writes the reference, builds, checks; returns the exit code."""
    start = time.monotonic()
    shutil.rmtree(REFERENCE, ignore_errors=True)
    for path, text in {**generated(), **gallery()}.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text, encoding="utf-8")
    folders = ["-c", "docs", "-d", "out/docs-cache", ".", str(TARGET)]
    shutil.rmtree(TARGET, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", *folders]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        return 1
    faults = links.faults_of_site(TARGET)
    for fault in faults:
        print(fault)
    pages = list(TARGET.rglob("*.html"))
    size = sum(path.stat().st_size for path in TARGET.rglob("*") if path.is_file())
    print(
        f"{len(pages)} pages, {size / 1e6:.1f} MB in {time.monotonic() - start:.0f} s: {TARGET / 'index.html'}"
    )
    return 1 if faults else 0


def gallery() -> dict[str, str]:
    """The page of sample reports; the reports are written beside it."""
    import ascendsim as asim

    folder = REFERENCE / "site" / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for network, chip in (("resnet18", "Ascend310P3"), ("bert_base_s128", "Ascend910B1")):
        graph = asim.load(MODELS / f"{network}.onnx", weights="random")
        comparison = asim.compare(
            {fusion: asim.compile(graph, chip, fusion=fusion) for fusion in ("off", "all")}
        )
        page = comparison.report(folder / f"{network}.html")
        rows.append(
            f'| <a href="../../reports/{network}.html">{network} on {chip}</a> | {len(page.html) / 1e6:.2f} MB |'
        )
    return {"docs/reference/reports.md": GALLERY + "\n".join(rows) + "\n"}


if __name__ == "__main__":
    sys.exit(main())
