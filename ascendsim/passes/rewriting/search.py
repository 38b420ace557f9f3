"""Finding patterns: one search with backtracking, from the root of a pattern to what it reads, and from there
to other readers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.passes.rewriting.pattern import Form, Match, Op, Operand, Pattern, compiled

Bound = Mapping[str, Form]
Tensors = Mapping[str, Tensor]
Found = Iterator[tuple[Bound, Tensors]]
Goal = tuple[Form, int, Operand]  # a port of something found, and what must be read there
Goals = tuple[Goal, ...]


def find_matches(graph: Graph, name: str, pattern: Op | Pattern) -> Iterator[Match]:
    """All places where a pattern stands, in execution order of their roots, one for each; they may overlap.

    Args:
        graph: Where to look.
        name: Of the pattern.
        pattern: What is looked for.
    """
    wanted = compiled(pattern)
    types, outputs = wanted.parts[wanted.root].types, set(graph.outputs)
    for node in graph.topological():
        if node.op_type in types:
            match = match_at(node, name, wanted, outputs)
            if match is not None:
                yield match


def match_at(root: Node, name: str, pattern: Op | Pattern, outputs: Collection[Tensor]) -> Match | None:
    """The match whose root is a node, or None; `outputs` are those of the graph."""
    wanted = compiled(pattern)
    form = wanted.parts[wanted.root].form(root)
    if form is None or not _fed(form, wanted):
        return None
    for bound, tensors in _bind(wanted, {}, {}, (), wanted.root, form):
        nodes = {part: found.nodes[0] for part, found in bound.items()}
        everything = tuple(dict.fromkeys(node for found in bound.values() for node in found.nodes))
        if all(
            wanted.parts[part].shared or node is root or _private(node, everything, outputs)
            for part, node in nodes.items()
        ):
            lists = {"results": tuple(nodes[part] for part in wanted.results)} if wanted.results else {}
            return Match(name, root, nodes, tensors, everything, lists)
    return None


def _fed(form: Form, pattern: Pattern) -> bool:
    """Whether operators that a root wants to read from make its inputs, which nearly all candidates fail."""
    producers = [None if tensor is None else tensor.producer for tensor in form.inputs]
    types = {producer.op_type for producer in producers if producer is not None}
    return all(
        not operand.is_part or not types.isdisjoint(pattern.parts[operand.name].types)
        for _, operand in pattern.parts[pattern.root].ways[0]
    )


def _private(node: Node, inside: Collection[Node], outputs: Collection[Tensor]) -> bool:
    """Whether nobody outside the match reads a node."""
    return all(
        tensor not in outputs and all(reader in inside for reader in tensor.consumers)
        for tensor in node.outputs
    )


def _bind(pattern: Pattern, bound: Bound, tensors: Tensors, goals: Goals, name: str, form: Form) -> Found:
    """Lets a form stand for a part, in all ways, and searches on."""
    part = pattern.parts[name]
    if part.most_inputs is not None and len(form.inputs) > part.most_inputs:
        return
    for way in part.ways:
        more = tuple([(form, port, operand) for port, operand in way])
        rest = (*more, *goals) if pattern.deep else (*goals, *more)
        yield from _search(pattern, {**bound, name: form}, tensors, rest)


def _search(pattern: Pattern, bound: Bound, tensors: Tensors, goals: Goals) -> Found:
    """Follows what is read, port by port."""
    for number, (reader, port, operand) in enumerate(goals):
        tensor = reader.inputs[port] if port < len(reader.inputs) else None
        if tensor is None or (operand.constant and not tensor.is_constant):
            return
        name, node = operand.name, tensor.producer
        if operand.is_part:
            if node is None or tensor.index != operand.output:
                return
            if name not in bound:
                yield from _try(pattern, bound, tensors, goals[number + 1 :], name, node)
                return
            if bound[name].nodes[0] is not node:
                return
        elif name:
            if tensors.get(name, tensor) is not tensor:
                return
            tensors = {**tensors, name: tensor}
    missing = [name for name in pattern.parts if name not in bound]
    if missing:
        for name, candidate in _readers(pattern, bound, tensors, missing):
            yield from _try(pattern, bound, tensors, (), name, candidate)
    elif pattern.waiting is None or pattern.waiting == _waiting(bound):
        yield bound, tensors


def _try(pattern: Pattern, bound: Bound, tensors: Tensors, goals: Goals, name: str, node: Node) -> Found:
    form = pattern.parts[name].form(node)
    if form is None:
        return
    taken = _nodes(bound) if pattern.distinct else ()
    if not any(item in taken for item in form.nodes):
        yield from _bind(pattern, bound, tensors, goals, name, form)


def _readers(
    pattern: Pattern, bound: Bound, tensors: Tensors, missing: Collection[str]
) -> Iterator[tuple[str, Node]]:
    """Candidates for the first missing part that reads a part that was found, or a captured tensor."""
    for name in missing:
        for _, operand in pattern.parts[name].ways[0]:
            tensor = (
                bound[operand.name].nodes[0].output if operand.name in bound else tensors.get(operand.name)
            )
            if tensor is not None:
                near = tensor.consumers
                behind = (reader for node in near for made in node.outputs for reader in made.consumers)
                yield from ((name, node) for node in dict.fromkeys((*near, *behind)))
                return


def _nodes(bound: Bound) -> set[Node]:
    return {node for form in bound.values() for node in form.nodes}


def _waiting(bound: Bound) -> set[str]:
    """Parts that a control edge from outside the match holds."""
    inside = _nodes(bound)
    return {
        name
        for name, form in bound.items()
        if any(before not in inside for node in form.nodes for before in node.control)
    }
