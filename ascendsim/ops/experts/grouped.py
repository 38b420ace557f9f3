"""GroupedMatmul: groups of rows times a matrix each, as experts have them (domain "ascend").

    GroupedMatmul(x, weight, bias, scale, offset, antiquant_scale, antiquant_offset, group_list,
                  per_token_scale) -> y
        rows of x [tokens, k] that belong to a group, one group behind the other, times its matrix of weight
        [groups, k, n] (transpose_weight: [groups, n, k]), plus its row of bias [groups, n]; rows behind the
        last group give zeros. group_list says where each group ends (group_list_type 0) or how many rows it
        has (1). int8 operands: (sums [+ bias of int32]) * scale [groups, n or 1] * per_token_scale, a bias of
        floats added last, in the type that `dtype` names

CANN (aclnnGroupedMatmul) takes lists of tensors too (split_item) and groups along k (group_type 2); here are
the forms of experts. How many rows each group has decides the time: it is known where group_list is a
constant; else `known_rows` says how many to expect, and without it groups count as equally large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.core.formats import ceil_div, storage_bytes
from ascendsim.graph.ir import Array, Dim, Node, Tensor
from ascendsim.ops.quant.ascend import scale_values
from ascendsim.ops.quant.checks import check_step
from ascendsim.ops.quant.matmul_scales import finished, result_type
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import as_float32, finish, on_ai_cpu
from ascendsim.ops.shared.cube import cube_type
from ascendsim.ops.shared.dims import may_equal, need_shape
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import constant_ints, opaque
from ascendsim.opset.work import (
    SCALED,
    CubeWork,
    LowerContext,
    NoTask,
    Part,
    Ref,
    SequenceWork,
    Step,
    Stream,
    Work,
)

BIAS, SCALE, OFFSET, ANTIQUANT, GROUPS, TOKENS = 2, 3, 4, 5, 7, 8  # ports
_ENDS, _COUNTS = 0, 1  # what group_list holds
ON_CUBE = (DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32, DType.INT8)
TILE_ROWS = 128  # of a tile of CANN's kernel, whose tiles of all groups are dealt out to the cores in turn
MOST_CLASSES = 8  # numbers of tiles of a group that are told apart


def _flipped(node: Node) -> bool:
    return bool(node.attr("transpose_weight", 0))


def _infer(context: InferContext) -> None:
    data, weight = context.shape(0), context.shape(1)
    for shape, rank, what in ((data, 2, "x [tokens, k]"), (weight, 3, "weight [groups, k, n]")):
        if shape is not None and len(shape) != rank:
            raise context.fail(f"needs {what}", list(shape))
    if context.node.attr("group_type", 0) != 0:
        raise context.fail("knows groups of rows, group_type 0", context.node.attr("group_type"))
    if context.node.attr("group_list_type", _ENDS) not in (_ENDS, _COUNTS):
        raise context.fail("needs group_list_type 0 or 1", context.node.attr("group_list_type"))
    if not context.has(GROUPS):
        raise context.fail(f"needs group_list as input {GROUPS}")
    if context.has(ANTIQUANT) or context.has(ANTIQUANT + 1) or context.has(OFFSET):
        remedy = "give floats or int8 as both operands"
        raise context.fail("knows no weights of fewer bits than x, and no offset", remedy=remedy)
    if context.dtype(0) is not context.dtype(1):
        given = f"{context.dtype(0).value} and {context.dtype(1).value}"
        raise context.fail("needs operands of one type", given)
    if not context.dtype(GROUPS).is_integer:
        raise context.fail(f"needs integers as input {GROUPS}", context.dtype(GROUPS).value)
    groups: Dim = None if weight is None else weight[0]
    k, n = (None, None) if weight is None else weight[2:0:-1] if _flipped(context.node) else weight[1:]
    if data is not None and not may_equal((data[1],), (k,)):
        raise context.fail("needs equal inner dimensions", f"{data[1]} and {k}")
    need_shape(context, GROUPS, (groups,))
    expected = context.node.attr("known_rows", ())
    if expected and not may_equal((len(expected),), (groups,)):
        raise context.fail(f"needs known_rows of {groups} groups", len(expected))
    if context.has(BIAS):
        need_shape(context, BIAS, (groups, n))
    rows: Dim = None if data is None else data[0]
    if context.dtype(0) is DType.INT8:
        check_step(context, SCALE)
        _check_scales(context, groups, n, rows)
        kind = result_type(context, DType.FLOAT16, (DType.FLOAT16, DType.BFLOAT16))
    elif context.dtype(0).is_float:
        kind = context.dtype(0)
    else:
        raise context.fail("needs floats or int8 as input 0", context.dtype(0).value)
    context.set(0, kind, None if rows is None and n is None else (rows, n))


def _check_scales(context: InferContext, groups: Dim, n: Dim, rows: Dim) -> None:
    if not context.has(SCALE):
        raise context.fail(f"needs the weights' scales as input {SCALE}")
    shape = context.shape(SCALE)
    if not (may_equal(shape, (groups, n)) or may_equal(shape, (groups, 1))):
        raise context.fail(f"needs scales [{groups}, {n} or 1] as input {SCALE}", shape)
    if context.has(TOKENS):
        need_shape(context, TOKENS, (rows,))


def _rows_of(node: Node, listed: Sequence[int], tokens: int) -> list[int]:
    """How many rows each group has.

    Raises:
        GraphError: If ends fall, numbers are negative, or there are more than the rows of x.
    """
    counts = list(listed)
    if node.attr("group_list_type", _ENDS) == _ENDS:
        counts = [end - start for start, end in zip([0, *counts[:-1]], counts, strict=True)]
    if any(count < 0 for count in counts) or sum(counts) > tokens:
        subject = f"node {node.name!r} (GroupedMatmul)"
        shown = ", ".join(map(str, list(listed)[:8])) + (", ..." if len(listed) > 8 else "")
        raise GraphError(subject, f"needs a group_list within the {tokens} rows of x", shown)
    return counts


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Array]:
    """Exact products, float32 or int32 sums, one rounding."""
    from ascendsim_kernels.gemm import integer_matmul

    given = [*inputs, *[None] * (TOKENS + 1 - len(inputs))]
    x, weight, bias, scale, token = given[0], given[1], given[BIAS], given[SCALE], given[TOKENS]
    weight = weight.swapaxes(-1, -2) if _flipped(node) else weight
    result = np.zeros((x.shape[0], weight.shape[-1]), wanted[0])
    start = 0
    for group, count in enumerate(_rows_of(node, [int(i) for i in given[GROUPS]], x.shape[0])):
        rows = slice(start, start + count)
        start += count
        own: Any = None if bias is None else bias[group]
        if x.dtype == np.int8:
            sums = integer_matmul(np.ascontiguousarray(x[rows]), np.ascontiguousarray(weight[group]))
            whole = own is not None and own.dtype.kind == "i"
            if whole:
                sums, own = sums + own, None
            made = sums.astype(np.float32) * scale_values(scale[group])
            if token is not None:
                made = made * as_float32(token[rows])[:, None]
        else:
            made = np.matmul(as_float32(x[rows]), as_float32(weight[group]))
        result[rows] = finish(made if own is None else made + as_float32(own), wanted[0])
    return [result]


def _lower(node: Node, context: LowerContext) -> Work:
    """One kernel; all cores go through the groups together, those with equally many tiles of rows as a batch
    of their mean size.
    """
    x, weight, output = node.required(0), node.required(1), node.output
    if output.elements == 0:
        return NoTask()
    listed = constant_ints(node.input(GROUPS))
    groups, tokens = weight.static_shape[0], x.static_shape[0]
    expected = node.attr("known_rows", ())
    if listed is None and expected:
        counts = [int(rows) for rows in expected]
    elif listed is None:
        counts = [tokens * (group + 1) // groups - tokens * group // groups for group in range(groups)]
    else:
        counts = _rows_of(node, listed, tokens)
    classes = _classes(counts)
    if not classes or x.elements == 0:
        return fill_work(Ref.of(output))
    if x.element_type not in ON_CUBE:
        return on_ai_cpu(node, float(x.static_shape[1]))
    parts = tuple([_part(node, sum(own) // len(own), len(own), context) for own in classes])
    return parts[0] if len(parts) == 1 else SequenceWork(parts, apart=True)


def _classes(counts: Sequence[int]) -> list[list[int]]:
    """Groups that have rows, those with equally many tiles of rows together; of more such numbers than are
    told apart, tiles count as larger.
    """
    grain = TILE_ROWS
    while True:
        found = sorted({ceil_div(count, grain) for count in counts if count})
        if len(found) <= MOST_CLASSES:
            return [[count for count in counts if ceil_div(count, grain) == tiles] for tiles in found]
        grain *= 2


def _part(node: Node, rows: int, groups: int, context: LowerContext) -> Part:
    """The product of so many groups with equally many rows."""
    x, weight, output = node.required(0), node.required(1), node.output
    bias = node.input(BIAS)
    k, n = x.static_shape[1], output.static_shape[1]
    whole = bias is not None and bias.element_type is DType.INT32
    steps, streams = _steps(node, whole)
    work = CubeWork(
        m=rows,
        k=k,
        n=n,
        a=_piece(x, (groups, rows, k)),
        b=_piece(weight, (groups, *weight.static_shape[1:])),
        out=_piece(output, (groups, rows, n)),
        batch=groups,
        bias=_piece(bias, (groups, n)) if bias is not None and (whole or x.element_type.is_float) else None,
        transpose_b=_flipped(node),
        dtype=cube_type(x.element_type),
        epilogue=steps,
        epilogue_inputs=streams,
    )
    by_fixpipe = not steps or steps[0].op == SCALED
    return work if by_fixpipe or not context.split_cores else finished(work, output, context)


def _piece(tensor: Tensor, shape: tuple[int, ...]) -> Ref:
    """The part of a tensor that some groups have."""
    size = storage_bytes(shape, tensor.format, tensor.element_type)
    return replace(Ref.of(tensor), shape=shape, bytes=min(size, tensor.storage_bytes))


def _steps(node: Node, whole: bool) -> tuple[tuple[Step, ...], tuple[Stream, ...]]:
    """What becomes of sums of int8: FIXPIPE scales them to float16 if nothing else is to be done."""
    scale, token, bias = node.input(SCALE), node.input(TOKENS), node.input(BIAS)
    if scale is None or node.required(0).element_type is not DType.INT8:
        return (), ()
    columns: tuple[Stream, ...] = (Stream(Ref.of(scale), "col" if scale.static_shape[1] > 1 else "one"),)
    if token is None and node.output.element_type is DType.FLOAT16 and (bias is None or whole):
        return (Step(SCALED, DType.FLOAT16),), columns
    single = columns[0].over == "one"
    steps = [Step("vconv", DType.FLOAT32), Step("vmuls" if single else "vmul", DType.FLOAT32)]
    if token is not None:
        steps.append(Step("vmul", DType.FLOAT32))
        columns += (Stream(Ref.of(token), "row"),)
    if bias is not None and not whole:
        steps.append(Step("vadd", DType.FLOAT32))
        columns += (Stream(Ref.of(bias), "col"),)
    return (*steps, Step("vconv", DType.FLOAT32)), columns


OPERATORS = (
    OpDef(
        "GroupedMatmul",
        _infer,
        _compute,
        _lower,
        Layout.ND,
        domain="ascend",
        most_inputs=9,
        facts=Facts(
            opaque(),
            Kind.MATMUL,
            Precision.WHITE,
            operands=(1,),
            parameters=(BIAS, SCALE, GROUPS, TOKENS),
        ),
    ),
)
