"""Values of weights: none, which is enough for timing."""

from __future__ import annotations

from collections.abc import Callable

from ascendsim.graph.ir import Array, Graph

Fill = Callable[[], Array] | None


class Weights:
    """No values."""

    def norm(self, graph: Graph, name: str, shape: tuple[int, ...], unit_offset: bool) -> Fill:
        return None

    def matrix(self, name: str, shape: tuple[int, ...]) -> Fill:
        return None

    def bias(self, name: str, size: int) -> Fill:
        return None

    def table(self, name: str, shape: tuple[int, ...]) -> Fill:
        return None
