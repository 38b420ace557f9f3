"""Einsum: any equation; two operands that contract run on the Cube as a batched product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ascendsim.core.errors import GraphError
from ascendsim.graph.ir import Dim, Node, Shape
from ascendsim.ops.linear.matmul import cube_runs
from ascendsim.ops.shared.common import (
    as_float32,
    broadcast_dims,
    computing_type,
    finish,
    on_ai_cpu,
    runs_on_ai_core,
)
from ascendsim.ops.shared.cube import cube_type
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import NOTHING_SAID, AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import CubeWork, LowerContext, NoTask, Ref, Step, Stream, VectorWork, Work


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation with its ellipses spelled out: axis labels of each operand and of the output ("0", "1" ...
    for ellipsis axes).
    """

    operands: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]


def parse(node: Node, ranks: Sequence[int]) -> Equation:
    """Reads the equation of a node for operands of these ranks.

    Raises:
        GraphError: If it does not fit the operands.
    """
    context = InferContext(node)
    text = str(node.attr("equation", "")).replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise context.fail(
            f"needs as many terms in {text!r} as inputs", f"{len(terms)} terms, {len(ranks)} inputs"
        )
    widest = 0
    for term, rank in zip(terms, ranks, strict=True):
        if "..." in term:
            widest = max(widest, rank - len(term.replace("...", "")))

    def labels(term: str, dots: int) -> tuple[str, ...]:
        before, ellipsis, after = term.partition("...")
        if not all(letter.isalpha() and letter.isascii() for letter in before + after):
            raise context.fail("needs an equation of letters, commas, '...' and '->'", repr(text))
        middle = tuple(str(axis) for axis in range(widest - dots, widest)) if ellipsis else ()
        return (*before, *middle, *after)

    operands = []
    for term, rank in zip(terms, ranks, strict=True):
        dots = rank - len(term.replace("...", ""))
        if dots < 0 or (dots > 0 and "..." not in term):
            raise context.fail(f"needs {len(term.replace('...', ''))} axes for term {term!r}", rank)
        operands.append(labels(term, dots))
    if arrow:
        output = labels(right, widest)
    else:
        count = {
            label: sum(operand.count(label) for operand in operands)
            for operand in operands
            for label in operand
        }
        output = (
            *(str(axis) for axis in range(widest)),
            *sorted(label for label, times in count.items() if times == 1 and label.isalpha()),
        )
    known = {label for operand in operands for label in operand}
    if any(label not in known for label in output) or len(set(output)) != len(output):
        raise context.fail("needs output letters that occur once each and in an input", repr(text))
    return Equation(tuple(operands), output)


def _sizes(node: Node, equation: Equation, shapes: Sequence[Shape]) -> dict[str, Dim]:
    gathered: dict[str, list[Dim]] = {}
    for labels, shape in zip(equation.operands, shapes, strict=True):
        for label, dim in zip(labels, shape, strict=True):
            gathered.setdefault(label, []).append(dim)
    try:
        return {label: broadcast_dims(dims) for label, dims in gathered.items()}
    except GraphError as error:
        raise InferContext(node).fail("needs equal sizes wherever a letter occurs", str(gathered)) from error


def _infer(context: InferContext) -> None:
    shapes = [context.shape(index) for index in range(context.node.input_count)]
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        context.set(0, context.dtype(0), None)
        return
    equation = parse(context.node, [len(shape) for shape in known])
    sizes = _sizes(context.node, equation, known)
    context.set(0, context.dtype(0), tuple(sizes[label] for label in equation.output))


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Device rule: products and sums in float32, one rounding."""
    arrays = [as_float32(array) for array in inputs]
    equation = parse(node, [array.ndim for array in arrays])
    numbers: dict[str, int] = {}
    for operand in equation.operands:
        for label in operand:
            numbers.setdefault(label, len(numbers))
    terms: list[Any] = []
    for array, operand in zip(arrays, equation.operands, strict=True):
        terms += [array, [numbers[label] for label in operand]]
    result = np.einsum(*terms, [numbers[label] for label in equation.output], optimize=True)
    return [finish(np.ascontiguousarray(result).reshape(np.shape(result)), wanted[0])]


def _lower(node: Node, context: LowerContext) -> Work:
    """Two operands with common summed letters: a product with m, k, n, batch by where each letter occurs;
    else vector work.

    Bringing operands into (batch, m, k) order is left to the MTE's strides and is not charged.
    """
    tensors = [tensor for tensor in node.inputs if tensor is not None]
    output = node.output
    if output.elements == 0:
        return NoTask()
    shapes = [tensor.static_shape for tensor in tensors]
    equation = parse(node, [len(shape) for shape in shapes])
    sizes = {
        label: int(size or 0)
        for label, size in _sizes(node, equation, shapes).items()
        if isinstance(size, int)
    }
    total = math.prod(sizes.values())
    if not runs_on_ai_core(node):
        return on_ai_cpu(node, max(1.0, total / output.elements))
    if len(tensors) == 2 and cube_runs(node):
        a, b = (set(operand) for operand in equation.operands)
        out = set(equation.output)

        def size(labels: set[str]) -> int:
            return math.prod(sizes[label] for label in sorted(labels))

        if (a & b) - out:
            batch = size(a & b & out)
            return CubeWork(
                m=size((a - b) & out),
                k=size((a & b) - out) * size((a - b) - out) * size((b - a) - out),
                n=size((b - a) & out),
                a=Ref.of(tensors[0]),
                b=Ref.of(tensors[1]),
                out=Ref.of(output),
                batch=batch,
                dtype=cube_type(tensors[0].element_type),
            )
    inside = computing_type(tensors[0].element_type, context)
    products = (
        (Step("vmul", inside, count=len(tensors) - 1),) if len(tensors) > 1 else (Step("vadds", inside),)
    )
    summed = total // output.elements
    sums = (Step("vcadd", inside),) if summed > 1 else ()
    streams = tuple(
        Stream(Ref.of(tensor), "all" if tensor.elements == total else "row") for tensor in tensors
    )
    return VectorWork(
        output.elements if summed > 1 else 1,
        summed if summed > 1 else total,
        products + sums,
        streams,
        (Stream(Ref.of(output), "row" if summed > 1 else "all"),),
        reduces="cols" if summed > 1 else "none",
    )


def _links(node: Node) -> AxisMap:
    ranks = [rank_of(node, port) for port in range(node.input_count)]
    if any(rank is None for rank in ranks):
        return NOTHING_SAID
    equation = parse(node, [rank for rank in ranks if rank is not None])
    return by_labels(node, dict(enumerate(equation.operands)), {0: equation.output})


OPERATORS = (
    OpDef(
        "Einsum",
        _infer,
        _compute,
        _lower,
        Layout.ND,
        most_inputs=None,
        facts=Facts(_links, Kind.MATMUL, Precision.WHITE),
    ),
)
