"""Graphs that are exactly what an edge pattern asks for, in ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.passes.fusion.rules.edges import EdgePattern

ONNX = {"RealDiv": "Div", "Select": "Where", "Minimum": "Min", "Maximum": "Max", "AddN": "Sum"}


def write_edges(b: GraphBuilder, pattern: EdgePattern, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Adds the operators of a pattern; returns their results by id.

    Args:
        b: Receives them.
        pattern: Of elementwise operators.
        inputs: Tensors by the pattern's names.
    """
    made: dict[str, Tensor] = dict(inputs)
    todo = list(pattern.types)
    while todo:
        ready = [
            name
            for name in todo
            if all(source in made for (target, _), source in pattern.operands.items() if target == name)
        ]
        assert ready, f"{todo} wait for each other"
        for name in ready:
            operands = [
                made[source] for (target, _), source in sorted(pattern.operands.items()) if target == name
            ]
            made[name] = _operator(b, pattern.types[name], operands, name)
            todo.remove(name)
    return {name: made[name] for name in pattern.types}


def _operator(b: GraphBuilder, kind: str, operands: list[Tensor], name: str) -> Tensor:
    if kind == "Square":
        return b.op("Mul", operands[0], operands[0], name=name)
    if kind == "Rsqrt":
        return b.op("Reciprocal", b.op("Sqrt", operands[0], name=f"{name}_root"), name=name)
    return b.op(ONNX.get(kind, kind), *operands, name=name)


def step_inputs(
    b: GraphBuilder, pattern: EdgePattern, shape: tuple[int, ...], seed: int = 0
) -> dict[str, Tensor]:
    """Inputs of an optimizer step: positive data for names that begin with Input, one constant number for all
    others.

    Names that differ in a suffix _sw0, _sw1 are separate constants of one value.
    """
    generator, values = np.random.default_rng(seed), {}
    made: dict[str, Tensor] = {}
    for name in pattern.inputs:
        if name.startswith("Input"):
            made[name] = b.op("Abs", b.input(name, shape), name=f"{name}_abs")
        else:
            value = values.setdefault(name.split("_sw")[0], np.float32(generator.random() + 0.1))
            made[name] = b.constant(value, name)
    return made
