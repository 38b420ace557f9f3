"""The traversal: order of visits, three kinds of re-queueing, subgraphs, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, PassError
from ascendsim.graph.ir import Graph, Node
from ascendsim.ops import default_opset
from ascendsim.passes.engine.node_pass import Site, standard
from ascendsim.passes.engine.traversal import MAX_DEPTH, Traversal
from ascendsim.passes.rewriting.runner import RefusedError
from ascendsim.passes.rewriting.worklist import VISITS_PER_NODE, When


def chain(names: str, graph: Graph | None = None) -> Graph:
    """Relu nodes of these names behind each other."""
    graph = graph or Graph("chain")
    tensor = graph.add_input("x", DType.FLOAT32, (2,))
    for name in names:
        tensor = graph.add_node("Relu", [tensor], [f"{graph.name}_{name}"], name=name).output
        tensor.dtype, tensor.origin_dtype, tensor.shape = DType.FLOAT32, DType.FLOAT32, (2,)
    graph.outputs.append(tensor)
    return graph


@dataclass
class Asking:
    """Notes visits; on the first visit of a node asks for others to be visited again."""

    asks: dict[str, tuple[tuple[str, When], ...]] = field(default_factory=dict)
    name: str = "Asking"
    op_types: frozenset[tuple[str, str]] | None = None
    visited: list[str] = field(default_factory=list)

    def run(self, node: Node, site: Site) -> bool:
        first = node.name not in self.visited
        self.visited.append(node.name)
        for other, when in self.asks.get(node.name, ()) if first else ():
            site.again(site.graph.node(other), when)
        return False


def visit(graph: Graph, asking: Asking) -> str:
    Traversal(graph, [asking], default_opset()).run()
    return "".join(asking.visited)


def test_nodes_are_visited_in_execution_order():
    assert visit(chain("abcd"), Asking()) == "abcd"


def test_immediate_means_next_if_the_node_was_visited():
    assert visit(chain("abcd"), Asking({"b": (("a", When.IMMEDIATE),)})) == "abacd"
    assert visit(chain("abcd"), Asking({"a": (("c", When.IMMEDIATE),)})) == "abcd", "its turn comes anyway"


def test_deferred_means_after_the_graph():
    assert visit(chain("abcd"), Asking({"b": (("a", When.DEFERRED),)})) == "abcda"


def test_global_means_after_the_outermost_graph():
    graph = Graph("outer")
    data = graph.add_input("data", DType.FLOAT32, (2,))
    call = graph.add_node(
        "PartitionedCall", [data], ["called"], name="C", domain="ascend", f=chain("ab", Graph("body"))
    )
    graph.outputs.append(graph.add_node("Relu", [call.output], ["y"], name="z").output)
    body = call.attributes["f"]
    assert isinstance(body, Graph)
    assert visit(graph, Asking({"a": (("b", When.GLOBAL),)})) == "CabzCab", (
        "the node whose subgraph it is in comes again"
    )


def test_passes_see_only_the_operators_that_they_name():
    graph = chain("ab")
    asking = Asking(op_types=standard("Exp"))
    assert visit(graph, asking) == ""


def test_a_pass_that_never_ends_is_stopped():
    @dataclass
    class Restless:
        name: str = "Restless"
        op_types: None = None
        visits: int = 0

        def run(self, node: Node, site: Site) -> bool:
            self.visits += 1
            site.again(node)
            return True

    restless = Restless()
    traversal = Traversal(chain("abc"), [restless], default_opset())
    assert traversal.run()
    assert restless.visits == VISITS_PER_NODE * 3
    assert "stopped after 30 visits of 3 nodes" in next(iter(traversal.tallies["Restless"].notes))


def test_subgraphs_nest_only_so_deep():
    graph = chain("a")
    for depth in range(MAX_DEPTH + 1):
        outer = Graph(f"outer{depth}")
        data = outer.add_input(f"data{depth}", DType.FLOAT32, (2,))
        node = outer.add_node(
            "PartitionedCall", [data], [f"out{depth}"], name=f"call{depth}", domain="ascend", f=graph
        )
        outer.outputs.append(node.output)
        graph = outer
    with pytest.raises(PassError, match=f"must not nest deeper than {MAX_DEPTH} subgraphs"):
        Traversal(graph, [Asking()], default_opset()).run()


def test_an_error_names_pass_and_node():
    @dataclass
    class Failing:
        name: str = "Failing"
        op_types: None = None

        def run(self, node: Node, site: Site) -> bool:
            raise GraphError("something", "is wrong")

    with pytest.raises(PassError, match="pass 'Failing' failed at node 'a': something is wrong"):
        Traversal(chain("ab"), [Failing()], default_opset()).run()


def test_what_passes_do_is_recorded_as_for_any_rule():
    @dataclass
    class Choosing:
        name: str = "Choosing"
        op_types: None = None

        def run(self, node: Node, site: Site) -> bool:
            if node.name == "b":
                site.again(site.graph.node("d"), When.DEFERRED)
                raise RefusedError("it is the second")
            if node.name == "d":
                raise RefusedError("it is the last")
            return node.name == "c"

    traversal = Traversal(chain("abcd"), [Choosing()], default_opset())
    assert traversal.run()
    tally = traversal.tallies["Choosing"]
    assert (tally.family, tally.matched, tally.effected, tally.fused) == ("engine", 3, 1, [("c",)])
    assert [(item.node, item.reason) for item in tally.refusals] == [
        ("b", "it is the second"),
        ("d", "it is the last"),
    ], "once, however often a node is visited"
    assert tally.result().counts == {"left: it is the second": 1, "left: it is the last": 1}
