"""ConfusionTransposeD (domain "ascend"): a transpose and a reshape in one transfer.

transpose_first: reshape(transpose(x, perm), shape), else transpose(reshape(x, shape), perm). `shape` is what
the reshape gives.

Works on fractals (FRACTAL_NZ at both ends) where CANN's kernel does: four axes of which the last one stays,
split or joined in pairs, and no padding. Heads of attention then move in whole runs of fractals, and no
TransData is needed on either side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.formats import FRACTAL_ROWS, Format
from ascendsim.graph.ir import Array, Node, Shape
from ascendsim.ops.shared.bursts import static_transpose_work
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import OpPattern, movement
from ascendsim.opset.structure import opaque
from ascendsim.opset.work import LowerContext, NoTask, Ref, Work


def _first(node: Node) -> bool:
    return bool(node.attr("transpose_first", 0))


def _infer(context: InferContext) -> None:
    node, source = context.node, context.shape(0)
    shape: Shape = tuple(node.attr("shape"))
    if source is not None and all(isinstance(dim, int) for dim in source):
        if math.prod(source) != math.prod(shape):  # type: ignore[arg-type]
            raise context.fail("must keep the number of elements", f"{list(source)} -> {list(shape)}")
        turned = len(source) if _first(node) else len(shape)
        if sorted(node.attr("perm")) != list(range(turned)):
            raise context.fail(f"needs perm to be an order of {turned} axes", node.attr("perm"))
    context.set(
        0, context.dtype(0), shape if _first(node) else tuple(shape[axis] for axis in node.attr("perm"))
    )


def _compute(node: Node, inputs: Sequence[Any], _wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    perm, shape = tuple(node.attr("perm")), tuple(node.attr("shape"))
    if _first(node):
        return [inputs[0].transpose(perm).reshape(shape).copy(order="C")]
    return [inputs[0].reshape(shape).transpose(perm).copy(order="C")]


def _lower(node: Node, context: LowerContext) -> Work:
    source = Ref.of(node.required(0))
    if source.bytes == 0:
        return NoTask()
    turned, perm = source.shape if _first(node) else tuple(node.attr("shape")), tuple(node.attr("perm"))
    if source.format is Format.FRACTAL_NZ:
        turned, perm = fractal_permutation(source.shape, node.output.static_shape, turned, perm)
    return static_transpose_work(source, Ref.of(node.output), turned, perm, context)


def _in_blocks(node: Node, format: Format) -> bool:
    """Conditions of CANN's kernel for FRACTAL_NZ: four axes, the last one stays, pairs join or split, ends
    unpadded.
    """
    perm, source, result = tuple(node.attr("perm")), node.required(0).static_shape, node.output.static_shape
    if format is not Format.FRACTAL_NZ or len(perm) != 4 or perm[3] != 3:
        return False
    if any(size % FRACTAL_ROWS for shape in (source, result) for size in shape[-2:]):
        return False
    four = source if _first(node) else tuple(node.attr("shape"))
    split = tuple(four[axis] for axis in perm) if _first(node) else four
    joined = result if _first(node) else source
    return joined in (
        (split[0], split[1] * split[2], split[3]),
        (split[0], split[1], split[2] * split[3]),
        _pairs(split),
    )


def _pairs(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[0] * shape[1], shape[2] * shape[3]


def fractal_permutation(
    source: tuple[int, ...], result: tuple[int, ...], four: tuple[int, ...], perm: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The storage of both ends as one list of axes: their sizes in the order of the source, and the order
    that the result has.

    Args:
        source: Logical shape of the input, in FRACTAL_NZ.
        result: Logical shape of the output, in FRACTAL_NZ.
        four: The four axes before they are turned.
        perm: Their new order.

    >>> fractal_permutation((2, 32, 96), (2, 3, 32, 32), (2, 32, 3, 32), (0, 2, 1, 3))
    ((2, 3, 2, 2, 16, 16), (0, 1, 2, 3, 4, 5))
    """
    pieces = [
        [(axis, 0), (axis, 1)] if size % FRACTAL_ROWS == 0 else [(axis, 0)] for axis, size in enumerate(four)
    ]
    sizes = {
        (axis, 0): size // (FRACTAL_ROWS if len(pieces[axis]) > 1 else 1) for axis, size in enumerate(four)
    }
    sizes |= {(axis, 1): FRACTAL_ROWS for axis in range(4) if len(pieces[axis]) > 1}

    def storage(shape: tuple[int, ...], axes: tuple[int, ...]) -> list[tuple[int, int]]:
        groups: list[list[tuple[int, int]]] = []
        left = iter(axes)
        for size in shape:
            group: list[tuple[int, int]] = []
            while math.prod(sizes[part] for part in group) < size or not group:
                group += pieces[next(left)]
            groups.append(group)
        *outer, rows, columns = groups
        return [*(part for group in outer for part in group), *columns[:-1], *rows, columns[-1]]

    before, after = storage(source, (0, 1, 2, 3)), storage(result, perm)
    return tuple(sizes[part] for part in before), tuple(before.index(part) for part in after)


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "ConfusionTransposeD",
        _infer,
        _compute,
        _lower,
        Layout.FOLLOW,
        domain="ascend",
        in_blocks=_in_blocks,
        facts=movement(opaque(), pattern=OpPattern.CONFUSION_TRANSPOSE),
    ),
)
