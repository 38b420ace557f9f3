"""`load`: a model file becomes a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from ascendsim.api.origins import set_origin, source_model
from ascendsim.api.titles import title_by_file
from ascendsim.compiler.atc_options import Framework
from ascendsim.core.arguments import checked
from ascendsim.core.collection import without_collection
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef

if TYPE_CHECKING:
    import onnx

Source = Union[str, "PathLike[str]", bytes, "onnx.ModelProto"]


@without_collection
@checked(shapes='pass {"input": (8, 3, 224, 224)}', operators="write operators=[MY_OPERATOR]")
def load(
    source: Source,
    *,
    batch: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    weights: Literal["file", "random"] = "file",
    seed: int = 0,
    outputs: Sequence[str] | str | None = None,
    fold: bool = True,
    operators: Sequence[OpDef] = (),
    framework: Framework | None = None,
    weight: str | PathLike[str] | None = None,
) -> Graph:
    """Reads an ONNX model, a network of Caffe or MindSpore's MindIR, infers every shape and folds its
    shape arithmetic; or a fused sub-graph in AKG's composite JSON.

    Args:
        source: Path of an .onnx, .prototxt, .mindir, .info or .json file, its bytes, or a loaded
            `onnx.ModelProto`. The content decides.
        batch: New batch size; everything that depends on it is inferred again.
        shapes: New shapes by input name, for example `{"input": (8, 3, 224, 224)}`.
        weights: "file" takes the values from the file (weights whose external file is missing become
            shape-only, which is enough for timing); "random" fills those missing ones with seeded values.
        seed: Seed of the random weights.
        outputs: What to keep, "node:index" or tensor names, in this order (ATC's --out_nodes); all outputs by
            default. What it does not need is dropped, operators that are not supported too.
        fold: Whether shape arithmetic that is known becomes constants; False keeps every node of the file,
            for `optimize` to fold.
        operators: Operators of your own, in a domain of their own; CONTRIBUTING.md shows how to write one.
        framework: Where the network comes from, which some fusion passes ask: "caffe", "mindspore",
            "tensorflow" or "onnx" (ATC's option); an ONNX file may have been converted. By default what the
            file is.
        weight: The caffemodel of a prototxt (ATC's option).

    Raises:
        InputError: If the file cannot be read or an option does not fit the model.
        GraphError: If the model is malformed or a shape rule is broken.
        UnsupportedOperatorError: Lists all unsupported operators at once.
    """
    if batch is not None and batch < 1:
        raise InputError("option batch", "must be a positive integer", repr(batch))
    options: dict[str, Any] = {
        "batch": batch,
        "shapes": shapes,
        "weights": weights,
        "seed": seed,
        "outputs": outputs,
        "fold": fold,
    }
    held: Any = Path(source) if isinstance(source, PathLike) else source
    file = held
    foreign = source_model(held, framework, weight)
    if foreign is not None:
        held, framework = foreign
    composite = _composite_text(held)
    if composite is not None:
        from ascendsim.frontends.composite import load_composite

        if batch is not None:
            raise InputError(
                "option batch",
                "does not go with composite JSON",
                batch,
                "give shapes= for its dynamic inputs",
            )
        if outputs is not None:
            raise InputError("option outputs", "does not go with composite JSON", repr(outputs))
        return load_composite(composite, opset=opset_with(operators), shapes=shapes)
    from ascendsim.frontends.onnx import load_onnx

    # MindIR's files beside it hold the bytes of weights; a caffemodel is a message, which the front end reads
    folder = Path(str(source)).parent if foreign is not None and framework == "mindspore" else None
    graph = load_onnx(held, opset=opset_with(operators), folder=folder, **options)
    title_by_file(graph, file)
    if foreign is not None:
        kind = "mindir" if framework == "mindspore" else framework
        graph.metadata.update(format=kind, file=Path(str(source)).name)
    if framework is not None:
        set_origin(graph, framework)
    return graph


def _composite_text(source: Any) -> bytes | Path | None:
    """The source if it is composite JSON, else None."""
    from ascendsim.frontends.composite import is_composite

    if isinstance(source, bytes):
        return source if is_composite(source) else None
    if not isinstance(source, (str, Path)):
        return None
    path = Path(source)
    if path.suffix.lower() == ".onnx" or not path.is_file():
        return None
    with path.open("rb") as file:
        looks_like_text = file.read(64).lstrip()[:1] == b"{"
    return path if looks_like_text else None
