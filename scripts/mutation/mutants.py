"""One-line mutants of a source file: small edits that change what the code does, found in the syntax tree and
applied to the text.

Everything outside the edit stays as it is, byte by byte. Left alone: docstrings, texts, annotations,
decorators, `__all__`, what `raise` and `assert` say, blocks for type checkers, values of enumerations.
"""

from __future__ import annotations

import ast
import hashlib
import io
import random
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NEWLINE = " ⏎ "  # between the lines of a statement that spans several, in lists

_COMPARISONS = {
    ast.Lt: ("<", "<=", ">="),
    ast.LtE: ("<=", "<", ">"),
    ast.Gt: (">", ">=", "<="),
    ast.GtE: (">=", ">", "<"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_SWAPPED = (ast.Sub, ast.Div, ast.FloorDiv)
_EMPTY = {
    "bool": "False",
    "int": "0",
    "float": "0.0",
    "str": '""',
    "bytes": 'b""',
    "tuple": "()",
    "list": "[]",
    "dict": "{}",
    "set": "set()",
}
_ENUMERATION = re.compile(r"Enum|Flag")


@dataclass(frozen=True)
class Mutant:
    """An edit of one place.

    Attributes:
        path: Path of the file below the root of the checkout.
        line: Number of the line.
        last: Number of the last line that is edited.
        original: The line before, without indentation; several lines are joined by `NEWLINE`.
        mutated: The line after.
        kind: What was changed.
        start: Offset of the edit in the file's text.
        end: End of what is replaced.
        replacement: What stands there instead.
    """

    path: str
    line: int
    last: int
    original: str
    mutated: str
    kind: str
    start: int
    end: int
    replacement: str

    @property
    def id(self) -> str:
        """Eight digits that stay when lines move, and are the same for a mutant that was drawn and one that a
        list names.
        """
        return hashlib.sha256(f"{self.path}|{self.original}|{self.mutated}".encode()).hexdigest()[:8]

    def apply(self, text: str) -> str:
        """The mutated file, with as many lines as before."""
        lost = text.count("\n", self.start, self.end) - self.replacement.count("\n")
        return text[: self.start] + self.replacement + " \\\n" * lost + text[self.end :]

    def __str__(self) -> str:
        return f"- {self.path}:{self.line} `{self.original}` -> `{self.mutated}`"


def edit(path: str, text: str, start: int, end: int, replacement: str, kind: str) -> Mutant:
    """A mutant that replaces text[start:end]."""
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    last = len(text) if last < 0 else last
    line = text.count("\n", 0, start) + 1
    before, after = text[first:last], text[first:start] + replacement + text[end:last]
    rows = line + text.count("\n", start, end)
    return Mutant(path, line, rows, _flat(before), _flat(after), kind, start, end, replacement)


def _flat(text: str) -> str:
    return NEWLINE.join(line.strip() for line in text.strip().split("\n"))


def mutants_of(path: str, text: str) -> list[Mutant]:
    """All mutants of a file in order of place, each once."""
    return [edit(path, text, *change) for change in _changes(text)]


def sample(root: Path, folders: Iterable[str], count: int, seed: int) -> list[Mutant]:
    """Mutants drawn from all those of the files of some folders, each with the same chance."""
    files = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    texts = {path: path.read_text(encoding="utf-8") for path in files}
    everything = [(path, change) for path, text in texts.items() for change in _changes(text)]
    drawn = random.Random(seed).sample(everything, min(count, len(everything)))
    return [edit(path.relative_to(root).as_posix(), texts[path], *change) for path, change in sorted(drawn)]


def _changes(text: str) -> list[tuple[int, int, str, str]]:
    """Start, end, replacement and kind of each edit."""
    finder = _Finder(text)
    finder.visit(ast.parse(text))
    found = {(start, end, new): kind for start, end, new, kind in finder.edits if text[start:end] != new}
    return sorted((*place, kind) for place, kind in found.items())


class _Finder(ast.NodeVisitor):
    """Collects edits (start, end, replacement, kind)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.edits: list[tuple[int, int, str, str]] = []
        self.bare = _without_comments(text)
        self.starts = [0]
        for line in text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.lines = text.splitlines()
        self.returns: list[ast.expr | None] = []

    def place(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.place(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self.place(node.end_lineno or 0, node.end_col_offset or 0)

    def source(self, node: ast.expr) -> str:
        return self.text[self.start(node) : self.end(node)]

    def replace(self, node: ast.expr | ast.stmt, new: str, kind: str) -> None:
        self.edits.append((self.start(node), self.end(node), new, kind))

    def operator(
        self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str
    ) -> tuple[int, int] | None:
        """Replaces the operator that stands between two operands; says where it is."""
        low = self.end(left)
        pattern = r"\b" + old.replace(" ", r"\s+") + r"\b" if old[0].isalpha() else re.escape(old)
        found = re.search(pattern, self.bare[low : self.start(right)])
        if not found:
            return None
        self.edits.append((low + found.start(), low + found.end(), new, kind))
        return low + found.start(), low + found.end()

    # What is left alone

    def visit_Raise(self, node: ast.Raise) -> None: ...
    def visit_Assert(self, node: ast.Assert) -> None: ...
    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...
    def visit_Import(self, node: ast.Import) -> None: ...
    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        values = any(_ENUMERATION.search(self.source(base)) for base in node.bases)
        for child in node.body:
            if not values or not isinstance(child, ast.Assign):
                self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self.returns.append(node.returns)
        for child in node.body:
            self.visit(child)
        self.returns.pop()

    # What is changed

    def visit_If(self, node: ast.If) -> None:
        test = self.source(node.test)
        if "TYPE_CHECKING" in test or "__name__" in test:
            return
        self.condition(node.test, "True", "False")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.condition(node.test, "False")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.condition(node.test, "True", "False")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.condition(test, "True", "False")
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self.condition(node.guard, "True", "False")
            self.visit(node.guard)
        for child in node.body:
            self.visit(child)

    def condition(self, test: ast.expr, *values: str) -> None:
        if not isinstance(test, ast.Constant | ast.Tuple | ast.List | ast.Dict):
            for value in values:
                self.replace(test, value, "condition")

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old, *others = _COMPARISONS[type(operator)]
            for new in others:
                self.operator(left, right, old, new, "comparison")
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new, neutral = ("and", "or", "True") if isinstance(node.op, ast.And) else ("or", "and", "False")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.operator(left, right, old, new, "and/or")
        for value in node.values:
            self.condition(value, neutral)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.replace(node, self.source(node.operand), "not")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not _is_text(node.left) and not _is_text(node.right) and type(node.op) in _OPERATORS:
            old, new = _OPERATORS[type(node.op)]
            place = self.operator(node.left, node.right, old, new, "arithmetic")
            if place and isinstance(node.op, _SWAPPED):
                left, right = (
                    self.text[self.start(node) : place[0]].strip(),
                    self.text[place[1] : self.end(node)].strip(),
                )
                compound = isinstance(node.left, ast.BinOp) and not left.endswith(")")
                self.replace(
                    node, f"{right} {old} ({left})" if compound else f"{right} {old} {left}", "operands"
                )
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.replace(node, "pass", "statement")
        if not _is_text(node.value) and type(node.op) in _OPERATORS:
            old, new = _OPERATORS[type(node.op)]
            self.operator(node.target, node.value, f"{old}=", f"{new}=", "arithmetic")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call):
            self.replace(node, "pass", "statement")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in ("min", "max"):
            self.replace(node.func, "max" if name == "min" else "min", "min/max")
            if len(node.args) == 2 and not any(isinstance(value, ast.Starred) for value in node.args):
                for value in node.args:
                    self.replace(node, f"({self.source(value)})", "min/max")
        if (
            name in ("sorted", "reversed")
            and node.args
            and not isinstance(node.args[0], ast.GeneratorExp | ast.Starred)
        ):
            self.replace(node, f"({self.source(node.args[0])})", "order")
        if name == "isinstance":
            self.visit(node.args[0])
        elif name == "zip":  # `strict` only guards against mistakes
            for value in node.args:
                self.visit(value)
        else:
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        if not isinstance(node.value, ast.Constant):
            wanted = self.returns[-1]
            kind = re.match(r"\w+", self.source(wanted)) if wanted is not None else None
            self.replace(node.value, _EMPTY.get(kind[0], "None") if kind else "None", "return")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self.replace(node, str(not value), "constant")
        elif isinstance(value, int):
            for new in (value + 1, value - 1, *((value * 2,) if value >= 8 else ())):
                self.replace(node, str(new), "constant")
        elif isinstance(value, float):
            self.replace(node, repr(value * 2 if value else 1.0), "constant")


def _is_text(node: ast.expr) -> bool:
    """Whether an operand is a text or a display, for which other operators only mean a TypeError."""
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _without_comments(text: str) -> str:
    """The text with blanks for comments, so that words in them are not taken for operators."""
    lines = [list(line) for line in text.splitlines(keepends=True)]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, first, last = token.start[0] - 1, token.start[1], token.end[1]
            lines[row][first:last] = " " * (last - first)
    return "".join("".join(line) for line in lines)


_ENTRY = re.compile(
    r"^\s*(?:- )?(?P<path>[\w./-]+\.py):(?P<line>\d+):? `(?P<original>.*?)` -> `(?P<mutated>.*)`\s*$"
)


def read_list(root: Path, path: Path) -> tuple[list[Mutant], list[str]]:
    """Mutants of a file with lines ``path:line `before` -> `after` ``, and the lines whose code is gone;
    other lines are comments.

    `before` is the whole line or a part of it that occurs once. The line that holds it nearest to the number
    is meant.
    """
    found, gone = [], []
    for row in path.read_text(encoding="utf-8").splitlines():
        if entry := _ENTRY.match(row):
            mutant = locate(root, entry["path"], int(entry["line"]), entry["original"], entry["mutated"])
            if mutant is None:
                gone.append(row)
            else:
                found.append(mutant)
    return found, gone


def locate(root: Path, path: str, line: int, original: str, mutated: str) -> Mutant | None:
    """The mutant that replaces a text on the line nearest to a number; None if no line holds it, or that line
    more than once.
    """
    if not (root / path).is_file():
        return None
    text = (root / path).read_text(encoding="utf-8")
    pattern = r"\s*\n\s*".join(re.escape(part.strip()) for part in original.split(NEWLINE.strip()))
    places = {place.span(): text.count("\n", 0, place.start()) + 1 for place in re.finditer(pattern, text)}
    nearest = min(places.values(), key=lambda number: (abs(number - line), number), default=0)
    held = [span for span, number in places.items() if number == nearest]
    if len(held) != 1:
        return None
    start, end = held[0]
    new = mutated.replace(NEWLINE, "\n")
    while start < end and new and text[start] == new[0]:
        new, start = new[1:], start + 1
    while start < end and new and text[end - 1] == new[-1]:
        new, end = new[:-1], end - 1
    return edit(path, text, start, end, new, "given")
