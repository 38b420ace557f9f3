"""The exception tree of the project.

    AscendSimError
        GraphError          a malformed graph: unknown name, wrong shape, failed verify
            UnsupportedOperatorError   every unsupported operator of a model, listed at once
            UnsupportedTypeError       a tensor of a kind that the IR does not have: strings, sequences,
                                       4-bit, float8
        PassError           a pass failed; names the pass and those before it
        CompileError        a graph that cannot be lowered: tiling, buffer overflow, dynamic shape
        SocError            a chip file or an override that breaks a rule
        SimulationError     the machine cannot go on: deadlock, unset flag
        InputError          what a user handed in (file, option, tensor) is not usable
            UnknownOptionError         an option that a function does not take
            KernelError     a line of a user's kernel breaks a rule of the language or of the chip

A message has four parts: the subject, the rule, the actual value and the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Named:
    """A thing of a graph in an error's subject.

    Attributes:
        kind: "node", "tensor" or "scope".
        name: Its name; the message quotes it.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return repr(self.name)


@dataclass(frozen=True, slots=True)
class Subject:
    """An error's subject in parts: words, and all things of the graph that the error names.

    >>> str(Subject.of("node ", Named("node", "conv1"), " (Conv)"))
    "node 'conv1' (Conv)"
    """

    parts: tuple[str | Named, ...]

    @classmethod
    def of(cls, *parts: str | Named) -> Subject:
        return cls(parts)

    def __str__(self) -> str:
        return "".join(map(str, self.parts))

    @property
    def named(self) -> tuple[Named, ...]:
        """The things that it names."""
        return tuple([part for part in self.parts if isinstance(part, Named)])

    def with_names(self, names: Mapping[Named, Named]) -> Subject:
        """The same of other things."""
        return Subject(tuple([part if isinstance(part, str) else names[part] for part in self.parts]))


# remedies for shapes, in the words of the command line and of Python
FIXED_SHAPES = "give fixed shapes: --input_shape NAME:DIMS or --batch N, in Python shapes= or batch="
GIVE_VALUES = "give inputs: asim.run(model, inputs), on the command line --values device"
ONE_BY_ONE = "--batch 1 (in Python batch=1) takes them one by one"


class AscendSimError(Exception):
    """Base of all errors that this package raises on purpose.

    Args:
        subject: What is wrong, named as the user knows it ("input 'x'", "option --batch"). A `Subject` says
            that the error names nothing else of the graph, so that it can be told of an equal part too.
        rule: What must hold ("must be a positive integer").
        actual: The offending value, if there is one.
        remedy: What to do about it.
    """

    def __init__(
        self, subject: str | Subject, rule: str = "", actual: object = None, remedy: str = ""
    ) -> None:
        self.about = subject if isinstance(subject, Subject) else None
        self.subject, self.rule, self.actual, self.remedy = str(subject), rule, actual, remedy
        text = f"{subject} {rule}".strip()
        if actual is not None:
            text += f", not {actual}"
        if remedy:
            text += f"; {remedy}"
        super().__init__(text if text.isprintable() else _one_line(text))

    def __reduce__(self) -> tuple[Any, ...]:
        """An error may come from another process."""
        return _received, (type(self), self.args, self.__dict__)


class GraphError(AscendSimError):
    """A graph that breaks a rule of the IR or of an operator."""


class UnsupportedOperatorError(GraphError):
    """Operators that no rule exists for.

    Args:
        operators: Pairs of operator name ("Loop", "com.microsoft::Gelu") and node name; the message shows
            some nodes of each.
    """

    def __init__(self, operators: Iterable[tuple[str, str]]) -> None:
        self.operators = sorted(set(operators))
        by_operator: dict[str, list[str]] = {}
        for operator, node in self.operators:
            by_operator.setdefault(operator, []).append(node)
        listed = "; ".join(f"{operator} (nodes {_some(nodes)})" for operator, nodes in by_operator.items())
        super().__init__(
            f"unsupported operators: {listed}",
            remedy="see `ascendsim ops list` for what is supported",
        )


def _received(kind: type[AscendSimError], args: tuple[Any, ...], parts: dict[str, Any]) -> AscendSimError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(parts)
    return error


def _one_line(text: str) -> str:
    """Text with what a terminal would not print (names in damaged files hold anything) as escapes."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )


def _some(names: list[str], shown: int = 8) -> str:
    """A list for one line of text: the first few names and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


class UnsupportedTypeError(GraphError):
    """A value of a kind that the IR does not have."""


class PassError(AscendSimError):
    """A pass failed or left a broken graph behind."""


class CompileError(AscendSimError):
    """A graph that cannot be turned into a program for the chip."""


class SocError(AscendSimError):
    """A chip description or an override that breaks a rule."""


class SimulationError(AscendSimError):
    """The machine cannot go on."""


class InputError(AscendSimError):
    """A file, option or tensor from the user that cannot be used."""


class UnknownOptionError(InputError, TypeError):
    """A function was given an option that it does not take; a TypeError too, as Python has it."""


class KernelError(InputError):
    """A line of a user's kernel that breaks a rule of the language or of the chip."""


class OptionWarning(UserWarning):
    """An option that is accepted and does not do what its user may think."""


class InputWarning(UserWarning):
    """Inputs that contradict what a model declares, and are run all the same."""


class PluginWarning(UserWarning):
    """An installed package that meant to extend the simulator and cannot; it is left out."""


class NumericsWarning(UserWarning):
    """Results that left their type in a run that hands on values: infinite or undefined ones."""


def edits(one: str, other: str) -> int:
    """Letters to put in, take out or change until one word is another (Levenshtein's distance).

    >>> edits("Ascend311", "Ascend310"), edits("Ascend311", "Ascend310P1"), edits("", "ab")
    (1, 2, 2)
    """
    row = list(range(len(other) + 1))
    for count, letter in enumerate(one, 1):
        diagonal, row[0] = row[0], count
        for index, wanted in enumerate(other, 1):
            cheapest = min(row[index] + 1, row[index - 1] + 1, diagonal + (letter != wanted))
            diagonal, row[index] = row[index], cheapest
    return row[-1]


_BEGINNING = 2  # letters of a name that say which one is meant


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns a remedy that names the nearest known name, or lists the known names.

    >>> suggest("Ascend301", ["Ascend310", "Ascend910A"])
    'did you mean Ascend310?'
    >>> suggest("--soc", ["--set", "--soc_version", "--top"])  # a name that begins so comes first
    'did you mean --soc_version?'
    """
    names = sorted(known)
    begun = [each for each in names if each.startswith(name)] if len(name.strip("-")) >= _BEGINNING else []
    if begun:
        return f"did you mean {min(begun, key=len)}?"
    near = difflib.get_close_matches(name, names, n=8, cutoff=0.6)
    if near:
        return f"did you mean {min(near, key=lambda each: edits(name, each))}?"
    return "known are " + ", ".join(names[:20]) + (" ..." if len(names) > 20 else "")
