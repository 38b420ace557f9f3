"""Laws of the graph: use lists, orders, equal constants, composites and scopes, against plain models of them
on random small cases."""

from __future__ import annotations

import itertools
import random as random_module
from collections.abc import Iterable

import numpy as np
import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import Format
from ascendsim.graph.branches import IMPOSSIBLE, possible_subgraphs
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.composites import body_of, is_composite, lies_inside, outside_tensors
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.dot import to_dot
from ascendsim.graph.ir import Constant, Graph, Node, Shape, Tensor
from ascendsim.graph.ordering import can_run, stable_order
from ascendsim.graph.same_values import same_values
from ascendsim.graph.samples import batch_of
from ascendsim.graph.scopes import SCOPE, internal_tensors, next_scope, scopes_of, units_in_order
from ascendsim.graph.sorting import sorted_nodes
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from ascendsim.passes.graph_kernel.outline import outline
from tests.support.evaluate import evaluate
from tests.support.fusing import new_builder, random

FLOAT = DType.FLOAT32


def dags(count: int = 40, most: int = 8) -> Iterable[dict[int, set[int]]]:
    """What each of some items needs, in random orders; some with cycles."""
    generator = random_module.Random(5)
    for _ in range(count):
        size = generator.randint(1, most)
        place = generator.sample(range(size), size)
        needs = {
            item: {other for other in range(size) if place[other] < place[item] and generator.random() < 0.3}
            for item in range(size)
        }
        if generator.random() < 0.3 and size > 1:
            needs[generator.randrange(size)].add(generator.randrange(size))
        yield needs


# ------------------------------------------------------------------------------------------------------------


def test_the_order_is_the_smallest_of_all_that_can_run() -> None:
    """Of those that are ready always the first: the lexicographically smallest of all permutations that can
    run."""
    for needs in dags(25, 6):
        order, stuck = stable_order(range(len(needs)), needs.__getitem__)
        able = [
            p
            for p in itertools.permutations(range(len(needs)))
            if all(n in p[: p.index(i)] for i in p for n in needs[i])
        ]
        if able:
            assert tuple(order) == min(able)
            assert stuck == []
        for p in itertools.permutations(range(len(needs))):
            assert can_run(p, needs.__getitem__) is (p in able)


def test_what_is_stuck_is_on_a_cycle_or_behind_one() -> None:
    for needs in dags():
        _, stuck = stable_order(range(len(needs)), needs.__getitem__)
        reach = {item: set(before) for item, before in needs.items()}
        for _ in needs:
            reach = {
                item: before.union(*(reach[other] for other in before)) for item, before in reach.items()
            }
        on_cycle = {item for item in needs if item in reach[item]}
        assert stuck == [item for item in needs if item in on_cycle or reach[item] & on_cycle]


def test_needs_outside_the_items_do_not_count() -> None:
    assert stable_order([2, 1], {1: {7}, 2: {1, 9}}.__getitem__) == ([1, 2], [])
    assert can_run([1, 2], {1: {7}, 2: {1}}.__getitem__)


def graph_of(needs: dict[int, set[int]]) -> Graph:
    """A graph of sums with these edges; items that nobody needs are outputs."""
    graph = Graph("g")
    tensors = {item: Tensor(f"t{item}", FLOAT, (2,)) for item in needs}
    start = graph.add_input("x", FLOAT, (2,))
    for item, before in needs.items():
        graph.add_tensor(tensors[item])
        node = graph.add_node("Sum", [start], [tensors[item]], name=f"n{item}")
        for port, other in enumerate(sorted(before), 1):
            node.set_input(port, tensors[other])
    used = set().union(*needs.values())
    graph.outputs.extend(tensors[item] for item in needs if item not in used)
    return graph


def test_sorting_modes_against_their_definitions() -> None:
    for needs in dags(40, 7):
        graph = graph_of(needs)
        try:
            stable = [int(node.name[1:]) for node in graph.topological()]
        except GraphError:
            continue
        orders = {mode: [int(node.name[1:]) for node in sorted_nodes(graph, mode)] for mode in range(4)}
        assert orders[3] == stable
        for order in orders.values():
            assert can_run(order, needs.__getitem__)
            assert sorted(order) == sorted(needs)
        assert orders[0] == breadth_first(needs, stable)
        assert orders[1] == depth_first(needs, stable)
        assert orders[2] == backwards(needs, stable)


def breadth_first(needs: dict[int, set[int]], stable: list[int]) -> list[int]:
    """Items wave by wave in the order in which their last need was met."""
    done: list[int] = []
    queue = [item for item in stable if not needs[item]]
    while queue:
        item = queue.pop(0)
        done.append(item)
        queue += [other for other in stable if item in needs[other] and needs[other] <= set(done)]
    return done


def depth_first(needs: dict[int, set[int]], stable: list[int]) -> list[int]:
    """What an item frees runs right behind it, and what that frees, before anything that waited."""
    done: list[int] = []

    def run(item: int) -> None:
        done.append(item)
        for other in [other for other in stable if item in needs[other] and needs[other] <= set(done)]:
            run(other)

    for item in [item for item in stable if not needs[item]]:
        run(item)
    return done


def backwards(needs: dict[int, set[int]], stable: list[int]) -> list[int]:
    """Each item right after all that it needs, from the outputs."""
    done: list[int] = []

    def run(item: int) -> None:
        if item not in done:
            for other in sorted(needs[item], key=stable.index):
                run(other)
            done.append(item)

    used = set().union(*needs.values())
    for item in [*(item for item in needs if item not in used), *stable]:
        run(item)
    return done


def test_units_run_in_an_order_and_scopes_that_wait_for_each_other_are_refused() -> None:
    for number, needs in enumerate(dags(40, 7)):
        graph, generator = graph_of(needs), random_module.Random(number)
        try:
            graph.topological()
        except GraphError:
            continue
        group = {item: generator.choice([None, 0, 1]) for item in needs}
        for item, scope in group.items():
            if scope is not None:
                graph.node(f"n{item}").origin[SCOPE] = scope
        unit_of = {
            item: f"scope{scope}" if scope is not None else f"n{item}" for item, scope in group.items()
        }
        between = {
            unit: {unit_of[other] for item in needs if unit_of[item] == unit for other in needs[item]}
            - {unit}
            for unit in unit_of.values()
        }
        _, stuck = stable_order(list(between), between.__getitem__)
        if stuck:
            with pytest.raises(GraphError, match="must not wait for each other"):
                units_in_order(graph)
            continue
        units = units_in_order(graph)
        names = [unit_of[int(unit[0].name[1:])] for unit in units]
        assert sorted(names) == sorted(between)
        assert can_run(names, between.__getitem__)
        assert {tuple(unit) for unit in units if len(unit) > 1} <= set(scopes_of(graph).values())
        last = {
            name: max(graph.topological().index(node) for node in unit)
            for name, unit in zip(names, units, strict=True)
        }
        by_last = sorted(between, key=lambda name: last[name])
        assert names == stable_order(by_last, between.__getitem__)[0]
        assert next_scope(graph) == 1 + max(
            (scope for scope in group.values() if scope is not None), default=-1
        )


# ------------------------------------------------------------------------------------------------------- equa


def constant(name: str, array: np.ndarray, **more: object) -> Tensor:
    tensor = Tensor(name, DType.of(array.dtype), array.shape, constant=Constant(array))
    for key, value in more.items():
        setattr(tensor, key, value)
    return tensor


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 31, 32, 33, 40, 64, 65, 100])
def test_one_other_byte_anywhere_makes_two_constants(size: int) -> None:
    """Also where no sample is taken: between the places that are looked at first, at the beginning and at the
    end."""
    base = np.arange(size, dtype=np.int32)
    for place in range(size):
        other = base.copy()
        other[place] ^= 1 << 20
        tensors = [constant("a", base), constant("b", other), constant("c", base.copy())]
        assert [[t.name for t in group] for group in same_values(tensors)] == [["a", "c"]]


def test_groups_and_members_keep_their_order() -> None:
    arrays = [np.array([n % 3], np.float32) for n in (0, 1, 2, 4, 3, 1, 5)]
    tensors = [constant(f"t{number}", array) for number, array in enumerate(arrays)]
    assert [[t.name for t in group] for group in same_values(tensors)] == [
        ["t0", "t4"],
        ["t1", "t3", "t5"],
        ["t2", "t6"],
    ]
    assert same_values([]) == []
    assert same_values(tensors[:1]) == []


@pytest.mark.parametrize(
    "other",
    [
        constant("b", np.zeros((4, 1), np.float32)),
        constant("b", np.zeros(4, np.int32)),
        constant("b", np.zeros(4, np.float32), dtype=DType.FLOAT16),
        constant("b", np.zeros(4, np.float32), origin_dtype=DType.FLOAT16),
        constant("b", np.zeros(4, np.float32), format=Format.FRACTAL_NZ),
        constant("b", -np.zeros(4, np.float32)),
        constant("b", np.zeros(2, np.float64)),
    ],
)
def test_constants_of_another_form_are_not_the_same(other: Tensor) -> None:
    first = constant("a", np.zeros(4, np.float32))
    assert same_values([first, other]) == []
    assert same_values([first, constant("c", np.zeros(4, np.float32))]) != []
    assert same_values([first, other], form=lambda tensor: 0) == (
        [] if np.signbit(other.constant.array()).any() else [[first, other]]
    )  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------------------


def diamond() -> Graph:
    b = new_builder()
    x = b.input("x", (3, 4))
    first = b.op("Mul", x, random(4), name="first")
    left = b.op("Add", first, 2.0, name="left")
    right = b.op("Reshape", b.op("Exp", first, name="exp"), [3, 4], name="right")
    b.output(b.op("Sub", left, right, name="last"), "y")
    b.output(left, "l")
    return b.build()


@pytest.mark.parametrize(
    "names",
    [
        ("first", "left"),
        ("first", "exp", "right"),
        ("first", "left", "exp", "right", "last"),
        ("right", "last"),
    ],
)
def test_an_outlined_part_has_the_values_and_the_border_of_its_nodes(names: tuple[str, ...]) -> None:
    graph, after = diamond(), diamond()
    wanted = [tensor.name for tensor in outside_tensors([graph.node(name) for name in names])]
    composite = outline(after, [after.node(name) for name in names], "kernel")
    verify(after)
    assert is_composite(composite)
    body = body_of(composite)
    assert [tensor.name for tensor in body.outputs] == [tensor.name for tensor in composite.outputs] == wanted
    assert [node.name for node in body.topological()] == list(names)
    assert composite.origin["source_names"] == names
    inside = {tensor.name for tensor in body.constants}
    assert all(body.tensors[name].elements == 1 or body.tensors[name].dtype is DType.INT64 for name in inside)
    assert not inside & {tensor.name for tensor in after.constants}
    inputs = {"x": random(3, 4)}
    for old, new in zip(
        evaluate(graph, default_opset(), inputs), evaluate(after, default_opset(), inputs), strict=True
    ):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("array", "inside"),
    [
        (np.float32(1), True),
        (np.ones(1, np.float32), True),
        (np.ones(2, np.float32), False),
        (np.ones(2, np.int64), True),
        (np.ones(2, np.int32), False),
    ],
)
def test_constants_that_are_part_of_the_instructions_lie_inside(array: np.ndarray, inside: bool) -> None:
    tensor = constant("c", np.asarray(array))
    assert lies_inside(tensor) is inside
    tensor.constant = Constant(absent_because="nobody knows")
    assert not lies_inside(tensor)
    tensor.constant = None
    assert not lies_inside(tensor)


def test_what_is_internal_to_nodes_is_what_nobody_outside_reads() -> None:
    graph = diamond()
    for count in range(1, 6):
        for nodes in itertools.combinations(graph.nodes, count):
            made = [tensor for node in nodes for tensor in node.outputs]
            seen = {
                tensor
                for tensor in made
                if tensor in graph.outputs or any(reader not in nodes for reader in tensor.consumers)
            }
            assert list(internal_tensors(nodes)) == [tensor for tensor in made if tensor not in seen]
            assert list(outside_tensors(nodes)) == [
                tensor for tensor in made if tensor in seen and (tensor.uses or tensor in graph.outputs)
            ]


# ------------------------------------------------------------------------------------------------------------


def uses_agree(graph: Graph) -> None:
    for tensor in graph.tensors.values():
        wanted = {
            (node, port) for node in graph.nodes for port, item in enumerate(node.inputs) if item is tensor
        }
        assert set(tensor.uses) == wanted
        assert set(tensor.consumers) == {node for node, _ in wanted}


def test_use_lists_follow_every_change() -> None:
    graph = diamond()
    uses_agree(graph)
    last, first = graph.node("last"), graph.node("first")
    last.set_input(3, first.output)
    assert last.inputs[2] is None
    uses_agree(graph)
    last.set_input(1, last.input(0))
    uses_agree(graph)
    assert len(graph.node("left").output.consumers) == 1
    assert len(graph.node("left").output.uses) == 2
    graph.replace_uses(graph.node("left").output, first.output, outputs_too=False)
    assert graph.outputs[1] is graph.node("left").output
    uses_agree(graph)
    last.truncate_inputs(1)
    assert last.input_count == 1
    uses_agree(graph)
    graph.replace_uses(graph.node("left").output, first.output)
    assert graph.outputs[1] is first.output
    graph.remove_node(graph.node("left"))
    uses_agree(graph)
    with pytest.raises(GraphError, match="still used"):
        graph.remove_node(first)
    with pytest.raises(GraphError, match="still used"):
        graph.remove_tensor(graph.inputs[0])


def test_nodes_that_were_added_since_then_and_are_there() -> None:
    graph = diamond()
    before = graph.additions
    assert graph.added_since(before) == []
    made = [graph.add_node("Neg", [graph.inputs[0]], 1, name=f"new{number}") for number in range(3)]
    assert graph.added_since(before) == made
    assert graph.added_since(before + 1) == made[1:]
    graph.remove_node(made[1])
    assert graph.added_since(before) == [made[0], made[2]]
    graph.place_before(made[2], graph.node("first"))
    assert [node.name for node in graph.nodes][:2] == ["new2", "first"]
    assert graph.added_since(before) == [made[0], made[2]]


def test_a_node_that_becomes_a_constant_hands_its_control_edges_on() -> None:
    graph = diamond()
    exp, left, first = (graph.node(name) for name in ("exp", "left", "first"))
    exp.add_control(left)
    left.add_control(first)
    graph.make_constant(left, [Constant(np.ones((3, 4), np.float32))])
    assert exp.control == (first,)
    assert graph.tensors["l"].constant is not None
    assert graph.tensors["l"].producer is None


def test_names_are_made_new_where_they_are_taken() -> None:
    graph = diamond()
    assert graph.fresh("new") == "new"
    taken = {*graph.tensors, *(node.name for node in graph.nodes)}
    assert (graph.fresh("first"), graph.fresh("x")) == ("first_1", "x_2")  # numbers go on
    for stem in ("first", "x"):
        assert graph.fresh(stem) not in taken
    with pytest.raises(GraphError, match="must be defined once"):
        graph.add_tensor(Tensor("x"))
    with pytest.raises(GraphError, match="is taken"):
        graph.rename_tensor(graph.tensors["y"], "x")
    graph.rename_tensor(graph.tensors["y"], "y")
    assert graph.add_node("Neg", [graph.inputs[0]], 1, name="first").name != "first"


def test_a_copy_is_the_same_and_has_nothing_in_common() -> None:
    graph = diamond()
    graph.node("right").add_control(graph.node("left"))
    copy = copy_graph(graph)
    assert to_text(copy) == to_text(graph)
    assert not set(copy.nodes) & set(graph.nodes)
    assert not set(copy.tensors.values()) & set(graph.tensors.values())
    assert copy.node("right").control == (copy.node("left"),)
    uses_agree(copy)
    copy.remove_node(copy.add_node("Neg", [copy.inputs[0]], 1))
    copy.node("left").set_input(0, copy.inputs[0])
    assert to_text(copy) != to_text(graph)
    verify(graph)


def branching(condition: np.ndarray | None, impossible: str = "") -> Node:
    graph = Graph("g")
    given = graph.add_input("c", DType.BOOL, ()) if condition is None else graph.add_constant("c", condition)
    branches = {}
    for name in ("then_branch", "else_branch"):
        branches[name] = Graph(name)
        branches[name].outputs.append(branches[name].add_constant(f"{name}_out", np.float32(1)))
        if name == impossible:
            branches[name].metadata[IMPOSSIBLE] = "its shapes do not fit"
    return graph.add_node("If", [given], 1, **branches)


@pytest.mark.parametrize(
    ("condition", "impossible", "wanted"),
    [
        (None, "", ["then_branch", "else_branch"]),
        (np.array(True), "", ["then_branch"]),
        (np.array(False), "", ["else_branch"]),
        (np.array([True]), "", ["then_branch"]),
        (None, "then_branch", ["else_branch"]),
        (np.array(True), "then_branch", []),
    ],
)
def test_branches_that_may_run(condition: np.ndarray | None, impossible: str, wanted: list[str]) -> None:
    node = branching(condition, impossible)
    assert [name for name, _ in possible_subgraphs(node)] == wanted
    node.op_type = "Loop"
    assert len(list(possible_subgraphs(node))) == 2 - bool(impossible)


def test_pictures_have_an_edge_for_each_use_and_control_edge() -> None:
    graph = diamond()
    graph.node("right").add_control(graph.node("left"))
    for constants in (False, True):
        text = to_dot(graph, constants, {"exp": "red"})
        edges = [line for line in text.splitlines() if "->" in line]
        data = [
            tensor
            for node in graph.nodes
            for tensor in node.inputs
            if tensor is not None and (constants or not tensor.is_constant)
        ]
        assert len(edges) == len(data) + 1 + len(graph.outputs)
        assert sum("dashed" in line for line in edges) == 1
        assert text.count("shape=note") == (len(list(graph.constants)) if constants else 0)
        assert text.count('fillcolor="red"') == 1
        assert text.count("shape=box") - 1 == len(graph.nodes)
        assert text.count("shape=ellipse") == len(graph.inputs) + len(graph.outputs)


def test_builders_constants_take_types_by_rule() -> None:
    b = GraphBuilder(dtype=DType.FLOAT16)
    cases = [
        (1.5, DType.FLOAT16),
        (3, DType.INT64),
        (True, DType.BOOL),
        ([1, 2], DType.INT64),
        ([0.5], DType.FLOAT16),
        (np.float32(1), FLOAT),
    ]
    for value, kind in cases:
        assert b.constant(value).dtype is kind
    assert b.constant(3, dtype=DType.INT8).dtype is DType.INT8
    whole, half, wide = b.input("i", (2,), DType.INT32), b.input("h", (2,)), b.input("w", (2,), FLOAT)
    kinds = [
        (b.op("Add", whole, 2), DType.INT32),
        (b.op("Add", whole, 2.0), DType.INT32),
        (b.op("Mul", whole, 0.5), DType.FLOAT16),
        (b.op("QuantizeLinear", whole, 0.5, wide), FLOAT),
        (b.op("Where", b.input("c", (2,), DType.BOOL), 1.0, wide), FLOAT),
        (b.op("Add", half, 2.0), DType.FLOAT16),
        (b.op("Reshape", half, 2), DType.INT64),
        (b.op("Add", 2.0, half), DType.FLOAT16),
    ]
    for made, kind in kinds:
        assert made.producer is not None
        assert (
            next(tensor.dtype for tensor in made.producer.inputs if tensor is not None and tensor.is_constant)
            is kind
        )


@pytest.mark.parametrize(
    ("shapes", "samples"),
    [([(4, 3), (5,)], 4), ([(), (7, 2)], 7), ([None, (6,)], 6), ([("n", 3), (2, 3)], 2), ([()], 1), ([], 1)],
)
def test_samples_are_counted_along_the_first_axis_that_there_is(
    shapes: list[Shape | None], samples: int
) -> None:
    graph = Graph("g")
    for number, shape in enumerate(shapes):
        graph.add_input(f"x{number}", DType.FLOAT32, ()).shape = shape
    assert batch_of(graph) == samples


def test_an_empty_batch_counts_as_one_sample() -> None:
    graph = Graph("g")
    graph.add_input("x", DType.FLOAT32, (0, 3))
    assert batch_of(graph) == 1
