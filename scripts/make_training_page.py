"""Makes docs/training_results.md: training steps beside published throughput and profiles, and predictions.

    python scripts/make_training_page.py
    python scripts/make_training_page.py --workers 1      where others need the processors too

Simulates every step, on two processes some minutes in all. Needs torch, and torchvision for Inception-v3.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests.support

import ascendsim
from ascendsim.core.files import write_whole
from ascendsim.validate import Prediction, score, worst
from ascendsim.validate.points import Point
from ascendsim.validate.training import (
    GROUPS,
    PROFILED_SOC,
    StepProfile,
    drop_gradients,
    measured_profiles,
    profile_of,
    simulated_profile,
    training_points,
    training_predictions,
    unusable_steps,
)
from scripts import training_devices, training_mechanisms
from tests.support.predicted_steps import STEPS, options_of
from tests.support.vit_training import OPTIONS, Sizes, vit_step

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "training_results.md"
MODELS = ROOT / "tests" / "data" / "models"
LEAST_US = 100.0  # operator types below this in both columns of every batch are summed up

HEAD = """# Training steps against measurements

Made by `scripts/make_training_page.py`; nothing in it was measured by this project. No constant is fitted on a step; which mechanisms Ascend910A shares with the chip of the profiles was decided beside some of them
([below](#what-mechanisms-are-worth-for-these-steps)); the figures of Ascend910B that were fitted
on single operators of its profiles are marked in the chip's file. How steps are made and scored: [validate.md](validate.md#training-steps).
"""
THROUGHPUT = """## Throughput, Ascend910A

Samples a second of one device; largest errors first. The simulated step waits for nobody but for launches, copies of images and numbers that are read in "910A eager": no input pipeline, no exchange of gradients.
BERT is the zoo's step, captured from PyTorch with both heads of pre-training, dropout and casts of its own (`scripts/make_captured_steps.py`); made of the encoder's structure alone it takes 343 ms instead of 303
(published 284). So is ViT: half precision, products of their own for queries, keys and values, keys transposed by an operator, no dropout; made of torchvision's structure it takes 150 ms instead of 154 (published 157). "910A" steps ran as graphs on the device; those of
"910A eager" were launched by PyTorch operator by operator, and so they are here (`schedule="eager"`: nothing is fused, 88 us a launch, which hide
behind longer tasks; weights, state and gradients in one buffer each, `combined=True`, as Ascend's NpuFusedSGD keeps them, but for GoogLeNet's, whose script has torch.optim.SGD). GoogLeNet takes 0.6 ms an image in both frameworks, most of it for its poolings of stride 1: the
kernel of their gradients goes through them tap by tap. VGG16 of 64 images has batch normalisation and no biases, as its README trains it on CIFAR-10; it lacks 26 ms here. So does that of 32
images by the speed that is scored; by the total time of the same table it lacks 10. DenseNet joins maps in pairs, as both zoos write it: the gradient of each Concat is two
slices (gradConcat/Slice in profiles of ViT), whose kernels know rows only, so that maps are turned to rows and back; 7 ms of its step with 32 images have no cause yet.

What the scripts of PyTorch's steps say (the notes in `measured_training.csv`): all read the loss in the middle of every step, and some wait for the end of the gradients too; most count right guesses on the device, and keep their averages there;
MobileNetV1 and Wide ResNet copy float32 images out of memory that is not pinned, each batch out of memory that the process has never touched, while the device has nothing to do (they lack 31 and 91 ms);
ResNet-18, 34 and 101, VGG16 and MobileNetV2 print numbers of the device in every step, and lack 10 to 35 ms; those of ResNet-50 v1b to v1d are rates of a single step; MobileNetV1's figure is a mean of rates, not of times, MobileNetV3's a mean of running means from the second of 64 steps on. Copies of images, what the device makes of bytes, networks in half precision (apex's O2), waits in the middle of a step and
the count of right guesses and its averages are simulated (columns `host_inputs`, `images`, `opt_level`, `host_waits` and `accuracy` of the data); first touches of memory, the printing itself and apex's copies of weights and gradients in float32 are not. Figures of the same scripts under PyTorch 1.5 are 0.3 to 1.2 times those of 1.8.
"""
PROFILES = """## {title} beside MindSpore's profile, Ascend910B (30 cores, first generation)

Sums of the times of the operators of one step that run on AI Cores. {note}
"""
NOTES = {
    "ResNet-50": "",
    "ViT": "The zoo's network (patches of 32 x 32), captured from PyTorch (`tests/support/vit_training.py`). "
    'The kernels of its single operators (docs/how_time_is_modelled.md, "What lowering decides") were read off these\n'
    "profiles, so that the step is no independent test.",
}
PREDICTED = """## Predictions

Steps whose profiles were not known when this was made (same source and chip as above): sequence and batch, or batch,
in the name; the last number of a row is the device time of a step in ms, the sum of its operators on AI Cores. BERT is the base network with both heads of its
pre-training as the zoo has it (`tests/support/bert_zoo.py`: casts of its own, gradients bounded one by one, LAMB), compiled as ViT above; Inception-v3 has its auxiliary classifier and momentum (the zoo has
RMSProp); YOLOv5s (release 5.0, 640 x 640) has the mean square of its maps as loss (the zoo's assigns targets to boxes).

| network | tasks | device ms |
|---|---|---|
"""
LARGEST = 10  # operator types of a prediction
KINDS = """### Operator types

Counts, and milliseconds at batch {batches} (measured / simulated). The counts are those of the last of these batches. Names of fused operators list
what they join, as MindSpore's do; case is not compared, nor what CANN's names have behind MindSpore's (MatMulV2, TransposeD).
"""
DIFFERENCES = """### The ten largest differences

At batch {batch}, simulated less measured.

| operator | measured ms | simulated ms | difference | why |
|---|---|---|---|---|"""
CANN_NAMES = {
    "matmulv2": "matmul",
    "batchmatmulv2": "batchmatmul",
    "softmaxv2": "softmax",
    "transposed": "transpose",
    "reducesumd": "reducesum",
    "stridedsliced": "stridedslice",
}  # and MindSpore's
TILES = "which tiles the vendor's kernels take is published for few sizes"
SUMS = "PyTorch's step has ReduceSum where MindSpore's has BiasAddGrad"
SOFTMAX = "rows of 50 one by one: 478 cycles a row in the profile, 360 here"
CENTRED = (
    "MindSpore writes this gradient as a formula, of which fusion makes ConfusionSoftmaxGrad in fractals and a "
    "Mul; PyTorch's step has SoftmaxGrad, whose rows of 50 go one by one"
)
MEMORY = "bound by memory; why the rates differ is not known"
WHY: dict[str, dict[str, str]] = {
    "ResNet-50": {
        "fusionop_conv2d_bntrainingreduce": TILES,
        "fusionop_conv2dbackpropinput_relugradv2": TILES,
        "fusionop_conv2dbackpropinput_addn_relugradv2": TILES,
        "conv2dbackpropinput": TILES,
        "conv2dbackpropfilter": "clears its result itself; MindSpore does so by AtomicAddrClean",
        "bntrainingupdategrad": MEMORY,
        "bntrainingreducegrad": MEMORY,
        "bntrainingupdate": MEMORY,
        "fusionop_bntrainingupdate_add_reluv2": MEMORY,
        "fusionop_bntrainingupdate_reluv2": MEMORY,
        "softmaxcrossentropywithlogits": "6 us a row on one core in the profile",
        "atomicaddrclean": "operators that add up in memory clear it themselves here",
        "tile": "MindSpore spreads the mean's gradient by Tile, here the pooling's gradient does",
        "fusionop_conv2dbackpropinput_addn": "a sum that MindSpore leaves alone (Conv2DBackpropInput, AddN)",
    },
    "ViT": {
        "softmaxgrad": CENTRED,
        "confusionsoftmaxgrad": CENTRED,
        "matmul": TILES,
        "fusionop_matmul_mul": TILES,
        "softmax": SOFTMAX,
        "biasaddgrad": SUMS,
        "reducesum": SUMS,
        "transdata": "246 fewer here, since MindSpore's updates run in fractals, but longer ones; which, is "
        "not known",
        "add": "has sums of gradients too, which MindSpore joins to AddN and FusionOp_MatMul_AddN",
        "gelugrad": "why the vendor's kernel takes a quarter more is not known",
        "layernormxbackpropv2": "bound by memory where a batch does not fit into L2; measured time grows less",
    },
}
TEN = 10
NEAR = 0.2  # of a step that counts as near


Profiles = Mapping[str, tuple[Sequence[StepProfile], Sequence[StepProfile]]]


def page(
    pairs: Sequence[tuple[Prediction, Prediction]],
    profiles: Profiles,
    predicted: Mapping[str, StepProfile],
    eight: Sequence[str] = (),
    mechanisms: str = "",
) -> str:
    """The text of the page.

    Args:
        pairs: Of the simulator and of the roofline, by published step.
        profiles: By network, measured ones and simulated ones of the same batch sizes, in the same order.
        predicted: Of steps that are not known, by name.
        eight: Rows about steps of eight devices.
        mechanisms: The section about what mechanisms are worth.
    """
    lines = [HEAD, *_overall(pairs, profiles), THROUGHPUT, *_scores(pairs), "", *_steps(pairs), ""]
    lines += [*_unusable(), "", mechanisms, "", training_devices.HEAD + "\n".join(eight), ""]
    for title, (measured, own) in profiles.items():
        lines += _compared(title, measured, own)
    return "\n".join([*lines, *_predictions(predicted)]) + "\n"


def _overall(pairs: Sequence[tuple[Prediction, Prediction]], profiles: Profiles) -> list[str]:
    """One sentence about every step that has a published time."""
    errors = [own.error for own, _ in pairs]
    for measured, own in profiles.values():
        errors += [a.total_us / b.total_us - 1 for a, b in zip(measured, own, strict=True)]
    sizes = [abs(error) for error in errors]
    near = sum(size <= NEAR for size in sizes)
    return [
        f"All {len(sizes)} steps with a published time, profiled ones among them: {100 * mean(sizes):.1f} % off in the "
        f"mean, {100 * median(sizes):.1f} % in the median; {near} are within {100 * NEAR:.0f} %. Errors are of speeds.",
        "",
    ]


def _unusable() -> list[str]:
    """Published steps that are not scored."""
    steps = unusable_steps(tuple(GROUPS))
    named = [
        f"{step.network}, batch {step.batch}, {step.framework}, {step.throughput:.0f}/s" for step in steps
    ]
    return ["Not scored:", "", *(f"- {name}: {step.why}." for name, step in zip(named, steps, strict=True))]


def _compared(title: str, measured: Sequence[StepProfile], own: Sequence[StepProfile]) -> list[str]:
    lines = [PROFILES.format(title=title, note=NOTES.get(title, "")).replace(" \n", "\n")]
    lines += [
        "| batch | measured ms | simulated ms | error % | operators measured | simulated |",
        "|" + "---|" * 6,
    ]
    for theirs, ours in zip(measured, own, strict=True):
        error = 100 * (ours.total_us / theirs.total_us - 1)
        counts = [sum(count for count, _ in profile.kinds.values()) for profile in (theirs, ours)]
        times = f"{theirs.total_us / 1e3:.1f} | {ours.total_us / 1e3:.1f} | {error:+.1f}"
        lines.append(f"| {theirs.batch} | {times} | {counts[0]} | {counts[1]} |")
    lines += ["", KINDS.format(batches=", ".join(str(profile.batch) for profile in measured))]
    return [*lines, *_kinds(measured, own), "", *_differences(title, measured[-1], own[-1]), ""]


def _differences(title: str, theirs: StepProfile, ours: StepProfile) -> list[str]:
    """The operator types whose times differ most, and why as far as it is known."""
    spelling = {_key(name): name for profile in (ours, theirs) for name in profile.kinds}
    times = [_by_key(profile) for profile in (theirs, ours)]
    nothing = (0, 0.0)
    apart = {key: times[1].get(key, nothing)[1] - times[0].get(key, nothing)[1] for key in spelling}
    lines = [DIFFERENCES.format(batch=theirs.batch)]
    for key in sorted(apart, key=lambda key: (-abs(apart[key]), key))[:TEN]:
        both = " | ".join(f"{found.get(key, nothing)[1] / 1e3:.2f}" for found in times)
        why = WHY.get(title, {}).get(key, "not known")
        lines.append(f"| {spelling[key]} | {both} | {apart[key] / 1e3:+.2f} | {why} |")
    return lines


def _key(name: str) -> str:
    """A name of an operator type as both sides may write it."""
    return "_".join(CANN_NAMES.get(part, part) for part in name.lower().split("_"))


def _by_key(profile: StepProfile) -> dict[str, tuple[int, float]]:
    found: dict[str, tuple[int, float]] = {}
    for name, (count, time) in profile.kinds.items():
        known = found.get(_key(name), (0, 0.0))
        found[_key(name)] = (known[0] + count, known[1] + time)
    return found


def _predictions(predicted: Mapping[str, StepProfile]) -> list[str]:
    lines = [PREDICTED.rstrip("\n")]
    for name, profile in predicted.items():
        tasks = sum(count for count, _ in profile.kinds.values())
        lines.append(f"| {name} | {tasks} | {profile.total_us / 1e3:.1f} |")
    for name, profile in predicted.items():
        lines += ["", f"### {name}", "", "| operator | count | ms |", "|---|---|---|"]
        longest = sorted(profile.kinds.items(), key=lambda item: (-item[1][1], item[0]))[:LARGEST]
        lines += [f"| {kind} | {count} | {time / 1e3:.2f} |" for kind, (count, time) in longest]
    return lines


def _scores(pairs: Sequence[tuple[Prediction, Prediction]]) -> list[str]:
    lines = ["| steps | | number | MAPE % | median % | bias % | Spearman |", "|" + "---|" * 7]
    for group in dict.fromkeys(pair[0].point.group for pair in pairs):
        for name, index in (("ascendsim", 0), ("roofline x 3", 1)):
            value = score([pair[index] for pair in pairs if pair[0].point.group == group])
            shares = " | ".join(f"{100 * share:.1f}" for share in (value.mape, value.median, value.bias))
            lines.append(f"| {group} | {name} | {value.points} | {shares} | {value.spearman:.3f} |")
    return lines


def _steps(pairs: Sequence[tuple[Prediction, Prediction]]) -> list[str]:
    lines = ["| steps | network | batch | measured/s | simulated/s | error % |", "|" + "---|" * 6]
    for found in worst([pair[0] for pair in pairs], len(pairs)):
        point = found.point
        figures = f"{point.throughput:.0f} | {found.throughput:.0f} | {100 * found.error:+.1f}"
        lines.append(f"| {point.group} | {point.model} | {point.batch} | {figures} |")
    return lines


def _kinds(measured: Sequence[StepProfile], own: Sequence[StepProfile]) -> list[str]:
    """One row an operator type, the longest first; short ones in one row."""
    spelling: dict[str, str] = {}
    for profile in (*measured, *own):
        for name in profile.kinds:
            spelling.setdefault(_key(name), name)
    folded = [_by_key(profile) for profile in (*measured, *own)]
    longest = {key: max(found.get(key, (0, 0.0))[1] for found in folded) for key in spelling}
    batches = [profile.batch for profile in measured]
    lines = [
        "| operator | measured | simulated | " + " | ".join(f"ms at {batch}" for batch in batches) + " |",
        "|" + "---|" * (3 + len(batches)),
    ]
    shown = [key for key in sorted(longest, key=lambda key: (-longest[key], key)) if longest[key] >= LEAST_US]
    rest = [key for key in longest if key not in shown]
    for name, keys in (*((spelling[key], [key]) for key in shown), ("all others", rest)):
        sums = [
            (
                sum(found.get(key, (0, 0.0))[0] for key in keys),
                sum(found.get(key, (0, 0.0))[1] for key in keys),
            )
            for found in folded
        ]
        theirs, ours = sums[: len(batches)], sums[len(batches) :]
        cells = [f"{a[1] / 1e3:.2f} / {b[1] / 1e3:.2f}" for a, b in zip(theirs, ours, strict=True)]
        lines.append(f"| {name} | {theirs[-1][0]} | {ours[-1][0]} | {' | '.join(cells)} |")
    return lines


def _predicted(point: Point) -> tuple[Prediction, Prediction]:
    return next(training_predictions([point], MODELS))


def _vit(batch: int) -> StepProfile:
    step = vit_step(Sizes(batch=batch))
    drop_gradients(step.graph)
    return profile_of(ascendsim.simulate(ascendsim.compile(step.graph, PROFILED_SOC, **OPTIONS)), batch)


def _step(name: str) -> StepProfile:
    step = STEPS[name]()
    drop_gradients(step.graph)
    model = ascendsim.compile(step.graph, PROFILED_SOC, **options_of(name))
    return profile_of(ascendsim.simulate(model), int(name.split("_")[-1]))


def main() -> None:
    """Simulates and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--workers", type=int, default=2, help="processes")
    args = parser.parse_args()
    resnet50, vit = (measured_profiles(network) for network in ("resnet50", "vit"))
    with ProcessPoolExecutor(args.workers, get_context("spawn")) as workers:
        steps = workers.map(_step, STEPS)
        vits = workers.map(_vit, [profile.batch for profile in vit])
        own = workers.map(partial(simulated_profile, folder=MODELS), [profile.batch for profile in resnet50])
        found = workers.map(_predicted, training_points(tuple(GROUPS)))
        eight = workers.map(partial(training_devices.row_of, folder=MODELS), training_devices.pairs())
        without = partial(training_mechanisms.predicted, folder=MODELS)
        missing = workers.map(without, training_mechanisms.tasks())
        pairs = list(found)
        mechanisms = training_mechanisms.table([own for own, _ in pairs], missing)
        profiles = {"ResNet-50": (resnet50, list(own)), "ViT": (vit, list(vits))}
        text = page(pairs, profiles, dict(zip(STEPS, steps, strict=True)), list(eight), mechanisms)
    print(f"wrote {write_whole(TARGET, text.encode())}")


if __name__ == "__main__":
    main()
