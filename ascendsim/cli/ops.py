"""`ascendsim ops list` and `ascendsim ops show NAME`: which operators are supported, and under which
constraints each runs on the chips.
"""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ascendsim.cli.common import PIPE_WIDTH, print_table
from ascendsim.core.errors import InputError, suggest

if TYPE_CHECKING:
    from ascendsim.opset import OpDef
    from ascendsim.soc import SocSpec

NAME = "ops"
HELP = "list the supported operators, or show the constraints of one"
_LAYOUTS = {
    "feature": "NC1HWC0 for tensors of rank 4, blocks of C0 channels; others row-major",
    "matmul": "FRACTAL_NZ, blocks of 16 x C0; ND where the chip converts as it reads",
    "follow": "that of its inputs, if they agree",
    "nd": "row-major (ND)",
}


def configure(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show")
    actions.add_parser("list", help="every operator with its CANN type and format wish")
    show = actions.add_parser("show", help="inputs, attributes, format, and by chip engine and types of one")
    show.add_argument("name", help="Conv, or with its domain ascend::Proposal")


def run(args: argparse.Namespace) -> int:
    if args.action == "show":
        _show(args.name)
        return 0
    from ascendsim.ops import opset_with

    rows = [
        (
            _written(op),
            op.cann or op.name,
            op.layout.value,
            "AI Core" if op.lower is not None else "AI CPU",
        )
        for op in sorted(opset_with(), key=lambda op: op.key)
    ]
    print_table(("operator", "CANN type", "layout", "engine"), rows)
    print(f"{len(rows)} operators")
    return 0


def _written(op: OpDef) -> str:
    return f"{op.domain}::{op.name}" if op.domain else op.name


def _show(name: str) -> None:
    from ascendsim.frontends.onnx.describing import described
    from ascendsim.ops import opset_with

    known = {_written(op): op for op in opset_with()}
    short = {op.name: op for op in known.values()} | {op.name: op for op in known.values() if not op.domain}
    op = known.get(name) or short.get(name)
    if op is None:
        raise InputError(f"operator {name!r}", "is not supported", remedy=suggest(name, (*known, *short)))
    print(f"{_written(op)}: CANN's {op.cann or op.name}{', by attributes another one' if op.cann_of else ''}")
    print(f"format: {_LAYOUTS[op.layout.value]}")
    print(f"precision: {op.facts.precision.value} list ({op.facts.kind.value})")
    if op.steered_by:
        ports = ", ".join(map(str, op.steered_by))
        print(f"must be known before it runs: values of input {ports}")
    found = described(op.name, op.domain)
    if found is not None:
        since, rows = found
        print_table((f"opset {since}", "name", "", "types in a model"), rows)
    else:
        most = "any number of inputs" if op.most_inputs is None else f"at most {op.most_inputs} inputs"
        print(f"no ONNX schema: {most}; its rule is {op.infer.__module__}.{op.infer.__name__}")
    print_table(
        ("chips", "engine", "floating point of the chip", "integers on the AI Core"), list(_by_chip(op))
    )
    text = inspect.getdoc(op.lower) if inspect.isfunction(op.lower) else None
    if text:
        print(textwrap.fill("on the AI Core: " + " ".join(text.split()), PIPE_WIDTH))


def _by_chip(op: OpDef) -> Iterator[tuple[str, str, str, str]]:
    """One row for chips of which the same is known."""
    from ascendsim.soc.loading import load, names

    alike: dict[tuple[str, str, str], list[str]] = {}
    for name in names():
        alike.setdefault(_constraints(op, load(name)), []).append(name)
    for (engine, floats, integers), chips in alike.items():
        yield (", ".join(chips), engine, floats, integers)


def _constraints(op: OpDef, soc: SocSpec) -> tuple[str, str, str]:
    from ascendsim.core.dtypes import DType
    from ascendsim.ops.shared.aicpu import JUDGED, ai_core_integers, ai_cpu_rules
    from ascendsim.opset.facts import Kind
    from ascendsim.opset.lower_context import LowerContext

    cann, column = op.cann or op.name, soc.kernels.ai_cpu_table
    if op.lower is None or cann in ai_cpu_rules(column):
        return "AI CPU", "", ""
    listed = ai_core_integers(cann, column)
    floats = "float16 float32" + (" bfloat16" if soc.has_bfloat16 else "")
    if listed is None:
        return "AI Core", floats, "no list: those of the instructions"
    long = LowerContext.of(soc, frozenset(), {}).supports("vconv", DType.INT64)
    if op.facts.kind is Kind.ELEMENTWISE and not long:  # the vector unit of the chip has no int64
        listed = tuple(name for name in listed if name != DType.INT64.value)
    lacking = [name for name in JUDGED if name not in listed]
    return "AI Core", floats, f"{' '.join(listed) or 'none'}; AI CPU: {' '.join(lacking) or 'none'}"
