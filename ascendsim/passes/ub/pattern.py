"""Patterns of UB fusion: a head operator and what follows it, read forwards along the edges, as FE's
BufferFusionPattern does.

    UbPattern("conv_sigmoid_mul", (head("conv", CONVOLUTION), part("sigmoid", ELEMWISE), part("mul",
    ELEMWISE)),
              (("conv", "sigmoid"), ("conv", "mul"), ("sigmoid", "mul")))

Every part stands for one node, or for a chain of `least` to `most` nodes; a part that may be empty is skipped
over. Inside a match a tensor has no readers outside it unless its part is `shared`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace

from ascendsim.graph.ir import Node
from ascendsim.opset.facts import OpPattern
from ascendsim.opset.patterns import data_inputs
from ascendsim.passes.rewriting.pattern import Match

ANY = -1  # any number of inputs from outside


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive nodes of a pattern.

    Attributes:
        name: Unique in the pattern.
        kinds: Classes that they may have.
        least, most: How many there may be, one behind the other.
        others: Inputs from outside the match that each has (FE's InputData); `ANY` = any number.
        shared: Whether nodes outside the match may read them too (FE's OutputData).
        types: Operator types, if only some of a class will do.
    """

    name: str
    kinds: tuple[OpPattern, ...]
    least: int = 1
    most: int = 1
    others: int = 0
    shared: bool = False
    types: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UbPattern:
    """Parts with edges between them; the first part is the head, and every other one follows a part before
    it.

    Attributes:
        name: Of the pattern.
        parts: In an order in which data flows.
        edges: Pairs of names (producer, reader).
        most: Nodes of a match in all; 0 = no limit of its own.
        needs_shared: Whether some tensor inside must have a reader outside.
    """

    name: str
    parts: tuple[Part, ...]
    edges: tuple[tuple[str, str], ...]
    most: int = 0
    needs_shared: bool = False

    def feeders(self, name: str) -> list[str]:
        """Names of the parts that feed a part."""
        return [producer for producer, reader in self.edges if reader == name]

    def trimmed(self, present: Container[OpPattern]) -> UbPattern:
        """The pattern without parts that are always empty in a graph; a part that is empty hands on what
        feeds it.

        Args:
            present: Classes of the graph's nodes.
        """
        empty = {
            part.name
            for part in self.parts
            if not part.least and not any(kind in present for kind in part.kinds)
        }

        def feeding(name: str) -> list[str]:
            return (
                [name]
                if name not in empty
                else [source for feeder in self.feeders(name) for source in feeding(feeder)]
            )

        edges = [
            (source, reader)
            for producer, reader in self.edges
            if reader not in empty
            for source in feeding(producer)
        ]
        return replace(
            self, parts=tuple(part for part in self.parts if part.name not in empty), edges=tuple(edges)
        )


def chain(name: str, *parts: Part, most: int = 0, needs_shared: bool = False) -> UbPattern:
    """A pattern whose parts follow each other."""
    edges = tuple((parts[number].name, parts[number + 1].name) for number in range(len(parts) - 1))
    return UbPattern(name, parts, edges, most, needs_shared)


class Matcher:
    """Finds patterns in one graph.

    Args:
        kind: Class of a node.
        free: Whether a node may join a scope.
        outputs: Ids of the graph's output tensors.
    """

    def __init__(
        self, kind: Callable[[Node], OpPattern], free: Callable[[Node], bool], outputs: frozenset[int]
    ) -> None:
        self._kind, self._free, self._outputs = kind, free, outputs

    def match(self, head: Node, pattern: UbPattern) -> Match | None:
        """The match that starts at a node, longest chains first; None if there is none."""
        if not self._followed(head, pattern):
            return None
        for found in self._heads(head, pattern):
            for parts in self._complete(pattern, 1, {pattern.parts[0].name: found}):
                nodes = tuple(node for part in pattern.parts for node in parts[part.name])
                if len(nodes) > 1 and self._closed(pattern, parts, nodes):
                    return Match(pattern.name, head, {}, {}, nodes, parts)
        return None

    def _followed(self, head: Node, pattern: UbPattern) -> bool:
        """Whether a head that is a single node has a reader of a class that the next part needs, which most
        heads have not.
        """
        first, *others = pattern.parts
        if first.most > 1 or not others or not others[0].least:
            return True
        return any([self._kind(reader) in others[0].kinds for reader in head.output.consumers])

    def _heads(self, node: Node, pattern: UbPattern) -> Iterator[tuple[Node, ...]]:
        part = pattern.parts[0]
        if self._fits(node, part):
            yield from self._chains(node, part, ())

    def _complete(
        self, pattern: UbPattern, number: int, parts: dict[str, tuple[Node, ...]]
    ) -> Iterator[dict[str, tuple[Node, ...]]]:
        """All ways to fill the parts from `number` on."""
        if number == len(pattern.parts):
            yield parts
            return
        part = pattern.parts[number]
        before = self._before(pattern, part.name, parts)
        used = tuple([node for nodes in parts.values() for node in nodes])
        for candidate in before[0].output.consumers if before else ():
            if candidate in used or not self._fits(candidate, part):
                continue
            if len(before) > 1:  # the candidate reads the first of them
                reads = {id(tensor) for tensor in candidate.inputs}
                if any(id(node.output) not in reads for node in before):
                    continue
            for found in self._chains(candidate, part, used):
                yield from self._complete(pattern, number + 1, parts | {part.name: found})
        if part.least == 0:
            yield from self._complete(pattern, number + 1, parts | {part.name: ()})

    def _chains(self, first: Node, part: Part, used: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
        """Chains that start at a node, longest first."""
        nodes = [first]
        while len(nodes) < part.most:
            readers = nodes[-1].output.consumers
            following = [
                node for node in readers if node not in used and node not in nodes and self._fits(node, part)
            ]
            if len(following) != 1 or (len(readers) > 1 and not part.shared):
                break
            nodes.append(following[0])
        for length in range(len(nodes), max(1, part.least) - 1, -1):
            yield tuple(nodes[:length])

    def _before(self, pattern: UbPattern, name: str, parts: Mapping[str, tuple[Node, ...]]) -> list[Node]:
        """Last nodes of the parts that feed a part; a part that is empty hands on what feeds it."""
        found: dict[Node, None] = {}
        for producer in pattern.feeders(name):
            nodes = parts.get(producer, ())
            found.update(dict.fromkeys([nodes[-1]] if nodes else self._before(pattern, producer, parts)))
        return list(found)

    def _fits(self, node: Node, part: Part) -> bool:
        return (
            self._kind(node) in part.kinds
            and (not part.types or node.op_type in part.types)
            and self._free(node)
        )

    def _closed(
        self, pattern: UbPattern, parts: Mapping[str, tuple[Node, ...]], nodes: tuple[Node, ...]
    ) -> bool:
        """Whether inputs from outside are as many as the parts say, and readers outside are where they may
        be.
        """
        if pattern.most and len(nodes) > pattern.most:
            return False
        inside = set(nodes)
        shared = False
        for part in pattern.parts:
            for node in parts[part.name]:
                outside = sum(tensor.producer not in inside for tensor in data_inputs(node))
                if part.others not in (ANY, outside):
                    return False
                readers = {reader for tensor in node.outputs for reader in tensor.consumers}
                leaves = not readers <= inside or any(id(tensor) in self._outputs for tensor in node.outputs)
                if leaves and readers & inside:
                    if not part.shared:
                        return False
                    shared = True
        return shared or not pattern.needs_shared
