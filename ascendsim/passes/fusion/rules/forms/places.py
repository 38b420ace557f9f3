"""Operators of integers that come out in the form that their readers or kernels want.

    Cast(NonZero(x), int32)      =>      NonZero(x) in int32                             (NonZeroFusionPass)
    MapIndex(x, table)           =>      MapIndex(x, table column by column)             (MapIndexFusionPass)

Exact as long as places fit into int32, which CANN takes for granted. How many places there are must be
known: a NonZero of data is run to learn that before what follows is compiled, and its Cast with it. The
kernel of MapIndex compares eight rows of its table at a time, so each column lies in one piece and is padded
to whole eights.
"""

from __future__ import annotations

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import align
from ascendsim.graph.ir import Graph
from ascendsim.passes.fusion.checks import known_values, not_static
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.rewriting.outputs import is_output
from ascendsim.passes.rewriting.pattern import Any, Match, Op
from ascendsim.passes.rewriting.replace import replace_root

ROWS_AT_ONCE = 8


class NonZeroFusionPass(FusionRule):
    """Places as int32 without a Cast."""

    name = "NonZeroFusionPass"
    patterns = {"NonZeroFusionPass": Op("Cast", Op("NonZero", Any("x"), name="places"), name="cast")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        if match.root.output.element_type is not DType.INT32:
            return "the cast is not one to int32"
        return None

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        places = match.nodes["places"]
        made = context.add(
            graph,
            "NonZero",
            [match.tensors["x"]],
            name=f"{places.name}_int32",
            like=places,
            dtype=DType.INT32,
        )
        made.output.shape = places.output.shape  # what a run found: values of x tell it, no rule
        replace_root(graph, match.root, made.output)


class MapIndexFusionPass(FusionRule):
    """The table as the kernel reads it."""

    name = "MapIndexFusionPass"
    patterns = {"MapIndexFusionPass": Op("MapIndex", Any("x"), Any("table"), name="index")}

    def check(self, match: Match, context: FusionContext) -> str | None:
        x, table = match.tensors["x"], match.tensors["table"]
        if match.root.attr("rows", 0):
            return "the table lies column by column already"
        reason = not_static([x, table])
        if reason is not None:
            return reason
        if known_values(table) is None or table.element_type is not DType.INT32:
            return "the table is no constant of int32"
        if is_output(match.root.graph, table):
            return "the table is a graph output"
        return None if x.elements and table.elements % x.elements == 0 else "the table has no whole rows"

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        index, x = match.root, match.tensors["x"]
        given = match.tensors["table"]
        rows = np.asarray(known_values(given)).reshape(-1, x.elements)
        columns = np.zeros((x.elements, align(len(rows), ROWS_AT_ONCE)), np.int32)
        columns[:, : len(rows)] = rows.T
        table = graph.add_constant(graph.fresh(f"{index.name}_columns"), columns.ravel())
        index.set_input(1, table)
        index.attributes["rows"] = len(rows)
        if not given.uses:
            graph.remove_tensor(given)


RULES = (NonZeroFusionPass(), MapIndexFusionPass())
