"""Whole training steps: simulated against published throughput and against profiles."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from ascendsim import soc as chips
from ascendsim.api.compiling import compile
from ascendsim.api.loading import load
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.api.training import training_step
from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.passes.precision.integer_sums import WIDE
from ascendsim.training.backward import Pen
from ascendsim.training.optimizers import Momentum
from ascendsim.training.reverse import GRAD
from ascendsim.validate.captured_steps import OPTIONS, read_step
from ascendsim.validate.models import structure
from ascendsim.validate.points import Point
from ascendsim.validate.roofline import roofline_us
from ascendsim.validate.score import Prediction

EAGER = "910A eager"  # launched by PyTorch operator by operator
GROUPS = {"910A": "Ascend910A", EAGER: "Ascend910A"}  # by how the published step was run
PROFILED_SOC = "Ascend910B"  # the first generation with 30 cores
PROFILED = {
    "resnet50": re.compile(r"resnet50_(\d+)_224_224"),
    "vit": re.compile(r"vit(\d+)"),
}  # and the batch
# MindSpore's ResNet-50 (model zoo): what the loss is multiplied by comes out in the update, scales and biases
# do not decay; profiles show one FusedMulApplyMomentum a weight, and FusedMulAddN for those that decay
MOMENTUM = Momentum(0.9, weight_decay=1e-4, applied=True, decays_vectors=False, loss_scale=1024.0)
# NpuFusedSGD (apex for Ascend), with the loss scale that apex takes out of the buffer of gradients
COMBINED = Momentum(0.9, weight_decay=1e-4, loss_scale=1024.0)
_TRUST = {"low": 0, "medium": 1, "high": 2}


@dataclass(frozen=True, slots=True)
class Loop:
    """How a step was run, and what a script does in it beside the network.

    Attributes:
        eager: A framework launches operator by operator, and nothing is fused.
        memory: Where images lie when the step begins: "device", or in memory of the host, "pinned" or
            "pageable".
        bytes: Images come as bytes, of which the device makes numbers, less their mean, over their deviation.
        combined: Weights, state and gradients lie in one buffer each.
        half: The whole network is in half precision but for batch normalisation (apex's opt_level O2); else
            products are (mixed precision).
        step: File of the step as its own code has it, in place of one that is made of the structure.
    """

    eager: bool = False
    memory: str = "device"
    bytes: bool = False
    combined: bool = False
    half: bool = False
    step: str = ""


SUNK = Loop()  # the graph is on the device as a whole, and so are the images


@dataclass(frozen=True, slots=True)
class StepPoint(Point):
    """A published step.

    Attributes:
        loop: How it was run.
    """

    loop: Loop = SUNK


@dataclass(frozen=True, slots=True)
class StepProfile:
    """Operators of one training step on a chip.

    Attributes:
        batch: Images in the step.
        kinds: Count and time in us by operator type; fused ones as FusionOp_A_B.
    """

    batch: int
    kinds: dict[str, tuple[int, float]]

    @property
    def total_us(self) -> float:
        """Sum of all operators' times."""
        return sum(time for _, time in self.kinds.values())


def training_points(groups: Sequence[str] = ("910A",)) -> tuple[StepPoint, ...]:
    """Published steps, one a network and batch size of a device.

    Steps of one device count before those of eight, which wait for the exchange of gradients; among them
    the median of the rows with the highest trust.
    """
    rows: dict[tuple[str, str, int], list[dict[str, str]]] = {}
    for row in _table("measured_training.csv"):
        group = _group(row)
        if group in groups and row["trust"] in _TRUST:
            rows.setdefault((group, row["network"], int(row["batch"])), []).append(row)
    points = []
    for (group, model, batch), found in sorted(rows.items()):
        best = max((-int(row["devices"]), _TRUST[row["trust"]]) for row in found)
        chosen = [row for row in found if (-int(row["devices"]), _TRUST[row["trust"]]) == best]
        measured = median(float(row["throughput_per_s"]) for row in chosen)
        file = chosen[0]["structure"] or f"{model}.onnx"
        loop = Loop(
            group == EAGER,
            chosen[0]["host_inputs"] or SUNK.memory,
            chosen[0]["images"] == "bytes",
            chosen[0]["optimizer"] == "combined",
            chosen[0]["opt_level"] == "O2",
            chosen[0]["step"],
        )
        points.append(StepPoint(group, GROUPS[group], model, file, batch, measured, False, loop=loop))
    return tuple(points)


class UnusableStep(NamedTuple):
    """A published step that is not scored, and why."""

    network: str
    batch: int
    framework: str
    throughput: float
    why: str


def unusable_steps(groups: Sequence[str] = ("910A",)) -> tuple[UnusableStep, ...]:
    """Published steps whose figure is known not to be that of the step, or whose step cannot be built."""
    return tuple(
        UnusableStep(
            row["network"],
            int(row["batch"]),
            row["framework"],
            float(row["throughput_per_s"]),
            row["note"],
        )
        for row in _table("measured_training.csv")
        if row["trust"] not in _TRUST and _group(row) in groups
    )


def _group(row: Mapping[str, str]) -> str:
    return EAGER if "eager" in row["framework"] else "910A"


def measured_profiles(network: str = "resnet50") -> tuple[StepProfile, ...]:
    """Profiles of MindSpore's steps, by batch.

    Args:
        network: "resnet50" or "vit" (`PROFILED`).
    """
    found: dict[int, dict[str, tuple[int, float]]] = {}
    for row in _table("training_profiles.csv"):
        if matched := PROFILED[network].fullmatch(row["network"]):
            kinds = found.setdefault(int(matched[1]), {})
            kinds[row["op_type"]] = (int(row["operators"]), float(row["time_us"]))
    return tuple(StepProfile(batch, kinds) for batch, kinds in sorted(found.items()))


def run_step(file: Path, batch: int, soc: str, loop: Loop = SUNK) -> tuple[Result, float]:
    """A training step as the published ones: mixed precision or half, all fusion where the graph is on the
    device.

    Networks for images learn classes with momentum, BERT without a captured step its encoder with LAMB (the
    structure file has no head, so "mse" of what the encoder gives). Nobody reads the gradients.

    Args:
        file: Structure of the network.
        batch: Samples in the step.
        soc: Chip.
        loop: How it is run.

    Returns:
        The run, and the roofline's time in us for forward and backward: three times that of forward.
    """
    graph = load(file, batch=batch)
    forward = roofline_us(graph, chips.load(soc))
    if loop.step:
        step = read_step(structure(loop.step, file.parent))
        options = dict(OPTIONS)
    else:
        step = _made_step(graph, loop, bert=file.name.startswith("bert"))
        options = {"precision_mode": "force_fp16" if loop.half else "allow_mix_precision"}
    model = compile(
        step,
        soc,
        fusion="all",
        schedule="eager" if loop.eager else "sink",
        host_inputs=loop.memory,
        **options,
    )
    return simulate(model), 3 * forward


def _made_step(graph: Graph, loop: Loop, bert: bool) -> Graph:
    """The step that a network's structure makes."""
    step = training_step(
        graph,
        loss="mse" if bert else "cross_entropy",
        optimizer="lamb" if bert else COMBINED if loop.combined else MOMENTUM,
        output=graph.outputs[0].name if len(graph.outputs) > 1 else None,
        combined=loop.combined,
    )
    drop_gradients(step.graph)
    if loop.bytes:
        take_bytes(step.graph, graph.inputs[0].name)
    return step.graph


def drop_gradients(graph: Graph) -> None:
    """Leaves gradients out of the outputs of a training step: published ones hand them to nobody."""
    graph.outputs[:] = [tensor for tensor in graph.outputs if not tensor.name.endswith(GRAD)]


def take_bytes(graph: Graph, name: str) -> None:
    """Lets a step take images as bytes, `images.float().sub(mean).div(deviation)` in front of what it did.

    Args:
        graph: Of the step; changed in place.
        name: The input that takes images as numbers.
    """
    images = graph.tensors[name]
    shape = images.static_shape
    pen = Pen(graph, default_opset(), "Images", **{WIDE: True})
    raw = graph.add_input(f"{name}_bytes", DType.UINT8, shape)
    means = pen.constant(np.full((1, shape[1], 1, 1), 118, np.float32))
    numbers = pen.op("Div", pen.op("Sub", pen.op("Cast", raw, to=DType.FLOAT32), means), means)
    graph.replace_uses(images, numbers)
    graph.inputs.remove(images)
    graph.remove_tensor(images)


def simulated_profile(batch: int, folder: Path) -> StepProfile:
    """The operators of a ResNet-50 step on the chip of `measured_profiles`."""
    result, _ = run_step(structure("resnet50.onnx", folder), batch, PROFILED_SOC)
    return profile_of(result, batch)


def profile_of(result: Result, batch: int) -> StepProfile:
    """The operators of a step that ran, as MindSpore's profiler sums them: those of AI Cores.

    Masks of dropout, which the AI CPU draws, are neither in its table nor here.
    """
    kinds: dict[str, tuple[int, float]] = {}
    run = result.profile
    for view in run.tasks:
        if view.on_ai_cpu:
            continue
        types = [run.cann_type(node) for node in view.nodes] or [view.op_type]
        name = types[0] if len(types) == 1 else "FusionOp_" + "_".join(types)
        count, time = kinds.get(name, (0, 0.0))
        kinds[name] = (count + 1, time + run.us(view.duration))
    return StepProfile(batch, kinds)


def training_predictions(points: Sequence[Point], folder: Path) -> Iterator[tuple[Prediction, Prediction]]:
    """Predictions of the simulator and of the roofline, point by point.

    Raises:
        InputError: If a structure file is missing.
    """
    paths = [structure(point.file, folder) for point in points]
    for point, path in zip(points, paths, strict=True):
        loop = point.loop if isinstance(point, StepPoint) else SUNK
        result, roofline = run_step(path, point.batch, point.soc, loop)
        yield (
            Prediction(point, point.batch / result.duration_us * 1e6),
            Prediction(point, point.batch / roofline * 1e6),
        )


def _table(name: str) -> list[dict[str, str]]:
    with files("ascendsim.validate").joinpath("data", name).open(encoding="utf-8") as source:
        return list(csv.DictReader(source))
