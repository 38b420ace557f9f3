"""Arguments of public functions, checked against their annotations: who passes a wrong type hears which
argument it was.

    @checked(model="asim.compile makes one")
    def simulate(model: CompiledModel, *, seed: int = 0) -> Result: ...

    simulate("lenet.onnx")   InputError: argument model must be a CompiledModel, not 'lenet.onnx';
                             asim.compile makes one

What an annotation says of elements is checked in lists, tuples and arrays only, so that nothing is consumed;
a class that is imported for the type checker alone is known by its name. Numbers are what Python's `numbers`
calls so, NumPy's among them, and a bool is none.

Whoever comes from ATC writes `soc_version=` for the chip: it is taken for `soc=`.
"""

from __future__ import annotations

import builtins
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from os import PathLike
from typing import Any, ForwardRef, Literal, ParamSpec, TypeVar, Union

from ascendsim.core.errors import InputError, UnknownOptionError, suggest

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

CHIP, ATC_CHIP = "soc", "soc_version"  # an argument here, and what ATC calls it
MOST_SEED = 2**32 - 1
_MOST_CALLS = 256  # that are remembered of a function
_LONGEST = 60  # characters of a wrong value that a message shows
_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    str: "text",
    bytes: "bytes",
    PathLike: "a path",
    Mapping: "a dictionary by name",
    Callable: "a function",
}
_PLURALS: Mapping[Any, str] = {int: "whole numbers", float: "numbers", str: "texts"}


def checked(**remedies: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """A decorator that refuses arguments of a wrong type.

    Args:
        **remedies: By argument: what to do if it is wrong; by a name that is no argument and that users of
            another tool may write: what to write instead.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        # types of calls by position that were fine: there are few, and a hundred thousand such calls
        fine: set[tuple[type, ...] | None] = set()

        @cache
        def rules() -> tuple[list[_Rule], dict[str, _Rule], _Rule | None, _Rule | None]:
            return _rules(function, remedies)  # when it is called first: annotations name what comes later

        @wraps(function)
        def checking(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if ATC_CHIP in kwargs:
                kwargs = chip_by_its_name_here(function, args, kwargs)  # type: ignore[assignment]
            call = None if kwargs else tuple(map(type, args))
            if call in fine:
                return function(*args, **kwargs)
            in_order, by_name, further, others = rules()
            for rule, value in zip(in_order, args, strict=False):
                if type(value) not in rule.fine:  # a call less
                    rule.check(value)
            if further is not None:
                for value in args[len(in_order) :]:
                    if type(value) not in further.fine:
                        further.check(value)
            for name, value in kwargs.items():
                named = by_name.get(name, others)
                if named is None:
                    remedy = remedies.get(name) or suggest(
                        name, (known for known in by_name if known != "self")
                    )
                    raise UnknownOptionError(f"option {name}", "does not exist", remedy=remedy)
                if type(value) not in named.fine:
                    named.check(value, name)
            if call is not None and list not in call and tuple not in call and len(fine) < _MOST_CALLS:
                takers = in_order if further is None else [*in_order, *[further] * len(args)]
                if all(kind in rule.fine for kind, rule in zip(call, takers, strict=False)):
                    fine.add(call)
            return function(*args, **kwargs)

        return checking

    return decorate


def chip_by_its_name_here(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Keyword arguments with ATC's word for the chip, `soc_version`, as `soc`, where a function takes that.

    Raises:
        InputError: If the chip is named twice.
    """
    names = list(signature(function).parameters)
    renamed = dict(kwargs)
    if CHIP not in names or ATC_CHIP in names or ATC_CHIP not in kwargs:
        return renamed
    if CHIP in kwargs or names.index(CHIP) < len(args):
        raise InputError(f"options {CHIP} and {ATC_CHIP}", "say the same", remedy="give one of them")
    renamed[CHIP] = renamed.pop(ATC_CHIP)
    return renamed


def refuse_unknown(function: Callable[..., Any], options: Iterable[str]) -> None:
    """Refuses options that a function does not take.

    Raises:
        InputError: Names the option and suggests the nearest one.
    """
    known = [
        name
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    ]
    for name in options:
        if name not in known:
            raise InputError(f"option {name}", "does not exist", remedy=suggest(name, known))


def check_seed(seed: int) -> None:
    """Refuses what seeds no generator (NumPy's and those of its guests take 32 bits).

    Raises:
        InputError: If it is negative or too large.
    """
    if not 0 <= seed <= MOST_SEED:
        raise InputError("option seed", f"must be from 0 to {MOST_SEED}", seed)


class _Rule:
    """What one parameter takes.

    Types of values that were fine before are remembered: most calls come from inside, with few types.

    Attributes:
        fine: These types; of a list or tuple with the types of its elements.
    """

    def __init__(self, parameter: Parameter, kind: Any, remedy: str) -> None:
        self._word = (
            "option" if parameter.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD) else "argument"
        )
        self._name, self._kind, self._remedy = parameter.name, kind, remedy
        self.fine: set[Any] = set()
        self._learns, self._parts = _by_type(kind), bool(typing.get_args(kind))

    def check(self, value: Any, name: str = "") -> None:
        """Refuses a value of another kind."""
        own: Any = type(value)
        if isinstance(value, (list, tuple)):
            own = own, frozenset(map(type, value))
        if own in self.fine:
            return
        if self._kind is not Any and not _fits(value, self._kind):
            shown = repr(value) if isinstance(value, (str, int, float, types.NoneType)) else ""
            actual = shown if 0 < len(shown) <= _LONGEST else type(value).__name__
            raise InputError(
                f"{self._word} {name or self._name}", f"must be {_said(self._kind)}", actual, self._remedy
            )
        nested = isinstance(value, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in value)
        # arrays are of one class whatever their shapes and elements
        if self._learns and not nested and not (self._parts and hasattr(type(value), "dtype")):
            self.fine.add(own)


def _by_type(kind: Any) -> bool:
    """Whether the types of a value and of its elements decide if it fits."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple and len(parts) > 1 and parts[1] is not ...:
        return False  # its length counts
    return origin is not Literal and all(map(_by_type, parts))


def _rules(
    function: Callable[..., Any], remedies: Mapping[str, str]
) -> tuple[list[_Rule], dict[str, _Rule], _Rule | None, _Rule | None]:
    """Rules by position, by name, of further positional arguments and of further named ones."""
    names = _Names(function)
    in_order: list[_Rule] = []
    by_name: dict[str, _Rule] = {}
    rest: dict[Any, _Rule] = {}
    for parameter in signature(function).parameters.values():
        note = parameter.annotation
        kind = Any if note is Parameter.empty else names.resolved(note)
        rule = _Rule(parameter, kind, remedies.get(parameter.name, ""))
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            rest[parameter.kind] = rule
            continue
        by_name[parameter.name] = rule
        if parameter.kind is not Parameter.KEYWORD_ONLY:
            in_order.append(rule)
    return in_order, by_name, rest.get(Parameter.VAR_POSITIONAL), rest.get(Parameter.VAR_KEYWORD)


class _ByName(type):
    """A class that is known by its name alone."""

    def __getattr__(cls, name: str) -> _ByName:
        if name.startswith("_"):
            raise AttributeError(name)
        return _ByName(name, (), {})

    def __instancecheck__(cls, value: object) -> bool:
        return any(base.__name__ == cls.__name__ for base in type(value).__mro__)


class _Names(dict[str, Any]):
    """What the names in a function's annotations mean."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(getattr(function, "__globals__", {}))

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name) if hasattr(builtins, name) else _ByName(name, (), {})

    def resolved(self, note: Any) -> Any:
        """An annotation with the strings in it evaluated, as far as unions and sequences go."""
        if isinstance(note, (str, ForwardRef)):
            return self.resolved(eval(note if isinstance(note, str) else note.__forward_arg__, {}, self))
        if typing.get_origin(note) in (Union, types.UnionType):
            return Union[tuple(self.resolved(part) for part in typing.get_args(note))]
        origin = typing.get_origin(note)
        if origin in (tuple, list, Sequence, Iterable):
            return origin[
                tuple(part if part is ... else self.resolved(part) for part in typing.get_args(note))
            ]
        return note


def _fits(value: Any, kind: Any) -> bool:
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    plain = _plain(kind)
    if plain is int or plain is float:
        return isinstance(value, Integral if plain is int else Real) and not isinstance(value, bool)
    if plain is bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # NumPy's
    if plain is tuple and len(parts) > 1 and parts[1] is not ...:
        return _listed(value) and len(value) == len(parts) and all(map(_fits, value, parts))
    if plain in (Sequence, Iterable, tuple, list):
        right = (
            isinstance(value, Iterable) and not isinstance(value, bytes)
            if plain is Iterable
            else _listed(value)
        )
        if not right or not parts:
            return right
        if hasattr(value, "dtype") and value.dtype != object:  # an array's elements are all alike
            return all(_fits(item, parts[0]) for item in value[:1])
        return not (isinstance(value, (list, tuple)) or hasattr(value, "dtype")) or all(
            _fits(item, parts[0]) for item in value
        )
    if kind is None or kind is Any or not isinstance(plain, type):
        return kind is not None or value is None
    return isinstance(value, plain)


def _listed(value: Any) -> bool:
    """Whether a value is a sequence other than text: a list, a tuple, an array of a rank above 0."""
    return (
        getattr(value, "ndim", 1) > 0
        and isinstance(value, Iterable)
        and hasattr(value, "__getitem__")
        and not isinstance(value, (str, bytes, Mapping))
    )


def _plain(kind: Any) -> Any:
    """A kind without what it says of its parts."""
    return typing.get_origin(kind) or kind


def _said(kind: Any) -> str:
    """What a kind is in words."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        words = dict.fromkeys(_said(part) for part in parts if part is not types.NoneType)
        if PathLike in map(_plain, parts):
            words.pop(_WORDS[str], None)
        return _either(list(words))
    if origin is Literal:
        return _either([f'"{part}"' if isinstance(part, str) else str(part) for part in parts])
    plain = _plain(kind)
    if plain is tuple and len(parts) > 1 and parts[1] is not ...:
        return f"({', '.join(map(_said, parts))})"
    if plain in (Sequence, Iterable, tuple, list):
        return f"a sequence of {_many(parts[0])}" if parts and parts[0] is not Any else "a sequence"
    name = getattr(plain, "__name__", str(plain))
    return _WORDS.get(plain) or f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _many(kind: Any) -> str:
    plain = _plain(kind)
    if plain in (Union, types.UnionType):
        return _either([_many(part) for part in typing.get_args(kind) if part is not types.NoneType])
    if plain in _PLURALS or not isinstance(plain, type):
        return _PLURALS.get(plain, "values")
    return "sequences" if plain in (Sequence, tuple) else f"{plain.__name__} objects"


def _either(words: Sequence[str]) -> str:
    """Alternatives as a sentence has them.

    >>> _either(["a", "b", "c"])
    'a, b or c'
    """
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
