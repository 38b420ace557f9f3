"""Several model files on one command line: what tells them apart, which shapes are whose, and whether they
take the same inputs, so that their outputs can be compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from ascendsim.cli.common import parse_input_shape
from ascendsim.cli.model_options import load_graph, model_path
from ascendsim.core.errors import InputError, suggest

if TYPE_CHECKING:
    from ascendsim.compiler.model import CompiledModel
    from ascendsim.graph.ir import Array, Graph


def model_files(args: argparse.Namespace) -> tuple[str | None, ...]:
    """The model of the command line and those beside it; (None,) if there is none.

    Raises:
        InputError: If one is named twice.
    """
    files = (model_path(args), *getattr(args, "others", ()))
    for file in files:
        if files.count(file) > 1:
            raise InputError("compare", f"names model {file!r} twice", remedy="name each file once")
    return files


def one_file(args: argparse.Namespace, option: str) -> None:
    """Refuses several models where an option takes one.

    Raises:
        InputError: If there are several.
    """
    if args.others:
        count = 1 + len(args.others)
        raise InputError(f"option {option}", "takes one model", f"{count}", "name one file")


def names_of_files(files: Sequence[str]) -> tuple[str, ...]:
    """What tells files apart: their names without the ending, with it where these are the same, with as many
    of their folders where those are the same too.

    >>> names_of_files(["nets/a.onnx", "b.onnx"])
    ('a', 'b')
    >>> names_of_files(["old/a.onnx", "new/a.onnx", "new/a.mindir"])
    ('old/a.onnx', 'new/a.onnx', 'new/a.mindir')
    """
    paths = [PurePath(file) for file in files]
    names = [path.stem for path in paths]
    for length in range(1, max(len(path.parts) for path in paths) + 1):
        if len(set(names)) == len(names):
            break
        names = ["/".join(path.parts[-length:]) for path in paths]
    return tuple(names)


def load_one(args: argparse.Namespace, file: str | None, batch: int | None) -> Graph:
    """The graph of one of the files, with those of the shapes given that are of its inputs."""
    changes = {"model": file, "model_option": None, "batch": batch}
    if getattr(args, "others", ()) and args.input_shape is not None:
        changes["input_shape"] = _own_shapes(args, file)
    return load_graph(argparse.Namespace(**{**vars(args), **changes}))


def arrays_for(
    first: CompiledModel, arrays: Mapping[str, Array], model: CompiledModel
) -> dict[str, Array] | None:
    """Inputs of the first model as those of another one: by name, or by position where no name is the same;
    None if the other one takes other inputs (not as many, of other types or shapes).
    """
    theirs, own = first.source.inputs, model.source.inputs
    by_name = {tensor.name: tensor for tensor in theirs}
    if not any(tensor.name in by_name for tensor in own):
        by_name = {other.name: one for one, other in zip(theirs, own, strict=False)}
    found = {}
    for other in own:
        one = by_name.get(other.name)
        if one is None or one.dtype != other.dtype or one.shape != other.shape:
            return None
        found[other.name] = arrays[one.name]
    return found if len(theirs) == len(own) else None


def _own_shapes(args: argparse.Namespace, file: str | None) -> str | None:
    """Those of --input_shape that are of inputs of this file.

    Raises:
        InputError: If no file has an input of that name.
    """
    shapes = parse_input_shape(args.input_shape)
    names = {name: _input_names(args, name) for name in (args.model, *args.others)}
    known = [name for inputs in names.values() for name in inputs]
    for name in shapes:
        if name not in known:
            raise InputError(
                f"option --input_shape: input {name!r}",
                "is of none of the models",
                remedy=suggest(name, known),
            )
    own = (name for name in shapes if name in names[str(file)])
    return ";".join(f"{name}:{','.join(map(str, shapes[name]))}" for name in own) or None


def _input_names(args: argparse.Namespace, file: str) -> tuple[str, ...]:
    changes = {"model": file, "model_option": None, "batch": None, "input_shape": None}
    graph = load_graph(argparse.Namespace(**{**vars(args), **changes}))
    return tuple(tensor.name for tensor in graph.inputs)
