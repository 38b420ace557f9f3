"""Saved models: a compiled model in a file, and back (docs/file_format.md).

A file holds the device graph, its weights, the chip with all figures, and how the graph was lowered. Tasks
are made again by lowering when it is loaded, which is quick; passes, searches and measurements are not
repeated. A hash over all tasks and the memory plan makes sure that the result is the program that was saved,
tick for tick; a release that would lower the graph differently refuses the file. Reports of passes are not in
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np

from ascendsim.api.saving_manifest import (
    Weight,
    checked_manifest,
    differing_plugins,
    lowered,
    lowering_of,
    manifest_of,
    origins_restored,
    program_hash,
    written,
)
from ascendsim.api.saving_zip import read_entries, write_entries
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import checked
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError, InputError
from ascendsim.core.files import open_whole
from ascendsim.core.formats import align
from ascendsim.graph.ir import Constant, Graph, Tensor
from ascendsim.graph.text import parse_text, to_text
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef

_MANIFEST, _GRAPH, _WEIGHTS = "manifest.json", "graph.txt", "weights.bin"
_ALIGNMENT = 64  # bytes, of each weight in its entry
# Raised where a file is whole but its content makes no sense: something else wrote it.
_NONSENSE = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)


@checked(model="asim.compile makes one")
def save(model: CompiledModel, path: str | PathLike[str]) -> Path:
    """Writes a compiled model into a file, whole or not at all. Random weights are written with the values
    that they have.

    Args:
        model: From `compile`.
        path: The file; its usual ending is .asim.

    Returns:
        The file.

    Raises:
        InputError: If this is no compiled model of static shapes, or the file cannot be written.
    """
    if not isinstance(model, CompiledModel) or not model.planned:
        raise InputError(
            "the model to save", "must be a model of fixed shapes from asim.compile", type(model).__name__
        )
    target = Path(path)
    constants = list(constants_of(model.graph))
    manifest = manifest_of(model, _described(constants))
    text = to_text(model.graph, 0)
    twin = parse_text(text)
    origins_restored(twin, manifest.origins)
    for tensor, original in zip(constants_of(twin), constants, strict=True):
        tensor.constant = original.constant
    if program_hash(lowered(twin, manifest, model.opset)) != manifest.program:
        raise InputError(
            f"model {model.source.name!r}", "cannot be rebuilt from its parts", remedy="please report this"
        )
    texts = {_MANIFEST: json.dumps(written(manifest), indent=1).encode(), _GRAPH: text.encode()}
    with open_whole(target) as stream:
        write_entries(stream, texts, _WEIGHTS, _stored(constants))
    return target


@checked()
def load_compiled(path: str | PathLike[str], operators: Sequence[OpDef] = ()) -> CompiledModel:
    """Reads a model that `save` wrote. Nothing in the file is executed.

    The model simulates and computes exactly as the saved one did. Its reports of fusion and optimisation are
    empty, and its `source` is the device graph.

    Args:
        path: The file.
        operators: The operators of your own with which the model was compiled.

    Raises:
        InputError: If the file cannot be read, is damaged, is no saved model, or comes from a release that
            makes other programs.
    """
    subject = f"file {str(path)!r}"
    opset = opset_with(operators)
    content = read_entries(path, (_MANIFEST, _GRAPH, _WEIGHTS), _WEIGHTS)
    other_plugins = ""
    try:
        manifest = checked_manifest(json.loads(content[_MANIFEST]), subject)
        other_plugins = differing_plugins(manifest)
        graph = parse_text(content[_GRAPH].decode())
        origins_restored(graph, manifest.origins)
        _fill(graph, manifest.weights, content[_WEIGHTS])
        program = lowered(graph, manifest, opset)
    except InputError as error:
        if error.subject == subject:
            raise
        raise InputError(
            f"{subject}: {error.subject}", error.rule, error.actual, error.remedy or "save the model again"
        ) from None
    except AscendSimError as error:
        raise InputError(
            subject,
            f"holds a model that cannot be rebuilt: {error}",
            remedy=other_plugins or "compile it again",
        ) from None
    except _NONSENSE as error:
        raise InputError(
            subject, f"holds no model ({type(error).__name__}: {error})", remedy="save the model again"
        ) from None
    if program_hash(program) != manifest.program:
        rule = f"was saved by release {manifest.made_by}, whose programs differ from those of this one"
        raise InputError(subject, rule, remedy=other_plugins or "compile the model again")
    return CompiledModel(
        graph,
        program,
        manifest.soc,
        opset,
        graph,
        lowering=replace(lowering_of(manifest), known=None),
    )


def constants_of(graph: Graph) -> Iterator[Tensor]:
    """Constants of a graph and its subgraphs, in the order in which the text form has them."""
    yield from (tensor for tensor in graph.constants if tensor.producer is None)
    for node in graph.nodes:
        for _, body in sorted(node.subgraphs, key=lambda item: item[0]):
            yield from constants_of(body)


def _described(constants: list[Tensor]) -> tuple[Weight, ...]:
    weights, at = [], 0
    for tensor in constants:
        constant = tensor.constant
        if constant is None or not constant.available:
            weights.append(Weight("", (), -1, constant.absent_because if constant is not None else ""))
            continue
        array = constant.array()
        weights.append(Weight(DType.of(array.dtype).value, tuple(array.shape), at, ""))
        at += align(array.nbytes, _ALIGNMENT)
    return tuple(weights)


def _stored(constants: list[Tensor]) -> Iterator[bytes]:
    """Values one after another, each filled up to the alignment."""
    for tensor in constants:
        if tensor.constant is not None and tensor.constant.available:
            content = np.ascontiguousarray(tensor.constant.array()).tobytes()
            yield content
            yield bytes(align(len(content), _ALIGNMENT) - len(content))


def _fill(graph: Graph, weights: tuple[Weight, ...], content: bytes) -> None:
    """Gives the constants of a parsed graph their values.

    Raises:
        InputError: If there are more or fewer than the graph has, or one lies outside of the entry.
    """
    constants = list(constants_of(graph))
    if len(constants) != len(weights):
        raise InputError(
            "the manifest", f"must describe the {len(constants)} constants of the graph", len(weights)
        )
    for tensor, weight in zip(constants, weights, strict=True):
        if weight.offset < 0:
            tensor.constant = Constant(absent_because=weight.absent)
            continue
        dtype = DType.of(weight.dtype).numpy
        count = int(np.prod(weight.shape, dtype=object)) if weight.shape else 1
        if (
            min(weight.shape, default=0) < 0
            or weight.offset + count * dtype.itemsize > len(content)
            or weight.shape != tensor.static_shape
        ):
            raise InputError(f"weight {tensor.name!r}", "does not lie within the file", weight.offset)
        tensor.constant = Constant(np.frombuffer(content, dtype, count, weight.offset).reshape(weight.shape))
