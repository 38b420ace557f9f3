"""Values of a group of nodes: elementwise members in one pass over the data, the others one by one in
between.

The result has the same bits as the nodes computed one after the other, float16 roundings between them
included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from ascendsim.graph.ir import Array, Node, Tensor
from ascendsim.ops.fused.program import DTypeOf, Expression, Micro, expression, renamed
from ascendsim.ops.shared.common import settled
from ascendsim.ops.shared.magnitudes import Magnitudes, magnitudes
from ascendsim.opset import OpSet


@dataclass(slots=True)
class Pass:
    """Nodes that are computed together: all results have as many elements.

    Attributes:
        elements: Of every result.
        nodes: In execution order, with their instructions.
    """

    elements: int
    nodes: list[tuple[Node, Expression]] = field(default_factory=list)


Unit = Union[Pass, Node]


def plan_chain(nodes: Sequence[Node], opset: OpSet, dtype_of: DTypeOf) -> list[Unit]:
    """Deals nodes out to passes over the data, in order; nodes that the interpreter does not have stand
    alone.
    """
    units: list[Unit] = []
    place: dict[Tensor, tuple[int, int]] = {}  # where a tensor is made, and its elements there
    for node in nodes:
        source = renamed(node)
        if source is not None:
            if source in place:
                place[node.output] = place[source]
            continue
        code = expression(node, opset, dtype_of)
        if code is None:
            place.update(dict.fromkeys(node.outputs, (len(units), -1)))
            units.append(node)
            continue
        size = node.output.elements
        first = 0
        for tensor in code.operands:
            at, elements = place.get(tensor, (-1, -1))
            first = max(first, at if elements == size else at + 1)
        chosen = next(
            (
                n
                for n in range(first, len(units))
                if isinstance(unit := units[n], Pass) and unit.elements == size
            ),
            len(units),
        )
        if chosen == len(units):
            units.append(Pass(size))
        home = units[chosen]
        assert isinstance(home, Pass)
        home.nodes.append((node, code))
        place[node.output] = (chosen, size)
    return units


def run_chain(
    nodes: Sequence[Node],
    arrays: Mapping[Tensor, Array],
    opset: OpSet,
    dtype_of: DTypeOf,
    outputs: Sequence[Tensor],
    seen: dict[Node, Magnitudes] | None = None,
) -> dict[Tensor, Array]:
    """Computes a group of nodes.

    Args:
        nodes: In execution order.
        arrays: Values of every tensor that comes from outside, constants included, in the types of
            `dtype_of`.
        opset: Operators.
        dtype_of: NumPy type of any tensor in this run.
        outputs: Whose values are wanted.
        seen: Receives what each result holds: before it was rounded to float16, or after, of nodes that the
            interpreter does not have.

    Returns:
        Values by tensor.
    """
    units = plan_chain(nodes, opset, dtype_of)
    sources = {node.output: source for node in nodes if (source := renamed(node)) is not None}

    def root(tensor: Tensor) -> Tensor:
        while tensor in sources:
            tensor = sources[tensor]
        return tensor

    values: dict[Tensor, Array] = dict(arrays)

    def value(tensor: Tensor) -> Array:
        if tensor not in values:
            values[tensor] = values[root(tensor)].reshape(tensor.static_shape)
        return values[tensor]

    wanted_later = _read_after(units, root, outputs)
    for number, unit in enumerate(units):
        if isinstance(unit, Pass):
            values.update(_run_pass(unit, value, root, dtype_of, wanted_later[number], seen))
            continue
        given = [None if tensor is None else value(tensor) for tensor in unit.inputs]
        with np.errstate(all="ignore"):
            results = opset.get(unit).values(unit, given, [dtype_of(tensor) for tensor in unit.outputs])
        held = None if seen is None else magnitudes(np.asarray(results[0]))
        if seen is not None and held is not None:
            seen[unit] = held
        values.update(
            {
                tensor: settled(np.asarray(result), dtype_of(tensor))
                for tensor, result in zip(unit.outputs, results, strict=False)
                if result is not None
            }
        )
    return {tensor: value(tensor) for tensor in outputs}


def _read_after(
    units: Sequence[Unit], root: Callable[[Tensor], Tensor], outputs: Sequence[Tensor]
) -> list[set[Tensor]]:
    """For each unit: tensors that later units or the caller read."""
    wanted = {root(tensor) for tensor in outputs}
    result: list[set[Tensor]] = []
    for unit in reversed(units):
        result.append(set(wanted))
        if isinstance(unit, Pass):
            wanted.update(root(tensor) for _, code in unit.nodes for tensor in code.operands)
        else:
            wanted.update(root(tensor) for tensor in unit.inputs if tensor is not None)
    return result[::-1]


def _run_pass(
    unit: Pass,
    value: Callable[[Tensor], Array],
    root: Callable[[Tensor], Tensor],
    dtype_of: DTypeOf,
    wanted: set[Tensor],
    seen: dict[Node, Magnitudes] | None,
) -> dict[Tensor, Array]:
    from ascendsim_kernels.elementwise import Unary
    from ascendsim_kernels.fused import Compare, Instruction, Kind, Overflow, run_program
    from ascendsim_kernels.pairwise import Binary

    numbers: dict[str, Any] = {
        "PLAIN": Unary,
        "CURVED": Unary,
        "BINARY": Binary,
        "COMPARE": Compare,
        "ROUND": Overflow,
    }
    made = {node.output for node, _ in unit.nodes}
    kept = [node.output for node, _ in unit.nodes if node.output in wanted]
    registers = _Registers(unit, root, set(kept))
    loads: list[tuple[int, Array, tuple[int, ...]]] = []
    code: list[Instruction] = []
    rounded: dict[Node, int] = {}  # the instruction that rounds a node's result

    def place(tensor: Tensor, shape: tuple[int, ...]) -> int:
        """The register of an operand, loaded at the start of the pass if it comes from outside."""
        source = root(tensor)
        if source in made:
            return registers.of(source)
        key = (source, None if tensor.elements == unit.elements else shape)
        if not registers.holds(key):
            registers.give(key)
            loads.append(
                (
                    registers.of(key),
                    value(tensor),
                    shape if tensor.elements != unit.elements else tensor.static_shape,
                )
            )
        return registers.of(key)

    for position, (node, expr) in enumerate(unit.nodes):
        operands = [place(tensor, node.output.static_shape) for tensor in expr.operands]
        last = operands[0]
        for micro in expr.code:
            target = registers.fresh()
            operation = int(numbers[micro.kind][micro.op]) if micro.op else 0
            code.append(
                Instruction(
                    Kind[micro.kind], operation, target, _places(micro, operands, last), micro.a, micro.b
                )
            )
            if micro.kind == "ROUND":
                rounded[node] = len(code) - 1
            if last not in operands:
                registers.free(last)
            last = target
        registers.name(node.output, last, shared=not expr.code)
        registers.release(position)
    results, largest, flushed = run_program(
        code,
        registers.count,
        loads,
        [(registers.of(tensor), dtype_of(tensor)) for tensor in kept],
        unit.elements,
    )
    if seen is not None:
        for node, number in rounded.items():
            seen[node] = Magnitudes(float(largest[number]), flushed=int(flushed[number]))
    return {tensor: result.reshape(tensor.static_shape) for tensor, result in zip(kept, results, strict=True)}


def _places(micro: Micro, operands: Sequence[int], last: int) -> tuple[int, ...]:
    return tuple(last if source == -1 else operands[source] for source in micro.sources)


class _Registers:
    """Registers of one pass, used again after the last use of what they held.

    Loaded operands keep theirs to the end: they are loaded once at the start of a block.
    """

    def __init__(self, unit: Pass, root: Callable[[Tensor], Tensor], kept: set[Tensor]) -> None:
        self.count = 0
        self._held: dict[Any, int] = {}
        self._free: list[int] = []
        self._sharers: dict[int, int] = {}
        self._kept = kept
        self._ends: dict[int, list[Tensor]] = {}
        made = {node.output for node, _ in unit.nodes}
        last: dict[Tensor, int] = {}
        for position, (node, expr) in enumerate(unit.nodes):
            last[node.output] = position
            last.update({root(tensor): position for tensor in expr.operands if root(tensor) in made})
        for tensor, position in last.items():
            self._ends.setdefault(position, []).append(tensor)

    def holds(self, key: Any) -> bool:
        return key in self._held

    def of(self, key: Any) -> int:
        return self._held[key]

    def give(self, key: Any) -> None:
        """A register of its own, never freed."""
        self._held[key] = self.count
        self.count += 1

    def fresh(self) -> int:
        if self._free:
            return self._free.pop()
        self.count += 1
        return self.count - 1

    def free(self, register: int) -> None:
        self._free.append(register)

    def name(self, tensor: Tensor, register: int, shared: bool) -> None:
        """Says which register holds a tensor; `shared` if another tensor is in it too."""
        self._held[tensor] = register
        self._sharers[register] = self._sharers.get(register, 0) + 1
        if shared and self._sharers[register] == 1:
            self._sharers[register] = 2  # with a loaded operand, which stays

    def release(self, position: int) -> None:
        """Frees the registers of tensors that no later instruction reads."""
        for tensor in self._ends.get(position, ()):
            if tensor in self._kept or tensor not in self._held:
                continue
            register = self._held[tensor]
            self._sharers[register] -= 1
            if self._sharers[register] == 0:
                self._free.append(register)
