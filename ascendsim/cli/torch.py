"""`ascendsim torch ops [MODULE:FUNCTION]`: PyTorch operators that the simulator knows, and what of a user's
model is missing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ascendsim.cli.common import print_table
from ascendsim.core.errors import AscendSimError, InputError

NAME = "torch"
HELP = "list the PyTorch operators that have a converter, or those that a model calls"


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ops")
    ops = actions.add_parser("ops", help="the converter table, or what of a model is missing")
    text = "function that returns (module, inputs); it is run (MODULE: nets.bert, or a path nets/bert.py)"
    ops.add_argument("function", nargs="?", metavar="MODULE:FUNCTION", help=text)


def run(args: argparse.Namespace) -> int:
    from ascendsim.frontends.torch.coverage import converters

    if args.function is not None:
        return _missing(args.function)
    rows = converters()
    print_table(("PyTorch operator", "converter"), rows)
    print(f"{len(rows)} operators")
    return 0


def _missing(name: str) -> int:
    from ascendsim.frontends.torch.coverage import operators_of

    uses = operators_of(*_model(name))
    rows = [
        (use.operator, use.graph, f"{use.calls:,}", "yes" if use.known else "MISSING", use.line)
        for use in sorted(uses, key=lambda use: (use.known, use.graph, -use.calls, use.operator))
    ]
    print_table(("PyTorch operator", "graph", "calls", "converter", "first call"), rows)
    missing = len({use.operator for use in uses if not use.known})
    print(f"{len({use.operator for use in uses})} operators, {missing} without a converter")
    return 1 if missing else 0


def _model(name: str) -> tuple[Any, Sequence[Any]]:
    """The module and the inputs that a user's function gives.

    Raises:
        InputError: If there is no such function, it fails, or gives something else.
    """
    from ascendsim.frontends.torch.requirement import require_torch

    require_torch()
    subject = f"argument {name!r}"
    home, _, word = name.rpartition(":")
    if not home or not word:
        raise InputError(subject, "must be MODULE:FUNCTION", remedy="for example nets.bert:example")
    path = Path(home)
    if path.suffix == ".py":
        if not path.is_file():
            raise InputError(subject, f"names a file that does not exist: {home}")
        home = path.stem
    place = str(path.resolve().parent if path.suffix == ".py" else Path.cwd())
    sys.path.insert(0, place)
    try:
        made = getattr(import_module(home), word)()
    except AscendSimError:
        raise
    except Exception as error:
        raise InputError(subject, f"cannot be run: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(place)
    if not isinstance(made, tuple) or len(made) != 2 or not callable(made[0]):
        raise InputError(subject, "must return a module and its inputs", type(made).__name__)
    module, inputs = made
    return module, inputs if isinstance(inputs, (list, tuple)) else (inputs,)
