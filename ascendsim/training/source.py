"""A graph for inference as a graph with forward and backward nodes."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from ascendsim.core.errors import GraphError, InputError, suggest
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Constant, Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.precision.integer_sums import WIDE
from ascendsim.passes.rewriting.replace import replace_outputs
from ascendsim.training import scopes
from ascendsim.training.backward import ASCEND, Pen, ports_without
from ascendsim.training.losses import LOSSES
from ascendsim.training.reverse import differentiate, unit_seed, unused
from ascendsim.training.rules import default_rules
from ascendsim.training.step import Joint


def joint_of_graph(
    graph: Graph,
    opset: OpSet,
    loss: str,
    output: str | None = None,
    parameters: Sequence[str] | None = None,
) -> Joint:
    """Adds a loss and the backward nodes to a copy of a graph; batch normalisation goes into training.

    Args:
        graph: Stays as it is.
        opset: Operators.
        loss: "cross_entropy", "mse", or the name of an output that is the loss.
        output: What "cross_entropy" and "mse" are made of; the only output by default.
        parameters: Names of weights, or patterns such as "*.weight"; by default all floating-point constants
            of more than one element that the loss depends on.

    Raises:
        InputError: If an option names nothing, or not one thing.
        GraphError: If the graph cannot be differentiated.
    """
    new = copy_graph(graph)
    held = ", ".join(f"{node.name} ({node.op_type})" for node in new.holders)
    if held:
        raise GraphError(
            f"graph {graph.name!r}", "must be without control flow to be trained", held, "unroll it"
        )
    initial: dict[str, Constant] = {}
    updated = _train_batch_norms(new, opset, initial)
    asked = _parameters(new, parameters, {*updated})
    end = _loss(new, opset, loss, output)
    seed = unit_seed(Pen(new, opset), end)
    found = differentiate(new, opset, {end: seed}, asked)
    lost = [tensor.name for tensor in asked if tensor not in found]
    if lost and parameters is not None:
        raise unused(lost)
    trained = [tensor for tensor in asked if tensor in found]
    if not trained:
        remedy = "give parameters=[...] that the loss depends on"
        raise InputError("option parameters", "must name weights that the loss depends on", remedy=remedy)
    gradients = {tensor.name: found[tensor] for tensor in trained}
    for tensor in trained:
        _become_input(new, tensor, initial)
    return Joint(new, end, seed, gradients, updated, initial)


def _loss(graph: Graph, opset: OpSet, loss: str, output: str | None) -> Tensor:
    names = [tensor.name for tensor in graph.outputs]
    if loss in LOSSES:
        if output is None and len(names) > 1:
            rule = f"must say which output the loss {loss} is made of: {', '.join(names)}"
            raise InputError("option output", rule, remedy=f"give output={names[0]!r}")
        chosen = names[0] if output is None else output
        if chosen not in names:
            remedy = suggest(chosen, names)
            raise InputError("option output", "must be an output of the graph", repr(chosen), remedy)
        return LOSSES[loss](Pen(graph, opset, scopes.LOSS, **{WIDE: True}), graph.tensors[chosen])
    if loss not in names:
        rule = f"must be {', '.join(LOSSES)} or an output of the graph"
        raise InputError("option loss", rule, repr(loss), suggest(loss, [*LOSSES, *names]))
    return graph.tensors[loss]


def _parameters(graph: Graph, wanted: Sequence[str] | None, statistics: set[str]) -> list[Tensor]:
    candidates = [
        tensor for tensor in graph.constants if tensor.name not in statistics and _is_weight(tensor)
    ]
    if wanted is None:
        return [tensor for tensor in candidates if tensor.elements > 1]
    chosen: dict[Tensor, None] = {}
    for pattern in wanted:
        matching = [tensor for tensor in candidates if fnmatchcase(tensor.name, pattern)]
        if not matching:
            names = [tensor.name for tensor in candidates]
            rule = "must be names of floating-point weights, or patterns that some of them have"
            raise InputError("option parameters", rule, repr(pattern), suggest(pattern, names))
        chosen.update(dict.fromkeys(matching))
    return list(chosen)


def _is_weight(tensor: Tensor) -> bool:
    """A float that some operator differentiates by."""
    kind = tensor.origin_dtype or tensor.dtype
    return kind is not None and kind.is_float and any(_flows(node, port) for node, port in tensor.uses)


def _flows(node: Node, port: int) -> bool:
    rule = default_rules().get((node.domain, node.op_type))
    return rule is None or port not in ports_without(rule)


def _become_input(graph: Graph, tensor: Tensor, initial: dict[str, Constant]) -> None:
    assert tensor.constant is not None
    initial[tensor.name], tensor.constant = tensor.constant, None
    graph.inputs.append(tensor)


def _train_batch_norms(graph: Graph, opset: OpSet, initial: dict[str, Constant]) -> dict[str, Tensor]:
    """Batch normalisation takes mean and variance of the batch; returns the running ones by input."""
    updated: dict[str, Tensor] = {}
    for node in [node for node in graph.topological() if _is_batch_norm(node)]:
        x, scale, offset, *running = (node.required(port) for port in range(5))
        pen = Pen(graph, opset, node.name, **node.origin)
        sums = pen.ops("BNTrainingReduce", x, outputs=2, domain=ASCEND)
        epsilon, momentum = float(node.attr("epsilon", 1e-5)), float(node.attr("momentum", 0.9))
        inputs = (x, *sums, scale, offset, *running)
        numbers: dict[str, Any] = {"epsilon": epsilon, "momentum": momentum}
        made = pen.ops("BNTrainingUpdate", *inputs, outputs=5, domain=ASCEND, **numbers)
        replace_outputs(graph, node, made[: len(node.outputs)])
        for tensor, new in zip(running, made[1:3], strict=True):
            if tensor.constant is not None:
                _become_input(graph, tensor, initial)
                updated[tensor.name] = new
    return updated


def _is_batch_norm(node: Node) -> bool:
    return not node.domain and node.op_type == "BatchNormalization"
