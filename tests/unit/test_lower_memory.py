"""The memory plan: first fit, aliases, kinds."""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph
from ascendsim.lower.memory import Life, first_fit, plan_memory


def test_first_fit_reuses_the_lowest_free_bytes() -> None:
    lives = [Life("a", 512, 0, 1), Life("b", 512, 0, 3), Life("c", 300, 2, 3), Life("d", 1024, 2, 2)]
    offsets, peak = first_fit(lives)
    assert offsets["a"] == 0
    assert offsets["b"] == 512
    assert offsets["d"] == 1024  # does not fit where a was
    assert offsets["c"] == 0
    assert peak == 2048


def test_outputs_never_share_with_the_inputs_of_their_task() -> None:
    offsets, peak = first_fit([Life("x", 512, 0, 1), Life("y", 512, 1, 2)])
    assert offsets["x"] != offsets["y"]
    assert peak == 1024


def chain() -> Graph:
    graph = Graph("chain")
    x = graph.add_input("x", DType.FLOAT16, (8, 64))
    w = graph.add_constant("w", np.zeros((8, 64), np.float16))
    for name, inputs in (("a", [x, w]), ("b", ["a", w]), ("c", ["b", w])):
        node = graph.add_node("Add", [graph.tensors[i] if isinstance(i, str) else i for i in inputs], [name], name=name)
        node.output.shape, node.output.dtype, node.output.origin_dtype = (8, 64), DType.FLOAT16, DType.FLOAT16
    graph.outputs.append(graph.tensors["c"])
    return graph


def test_kinds_lifetimes_and_weights_behind_the_arena() -> None:
    plan = plan_memory(chain(), [["x", "w", "a"], ["a", "w", "b"], ["b", "w", "c"]], {}, {"scratch": 100})
    kinds = {name: region.kind for name, region in plan.regions.items()}
    assert kinds == {"x": "input", "w": "weight", "a": "activation", "b": "activation", "c": "output", "scratch": "workspace"}
    assert (plan.regions["a"].first, plan.regions["a"].last) == (0, 1)
    assert plan.regions["w"].offset >= plan.peak_bytes
    assert plan.weight_bytes == 1024
    assert all(region.offset % 512 == 0 for region in plan.regions.values())


def test_an_alias_shares_its_bytes_and_prolongs_the_life() -> None:
    plan = plan_memory(chain(), [["x", "a"], [], ["b", "c"]], {"b": "a"}, {})
    assert plan.regions["b"].offset == plan.regions["a"].offset
    assert plan.regions["b"].alias_of == "a"
    assert (plan.regions["a"].first, plan.regions["a"].last) == (0, 2)


def test_an_alias_that_is_a_graph_output_keeps_its_root_to_the_end() -> None:
    plan = plan_memory(chain(), [["x", "a"], ["a", "b"], []], {"c": "b"}, {})
    assert plan.regions["b"].kind == "output"
    assert plan.regions["b"].last == 2
