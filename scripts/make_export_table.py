"""Fills the table of docs/export.md: what the public msprof-analyze finds in exports, held against the runs.

    python scripts/make_export_table.py                           the whole page: BERT-base and ResNet-18 (6 minutes)
    python scripts/make_export_table.py lenet5 --batch 1 --soc_version Ascend310     prints the rows of a network

Needs `pip install msprof-analyze==26.2.0 openpyxl torch`. A command whose figures differ from ours ends the script.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # tests.support

from tests.support.msprof_tools import CHECKS, Exported, exported, exported_graph, run_check

PAGE = ROOT / "docs" / "export.md"
START, END = "<!-- table -->\n", "<!-- end of table -->"
NETWORKS = (("bert_base_s128", 8), ("resnet18", 4))
HEAD = "| tool | command | which files it used | what agrees with ours |\n|---|---|---|---|\n"
NAMES_NO_MODULE = "names of this file's operators have no modules"


def rows(network: str, batch: int, chip: str) -> str:
    """The lines of a network, unfused and fused."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        side: Exported | None = None
        for fusion in ("off", "all"):
            side = exported(network, batch, chip, fusion, Path(folder), side)
            size = sum(path.stat().st_size for path in side.ascend_pt.rglob("*") if path.is_file()) / 1e6
            lines.append(f"| | `ascend_pt` with `msprof` in it, fusion {fusion} | | {size:.1f} MB |\n")
        for name, check in CHECKS.items():
            if name.endswith("module_statistic") and not side.has_modules:
                found = NAMES_NO_MODULE
            else:
                found = run_check(check, side, Path(folder) / name.replace(" ", "_"))
            lines.append(f"| msprof-analyze | `{name}` | {check.read} | {found} |\n")
            print(lines[-1], end="", flush=True)
    title = f"{network}, batch {batch}, {chip}"
    return f"**{title}**\n\n{HEAD}{''.join(lines)}"


def of_modules(chip: str) -> str:
    """The lines of BERT-base out of PyTorch, whose operators know their modules."""
    import torch

    import ascendsim as asim
    from tests.support.bert_pretraining import Embeddings, Layer, Sizes

    class Bert(torch.nn.Module):
        def __init__(self, sizes: Sizes) -> None:
            super().__init__()
            self.embeddings = Embeddings(sizes)
            self.layer = torch.nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))

        def forward(self, ids: torch.Tensor, kinds: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            x = self.embeddings(ids, kinds)
            for layer in self.layer:
                x = layer(x, mask)
            return x

    with torch.device("meta"):
        net = Bert(Sizes(layers=12, width=768, heads=12)).eval()
        inputs = (*torch.zeros(2, 8, 128, dtype=torch.long), torch.zeros(8, 1, 1, 128))
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        side = exported_graph(asim.from_torch(net, inputs), chip, "all", Path(folder))
        for name in ("cluster -m module_statistic", "cluster -m operator_mfu"):
            check = CHECKS[name]
            found = run_check(check, side, Path(folder) / name.replace(" ", "_"))
            lines.append(f"| msprof-analyze | `{name}` | {check.read} | {found} |\n")
            print(lines[-1], end="", flush=True)
    return f"**BERT-base of PyTorch, batch 8, {chip}**\n\n{HEAD}{''.join(lines)}"


def main() -> None:
    """Prints rows, and writes the page if they are all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("network", nargs="?", help="name in tests/data/models (default: the page's)")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--soc_version", default="Ascend910B1")
    args = parser.parse_args()
    if args.network:
        rows(args.network, args.batch, args.soc_version)
        return
    tables = "\n".join(
        [
            *(rows(network, batch, args.soc_version) for network, batch in NETWORKS),
            of_modules(args.soc_version),
        ]
    )
    text = PAGE.read_text(encoding="utf-8")
    before, after = text[: text.index(START)], text[text.index(END) :]
    PAGE.write_text(f"{before}{START}\n{tables}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
