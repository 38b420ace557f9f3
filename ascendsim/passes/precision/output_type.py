"""ATC's --output_type: the element type in which the network hands out its floating-point results.

"FP16" or "FP32" for all outputs, or "node:index:type;node:index:type" for the named ones. With force_fp16 the
device computes in float16; float16 outputs then leave as they are, float32 outputs (a float32 model's
default) cost a Cast, and the format conversion before or after it moves twice the bytes.
"""

from __future__ import annotations

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Graph

TYPES = {"FP32": DType.FLOAT32, "FP16": DType.FLOAT16}
_OPTION = "option output_type"


def output_types(graph: Graph, text: str | None) -> tuple[DType | None, ...]:
    """The type asked for of every graph output, by position; None where the model's own type stays.

    Outputs that are not floating-point keep their type.

    Args:
        graph: The user's graph: its nodes still have the names that the option uses.
        text: The option; None or "" asks for nothing.

    Raises:
        InputError: If the form is wrong, a type is not FP16 or FP32, or a named node output is no output of
            the network.
    """
    if not text:
        return (None,) * len(graph.outputs)
    if ":" not in text:
        wanted = _type(text)
        return tuple(
            wanted if tensor.dtype is not None and tensor.dtype.is_float else None for tensor in graph.outputs
        )
    places = {
        (tensor.producer.name, tensor.index): position
        for position, tensor in enumerate(graph.outputs)
        if tensor.producer is not None
    }
    result: list[DType | None] = [None] * len(graph.outputs)
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        node, _, rest = part.rpartition(":")
        node, _, index = node.rpartition(":")
        if not node or not index.isdecimal():
            raise InputError(_OPTION, "must be FP16, FP32 or node:index:type;node:index:type", repr(part))
        place = places.get((node, int(index[:9])))
        if place is None:
            known = [f"{name}:{number}" for name, number in places]
            raise InputError(
                f"{_OPTION}: output {node}:{index}",
                "is no output of the network",
                remedy=suggest(f"{node}:{index}", known),
            )
        dtype = graph.outputs[place].dtype
        if dtype is None or not dtype.is_float:
            raise InputError(
                f"{_OPTION}: output {node}:{index}",
                "must be floating-point",
                dtype.value if dtype else "unknown",
            )
        result[place] = _type(rest)
    return tuple(result)


def check_form(text: str | None) -> None:
    """Checks what can be checked of the option without a graph.

    Raises:
        InputError: If the form is wrong or a type is not FP16 or FP32.
    """
    if text is not None and not isinstance(text, str):
        raise InputError(_OPTION, "must be FP16, FP32 or node:index:type;node:index:type", repr(text))
    if not text:
        return
    for part in filter(None, (piece.strip() for piece in text.split(";"))) if ":" in text else (text,):
        if ":" in part and part.count(":") < 2:
            raise InputError(_OPTION, "must be FP16, FP32 or node:index:type;node:index:type", repr(part))
        _type(part.rpartition(":")[2])


def _type(text: str) -> DType:
    if text not in TYPES:
        raise InputError(_OPTION, "must name FP16 or FP32", repr(text))
    return TYPES[text]
