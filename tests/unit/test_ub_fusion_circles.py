"""Which nodes may share a task, on random graphs with data and control edges, against a plain model: tasks
that wait for each other in a circle cannot run.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.ordering import stable_order
from ascendsim.passes.ub.legality import ScopeMaker, Scopes


def tangled(generator: random.Random, size: int) -> Graph:
    """Nodes of one or two results that read earlier ones at random, or wait for them; some results are the
    graph's.
    """
    graph = Graph("tangled")
    made = [graph.add_input("x", DType.FLOAT32, (2,))]
    for number in range(size):
        read = generator.sample(made, min(len(made), generator.choice((1, 1, 2))))
        node = graph.add_node("Sum", read, generator.choice((1, 1, 2)), name=f"n{number}")
        for before in graph.nodes[:-1]:
            if generator.random() < 0.12:
                node.add_control(before)
        made += node.outputs
    graph.outputs.extend(tensor for tensor in made[1:] if not tensor.uses or generator.random() < 0.2)
    return graph


def waits_in_a_circle(graph: Graph, units: Sequence[Sequence[Node]]) -> bool:
    """Whether units, and nodes that are in none as units of their own, wait for each other."""
    unit_of = {node: number for number, unit in enumerate(units) for node in unit}
    for node in graph.nodes:
        unit_of.setdefault(node, len(unit_of) + len(units))
    needs: dict[int, set[int]] = {number: set() for number in unit_of.values()}
    for node in graph.nodes:
        needs[unit_of[node]] |= {unit_of[other] for other in graph.predecessors(node)} - {unit_of[node]}
    return bool(stable_order(list(needs), needs.__getitem__)[1])


def test_a_scope_is_refused_if_and_only_if_tasks_would_wait_in_a_circle() -> None:
    """Scope after scope, so that what scopes from before tie together counts too."""
    found = {True: 0, False: 0}
    for seed in range(150):
        generator = random.Random(seed)
        graph = tangled(generator, generator.randint(3, 12))
        scopes = Scopes(graph, cast(ScopeMaker, None))
        free, made = list(graph.nodes), cast(list[Sequence[Node]], [])
        for _ in range(6):
            nodes = scopes.sorted(generator.sample(free, min(len(free), generator.choice((2, 2, 3, 4)))))
            if len(nodes) < 2:
                break
            circle = waits_in_a_circle(graph, [*made, nodes])
            refusal: Any = scopes.circle(nodes)
            assert (refusal is not None) == circle, (seed, nodes)
            found[circle] += 1
            if not circle:
                scopes.join(nodes)
                made.append(nodes)
                free = [node for node in free if node not in nodes]
    assert min(found.values()) > 100
