"""Which quantised networks AMCT's convert_qat_model turns into a form that ATC takes.

ATC does not convert QuantizeLinear and DequantizeLinear as they are. AMCT makes AscendQuant and AscendDequant
of pairs around Conv, ConvTranspose, Gemm, MatMul of one tensor by constant weights of two axes, and Add: the
two of a pair have the same factors, only weights have a scale a channel, and those of Gemm and MatMul have
one for all (CANN, "QAT Model Adaptation to CANN Format", 8.5 and 9.0). The page names no form in uint8 or
with a zero point; AscendQuant gives int8.
"""

from __future__ import annotations

from collections.abc import Iterator

from ascendsim.core.dtypes import DType
from ascendsim.core.refusals import Refusal, some
from ascendsim.graph.ir import Graph, Node
from ascendsim.passes.quant.pairs import Quantised, RefusedError, dequantised, quantised_by

TOOL = "AMCT convert_qat_model"
PAIR = ("QuantizeLinear", "DequantizeLinear")
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_ONE_SCALE = ("Gemm", "MatMul")


def refused_forms(graph: Graph) -> tuple[Refusal, ...]:
    """Why ATC and AMCT do not take a network with pairs of QuantizeLinear and DequantizeLinear; empty if it
    has none.

    Args:
        graph: As the file has it.
    """
    pairs = [node for node in graph.nodes if node.op_type in PAIR and not node.domain]
    if not pairs:
        return ()
    found: dict[tuple[str, str], list[str]] = {}
    for node in graph.nodes:
        for kind in _of_pair(node) if node in pairs else _of_reader(node):
            found.setdefault(kind, []).append(node.name)
    return (
        Refusal(
            "",
            f"{len(pairs)} nodes QuantizeLinear and DequantizeLinear",
            "are not converted as they are",
            f"convert the file first: {TOOL}",
        ),
        *(
            Refusal(TOOL, f"{what}: {some(names)}", "is no form that AMCT takes", remedy)
            for (what, remedy), names in found.items()
        ),
    )


def _of_pair(node: Node) -> Iterator[tuple[str, str]]:
    """A DequantizeLinear against the QuantizeLinear in front of it."""
    if node.op_type != PAIR[1] or not node.output.uses:
        return
    maker = node.required(0).producer
    found = dequantised(node.output)
    if maker is None or maker.op_type != PAIR[0] or maker.domain or found is None:
        return
    try:
        same = quantised_by(maker).equals(found)
    except RefusedError:
        same = found.floats
    if not same and not found.floats:
        yield "a pair with two scales or zero points", "give both of a pair the same"


def _of_reader(node: Node) -> Iterator[tuple[str, str]]:
    """An operator between pairs."""
    inputs = [dequantised(tensor) for tensor in node.inputs]
    if not any(inputs):
        return
    data, weight = (*inputs, None, None)[:2]
    if node.op_type not in (*PRODUCTS, "Add"):
        yield f"{node.op_type} of quantised data", "leave it in floating point"
        return
    operands = inputs[:2] if node.op_type == "Add" else [data]
    if any(one is not None and not one.single for one in operands):
        yield "one scale a channel of data", "give data one scale"
    if any(one is not None and _shifted(one) for one in operands):
        yield "data in uint8 or with a zero point", "quantise data to int8 without a zero point"
    if node.op_type == "Add" or weight is None:
        return
    constant = weight.tensor.is_constant
    if node.op_type in _ONE_SCALE and constant and not weight.single:
        yield f"one scale a channel of weights in {node.op_type}", "quantise its weights per tensor"
    if node.op_type == "MatMul" and not (constant and len(weight.tensor.shape or ()) == 2):
        yield "MatMul whose right matrix is not constant with two axes", "leave it in floating point"
    if constant and _shifted(weight):
        yield "weights in uint8 or with a zero point", "quantise weights to int8 without a zero point"


def _shifted(found: Quantised) -> bool:
    try:
        return found.kind is DType.UINT8 or found.shift != 0
    except RefusedError:
        return True
