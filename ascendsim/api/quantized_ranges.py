"""`thresholds`: T and clipping of a network that came in int8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ascendsim.compiler.pipeline import check_operators
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.core.table import GENERAL, Row, Table
from ascendsim.core.threads import fixed_threads
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef
from ascendsim.quantisation.data import batches
from ascendsim.quantisation.ranges import Rounding, roundings
from ascendsim.runtime.plain import evaluate_plain

_COLUMNS = (
    "Tensor", "Kind", "Operator", "Type", "Scale Min", "Scale Max", "Zero Point", "T", "Largest",
    "Clipped(%)", "At the ends(%)",
)  # fmt: skip


@fixed_threads()
@checked(graph="asim.load makes one", operators="write operators=[MY_OPERATOR]")
def thresholds(graph: Graph, data: Any = None, *, operators: Sequence[OpDef] = ()) -> Table:
    """What the scales of an int8 network mean: T, where values saturate, and how many of the data do.

    Reads pairs of QuantizeLinear and DequantizeLinear, operators of integers (QLinearConv and its kin) and
    CANN's own (AscendQuant, AscendRequant). T = 127 * scale for int8 with zero point 0.

    Args:
        graph: A quantised network from `load`.
        data: As `quantize` takes it; without it what the file says alone. Fixed shapes and no control flow
            then.
        operators: Operators of your own, the same as for `load`.

    Returns:
        One row a place: activations that are rounded, weights that are integers. "Largest" is the largest
        magnitude (of weights as the file has them), "Clipped(%)" the share of the elements beyond T. Where an
        operator hands on integers alone, "At the ends(%)" is the share that is the smallest or the largest
        integer: no less than what was clipped. Cells are None where nothing is known.

    Raises:
        InputError: If the network has no such place, or the data do not fit it.
        UnsupportedOperatorError: Lists all operators that are not known.
    """
    opset = opset_with(operators)
    check_operators(graph, opset)
    places = roundings(graph)
    if not places:
        remedy = "asim.quantize makes an int8 network of a float one, and shows its T"
        raise InputError(f"model {graph.name!r}", "rounds nothing to integers", remedy=remedy)
    if data is not None:
        _count(graph, data, places, opset)
    rows = tuple(_row(place) for place in places)
    return Table("thresholds", _COLUMNS, rows, dict.fromkeys(_COLUMNS[4:], GENERAL))


def _count(graph: Graph, data: Any, places: list[Rounding], opset: Any) -> None:
    """Runs the network over the data."""
    by_tensor: dict[Tensor, list[Rounding]] = {}
    for place in places:
        if not place.weights:
            by_tensor.setdefault(place.tensor, []).append(place)
    for node in graph.nodes:
        if node.subgraphs:
            rule = f"has control flow ({node.op_type}), in which nothing can be counted"
            raise InputError(f"model {graph.name!r}", rule, remedy="leave data out: T stands in the file")

    def see(tensor: Tensor, array: Array) -> None:
        for place in by_tensor.get(tensor, ()):
            place.see(array)

    for batch in batches(graph, data):
        for tensor in graph.inputs:
            see(tensor, batch[tensor.name])
        evaluate_plain(graph, opset, batch, see=see)


def _row(place: Rounding) -> Row:
    share = 100 * place.beyond / place.seen if place.seen else None
    scale, zeros = place.scale, place.zero_point
    one_scale = scale is not None and (place.weights or scale.size == 1)
    known = one_scale and (place.seen or place.weights) and not math.isnan(place.largest)
    return (
        place.tensor.name,
        "weights" if place.weights else "data",
        place.node.op_type,
        place.kind.value,
        None if scale is None else float(scale.min()),
        None if scale is None else float(scale.max()),
        float(zeros.reshape(-1)[0]) if zeros.size and (zeros == zeros.reshape(-1)[0]).all() else None,
        place.threshold,
        place.largest if known else None,
        share if place.exact else None,
        None if place.exact else share,
    )
