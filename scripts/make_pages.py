"""Which generated pages and tables are older than the simulator, and makes them anew.

    python scripts/make_pages.py                 lists them: those whose times have moved since they were made
    python scripts/make_pages.py --renew         makes these, one after the other (an hour and more if all are)
    python scripts/make_pages.py --renew errors  makes the named ones, older or not

docs/made_with.csv holds for each page by what times it was made: digests of a few small networks on the chips
that it speaks of. So a change of the machine, of kernels or of a chip's figures shows in it; what moves no time
of these networks does not.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAMPS = ROOT / "docs" / "made_with.csv"
NETWORKS = ("bert_tiny_s64", "lenet5", "mobilenet_v3_small", "shufflenet_v1", "squeezenet1_1")
INFERENCE = ("Ascend310", "Ascend310P3", "Ascend910B1")
TRAINING = ("Ascend910A", "Ascend910B")


@dataclass(frozen=True)
class Page:
    """A page or table that a script makes.

    Attributes:
        name: What it is called here.
        path: The file, from the root.
        script: The script in scripts/, with its arguments.
        chips: Of which it holds times.
    """

    name: str
    path: str
    script: str
    chips: tuple[str, ...]


# tables that other pages read come first
PAGES = (
    Page("errors", "ascendsim/profiling/data/network_errors.csv", "make_errors.py", INFERENCE + TRAINING),
    Page(
        "mechanisms",
        "ascendsim/validate/data/operator_mechanisms.csv",
        "make_operator_mechanisms.py",
        (*TRAINING, "Ascend910B1", "Ascend910B2", "Ascend910B4"),
    ),
    Page("accuracy", "docs/how_accurate_is_it.md", "make_accuracy_page.py", INFERENCE + TRAINING),
    Page("training", "docs/training_results.md", "make_training_page.py", TRAINING),
    Page(
        "bert_large", "docs/bert_large_results.md", "make_bert_large_table.py", ("Ascend910A", "Ascend910B2")
    ),
    Page(
        "fusion",
        "docs/fusion_results.md",
        "make_fusion_page.py --times",
        ("Ascend310", "Ascend310P3", "Ascend910A"),
    ),
    Page("scheduling", "docs/scheduling_results.md", "make_scheduling_page.py", INFERENCE),
    Page("int8", "docs/int8_results.md", "make_int8_table.py", INFERENCE),
    Page("llm", "docs/llm_results.md", "make_llm_results.py", ("Ascend910B1", "Ascend910B2", "Ascend910B4")),
    Page("kernels", "docs/kernels_results.md", "make_kernels_page.py", ("Ascend310", "Ascend910B1")),
    Page("sweep", "docs/sweep_results.md", "make_sweep_page.py", INFERENCE),
    Page("readme", "README.md", "make_readme.py", ("Ascend310", "Ascend310P3")),
)


@cache
def digest(chip: str) -> str:
    """Twelve digits for the times of all tasks of the small networks on a chip."""
    import ascendsim as asim

    found = hashlib.sha256()
    for name in NETWORKS:
        graph = asim.load(ROOT / "tests" / "data" / "models" / f"{name}.onnx")
        result = asim.simulate(asim.compile(graph, soc=chip))
        found.update(repr([(task.name, task.start, task.end) for task in result.trace.tasks]).encode())
    return found.hexdigest()[:12]


def stamp(page: Page) -> str:
    """By what times the page would be made now."""
    return " ".join(f"{chip}={digest(chip)}" for chip in page.chips)


def stamps() -> dict[str, str]:
    """By name of the page, by what times it was made."""
    with STAMPS.open(encoding="utf-8", newline="") as stream:
        return {row["page"]: row["made_with"] for row in csv.DictReader(stream)}


def write(known: Mapping[str, str]) -> None:
    """Keeps the stamps, in the order of the pages."""
    rows = [f"{page.name},{page.path},{known.get(page.name, '')}" for page in PAGES]
    STAMPS.write_text("\n".join(["page,path,made_with", *rows, ""]), encoding="utf-8")


def older(pages: Sequence[Page], known: Mapping[str, str]) -> list[tuple[Page, str]]:
    """Pages that were made by other times, with the chips whose times moved."""
    found = []
    for page in pages:
        had = dict(part.split("=") for part in known.get(page.name, "").split())
        moved = [chip for chip in page.chips if had.get(chip) != digest(chip)]
        if moved:
            found.append((page, ", ".join(moved) if had else "not known by what it was made"))
    return found


def renew(page: Page) -> bool:
    """Makes a page; whether its script ended well."""
    print(f"{page.name}: scripts/{page.script}", flush=True)
    script, *arguments = page.script.split()
    done = subprocess.run([sys.executable, ROOT / "scripts" / script, *arguments], cwd=ROOT, check=False)
    return done.returncode == 0


def main() -> int:
    """Lists or renews; exit code 1 if a script failed, or pages are older and were not renewed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="PAGE", help=", ".join(page.name for page in PAGES))
    parser.add_argument("--renew", action="store_true")
    args = parser.parse_args()
    if unknown := sorted(set(args.names) - {page.name for page in PAGES}):
        parser.error(f"unknown: {', '.join(unknown)}; pages are {', '.join(page.name for page in PAGES)}")
    known = stamps()
    chosen = [page for page in PAGES if not args.names or page.name in args.names]
    due = older(chosen, known)
    if args.renew:
        failed = []
        for page in chosen if args.names else [page for page, _ in due]:
            if renew(page):
                known[page.name] = stamp(page)
                write(known)
            else:
                failed.append(page.name)
        print(f"failed: {', '.join(failed)}" if failed else "all made", flush=True)
        return bool(failed)
    for page, why in due:
        print(f"{page.name:12} {page.path}: {why}")
    print(f"{len(due)} of {len(chosen)} are older than the simulator")
    return bool(due)


if __name__ == "__main__":
    sys.exit(main())
