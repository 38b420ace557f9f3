"""Networks that CANN's quantiser AMCT has written to be deployed: int8 operators between its own operators.

    AscendQuant -> Conv | Gemm | MatMul with int8 weights and int32 bias -> AscendDequant

AMCT leaves its operators in the standard domain; files for its accuracy simulation have them in
"amct.customop". ATC turns them into CANN's operators as it reads the file, and so does this: operators that
read bytes become QuantConv and QuantMatMul, whose sums AscendDequant scales. Names, attributes and types are
those of AMCT's public sources; `dtype` counts as CANN does (0 float32, 1 float16).
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError
from ascendsim.frontends.onnx.upgrade import Draft
from ascendsim.graph.ir import Tensor

DOMAINS = frozenset({"", "amct.customop", "amct.customop.extint8"})
FLOATS = {0: DType.FLOAT32, 1: DType.FLOAT16}
# what carries bytes on to other places
CARRIERS = frozenset({"MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Pad"})


def deployed(draft: Draft) -> None:
    """Turns a draft of such a network into CANN's operator; leaves others as they are.

    Raises:
        GraphError: If there is no such operator here, or an attribute is out of range.
    """
    rule = _OWN.get(draft.op_type) if draft.domain in DOMAINS else None
    if rule is not None:
        rule(draft)
        draft.domain = "ascend"
    elif not draft.domain and draft.inputs and _kind(draft, 0) is DType.INT8:
        reads = _OF_BYTES.get(draft.op_type)
        if reads is not None:
            reads(draft)


def is_deployed(node: onnx.NodeProto) -> bool:
    """Whether a node is one that AMCT puts between operators; those read bytes then, whatever types ONNX has
    for them.
    """
    return node.domain in DOMAINS and node.op_type in _OWN


def _kind(draft: Draft, port: int) -> DType | None:
    tensor = draft.inputs[port] if port < len(draft.inputs) else None
    return None if tensor is None else tensor.origin_dtype


def _quant(draft: Draft) -> None:
    kind = _text(draft.pop("dst_type", "INT8"))
    if kind != "INT8":
        raise GraphError(draft.subject, "quantises to INT8", kind, "quantise the model to 8 bits")
    if _text(draft.pop("round_mode", "Round")) != "Round":
        raise GraphError(draft.subject, "rounds to the nearest number (round_mode Round)")
    scale = float(draft.attributes.get("scale", 1.0))  # type: ignore[arg-type]
    if not 0 < scale < float("inf"):
        raise GraphError(f"attribute scale of {draft.subject}", "must be a number above 0", scale)
    offset = float(draft.attributes.get("offset", 0.0))  # type: ignore[arg-type]
    if not -128 <= offset <= 127 or offset != int(offset):
        rule = "must be a whole number from -128 to 127"
        raise GraphError(f"attribute offset of {draft.subject}", rule, offset)
    if draft.pop("sqrt_mode", 0):
        draft.attributes["scale"] = scale * scale


def _floats(draft: Draft) -> None:
    code = draft.pop("dtype", 0)
    if code not in FLOATS:
        raise GraphError(f"attribute dtype of {draft.subject}", "must be 0 (float32) or 1 (float16)", code)
    if draft.pop("sqrt_mode", 0):
        raise GraphError(draft.subject, "takes its scale as it is (no sqrt_mode)")
    draft.attributes["dtype"] = FLOATS[code]


def _weight_quant(draft: Draft) -> None:
    kind = _text(draft.pop("dst_type", "INT8"))
    if kind != "INT8":
        raise GraphError(draft.subject, "holds weights in INT8", kind, "quantise the model to 8 bits")


_OWN: dict[str, Callable[[Draft], None]] = {
    "AscendQuant": _quant,
    "AscendDequant": _floats,
    "AscendAntiQuant": _floats,
    "AscendWeightQuant": _weight_quant,
}


def _conv(draft: Draft) -> None:
    draft.op_type, draft.domain = "QuantConv", "ascend"
    draft.attributes["offset_x"] = _offset(draft.data())


def _product(draft: Draft) -> None:
    if any(float(draft.pop(name, 1.0)) != 1.0 for name in ("alpha", "beta")):
        raise GraphError(draft.subject, "has no factors alpha and beta where it multiplies bytes")
    draft.op_type, draft.domain = "QuantMatMul", "ascend"
    draft.attributes["offset_x"] = _offset(draft.data())


def _refused(draft: Draft) -> None:
    rule = "has no form in int8 here that gives sums"
    raise GraphError(draft.subject, rule, remedy="leave this layer out when you quantise (skip_layers)")


_OF_BYTES: dict[str, Callable[[Draft], None]] = {
    "Conv": _conv,
    "Gemm": _product,
    "MatMul": _product,
    "ConvTranspose": _refused,
    "AveragePool": _refused,
    "LSTM": _refused,
    "GRU": _refused,
}


def _offset(tensor: Tensor) -> int:
    """The byte that stands for 0 in a tensor of bytes: as the AscendQuant has it that made them."""
    node = tensor.producer
    while node is not None and node.op_type in CARRIERS and not node.domain:
        node = node.required(0).producer
    return 0 if node is None or node.op_type != "AscendQuant" else int(node.attr("offset", 0.0))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
