"""The lever that sorts other types as floats: where, why, with what values, and why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import soc
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.opset.work import LowerContext
from ascendsim.passes.levers import LeverContext, Relation, SortAsFloat, apply_lever, find_sites

KEEP = "must_keep_origin_dtype"


def sorting(op: str, dtype: str, axis: int = -1, largest: int = 1) -> Graph:
    builder = asim.GraphBuilder()
    data = builder.input("x", (4, 64, 3), dtype)
    if op == "TopK":
        count = builder.constant([2])
        values, places = builder.ops("TopK", data, count, outputs=["v", "i"], axis=axis, largest=largest)
        builder.output(values, "v")
        builder.output(places, "i")
    else:
        builder.output(builder.op(op, data, axis=axis, keepdims=0), "i")
    return builder.build()


def proposal(graph: Graph, chip: str, **settings: Any) -> Any:
    advice = asim.advise(graph, soc=chip, **settings)
    return advice, next((each for each in advice.proposals if each.lever == "sort-as-float"), None)


@pytest.mark.parametrize("op", ["TopK", "ArgMax", "ArgMin"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint8", "float64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_values_and_places_are_those_of_the_model_as_it_was(op: str, dtype: str, axis: int) -> None:
    """Within the bound that the reason names, ties among them."""
    rng = np.random.default_rng(3)
    values = rng.integers(0, 200, (4, 64, 3)).astype(dtype)
    graph = sorting(op, dtype, axis)
    advice, found = proposal(graph, "Ascend910B1", precision_mode=KEEP)
    if found is None:  # it runs on the AI Core as it is, or Casts cost more than they bring
        assert all("AI CPU" not in row["Engine"] for row in advice.operators.records()) or any(
            name == "sort-as-float" for name, _, _ in advice.declined
        )
        changed = graph
        sites = find_sites(graph, SortAsFloat(), advice.context)
        if sites and sites[0].possible:
            changed = apply_lever(graph, SortAsFloat(), advice.context).graph
    else:
        assert found.gain_us > 0
        changed = advice.apply("sort-as-float")
    model = asim.compile(changed, soc="Ascend910B1", precision_mode=KEEP)
    want = asim.run(asim.compile(graph, soc="Ascend910B1", precision_mode=KEEP), {"x": values}).outputs
    got = asim.run(model, {"x": values}).outputs
    assert got.keys() == want.keys()
    for name, array in want.items():
        assert got[name].dtype == array.dtype
        np.testing.assert_array_equal(got[name], array)


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910B3", "Ascend910_9391"])
def test_it_pays_for_whole_numbers(chip: str) -> None:
    advice, found = proposal(sorting("TopK", "int32"), chip, precision_mode=KEEP)
    assert found is not None
    (site,) = found.sites
    assert "int32 sends TopK to the AI CPU; the AI Core has float32" in site.reason
    assert "exact below 2^24" in site.reason
    assert site.relation is Relation.APPROXIMATE
    assert found.before_us - found.after_us == pytest.approx(found.gain_us)
    changed = asim.simulate(asim.compile(advice.apply("sort-as-float"), soc=chip, precision_mode=KEEP))
    assert changed.duration_us == pytest.approx(found.after_us)
    assert not any(record.kind == "AI_CPU" for record in changed.trace.tasks)
    (row,) = advice.operators.records()
    assert row["Findings"] == "runs on the AI CPU because of int32"


def test_a_mode_that_makes_floats_float16_lowers_the_bound() -> None:
    _, found = proposal(sorting("TopK", "int32"), "Ascend910B3")
    assert found is not None
    assert "exact below 2^11, since the precision mode makes floats float16" in found.sites[0].reason


def test_where_only_float16_is_sorted_float32_is_rounded() -> None:
    graph = sorting("TopK", "float32")
    advice, _ = proposal(graph, "Ascend910A", precision_mode=KEEP)
    (site,) = find_sites(graph, SortAsFloat(), advice.context)
    assert "float32 sends TopK to the AI CPU; the AI Core has float16" in site.reason
    assert "rounds to 11 bits" in site.reason
    assert site.relation is Relation.APPROXIMATE
    assert advice.operators.records()[0]["Findings"] == "runs on the AI CPU because of float32"


def test_types_that_float16_holds_are_exact() -> None:
    graph = sorting("TopK", "uint8")
    advice, _ = proposal(graph, "Ascend910B1")
    (site,) = find_sites(graph, SortAsFloat(), advice.context)
    assert site.relation is Relation.EXACT


def test_what_runs_on_the_ai_core_is_left_alone() -> None:
    advice, found = proposal(sorting("TopK", "float32"), "Ascend910B1", precision_mode=KEEP)
    assert found is None
    assert not any(name == "sort-as-float" for name, _, _ in advice.declined)


def test_a_chip_that_sorts_no_float_says_so() -> None:
    """None of the chips; one without its sorting instructions."""
    graph = sorting("TopK", "int32")
    nodes = frozenset(node.name for node in graph.nodes)
    chip = LowerContext.of(soc.load("Ascend310P3"))
    without = {name: types for name, types in chip.intrinsics.items() if "bitsort" not in name}
    context = LeverContext(default_opset(), nodes, chip=replace(chip, intrinsics=without))
    (site,) = find_sites(graph, SortAsFloat(), context)
    assert not site.possible
    assert "takes no float for it either" in site.reason
    (site,) = find_sites(graph, SortAsFloat(), replace(context, chip=chip))
    assert site.possible


def test_casts_that_run_on_the_ai_cpu_themselves_are_declined_with_both_times() -> None:
    """The vector unit of Ascend310P3 converts no int64."""
    advice, found = proposal(sorting("TopK", "int64"), "Ascend310P3", precision_mode=KEEP)
    assert found is None
    (reason,) = [reason for name, _, reason in advice.declined if name == "sort-as-float"]
    assert "does not pay" in reason
