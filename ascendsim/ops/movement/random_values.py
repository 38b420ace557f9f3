"""Random generators: seeded by the node's `seed`, else by its name, so that two runs give the same bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Array, Node, Shape
from ascendsim.ops.shared.common import as_float32, on_ai_cpu
from ascendsim.opset import InferContext, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import opaque, unread
from ascendsim.opset.work import LowerContext, NoTask, Work

Draw = Callable[[Node, np.random.Generator, tuple[int, ...]], Array]
_OPERATIONS = 10.0  # a counter-based generator: some multiplications and shifts a number (assumed)


def generator(node: Node) -> np.random.Generator:
    """The node's generator: the bits of its `seed` (a float), else a checksum of its name."""
    seed = node.attr("seed")
    number = zlib.crc32(node.name.encode()) if seed is None else int(np.float32(seed).view(np.uint32))
    return np.random.default_rng(number)


def _uniform(node: Node, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return source.uniform(float(node.attr("low", 0.0)), float(node.attr("high", 1.0)), shape)


def _normal(node: Node, source: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return source.normal(float(node.attr("mean", 0.0)), float(node.attr("scale", 1.0)), shape)


def _infer_shape(context: InferContext) -> None:
    """Shape from the attribute."""
    shape: Shape | None = context.node.attr("shape")
    if shape is None or any(not isinstance(dim, int) or dim < 0 for dim in shape):
        raise context.fail("needs a shape of numbers that are not negative", shape)
    context.set(0, context.node.attr("dtype", DType.FLOAT32), tuple(shape))


def _infer_like(context: InferContext) -> None:
    """Shape, and type unless given, from the input."""
    context.set(0, context.node.attr("dtype") or context.dtype(0), context.shape(0))


def _filled(draw: Draw) -> Callable[[Node, Sequence[Any], Sequence[np.dtype[Any]]], Sequence[Any]]:
    def compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
        shape = inputs[0].shape if inputs else tuple(node.attr("shape"))
        return [draw(node, generator(node), shape).astype(wanted[0])]

    return compute


def _bernoulli(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """1 with the probability that the element gives."""
    chances = as_float32(inputs[0])
    return [(generator(node).random(chances.shape) < chances).astype(wanted[0])]


def _multinomial_infer(context: InferContext) -> None:
    shape = context.shape(0)
    if shape is not None and len(shape) != 2:
        raise context.fail("needs a matrix of logarithms", list(shape))
    rows = None if shape is None else shape[0]
    context.set(0, context.node.attr("dtype", DType.INT32), (rows, int(context.node.attr("sample_size", 1))))


def _multinomial(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Classes drawn with probabilities e^x / sum, by the largest of x + Gumbel noise."""
    scores, count = as_float32(inputs[0]), int(node.attr("sample_size", 1))
    noise = generator(node).gumbel(size=(scores.shape[0], count, scores.shape[1]))
    return [np.argmax(scores[:, None, :] + noise, axis=-1).astype(wanted[0])]


def _lower(node: Node, _context: LowerContext) -> Work:
    """CANN's generators are AI CPU operators."""
    return on_ai_cpu(node, _OPERATIONS) if node.output.elements else NoTask()


_DRAWN = Facts(unread(), Kind.OTHER, Precision.GRAY)
_DRAWN_BY_VALUE = Facts(opaque(), Kind.OTHER, Precision.GRAY)

OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "RandomUniform", _infer_shape, _filled(_uniform), _lower, foldable=False, most_inputs=0, facts=_DRAWN
    ),
    OpDef(
        "RandomNormal",
        _infer_shape,
        _filled(_normal),
        _lower,
        cann="RandomStandardNormal",
        foldable=False,
        most_inputs=0,
        facts=_DRAWN,
    ),
    OpDef(
        "RandomUniformLike",
        _infer_like,
        _filled(_uniform),
        _lower,
        cann="RandomUniform",
        foldable=False,
        facts=_DRAWN,
    ),
    OpDef(
        "RandomNormalLike",
        _infer_like,
        _filled(_normal),
        _lower,
        cann="RandomStandardNormal",
        foldable=False,
        facts=_DRAWN,
    ),
    OpDef(
        "Bernoulli",
        _infer_like,
        _bernoulli,
        _lower,
        cann="StatelessBernoulli",
        foldable=False,
        facts=_DRAWN_BY_VALUE,
    ),
    OpDef("Multinomial", _multinomial_infer, _multinomial, _lower, foldable=False, facts=_DRAWN_BY_VALUE),
)
