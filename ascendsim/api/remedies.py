"""What a user can do about a result that left float16, and what it costs."""

from __future__ import annotations

from dataclasses import replace

from ascendsim.compiler.compiling import compile_graph
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.options import MIXED, default_of
from ascendsim.machine import run as run_machine
from ascendsim.runtime.numerics import Finding, Numerics


def numerics_line(seen: Numerics, model: CompiledModel, duration_us: float) -> str:
    """One line about the numbers of a run: the first overflow with its remedy, else what else was found; ""
    if every result fits its type.

    Args:
        seen: What the run saw.
        model: What ran. The price of the remedy is found by compiling and timing it anew.
        duration_us: Time of the run in us of simulated time.
    """
    if not seen.overflows or seen.overflows[0].kind != "overflow":
        return str(seen) if seen.findings else ""
    ways = ["--keep_dtype"]
    if model.planned and model.options.precision_mode == default_of("precision_mode"):
        options = replace(model.options, precision_mode=MIXED, save_graphs=None)
        mixed = compile_graph(model.source, options)
        if not _still_in(seen.overflows[0], mixed):
            longer = run_machine(mixed.program, mixed.soc).duration_us / duration_us - 1
            ways.append(f"--precision_mode {MIXED} ({100 * longer:+.0f} %)")
    return f"{seen}; keep it in float32: {', or '.join(ways)}"


def _still_in(finding: Finding, model: CompiledModel) -> bool:
    """Whether the operator's result has the type that it overflows in `model` too: mixed precision keeps
    products in float16.
    """
    names = {finding.name, *finding.sources}
    return any(
        names & {node.name, *node.origin.get("source_names", ())}
        and any(output.dtype and output.dtype.value == finding.dtype for output in node.outputs)
        for node in model.graph.nodes
    )
