"""Makes docs/bert_large_results.md: one pre-training step of BERT-large (masked words and next sentence) by
fusion levels, shares, optimisers, loss scale, the gain of each pass, and values.

    python scripts/make_bert_large_table.py                              all of the page (a quarter of an hour)
    python scripts/make_bert_large_table.py --soc_version Ascend910A levels shares      two sections of it
    python scripts/make_bert_large_table.py --layers 2 levels            prints a look at two layers, in seconds

The step is captured from a PyTorch module on the meta device; batch 32, sequence 128, 20 masked words. Times
and bytes are simulated and repeat exactly. Values are those of a small network of the same structure.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # tests.support

import ascendsim as asim
from ascendsim.api.result import Result
from ascendsim.core.files import write_whole
from ascendsim.training.step import TrainingStep
from tests.support.bert_pretraining import LARGE, SMALL, on_meta, with_values

TARGET = ROOT / "docs" / "bert_large_results.md"
Arrays = Mapping[str, np.ndarray]
LEVELS = ("off", "graph", "ub", "all", "graph-kernel")
EXPANDED = (
    "GeLU",
    "LogSoftmax",
    "Softmax",
    "SoftmaxGradExt",
)  # what graph-kernel fusion takes apart in this step
NOTHING = 1e-6  # of the largest magnitude of its kind: what a tensor of rounding errors stays below
MODE = "allow_mix_precision"
SCALE = 1024
# forward and backward pass of an early sketch, without masks of dropout and optimizer
PROTOTYPE = {"off": 183.8, "graph": 166.4, "ub": 119.3, "all": 119.3, "graph-kernel": 128.0}
GROUPS = {
    "TransData": ("TransData",),
    "Cast": ("Cast",),
    "dropout on AI Cores": ("DropOutDoMask", "DropOutDoMaskV3"),
    "products": ("MatMulV2", "BatchMatMulV2", "BatchMatMul", "MatMul"),
}


class Steps:
    """Simulated steps of one chip, each once.

    Args:
        soc: The chip.
        layers: Of the network.
    """

    def __init__(self, soc: str, layers: int) -> None:
        self.soc, self._sizes = soc, replace(LARGE, layers=layers)

    @cache  # noqa: B019  # lives as long as the program
    def step(self, optimizer: str | None = "lamb", scale: int | None = SCALE) -> TrainingStep:
        return asim.training_step(*on_meta(self._sizes), optimizer=optimizer, loss_scale=scale)

    @cache  # noqa: B019
    def result(
        self, fusion: str, optimizer: str | None = "lamb", scale: int | None = SCALE, limits: str = ""
    ) -> Result:
        options = {"ub_limits": limits} if limits else {}
        step = self.step(optimizer, scale)
        return asim.simulate(
            asim.compile(step.graph, self.soc, fusion=fusion, precision_mode=MODE, options=options)
        )

    def ms(self, *args: Any) -> float:
        return self.result(*args).duration_us / 1000

    def sequences(self, *args: Any) -> float:
        """A second."""
        return self._sizes.batch / self.ms(*args) * 1000


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def levels(steps: Steps) -> str:
    """Times of whole steps, and of forward and backward pass alone."""
    rows = []
    for level in LEVELS:
        seen = steps.result(level).summary()
        alone = steps.ms(level, None, None)
        cells = [level, f"{steps.ms(level):.1f}", f"{steps.sequences(level):.0f}"]
        cells += [f"{seen.ddr_bytes / 1e9:.1f}", seen.tasks, f"{alone:.1f}"]
        rows.append([*cells, PROTOTYPE[level] if steps.soc == "Ascend910A" else "-"])
    columns = ("fusion", "step, ms", "sequences/s", "DDR, GB", "tasks", "without optimizer, ms", "sketch, ms")
    base, fused = steps.ms("ub", "lamb", SCALE, "MindSpore"), steps.ms("graph-kernel")
    gain = 100 * (base - fused) / base
    text = (
        f'MindSpore\'s baseline (`fusion="ub"`, `ub_limits="MindSpore"`): {base:.1f} ms; graph-kernel fusion'
        f" takes {gain:.1f} % less, {100 * (1 - fused / steps.ms('off')):.1f} % less than no fusion.\n"
    )
    return table(columns, rows) + "\n" + text


def shares(steps: Steps) -> str:
    """What kinds of operators take of the time of all tasks on AI Cores, and what the AI CPU does beside."""
    rows = []
    for level in ("off", "all", "graph-kernel"):
        spent: dict[tuple[str, str], float] = {}
        for row in steps.result(level).op_statistic().records():
            key = (str(row["OP Type"]), str(row["Core Type"]))
            spent[key] = spent.get(key, 0.0) + float(str(row["Total Time(us)"]))
        cores = {kind: time for (kind, core), time in spent.items() if core != "AI_CPU"}
        whole = sum(cores.values())
        parts = [sum(cores.get(kind, 0.0) for kind in kinds) for kinds in GROUPS.values()]
        masks = sum(time for (kind, core), time in spent.items() if core == "AI_CPU" and "GenMask" in kind)
        cells = [f"{part / 1000:.1f} ({100 * part / whole:.0f} %)" for part in parts]
        rows.append([level, f"{whole / 1000:.1f}", *cells, f"{masks / 1000:.1f}"])
    columns = ("fusion", "AI Cores, ms", *GROUPS, "masks on the AI CPU, beside them, ms")
    phases = steps.result("all").training_shares().records()
    split = ", ".join(f"{row['Phase']} {float(str(row['Ratio(%)'])):.0f} %" for row in phases)
    return table(columns, rows) + f'\nAt `fusion="all"`: {split}.\n'


def composites(steps: Steps) -> str:
    """What graph-kernel fusion takes off MindSpore's baseline with other operators in composites, and without a
    loss scale.
    """
    rows = []
    for scale in (SCALE, None):
        base = steps.ms("ub", "lamb", scale, "MindSpore")
        for more in ("", "Select", "TransData") if scale else ("",):
            fused = steps.ms("graph-kernel", "lamb", scale)
            if more:
                model = asim.compile(
                    steps.step("lamb", scale).graph,
                    steps.soc,
                    fusion="graph-kernel",
                    precision_mode=MODE,
                    graph_kernel_flags=f"--enable_cluster_ops={more}",
                )
                fused = asim.simulate(model).duration_us / 1000
            shown = f"{base:.2f}", f"{fused:.2f}", f"{100 * (1 - fused / base):.1f}"
            rows.append([scale or "none", more or "-", *shown])
    columns = ("loss scale", "more in composites", "baseline, ms", "graph-kernel, ms", "takes off, %")
    return table(columns, rows)


def optimizers(steps: Steps) -> str:
    """What an optimizer adds, fused and written out, and what a loss scale adds."""
    rows = []
    for name in ("adamw", "lamb"):
        for scale in (None, SCALE):
            added = [steps.ms(level, name, scale) - steps.ms(level, None, None) for level in ("off", "all")]
            rows.append([name, scale or "none", *(f"{one:.1f}" for one in added)])
    return table(("optimizer", "loss scale", "written out, ms more", "fused, ms more"), rows)


def passes(steps: Steps) -> str:
    """What the step loses without each pass."""
    found = asim.ablate(steps.step().graph, steps.soc, fusion="all", precision_mode=MODE)
    rows = []
    for row in found.table().records():
        cells = [row["Saves(us)"], row["Saves DDR(MB)"]]
        shown = ["-" if cell is None else f"{float(str(cell)) / 1000:.2f}" for cell in cells]
        tasks = row["Saves tasks"]
        rows.append(
            [row["Pass"], row["Effected"] or "", *shown, "-" if tasks is None else tasks, row["Note"]]
        )
    return table(("pass", "took effect", "saves ms", "saves DDR GB", "saves tasks", "note"), rows)


def values(steps: Steps) -> str:
    """Losses, gradients and updated weights of a small network of the same structure."""
    module, inputs = with_values(SMALL)
    step = asim.training_step(module, inputs, optimizer="lamb", loss_scale=SCALE)
    feed = {**step.initial(), "learning_rate": np.float32(1e-3)}
    feed |= {f"input_{place}": tensor.numpy() for place, tensor in enumerate(inputs)}

    def outputs(level: str, mode: str, **options: str) -> Arrays:
        model = asim.compile(step.graph, steps.soc, fusion=level, precision_mode=MODE, **options)
        return asim.run(model, feed, values=mode).outputs

    rows, texts = [], []
    for mode in ("float32", "device"):
        found = {level: outputs(level, mode) for level in LEVELS}
        rows += [
            [mode, level, _differing(found[level], found["off"]), _differing(found[level], found["graph"])]
            for level in LEVELS[1:]
        ]
        report = asim.compile(step.graph, steps.soc, fusion="graph", precision_mode=MODE).fusion
        for name in dict.fromkeys(record.name for record in report.records if record.effected):
            without = _differing(outputs("graph", mode, optimization_switch=f"{name}:off"), found["off"])
            if without != rows[-len(LEVELS) + 1][2]:
                texts.append(f"{name} ({mode}: {without} without it)")
        if rows[-1][3] != rows[-len(LEVELS) + 1][3]:
            for name in EXPANDED:
                whole = outputs("graph-kernel", mode, graph_kernel_flags=f"--disable_expand_ops={name}")
                without = _differing(whole, found["graph"])
                if without != rows[-1][3]:
                    texts.append(
                        f"{name} as its formula in composites ({mode}: {without} against graph without)"
                    )
    columns = ("values", "fusion", "tensors other than at off", "other than at graph")
    return table(columns, rows) + f"\nWhere the differences come from: {', '.join(texts) or 'nowhere'}.\n"


def _differing(found: Arrays, wanted: Arrays) -> str:
    """How many tensors differ, and by how much of the largest magnitude.

    A tensor of nothing but rounding (the gradient of a key's bias, which is 0) is measured by the largest of
    its kind.
    """
    largest: dict[str, float] = defaultdict(float)
    for name, array in wanted.items():
        largest[_kind(name)] = max(largest[_kind(name)], float(np.abs(array).max()))
    worst = {
        name: float(
            np.abs(found[name] - array.astype(np.float64)).max()
            / max(float(np.abs(array).max()), NOTHING * largest[_kind(name)])
        )
        for name, array in wanted.items()
        if not np.array_equal(found[name], array)
    }
    return f"{len(worst)} of {len(wanted)}" + (f" (at most {max(worst.values()):.1g})" if worst else "")


def _kind(name: str) -> str:
    """Gradients, weights, or a kind of state."""
    return name.rpartition(".")[2]


HEAD = """# A pre-training step of BERT-large

Made by `scripts/make_bert_large_table.py`; simulated, nothing in it was measured. Forward and backward pass of BERT-large with both heads (masked words, next
sentence), captured from PyTorch, and the update by LAMB; batch 32, sequence 128, 20 masked words, dropout 0.1, loss scale 1024 (fixed),
`precision_mode="allow_mix_precision"`. "Sketch" is an early prototype's forward and backward pass, without masks of dropout.

- **What graph-kernel fusion takes off** is said below each table of levels: against MindSpore's own baseline (graph fusion, and its UB passes with their limits:
  `ub_limits="MindSpore"`), and against no fusion. Against CANN's UB fusion (`ub`, `all`) it takes nothing off: those passes join as much.
  A claim of more than 10 % holds against no fusion, not against that baseline.
- **Why it is less than 10 %.** Composites take sums, casts, the unscaling of gradients with their squares, dropout's sums, and norms with their roots. Three parts of
  the step leave them nothing. The update is CANN's own kernel in both flows (LambNextMVWithDecay, LambUpdateWithLr; MindSpore never lets those composites grow).
  Selects keep old weights and state where a gradient overflowed, a tenth of the step in both flows; MindSpore's scripts branch instead, and Select is on none
  of the lists. Products and TransData stay tasks of their own. Tables of composites below say what it takes off two layers: by default, with Select in composites
  (`--enable_cluster_ops=Select`), with TransData (joined to its Cast it is little quicker), and without a loss scale, and so without Selects (what a branch around the update would leave at best).
  GELU by erf has no formula in MindSpore, so that its gradient and the bias's sum, one composite for tanh (Fused_GeLUGrad_BiasAddGrad), stay two tasks.
- **Casts** are those of mixed precision: float32 master weights, once a step each, and the borders of what stays in float32 (LayerNormalization, Softmax,
  the losses). Graph-kernel fusion computes many of them inside of composites.
- **TransData** is there on 910A alone, whose Cube reads FRACTAL_NZ; 910B reads ND.
- **Dropout**: masks are drawn on the AI CPU beside the AI Cores, and the products with them run on the Vector unit.
- **Values** are compared on two layers of the same structure (width 64, 4 heads), all outputs of the step: loss, gradients, updated weights and state.
"""


def _few(section: Callable[[Steps], str], steps: Steps) -> str:
    """A section about a network of two layers, where one of all would take an hour."""
    return section(Steps(steps.soc, 2))


SECTIONS: dict[str, tuple[str, Callable[[Steps], str]]] = {
    "levels": ("Fusion levels", levels),
    "shares": ("Shares", shares),
    "composites": ("Composites, two layers", partial(_few, composites)),
    "optimizers": ("Optimizers and loss scale, two layers", partial(_few, optimizers)),
    "values": ("Values", values),
    "passes": ("Gain of each pass, two layers", partial(_few, passes)),
}


def page(old: str, made: Mapping[str, str]) -> str:
    """The page with some sections made anew, in their order.

    Args:
        old: The page, or nothing.
        made: Texts by heading.
    """
    known = {}
    for part in old.split("\n## ")[1:]:
        heading, _, text = part.partition("\n\n")
        known[heading] = text.rstrip("\n") + "\n"
    known |= made
    titles = [title for title, _ in SECTIONS.values()]
    order = sorted(known, key=lambda heading: (heading.split(":")[0], titles.index(heading.split(": ")[1])))
    return "\n".join([HEAD, *(f"## {heading}\n\n{known[heading]}" for heading in order)])


def main() -> None:
    """Prints the sections that are asked for, and puts them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    parser.add_argument("--soc_version", default="Ascend910A,Ascend910B2", help="chips, with commas between")
    parser.add_argument("--layers", type=int, default=LARGE.layers)
    args = parser.parse_args()
    if unknown := set(args.sections) - set(SECTIONS):
        parser.error(f"no such section: {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    warnings.simplefilter("ignore")  # PyTorch's about what it has registered
    for soc in args.soc_version.split(","):
        steps = Steps(soc, args.layers)
        for name in args.sections or SECTIONS:
            title, section = SECTIONS[name]
            made = {f"{soc}: {title}": section(steps)}
            print(page("", made), flush=True)
            if args.layers == LARGE.layers:
                old = TARGET.read_text(encoding="utf-8") if TARGET.exists() else ""
                write_whole(TARGET, page(old, made).encode())


if __name__ == "__main__":
    main()
