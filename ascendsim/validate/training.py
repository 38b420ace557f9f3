"""Whole training steps: simulated against published throughput and against profiles."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ascendsim import soc as chips
from ascendsim.api.compiling import compile
from ascendsim.api.loading import load
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.api.training import training_step
from ascendsim.graph.ir import Graph
from ascendsim.soc.spec import SocSpec
from ascendsim.training.optimizers import Momentum
from ascendsim.validate.captured_steps import OPTIONS, read_step
from ascendsim.validate.models import structure
from ascendsim.validate.points import Point
from ascendsim.validate.roofline import roofline_us
from ascendsim.validate.score import Prediction
from ascendsim.validate.step_loops import (
    BACKWARD,
    SUNK,
    Loop,
    average_accuracy,
    drop_gradients,
    measure_accuracy,
    take_bytes,
    unscale_apart,
    watch_overflow,
)

EAGER = "910A eager"  # launched by PyTorch operator by operator
GROUPS = {"910A": "Ascend910A", EAGER: "Ascend910A"}  # by how the published step was run
PROFILED_SOC = "Ascend910B"  # the first generation with 30 cores
PROFILED = {
    "resnet50": re.compile(r"resnet50_(\d+)_224_224"),
    "vit": re.compile(r"vit(\d+)"),
}  # and the batch
# MindSpore's ResNet-50 (model zoo): what the loss is multiplied by comes out in the update, scales and biases
# do not decay; profiles show one FusedMulApplyMomentum a weight, and FusedMulAddN for those that decay
LOSS_SCALE = 1024.0
MOMENTUM = Momentum(0.9, weight_decay=1e-4, applied=True, decays_vectors=False, loss_scale=LOSS_SCALE)
# torch.optim.SGD and apex's NpuFusedSGD, with the factor of the loss that apex takes out of gradients
SGD = Momentum(0.9, weight_decay=1e-4, loss_scale=LOSS_SCALE)
_TRUST = {"low": 0, "medium": 1, "high": 2}


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
        loop = _loop(chosen[0])
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


def _loop(row: Mapping[str, str]) -> Loop:
    return Loop(
        eager=_group(row) == EAGER,
        memory=row["host_inputs"] or SUNK.memory,
        bytes=row["images"] == "bytes",
        combined=row["optimizer"] == "combined",
        half=row["opt_level"] == "O2",
        step=row["step"],
        apart=row["unscaled"] == "apart",
        waits=tuple(row["host_waits"].split()),
        accuracy=row["accuracy"] != "",
        averaged=row["accuracy"] == "averaged",
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


def run_step(file: Path, batch: int, soc: str | SocSpec, loop: Loop = SUNK) -> tuple[Result, float]:
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
    graph, spec = load(file, batch=batch), chips.load(soc) if isinstance(soc, str) else soc
    forward = roofline_us(graph, spec)
    if loop.step:
        step = read_step(structure(loop.step, file.parent))
        options = dict(OPTIONS)
    else:
        step = _made_step(graph, loop, bert=file.name.startswith("bert"))
        options = {"precision_mode": "force_fp16" if loop.half else "allow_mix_precision"}
    model = compile(
        step,
        spec,
        fusion="all",
        schedule="eager" if loop.eager else "sink",
        host_inputs=loop.memory,
        host_reads=loop.waits,
        **options,
    )
    return simulate(model), 3 * forward


def _made_step(graph: Graph, loop: Loop, bert: bool) -> Graph:
    """The step that a network's structure makes."""
    output = graph.outputs[0].name
    step = training_step(
        graph,
        loss="mse" if bert else "cross_entropy",
        optimizer="lamb" if bert else _optimizer(loop),
        output=output if len(graph.outputs) > 1 else None,
        combined=loop.combined,
    ).graph
    drop_gradients(step)
    if loop.bytes:
        take_bytes(step, graph.inputs[0].name)
    if loop.accuracy:
        measure_accuracy(step, output)
    if loop.averaged:
        average_accuracy(step)
    if loop.apart:
        unscale_apart(step, LOSS_SCALE)
    if BACKWARD in loop.waits:
        watch_overflow(step)
    return step


def _optimizer(loop: Loop) -> Momentum:
    if not loop.eager:
        return MOMENTUM
    return replace(SGD, loss_scale=1.0) if loop.apart else SGD


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


def training_predictions(
    points: Sequence[Point], folder: Path, soc: SocSpec | None = None
) -> Iterator[tuple[Prediction, Prediction]]:
    """Predictions of the simulator and of the roofline, point by point.

    Args:
        points: Published steps.
        folder: Where structures lie.
        soc: A chip in place of the points' own.

    Raises:
        InputError: If a structure file is missing.
    """
    paths = [structure(point.file, folder) for point in points]
    for point, path in zip(points, paths, strict=True):
        loop = point.loop if isinstance(point, StepPoint) else SUNK
        result, roofline = run_step(path, point.batch, soc or point.soc, loop)
        yield (
            Prediction(point, point.batch / result.duration_us * 1e6),
            Prediction(point, point.batch / roofline * 1e6),
        )


def _table(name: str) -> list[dict[str, str]]:
    with files("ascendsim.validate").joinpath("data", name).open(encoding="utf-8") as source:
        return list(csv.DictReader(source))
