"""What must hold for UB fusion on any graph: values bit by bit, bytes, counts, switches, order, no
circles."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.scopes import units_in_order
from ascendsim.passes.fusion.switch_file import SwitchFile
from ascendsim.passes.fusion.switches import Switches
from ascendsim.passes.ub import PROFILES, limits_of, ub_passes
from tests.support.fusing import new_builder, random
from tests.support.gate import examples
from tests.support.ub import conv, same_values, ub

CHANNELS, SIZE = 16, 6
UNARY = ("Relu", "Sigmoid", "Abs", "Exp", "LeakyRelu", "Tanh", "Neg")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [*UNARY, "Conv", "Depthwise", "Add", "Mul", "Sub", "Channel", "Scale", "Softmax", "Mean"]
        ),
        st.integers(0, 40),
    ),
    min_size=2,
    max_size=12,
)
PROFILE = st.sampled_from([*PROFILES])
CHIP = st.sampled_from(["Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1"])
SAMPLES = examples(0.5)


def random_graph(steps: list[tuple[str, int]]) -> Graph:
    """A graph of maps of one shape: each step reads an earlier tensor (a sum also the last one), so tensors
    get several readers."""
    b = new_builder()
    made: list[Tensor] = [b.input("x", (1, CHANNELS, SIZE, SIZE))]
    for op_type, index in steps:
        source = made[index % len(made)]
        if op_type in ("Add", "Mul", "Sub"):
            made.append(b.op(op_type, source, made[-1]))
        elif op_type in ("Conv", "Depthwise"):
            made.append(conv(b, source, CHANNELS, groups=CHANNELS if op_type == "Depthwise" else 1))
        elif op_type == "Channel":
            made.append(b.op("Mul", source, random(1, CHANNELS, 1, 1, seed=index)))
        elif op_type == "Scale":
            made.append(b.op("Mul", source, 0.5))
        elif op_type == "Softmax":
            made.append(b.op("Softmax", source, axis=1))
        elif op_type == "Mean":
            made.append(b.op("Add", b.op("ReduceMean", source, np.array([2, 3])), source))
        else:
            made.append(b.op(op_type, source))
    for number, tensor in enumerate(tensor for tensor in made[1:] if not tensor.uses):
        b.output(tensor, f"y{number}")
    return b.build()


@SAMPLES
@given(STEPS, PROFILE, CHIP)
def test_values_bytes_and_scopes(steps: list[tuple[str, int]], profile: str, chip: str) -> None:
    fused = ub(random_graph(steps), chip, profile)  # checks programs and bytes
    assert same_values(fused)
    for matched, effected in fused.counts.values():
        assert matched >= effected
    members = [name for scope in fused.report.scopes for name in scope.nodes]
    assert len(members) == len(set(members)), "a node is in one scope at most"
    assert sum(len(unit) > 1 for unit in units_in_order(fused.after.graph)) == len(fused.report.scopes)
    assert len(fused.after.program.tasks) == len(fused.before.program.tasks) - sum(
        len(s.nodes) - 1 for s in fused.report.scopes
    )


@SAMPLES
@given(STEPS, PROFILE, st.integers(1, 4))
def test_limits_hold(steps: list[tuple[str, int]], profile: str, most: int) -> None:
    changes = {"conv_elementwise": most, "elementwise": max(2, most)}
    fused = ub(random_graph(steps), "Ascend310P3", profile, changes)
    for scope in fused.report.scopes:
        if scope.name in ("TbeConvCommonRules0FusionPass", "ConvSingleInFusionPass"):
            assert len(scope.nodes) <= most + 1
        if scope.name in ("TbeEltwiseFusionPass", "EltwiseFusionPass"):
            assert len(scope.nodes) <= max(2, most)


@SAMPLES
@given(STEPS, st.data())
def test_a_pass_that_is_off_never_fires(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    limits = limits_of("Ascend310P")
    everything = ub_passes(limits, Switches())
    off = data.draw(st.sets(st.sampled_from(sorted(everything))))
    fused = ub(
        random_graph(steps), "Ascend310P3", switches=Switches(option=dict.fromkeys(sorted(off), False))
    )
    fired = {record.name for record in fused.report.records}
    assert not fired & off
    assert off <= set(fused.report.switched_off)
    places = [everything.index(record.name) for record in fused.report.records]
    assert places == sorted(places), "records come in the order of priorities"


@SAMPLES
@given(
    STEPS,
    st.integers(1000, 1999),
    st.sampled_from(["TbeEltwiseFusionPass", "TbeReduceElemwiseFusionPass", "TbeConvDoubleInFusionPass"]),
)
def test_order_follows_the_priorities_of_a_switch_file(
    steps: list[tuple[str, int]], priority: int, name: str
) -> None:
    switches = Switches(file=SwitchFile(priorities={"ub": {name: priority}}))
    assert ub_passes(PROFILES["documents"], switches)[1] == name  # AIPP's stands before all others
    fused = ub(random_graph(steps), "Ascend310P3", switches=switches)
    fired = [record.name for record in fused.report.records]
    assert name not in fired or fired[0] == name
    assert same_values(fused)
