"""Limits of UB fusion: how many operators a task takes, by chip, profile and option."""

from __future__ import annotations

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.passes.ub import limits_of
from tests.support.fusing import random
from tests.support.ub import one_convolution, same_values, ub, vectors


def test_elementwise_chain_is_cut_at_the_limit() -> None:
    names = ("Exp", "Abs", "Neg", "Relu", "Sqrt", "Tanh", "Sigmoid")
    assert ub(vectors(*names), "Ascend310").scopes[0] == names[:5], (
        "the first node, with input in other type, belongs to the chain"
    )


@pytest.mark.parametrize(("chip", "most"), [("Ascend310", 3), ("Ascend310P3", 5)])
def test_convolution_is_cut_at_the_limit(chip: str, most: int) -> None:
    names = ("Relu", "Exp", "Abs", "Neg", "Sqrt", "Tanh", "Sigmoid")
    assert ub(one_convolution(*names), chip).scopes[0] == ("Conv", *names[:most])


def test_limits_can_be_changed() -> None:
    graph = one_convolution("Relu", "Exp", "Abs", "Neg")
    for most in (1, 2, 4):
        fused = ub(graph, changes={"conv_elementwise": most})
        assert len(fused.scopes[0]) == most + 1
        assert same_values(fused)


@pytest.mark.parametrize("value", [0, -1, 65, 2.5, True, "3"])
def test_limits_out_of_bounds(value: object) -> None:
    with pytest.raises(InputError, match="must be a whole number from 1 to 64"):
        limits_of("Ascend310", changes={"elementwise": value})  # type: ignore[dict-item]


def test_unknown_limit_and_profile() -> None:
    with pytest.raises(InputError, match="did you mean elementwise"):
        limits_of("Ascend310", changes={"elementwis": 3})
    with pytest.raises(InputError, match="must be one of"):
        limits_of("Ascend310", "CANN")


def test_options_of_compile() -> None:
    graph = one_convolution("Relu", "Exp", "Abs", "Neg")
    for option, length in (({"ub_conv": 2}, 3), ({"ub_limits": "MindSpore"}, 4), ({}, 4)):
        model = asim.compile(graph, soc="Ascend310", fusion="ub", options=option)
        assert len(model.fusion.scopes[0].nodes) == length
    with pytest.raises(InputError, match="ub_conv"):
        asim.compile(graph, soc="Ascend310", fusion="ub", options={"ub_conv": 0})


@pytest.mark.parametrize("head", ["Conv", "depthwise", "ConvTranspose"])
@pytest.mark.parametrize("second", ["Add", "Sub", "Mul", "Max", "x * sigmoid(x)"])
@pytest.mark.parametrize("place", [0, 1])
def test_the_guides_release_joins_no_operator_of_two_tensors_to_a_convolution(
    head: str, second: str, place: int
) -> None:
    """Document for the Ascend 310: those behind the convolution have one input and one output; those of one
    join up to the first of two, which starts a chain of its own. Constants are no inputs."""
    b = GraphBuilder()
    x, other = b.input("x", (1, 16, 8, 8)), b.input("other", (1, 16, 8, 8))
    weights = random(16, 1 if head == "depthwise" else 16, 3, 3)
    kind, group = ("ConvTranspose" if head == "ConvTranspose" else "Conv"), (16 if head == "depthwise" else 1)
    value = b.op(kind, x, weights, pads=(1,) * 4, group=group, name="conv")
    for number in range(place):
        value = b.op("Relu", value, name=f"one{number}")
    if second == "x * sigmoid(x)":
        value = b.op("Mul", value, b.op("Sigmoid", value, name="gate"), name="two")
    else:
        value = b.op(second, value, other, name="two")
    b.output(b.op("Abs", b.op("Mul", value, np.float32(3), name="scaled"), name="last"), "y")
    graph = b.build()
    model = asim.compile(graph, "Ascend310", release="ddk")
    task = {name: nodes for nodes in (s.nodes for s in model.fusion.scopes) for name in nodes}
    assert "two" not in task.get("conv", ())
    assert (task.get("one0") == ("conv", "one0")) == (place == 1)
    assert {"two", "scaled", "last"} <= set(task["two"])
    loose = asim.compile(graph, "Ascend310", release="ddk", options={"ub_conv_inputs": "any"})
    inputs = asim.random_inputs(model)
    np.testing.assert_array_equal(*(asim.run(one, inputs).outputs["y"] for one in (model, loose)))


def test_a_residual_sum_joins_its_convolution_in_other_releases() -> None:
    b = GraphBuilder()
    x, other = b.input("x", (1, 16, 8, 8)), b.input("other", (1, 16, 8, 8))
    conv = b.op("Conv", x, random(16, 16, 3, 3), pads=(1,) * 4, name="conv")
    b.output(b.op("Relu", b.op("Add", conv, other, name="sum"), name="relu"), "y")
    graph = b.build()
    tasks = {
        release: [scope.nodes for scope in asim.compile(graph, "Ascend310", release=release).fusion.scopes]
        for release in ("cann", "ddk")
    }
    assert tasks == {"cann": [("conv", "sum", "relu")], "ddk": [("sum", "relu")]}


# What documents and sources say of elementwise operators, by profile; three profiles conflict on purpose.
STATED = {
    "Ascend310": {
        "behind a convolution": 3,
        "in a chain": 5,
        "around a reduction": (4, 4, 4),
        "a segment": (4, 4, 4),
    },
    "MindSpore": {
        "behind a convolution": 3,
        "in a chain": 6,
        "around a reduction": (3, 3, 6),
        "a segment": (3, 3, 6),
    },
    "documents": {
        "behind a convolution": 5,
        "in a chain": 6,
        "around a reduction": (6, 5, 11),
        "a segment": (3, 3, 6),
    },
}


@pytest.mark.parametrize("profile", STATED)
def test_the_limits_are_those_of_the_documents(profile: str) -> None:
    limits = limits_of("Ascend310P", profile)
    assert limits.name == profile
    assert STATED[profile] == {
        "behind a convolution": limits.conv_elementwise,
        "in a chain": limits.elementwise,
        "around a reduction": (limits.reduce_before, limits.reduce_after, limits.reduce_all),
        "a segment": (limits.segment_before, limits.segment_after, limits.segment_all),
    }
    # the automatic pass joins 28 nodes, with six readers of a tensor and six summands
    assert limits.automatic == (28 if profile == "documents" else 0)
    assert (limits.readers, limits.summands) == (6, 6)
