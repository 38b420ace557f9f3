"""The iteration space that a chain of vector operators shares, and where each tensor lies in it.

Shapes of the largest tensors are cut into common axes, so that (12288, 1024) and (24, 512, 1024) are one
space of the axes 24, 512, 1024. Every other tensor has some of these axes: one value a row has those in
front, a bias those at the end, a scalar none. A tensor's axes follow from how operators broadcast or reduce
it, forwards and backwards through the chain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.reduce.reduction import reduced_axes
from ascendsim.ops.shared.common import walking_shape

Axes = tuple[int, ...]  # axes of the space that a tensor has, in the order of its elements
RENAMING = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"})
REDUCTIONS = frozenset(
    {
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
    }
)


def common_axes(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Axes of which all shapes of one size are made; None if they do not nest.

    >>> common_axes([(12288, 1024), (24, 512, 1024)]), common_axes([(6, 4), (4, 6)])
    ((24, 512, 1024), None)
    """
    cuts = {1}
    for shape in shapes:
        size = 1
        for dim in reversed(shape):
            size *= dim
            cuts.add(size)
    axes = []
    for small, large in pairwise(sorted(cuts)):
        if large % small:
            return None
        axes.append(large // small)
    return tuple(reversed(axes))


def grouped(shape: tuple[int, ...], axes: Axes, sizes: Sequence[int]) -> list[Axes] | None:
    """Which axes each dimension of a shape is made of; None if they do not fit.

    >>> grouped((384, 1, 16), (0, 1, 3), (24, 16, 32, 16))
    [(0, 1), (), (3,)]
    """
    rest = list(axes)
    groups: list[Axes] = []
    for dim in reversed(shape):
        group: list[int] = []
        while math.prod(sizes[axis] for axis in group) < dim:
            if not rest:
                return None
            group.insert(0, rest.pop())
        if math.prod(sizes[axis] for axis in group) != dim:
            return None
        groups.insert(0, tuple(group))
    return None if rest else groups


@dataclass(frozen=True, slots=True)
class ChainSpace:
    """The space of a chain.

    Attributes:
        sizes: Length of each axis, all above 1.
        axes: By tensor (renamed ones under the tensor whose elements they are); tensors that broadcast
            irregularly are absent.
        folded: Axes that the chain's reductions fold; empty if there is none.
    """

    sizes: tuple[int, ...]
    axes: Mapping[Tensor, Axes]
    folded: frozenset[int]

    @property
    def elements(self) -> int:
        """Elements of the space."""
        return math.prod(self.sizes)

    def is_full(self, tensor: Tensor) -> bool:
        """Whether a tensor has all axes."""
        return len(self.axes.get(tensor, ())) == len(self.sizes)


def space_of_chain(
    nodes: Sequence[Node], root: Callable[[Tensor], Tensor], row_operators: Mapping[Node, int]
) -> ChainSpace | None:
    """The space of elementwise operators, reductions and operators along rows; None if they have none in
    common.

    Args:
        nodes: In execution order; operators that only rename a tensor may be among them.
        root: The tensor whose elements a tensor has under another name.
        row_operators: Operators that normalise along rows (softmax), with the length of a row.
    """
    tensors = _tensors(nodes)
    if not tensors or any(tensor.elements == 0 for tensor in tensors):
        return None
    largest = max(math.prod(walking_shape(tensor)) for tensor in tensors)
    full = [tensor for tensor in tensors if math.prod(walking_shape(tensor)) == largest]
    plain = not row_operators and all(node.op_type not in REDUCTIONS for node in nodes)
    if plain and all(
        tensor in full or tensor.elements == 1 for tensor in tensors
    ):  # one long row, whatever the shapes
        everything = (0,) if largest > 1 else ()
        return ChainSpace(
            everything and (largest,),
            {root(tensor): everything if tensor in full else () for tensor in tensors},
            frozenset(),
        )
    sizes = common_axes(walking_shape(tensor) for tensor in full)
    if sizes is None:
        return None
    axes: dict[Tensor, Axes] = {}
    for tensor in tensors:
        if tensor in full:
            axes[root(tensor)] = tuple(range(len(sizes)))
        elif tensor.elements == 1:
            axes[root(tensor)] = ()
    folded: set[frozenset[int]] = set()
    for _ in range(len(nodes) + 1):
        before = len(axes)
        for node in nodes:
            if not _spread(node, root, axes, sizes, folded):
                return None
        if len(axes) == before:
            break
    for length in row_operators.values():
        row: set[int] = set()
        for axis in reversed(range(len(sizes))):
            if math.prod(sizes[item] for item in row) >= length:
                break
            row.add(axis)
        if math.prod(sizes[item] for item in row) != length:
            return None
        folded.add(frozenset(row))
    if len(folded) > 1:
        return None
    return ChainSpace(sizes, axes, next(iter(folded), frozenset()))


def data_inputs(node: Node) -> list[Tensor]:
    """Inputs that hold data, not axes or shapes."""
    inputs = [tensor for tensor in node.inputs if tensor is not None]
    return (
        inputs[:1]
        if node.op_type in RENAMING or node.op_type in REDUCTIONS or node.op_type == "Expand"
        else inputs
    )


def _tensors(nodes: Sequence[Node]) -> list[Tensor]:
    found = [tensor for node in nodes for tensor in (*data_inputs(node), node.output)]
    return list(dict.fromkeys(found))


def _spread(
    node: Node,
    root: Callable[[Tensor], Tensor],
    axes: dict[Tensor, Axes],
    sizes: tuple[int, ...],
    folded: set[frozenset[int]],
) -> bool:
    """Tells the axes of a node's tensors from each other; False if they contradict."""
    if node.op_type in RENAMING:
        return True
    if node.op_type in REDUCTIONS:
        return _spread_reduction(node, root, axes, sizes, folded)
    output = node.output
    shape = walking_shape(output)
    own = axes.get(root(output))
    if own is None:
        own = next(
            (axes[root(t)] for t in data_inputs(node) if walking_shape(t) == shape and root(t) in axes), None
        )
        if own is None:
            return True
        axes[root(output)] = own
    groups = grouped(shape, own, sizes)
    if groups is None:
        return False
    for tensor in data_inputs(node):
        given = walking_shape(tensor, output)
        padded = (1,) * (len(shape) - len(given)) + given
        if (
            tensor.elements == 1
            or len(padded) != len(shape)
            or any(p not in (1, s) for p, s in zip(padded, shape, strict=True))
        ):
            continue
        part = tuple(
            axis for group, p, s in zip(groups, padded, shape, strict=True) if p == s for axis in group
        )
        if axes.setdefault(root(tensor), part) != part:
            return False
    return True


def _spread_reduction(
    node: Node,
    root: Callable[[Tensor], Tensor],
    axes: dict[Tensor, Axes],
    sizes: tuple[int, ...],
    folded: set[frozenset[int]],
) -> bool:
    """Reductions of the whole space: what is folded, and what the result keeps."""
    source = node.required(0)
    own = axes.get(root(source))
    if own is None:
        return True
    if len(own) != len(sizes):
        return False
    given = node.input(1)
    if given is not None and (given.constant is None or not given.constant.available):
        return False
    shape = walking_shape(source)
    if shape != source.static_shape:
        return False  # blocked formats reorder the axes
    away = reduced_axes(
        node, None if given is None or given.constant is None else given.constant.array(), len(shape)
    )
    groups = grouped(shape, own, sizes)
    if groups is None:
        return False
    gone = {axis for number in away for axis in groups[number]}
    if not gone:
        return False
    folded.add(frozenset(gone))
    kept = tuple(axis for axis in own if axis not in gone)
    return axes.setdefault(root(node.output), kept) == kept
