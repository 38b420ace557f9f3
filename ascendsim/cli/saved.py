"""Saved models on the command line: `ascendsim compile --output model.asim` and `ascendsim run
model.asim`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.cli.model_options import add_chip_options, add_model_options, check_folder, model_path
from ascendsim.cli.own import own_operators
from ascendsim.core.errors import InputError

if TYPE_CHECKING:
    from ascendsim.compiler.model import CompiledModel

SUFFIX = ".asim"
_ATC_SUFFIX = ".om"
_KEPT = ("model", "model_option", "framework", "seed", "operators")  # options that a saved model leaves open


def saved_model(args: argparse.Namespace) -> CompiledModel | None:
    """The compiled model of a file that ends in .asim; None for all other files.

    Raises:
        InputError: If the file is no saved model, or options ask for another compilation.
    """
    path = model_path(args)
    if path is None or not path.endswith(SUFFIX):
        return None
    parser = argparse.ArgumentParser()
    add_model_options(parser, optional=True)
    add_chip_options(parser)
    for name, default in vars(parser.parse_args([])).items():
        if name not in _KEPT and getattr(args, name) != default:
            raise InputError(
                f"option --{name}",
                "has no effect on a compiled model",
                remedy="compile the network again with it",
            )
    if getattr(args, "log", "null") != "null":
        remedy = "compile the network again with it"
        raise InputError("option --log", "has no effect on a compiled model", remedy=remedy)
    from ascendsim.api.saving import load_compiled

    return load_compiled(path, own_operators(args))


def target_of(path: str | None) -> Path | None:
    """Where a compiled model goes: a folder and a name, to which the ending is added as ATC adds its own; a
    name that has ATC's gets this one instead. Checked before any work is done.

    Raises:
        InputError: If it names no file, or one whose folder cannot be written or made.
    """
    if path is None:
        return None
    form = f"must be a folder and a name, to which {SUFFIX} is added"
    if path.endswith(("/", os.sep)) or Path(path).name in ("", ".."):
        raise InputError("option --output", form, repr(path), "for example --output=out/resnet50")
    bare = path.removesuffix(_ATC_SUFFIX)
    target = Path(bare if bare.endswith(SUFFIX) else bare + SUFFIX)
    check_folder(str(target.parent))
    return target
