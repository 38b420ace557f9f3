"""Graph text before and after precision and formats: every Cast, TransData, type and format that the passes
put in."""

from __future__ import annotations

from collections.abc import Callable

import ascendsim as asim
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import parse_text, to_text
from ascendsim.ops import default_opset
from ascendsim.passes.layout import AssignFormats
from ascendsim.passes.precision.assign import ApplyPrecision
from ascendsim.passes.rewriting.passes import Pass, run_passes
from ascendsim.soc import load

Golden = Callable[[str, str], None]


def network() -> Graph:
    """A convolution with Relu and residual, then flattened into a product and a softmax: everything that
    formats and types part at."""
    b = asim.GraphBuilder("net")
    first = b.op(
        "Relu", b.op("Conv", b.input("x", (1, 3, 6, 6)), b.weight("w1", (16, 3, 3, 3)), pads=(1, 1, 1, 1))
    )
    second = b.op("Conv", first, b.weight("w2", (16, 16, 1, 1)))
    flat = b.op("Flatten", b.op("Add", second, first))
    b.output(b.op("Softmax", b.op("MatMul", flat, b.weight("w3", (576, 10)))), "y")
    return b.build()


def check(golden: Golden, name: str, graph: Graph, *passes: Pass) -> None:
    after = copy_graph(graph)
    run_passes(after, passes)
    text = f"before\n{to_text(graph)}\nafter\n{to_text(after)}"
    assert to_text(parse_text(to_text(after))) == to_text(after)
    golden(f"passes/{name}.txt", text)


def test_precision(golden: Golden) -> None:
    check(golden, "precision_force_fp16", network(), ApplyPrecision(default_opset(), "force_fp16"))


def test_formats(golden: Golden) -> None:
    graph = network()
    run_passes(graph, (ApplyPrecision(default_opset(), "force_fp16"),))
    check(golden, "formats_Ascend310", graph, AssignFormats(default_opset(), load("Ascend310")))
