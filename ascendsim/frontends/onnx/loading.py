"""`load_onnx`: a model file becomes a graph with every shape inferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Union

import onnx

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError, InputError
from ascendsim.frontends.onnx.atc import refusals_of
from ascendsim.frontends.onnx.batch import with_batch
from ascendsim.frontends.onnx.importer import Importer
from ascendsim.frontends.onnx.reading import opset_versions, read_model
from ascendsim.frontends.onnx.shapes import ShapePlan, plan_shapes
from ascendsim.frontends.onnx.tensors import Absent
from ascendsim.frontends.onnx.weights import random_weight, roles
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Constant, Graph
from ascendsim.graph.verify import verify
from ascendsim.opset import OpSet
from ascendsim.passes.engine import select_outputs
from ascendsim.passes.infer import Inference
from ascendsim.passes.quant.amct_forms import refused_forms

Weights = Literal["file", "random"]


def load_onnx(
    source: Union[str, Path, bytes, onnx.ModelProto],
    *,
    opset: OpSet,
    batch: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    weights: Weights = "file",
    seed: int = 0,
    check_operators: bool = True,
    outputs: Sequence[str] | str | None = None,
    fold: bool = True,
    folder: Path | None = None,
) -> Graph:
    """Reads an ONNX model of opset 7 or newer into a graph in the forms of the newest operator set.

    Types and shapes are inferred, shape arithmetic is folded, functions are inlined, operators that `opset`
    lacks are expanded where their ONNX schema says how. Nothing in a file is executed, and nothing is
    allocated because a file claims a size.

    Args:
        source: Path of an .onnx file, its bytes, or a `ModelProto`.
        opset: The operators that are supported.
        batch: New batch size: the first dimension of every input that has the model's batch there. What
            exporters baked into constants is rewritten where that is provable.
        shapes: New shapes by input name.
        weights: "file": tensors whose external file is missing become shape-only. "random": they get seeded
            values by role.
        seed: Of the random weights.
        check_operators: Whether operators without a definition are an error; else the graph holds them as
            they are.
        outputs: What to keep, "node:index" or tensor names; nodes that nothing of it needs are dropped, known
            operators or not.
        folder: Where the external data of a `ModelProto` lies.
        fold: Whether shape arithmetic that is known becomes constants; else every node of the file stays.

    Returns:
        A verified graph; `metadata` holds "format", "opset", "producer", "inputs", "file", and "atc": why ATC
            would not take the file.

    Raises:
        InputError: If the source cannot be read or an option does not fit the model.
        UnsupportedOperatorError: Lists every operator without a definition.
        GraphError: If the model breaks a rule, or the batch size cannot be changed; names the node or tensor.
    """
    if weights not in ("file", "random"):
        raise InputError("option weights", 'must be "file" or "random"', repr(weights))
    model, own_folder, name = read_model(source)
    versions = opset_versions(model, name)
    try:
        graph = Importer(model, versions, opset, own_folder or folder, _absent(model, weights, seed)).run()
    except (
        TypeError,
        ValueError,
    ) as error:  # fields of a damaged file: text that is no text, enumerations out of range
        raise InputError(
            f"model {name!r}", f"is damaged: {error}", remedy="download or export it again"
        ) from error
    if batch is not None or shapes:
        graph = _with_shapes(graph, opset, batch, shapes)
    if outputs is not None:
        select_outputs(graph, outputs)
    if fold:
        Inference(opset).finish(graph)
    else:
        Inference(opset).forget_values(graph)
    refused = (*refusals_of(model, name), *refused_forms(graph))
    graph.metadata.update(
        format="onnx",
        opset=versions[""],
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        inputs=tuple(tensor.name for tensor in graph.inputs),
        file=name,
        **({"atc": refused} if refused else {}),
    )
    verify(graph, opset if check_operators else None)
    return graph


def _with_shapes(
    graph: Graph, opset: OpSet, batch: int | None, shapes: Mapping[str, Sequence[int]] | None
) -> Graph:
    plan = plan_shapes(graph, batch, shapes)
    if plan.batches is not None:
        # what is open in front may be a length too, which needs nothing but inference
        as_written = copy_graph(graph) if plan.dynamic and batch is None else None
        try:
            return with_batch(graph, opset, plan)
        except AscendSimError:
            if as_written is None:
                raise
            try:
                return _inferred(as_written, opset, plan)
            except AscendSimError:
                pass
            raise
    return _inferred(graph, opset, plan)


def _inferred(graph: Graph, opset: OpSet, plan: ShapePlan) -> Graph:
    """The graph with the shapes of its inputs as planned, nothing rewritten."""
    inference = Inference(opset)
    inference.restart(graph)
    for tensor in graph.inputs:
        tensor.shape = plan.wanted.get(tensor.name, tensor.shape)
    inference.visit_all(graph.topological())
    return graph


def _absent(model: onnx.ModelProto, weights: Weights, seed: int) -> Absent:
    """What becomes of a tensor whose external file is missing."""
    if weights == "file":
        return lambda proto, dtype, shape, reason: Constant(absent_because=reason)
    readers = roles(model.graph)

    def fill(proto: onnx.TensorProto, dtype: DType, shape: tuple[int, ...], reason: str) -> Constant:
        return Constant(
            loader=lambda: random_weight(seed, proto.name, dtype, shape, readers.get(proto.name)),
            computed=True,
        )

    return fill
