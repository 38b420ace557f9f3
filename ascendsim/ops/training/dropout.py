"""Dropout in training, by CANN's prototypes (domain "ascend").

    DropOutGenMask(shape, prob) -> mask                                on the AI CPU, seeds are attributes
    StatelessDropOutGenMask(shape, prob, seed, seed1, offset) -> mask  on the AI CPU, seeds are inputs
    DropOutDoMask(x, mask, keep_prob) -> y        x / keep_prob where the bit is set, else 0
    DropOutDoMaskV3(x, mask, keep_prob) -> y      the same, a byte of the mask an element

`prob` and `keep_prob` are the share that stays. Bits lie in the order of the elements, least significant
first, filled up to 128. The same seeds give the same mask; the numbers are not those of CANN's generator,
which is not documented.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import align, ceil_div
from ascendsim.graph.ir import Array, Dim, Node
from ascendsim.ops.shared.common import (
    StepSpec,
    as_float32,
    converted,
    finish,
    make_steps,
    on_ai_cpu,
    runs_on_ai_core,
    select_by_bits,
)
from ascendsim.ops.shared.dims import known_ints, may_equal, product
from ascendsim.opset import InferContext, Layout, OpDef
from ascendsim.opset.definition import Compute, Lower
from ascendsim.opset.facts import Facts, Kind, Precision
from ascendsim.opset.structure import elementwise, opaque
from ascendsim.opset.work import LowerContext, NoTask, Ref, Stream, VectorWork, Work

Wanted = Sequence["np.dtype[Any]"]
_BITS = 8
_WHOLE = 128  # elements that the mask is filled up to
# The AI CPU's kernel for 128 bits: 16 random vectors, each one round of AES, a comparison with the
# probability and an insertion of bits (4 vector instructions), and 8 for keys, store and loop; spread over
# all cores (mindspore, aicpu_ops/drop_out_gen_mask_kernels.cc). One instruction a cycle is assumed.
_OPERATIONS = (16 * 4 + 8) * _BITS / _WHOLE  # a byte


def _mask_bytes(elements: Dim, bits: int) -> Dim:
    return align(elements, _WHOLE) * bits // _BITS if isinstance(elements, int) else None


def _mask_infer(context: InferContext) -> None:
    shape = known_ints(context, 0)
    if shape is not None and any(dim < 0 for dim in shape):
        raise context.fail("needs sizes that are not negative", shape)
    for port in range(1, 4):
        if context.has(port) and not any(may_equal(context.shape(port), one) for one in ((), (1,))):
            raise context.fail(f"needs one number in input {port}", context.shape(port))
    context.set(0, DType.UINT8, (None if shape is None else _mask_bytes(math.prod(shape), 1),))


def _drawn(source: np.random.Generator, shape: Array, prob: Array) -> list[Array]:
    count = math.prod(int(dim) for dim in shape.reshape(-1))
    bits = np.zeros(align(count, _WHOLE), np.bool_)
    bits[:count] = source.random(count, np.float32) < as_float32(prob.reshape(()))
    return [np.packbits(bits, bitorder="little")]


def _mask(node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    seeds = [int(node.attr(name, 0)) for name in ("seed", "seed2")]
    key = [abs(seed) for seed in seeds] if any(seeds) else [zlib.crc32(node.name.encode())]
    return _drawn(np.random.default_rng(key), *inputs)


def _stateless(_node: Node, inputs: Sequence[Any], _wanted: Wanted) -> Sequence[Array]:
    shape, prob, *numbers = inputs
    key = [abs(int(number)) for array in numbers if array is not None for number in array.reshape(-1)]
    return _drawn(np.random.default_rng(key), shape, prob)


def _mask_lower(node: Node, _context: LowerContext) -> Work:
    return on_ai_cpu(node, _OPERATIONS, spread=True) if node.output.elements else NoTask()


# ------------------------------------------------------------------------------------------------------------


def _apply_infer(context: InferContext, bits: int) -> None:
    shape = context.shape(0)
    wanted = (None if shape is None else _mask_bytes(product(shape), bits),)
    if not may_equal(context.shape(1), wanted):
        raise context.fail(f"needs a mask of shape {wanted}", context.shape(1))
    if context.dtype(1) not in (DType.UINT8, DType.BOOL):
        raise context.fail("needs a mask of uint8", context.dtype(1).value)
    if not any(may_equal(context.shape(2), one) for one in ((), (1,))):
        raise context.fail("needs one probability", context.shape(2))
    context.set(0, context.dtype(0), shape)


def _apply(bits: int) -> Compute:
    def compute(_node: Node, inputs: Sequence[Any], wanted: Wanted) -> Sequence[Array]:
        x, mask, share = as_float32(inputs[0]), inputs[1].reshape(-1), as_float32(inputs[2])
        kept = np.unpackbits(mask, count=x.size, bitorder="little") if bits == 1 else mask[: x.size]
        with np.errstate(all="ignore"):
            scaled = x * (x.dtype.type(1) / share.reshape(()).astype(x.dtype))
            return [finish(np.where(kept.reshape(x.shape) != 0, scaled, x.dtype.type(0)), wanted[0])]

    return compute


def _apply_lower(bits: int) -> Lower:
    """A product, and a selection by the mask: bits as they come, bytes made bits by a comparison."""
    specs: tuple[StepSpec, ...] = ("vmuls",) if bits == 1 else ("vmuls", "vconv", "vcmp")

    def lower(node: Node, context: LowerContext) -> Work:
        data, mask, share = (node.required(port) for port in range(3))
        if not data.elements:
            return NoTask()
        if not runs_on_ai_core(node):
            return on_ai_cpu(node, float(len(specs) + 1))
        dtype = data.element_type
        inside = DType.FLOAT32 if dtype is DType.BFLOAT16 else dtype
        body = (*make_steps(specs, inside), select_by_bits(inside, context))
        steps = converted(body, [dtype], node.output.element_type, inside)
        count = ceil_div(data.elements * bits, _BITS)  # what fills it up to 128 elements is not read
        used = Ref(mask.name, (count,), mask.element_type, mask.format, count, mask.is_constant)
        inputs = (Stream(Ref.of(data)), Stream(used), Stream(Ref.of(share), "one"))
        return VectorWork(
            1,
            data.elements,
            steps,
            inputs,
            (Stream(Ref.of(node.output)),),
            own_tiling=context.open_shapes,
            code_at_hand=True,
        )

    return lower


def _apply_op(name: str, bits: int) -> OpDef:
    return OpDef(
        name,
        lambda context: _apply_infer(context, bits),
        _apply(bits),
        _apply_lower(bits),
        Layout.ND,
        domain="ascend",
        most_inputs=3,
        facts=Facts(elementwise(0), Kind.ELEMENTWISE, Precision.GRAY),
    )


OPERATORS: tuple[OpDef, ...] = (
    OpDef(
        "DropOutGenMask",
        _mask_infer,
        _mask,
        _mask_lower,
        domain="ascend",
        foldable=False,
        most_inputs=2,
        facts=Facts(opaque(), Kind.OTHER, Precision.BITS, parameters=(0, 1)),
    ),
    OpDef(
        "StatelessDropOutGenMask",
        _mask_infer,
        _stateless,
        _mask_lower,
        domain="ascend",
        foldable=False,
        most_inputs=5,
        facts=Facts(opaque(), Kind.OTHER, Precision.BITS, parameters=(0, 1, 2, 3, 4)),
    ),
    _apply_op("DropOutDoMask", 1),
    _apply_op("DropOutDoMaskV3", _BITS),
)
