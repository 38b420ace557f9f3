"""Graphs compiled with and without UB fusion, graph fusion left out, and the numbers that tests compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import ascendsim as asim
from ascendsim import soc as chips
from ascendsim.compiler.model import CompiledModel
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.scopes import clear_scopes
from ascendsim.isa.checks import check_block
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.program import Program, Task
from ascendsim.lower import LowerOptions, lower_graph, scope_lowering
from ascendsim.ops import default_opset
from ascendsim.ops.fused.chain import chain_work
from ascendsim.ops.shared.aicpu import aicpu_types
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.switches import Switches
from ascendsim.passes.layout import AssignFormats
from ascendsim.passes.precision.assign import ApplyPrecision
from ascendsim.passes.rewriting.passes import run_passes
from ascendsim.passes.ub import fuse_buffers, limits_of
from tests.support.fusing import build, random

MAP, ROWS = (1, 32, 12, 12), (64, 48)  # shapes of a feature map and a matrix


@dataclass(frozen=True)
class Fused:
    """One graph, unfused and fused.

    Attributes:
        before, after: The two compilations.
        report: Of UB fusion.
    """

    before: CompiledModel
    after: CompiledModel
    report: FusionReport

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """(matched, effected) by pass."""
        return self.report.totals("ub")

    @property
    def scopes(self) -> list[tuple[str, ...]]:
        """Operator types of each scope, in execution order, by number."""
        nodes = {node.name: node.op_type for node in self.after.graph.nodes}
        return [tuple(nodes[name] for name in scope.nodes) for scope in self.report.scopes]

    @property
    def reasons(self) -> list[str]:
        """Why matches were refused."""
        return [refusal.reason for record in self.report.records for refusal in record.refusals]

    @property
    def fused_tasks(self) -> list[Task]:
        """Tasks of several nodes."""
        return [task for task in self.after.program.tasks if len(task.nodes) > 1]


def ub(
    graph: Graph,
    chip: str = "Ascend310P3",
    profile: str | None = None,
    changes: Mapping[str, int] | None = None,
    switches: Switches | None = None,
) -> Fused:
    """Compiles a graph twice; checks the programs of fused tasks, and that the bytes that move are those that
    the report says."""
    soc, opset, report = chips.load(chip), default_opset(), FusionReport()
    device = copy_graph(graph)
    run_passes(device, (ApplyPrecision(default_opset(), "force_fp16"), AssignFormats(opset, soc)))
    clear_scopes(device)
    options = LowerOptions(aicpu_types=aicpu_types(soc.kernels.ai_cpu_table), chain=chain_work)
    before = CompiledModel(device, lower_graph(device, soc, opset, options=options), soc, opset, graph)
    fused = copy_graph(device)
    limits = limits_of(soc.short_name, profile, changes)
    fuse_buffers(
        fused,
        opset,
        limits,
        scope_lowering(soc, opset, options),
        switches=switches or Switches(),
        report=report,
    )
    after = CompiledModel(fused, lower_graph(fused, soc, opset, options=options), soc, opset, graph, report)
    result = Fused(before, after, report)
    check_programs(result)
    return result


def check_programs(fused: Fused) -> None:
    """Programs are sound (`check_tasks`), bytes are as predicted, with the tilings that the prediction is
    about, and never more."""
    moved_before, moved_after = moved(fused.before.program), moved(fused.after.program)
    without_splits = sum(moved_before.values()) - split_bytes(fused)
    assert without_splits - sum(moved_after.values()) == fused.report.saved_bytes
    assert sum(moved_after.values()) <= sum(moved_before.values())
    check_tasks(fused)


def check_tasks(fused: Fused) -> None:
    """Programs are sound, and what is inside a scope has neither memory nor moves."""
    moved_after = moved(fused.after.program)
    for task in fused.fused_tasks:
        for group in task.groups:
            check_block(group.block, fused.after.soc)
            check_hazards(group.block, 2000)
    for scope in fused.report.scopes:
        for name in hidden(fused.after.graph, scope.nodes):
            assert name not in fused.after.program.memory.regions
            assert (name, False) not in moved_after
            assert (name, True) not in moved_after


def split_bytes(fused: Fused) -> int:
    """Bytes of the splits that need no task any more."""
    names = {
        node.name for node in fused.after.graph.nodes if node.op_type == "Split" and node.attr("no_task", 0)
    }
    return sum(
        access.moved_bytes
        for task in fused.before.program.tasks
        if task.name in names
        for access in task.accesses
    )


def moved(program: Program) -> Counter[tuple[str, bool]]:
    """Bytes by region and direction (True = written)."""
    total: Counter[tuple[str, bool]] = Counter()
    for task in program.tasks:
        for access in task.accesses:
            total[access.region, access.write] += access.moved_bytes
    return total


def hidden(graph: Graph, names: tuple[str, ...]) -> list[str]:
    """Tensors that the nodes make and nobody else reads."""
    inside = [graph.node(name) for name in names]
    return [
        tensor.name
        for node in inside
        for tensor in node.outputs
        if tensor not in graph.outputs and all(reader in inside for reader in tensor.consumers)
    ]


def same_values(fused: Fused, seed: int = 0) -> bool:
    """Whether both compilations give the same bits, with device types and with the model's own."""
    inputs = asim.random_inputs(fused.before, seed)
    for values in ("device", "float32"):
        old, new = (asim.run(model, inputs, values=values).outputs for model in (fused.before, fused.after))
        if any(old[name].tobytes() != new[name].tobytes() for name in old):
            return False
    return True


def conv(b: GraphBuilder, x: Tensor, outputs: int, kernel: int = 3, groups: int = 1) -> Tensor:
    """A convolution with bias that keeps the size of the map."""
    channels = int(x.static_shape[1]) // groups
    weight, bias = random(outputs, channels, kernel, kernel, seed=outputs), random(outputs, seed=outputs)
    return b.op("Conv", x, weight * 0.2, bias, pads=(kernel // 2,) * 4, group=groups)


def matmul(b: GraphBuilder, x: Tensor, columns: int) -> Tensor:
    """A product with a constant matrix."""
    return b.op("MatMul", x, random(int(x.static_shape[-1]), columns, seed=columns) * np.float32(0.2))


def elementwise(b: GraphBuilder, x: Tensor, *types: str) -> Tensor:
    for op_type in types:
        x = b.op(op_type, x)
    return x


def one_convolution(*types: str, groups: int = 1) -> Graph:
    return build(lambda b: elementwise(b, conv(b, b.input("x", MAP), 32, groups=groups), *types))


def vectors(*types: str, shape: tuple[int, ...] = ROWS) -> Graph:
    return build(lambda b: elementwise(b, b.input("x", shape, "float16"), *types))
