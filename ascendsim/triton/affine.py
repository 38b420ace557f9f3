"""Affine maps of MLIR's text: `(d0)[s0, s1] -> (d0 + s0 floordiv 64, s1)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ascendsim.core.errors import InputError

_TOKEN = re.compile(r"\s*(floordiv|ceildiv|mod|[A-Za-z_]\w*|\d+|[-+*()])")
_MAP = re.compile(r"\(([^()]*)\)(?:\[([^\]]*)\])?\s*->\s*\((.*)\)$", re.DOTALL)
Expression = Callable[[Sequence[int]], int]


@dataclass(frozen=True)
class AffineMap:
    """A map of integers.

    Attributes:
        dimensions: How many of the arguments are dimensions; the others are symbols.
        results: Expressions in all arguments.
    """

    dimensions: int
    results: tuple[Expression, ...]

    def __call__(self, values: Sequence[int]) -> list[int]:
        return [result(values) for result in self.results]


def affine_map(text: str) -> AffineMap:
    """Reads a map.

    Raises:
        InputError: The text is none.

    >>> affine_map("(d0)[s0] -> (d0 * 4 + s0, (d0 - s0) mod 2, d0 ceildiv 3)")([7, 2])
    [30, 1, 3]
    """
    found = _MAP.match(text.strip())
    if found is None:
        raise _wrong(text)
    dimensions, symbols = (
        [one.strip() for one in (part or "").split(",") if one.strip()] for part in (found[1], found[2])
    )
    parser = _Parser(found[3], [*dimensions, *symbols])
    results = [parser.sum()]
    while parser.take(","):
        results.append(parser.sum())
    parser.end()
    return AffineMap(len(dimensions), tuple(results))


def _wrong(text: str) -> InputError:
    return InputError("affine map", "cannot be read", repr(text))


class _Parser:
    """Recursive descent over the results of a map."""

    def __init__(self, text: str, names: Sequence[str]) -> None:
        self._text, self._names, self._at = text, names, 0
        self._tokens: list[str] = []
        place = 0
        while place < len(text.rstrip()):
            if text[place:].lstrip().startswith(","):
                place = text.index(",", place) + 1
                self._tokens.append(",")
                continue
            found = _TOKEN.match(text, place)
            if found is None:
                raise _wrong(text)
            self._tokens.append(found[1])
            place = found.end()

    def take(self, *wanted: str) -> str:
        """The next token if it is one of some, else ""."""
        if self._at < len(self._tokens) and self._tokens[self._at] in wanted:
            self._at += 1
            return self._tokens[self._at - 1]
        return ""

    def end(self) -> None:
        if self._at != len(self._tokens):
            raise _wrong(self._text)

    def sum(self) -> Expression:
        value = self._product()
        while sign := self.take("+", "-"):
            value = _joined(sign, value, self._product())
        return value

    def _product(self) -> Expression:
        value = self._factor()
        while sign := self.take("*", "floordiv", "ceildiv", "mod"):
            value = _joined(sign, value, self._factor())
        return value

    def _factor(self) -> Expression:
        if self.take("-"):
            inner = self._factor()
            return lambda values: -inner(values)
        if self.take("("):
            inner = self.sum()
            if not self.take(")"):
                raise _wrong(self._text)
            return inner
        if self._at == len(self._tokens):
            raise _wrong(self._text)
        token = self._tokens[self._at]
        self._at += 1
        if token.isdigit():
            number = int(token)
            return lambda values: number
        if token not in self._names:
            raise _wrong(self._text)
        place = self._names.index(token)
        return lambda values: values[place]


def _joined(sign: str, left: Expression, right: Expression) -> Expression:
    operations: dict[str, Expression] = {
        "+": lambda values: left(values) + right(values),
        "-": lambda values: left(values) - right(values),
        "*": lambda values: left(values) * right(values),
        "floordiv": lambda values: left(values) // right(values),
        "ceildiv": lambda values: -(-left(values) // right(values)),
        "mod": lambda values: left(values) % right(values),
    }
    return operations[sign]
