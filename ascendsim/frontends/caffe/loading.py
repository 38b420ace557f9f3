"""From files of Caffe to an ONNX model, which is then loaded as any other."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import onnx
from google.protobuf import text_format  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx.checker import MAXIMUM_PROTOBUF

from ascendsim.core.errors import InputError
from ascendsim.core.files import read_bounded
from ascendsim.frontends.caffe.layers import LAYERS
from ascendsim.frontends.caffe.messages import net_class
from ascendsim.frontends.caffe.old_layers import name_and_blobs, renew_layers
from ascendsim.frontends.caffe.writer import Writer

TEXT_BYTES, WEIGHT_BYTES = 16 << 20, MAXIMUM_PROTOBUF


def read_caffe(path: str | PathLike[str], weight: str | PathLike[str] | None = None) -> onnx.ModelProto:
    """Reads a network of Caffe, as its test phase runs it.

    Args:
        path: The prototxt.
        weight: The caffemodel; without one, weights have shapes and no values.

    Returns:
        The same network in ONNX's operators, with Caffe's names of layers and blobs.

    Raises:
        InputError: If a file cannot be read or is none of Caffe's, or a layer is not known.
    """
    subject = f"file {str(path)!r}"
    net = net_class()()
    text = _read(path, subject, TEXT_BYTES).decode("utf-8", "replace")
    try:
        text_format.Parse(text, net, allow_unknown_field=True)
    except (text_format.ParseError, RecursionError) as error:
        raise InputError(subject, f"is no prototxt: {error}", remedy="give a network of Caffe") from None
    renew_layers(net, subject)
    if not net.layer:
        raise InputError(subject, "has no layers", remedy="give a network of Caffe")
    blobs = {} if weight is None else _blobs(weight)
    name = Path(weight).name if weight else f"{Path(path).stem}.caffemodel"
    return Writer(net, blobs, name, subject, LAYERS).model()


def _blobs(path: str | PathLike[str]) -> dict[str, Any]:
    """Weights by the name of their layer."""
    subject = f"weight file {str(path)!r}"
    net = net_class()()
    try:
        net.ParseFromString(_read(path, subject, WEIGHT_BYTES))
    except (DecodeError, ValueError, RuntimeError):
        raise InputError(subject, "is no caffemodel, or is truncated", remedy="download it again") from None
    layers = [(layer.name, layer.blobs) for layer in net.layer] + [name_and_blobs(old) for old in net.layers]
    found = {name: blobs for name, blobs in layers if blobs}
    if not found:
        raise InputError(subject, "holds no weights", remedy="give the .caffemodel of the network")
    return found


def _read(path: str | PathLike[str], subject: str, most: int) -> bytes:
    content = read_bounded(path, subject, most)
    if len(content) > most:
        raise InputError(subject, f"must have at most {most >> 20} MiB")
    return content
