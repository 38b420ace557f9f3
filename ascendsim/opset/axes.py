"""How an operator's outputs hang together with its inputs, axis by axis.

For each axis of an input an operator says what becomes of it in an output, in the words of MLIR's Linalg
dialect (indexing maps, iterator types). Whoever wants to cut, pad, fuse or classify an operator asks this
map, so nobody keeps a list of operators:

    parallel  slice i of the output needs slice i of the input, nothing else of it: batch of a Conv, every
              axis of Relu
    group     `take` slices of the input make `make` slices of the output: Reshape [n, h*w] -> [n*h, w]
    window    slice i needs slices i*stride - before and the `reach` - 1 behind it: height and width of Conv,
              pooling
    whole     every slice of the output may need all of it: the axis of Softmax, CumSum, Sort
    reduced   the output needs all of it and has no such axis, or one of size 1: k of MatMul, axes of
              ReduceSum
    chosen    which slices are needed depends on values: Gather, ScatterND
    unread    the output depends on no element of it: Shape

The map states the most that an output can need: an operator that says "whole" may well need less.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from types import MappingProxyType

from ascendsim.graph.ir import Dim, Node, Shape


class Relation(Enum):
    """What slices of an input axis a slice of the output needs; see the module's text."""

    PARALLEL = "parallel"
    GROUP = "group"
    WINDOW = "window"
    WHOLE = "whole"
    REDUCED = "reduced"
    CHOSEN = "chosen"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class Link:
    """What becomes of one axis of an input in one output.

    Attributes:
        relation: Which of its slices a slice of the output needs.
        axis: The output's axis that it speaks of; None where the output has none.
        take, make: Slices of the input and of the output in a group.
        stride, before, reach: Of a window: slice i of the output needs `reach` slices of the input from i *
            stride - before on.
    """

    relation: Relation
    axis: int | None = None
    take: int = 1
    make: int = 1
    stride: int = 1
    before: int = 0
    reach: int = 1

    @property
    def by_slices(self) -> bool:
        """Whether parts of the output can be made from parts of the input along this axis."""
        return self.relation in (Relation.PARALLEL, Relation.GROUP)


WHOLE = Link(Relation.WHOLE)
REDUCED = Link(Relation.REDUCED)
CHOSEN = Link(Relation.CHOSEN)
UNREAD = Link(Relation.UNREAD)


@dataclass(frozen=True, slots=True)
class AxisMap:
    """The links of a node.

    Attributes:
        links: By input port and output: one link an axis of the input. Pairs that are not there: the output
            may need all of the input.
    """

    links: Mapping[tuple[int, int], tuple[Link, ...]] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, port: int, output: int = 0) -> tuple[Link, ...]:
        """One link an axis of an input; empty where nothing is said."""
        return self.links.get((port, output), ())

    def link(self, port: int, axis: int, output: int = 0) -> Link:
        """What becomes of an axis of an input in an output; "whole" where nothing is said."""
        links = self.links.get((port, output), ())
        return links[axis] if axis < len(links) else WHOLE

    def towards(self, port: int, out_axis: int, output: int = 0) -> Iterable[tuple[int, Link]]:
        """Axes of an input whose links speak of an axis of an output."""
        return [(axis, link) for axis, link in enumerate(self.of(port, output)) if link.axis == out_axis]


NOTHING_SAID = AxisMap()
AxesRule = Callable[[Node], AxisMap]
Label = Hashable
Labels = Sequence[Label]


def shape_of(node: Node, port: int) -> Shape | None:
    """Shape of an input; None where it is absent or has no known rank."""
    tensor = node.input(port)
    return None if tensor is None else tensor.shape


def rank_of(node: Node, port: int) -> int | None:
    """Rank of an input; None where it is absent or not known."""
    shape = shape_of(node, port)
    return None if shape is None else len(shape)


def by_labels(
    node: Node,
    inputs: Mapping[int, Labels],
    outputs: Mapping[int, Labels],
    special: Mapping[Label, Link] | None = None,
) -> AxisMap:
    """Links of axes that have names, as in an Einstein sum.

    An axis of an input goes to the output's axis of its name (parallel; a size of 1 that is repeated is
    "whole") and is reduced where there is none. Ports and outputs whose rank is not that of their names are
    left out.

    Args:
        node: The node.
        inputs: Names of the axes by port.
        outputs: Names of the axes by output.
        special: Other relations, by name; their `axis` is filled in.
    """
    special = special or {}
    links: dict[tuple[int, int], tuple[Link, ...]] = {}
    for number, names in outputs.items():
        if number >= len(node.outputs):
            continue
        result = node.outputs[number].shape
        place = {name: axis for axis, name in enumerate(names)}
        if result is not None and len(result) != len(names):
            continue
        for port, own in inputs.items():
            shape = shape_of(node, port)
            if shape is not None and len(shape) == len(own):
                links[port, number] = tuple(
                    [_link(name, dim, place, result, special) for name, dim in zip(own, shape, strict=True)]
                )
    return AxisMap(links)


def _link(
    name: Label, dim: Dim, place: Mapping[Label, int], result: Shape | None, special: Mapping[Label, Link]
) -> Link:
    axis = place.get(name)
    if name in special:
        return replace(special[name], axis=axis)
    if axis is None:
        return REDUCED
    if dim == 1 and result is not None and result[axis] != 1:
        return replace(WHOLE, axis=axis)  # one slice that every slice of the output reads
    return _parallel(axis)


@cache
def _parallel(axis: int) -> Link:
    return Link(Relation.PARALLEL, axis)
