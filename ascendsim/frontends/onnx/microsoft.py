"""Operators of onnxruntime (domain "com.microsoft") in files for language models, as those known here.

    SimplifiedLayerNormalization(x, scale)                  RMSNormalization (which it is the older name of)
    SkipSimplifiedLayerNormalization(x, skip, scale, bias)  AddRmsNorm of x (+ bias) and skip
    RotaryEmbedding(x, positions, cos, sin)                 ONNX's, with its inputs in another order
    MatMulIntegerToFloat(a, b, scales, zeros, bias)         DequantMatMul
    GroupQueryAttention, MultiHeadAttention                 see `microsoft_attention`

Exporters for onnxruntime-genai write them. Names, attributes and defaults are those of onnxruntime's
documentation of its own operators.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.frontends.onnx.microsoft_attention import grouped, many_headed
from ascendsim.frontends.onnx.upgrade import Draft, Emitter
from ascendsim.graph.ir import Tensor


def translated(draft: Draft, emitter: Emitter) -> None:
    """Turns a draft of such an operator into that which is known; leaves others as they are.

    Raises:
        GraphError: If it asks for something that there is no operator for.
    """
    rule = _RULES.get((draft.domain, draft.op_type))
    if rule is not None:
        rule(draft, emitter)


def _norm(draft: Draft, emitter: Emitter) -> None:
    _no_results(draft, (1,))
    draft.op_type, draft.domain = "RMSNormalization", ""
    draft.attributes.setdefault("axis", -1)
    draft.attributes.setdefault("epsilon", 1e-5)


def _skip_norm(draft: Draft, emitter: Emitter) -> None:
    """Mean and 1 / standard deviation are handed out for training alone."""
    _no_results(draft, (1, 2))
    x, skip, scale = (draft.data(port) for port in range(3))
    bias = draft.inputs[3] if len(draft.inputs) > 3 else None
    if bias is not None:
        x = emitter.emit("Add", [x, bias], f"{draft.name}/biased")
    total = draft.outputs[3] if len(draft.outputs) > 3 else ""
    draft.inputs = [x, _as_large(draft, skip, x, emitter), scale]
    draft.outputs = [draft.outputs[0], "", total]
    draft.op_type, draft.domain = "AddRmsNorm", "ascend"
    draft.attributes.setdefault("epsilon", 1e-12)


def _as_large(draft: Draft, skip: Tensor, x: Tensor, emitter: Emitter) -> Tensor:
    """What is added, repeated for all samples."""
    if skip.shape == x.shape or not (skip.is_static and x.is_static):
        return skip
    shape = emitter.constant(np.array(x.static_shape, np.int64), f"{draft.name}/shape")
    return emitter.emit("Expand", [skip, shape], f"{draft.name}/skip")


def _rotary(draft: Draft, emitter: Emitter) -> None:
    x, places, cosine, sine = (draft.data(port) for port in range(4))
    if float(draft.pop("scale", 1.0)) != 1:
        raise GraphError(draft.subject, "can turn by angles that are not scaled", "scale other than 1")
    if draft.pop("is_packed_batching", 0):
        raise GraphError(draft.subject, "cannot turn sequences that are packed into one batch")
    heads = int(draft.attributes.get("num_heads", 0))  # type: ignore[arg-type]
    if x.shape is not None and len(x.shape) == 3 and not heads:
        draft.attributes["num_heads"] = _heads(draft, x, cosine)
    draft.inputs = [x, cosine, sine, _places(draft, x, places, emitter)]
    draft.domain = ""


def _heads(draft: Draft, x: Tensor, cosine: Tensor) -> int:
    """How many heads of twice the width of the cache there are."""
    width, half = (None if tensor.shape is None else tensor.shape[-1] for tensor in (x, cosine))
    if not isinstance(width, int) or not isinstance(half, int) or not half or width % (2 * half):
        raise GraphError(
            draft.subject, "needs num_heads, or a cache of half a head's width", f"{width}, {half}"
        )
    return width // (2 * half)


def _places(draft: Draft, x: Tensor, places: Tensor, emitter: Emitter) -> Tensor:
    """Positions of all tokens; one number is that of the first token of every sequence."""
    if places.shape is None or len(places.shape) != 1:
        return places
    shape = x.shape
    sizes = () if shape is None else (shape[0], shape[1] if len(shape) == 3 else shape[2])
    known = tuple(size for size in sizes if isinstance(size, int))
    if len(known) < 2:
        raise GraphError(
            draft.subject, "needs positions [batch, sequence] where these are not known", places.shape
        )
    steps = np.broadcast_to(np.arange(known[1], dtype=np.int64), known)
    counted = emitter.constant(np.ascontiguousarray(steps), f"{draft.name}/steps")
    if places.origin_dtype is not DType.INT64:
        places = emitter.emit("Cast", [places], f"{draft.name}/first", to=DType.INT64)
    return emitter.emit("Add", [counted, places], f"{draft.name}/positions")


def _integer_product(draft: Draft, emitter: Emitter) -> None:
    """Sums of integers, less their zero points, times both scales."""
    a, b, a_scale, b_scale, a_zero, b_zero, bias = [*draft.inputs, *[None] * 7][:7]
    operands = [a, b, a_zero, b_zero, a_scale, b_scale]
    if bias is None:
        draft.op_type, draft.domain, draft.inputs = "DequantMatMul", "ascend", operands
        return
    product = emitter.emit("DequantMatMul", operands, f"{draft.name}/product", "ascend")
    draft.op_type, draft.domain, draft.inputs = "Add", "", [product, bias]


def _no_results(draft: Draft, ports: tuple[int, ...]) -> None:
    named = [port for port in ports if port < len(draft.outputs) and draft.outputs[port]]
    if named:
        raise GraphError(
            draft.subject, "can give the normalised tensor and the sum", f"output {named[0]} has a name"
        )


_RULES: dict[tuple[str, str], Callable[[Draft, Emitter], None]] = {
    ("", "SimplifiedLayerNormalization"): _norm,
    ("com.microsoft", "SimplifiedLayerNormalization"): _norm,
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): _skip_norm,
    ("com.microsoft", "RotaryEmbedding"): _rotary,
    ("com.microsoft", "MatMulIntegerToFloat"): _integer_product,
    ("com.microsoft", "GroupQueryAttention"): grouped,
    ("com.microsoft", "MultiHeadAttention"): many_headed,
}
