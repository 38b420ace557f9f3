"""From MindIR to an ONNX model, which is then loaded as any other."""

from __future__ import annotations

from collections.abc import MutableSequence
from os import PathLike
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ascendsim.core.errors import InputError
from ascendsim.core.files import read_bounded
from ascendsim.frontends.mindir.messages import model_class
from ascendsim.frontends.mindir.primitives import PRIMITIVES
from ascendsim.frontends.mindir.writer import Writer

FILE_BYTES = 2 << 30  # what protobuf can hold; larger networks have their weights beside them


def read_mindir(path: str | PathLike[str]) -> onnx.ModelProto:
    """Reads a network that MindSpore exported as MindIR.

    Args:
        path: The .mindir file. Weights that it keeps in files beside it are ONNX's external data then.

    Returns:
        The same network in ONNX's operators, with MindSpore's names of cells and parameters.

    Raises:
        InputError: If the file cannot be read or is no MindIR.
        UnsupportedOperatorError: Lists all primitives that are not known.
    """
    subject = f"file {str(path)!r}"
    content = read_bounded(path, subject, FILE_BYTES)
    if len(content) > FILE_BYTES:
        raise InputError(subject, f"must have at most {FILE_BYTES >> 20} MiB")
    damaged = InputError(
        subject,
        "is no MindIR, or is truncated or encrypted",
        remedy='export it again: mindspore.export(net, inputs, file_name="net", file_format="MINDIR")',
    )
    model = model_class()()
    try:
        model.ParseFromString(content)
    except (DecodeError, ValueError, RuntimeError):
        raise damaged from None
    if not model.graph.node or not _readable(model):
        raise damaged
    if not model.little_endian:
        raise InputError(subject, "has the byte order of another machine", remedy="export it on this one")
    return Writer(model, subject, PRIMITIVES).model()


def _readable(message: Any) -> bool:
    """Whether all texts are UTF-8: protobuf hands out others as bytes."""
    for field, value in message.ListFields():
        held = value if isinstance(value, MutableSequence) else (value,)
        if field.message_type is not None:
            if not all(_readable(item) for item in held):
                return False
        elif field.type == field.TYPE_STRING and any(isinstance(item, bytes) for item in held):
            return False
    return True
