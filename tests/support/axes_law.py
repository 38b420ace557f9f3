"""The law of `opset.axes`, checked by changing elements: only outputs that the map names may change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ascendsim.graph.ir import Node
from ascendsim.ops import default_opset
from ascendsim.opset import OpDef
from ascendsim.opset.axes import AxisMap, Link, Relation
from tests.support.single_node import Array, make_node

CHANGES = 4  # elements of an input that are changed, one after the other


def broken_links(
    op_type: str, inputs: Sequence[Any], outputs: int = 1, domain: str = "", start: int = 0, **attributes: Any
) -> Iterator[str]:
    """What of a node's outputs changes with an element of an input though its axis map says that it cannot.

    Args:
        op_type, domain, attributes: The node.
        inputs: Values by port.
        outputs: How many outputs it has.
        start: Says which elements change.
    """
    node = make_node(op_type, inputs, outputs, domain, **attributes)
    definition = default_opset().get(node)
    arrays = [None if value is None else np.asarray(value) for value in inputs]
    before = _values(definition, node, arrays)
    rules = definition.facts.axes(node)
    _check_form(rules, arrays, before)
    random = np.random.default_rng(start)
    for port, array in enumerate(arrays):
        if array is None or not array.size or port in definition.facts.parameters:
            continue
        for flat in random.choice(array.size, min(CHANGES, array.size), replace=False):
            place = np.unravel_index(int(flat), array.shape)
            changed = list(arrays)
            changed[port] = changed_at(array, place)
            try:
                after = _values(definition, node, changed)
            except Exception:  # an index that leaves its range, say: nothing to learn
                continue
            yield from _unexpected(node, rules, port, place, before, after)


def _values(definition: OpDef, node: Node, arrays: Sequence[Array | None]) -> list[Array]:
    with np.errstate(all="ignore"):
        return [
            np.asarray(array)
            for array in definition.compute(
                node, arrays, [tensor.element_type.numpy for tensor in node.outputs]
            )
        ]


def changed_at(array: Array, place: tuple[Any, ...]) -> Array:
    """A copy with another element in one place."""
    copy = array.copy()
    old = copy[place]
    if array.dtype == np.bool_:
        copy[place] = not old
    elif array.dtype.kind in "iu":
        copy[place] = old - 1 if old > 0 else old + 1
    elif array.dtype.kind == "O":
        copy[place] = f"{old}x"
    else:
        copy[place] = array.dtype.type(float(old) * 0.5 + 0.75)
    return copy


def _check_form(rules: AxisMap, arrays: Sequence[Array | None], results: Sequence[Array]) -> None:
    """Every link belongs to an axis that exists; sizes of parallel axes agree."""
    for (port, output), links in rules.links.items():
        array = arrays[port]
        assert array is not None, f"links of input {port}, which is absent"
        assert len(links) == array.ndim, f"{len(links)} links for input {port} of rank {array.ndim}"
        for size, link in zip(array.shape, links, strict=True):
            if link.axis is None:
                continue
            made = results[output].shape[link.axis]
            if link.relation is Relation.PARALLEL and output == 0:  # others may be left out, or be sums
                assert size == made, f"slices of {link} do not fit {size} and {made}"
            if link.relation is Relation.GROUP:
                assert size * link.make == made * link.take, f"groups {link} do not fit {size} and {made}"


def _unexpected(
    node: Node,
    rules: AxisMap,
    port: int,
    place: tuple[Any, ...],
    before: Sequence[Array],
    after: Sequence[Array],
) -> Iterator[str]:
    for output, (old, new) in enumerate(zip(before, after, strict=True)):
        if old.shape != new.shape:
            continue
        for axis, link in enumerate(rules.of(port, output)):
            reached = _differing(old, new, link)
            wrong = [index for index in reached if not _may_reach(link, int(place[axis]), index)]
            if wrong:
                yield (
                    f"{node.op_type}: element {tuple(map(int, place))} of input {port} changes slice "
                    f"{wrong[0]} of output {output} along "
                    f"axis {link.axis}, but axis {axis} of the input is {link}"
                )
                return


def _differing(old: Array, new: Array, link: Link) -> Sequence[int]:
    """Slices along the link's axis that differ; [0] if there is no such axis and anything differs."""
    differs = (old != new) & ~((old != old) & (new != new))
    if link.axis is None:
        return [0] if np.any(differs) else []
    others = tuple(axis for axis in range(old.ndim) if axis != link.axis)
    return [int(index) for index in np.flatnonzero(np.any(differs, axis=others))]


def _may_reach(link: Link, index: int, result: int) -> bool:
    if link.relation is Relation.PARALLEL:
        return index == result
    if link.relation is Relation.GROUP:
        return index // link.take == result // link.make
    if link.relation is Relation.WINDOW:
        first = result * link.stride - link.before
        return first <= index < first + link.reach
    return link.relation is not Relation.UNREAD
