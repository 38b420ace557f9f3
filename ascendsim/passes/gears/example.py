"""Shapes for a network whose inputs are open, for messages: an example that can be copied and runs.

What an open dimension is for is guessed from its place and name. Whether the sizes go together is not: every
shape in the graph is inferred with them (a detector that joins maps of several scales takes multiples of its
stride only), and the first that go together are the example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Dim, Graph, Shape, Tensor
from ascendsim.opset import OpSet
from ascendsim.passes.gears.specialise import with_input_shapes

Shapes = dict[str, tuple[int, ...]]

# heights and widths of pictures, the usual ones first; those of a line of text are in front of small squares
_SIDES = (
    *((side, side) for side in (224, 320, 640, 512, 256, 128)),
    *((48, 320), (32, 320), (64, 320)),
    *((side, side) for side in (64, 48, 32, 16, 8, 4, 2, 1)),
)
_LENGTHS = (128, 512, 64, 32, 256, 16, 8, 4, 2, 1, 1280, 16000)  # words of a text, then samples of sound
_RANKS = ((1, 3, 224, 224), (1, 128), (1,), ())  # where not even the rank is known
_COLOURS = 3
_MOST_COLOURS = 4
_IMAGE_RANK = 4
_SEQUENCE = re.compile(r"seq|len|past|time|token|frame", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Dims:
    """What the open dimensions of a graph are for, those with one name together; the rest are lengths."""

    batch: frozenset[Dim]
    colours: frozenset[Dim]
    heights: frozenset[Dim]
    widths: frozenset[Dim]

    def size(self, dim: Dim, batch: int, side: tuple[int, int], length: int) -> int:
        if isinstance(dim, int):
            return dim
        if isinstance(dim, str) and "+" in dim:  # "past_length + length", as exporters name a sum
            parts: list[Dim] = [
                int(part) if part.isdigit() else part for part in map(str.strip, dim.split("+"))
            ]
            return sum(self.size(part, batch, side, length) for part in parts)
        if dim in self.batch:
            return batch
        if dim in self.colours:
            return _COLOURS
        return side[0] if dim in self.heights else side[1] if dim in self.widths else length


def example_shapes(graph: Graph, opset: OpSet) -> Shapes | None:
    """Shapes of the inputs that are open, with which every shape in the graph can be inferred.

    Args:
        graph: Stays as it is.
        opset: Its operators.

    Returns:
        By input name; None if none of the usual sizes goes.
    """
    return next((shapes for shapes in _candidates(graph) if _fits(graph, opset, shapes)), None)


def input_shape_text(shapes: Mapping[str, Sequence[object]]) -> str:
    """Shapes as ATC's --input_shape takes them.

    >>> input_shape_text({"a": (1, 3, 224, 224), "b": (1, 128)})
    'a:1,3,224,224;b:1,128'
    """
    return ";".join(f"{name}:{','.join(map(str, dims))}" for name, dims in shapes.items())


def how_to_say_shapes(graph: Graph, opset: OpSet) -> str:
    """A remedy for open inputs: the option with an example, for the command line and for Python."""
    shapes = example_shapes(graph, opset)
    if shapes is None:
        forms = {tensor.name: _form(tensor) for tensor in graph.inputs if not tensor.is_static}
        return f"say which: --input_shape {input_shape_text(forms)!r} with numbers; in Python shapes={{...}}"
    name, dims = next(iter(shapes.items()))
    more = ", ..." if len(shapes) > 1 else ""
    return (
        f"say which, for example --input_shape {input_shape_text(shapes)!r}; in Python "
        f"shapes={{{name!r}: {dims}{more}}}"
    )


def _form(tensor: Tensor) -> tuple[object, ...]:
    return ("DIMS",) if tensor.shape is None else tuple("N" if dim is None else dim for dim in tensor.shape)


def _fits(graph: Graph, opset: OpSet, shapes: Shapes) -> bool:
    try:
        closed = with_input_shapes(graph, opset, shapes)
    except AscendSimError:
        return False
    made = (tensor for node in closed.nodes for tensor in node.outputs if tensor.is_static)
    return all(tensor.elements > 0 for tensor in made)


def _candidates(graph: Graph) -> Iterator[Shapes]:
    """Sizes to try, each once, the most usual first."""
    names = _named(graph)
    dims = _kinds(names)
    ranks = _RANKS if any(shape is None for shape in names.values()) else _RANKS[:1]
    pairs = list(zip(_SIDES, _LENGTHS, strict=False))
    pairs += [(side, _LENGTHS[0]) for side in _SIDES]
    pairs += [(side, length) for side in _SIDES[:4] for length in _LENGTHS]
    found = dict.fromkeys(
        tuple(_sized(names, kinds, rank, batch, side, length).items())
        for kinds, batch in ((dims, 1), *((more, 1) for more in _with_one_more_batch(names, dims)), (dims, 2))
        for rank in ranks
        for side, length in pairs
    )
    yield from map(dict, found)


def _sized(
    names: Mapping[str, Shape | None],
    dims: _Dims,
    rank: tuple[int, ...],
    batch: int,
    side: tuple[int, int],
    length: int,
) -> Shapes:
    return {
        name: rank if shape is None else tuple(dims.size(dim, batch, side, length) for dim in shape)
        for name, shape in names.items()
    }


def _with_one_more_batch(names: Mapping[str, Shape | None], dims: _Dims) -> Iterator[_Dims]:
    """The batch need not stand in front, as in the state of a recurrent network, nor have its name there."""
    for shape in filter(None, names.values()):
        for dim in shape[1:]:
            if isinstance(dim, str) and dim not in dims.batch:
                yield replace(dims, batch=dims.batch | {dim})


def _named(graph: Graph) -> dict[str, Shape | None]:
    """The open inputs, with a name for every open dimension."""
    return {
        tensor.name: None
        if tensor.shape is None
        else tuple(f"{tensor.name}/{axis}" if dim is None else dim for axis, dim in enumerate(tensor.shape))
        for tensor in graph.inputs
        if not tensor.is_static
    }


def _kinds(names: Mapping[str, Shape | None]) -> _Dims:
    batch: set[Dim] = set()
    colours: set[Dim] = set()
    heights: set[Dim] = set()
    widths: set[Dim] = set()
    for shape in filter(None, names.values()):
        if isinstance(shape[0], str) and not _SEQUENCE.search(shape[0].rpartition("/")[2]):
            batch.add(shape[0])
        if len(shape) != _IMAGE_RANK:
            continue
        last = shape[-1]
        channels_last = isinstance(last, int) and last <= _MOST_COLOURS and not isinstance(shape[1], int)
        if not channels_last:
            colours.add(shape[1])
        for kind, dim in zip((heights, widths), shape[1:3] if channels_last else shape[2:], strict=True):
            if isinstance(dim, str) and not _SEQUENCE.search(dim.rpartition("/")[2]):
                kind.add(dim)
    others = (frozenset(kind - batch) for kind in (colours, heights, widths))
    return _Dims(frozenset(batch), *others)
