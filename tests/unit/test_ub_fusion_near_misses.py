"""Every UB-fusion pass on the graph that it is for and on all graphs that differ from it in one reader,
control edge or size.

Whether a scope has a program is left out here (every one has), so what is seen is what patterns, limits and
legality say. The texts (tests/golden/ub_fusion) hold the scopes under the limits of each profile. A
legitimate reason to renew one is a pattern or limit that is meant to be another one; read every change that
moves from one group to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

import ascendsim as asim
from ascendsim import soc as chips
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rules.normalise.split_batchnorm import FusedBatchnormFusionPass
from ascendsim.passes.fusion.rules.quant.quant_requant import V200RequantFusionPass
from ascendsim.passes.fusion.switches import Switches
from ascendsim.passes.layout import AssignFormats
from ascendsim.passes.precision.assign import ApplyPrecision
from ascendsim.passes.ub import PROFILES, fuse_buffers
from tests.support.fusing import build, fused
from tests.support.near_misses import (
    Edit,
    has_values,
    near_misses,
    size_edits,
    sorted_outcomes,
    structure_edits,
)
from tests.support.ub import MAP, conv
from tests.unit.test_ub_fusion_every_pass import EXAMPLES, LEFT, OFF

Body = Callable[[GraphBuilder], "Tensor | Sequence[Tensor]"]
OPSET, SOC = default_opset(), chips.load("Ascend310P3")
PREPARED = (FusedBatchnormFusionPass(), V200RequantFusionPass())


@dataclass(frozen=True)
class AnyProgram:
    """A program that is never looked at."""

    saved_bytes: int = 0
    operand_bytes: int = 0


class EverythingHasAProgram:
    """Makes programs of whatever nodes there are."""

    def fusible(self, node: Node) -> bool:
        return True

    def lower(self, nodes: Sequence[Node]) -> AnyProgram:
        return AnyProgram()


def on_device(graph: Graph) -> Graph:
    """The graph in device types and formats."""
    device = copy_graph(graph)
    ApplyPrecision(default_opset(), "force_fp16").run(device)
    AssignFormats(OPSET, SOC).run(device)
    return device


def scopes(device: Graph, profile: str, off: Sequence[str] = ()) -> str:
    """The scopes of a device graph in words."""
    graph, report = copy_graph(device), FusionReport()
    switches = Switches.of(optimization_switch=";".join(f"{name}:off" for name in off))
    fuse_buffers(graph, OPSET, PROFILES[profile], EverythingHasAProgram(), switches=switches, report=report)
    made = [
        f"{scope.name}({', '.join(graph.node(name).op_type for name in scope.nodes)})"
        for scope in report.scopes
    ]
    refused = [
        f"{record.name} not: {refusal.reason}" for record in report.records for refusal in record.refusals
    ]
    return "; ".join([*made, *dict.fromkeys(refused)]) or "nothing"


def edits(graph: Graph) -> Iterator[tuple[str, Edit]]:
    yield from structure_edits(graph)
    yield from size_edits(graph)


@pytest.mark.parametrize("name", [*EXAMPLES, *LEFT])
def test_what_a_pass_asks_for(golden: Callable[[str, str], None], name: str) -> None:
    graph = fused(build({**EXAMPLES, **LEFT}[name]), *PREPARED, generation="m200").graph
    variants = [
        (label, on_device(variant)) for label, variant in near_misses(graph, edits) if has_values(variant)
    ]
    text = ""
    for profile in PROFILES:
        off = [item for item in OFF.get(name, ()) if profile != "MindSpore"]
        outcomes = sorted_outcomes((label, scopes(device, profile, off)) for label, device in variants)
        text += f"# {profile}\n{outcomes}\n"
    golden(f"ub_fusion/{name}.txt", text)


def test_a_way_round_by_a_control_edge_keeps_operators_apart() -> None:
    """The other operand of the sum waits for the convolution, so the sum cannot be part of the convolution's
    task."""

    def body(b: GraphBuilder) -> Tensor:
        made, other = conv(b, b.input("x", MAP), 32), b.op("Abs", b.input("z", MAP))
        assert made.producer is not None
        assert other.producer is not None
        other.producer.add_control(made.producer)
        return b.op("Relu", b.op("Add", made, other))

    graph = build(body)
    for profile in PROFILES:
        assert "a node outside lies between its nodes and 'Add'" in scopes(on_device(graph), profile)
    model = asim.compile(graph, soc="Ascend310P3", fusion="ub")
    order = [task.name for task in model.program.tasks]
    assert order.index("Conv") < order.index(next(name for name in order if "Abs" in name))
