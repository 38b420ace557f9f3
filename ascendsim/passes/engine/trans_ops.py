"""TransOpSymmetryEliminationPass and TransOpWithoutReshapeFusionPass: transposes and casts behind each other.

    Transpose(Transpose(x, p), q)        -> Transpose(x, p[q]), or x if the two undo each other
    Cast(Cast(x: A, to B), to A)         -> x, if B holds every value of A
    Cast(Cast(x: A, to B), to C)         -> Cast(x, to C), if B holds every value of A and C takes them alike

float32 -> float16 -> float32 rounds, so it stays. Floats that become integers stay as they are if they take a
detour: what is out of range then depends on the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Node, Tensor
from ascendsim.passes.engine.edits import bypass, is_standard, only_reader, same_type
from ascendsim.passes.engine.no_use import permutation
from ascendsim.passes.engine.node_pass import Site, again_around, standard
from ascendsim.passes.rewriting.removal import remove_unread

# bits, the leading 1 included
_MANTISSA = {DType.BFLOAT16: 8, DType.FLOAT16: 11, DType.FLOAT32: 24, DType.FLOAT64: 53}
_EXPONENT = {DType.FLOAT16: 5, DType.BFLOAT16: 8, DType.FLOAT32: 8, DType.FLOAT64: 11}  # bits


def is_lossless(source: DType, target: DType) -> bool:
    """Whether every value of a type, signs of zeros and infinities included, is a value of another one.

    >>> is_lossless(DType.FLOAT16, DType.FLOAT32), is_lossless(DType.INT32, DType.FLOAT32)
    (True, False)
    """
    if source is DType.BOOL:
        return True
    if target is DType.BOOL:
        return False
    if source.is_float:
        return (
            target.is_float
            and _MANTISSA[source] <= _MANTISSA[target]
            and _EXPONENT[source] <= _EXPONENT[target]
        )
    bits, signed = 8 * source.itemsize, source.value.startswith("int")
    if target.is_float:
        return bool(bits - signed <= _MANTISSA[target])  # exponents reach far beyond so few digits
    if target.value.startswith("int"):
        return 8 * target.itemsize > bits or (signed and 8 * target.itemsize >= bits)
    return not signed and 8 * target.itemsize >= bits


def _converts_alike(source: DType, target: DType) -> bool:
    """Whether a value of type `source` becomes the same value of type `target` from any wider type that holds
    it.
    """
    return not source.is_float or target.is_float or target is DType.BOOL


@dataclass(frozen=True, slots=True)
class TransOpSymmetryEliminationPass:
    """Removes the second of two neighbours that undo each other; the first goes when nobody else reads it."""

    name: str = "TransOpSymmetryEliminationPass"
    op_types: frozenset[tuple[str, str]] = standard("Cast", "Transpose")

    def run(self, node: Node, site: Site) -> bool:
        pair = _pair(node)
        if pair is None:
            return False
        first, source = pair
        if not same_type(source, node.output) or not _undone(first, node, source):
            return False
        again_around(first, site)
        again_around(node, site)
        if not bypass(node, source):
            return False
        remove_unread(first)
        site.tally.count(f"removed {node.op_type} pairs")
        return True


@dataclass(frozen=True, slots=True)
class TransOpWithoutReshapeFusionPass:
    """Makes one operator of two neighbours, if nobody else reads what is between them."""

    name: str = "TransOpWithoutReshapeFusionPass"
    op_types: frozenset[tuple[str, str]] = standard("Cast", "Transpose")

    def run(self, node: Node, site: Site) -> bool:
        pair = _pair(node)
        if pair is None:
            return False
        first, source = pair
        if not only_reader(first.output) or first.followers or not _merge(first, node, source):
            return False
        node.set_input(0, source)
        remove_unread(first)
        again_around(node, site)
        site.again(node)
        site.tally.count(f"merged {node.op_type}")
        return True


def _pair(node: Node) -> tuple[Node, Tensor] | None:
    """The operator of the same kind before a Cast or Transpose in the same graph that waits for nothing else,
    and what it reads.
    """
    first = node.required(0).producer
    if (
        first is None
        or first.graph is not node.graph
        or not is_standard(first, node.op_type)
        or first.control
    ):
        return None
    return first, first.required(0)


def _undone(first: Node, second: Node, source: Tensor) -> bool:
    if first.op_type == "Cast":
        return is_lossless(_kind(source), _kind(first.output))
    return _together(first, second) == tuple(range(len(source.shape or ())))


def _merge(first: Node, second: Node, source: Tensor) -> bool:
    if first.op_type == "Cast":
        start, middle, end = _kind(source), _kind(first.output), _kind(second.output)
        device = source.dtype is source.origin_dtype and first.output.dtype is first.output.origin_dtype
        return device and is_lossless(start, middle) and _converts_alike(start, end)
    perm = _together(first, second)
    if perm is None:
        return False
    second.attributes["perm"] = perm
    return True


def _together(first: Node, second: Node) -> tuple[int, ...] | None:
    inner, outer = permutation(first), permutation(second)
    if inner is None or outer is None or len(inner) != len(outer):
        return None
    return tuple(inner[axis] for axis in outer)


def _kind(tensor: Tensor) -> DType:
    return tensor.origin_dtype or tensor.element_type
