"""Where the boxes of a small graph go: layers from top to bottom, few crossings, straight edges where there
is room.

The method of Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures",
IEEE SMC 11(2), 1981: layers by longest path, order within a layer by the mean position of neighbours, swept
downwards and upwards. Edges over several layers pass through places that are kept free for them. Equal graphs
get equal pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

SWEEPS = 12
GAP = 0.28  # between neighbours of a layer, in the unit of the widths
WAY = 0.06  # width of an edge that passes a layer

Point = tuple[float, int]


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of vertices and ways of edges.

    Attributes:
        places: By vertex: centre from the left, and layer from the top (0).
        routes: By edge: its points from source to target, one a layer.
        width: From the left of the leftmost box to the right of the rightmost one.
        layers: Number of layers.
    """

    places: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    layers: int


def layered(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> Layout:
    """Places the vertices of a graph without cycles.

    Args:
        widths: Width of each vertex, numbered so that sources of edges come before their targets.
        edges: Source and target; several edges may join the same two.
    """
    sizes = list(widths)
    level = _levels(len(sizes), edges)
    chains: list[list[int]] = []
    for source, target in edges:
        passing = range(level[source] + 1, level[target])
        chain = [source, *range(len(sizes), len(sizes) + len(passing)), target]
        sizes.extend(WAY for _ in passing)
        level.extend(passing)
        chains.append(chain)
    above: list[list[int]] = [[] for _ in sizes]
    below: list[list[int]] = [[] for _ in sizes]
    for chain in chains:
        for upper, lower in pairwise(chain):
            above[lower].append(upper)
            below[upper].append(lower)
    rows: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for vertex, row in enumerate(level):
        rows[row].append(vertex)
    _order(rows, above, below)
    centre = _centres(rows, sizes, above, below)
    left = min((centre[v] - sizes[v] / 2 for v in range(len(sizes))), default=0.0)
    right = max((centre[v] + sizes[v] / 2 for v in range(len(sizes))), default=0.0)
    points = [(centre[vertex] - left, level[vertex]) for vertex in range(len(sizes))]
    return Layout(
        tuple(points[: len(widths)]),
        tuple(tuple(points[v] for v in chain) for chain in chains),
        right - left,
        len(rows),
    )


def _levels(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Layer of each vertex: the longest path from a source; sources then move down to just above their first
    reader.
    """
    level = [0] * count
    readers: list[list[int]] = [[] for _ in range(count)]
    fed = [False] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        level[target] = max(level[target], level[source] + 1)
        readers[source].append(target)
        fed[target] = True
    for vertex in range(count):
        if not fed[vertex] and readers[vertex]:
            level[vertex] = min(level[reader] for reader in readers[vertex]) - 1
    return level


def _order(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Sorts each row by the mean position of neighbours in the row before it, downwards and upwards in
    turn.
    """
    position: dict[int, float] = {}
    for row in rows:
        position.update((vertex, place) for place, vertex in enumerate(row))
    still = 0  # sweeps in a row that moved nothing; after one each way none will
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        still += 1
        for row in rows if downwards else reversed(rows):
            if len(row) == 1:
                continue
            neighbours = above if downwards else below
            keys = {v: _mean([position[n] for n in neighbours[v]], position[v]) for v in row}
            ordered = sorted(row, key=keys.__getitem__)
            if ordered != row:
                still, row[:] = 0, ordered
                position.update((vertex, place) for place, vertex in enumerate(row))
        if still == 2:
            break


def _centres(
    rows: list[list[int]], sizes: list[float], above: list[list[int]], below: list[list[int]]
) -> list[float]:
    """Centre of each vertex: as near as possible to the mean of its neighbours without touching the box
    beside it.
    """
    centre = [0.0] * len(sizes)
    for row in rows:
        edge = 0.0
        for vertex in row:
            centre[vertex] = edge + sizes[vertex] / 2
            edge += sizes[vertex] + GAP
        for vertex in row:
            centre[vertex] -= (edge - GAP) / 2
    beside = [(*upper, *lower) for upper, lower in zip(above, below, strict=True)]
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_mean([centre[n] for n in beside[v]], centre[v]) for v in row]
            if len(row) == 1:
                centre[row[0]] = wanted[0]
                continue
            rightwards = _apart(row, sizes, wanted)
            leftwards = [-x for x in reversed(_apart(row[::-1], sizes, [-x for x in reversed(wanted)]))]
            for vertex, low, high in zip(row, leftwards, rightwards, strict=True):
                centre[vertex] = (low + high) / 2
    return centre


def _apart(row: list[int], sizes: list[float], wanted: list[float]) -> list[float]:
    """Places at or right of the wanted ones, in order and a gap apart."""
    result: list[float] = []
    edge = float("-inf")
    for vertex, place in zip(row, wanted, strict=True):
        result.append(max(place, edge + sizes[vertex] / 2))
        edge = result[-1] + sizes[vertex] / 2 + GAP
    return result


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
