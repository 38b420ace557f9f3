"""What must hold for graph fusion on any graph and under any switches: values, counts, switches, order, no
cycles."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.fusion.flow import fuse_graph
from ascendsim.passes.fusion.order import places
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionRule
from ascendsim.passes.fusion.rules import all_rules
from ascendsim.passes.fusion.switch_file import SwitchFile
from ascendsim.passes.fusion.switches import Switches
from tests.support.evaluate import evaluate
from tests.support.toy_rules import DropNeutral, JoinRelu, builder, named, toy_context

SHAPE = (2, 4)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["Relu", "Relu", "Abs", "Mul", "Add", "Sub", "Join"]),
        st.integers(0, 30),
        st.sampled_from([0.0, 1.0, 1.0, 2.0]),
    ),
    min_size=1,
    max_size=14,
)
PRIORITIES = st.lists(st.integers(1000, 1999), min_size=3, max_size=3)


def random_graph(steps: list[tuple[str, int, float]]) -> Graph:
    """A graph of elementwise operators: each step reads an earlier tensor, so tensors get several readers and
    several outputs remain."""
    b = builder("random")
    made: list[Tensor] = [b.input("x", SHAPE)]
    for op_type, index, number in steps:
        source = made[index % len(made)]
        if op_type == "Join":
            made.append(b.op("Add", source, made[-1]))
        elif op_type in ("Mul", "Add", "Sub"):
            made.append(b.op(op_type, source, number))
        else:
            made.append(b.op(op_type, source))
    for number, tensor in enumerate(tensor for tensor in made[1:] if not tensor.uses):
        b.output(tensor, f"y{number}")
    return b.build()


def rules(priorities: list[int]) -> list[FusionRule]:
    """The toy rules with places of their own, and a second copy of one so that both compete."""
    names = (("JoinA", JoinRelu), ("Drop", DropNeutral), ("JoinB", JoinRelu))
    return [
        named(rule, name, stage="Main", priority=at)
        for (name, rule), at in zip(names, priorities, strict=True)
    ]


def values(graph: Graph) -> dict[str, np.ndarray]:
    x = np.random.default_rng(3).standard_normal(SHAPE, np.float32)
    return dict(
        zip(
            [tensor.name for tensor in graph.outputs], evaluate(graph, default_opset(), {"x": x}), strict=True
        )
    )


@given(STEPS, PRIORITIES, st.dictionaries(st.sampled_from(["JoinA", "Drop", "JoinB", "ALL"]), st.booleans()))
def test_any_graph_under_any_switches(
    steps: list[tuple[str, int, float]], priorities: list[int], state: dict[str, bool]
) -> None:
    graph = random_graph(steps)
    before, nodes = values(graph), len(graph)
    switches = Switches(file=SwitchFile({"graph": state}))
    chosen = rules(priorities)
    report = FusionReport()
    fuse_graph(graph, chosen, toy_context(), switches, report)

    verify(graph)  # no cycle, no dangling edge
    after = values(graph)
    assert list(after) == list(before)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array)
    for record in report.records:
        assert record.matched >= record.effected >= 0
        assert record.matched == record.effected + len(record.refusals)
        assert len(record.fused) == record.effected
        assert state.get(record.name, state.get("ALL", True)), "a pass that is off fired"
    # outputs that became a copy of something with a name of its own
    kept_names = sum(node.op_type == "Identity" for node in graph.nodes)
    assert len(graph) - kept_names == nodes - sum(record.effected for record in report.records)
    at = places(chosen, switches)
    ran = [at[record.name].key for record in report.records]
    assert ran == sorted(ran)


@given(STEPS)
def test_with_everything_off_the_graph_stays(steps: list[tuple[str, int, float]]) -> None:
    graph = random_graph(steps)
    text = to_text(graph)
    off = {rule.name: False for rule in all_rules()} | dict.fromkeys(["JoinA", "Drop", "JoinB"], False)
    report = FusionReport()
    fuse_graph(graph, [*all_rules(), *rules([1000, 1001, 1002])], toy_context(), Switches(option=off), report)
    assert to_text(graph) == text
    assert report.records == []
    assert set(report.switched_off) <= set(off)


@given(STEPS, PRIORITIES)
def test_fusing_twice_finds_nothing_more_to_change(
    steps: list[tuple[str, int, float]], priorities: list[int]
) -> None:
    """The toy rules are complete once no one of them can act: a second run after a fixpoint effects
    nothing."""
    graph = random_graph(steps)
    for _ in range(len(graph) + 1):
        report = FusionReport()
        fuse_graph(graph, rules(priorities), toy_context(), Switches(), report)
        if not any(record.effected for record in report.records):
            break
    else:
        raise AssertionError("fusion does not come to an end")
    text = to_text(graph)
    fuse_graph(graph, rules(priorities), toy_context(), Switches(), FusionReport())
    assert to_text(graph) == text
