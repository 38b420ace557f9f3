"""Operators and fusion rules of one's own through the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ascendsim.cli.main import main
from tests.support.recipes import FILES, ROOT, model_file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the recipes' files and a model, which is where we are."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    onnx.save(model_file(), tmp_path / "net.onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name, module in tuple(sys.modules.items()):
        if name not in before and str(tmp_path) in str(getattr(module, "__file__", "")):
            del sys.modules[name]


def quotient_file(path: Path) -> None:
    """x / sqrt(1 + x * x), what the rule of the recipe is about."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"], "square"),
        helper.make_node("Add", ["square", "one"], ["more"], "more"),
        helper.make_node("Sqrt", ["more"], ["root"], "root"),
        helper.make_node("Div", ["x", "root"], ["y"], "quotient"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (4, 64)) for name in ("x", "y")]
    one = numpy_helper.from_array(np.array(1, np.float32), "one")
    graph = helper.make_graph(nodes, "quotient", ends[:1], ends[1:], [one])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), path)


def test_a_process_compiles_with_an_operator_and_a_rule_of_ones_own(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quotient_file(folder / "quotient.onnx")
    command = ["compile", "quotient.onnx", "--fusion", "graph"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}
    process = [sys.executable, "-m", "ascendsim.cli.main", *command]
    process += ["--rules", "join_isru.py", "--operators", "isru.py"]
    joined = subprocess.run(process, capture_output=True, text=True, env=environment, check=True).stdout
    assert main(command) == 0
    assert ["Isru" in text for text in (joined, capsys.readouterr().out)] == [True, False]


def test_a_model_is_saved_and_run_with_its_operator(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--operators", "isru.py"]
    assert main(["compile", "net.onnx", *own, "--output", "net.asim"]) == 0
    assert "first" in capsys.readouterr().out
    assert main(["run", "net.asim", "--values", "off", *own]) == 0
    assert "first" in capsys.readouterr().out
    assert main(["run", "net.asim"]) == 2
    assert "Isru" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["optimize"], ["fusion", "list"], ["compile", "--stop_after", "engine"]], ids=" ".join
)
def test_other_commands_take_operators(command: list[str], folder: Path) -> None:
    arguments = [command[0], *command[1:], "net.onnx"]
    assert main(arguments) == 2
    assert main([*arguments, "--operators", "isru.py"]) == 0


def test_fusion_list_has_a_rule_of_ones_own(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fusion", "list", "--rules", "join_isru.py", "--rules", "join_isru.py"]) == 0
    assert sum("JoinIsru" in line for line in capsys.readouterr().out.splitlines()) == 1


REFUSED = {
    "no such file": (None, "does not exist"),
    "a folder": ("", "must be a file"),
    "not Python": ("not Python at all", "cannot be run: SyntaxError"),
    "what fails": ("\n\n1 / 0\n", "cannot be run: ZeroDivisionError in line 3"),
    "nothing": ("x = 1\n", "must hold an OpDef; CONTRIBUTING.md has a recipe"),
    "a name that is taken": (
        FILES["isru.py"].replace('"Isru"', '"Relu"').replace('domain="my.ops"', 'domain=""'),
        "must have a domain and name that no other operator has, not ::Relu",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_of_no_use_is_refused(case: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, reason = REFUSED[case]
    name = "own_file.py"
    if text:
        (folder / name).write_text(text)
    elif text is not None:
        (folder / name).mkdir()
    assert main(["run", "net.onnx", "--operators", name]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    if case != "a name that is taken":
        assert "option --operators: 'own_file.py'" in error


def test_a_file_is_python_by_its_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "isru.py").rename(folder / "isru.txt")
    assert main(["run", "net.onnx", "--operators", "isru.txt"]) == 2
    assert "must be a Python file (.py)" in capsys.readouterr().err


def test_rules_are_classes_that_the_file_defines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fusion", "list", "--rules", "isru.py"]) == 2
    assert "option --rules: 'isru.py' must define a FusionRule" in capsys.readouterr().err
    (folder / "imports.py").write_text("from join_isru import JoinIsru\n")
    assert main(["fusion", "list", "--rules", "imports.py"]) == 2
    capsys.readouterr()
    arguments = "class Own(FusionRule):\n    def __init__(self, x):\n        self.x = x\n"
    (folder / "arguments.py").write_text("from ascendsim.passes.fusion import FusionRule\n" + arguments)
    assert main(["fusion", "list", "--rules", "arguments.py"]) == 2
    assert "must need no arguments" in capsys.readouterr().err


def test_rules_have_no_effect_on_a_saved_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--operators", "isru.py"]
    assert main(["compile", "net.onnx", *own, "--output", "net.asim"]) == 0
    assert main(["run", "net.asim", *own, "--rules", "join_isru.py"]) == 2
    assert "option --rules has no effect on a compiled model" in capsys.readouterr().err


def test_a_file_may_have_the_name_of_another_module(folder: Path) -> None:
    (folder / "isru.py").rename(folder / "operator.py")
    assert main(["compile", "net.onnx", "--operators", "operator.py"]) == 0
    assert sys.modules["operator"].__file__ != str(folder / "operator.py")
