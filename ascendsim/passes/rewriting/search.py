"""Finding patterns: one search with backtracking, from the root of a pattern to what it reads and to its
readers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset.patterns import data_inputs
from ascendsim.passes.rewriting.pattern import Form, Match, Op, Operand, Part, Pattern, Source, compiled

Bound = Mapping[str, Form]
Tensors = Mapping[str, Tensor]
Found = Iterator[tuple[Bound, Tensors]]
Goal = tuple[Form, int, Operand]  # a port of something found, and what must be read there
Goals = tuple[Goal, ...]
NOTHING = Form((), ())  # stands for a part that may be missing


def find_matches(graph: Graph, name: str, pattern: Op | Pattern) -> Iterator[Match]:
    """All places where a pattern stands, in execution order of their roots, one for each; they may overlap.

    Args:
        graph: Where to look.
        name: Of the pattern.
        pattern: What is looked for.
    """
    wanted = compiled(pattern)
    types, outputs = set(wanted.parts[wanted.root].types), set(graph.outputs)
    for node in [node for node in graph.topological() if node.op_type in types]:
        match = match_at(node, name, wanted, outputs)
        if match is not None:
            yield match


def match_at(root: Node, name: str, pattern: Op | Pattern, outputs: Collection[Tensor]) -> Match | None:
    """The match whose root is a node, or None; `outputs` are those of the graph."""
    wanted = compiled(pattern)
    part = wanted.parts[wanted.root]
    first = part.form(root)
    if first is None or not _fed(first.inputs, wanted.sources):  # a chain reads what its first link reads
        return None
    for form in _forms(part, first, ()):
        if not _followed(form, wanted):
            continue
        for bound, tensors in _bind(wanted, {}, {}, (), wanted.root, form):
            if _stands(wanted, bound, outputs):
                nodes = {part: found.nodes[0] for part, found in bound.items() if found.nodes}
                everything = tuple(dict.fromkeys(node for found in bound.values() for node in found.nodes))
                lists = {"results": tuple(nodes[part] for part in wanted.results)} if wanted.results else {}
                return Match(name, root, nodes, tensors, everything, lists)
    return None


def _forms(part: Part, form: Form, taken: Collection[Node]) -> Sequence[Form]:
    """How a form stands for a part, and those that follow it, longest chains first; a chain goes on while
    just one reader of its end can.
    """
    if part.most <= 1:
        return (form,)
    chain = [form]
    while len(chain) < part.most:
        inside = [*taken, *(item for link in chain for item in link.nodes)]
        readers = chain[-1].nodes[0].output.consumers
        following = [link for reader in readers if reader not in inside and (link := part.form(reader))]
        if len(following) != 1 or (len(readers) > 1 and not part.shared):
            break
        chain.append(following[0])
    return [
        Form(tuple([item for link in chain[length - 1 :: -1] for item in link.nodes]), form.inputs)
        for length in range(len(chain), max(1, part.least) - 1, -1)
    ]


def _fed(inputs: Sequence[Tensor | None], sources: Sequence[Source]) -> bool:
    """Whether each source of a part may make one of the inputs, which nearly all candidates fail."""
    for types, deeper in sources:
        for tensor in inputs:
            node = None if tensor is None else tensor.producer
            if node is not None and node.op_type in types and (not deeper or _fed(node._inputs, deeper)):
                break
        else:
            return False
    return True


def _followed(form: Form, pattern: Pattern) -> bool:
    """Whether a reader can be what must follow a root, which nearly all candidates fail too."""
    for part in pattern.parts.values():
        if part.reads:
            return not part.least or any(map(part.form, form.nodes[0].output.consumers))
    return True


def _stands(pattern: Pattern, bound: Bound, outputs: Collection[Tensor]) -> bool:
    """Whether a match has as many nodes and inputs as it may, and readers outside where it may."""
    inside = _nodes(bound)
    if len(inside) < pattern.least or (pattern.most is not None and len(inside) > pattern.most):
        return False
    shared = False
    for name, form in bound.items():
        part = pattern.parts[name]
        for node in form.nodes:
            if part.others is not None and part.others != _from_outside(node, inside):
                return False
            if (not part.shared or pattern.needs_shared) and _read_by_both(node, inside, outputs):
                if not part.shared:
                    return False
                shared = True
    return shared or not pattern.needs_shared


def _from_outside(node: Node, inside: Collection[Node]) -> int:
    return sum(tensor.producer not in inside for tensor in data_inputs(node))


def _read_by_both(node: Node, inside: Collection[Node], outputs: Collection[Tensor]) -> bool:
    """Whether nodes of the match read a node, and so does somebody outside."""
    readers = {reader for tensor in node.outputs for reader in tensor.consumers}
    own = [reader for reader in readers if reader in inside]
    return bool(own) and (len(own) < len(readers) or any(tensor in outputs for tensor in node.outputs))


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
    if missing and pattern.parts[missing[0]].reads:
        yield from _follow(pattern, bound, tensors, missing[0])
    elif missing:
        for name, candidate in _readers(pattern, bound, tensors, missing):
            yield from _try(pattern, bound, tensors, (), name, candidate)
    elif pattern.waiting is None or pattern.waiting == _waiting(bound):
        yield bound, tensors


def _try(pattern: Pattern, bound: Bound, tensors: Tensors, goals: Goals, name: str, node: Node) -> Found:
    part = pattern.parts[name]
    first = part.form(node)
    if first is None:
        return
    taken = _nodes(bound) if pattern.distinct else ()
    for form in _forms(part, first, taken):
        if not any(item in taken for item in form.nodes):
            yield from _bind(pattern, bound, tensors, goals, name, form)


def _follow(pattern: Pattern, bound: Bound, tensors: Tensors, name: str) -> Found:
    """Lets readers of what a part reads stand for it, then nothing if it may be missing."""
    part = pattern.parts[name]
    read = _results(pattern, bound, name) if part.most else []
    for candidate in read[0].consumers if read else ():
        if len(read) == 1 or all(tensor in candidate.inputs for tensor in read):
            yield from _try(pattern, bound, tensors, (), name, candidate)
    if not part.least:
        yield from _search(pattern, {**bound, name: NOTHING}, tensors, ())


def _results(pattern: Pattern, bound: Bound, name: str) -> list[Tensor]:
    """What a part reads, each once; a part for which nothing stands hands on what it reads itself."""
    found: dict[Tensor, None] = {}
    for source in pattern.parts[name].reads:
        nodes = bound[source].nodes
        made = [nodes[0].output] if nodes else _results(pattern, bound, source)
        found.update(dict.fromkeys(made))
    return list(found)


def _readers(
    pattern: Pattern, bound: Bound, tensors: Tensors, missing: Collection[str]
) -> Iterator[tuple[str, Node]]:
    """Candidates for a missing part that reads a part that was found, or a captured tensor: of several such
    tensors the one with the fewest readers, since all updates of weights read some scalars.
    """
    known: dict[str, Tensor] = {}
    for name in missing:
        for _, operand in pattern.parts[name].ways[0]:
            tensor = (
                bound[operand.name].nodes[0].output if operand.name in bound else tensors.get(operand.name)
            )
            if tensor is not None and (name not in known or len(tensor._uses) < len(known[name]._uses)):
                known[name] = tensor
    if not known:
        return
    name = min(known, key=lambda name: len(known[name]._uses))
    near = known[name].consumers
    behind = (reader for node in near for made in node.outputs for reader in made.consumers)
    yield from ((name, node) for node in dict.fromkeys((*near, *behind)))


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
