"""Where networks come from: ATC's source frameworks, and how their files get here."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascendsim.compiler.atc_options import Framework
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph

if TYPE_CHECKING:
    import onnx

_BY_SUFFIX: Mapping[str, Framework] = {
    ".prototxt": "caffe",
    ".caffemodel": "caffe",
    ".pb": "tensorflow",
    ".mindir": "mindspore",
    ".air": "mindspore",
}
# how a file that has no front end here becomes an ONNX file
_CONVERSION: Mapping[Framework, str] = {
    "tensorflow": "convert it: python -m tf2onnx.convert --graphdef {0} --output {1}.onnx --inputs NAME:0 "
    "--outputs NAME:0",
    "mindspore": 'export it as MindIR: mindspore.export(net, inputs, file_name="{1}", file_format="MINDIR")',
}
_AIR = (
    "AIR holds GE's own operators; give the network that it was made from: of MindSpore "
    'mindspore.export(net, inputs, file_name="{1}", file_format="MINDIR"), of PyTorch torch.onnx.export or '
    "asim.from_torch"
)


def source_model(
    source: Any, framework: Framework | None, weight: str | PathLike[str] | None
) -> tuple[onnx.ModelProto, Framework] | None:
    """What a file of another framework is in ONNX, and that framework; None if it is an ONNX model, or none.

    Args:
        source: As `load` has it.
        framework: That the user names; None = by the file's name.
        weight: Caffe's weights.

    Raises:
        InputError: If the file cannot be read, or its framework has no front end here; says how to convert
            it.
    """
    path = Path(source) if isinstance(source, (str, PathLike)) else None
    suffix = path.suffix.lower() if path is not None else ""
    found = _BY_SUFFIX.get(suffix)
    if found is not None and framework not in (None, found):
        raise InputError("option framework", f"must be {found} for a file {suffix}", framework)
    if weight is not None and found != "caffe":
        raise InputError("option weight", "goes with a prototxt of Caffe", str(weight), "leave it out")
    if found is None or path is None:
        return None
    if suffix == ".caffemodel":
        remedy = f"give the prototxt, and weight={str(path)!r}"
        raise InputError(f"file {path.name!r}", "holds the weights of a network alone", remedy=remedy)
    if found == "caffe":
        from ascendsim.frontends.caffe import read_caffe

        return read_caffe(path, weight), found
    if suffix == ".mindir":
        from ascendsim.frontends.mindir import read_mindir

        return read_mindir(path), found
    if not path.exists():
        raise InputError(f"file {str(path)!r}", "does not exist", remedy="check the path")
    if suffix == ".air":
        raise InputError(
            f"file {path.name!r}", "is AIR, which has no front end here", remedy=_AIR.format("", path.stem)
        )
    remedy = _CONVERSION[found].format(path.name, path.stem)
    raise InputError(
        f"file {path.name!r}", f"is a model of {found}, which has no front end here", remedy=remedy
    )


def set_origin(graph: Graph, framework: str) -> None:
    """Notes where all operators come from, those of subgraphs too; rules ask it."""
    for node in graph.nodes:
        node.origin["framework"] = framework
        for _, body in node.subgraphs:
            set_origin(body, framework)
