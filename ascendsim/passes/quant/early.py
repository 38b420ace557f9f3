"""Bytes are made before what only moves elements, not behind it.

    GlobalAveragePool -> Flatten -> AscendQuant        =>    GlobalAveragePool -> AscendQuant -> Flatten
    LayerNormalization -> Gather -> QuantizeLinear     =>    LayerNormalization -> QuantizeLinear -> Gather

CANN's quantiser puts AscendQuant right in front of a fully connected layer. There it is a task of its own,
since what moves elements has no work that it could join; in front it is a step of the operator that makes
the values, which stores both if others read them too. Exact: each element is rounded by itself, by one step.
"""

from __future__ import annotations

from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import InferContext, OpSet
from ascendsim.passes.rewriting.outputs import is_output, typed_like
from ascendsim.passes.rewriting.removal import remove_dead_from
from ascendsim.passes.rewriting.replace import replace_root, replacing
from ascendsim.passes.rewriting.report import PatternRecord

NAME = "QuantBeforeMoves"
LEAVING = "QuantOfOutputs"
EARLY = "quantised_early"  # mark in Node.origin: what makes its data may store floats and bytes
# Reshapes of a model's own conversions are gone by then (`qdq`)
_MOVES = {
    "AscendQuant": ("Flatten", "Reshape", "Squeeze", "Unsqueeze", "Gather"),
    "QuantizeLinear": ("Gather",),
}


def quantise_early(graph: Graph, opset: OpSet) -> list[PatternRecord]:
    """Moves conversions to bytes to the front; one record if there was one to move.

    Args:
        graph: Changed in place.
        opset: Operators.
    """
    record = PatternRecord("graph", NAME, "move_quant")
    for node in list(graph.nodes):
        quant = node
        while (mover := _mover(quant)) is not None:
            record.matched += 1
            reason = _refusal(graph, mover, quant)
            if reason is not None:
                record.refuse(quant.name, reason)
                break
            record.effect((mover.name, quant.name))
            quant = _swap(graph, mover, quant, opset)
    return [record] if record.matched else []


def _mover(quant: Node) -> Node | None:
    """What moves the elements that a conversion reads, and that some operator has made."""
    if quant.op_type not in _MOVES:
        return None
    mover = quant.required(0).producer
    if mover is None or mover.domain or mover.op_type not in _MOVES[quant.op_type]:
        return None
    return None if mover.required(0).producer is None else mover


def _refusal(graph: Graph, mover: Node, quant: Node) -> str | None:
    if len(mover.output.uses) != 1 or is_output(graph, mover.output):
        return "the floats are read by others too"
    if quant.control or mover.control or quant.followers or mover.followers:
        return "a control edge holds it"
    if any(tensor is not None and tensor.shape != () for tensor in quant.inputs[1:]):
        return "it has a step for each channel"
    return None


def _swap(graph: Graph, mover: Node, quant: Node, opset: OpSet) -> Node:
    """The new conversion; the last tensor keeps its name."""
    with replacing(graph, (quant, mover)):
        early = graph.add_node(
            quant.op_type, [mover.required(0), *quant.inputs[1:]], 1, name=f"{quant.name}_early"
        )
        late = graph.add_node(mover.op_type, [early.output, *mover.inputs[1:]], 1, name=f"{mover.name}_int8")
        for made, old in ((early, quant), (late, mover)):
            made.domain = old.domain
            made.attributes.update(old.attributes)
            made.origin.update(old.origin)
            opset.get(made).infer(InferContext(made))
            graph.place_before(made, quant)
        early.origin[EARLY] = True
        replace_root(graph, quant, late.output)
    remove_dead_from(mover)
    return early


def quantise_what_leaves(graph: Graph, opset: OpSet) -> list[PatternRecord]:
    """Conversions that went in front of what moves elements read the row-major copy of floats that leave the
    network, if both would change their format: the bytes are row-major then by themselves.

        x -> TransData -> Cast -> output                  x -> TransData -> Cast -> output
        x -> QuantizeLinear -> TransData -> Gather   =>                     Cast -> QuantizeLinear -> Gather

    Exact: the Cast to a wider type changes no value.

    Args:
        graph: Changed in place; types and formats chosen, Cast and TransData in place.
        opset: Operators.
    """
    record = PatternRecord("graph", LEAVING, "quant_of_output")
    for quant in list(graph.nodes):
        if not quant.origin.get(EARLY) or is_output(graph, quant.output):
            continue
        readers, cast = quant.output.consumers, _leaving(graph, quant)
        if cast is None or len(readers) != 1 or readers[0].op_type != "TransData":
            continue
        record.matched += 1
        moved = readers[0]
        if quant.control or moved.control or quant.followers or moved.followers:
            record.refuse(quant.name, "a control edge holds it")
            continue
        with replacing(graph, (moved, quant)):
            made = graph.add_node(
                quant.op_type, [cast.output, *quant.inputs[1:]], 1, name=f"{quant.name}_leaving"
            )
            made.domain = quant.domain
            made.attributes.update(quant.attributes)
            made.origin.update(quant.origin)
            typed_like(made.output, moved.output)
            graph.place_before(made, moved)
            replace_root(graph, moved, made.output)
        remove_dead_from(quant)
        record.effect((cast.name, quant.name))
    return [record] if record.matched else []


def _leaving(graph: Graph, quant: Node) -> Node | None:
    """The Cast by which the floats that a conversion reads leave the network, row-major and wider."""
    floats = quant.required(0)
    for moved in floats.consumers:
        if moved.op_type != "TransData" or moved.output.format is not Format.ND:
            continue
        for cast in moved.output.consumers:
            wide = cast.op_type == "Cast" and cast.output.element_type.itemsize > floats.element_type.itemsize
            if wide and cast.output.element_type.is_float and is_output(graph, cast.output):
                return cast
    return None
