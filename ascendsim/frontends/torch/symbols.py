"""Sizes that are open: which input says them, and tensors that hold what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ascendsim.core.errors import InputError
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor

_OPERATIONS = {
    "Add": "Add",
    "Mul": "Mul",
    "FloorDiv": "Div",
    "CleanDiv": "Div",
    "Mod": "Mod",
    "PythonMod": "Mod",
}


def is_symbol(size: Any) -> bool:
    """Whether a size is a `torch.SymInt`; it behaves like a number, and becomes one if it is asked to."""
    return type(size).__name__ == "SymInt"


class Symbols:
    """The symbols of one graph."""

    def __init__(self) -> None:
        self._homes: dict[str, tuple[Tensor, int]] = {}
        self._known: dict[str, Tensor] = {}

    def seen(self, tensor: Tensor, shape: Sequence[Any]) -> None:
        """Notes which dimensions of an input are symbols of their own."""
        for axis, size in enumerate(shape):
            if is_symbol(size):
                self._homes.setdefault(str(size), (tensor, axis))

    def tensor(self, builder: GraphBuilder, sizes: Sequence[Any]) -> Tensor:
        """Sizes as a vector."""
        parts = [
            self._of(builder, size.node.expr) if is_symbol(size) else builder.constant([int(size)], "size")
            for size in sizes
        ]
        return parts[0] if len(parts) == 1 else builder.op("Concat", *parts, axis=0)

    def _of(self, builder: GraphBuilder, expression: Any) -> Tensor:
        """A vector of one number for an expression of symbols."""
        text = str(expression)
        if text not in self._known:
            self._known[text] = self._made(builder, expression, text)
        return self._known[text]

    def _made(self, builder: GraphBuilder, expression: Any, text: str) -> Tensor:
        if expression.is_Integer:
            return builder.constant([int(expression)], "size")
        if text in self._homes:
            tensor, axis = self._homes[text]
            return builder.op("Shape", tensor, start=axis, end=axis + 1)
        operation = _OPERATIONS.get(type(expression).__name__)
        if operation is None:
            raise InputError(
                f"size {text}", "cannot be computed from the inputs' shapes", remedy="give static shapes"
            )
        first, *others = (self._of(builder, part) for part in expression.args)
        for other in others:
            first = builder.op(operation, first, other)
        return first
