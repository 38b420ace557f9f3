"""Families of operators by how their outputs hang together with their inputs: ready-made rules for
`OpDef.axes`.

Each function gives a rule: node -> `AxisMap`. An operator that fits no family writes its own with
`by_labels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ascendsim.graph.ir import Dim, Node, Shape, Tensor
from ascendsim.opset.axes import (
    CHOSEN,
    NOTHING_SAID,
    UNREAD,
    WHOLE,
    AxesRule,
    AxisMap,
    Label,
    Link,
    Relation,
    by_labels,
    rank_of,
    shape_of,
)
from ascendsim.opset.facts import Elements, Facts, Kind, Precision

# (node, rank) -> axes that an operator names, None if they are not known
AxesOf = Callable[[Node, int], "Sequence[int] | None"]


def opaque() -> AxesRule:
    """Every element of the outputs may need every element of the inputs."""
    return lambda _node: NOTHING_SAID


def unread() -> AxesRule:
    """No element of an input counts, at most its shape: generators, Shape, random values."""

    def rule(node: Node) -> AxisMap:
        ports = range(node.input_count)
        return AxisMap(
            {
                (port, out): (UNREAD,) * (rank_of(node, port) or 0)
                for port in ports
                for out in range(len(node.outputs))
            }
        )

    return rule


def elementwise(*ports: int) -> AxesRule:
    """Element by element with broadcasting: every axis is parallel.

    Args:
        ports: Inputs that are read so; all by default.
    """

    def rule(node: Node) -> AxisMap:
        inputs = {
            port: _from_the_right(rank)
            for port in ports or range(node.input_count)
            if (rank := rank_of(node, port)) is not None
        }
        return by_labels(node, inputs, _outputs(node))

    return rule


def along(attribute: str = "axis", default: int = -1, ports: Sequence[int] = (0,)) -> AxesRule:
    """Whole along the axis that an attribute names, parallel along all others: Softmax, Concat, Split,
    CumSum.
    """
    return along_axes(lambda node, rank: (int(node.attr(attribute, default)) % rank,) if rank else (), ports)


def along_axes(
    axes_of: AxesOf, ports: Sequence[int] = (0,), chosen: bool = False, scales: Sequence[int] = ()
) -> AxesRule:
    """Whole along some axes, parallel along all others; inputs and outputs have one rank.

    Args:
        axes_of: Gives the axes; None = not known, then all may be meant.
        ports: Inputs of the full rank; none = all.
        chosen: Whether values say which slices are needed along the axes.
        scales: Inputs that broadcast against the result from the right (scale and shift of a normalisation).
    """

    def rule(node: Node) -> AxisMap:
        rank = rank_of(node, ports[0] if ports else 0)
        axes = None if rank is None else axes_of(node, rank)
        if rank is None or axes is None:
            return NOTHING_SAID
        labels = _from_the_right(rank)
        inputs = dict.fromkeys(ports or range(node.input_count), labels)
        inputs |= {port: _from_the_right(own) for port in scales if (own := rank_of(node, port)) is not None}
        special: dict[Label, Link] = {labels[axis]: CHOSEN if chosen else WHOLE for axis in axes}
        full = by_labels(
            node, {port: inputs[port] for port in inputs if port not in scales}, _outputs(node), special
        )
        return AxisMap(
            {
                **by_labels(
                    node, {port: inputs[port] for port in scales if port in inputs}, _outputs(node)
                ).links,
                **full.links,
            }
        )

    return rule


def normalised_from(attribute: str = "axis", default: int = -1, scales: Sequence[int] = (1, 2)) -> AxesRule:
    """Whole from an axis on, parallel before it: LayerNormalization."""

    def axes_of(node: Node, rank: int) -> Sequence[int]:
        return range(int(node.attr(attribute, default)) % rank if rank else 0, rank)

    return along_axes(axes_of, scales=scales)


def reduction(axes_of: AxesOf) -> AxesRule:
    """Reduced along some axes, which vanish or stay with size 1 (attribute `keepdims`), parallel along all
    others.
    """

    def rule(node: Node) -> AxisMap:
        rank = rank_of(node, 0)
        axes = None if rank is None else axes_of(node, rank)
        if rank is None or axes is None:
            return NOTHING_SAID
        kept = bool(node.attr("keepdims", 1))
        result: list[Label] = [
            ("one", axis) if axis in axes else axis for axis in range(rank) if kept or axis not in axes
        ]
        return by_labels(node, {0: range(rank)}, dict.fromkeys(range(len(node.outputs)), result))

    return rule


def per_channel(*parameters: int) -> AxesRule:
    """Parallel along every axis of input 0 (batch, channels, positions); parameters hold one value a
    channel.
    """

    def rule(node: Node) -> AxisMap:
        rank = rank_of(node, 0)
        if rank is None:
            return NOTHING_SAID
        inputs: dict[int, Sequence[Label]] = {0: range(rank)} | {
            port: (min(1, rank - 1),) for port in parameters
        }
        return by_labels(node, inputs, {0: range(rank)})

    return rule


def permutation(order_of: Callable[[Node, int], Sequence[int]]) -> AxesRule:
    """Axes in another order."""

    def rule(node: Node) -> AxisMap:
        rank = rank_of(node, 0)
        return (
            NOTHING_SAID
            if rank is None
            else by_labels(node, {0: range(rank)}, {0: tuple(order_of(node, rank))})
        )

    return rule


def regrouping() -> AxesRule:
    """The same elements in row-major order under another shape: Reshape, Flatten, Squeeze, Unsqueeze.

    Axes are taken together, from the outermost on, until both shapes have as many elements; of such a run the
    outermost axes of both shapes are groups of each other, what is behind them is whole.
    """

    def rule(node: Node) -> AxisMap:
        before, after = shape_of(node, 0), node.output.shape
        if before is None or after is None:
            return NOTHING_SAID
        links: dict[int, Link] = {}
        for sources, targets in _runs(before, after):
            links |= _grouped(before, after, sources, targets)
        return AxisMap({(0, 0): tuple([links.get(axis, WHOLE) for axis in range(len(before))])})

    return rule


def _grouped(before: Shape, after: Shape, sources: Sequence[int], targets: Sequence[int]) -> dict[int, Link]:
    """Links of the source axes of one run; axes of size 1 are left out of the runs."""
    outer, result = sources[0], targets[0]
    a, b = before[outer], after[result]
    links = {axis: Link(Relation.WHOLE, result if len(targets) == 1 else None) for axis in sources}
    if a == b:
        links[outer] = Link(Relation.PARALLEL, result)
    elif isinstance(a, int) and isinstance(b, int):
        common = math.gcd(a, b)
        links[outer] = Link(Relation.GROUP, result, a // common, b // common)
    return links


def _runs(before: Shape, after: Shape) -> Iterator[tuple[list[int], list[int]]]:
    """Runs of axes, as short as possible, that hold as many elements in both shapes; unknown sizes end the
    search.
    """
    sources, targets = _larger(before), _larger(after)
    while sources and targets:
        left, right = [sources.pop(0)], [targets.pop(0)]
        while not _same_size(before, left, after, right):
            sizes = _size(before, left), _size(after, right)
            if None in sizes:
                return
            shorter, rest = (left, sources) if sizes < sizes[::-1] else (right, targets)
            if not rest:
                return
            shorter.append(rest.pop(0))
        yield left, right


def _larger(shape: Shape) -> list[int]:
    return [axis for axis, dim in enumerate(shape) if dim != 1]


def _size(shape: Shape, axes: Sequence[int]) -> int | None:
    sizes: list[Dim] = [shape[axis] for axis in axes]
    return (
        None
        if not all(isinstance(dim, int) for dim in sizes)
        else math.prod([dim for dim in sizes if isinstance(dim, int)])
    )


def _same_size(before: Shape, left: Sequence[int], after: Shape, right: Sequence[int]) -> bool:
    names = [before[axis] for axis in left], [after[axis] for axis in right]
    if names[0] == names[1] and None not in names[0]:
        return True
    size = _size(before, left)
    return size is not None and size == _size(after, right)


def product(
    a: int = 0, b: int = 1, added: Sequence[int] = (), flipped: tuple[str, str] = ("", "")
) -> AxesRule:
    """Matrix products with stacks that broadcast: [..., m, k] x [..., k, n].

    Args:
        a, b: Ports of the operands; a vector has only its k.
        added: Ports of what is added to the result.
        flipped: Names of the attributes that say that an operand comes transposed.
    """

    def rule(node: Node) -> AxisMap:
        left, right = rank_of(node, a), rank_of(node, b)
        if not left or not right:
            return NOTHING_SAID
        first = [*_stack(left), *(("m", "k") if left > 1 else ("k",))]
        second = [*_stack(right), *(("k", "n") if right > 1 else ("k",))]
        result = [*_stack(max(left, right)), *(("m",) if left > 1 else ()), *(("n",) if right > 1 else ())]
        for labels, attribute in ((first, flipped[0]), (second, flipped[1])):
            if attribute and node.attr(attribute, 0):
                labels[-2:] = labels[:-3:-1]
        inputs = {a: first, b: second}
        inputs |= {
            port: result[len(result) - own :] for port in added if (own := rank_of(node, port)) is not None
        }
        return by_labels(node, inputs, {0: result})

    return rule


def _stack(rank: int) -> list[Label]:
    return list(range(2 - rank, 0))


def convolution(
    image: int = 0,
    weight: int = 1,
    bias: Sequence[int] = (2,),
    windows: Callable[[Node], Sequence[Link]] | None = None,
    group: str = "group",
    flipped: bool = False,
) -> AxesRule:
    """Batch parallel, channels reduced (within a group where there are several), positions windows.

    Args:
        image, weight, bias: Input ports; the bias and what else has one value an output channel.
        windows: One link a spatial axis; None = whole.
        group: Attribute that holds the number of groups.
        flipped: Whether weights hold input channels first (transposed convolution).
    """

    def rule(node: Node) -> AxisMap:
        rank = rank_of(node, image)
        if rank is None or rank < 2:
            return NOTHING_SAID
        slides = list(windows(node)) if windows is not None else []
        places = [("at", axis) for axis in range(rank - 2)]
        special: dict[Label, Link] = {
            place: slides[axis] if slides else WHOLE for axis, place in enumerate(places)
        }
        shape, result = shape_of(node, image), node.output.shape
        groups = int(node.attr(group, 1)) if group else 1
        channels: Label = "c"
        if groups > 1 and shape is not None and result is not None:
            inside, made = shape[1], result[1]
            if (
                isinstance(inside, int)
                and isinstance(made, int)
                and not inside % groups
                and not made % groups
            ):
                channels, special["o"] = "o", Link(Relation.GROUP, None, inside // groups, made // groups)
        taps = [("tap", axis) for axis in range(rank - 2)]
        output = ("n", "o", *places)
        filters = ("i", "o" if groups == 1 else "of a group", *taps) if flipped else ("o", "i", *taps)
        weights = by_labels(node, {weight: filters} | dict.fromkeys(bias, ("o",)), {0: output})
        return AxisMap(
            {
                **weights.links,
                **by_labels(node, {image: ("n", channels, *places)}, {0: output}, special).links,
            }
        )

    return rule


def pooling(windows: Callable[[Node], Sequence[Link]] | None = None) -> AxesRule:
    """Batch and channels parallel, positions windows; without `windows` all positions are reduced (global
    pooling).
    """

    def rule(node: Node) -> AxisMap:
        rank = rank_of(node, 0)
        if rank is None or rank < 2:
            return NOTHING_SAID
        places = [("at", axis) for axis in range(rank - 2)]
        slides = list(windows(node)) if windows is not None else []
        special: dict[Label, Link] = dict(zip(places, slides, strict=False))
        given = ("n", "c", *places)
        made = given if windows is not None else ("n", "c", *(("one", axis) for axis in range(rank - 2)))
        return by_labels(node, {0: given}, dict.fromkeys(range(len(node.outputs)), made), special)

    return rule


def gathering(axis_of: Callable[[Node], int]) -> AxesRule:
    """Slices of input 0 along an axis, picked by the indices of input 1, whose axes take its place."""

    def rule(node: Node) -> AxisMap:
        rank, picks = rank_of(node, 0), rank_of(node, 1)
        if not rank or picks is None:
            return NOTHING_SAID
        axis = axis_of(node) % rank
        indices = [("i", number) for number in range(picks)]
        result: list[Label] = [*range(axis), *indices, *range(axis + 1, rank)]
        return by_labels(node, {0: range(rank), 1: indices}, {0: result}, {axis: CHOSEN})

    return rule


def constant_ints(tensor: Tensor | None) -> tuple[int, ...] | None:
    """Values of an input that is a constant list of integers; None if it is absent or not known."""
    if tensor is None or tensor.constant is None or not tensor.constant.available:
        return None
    return tuple([int(value) for value in tensor.constant.array().reshape(-1)])


def _from_the_right(rank: int) -> Sequence[int]:
    return range(-rank, 0)


def _outputs(node: Node) -> dict[int, Sequence[Label]]:
    return {
        number: _from_the_right(len(tensor.shape))
        for number, tensor in enumerate(node.outputs)
        if tensor.shape is not None
    }


# most functions of single elements
ELEMENTWISE = Facts(elementwise(), Kind.ELEMENTWISE, Precision.GRAY, elements=Elements.REAL)
# not defined everywhere, or beyond all bounds
PARTIAL = replace(ELEMENTWISE, finite=False)
SENSITIVE = replace(ELEMENTWISE, precision=Precision.BLACK)  # those that lose too much by float16
SENSITIVE_PARTIAL = replace(SENSITIVE, finite=False)
COMPUTED = replace(ELEMENTWISE, elements=Elements.COMPUTED)  # integers too
CHOSEN_ELEMENT = replace(ELEMENTWISE, elements=Elements.KEPT)
COMPARED = replace(ELEMENTWISE, elements=Elements.COMPARED)
