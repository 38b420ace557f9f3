"""Which tests to run against a mutant, and whether it needs a fresh process."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import CodeType

from mutation.callmap import IGNORED, IMPORT, CallMap
from mutation.mutants import Mutant

KERNELS = "kernels/ascendsim_kernels"
MAX_FILES = 24  # test files that a fresh process collects
KERNEL_BUDGETS = 3  # of a mutant in a kernel, which is compiled for half a minute first


@dataclass(frozen=True)
class Choice:
    """Tests for a mutant.

    Attributes:
        tests: Node ids, the most promising first.
        fresh: Whether the mutated line runs when modules are imported or is compiled.
    """

    tests: list[str]
    fresh: bool


@dataclass
class Selector:
    """Chooses tests by the call map.

    Attributes:
        root: Checkout.
        calls: The call map.
        budget: Seconds of recorded test time for a mutant.
        extra: Test files that are run in any case, for instance new ones.
    """

    root: Path
    calls: CallMap
    budget: float = 60.0
    extra: tuple[str, ...] = ()
    texts: dict[str, str] = field(default_factory=dict)

    def choose(self, mutant: Mutant) -> Choice:
        """Tests that see a mutant, as many as the budget allows."""
        text = self.text(mutant.path)
        lines = range(mutant.line, mutant.last + 1)
        seen = self.calls.covering(mutant.path, text, lines)
        bound = _import_time(ast.parse(text), mutant)
        kernel = mutant.path.startswith(KERNELS)
        fresh = kernel or bound is not None or IMPORT in seen or _closes_over_less(text, mutant)
        seen.discard(IMPORT)
        groups = [seen]
        if kernel:
            groups.append(self._of_kernel(mutant))
        elif fresh:
            groups += [self._within(mutant), self._speaking_of(mutant.path, bound or ""), self._named(mutant)]
            groups += [self._using(mutant.path, bound or ""), self._of_module(mutant.path)]
        budget = self.budget * (KERNEL_BUDGETS if kernel else 1)
        return Choice([*self._within_budget(groups, fresh, budget), *self.extra], fresh)

    def text(self, path: str) -> str:
        """Source of a file."""
        if path not in self.texts:
            self.texts[path] = (self.root / path).read_text(encoding="utf-8")
        return self.texts[path]

    def _promise(self, test: str) -> tuple[float, str]:
        """Sorts a test that runs few lines before one that runs many and sees each in passing, and a quick
        one before a slow one.
        """
        return self.calls.seconds[test] * self.calls.breadth[test], test

    def _within_budget(self, groups: Iterable[set[str]], fresh: bool, left: float) -> list[str]:
        chosen: dict[str, None] = {}
        files: set[str] = set()
        for test in (test for group in groups for test in sorted(group, key=self._promise)):
            seconds, file = self.calls.seconds[test], test.split("::")[0]
            if (
                test in chosen
                or test.startswith(IGNORED)
                or seconds > max(left, 0)
                or not (self.root / file).is_file()
            ):
                continue
            if fresh and file not in files and len(files) >= MAX_FILES:
                continue
            files.add(file)
            chosen[test] = None
            left -= seconds
        return list(chosen)

    def _within(self, mutant: Mutant) -> set[str]:
        """Tests that run the body of the function whose defaults the line holds, or what it makes."""
        text = self.text(mutant.path)
        lines: set[int] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.lineno <= mutant.line < node.body[0].lineno:
                lines |= set(range(node.body[0].lineno, (node.end_lineno or 0) + 1))
        return self.calls.covering(mutant.path, text, sorted(lines)) - {IMPORT}

    def _named(self, mutant: Mutant) -> set[str]:
        """Tests that have a text of the line in their name, as those of operators do."""
        words = {word.lower() for word in re.findall(r"[\"'](\w{4,})[\"']", mutant.original)}
        whole = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(sorted(words))})(?![a-z0-9])") if words else None
        return {test for test in self.calls.tests if whole is not None and whole.search(test.lower())}

    def _speaking_of(self, path: str, name: str) -> set[str]:
        """Tests of the files that have to do with a module and mention a name of its level."""
        imported = _importing(path)
        files = {
            file for file, (text, names) in self.test_files.items() if name in names and imported.search(text)
        }
        return {test for test in self.calls.tests if test.split("::")[0] in files}

    def _of_module(self, path: str) -> set[str]:
        text = self.text(path)
        return self.calls.covering(path, text, range(1, text.count("\n") + 2)) - {IMPORT}

    def _using(self, path: str, name: str) -> set[str]:
        """Tests that run functions in which a name of module level occurs, in its file and in those that
        import it; where a table or another statement of module level holds it, also those of that one's name.
        """
        found: set[str] = set()
        waiting, seen = [(path, name)] if name else [], set()
        while waiting:
            path, name = place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            imported = _importing(path)
            word = re.compile(rf"\b{re.escape(name)}\b")
            for file in self.sources:
                text = self.text(file)
                if word.search(text) and (file == path or imported.search(text)):
                    lines = [number for number, line in enumerate(text.splitlines(), 1) if word.search(line)]
                    found |= self.calls.covering(file, text, lines)
                    waiting += [(file, other) for other in _bound_with(text, lines)]
        return found - {IMPORT}

    @cached_property
    def sources(self) -> list[str]:
        """All files of the package."""
        return [
            path.relative_to(self.root).as_posix() for path in sorted((self.root / "ascendsim").rglob("*.py"))
        ]

    @cached_property
    def test_files(self) -> dict[str, tuple[str, set[str]]]:
        """Text of each test file, and the names in its code."""
        files = sorted((self.root / "tests").rglob("test_*.py"))
        texts = {path.relative_to(self.root).as_posix(): path.read_text(encoding="utf-8") for path in files}
        return {name: (text, _names_in(text)) for name, text in texts.items()}

    @cached_property
    def kernel_callers(self) -> dict[str, set[str]]:
        """Names of kernel functions that call a function, by its name: one that their module defines or
        imports from another, not whatever else is called so.
        """
        callers: dict[str, set[str]] = {}
        for path in sorted((self.root / KERNELS).glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            own = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
            known = {node.name for node in own} | {
                alias.asname or alias.name
                for node in tree.body
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            for function in own:
                for node in ast.walk(function):
                    if (
                        isinstance(node, ast.Call)
                        and isinstance(node.func, ast.Name)
                        and node.func.id in known
                    ):
                        callers.setdefault(node.func.id, set()).add(function.name)
        return callers

    def _homes(self, names: set[str]) -> set[str]:
        """Names of the modules of kernels that define one of some functions."""
        defines = re.compile(rf"^def (?:{'|'.join(sorted(names))})\b", re.MULTILINE)
        files = sorted((self.root / KERNELS).glob("*.py"))
        return {path.stem for path in files if defines.search(path.read_text(encoding="utf-8"))}

    def _of_kernel(self, mutant: Mutant) -> set[str]:
        """Tests that run an operator that imports a kernel into which the mutant is compiled, and those that
        import it themselves.
        """
        names = {
            node.name
            for node in ast.parse(self.text(mutant.path)).body
            if isinstance(node, ast.FunctionDef) and node.lineno <= mutant.line <= (node.end_lineno or 0)
        }
        names = names or set(
            re.findall(r"^(?:def )?(\w+)", self.text(mutant.path).splitlines()[mutant.line - 1])
        )
        while wider := {caller for name in names for caller in self.kernel_callers.get(name, ())} - names:
            names |= wider
        found: set[str] = set()
        for path in self.sources:
            text = self.text(path)
            found |= self.calls.covering(path, text, sorted(_lines_with(text, names | self._homes(names))))
        importing = re.compile(rf"ascendsim_kernels.*\b(?:{'|'.join(sorted(names))})\b")
        files = {
            path.relative_to(self.root).as_posix()
            for path in (self.root / "tests").rglob("*.py")
            if importing.search(path.read_text())
        }
        return (
            found
            | {
                test
                for test in self.calls.tests
                if test.split("::")[0] in files or test.startswith(mutant.path)
            }
        ) - {IMPORT}


def _importing(path: str) -> re.Pattern[str]:
    """What stands in files that import a module."""
    module = ".".join(Path(path).with_suffix("").parts).removesuffix(".__init__")
    parent, _, own = module.rpartition(".")
    return re.compile(rf"{re.escape(module)}\b|from {re.escape(parent)} import[^)]*\b{own}\b")


def _names_in(text: str) -> set[str]:
    """Names that a module imports, reads or asks of an object."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name)
    return found


def _bound_with(text: str, lines: list[int]) -> set[str]:
    """Names that statements of module level over some lines bind."""
    return {
        target.id
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and any(node.lineno <= line <= (node.end_lineno or 0) for line in lines)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and target.id != "__all__"
    }


def _lines_with(text: str, names: set[str]) -> set[int]:
    """Lines of a module that import a kernel or mention it by the name that it has there."""
    imports = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ascendsim_kernels")
    ]
    aliases = {
        item.asname or item.name: node for node in imports for item in node.names if item.name in names
    }
    if not aliases:
        return set()
    word = re.compile(rf"\b(?:{'|'.join(sorted(aliases))})\b")
    mentioned = {number for number, line in enumerate(text.splitlines(), 1) if word.search(line)}
    return mentioned | {node.lineno for node in aliases.values()}


def _import_time(tree: ast.Module, mutant: Mutant) -> str | None:
    """None if the mutant is in the body of a function; else the name that its statement binds, or an empty
    text.
    """
    body, name = tree.body, ""
    while True:
        inside = [node for node in body if _first(node) <= mutant.line <= (node.end_lineno or 0)]
        if not inside:
            return name
        (node, *_) = inside
        if isinstance(node, ast.FunctionDef):
            if mutant.line >= node.body[0].lineno and not _in_header(node, mutant.line):
                return None
            return node.name
        if isinstance(node, ast.ClassDef):
            body, name = node.body, node.name
            continue
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            return name or (target.id if isinstance(target, ast.Name) else "")
        return name


def _closes_over_less(text: str, mutant: Mutant) -> bool:
    """Whether a function no longer needs a variable of the function around it: one that exists cannot be
    given such code.
    """
    before, after = (_free_variables(compile(one, mutant.path, "exec")) for one in (text, mutant.apply(text)))
    return any(after.get(place, names) != names for place, names in before.items())


def _free_variables(code: CodeType) -> dict[tuple[str, int], int]:
    """How many variables of other functions each function reads, by its name and first line."""
    found = {(code.co_qualname, code.co_firstlineno): len(code.co_freevars)}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _free_variables(constant)
    return found


def _in_header(node: ast.FunctionDef, line: int) -> bool:
    return node.lineno == node.body[0].lineno == line


def _first(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
