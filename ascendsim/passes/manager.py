"""Runs passes one after the other and verifies the graph, after each of them or behind them all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from ascendsim.core.errors import AscendSimError, PassError
from ascendsim.graph.ir import Graph
from ascendsim.graph.verify import KnownOperators, verify
from ascendsim.passes.base import Pass, PassResult


class PassManager:
    """An ordered list of passes.

    Args:
        passes: In the order in which they run.
        known_ops: If given, a pass that leaves behind an operator that this set lacks is an error.
        after: Called with (pass, result, graph) after each pass: dumps, timing.
        check: When to verify the graph: after "each" pass, or behind the "last", for passes that are tested
            by themselves.
    """

    def __init__(
        self,
        passes: Iterable[Pass],
        known_ops: KnownOperators | None = None,
        after: Callable[[Pass, PassResult, Graph], None] | None = None,
        check: Literal["each", "last"] = "each",
    ) -> None:
        self.passes = tuple(passes)
        self._known_ops, self._after, self._check = known_ops, after, check

    def run(self, graph: Graph) -> tuple[tuple[str, PassResult], ...]:
        """Runs all passes on the graph, in place.

        Returns:
            (name, result) of each pass, in order.

        Raises:
            PassError: If a pass failed or broke the graph; names the pass and those that ran before it.
        """
        results: list[tuple[str, PassResult]] = []
        for item in self.passes:
            before = ", ".join(name for name, _ in results) or "none"
            try:
                result = item.run(graph)
            except PassError:
                raise
            except AscendSimError as error:
                raise PassError(
                    f"pass {item.name!r}", f"failed: {error}", remedy=f"passes before it: {before}"
                ) from error
            if self._check == "each" or item is self.passes[-1]:
                try:
                    verify(graph, self._known_ops)
                except AscendSimError as error:
                    culprit = "the pass" if self._check == "each" else "this pass or one before it"
                    remedy = f"this is a defect of {culprit}; passes before it: {before}"
                    raise PassError(
                        f"pass {item.name!r}", f"left a broken graph: {error}", remedy=remedy
                    ) from error
            results.append((item.name, result))
            if self._after is not None:
                self._after(item, result, graph)
        return tuple(results)
