"""Writes docs/int8_results.md: known networks in int8 against float16, and how near their bytes are to
onnxruntime's.

    python scripts/make_int8_table.py                                the whole page
    python scripts/make_int8_table.py resnet18 --folder DIR          prints the rows of some networks; files of
                                                                     the quantiser are kept in DIR and found again

Times are simulated and repeat exactly. Weights and calibration data are seeded; onnxruntime quantises.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))  # tests.support

import ascendsim as asim
from ascendsim.api.result import Result
from ascendsim.graph.sorting import STABLE
from tests.support.amct_networks import deployed
from tests.support.int8_networks import FORMS, MODELS, Form, quantised_network, steps_apart

NETWORKS = (
    "resnet18",
    "resnet50",
    "mobilenet_v1",
    "efficientnet_b1",
    "yolov5s",
    "bert_base_s128",
    "bert_tiny_s64",
)
DEPLOYED = ("resnet18", "resnet50", "mobilenet_v1")
REORDERED = ("bert_tiny_s64",)
BACKWARDS = 2  # topo_sorting_mode: reverse depth first
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910B1")
TARGET = ROOT / "docs" / "int8_results.md"
PAGE = """\
# Known networks in int8

Written by `scripts/make_int8_table.py`. Every network has seeded weights and is quantised by onnxruntime's static quantiser from two seeded
inputs, after its own preparation (BatchNormalization folded): **QDQ** with int8 activations and a weights' scale a channel, **QOperator** with uint8
activations and one scale a tensor. **AMCT** is the form that CANN's quantiser deploys, made from the QDQ file: int8 convolutions and fully connected
layers, all else in float16. Float16 is the network as it was before the quantiser. Batch 1, times in us.

| network | file | chip | float16 | int8 | times as fast | tasks float16 | tasks int8 |
|---|---|---|---|---|---|---|---|
{times}

bert_tiny_s64 (two layers of 128 columns) loses on the chips whose AI CPU converts the mask: a quantised file has its operators in another order, in
which the gathers of the embeddings wait for that conversion (220 us) and do not run beside it. Reverse depth first (`topo_sorting_mode=2`) both
networks do what they can beside it, and int8 is behind by 0.8 % at most:

| network | file | chip | float16 | int8 | times as fast | tasks float16 | tasks int8 |
|---|---|---|---|---|---|---|---|
{reordered}

BERT's QOperator file has one QuantizeLinear between a Gather and the last layer. In front of the Gather it shares a task; its data are an output of the
network too, so it reads what leaves and needs no TransData of its own ([fusion.md](fusion.md), QuantOfOutputs).

## Values

Every operator is fed with the bytes that onnxruntime feeds it, and its result is compared with onnxruntime's. *Single*: every operator of the file by
itself. *Joined*: those that the compiler makes one of (a product and its bias, x * sigmoid(x), [fusion.md](fusion.md)) as that one. Share of all bytes that
are equal, that are at most one step apart, and the least such share of any one operator; Ascend310.

| network | file | operators | single: equal | at most one step | joined: equal | at most one step | worst operator |
|---|---|---|---|---|---|---|---|
{values}
"""


@cache
def in_float16(name: str, chip: str, order: int) -> Result:
    """The network before the quantiser."""
    return asim.simulate(asim.compile(asim.load(MODELS / f"{name}.onnx"), chip, topo_sorting_mode=order))


def time_rows(name: str, form: str, network: onnx.ModelProto, order: int = STABLE) -> Iterator[str]:
    """One line a chip."""
    graph = asim.load(network)
    for chip in CHIPS:
        result = asim.simulate(asim.compile(graph, chip, topo_sorting_mode=order))
        plain = in_float16(name, chip, order)
        cells = [
            name, form, chip, f"{plain.duration_us:.0f}", f"{result.duration_us:.0f}",
            f"{plain.duration_us / result.duration_us:.2f}",
            *(str(len(item.model.program.tasks)) for item in (plain, result)),
        ]  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def value_row(name: str, form: Form, network: onnx.ModelProto) -> str:
    """One line."""
    cells, worst, count = [], 1.0, 0
    for joined in (False, True):
        apart = steps_apart(network, CHIPS[0], joined)
        every = np.concatenate([steps.reshape(-1) for steps in apart.values()])
        cells += [_share(np.mean(every == 0)), _share(np.mean(every <= 1))]
        worst = min(worst, *(float(np.mean(steps <= 1)) for steps in apart.values()))
        count = max(count, len(apart))
    return f"| {' | '.join([name, form, str(count), *cells, _share(worst)])} |"


def _share(value: float) -> str:
    """In percent, never rounded up to all."""
    return f"{np.floor(value * 1e6) / 1e4:.6g} %"


def main() -> None:
    """Writes the page, or prints the rows of some networks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*NETWORKS, []], metavar="NETWORK")
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    times: list[str] = []
    values: list[str] = []
    reordered: list[str] = []
    with tempfile.TemporaryDirectory() as made:
        folder = args.folder or Path(made)
        for name in args.names or NETWORKS:
            for form in FORMS:
                network = quantised_network(name, form, folder)
                times += time_rows(name, form, network)
                if name in REORDERED:
                    reordered += time_rows(name, form, network, BACKWARDS)
                values.append(value_row(name, form, network))
                print(f"{name} {form}", file=sys.stderr, flush=True)
            if name in DEPLOYED:
                times += time_rows(name, "AMCT", deployed(quantised_network(name, "QDQ", folder, keep=True)))
    page = PAGE.format(times="\n".join(times), reordered="\n".join(reordered), values="\n".join(values))
    if args.names:
        print("\n".join([*times, *reordered, *values]))
    else:
        TARGET.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
