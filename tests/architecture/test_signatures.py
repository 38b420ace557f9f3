"""Calls can be read: what goes in by position is not many things."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.support.sources import ROOT, parsed, statements

MOST = 6  # arguments by position, `self` and `cls` not counted
# The inputs of an operator, in its order: `with_numpy` calls these with them.
OPERATORS = {
    "ascendsim/ops/training/batchnorm_grad.py:_data",
    "ascendsim/ops/training/updates.py:_lamb_right",
    "ascendsim/ops/training/updates.py:_moments",
}
# PyTorch's operators, in the order of their schemas: captured calls go to them as they are.
# Names of the kernel language, whose signatures are pyasc's.
CONVERTERS = ("ascendsim/frontends/torch/families/", "ascendsim/asc/")


def functions(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions with their names, those of classes and those inside others too."""
    for node in statements(tree):
        name = f"{outer}{getattr(node, 'name', '')}"
        if isinstance(node, ast.FunctionDef):
            yield name, node
        inside = isinstance(node, (ast.FunctionDef, ast.ClassDef))
        yield from functions(node, f"{name}." if inside else outer)


def by_position(function: ast.FunctionDef) -> int:
    names = [argument.arg for argument in function.args.posonlyargs + function.args.args]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def is_jitted(function: ast.FunctionDef) -> bool:
    """Whether numba compiles it: calls between kernels take their arguments by position."""
    names = {item.id for item in function.decorator_list if isinstance(item, ast.Name)}
    return bool(names & {"kernel", "lean", "compilable"})


def test_nothing_takes_many_arguments_by_position() -> None:
    found = set()
    for folder in ("ascendsim", "kernels/ascendsim_kernels"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name, function in functions(parsed(path)):
                home = path.relative_to(ROOT).as_posix()
                converter = home.startswith(CONVERTERS) and not name.rpartition(".")[2].startswith("_")
                if by_position(function) > MOST and not is_jitted(function) and not converter:
                    found.add(f"{home}:{name}")
    assert found == OPERATORS


def test_the_count_is_right() -> None:
    tree = ast.parse("class A:\n  def f(self, a, /, b, *rest, c=0, **more): pass\n  def g(a, b): pass")
    assert [(name, by_position(function)) for name, function in functions(tree)] == [("A.f", 2), ("A.g", 2)]
