"""The operation library of the HIVM compiler as LLVM text: which functions a set of entry points needs, and
what has to change in them so that they run on the host.

The library comes as bitcode for the cores. Its functions compute addresses and parameters and issue
instructions by intrinsics `llvm.hivm.*`. On the host these become calls of a hook that is told the number and
the arguments; address spaces keep their numbers, and pointers into them are addresses of reserved memory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

NAME = r'@("[^"]+"|[\w.$]+)'
_DEFINE = re.compile(rf"^define[^\n]*?{NAME}\(.*?^}}\n", re.MULTILINE | re.DOTALL)
_DECLARE = re.compile(rf"^declare[^\n]*?{NAME}\([^\n]*", re.MULTILINE)
_GLOBAL = re.compile(rf"^{NAME} = [^\n]*", re.MULTILINE)
_TYPE = re.compile(r"^%[^\n]* = type [^\n]*", re.MULTILINE)
_USED = re.compile(NAME)
INTRINSIC = "llvm.hivm."
BITS = {"float": 32, "half": 16, "bfloat": 16, "double": 64}
# What only the compiler of the cores understands: attributes, calling conventions, metadata, linkage.
_FOREIGN = re.compile(
    r" #\d+|,? ![\w.]+ !\d+|\bcomdat\b(?:\([^)]*\))?|\bhiipu_\w+|\bcc ?\d+(?= )|section \"[^\"]*\""
    r"|\b(?:dso_local|linkonce_odr|weak_odr|internal|hidden|local_unnamed_addr|nounwind|convergent)\b"
    r"|\bmemory\([^)]*\)|\bcaptures\(none\)"
)
_NULL_ARGUMENT = re.compile(r"\bptr (noundef )?null\b")
_NULL_COMPARED = re.compile(r"(icmp \w+ ptr %[\w.]+, )null\b")
_ACCESS = re.compile(
    r"^  (?:%\S+ = load (?P<loaded>\S+), |store (?P<stored>\S+) \S+, )"
    r"ptr addrspace\((?P<space>\d)\) (?P<pointer>%[\w.]+)",
    re.MULTILINE,
)


class LibraryError(Exception):
    """The library lacks something, or has something that cannot run on the host."""


class Functions(Mapping[str, str]):
    """Bodies by name that stay in their file until somebody asks for one.

    Args:
        path: The file of all bodies.
        places: Of each body its first byte and its length.
    """

    def __init__(self, path: Path, places: Mapping[str, tuple[int, int]]) -> None:
        self._path, self._places = path, places

    def __getitem__(self, name: str) -> str:
        start, length = self._places[name]
        with self._path.open("rb") as file:
            file.seek(start)
            return file.read(length).decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@dataclass(frozen=True)
class Text:
    """A library's functions, declarations, global variables and types by name."""

    functions: Mapping[str, str]
    declarations: Mapping[str, str]
    variables: Mapping[str, str]
    types: tuple[str, ...]


def read(text: str) -> Text:
    """The parts of a module's text."""
    return Text(
        {_bare(found[1]): found[0] for found in _DEFINE.finditer(text)},
        {_bare(found[1]): found[0] for found in _DECLARE.finditer(text)},
        {_bare(found[1]): found[0] for found in _GLOBAL.finditer(text)},
        tuple(_TYPE.findall(text)),
    )


def save(text: Text, path: Path) -> None:
    """Writes a library's parts as `path` (all bodies) and an index beside it, which is there last."""
    places, start = {}, 0
    part = path.with_suffix(f".{os.getpid()}")
    with part.open("wb") as file:
        for name, body in text.functions.items():
            content = body.encode()
            file.write(content)
            places[name] = (start, len(content))
            start += len(content)
    part.replace(path)
    index = {
        "places": places,
        "declarations": text.declarations,
        "variables": text.variables,
        "types": text.types,
    }
    part.write_text(json.dumps(index), encoding="utf-8")
    part.replace(path.with_suffix(".json"))


def load(path: Path) -> Text:
    """What `save` has written."""
    index = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    return Text(
        Functions(path, index["places"]),
        index["declarations"],
        index["variables"],
        tuple(index["types"]),
    )


def _bare(name: str) -> str:
    return name.strip('"')


def split(text: str) -> list[str]:
    """Parts between commas that stand in no brackets.

    >>> split("i64 %a, { i32, i32 } %b")
    ['i64 %a', '{ i32, i32 } %b']
    """
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        if sign in "([{<":
            depth += 1
        elif sign in ")]}>":
            depth -= 1
        elif sign == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]


def type_of(parameter: str) -> str:
    """The type at the start of a parameter.

    >>> type_of("ptr addrspace(6) noundef %dst"), type_of("i64 %n")
    ('ptr addrspace(6)', 'i64')
    """
    found = re.match(
        r"ptr addrspace\(\d+\)|ptr|i\d+|float|half|bfloat|double|void|%\S+|[<{\[].*[>}\]]", parameter
    )
    if found is None:
        raise LibraryError(f"the type of {parameter!r} is not known")
    return found[0]


def parameters(header: str) -> list[str]:
    """Types of the parameters in the first line of a function or in a declaration."""
    start = header.index("(", header.index("@")) + 1
    depth = 1
    for at in range(start, len(header)):
        depth += (header[at] == "(") - (header[at] == ")")
        if not depth:
            return [type_of(one) for one in split(header[start:at])]
    raise LibraryError(f"the parameters of {header[:60]!r} do not end")


def _returned(declaration: str) -> str:
    head = declaration[len("declare") : declaration.index("@")]
    words = re.sub(r"\b(?:dso_local|noundef|zeroext|signext)\b|cc ?\d+", "", head).strip()
    return type_of(words)


def closure(text: Text, roots: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """The functions that entry points reach, and all names that these mention."""
    waiting, kept, mentioned = list(roots), {}, set()
    while waiting:
        name = waiting.pop()
        if name in kept or name not in text.functions:
            continue
        kept[name] = text.functions[name]
        named = {_bare(found) for found in _USED.findall(kept[name])}
        mentioned |= named
        waiting += sorted(named)
    return dict(sorted(kept.items())), mentioned


@dataclass(frozen=True)
class Hosted:
    """Text that runs on the host.

    Attributes:
        text: The module.
        intrinsics: What the hook's numbers stand for.
        missing: Functions that are only declared; calling one is an error.
        signatures: Of each entry point the types of its parameters.
    """

    text: str
    intrinsics: tuple[str, ...]
    missing: tuple[str, ...]
    signatures: Mapping[str, tuple[str, ...]]


def hosted(text: Text, roots: Iterable[str]) -> Hosted:
    """A module of some entry points for the host.

    Every intrinsic becomes a function that calls the hook with its number and its arguments as 64-bit words.
    Beside each entry point stands `call.NAME`, which takes all arguments as an array of words. Loads and
    stores of the scalar unit through pointers of the cores' memories are reported to the hook too. Pointers
    that are null, where the library has no buffer to hand on, get 512 bytes of zeros: address 0 can be read
    on the chip.

    Raises:
        LibraryError: An entry point does not exist.
    """
    names = sorted(set(roots))
    lacking = [name for name in names if name not in text.functions]
    if lacking:
        raise LibraryError(f"the library has no {lacking[0]}")
    kept, mentioned = closure(text, names)
    signatures = {name: tuple(parameters(kept[name].split("\n", 1)[0])) for name in names}
    intrinsics: list[str] = []
    stubs, others, missing = [], [], []
    for name in sorted(mentioned & set(text.declarations)):
        declaration = text.declarations[name]
        if name.startswith(INTRINSIC):
            stubs.append(_stub(name, declaration, intrinsics))
        else:
            others.append(_FOREIGN.sub("", declaration))
            if not name.startswith("llvm."):
                missing.append(name)
    bodies = [_FOREIGN.sub("", _watched(body)) for body in kept.values()]
    variables = [_FOREIGN.sub("", text.variables[name]) for name in sorted(mentioned & set(text.variables))]
    joined = "\n".join([*text.types, *variables, *bodies, *others]).replace(INTRINSIC, "hivm.")
    joined = _NULL_COMPARED.sub(r"\1@host.zeros", _NULL_ARGUMENT.sub("ptr @host.zeros", joined))
    watching = [_watch("load", intrinsics), _watch("store", intrinsics)]
    wrappers = [_wrapper(name, signatures[name]) for name in names]
    return Hosted(
        "\n".join([_STATE, joined, *stubs, *watching, *wrappers, _TO_BFLOAT]),
        tuple(intrinsics),
        tuple(missing),
        signatures,
    )


_STATE = """@host.control = global i64 0
@host.zeros = global [64 x i64] zeroinitializer
@host.hook = global ptr null"""


def _watched(body: str) -> str:
    """A function whose loads and stores through the cores' pointers are reported."""
    number = 0

    def report(found: re.Match[str]) -> str:
        nonlocal number
        number += 1
        kind = found["loaded"] or found["stored"]
        bits = BITS.get(kind) or (int(kind[1:]) if re.fullmatch(r"i\d+", kind) else 64)
        word = f"%watched.{number}"
        return (
            f"  {word} = ptrtoint ptr addrspace({found['space']}) {found['pointer']} to i64\n"
            f"  call void @host.{'load' if found['loaded'] else 'store'}(i64 {word}, i64 {bits})\n{found[0]}"
        )

    return _ACCESS.sub(report, body)


def _watch(which: str, intrinsics: list[str]) -> str:
    number = len(intrinsics)
    intrinsics.append(f"S.{which.upper()}")
    lines = _hooked(number, ["i64", "i64"])
    return "\n".join([f"define void @host.{which}(i64 %a0, i64 %a1) noinline {{", *lines, "  ret void", "}"])


def _hooked(number: int, types: list[str]) -> list[str]:
    """Lines that put arguments into an array of words and call the hook."""
    lines = [f"  %words = alloca [{max(1, len(types))} x i64]"]
    for at, kind in enumerate(types):
        lines += _as_word(kind, at)
        lines += [
            f"  %place{at} = getelementptr i64, ptr %words, i64 {at}",
            f"  store i64 %word{at}, ptr %place{at}",
        ]
    lines += ["  %hook = load ptr, ptr @host.hook", f"  %answer = call i64 %hook(i64 {number}, ptr %words)"]
    return lines


def _as_word(kind: str, at: int) -> Iterator[str]:
    if kind.startswith("ptr"):
        yield f"  %word{at} = ptrtoint {kind} %a{at} to i64"
    elif kind == "i64":
        yield f"  %word{at} = add i64 %a{at}, 0"
    elif kind in BITS:
        yield f"  %bits{at} = bitcast {kind} %a{at} to i{BITS[kind]}"
        yield f"  %word{at} = zext i{BITS[kind]} %bits{at} to i64"
    elif re.fullmatch(r"i\d+", kind):
        yield f"  %word{at} = zext {kind} %a{at} to i64"
    else:
        raise LibraryError(f"an intrinsic takes {kind}")


_BITS_SET = ("  %bit = shl i64 1, %a1", "  %answer = or i64 %a0, %bit", "  ret i64 %answer")
_BITS_CLEARED = (
    "  %bit = shl i64 1, %a1",
    "  %others = xor i64 %bit, -1",
    "  %answer = and i64 %a0, %others",
    "  ret i64 %answer",
)
_CONTROL = ("  %answer = load i64, ptr @host.control", "  ret i64 %answer")


def _stub(name: str, declaration: str, intrinsics: list[str]) -> str:
    """An intrinsic as a function; those of the scalar unit's registers do what they do on the chip."""
    short = name.removeprefix(INTRINSIC)
    types, gives = parameters(declaration), _returned(declaration)
    own = {"SBITSET0": _BITS_CLEARED, "SBITSET1": _BITS_SET, "GET.CTRL": _CONTROL}.get(short)
    if own is None:
        number = len(intrinsics)
        intrinsics.append(short)
        lines = _hooked(number, types)
        if short == "SET.CTRL":
            lines.append("  store i64 %a0, ptr @host.control")
        own = (*lines, *_answered(gives))
    listed = ", ".join(f"{kind} %a{at}" for at, kind in enumerate(types))
    return "\n".join([f'define {gives} @"hivm.{short}"({listed}) noinline {{', *own, "}"])


def _answered(gives: str) -> Iterator[str]:
    if gives == "void":
        yield "  ret void"
    elif gives == "i64":
        yield "  ret i64 %answer"
    elif gives.startswith("ptr"):
        yield f"  %given = inttoptr i64 %answer to {gives}"
        yield f"  ret {gives} %given"
    elif re.fullmatch(r"i\d+", gives):
        yield f"  %given = trunc i64 %answer to {gives}"
        yield f"  ret {gives} %given"
    else:
        raise LibraryError(f"an intrinsic gives {gives}")


def _wrapper(name: str, types: Iterable[str]) -> str:
    """An entry point that takes its arguments as words: no calling convention of half floats is needed."""
    lines, given = [], []
    for at, kind in enumerate(types):
        lines.append(f"  %place{at} = getelementptr i64, ptr %words, i64 {at}")
        if kind.startswith("ptr"):
            lines += [
                f"  %word{at} = load i64, ptr %place{at}",
                f"  %a{at} = inttoptr i64 %word{at} to {kind}",
            ]
        else:
            lines.append(f"  %a{at} = load {kind}, ptr %place{at}")
        given.append(f"{kind} %a{at}")
    lines.append(f'  call void @"{name}"({", ".join(given)})')
    return "\n".join([f'define void @"call.{name}"(ptr %words) {{', *lines, "  ret void", "}"])


# The host's own conversion of float to bfloat16 (round to nearest even), which no library of it has.
_TO_BFLOAT = """define bfloat @__truncsfbf2(float %value) noinline {
  %bits = bitcast float %value to i32
  %upper = lshr i32 %bits, 16
  %odd = and i32 %upper, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %rounded = lshr i32 %sum, 16
  %nan = fcmp uno float %value, 0.0
  %chosen = select i1 %nan, i32 32704, i32 %rounded
  %low = trunc i32 %chosen to i16
  %given = bitcast i16 %low to bfloat
  ret bfloat %given
}"""
