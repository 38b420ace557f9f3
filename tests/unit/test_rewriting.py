"""The kit of rewriting: what a replacement keeps, what a refusal leaves, what a record counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, PassError
from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.parsing import parse_text
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.passes.rewriting.control import ControlEdges
from ascendsim.passes.rewriting.outputs import hand_out, hand_out_copy
from ascendsim.passes.rewriting.removal import drop_unread_constants, remove_dead_from, remove_unread
from ascendsim.passes.rewriting.replace import (
    insert_after,
    replace,
    replace_outputs,
    replace_root,
    replacing,
    sources_of,
)
from ascendsim.passes.rewriting.report import PatternRecord
from ascendsim.passes.rewriting.runner import OVERLAP, Blame, RefusedError, rewrite_found


def chain(outputs: str = "output %z", more: str = "") -> Graph:
    """x -> a -> b -> c, and two nodes beside them, `early` and `late`, to be tied by control edges."""
    return parse_text(
        "graph g { input %x: float32[4] early: %e: float32[4] = Abs(%x) a: %p: float32[4] = Neg(%x) "
        "b: %q: float32[4] = Neg(%p) c: %z: float32[4] = Relu(%q) late: %l: float32[4] = Abs(%x) "
        f"{more} {outputs} output %e output %l }}"
    )


BRANCH = "if: %y: float32[4] = If(%k) {then_branch = graph t { n: %n: float32[4] = Relu(%q) output %n }}"


def waits(graph: Graph) -> set[tuple[str, str]]:
    """(who waits, for whom) of all control edges."""
    found = {(node.name, before.name) for node in graph.nodes for before in node.control}
    assert found == {(after.name, node.name) for node in graph.nodes for after in node.followers}
    return found


def tie(graph: Graph, *pairs: tuple[str, str]) -> None:
    for after, before in pairs:
        graph.node(after).add_control(graph.node(before))


def names(graph: Graph) -> list[str]:
    return [tensor.name for tensor in graph.outputs]


def relu_for(graph: Graph, *nodes: str) -> Node:
    """Replaces nodes, the last one first, by a Relu."""
    old = [graph.node(name) for name in nodes]
    with replacing(graph, old):
        made = graph.add_node("Relu", [old[-1].input(0)], name="made")
        made.output.shape, made.output.dtype = (4,), DType.FLOAT32
        replace_root(graph, old[0], made.output)
    verify(graph)
    return made


def test_what_is_made_inherits_control_edges_in_both_directions() -> None:
    graph = chain()
    tie(graph, ("a", "early"), ("late", "b"))
    relu_for(graph, "b", "a")
    assert waits(graph) == {("made", "early"), ("late", "made")}


def test_what_is_left_of_the_nodes_keeps_its_own_control_edges() -> None:
    graph = chain(outputs="output %z output %p")
    tie(graph, ("a", "early"), ("b", "a"), ("late", "b"))
    relu_for(graph, "b", "a")
    assert waits(graph) == {("a", "early"), ("late", "made")}
    assert "source_names" not in graph.node("a").origin


def test_where_nothing_is_made_readers_and_followers_wait() -> None:
    graph = chain()
    tie(graph, ("b", "early"), ("late", "b"))
    replace_root(graph, graph.node("b"), graph.tensors["p"])
    verify(graph)
    assert waits(graph) == {("c", "early"), ("late", "early"), ("late", "a")}


def test_an_output_that_had_to_wait_still_waits() -> None:
    graph = chain()
    tie(graph, ("c", "early"))
    replace_root(graph, graph.node("c"), graph.tensors["q"])
    verify(graph)
    assert names(graph) == ["z", "e", "l"]
    maker = graph.outputs[0].producer
    assert maker is not None
    assert (maker.op_type, waits(graph)) == ("Identity", {(maker.name, "early")})


def test_a_reader_in_a_subgraph_lets_the_node_that_holds_it_wait() -> None:
    graph = chain(
        more=BRANCH,
        outputs="output %y input %k: bool[]",
    )
    tie(graph, ("b", "early"))
    replace_root(graph, graph.node("b"), graph.tensors["p"])
    verify(graph)
    assert ("if", "early") in waits(graph)
    (_, body), *_ = graph.node("if").subgraphs
    assert body.node("n").input(0) is graph.tensors["p"]


def test_subgraphs_of_a_node_that_goes_let_go_of_what_they_read() -> None:
    graph = chain(
        more=BRANCH,
        outputs="output %y output %z input %k: bool[]",
    )
    graph.outputs[:] = [tensor for tensor in graph.outputs if tensor.name != "z"]
    replace_root(graph, graph.node("if"), graph.tensors["e"])
    assert "if" not in [node.name for node in graph.nodes]
    assert [use.node.name for use in graph.tensors["q"].uses] == ["c"]
    assert graph.inputs[1].uses == ()
    verify(graph)


def test_nodes_that_a_control_edge_ties_in_a_circle_are_refused() -> None:
    graph = chain()
    tie(graph, ("early", "a"), ("c", "early"))
    nodes = [graph.node("c"), graph.node("b"), graph.node("a")]
    assert ControlEdges.of(nodes).refusal() == (
        "a control edge lets a run before and after other nodes of the match"
    )
    assert ControlEdges.of(nodes[1:]).refusal() is None


def test_made_nodes_stand_for_all_operators_of_the_user() -> None:
    graph = chain()
    graph.node("a").origin["source_names"] = ("first", "second")
    made = relu_for(graph, "b", "a")
    assert made.origin["source_names"] == ("first", "second", "b")
    assert sources_of([made, graph.node("c")]) == ("first", "second", "b", "c")


def test_another_model_of_the_users_has_operators_of_its_own() -> None:
    graph = chain()
    with replacing(graph, [graph.node("c")], sources=False):
        made = graph.add_node("Abs", [graph.tensors["q"]])
        replace_root(graph, graph.node("c"), made.output)
    assert "source_names" not in made.origin


def test_a_graph_output_keeps_its_name() -> None:
    graph = chain()
    relu_for(graph, "c")
    assert names(graph) == ["z", "e", "l"]
    assert graph.tensors["z"].producer is graph.node("made")
    assert "c" not in [node.name for node in graph.nodes]


@pytest.mark.parametrize("source", ["x", "e"])
def test_a_tensor_with_a_name_of_its_own_keeps_it_too(source: str) -> None:
    graph = chain()
    replace_root(graph, graph.node("c"), graph.tensors[source])
    verify(graph)
    assert names(graph) == ["z", "e", "l"]
    identity = graph.outputs[0].producer
    assert identity is not None
    assert (identity.op_type, identity.input(0)) == ("Identity", graph.tensors[source])
    assert [node.name for node in graph.nodes] == ["early", "late", "c_identity"]


def test_outputs_of_a_node_move_one_by_one() -> None:
    graph = parse_text(
        "graph g { input %x: float32[4] s: %a: float32[2], %b: float32[2] = Split(%x) {num_outputs = 2} "
        "m: %c: float32[2], %d: float32[2] = Split(%x) {num_outputs = 2} r: %y: float32[2] = Relu(%a) "
        "output %y output %b output %c }"
    )
    replace_outputs(graph, graph.node("s"), [graph.tensors["c"], graph.tensors["d"]])
    verify(graph)
    assert names(graph) == ["y", "b", "c"]
    assert graph.node("r").input(0) is graph.tensors["c"]
    assert graph.outputs[1].producer is graph.node("m")
    assert "s" not in [node.name for node in graph.nodes]


def test_a_match_reads_its_own_results_until_it_goes() -> None:
    """Only readers outside get the new tensor, else a result would be fed into what it replaces."""
    graph = chain(outputs="output %z output %q")
    abs_node = graph.add_node("Abs", [graph.inputs[0]], name="new")
    nodes = [graph.node("c"), graph.node("b")]
    replace(graph, nodes, [(graph.tensors["q"], abs_node.output), (graph.tensors["z"], graph.tensors["l"])])
    verify(graph)
    assert names(graph) == ["z", "q", "e", "l"]
    assert {node.name for node in graph.nodes} == {"early", "late", "new", "c_identity"}


def test_what_is_made_of_a_match_is_not_fed_into_it() -> None:
    graph = chain()
    made = graph.add_node("Abs", [graph.tensors["z"]], name="made")
    reader = graph.add_node("Neg", [graph.tensors["q"]], name="reader")
    graph.outputs.append(reader.output)
    replace(graph, [graph.node("c"), graph.node("b")], [(graph.tensors["q"], made.output)])
    verify(graph)
    assert reader.input(0) is made.output
    assert graph.node("c").input(0) is graph.tensors["q"]


def test_followers_wait_for_what_is_read_instead_and_for_nothing_else() -> None:
    graph = chain()
    both = graph.add_node("Add", [graph.tensors["p"], graph.tensors["e"]], name="both")
    graph.node("c").set_input(0, both.output)
    tie(graph, ("late", "both"))
    replace_root(graph, both, graph.tensors["p"])
    assert waits(graph) == {("late", "a")}


def test_a_tensor_that_stands_for_itself_stays() -> None:
    graph = chain()
    text = to_text(graph)
    replace(graph, [graph.node("c")], [(graph.tensors["z"], graph.tensors["z"])])
    assert to_text(graph) == text


def test_producers_stay_if_they_are_asked_to() -> None:
    graph = chain()
    replace(graph, [graph.node("c")], [(graph.tensors["z"], graph.tensors["e"])], deep=False)
    assert {node.name for node in graph.nodes} == {"early", "late", "a", "b", "c_identity"}


@pytest.mark.parametrize(("shape", "dtype"), [((5,), DType.FLOAT32), ((4,), DType.FLOAT16)])
def test_a_tensor_of_another_type_is_an_error(shape: tuple[int, ...], dtype: DType) -> None:
    graph = chain()
    made = graph.add_node("Relu", [graph.tensors["q"]])
    made.output.shape, made.output.dtype = shape, dtype
    with pytest.raises(GraphError, match="to stand for 'z'"):
        replace_root(graph, graph.node("c"), made.output)


def test_what_somebody_waits_for_does_not_go() -> None:
    graph = chain()
    dead = graph.add_node("Abs", [graph.tensors["q"]], name="dead")
    tie(graph, ("late", "dead"))
    assert remove_dead_from(dead) == 0
    graph.node("late").remove_control(dead)
    assert remove_dead_from(dead) == 1
    assert [node.name for node in graph.nodes] == ["early", "a", "b", "c", "late"]


def test_dead_chains_go_with_their_constants() -> None:
    graph = chain()
    number = graph.add_constant("number", np.ones(4, np.float32))
    dead = graph.add_node("Add", [graph.add_node("Abs", [number]).output, number])
    remove_unread(dead)
    assert "number" in graph.tensors  # Abs reads it
    assert remove_dead_from(*graph.nodes) == 1
    assert "number" not in graph.tensors
    graph.add_constant("other", np.ones(4, np.float32))
    assert drop_unread_constants(graph) == 1
    graph.outputs.append(graph.add_constant("handed_out", np.ones(4, np.float32)))
    assert drop_unread_constants(graph) == 0


def test_handing_out_moves_the_name_and_no_reader() -> None:
    graph = chain()
    after = graph.add_node("Abs", [graph.tensors["z"]], name="after")
    reader = graph.add_node("Neg", [graph.tensors["z"]], name="reader")
    graph.outputs.append(reader.output)
    hand_out(graph, graph.tensors["z"], after.output, "before")
    assert names(graph)[0] == "z"
    assert graph.outputs[0] is after.output
    assert after.input(0) is reader.input(0) is graph.tensors["z_before"]
    assert hand_out_copy(graph, 0).input(0) is after.output
    assert names(graph)[0] == "z"
    insert_after(graph.tensors["z_before"], after.output)
    assert (after.input(0), reader.input(0)) == (graph.tensors["z_before"], after.output)


@dataclass(frozen=True)
class Spot:
    place: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.place, "other")


def test_a_record_counts_what_came_of_each_match() -> None:
    gone = {"gone"}
    done = []

    def rewrite(spot: Spot) -> None:
        if spot.place == "late":
            raise RefusedError("there is no program")
        done.append(spot.place)

    record = rewrite_found(
        PatternRecord("graph", "rule", "pattern"),
        [Spot("gone"), Spot("no"), Spot("yes"), Spot("late"), Spot("gone")],
        lambda spot: "it is not allowed" if spot.place == "no" else None,
        rewrite,
        lambda spot: None if spot.place in gone else spot,
    )
    assert (record.matched, record.effected, done) == (5, 2, ["gone", "yes"])
    assert [(refusal.node, refusal.reason) for refusal in record.refusals] == [
        ("no", "it is not allowed"), ("late", "there is no program"), ("gone", OVERLAP),
    ]  # fmt: skip
    assert record.fused == [("gone", "other"), ("yes", "other")]


def test_matches_are_taken_when_their_turn_comes() -> None:
    """A generator may look at the graph as earlier rewrites left it."""
    left = ["a", "b"]

    def find() -> Iterator[Spot]:
        while left:
            yield Spot(left[0])

    record = rewrite_found(
        PatternRecord("ub", "r", "p"), find(), lambda _: None, lambda spot: left.remove(spot.place)
    )
    assert (record.matched, record.fused) == (2, [("a", "other"), ("b", "other")])


def look(fails_at: str | None) -> None:
    with Blame("rule r", "while looking", "do so") as blame:
        if fails_at is None:
            raise ZeroDivisionError("zero")
        for spot in blame.at([Spot("a"), Spot("b")]):
            if spot.place == fails_at:
                raise GraphError("node 'n'", "is odd")


def test_an_error_names_the_rule_and_the_place() -> None:
    with pytest.raises(PassError, match=r"^rule r failed while looking: ZeroDivisionError: zero; do so$"):
        look(None)
    with pytest.raises(PassError, match=r"^rule r failed at node 'b': node 'n' is odd; do so$"):
        look("b")
    look("c")


def test_a_refusal_leaves_every_byte() -> None:
    graph = chain()
    tie(graph, ("a", "early"), ("late", "b"))
    text, additions = to_text(graph), graph.additions
    record = PatternRecord("graph", "rule", "pattern")
    rewrite_found(record, [Spot("a"), Spot("b")], lambda spot: "no", lambda spot: graph.outputs.clear())
    assert (record.matched, record.effected, len(record.refusals)) == (2, 0, 2)
    assert (to_text(graph), graph.additions) == (text, additions)
