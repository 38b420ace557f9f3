"""Graphs for the page: boxes placed here, drawn and searched there."""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.graph.ir import Graph, Node
from ascendsim.plot.graph_layout import layered
from ascendsim.report.subject import Columns, Subject, sources_of

MOST_NODES = 4000  # boxes of a graph that is placed: about a second
SAME, NEW, GONE = 0, 1, 2


def graph_columns(subjects: Sequence[Subject]) -> list[Columns]:
    """The model as it came, once, and the device graph of every run."""
    places = [_places(subject) for subject in subjects]
    found = []
    seen: set[int] = set()
    several = len(subjects) > 1
    models = len({id(subject.source) for subject in subjects})
    for number, (subject, place) in enumerate(zip(subjects, places, strict=True)):
        device = {node.name for node in subject.profile.graph.nodes}
        model = {node.name for node in subject.source.nodes}
        if id(subject.source) not in seen:
            seen.add(id(subject.source))
            name = "model" if models == 1 else f"model of {subject.name}"
            found.append(_columns(name, number, subject.source, device, GONE, place))
        name = "device graph" if not several else f"device graph of {subject.name}"
        found.append(_columns(name, number, subject.profile.graph, model, NEW, place))
    return found


def _places(subject: Subject) -> dict[str, int]:
    """By name of an operator of the model or of the device graph: the first task that runs it."""
    place: dict[str, int] = {}
    for index, view in enumerate(subject.profile.tasks):
        for name in (*(node.name for node in view.nodes), *sources_of(view.nodes)):
            place.setdefault(name, index)
    return place


def _columns(
    name: str, run: int, graph: Graph, others: set[str], alone: int, place: dict[str, int]
) -> Columns:
    """Nodes as columns, and the ways of the edges.

    `others` are the names in the other graph; a node that is not among them has the state `alone`.
    """
    nodes = graph.topological()
    head = {"name": name, "run": run, "count": len(nodes), "device": alone == NEW}
    if len(nodes) > MOST_NODES:
        return {**head, "refused": f"the graph has {len(nodes):,} nodes, more than {MOST_NODES:,}"}
    index: dict[Node | None, int] = {node: number for number, node in enumerate(nodes)}
    edges = sorted(
        {
            (index[tensor.producer], number)
            for number, node in enumerate(nodes)
            for tensor in node.inputs
            if tensor is not None and tensor.producer in index
        }
    )
    layout = layered([1.0] * len(nodes), edges)
    return {
        **head,
        "width": round(layout.width, 2),
        "layers": layout.layers,
        "names": [node.name for node in nodes],
        "types": [node.op_type for node in nodes],
        "x": [round(x, 2) for x, _ in layout.places],
        "y": [layer for _, layer in layout.places],
        "state": [SAME if node.name in others else alone for node in nodes],
        "op": [place.get(node.name, -1) for node in nodes],
        # a way is its first layer and the places on the layers from there
        "edges": [[route[0][1], *(round(x, 2) for x, _ in route)] for route in layout.routes],
    }
