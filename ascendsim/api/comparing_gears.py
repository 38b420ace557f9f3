"""Gears against the other ways to run several input shapes: one static model a shape, and open shapes
scheduled by the host.
"""

from __future__ import annotations

from typing import Any

from ascendsim.api.comparing import Comparison, compare
from ascendsim.api.compiling import compile
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.compiler.gears import GearedModel
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.passes.gears import KINDS, with_input_shapes


@checked(graph="asim.load and asim.GraphBuilder make one")
def compare_gears(graph: Graph, **options: Any) -> Comparison:
    """Simulates every gear three times: in the model with gears, as a static model of its own, and with open
    shapes.

    Args:
        graph: With open dimensions in its inputs.
        **options: Of `compile`, one of dynamic_batch_size, dynamic_image_size and dynamic_dims among them.

    Returns:
        A comparison whose rows are "gear 4", "static 4" and, on chips that run open shapes, "host 4" for
        every gear; times only. The memory of a model with gears is that of its largest gear in all rows.

    Raises:
        InputError: If there are no gears, or an option breaks a rule.
    """
    geared = compile(graph, **options)
    if not isinstance(geared, GearedModel):
        raise InputError("compare_gears", f"needs gears: one of {', '.join(KINDS)}")
    rest = {name: value for name, value in options.items() if name not in KINDS}
    open_model = compile(graph, **rest) if geared.soc.launch.open_shapes else None
    variants: dict[str, Result | CompiledModel] = {}
    for gear in geared.gears:
        name, shapes = ",".join(map(str, gear)), geared.shapes_of_gear(gear)
        variants[f"gear {name}"] = simulate(geared, shapes=shapes)
        variants[f"static {name}"] = compile(with_input_shapes(graph, geared.opset, shapes), **rest)
        if open_model is not None:
            variants[f"host {name}"] = simulate(open_model, shapes=shapes)
    return compare(variants)
