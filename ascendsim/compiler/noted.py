"""A compiled model's program with notes of what its instructions do (`isa.notes`)."""

from __future__ import annotations

from dataclasses import replace

from ascendsim.compiler.model import CompiledModel
from ascendsim.graph.copying import copy_graph
from ascendsim.isa.program import Program
from ascendsim.lower import KnownUnits, lower_graph
from ascendsim.lower.tiling_search import TILING


def noted_program(model: CompiledModel) -> Program:
    """The program of a model, lowered again with the tilings that it has.

    Raises:
        CompileError: If the graph cannot be lowered.
    """
    graph = copy_graph(model.graph)
    for name, option in model.program.info.tilings.items():
        graph.node(name).origin[TILING] = option
    options = replace(model.lowering, known=KnownUnits(), noted=True)
    return lower_graph(graph, model.soc, model.opset, options=options)
