"""The module that the compiler hands to its last step, read into records: functions, operations, regions.

Only the form is known here: one operation a line, regions in braces. What an operation means is for
`ascendsim.triton.interpreter` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ascendsim.core.errors import InputError
from ascendsim.triton.affine import AffineMap, affine_map

MOST_BYTES = 64 << 20
_ALIAS = re.compile(r"^(#\w+) = affine_map<(.*)>$", re.MULTILINE)
_LIBRARY = re.compile(r"hivm\.(mix_aic|mix_aiv|aic|aiv)_bitcode = #hivm\.\w+<\"([^\"]*)\">")
_FUNCTION = re.compile(r"^\s*func\.func (private )?@([\w.$]+)\((.*)$")
_OPERATION = re.compile(r"(?:(%[\w$.-]+)(?::(\d+))? = )?\"?(\^?[A-Za-z_][\w.]*)\"?(.*)$", re.DOTALL)
_PLACE = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)$")


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes:
        results: Names of its results; several of one operation are `%1#0`, `%1#1` ...
        name: Such as "arith.addi".
        text: The rest of the line.
        regions: Bodies, for example of a loop or of both branches.
    """

    results: tuple[str, ...]
    name: str
    text: str
    regions: tuple[tuple[Operation, ...], ...] = ()


@dataclass(frozen=True)
class Argument:
    """An argument of a function: its name, its type and what stands in braces behind it."""

    name: str
    type: str
    attributes: str


@dataclass(frozen=True)
class Function:
    """A function with a body.

    Attributes:
        core: "AIV" or "AIC": the kind of core that runs it; "" on the host.
    """

    name: str
    arguments: tuple[Argument, ...]
    core: str
    entry: bool
    body: tuple[Operation, ...]


@dataclass(frozen=True)
class Module:
    """A compiled kernel.

    Attributes:
        functions: With a body, by name.
        declared: Functions of the library: types of their parameters.
        maps: Named affine maps.
        libraries: Paths of the bitcode libraries that it is to be linked with, by "aiv", "aic", "mix_aiv",
            "mix_aic".
    """

    functions: Mapping[str, Function]
    declared: Mapping[str, tuple[str, ...]]
    maps: Mapping[str, AffineMap]
    libraries: Mapping[str, str] = field(default_factory=dict)

    @property
    def entries(self) -> list[Function]:
        """What the cores run: one function, or one a kind of core."""
        return [function for function in self.functions.values() if function.entry and function.core]


def split(text: str) -> list[str]:
    """Parts between commas that stand in no brackets or quotes.

    >>> split("%a: memref<?xf32, #hivm.address_space<gm>> {x = 1 : i32}, %b: i32")
    ['%a: memref<?xf32, #hivm.address_space<gm>> {x = 1 : i32}', '%b: i32']
    """
    parts, depth, start, quoted = [], 0, 0, False
    for at, sign in enumerate(text):
        if sign == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif sign in "([{<":
            depth += 1
        elif sign in ")]}" or (sign == ">" and text[at - 1 : at] != "-"):
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` closes."""
    depth, quoted = 0, False
    for at in range(start, len(text)):
        sign = text[at]
        if sign == '"':
            quoted = not quoted
        elif not quoted and sign in "([{<":
            depth += 1
        elif not quoted and (sign in ")]}" or (sign == ">" and text[at - 1] != "-")):
            depth -= 1
            if not depth:
                return at
    raise InputError("compiled module", "has a bracket that does not close", repr(text[start : start + 40]))


def read_module(text: str) -> Module:
    """Reads a module's text.

    Raises:
        InputError: It is too large, or not in the compiler's form.
    """
    if len(text) > MOST_BYTES:
        raise InputError("compiled module", f"may have at most {MOST_BYTES} bytes", len(text))
    maps = {found[1]: affine_map(found[2]) for found in _ALIAS.finditer(text)}
    libraries = {found[1]: found[2] for found in _LIBRARY.finditer(text)}
    functions: dict[str, Function] = {}
    declared: dict[str, tuple[str, ...]] = {}
    lines = iter(text.splitlines())
    for line in lines:
        found = _FUNCTION.match(line)
        if found is None:
            continue
        opened = line.index("(")
        closed = closing(line, opened)
        given, rest = split(line[opened + 1 : closed]), line[closed + 1 :]
        core = re.search(r"hivm\.func_core_type = #hivm\.func_core_type<(\w+)>", rest)
        if found[1]:
            declared[found[2]] = tuple([one.split(" {")[0].strip() for one in given])
            continue
        body, _ = _region(lines)
        on_device = "function_kind<DEVICE>" in rest
        functions[found[2]] = Function(
            found[2],
            tuple([_argument(one) for one in given]),
            core[1] if core is not None and on_device else "",
            "hacc.entry" in rest,
            body,
        )
    if not any(function.entry for function in functions.values()):
        raise InputError("compiled module", "must hold a kernel (hacc.entry)", repr(text[:60]))
    return Module(functions, declared, maps, libraries)


def _argument(text: str) -> Argument:
    name, _, rest = text.partition(":")
    kind, _, attributes = rest.strip().partition(" {")
    return Argument(name.strip(), kind.strip(), attributes.rstrip("}"))


def _region(lines: Iterator[str]) -> tuple[tuple[Operation, ...], str]:
    """Operations up to the brace that closes a region, and what stands behind it."""
    found: list[Operation] = []
    for raw in lines:
        line = _PLACE.sub("", raw.strip())
        if not line or line.startswith("//"):
            continue
        if line.startswith("}"):
            return tuple(found), line[1:].strip()
        regions: list[tuple[Operation, ...]] = []
        if line.endswith("{"):
            line = line[:-1].rstrip()
            while True:
                body, behind = _region(lines)
                regions.append(body)
                if not behind.endswith("{"):
                    break
        found.append(_operation(line, tuple(regions)))
    raise InputError("compiled module", "ends within a function")


def _operation(line: str, regions: tuple[tuple[Operation, ...], ...]) -> Operation:
    parts = _OPERATION.match(line)
    if parts is None:
        raise InputError("compiled module", "has a line that is no operation", repr(line[:80]))
    results: tuple[str, ...] = ()
    if parts[1]:
        results = (
            (parts[1],) if parts[2] is None else tuple([f"{parts[1]}#{at}" for at in range(int(parts[2]))])
        )
    return Operation(results, parts[3], parts[4].strip(), regions)
