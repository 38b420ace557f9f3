"""MatMulNBits of onnxruntime (domain "com.microsoft"): A by weights of 4 or 8 bits in blocks of a column.

    MatMulNBits(A, B, scales, zero_points, g_idx, bias)        A ((B - zero_points) * scales) + bias

B is [N, blocks, bytes of a block], the first weight in the lowest bits; there is a scale for every block.

CANN does it by WeightQuantBatchMatmulV2 with transposed weights and groups, so its work is that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Array, Node
from ascendsim.ops.quant.checks import check_step
from ascendsim.ops.quant.staged_weights import product_of_staged
from ascendsim.ops.shared.bursts import fill_work
from ascendsim.ops.shared.common import as_float32, finish, on_ai_cpu, own_type, rounded_within
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.axes import AxisMap, by_labels, rank_of
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.work import (
    CubeWork,
    LowerContext,
    Ref,
    Step,
    Stream,
    VectorWork,
    Work,
    workspace_of,
)

_HALF = DType.FLOAT16


def _sizes(node: Node) -> tuple[int, int, int, int]:
    """K, N, bits and block size."""
    return (
        int(node.attr("K", 0)),
        int(node.attr("N", 0)),
        int(node.attr("bits", 4)),
        int(node.attr("block_size", 32)),
    )


def _infer(context: InferContext) -> None:
    k, n, bits, block = _sizes(context.node)
    if bits not in (4, 8):
        raise context.fail("needs weights of 4 or 8 bits", bits, "quantise the model again")
    if context.has(4):
        raise context.fail(
            "cannot take g_idx, which changes the order of weights", remedy="export without it"
        )
    if min(k, n) < 1 or block < 16 or block & (block - 1):
        raise context.fail("needs K and N above 0, and a block_size that is a power of 2 from 16 on", block)
    blocks = -(-k // block)
    for port, wanted in ((1, n * blocks * block * bits // 8), (2, n * blocks)):
        tensor = context.tensor(port)
        if tensor.is_static and tensor.elements != wanted:
            raise context.fail(
                f"needs {wanted} elements as input {port} for its K, N and block_size", tensor.elements
            )
    check_step(context, 2)
    shape = context.shape(0)
    if shape is not None and shape and isinstance(shape[-1], int) and shape[-1] != k:
        raise context.fail(f"needs {k} columns in input 0, its K", shape[-1])
    context.set(0, context.dtype(0), None if shape is None else (*shape[:-1], n))


def _weights(array: Array, bits: int) -> Array:
    """Whole numbers of bytes, the lowest bits first, along the last axis."""
    if bits == 8:
        return array
    return np.stack([array & 15, array >> 4], axis=-1).reshape(*array.shape[:-1], -1)


def _compute(node: Node, inputs: Sequence[Any], wanted: Sequence[np.dtype[Any]]) -> Sequence[Any]:
    """Weights are rounded to the type of the data; sums stay in float32."""
    k, n, bits, block = _sizes(node)
    a, b, scales, zeros, _, bias = (*inputs, None, None, None)[:6]
    blocks = -(-k // block)
    whole = _weights(b.reshape(n, -1), bits).reshape(n, blocks, block).astype(np.float32)
    if zeros is None:
        middle: Any = np.float32(1 << (bits - 1))
    elif zeros.dtype.kind == "f":
        middle = as_float32(zeros).reshape(n, blocks, 1)
    else:
        middle = _weights(zeros.reshape(n, -1), bits)[:, :blocks, None].astype(np.float32)
    real = (whole - middle) * as_float32(scales).reshape(n, blocks, 1)
    halves = as_float32(rounded_within(real.reshape(n, -1)[:, :k], own_type(a, wanted)))
    result = np.matmul(as_float32(a), halves.T)
    if bias is not None:
        result = result + as_float32(bias).reshape(-1)
    return [finish(result, wanted[0])]


def _lower(node: Node, context: LowerContext) -> Work:
    """The vector unit makes halves of the weights, then the Cube multiplies them; see `matmul_scales`."""
    k, n, bits, _ = _sizes(node)
    left, weight, output, bias = node.required(0), node.required(1), node.output, node.input(5)
    if output.elements == 0:
        return fill_work(Ref.of(output))
    kind = left.element_type
    if kind not in (DType.FLOAT16, DType.BFLOAT16):
        return on_ai_cpu(node, float(k))
    count = weight.elements * 8 // bits
    halves = Ref(workspace_of(weight.name), (n, count // n), kind, Format.ND, 2 * count)
    each = 8 // bits  # numbers of a byte, which are as many halves
    pairs = Ref(halves.region, (n, count // n // 2), DType.FLOAT32, Format.ND, 2 * count)
    given = [tensor for tensor in (node.input(2), node.input(3)) if tensor is not None]
    streams = (Stream(Ref.of(weight)), *(Stream(Ref.of(tensor), "row") for tensor in given))
    steps = tuple(Step(op, _HALF, count=each) for op in ("vconv", "vsub", "vmul"))
    target = Stream(halves if each == 1 else pairs)
    unpacked = VectorWork(n, weight.elements // n, steps, streams, (target,))
    m = math.prod(left.static_shape[:-1])
    product = CubeWork(
        m=m,
        k=k,
        n=n,
        a=Ref.of(left),
        b=halves,
        out=Ref.of(output),
        bias=None if bias is None else Ref.of(bias),
        transpose_b=True,
        dtype=kind,
    )
    return product_of_staged(unpacked, product, context)


def _axes(node: Node) -> AxisMap:
    """A product's for the data; the weights' axes are not those of what they hold."""
    rank = rank_of(node, 0) or 0
    stack = list(range(rank - 1))
    return by_labels(node, {0: [*stack, "k"]}, {0: [*stack, "n"]})


OPERATORS = (
    OpDef(
        "MatMulNBits",
        _infer,
        _compute,
        _lower,
        Layout.ND,
        "WeightQuantBatchMatmulV2",
        domain="com.microsoft",
        most_inputs=6,
        facts=Facts(_axes, Kind.MATMUL, Precision.WHITE, parameters=(1, 2, 3, 4, 5)),
    ),
)
