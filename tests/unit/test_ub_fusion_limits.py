"""Limits of UB fusion: how many operators a task takes, by chip, profile and option."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.passes.ub import limits_of
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
