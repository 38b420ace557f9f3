"""From a path, bytes or a proto to a model proto of a version that can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Union

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import defs

from ascendsim.core.errors import InputError
from ascendsim.frontends.onnx.frames import STANDARD_DOMAINS

Source = Union[str, Path, bytes, onnx.ModelProto]

OLDEST_OPSET = 7
# a protobuf message cannot be longer; larger models keep their weights in external files
MAX_FILE_BYTES = onnx.checker.MAXIMUM_PROTOBUF


def read_model(source: Source) -> tuple[onnx.ModelProto, Path | None, str]:
    """Reads a model without its external data.

    Returns:
        The model, the folder of its file (None if it did not come from a file), and a name for messages.

    Raises:
        InputError: If the source is no readable ONNX model; the message says why.
    """
    if isinstance(source, onnx.ModelProto):
        model, folder, name = source, None, source.graph.name or "model"
    elif isinstance(source, (bytes, bytearray, memoryview)):
        model, folder, name = _parse(bytes(source), "model bytes"), None, "model bytes"
    elif isinstance(source, (str, Path)) or hasattr(source, "__fspath__"):
        path = Path(source)
        name = path.name
        model, folder = _parse(_read_file(path), f"file {name!r}"), path.parent
    else:
        raise InputError("model", "must be a path, bytes or an onnx.ModelProto", type(source).__name__)
    if not model.HasField("graph"):
        raise InputError(
            f"model {name!r}", "has no graph: it is not an ONNX model", remedy="give an .onnx file"
        )
    return model, folder, name


def opset_versions(model: onnx.ModelProto, name: str) -> dict[str, int]:
    """Versions by domain ("" for the standard one).

    An operator set older than 7 will do if the operators that the model uses did not change up to 7.

    Raises:
        InputError: If the standard operator set is missing, too old, or newer than the onnx package knows.
    """
    versions = {
        ("" if item.domain in STANDARD_DOMAINS else item.domain): int(item.version)
        for item in model.opset_import
    }
    newest = defs.onnx_opset_version()
    version = versions.get("")
    if version is None:
        if any(node.domain in STANDARD_DOMAINS for node in model.graph.node):
            raise InputError(
                f"model {name!r}", "does not say which ONNX operator set it uses", remedy="export it again"
            )
        versions[""] = version = newest
    if version > newest:
        raise InputError(
            f"model {name!r}",
            f"uses ONNX operator set {version}; the newest known one is {newest}",
            remedy="update the onnx package",
        )
    if version < OLDEST_OPSET and (
        model.functions or not all(_unchanged(node, version) for node in model.graph.node)
    ):
        remedy = f"export the model again with opset {OLDEST_OPSET} or newer"
        raise InputError(
            f"model {name!r}", f"must use ONNX operator set {OLDEST_OPSET} or newer", version, remedy
        )
    return versions


def _unchanged(node: onnx.NodeProto, version: int) -> bool:
    """Whether a node of an old operator set means the same in the oldest supported one."""
    if node.domain not in STANDARD_DOMAINS or any(attribute.HasField("g") for attribute in node.attribute):
        return False
    try:
        return bool(defs.get_schema(node.op_type, OLDEST_OPSET).since_version <= version)
    except (defs.SchemaError, TypeError):  # not known, or a name that is no text
        return False


def _read_file(path: Path) -> bytes:
    subject = f"file {str(path)!r}"
    try:
        if path.is_dir():
            raise InputError(subject, "is a folder", remedy="give the .onnx file in it")
        if not path.exists():
            raise InputError(subject, "does not exist", remedy="check the path")
        if not path.is_file():
            # a device may never end
            raise InputError(subject, "is no regular file", remedy="save the model to a file first")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(
                subject,
                f"must have at most {MAX_FILE_BYTES} bytes",
                path.stat().st_size,
                "save the weights as external data",
            )
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            subject, f"cannot be read: {error.strerror}", remedy="check its permissions"
        ) from None


def _parse(data: bytes, subject: str) -> onnx.ModelProto:
    if not data:
        raise InputError(subject, "is empty", remedy="give an .onnx file")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, ValueError, RuntimeError):  # the protobuf back ends disagree about the class
        raise InputError(
            subject,
            "is not an ONNX model, or is truncated",
            remedy="give an .onnx file; download or export it again",
        ) from None
    return model
