"""Reverse mode on a graph: from the last node to the first, each rule adds what its node contributes.

Nodes that are added are called `Gradients/<forward node>/<operator>`, as in MindSpore. A tensor that several
nodes read gets the sum of what they contribute.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ascendsim.core.arguments import checked
from ascendsim.core.errors import GraphError, suggest
from ascendsim.graph.carried import GRAD
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.verify import verify
from ascendsim.ops import opset_with
from ascendsim.opset import OpDef, OpSet
from ascendsim.training.backward import Backward, Pen, Rule, ports_without
from ascendsim.training.rules import Key, default_rules
from ascendsim.training.scopes import GRADIENTS


@checked(graph="asim.load or asim.GraphBuilder makes one")
def gradient(
    graph: Graph,
    outputs: str | Sequence[str],
    wrt: str | Sequence[str],
    *,
    allow_unused: bool = False,
    operators: Sequence[OpDef] = (),
    rules: Mapping[Key, Rule] | None = None,
) -> Graph:
    """Gradients of the sum of some outputs, by reverse mode.

    Args:
        graph: Stays as it is; all shapes on the way must be known.
        outputs: Names of outputs of one number each.
        wrt: Names of tensors: inputs, weights, results of operators.
        allow_unused: Whether a tensor on which the outputs do not depend just gets no gradient.
        operators: Operators of your own, the same as for `load`.
        rules: Gradients of your own by (domain, operator); they win over the built-in ones.

    Returns:
        A new graph: the outputs of the old one, and behind them one `<name>.grad` for each of `wrt`.

    Raises:
        GraphError: If a name is unknown, an output is no single float, the way leads through control flow or
            through operators without a rule (all are listed), or the outputs do not depend on a tensor.
    """
    new = copy_graph(graph)
    opset = opset_with(operators)
    names = [outputs] if isinstance(outputs, str) else list(outputs)
    targets = [wrt] if isinstance(wrt, str) else list(wrt)
    ends, asked = [_tensor(new, name) for name in names], [_tensor(new, name) for name in targets]
    for tensor in (*ends, *asked):
        _check_float(tensor)
    pen = Pen(new, opset)
    seeds = {tensor: unit_seed(pen, tensor) for tensor in ends}
    found = differentiate(new, opset, seeds, asked, rules)
    lost = [name for name, tensor in zip(targets, asked, strict=True) if tensor not in found]
    if lost and not allow_unused:
        raise unused(lost)
    for name, tensor in zip(targets, asked, strict=True):
        if tensor in found:
            new.outputs.append(named(pen, found[tensor], f"{name}{GRAD}"))
    verify(new)
    return new


def unused(names: Sequence[str]) -> GraphError:
    """An error that lists what nothing depends on; raise it."""
    return GraphError(
        f"gradients of {', '.join(repr(name) for name in names)}",
        "are not there: no output depends on them",
        remedy="leave them out, or pass allow_unused=True",
    )


def unit_seed(pen: Pen, tensor: Tensor) -> Tensor:
    """The gradient of an output by itself: one.

    Raises:
        GraphError: If the output is not a single number.
    """
    if set(tensor.static_shape) - {1}:
        rule = "must be a single number to be differentiated"
        remedy = "reduce it, for example by ReduceSum, or give a loss"
        raise GraphError(f"output {tensor.name!r}", rule, f"of shape {tensor.static_shape}", remedy)
    one = np.ones(tensor.static_shape, (tensor.origin_dtype or tensor.element_type).numpy)
    return pen.constant(one, f"{GRADIENTS}/{tensor.name}/seed")


def named(pen: Pen, tensor: Tensor, name: str) -> Tensor:
    """The tensor under a name of its own: a copy where it has a name that must stay."""
    graph = pen.graph
    if tensor.name == name:
        return tensor
    if tensor.producer is None or tensor in graph.outputs:
        tensor = pen.op("Identity", tensor)
    graph.rename_tensor(tensor, name)
    return tensor


def differentiate(
    graph: Graph,
    opset: OpSet,
    seeds: Mapping[Tensor, Tensor],
    wrt: Sequence[Tensor],
    rules: Mapping[Key, Rule] | None = None,
) -> dict[Tensor, Tensor]:
    """Adds the backward nodes to a graph.

    Args:
        graph: Changed in place.
        opset: Operators.
        seeds: By output: its gradient.
        wrt: What gradients are wanted of.
        rules: Gradients that win over the built-in ones.

    Returns:
        Gradients by tensor, for those of `wrt` on which the outputs depend.

    Raises:
        GraphError: If the way leads through control flow, unknown shapes or operators without a rule.
    """
    known = {**default_rules(), **(rules or {})}
    order = graph.topological()
    active, needed = _active(order, seeds, wrt)
    _refuse(active, opset, known)
    pen = Pen(graph, opset)
    parts: dict[Tensor, list[Tensor]] = defaultdict(list)
    for end, seed in seeds.items():
        parts[end].append(seed)
    for node in reversed(order):
        if node not in active:
            continue
        grads = [_total(pen, tensor, parts) for tensor in node.outputs]
        if all(grad is None for grad in grads):
            continue
        inputs = node.inputs  # a rule may put another node in its place
        wanted = {port for port, tensor in enumerate(inputs) if tensor in needed}
        step = Backward(node, graph, opset, grads, wanted)
        rule = known[node.domain, node.op_type]
        step.refuse_ports(*ports_without(rule))
        given = rule(step)
        step.check()
        for port, (tensor, part) in enumerate(zip(inputs, given, strict=False)):
            if port in wanted and tensor is not None and part is not None:
                _check_shape(node, tensor, part)
                same = part.dtype is tensor.dtype
                parts[tensor].append(part if same else step.op("Cast", part, to=tensor.element_type))
    return {tensor: total for tensor in wrt if (total := _total(pen, tensor, parts)) is not None}


def _active(
    order: Sequence[Node], ends: Iterable[Tensor], wrt: Sequence[Tensor]
) -> tuple[set[Node], set[Tensor]]:
    """Nodes between `wrt` and the outputs, and the floating-point tensors that depend on `wrt`."""
    needed = set(wrt)
    for node in order:
        if any(tensor in needed for tensor in _read(node)):
            needed.update(tensor for tensor in node.outputs if _is_float(tensor))
    useful, active = set(ends), set()
    for node in reversed(order):
        if any(tensor in useful and tensor in needed for tensor in node.outputs):
            useful.update(_read(node))
            if any(tensor in needed for tensor in _read(node)):
                active.add(node)
    return active, needed


def _read(node: Node) -> list[Tensor]:
    """What a node reads, its subgraphs included."""
    captured = [tensor for _, body in node.subgraphs for tensor in body.captured()]
    return [tensor for tensor in node.inputs if tensor is not None] + captured


def _refuse(active: Iterable[Node], opset: OpSet, rules: Mapping[Key, Rule]) -> None:
    inside = list(active)
    held = sorted(f"{node.name} ({node.op_type})" for node in inside if node.subgraphs)
    if held:
        rule = "cannot lead through control flow"
        raise GraphError("gradients", rule, ", ".join(held), "unroll it, or differentiate what is around it")
    missing = Counter(opset.written(node) for node in inside if (node.domain, node.op_type) not in rules)
    if missing:
        counts = ", ".join(f"{name} ({count})" for name, count in sorted(missing.items()))
        rule = f"need a rule for every operator on the way; missing: {counts}"
        raise GraphError("gradients", rule, remedy="give rules={(domain, operator): rule}")
    for node in inside:
        for tensor in (*node.inputs, *node.outputs):
            if tensor is not None:
                _ = tensor.static_shape


def _total(pen: Pen, tensor: Tensor, parts: dict[Tensor, list[Tensor]]) -> Tensor | None:
    """The sum of all contributions, made once."""
    found = parts.get(tensor)
    if not found:
        return None
    if len(found) > 1:
        source = tensor.name if tensor.producer is None else tensor.producer.name
        parts[tensor] = [pen.op("Sum", *found, name=f"{GRADIENTS}/{source}/Sum")]  # MindSpore's AddN
    return parts[tensor][0]


def _check_shape(node: Node, tensor: Tensor, part: Tensor) -> None:
    if part.shape != tensor.shape:
        rule = f"must have the shape {tensor.shape} of the input {tensor.name!r}"
        raise GraphError(
            f"gradient of node {node.name!r} ({node.op_type})", rule, part.shape, "mend its rule"
        )


def _tensor(graph: Graph, name: str) -> Tensor:
    tensor = graph.tensors.get(name)
    if tensor is None:
        raise GraphError(f"tensor {name!r}", "is not in the graph", remedy=suggest(name, graph.tensors))
    return tensor


def _is_float(tensor: Tensor) -> bool:
    kind = tensor.origin_dtype or tensor.dtype
    return kind is not None and kind.is_float


def _check_float(tensor: Tensor) -> None:
    if not _is_float(tensor):
        kind = tensor.origin_dtype or tensor.dtype
        rule = "must be floating-point to have a gradient or to be one's source"
        raise GraphError(f"tensor {tensor.name!r}", rule, None if kind is None else kind.value)
