"""Mutation testing: the mutants of a line, lists of them, the call map of a file that changed, and how a
mutant gets into a process."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mutation import runner
from mutation.callmap import CallMap, joined, table
from mutation.mutants import Mutant, edit, locate, mutants_of, read_list, sample
from mutation.report import report
from mutation.runner import Collected, Importer, Job, Outcome, Pool, _Only
from mutation.selection import Selector, _closes_over_less, _lines_with


def _mutated(source: str) -> set[str]:
    return {mutant.mutated for mutant in mutants_of("toy.py", source)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = a < b", {"y = a <= b", "y = a >= b"}),
        ("y = a is not b", {"y = a is b"}),
        ("y = a not  in b", {"y = a in b"}),
        ("y = a + b", {"y = a - b"}),
        ("y = a - b", {"y = a + b", "y = b - a"}),
        ("y = a * b / c", {"y = a + b / c", "y = a * b * c", "y = c / (a * b)"}),
        ("y = (a + b) // c", {"y = (a - b) // c", "y = (a + b) * c", "y = c // (a + b)"}),
        ("y = min(a, b)", {"y = max(a, b)", "y = (a)", "y = (b)"}),
        ("y = 7", {"y = 8", "y = 6"}),
        ("y = 16", {"y = 17", "y = 15", "y = 32"}),
        ("y = 0.5", {"y = 1.0"}),
        ("y = True", {"y = False"}),
        ("work(a)", {"pass"}),
        ("y += a", {"pass", "y -= a"}),
        ("y = a if b else c", {"y = a if True else c", "y = a if False else c"}),
        ("y = a or ()", {"y = a and ()", "y = False or ()"}),
        ("y = a and b", {"y = a or b", "y = True and b", "y = a and True"}),
        ("y = not a", {"y = a"}),
        ("y = sorted(a, key=f)", {"y = (a)"}),
        ("y = [a for a in b if c]", {"y = [a for a in b if True]", "y = [a for a in b if False]"}),
        ("while a: f = b", {"while False: f = b"}),
    ],
)
def test_mutants_of_a_line(line: str, expected: set[str]) -> None:
    assert _mutated(line) == expected


@pytest.mark.parametrize(
    ("annotation", "default"),
    [("int", "0"), ("bool", "False"), ("tuple[int, ...]", "()"), ("Graph", "None"), ("str", '""')],
)
def test_a_return_value_gets_the_default_of_its_type(annotation: str, default: str) -> None:
    assert _mutated(f"def f(a) -> {annotation}:\n    return a") == {f"return {default}"}


@pytest.mark.parametrize(
    "line",
    [
        '"""Text with a + b."""',
        "__all__ = [1]",
        "y: Literal[1, 2]",
        "raise Error(a + 1)",
        "assert a < 1",
        "import a",
        'y = f"{a + 1}"',
        'y = "a" + b',
        "if TYPE_CHECKING:\n    y = 1",
        "class Kind(Enum):\n    A = 1",
        "@dataclass(slots=True)\nclass A:\n    '''Text.'''",
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "y = zip(a, b, strict=True)",
    ],
)
def test_what_is_left_alone(line: str) -> None:
    assert _mutated(line) == set()


def test_an_operator_in_a_comment_is_not_meant() -> None:
    assert "a  # x and y" in _flat_of("z = (\n    a  # x and y\n    and b\n)", "and/or")


def _flat_of(source: str, kind: str) -> str:
    (found,) = [mutant for mutant in mutants_of("toy.py", source) if mutant.kind == kind]
    return found.apply(source)


def test_only_the_edit_changes_and_lines_keep_their_numbers() -> None:
    source = "def f(a):\n    é = 'ü'; work(\n        a,\n    )  # why\n    return a\n"
    (dropped,) = [mutant for mutant in mutants_of("toy.py", source) if mutant.kind == "statement"]
    text = dropped.apply(source)
    assert text.splitlines()[0] == source.splitlines()[0]
    assert text.splitlines()[-1] == source.splitlines()[-1]
    assert text.count("\n") == source.count("\n")
    assert "é = 'ü'; pass" in text
    assert (dropped.line, dropped.last) == (2, 4)
    compile(text, "toy", "exec")


def _toy(root: Path) -> None:
    (root / "ascendsim" / "toy").mkdir(parents=True)
    (root / "ascendsim" / "toy" / "a.py").write_text(
        "def f(a, b):\n    return a < b\n\n\ndef g(a):\n    work(\n        a,\n        1,\n    )\n"
    )
    (root / "ascendsim" / "toy" / "b.py").write_text(
        "LIMIT = 8\n\n\ndef h(a):\n    return a + LIMIT if a > 1 else a - 1\n"
    )


def test_a_sample_depends_on_its_seed_only(tmp_path: Path) -> None:
    _toy(tmp_path)
    drawn = [sample(tmp_path, ["ascendsim/toy"], 6, seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 6
    everything = sample(tmp_path, ["ascendsim/toy"], 10**6, 1)
    assert {mutant.path for mutant in everything} == {"ascendsim/toy/a.py", "ascendsim/toy/b.py"}
    assert set(drawn[2]) < set(everything)


def test_a_list_gives_back_the_mutants_that_were_written(tmp_path: Path) -> None:
    _toy(tmp_path)
    everything = sample(tmp_path, ["ascendsim/toy"], 10**6, 1)
    (tmp_path / "list.txt").write_text(
        "Mutants of the toy:\n" + "".join(f"{mutant}\n" for mutant in everything)
    )
    found, gone = read_list(tmp_path, tmp_path / "list.txt")
    assert gone == []
    assert [mutant.id for mutant in found] == [one.id for one in everything]
    texts = {path: (tmp_path / path).read_text() for path in ("ascendsim/toy/a.py", "ascendsim/toy/b.py")}
    assert [compact(mutant.apply(texts[mutant.path])) for mutant in found] == [
        compact(one.apply(texts[one.path])) for one in everything
    ]


def compact(text: str) -> str:
    return "".join(text.replace("\\", "").split())


def test_a_list_written_by_hand_survives_moved_lines_and_says_what_is_gone(tmp_path: Path) -> None:
    _toy(tmp_path)
    path = "ascendsim/toy/b.py"
    rows = [
        f"- {path}:40 `a > 1` -> `a > 2`",
        f"{path}:5 `no such code` -> `pass`",
        f"{path}:5 `a` -> `b`",
        "ascendsim/none.py:1 `a` -> `b`",
    ]
    (tmp_path / "list.txt").write_text("\n".join(rows))
    (found,), gone = read_list(tmp_path, tmp_path / "list.txt")
    assert (found.line, found.mutated) == (5, "return a + LIMIT if a > 2 else a - 1")
    assert gone == rows[1:]


def test_the_map_follows_lines_that_moved() -> None:
    before = "a\nb\nc\n"
    bits = [bytes([0b1000_0000 >> index]) for index in range(3)]
    calls = CallMap(["", "t::b", "t::c"], {}, {"x/y.py": (before, {1: 0, 2: 1, 3: 2})}, bits)
    assert calls.covering("x/y.py", before, [2]) == {"t::b"}
    assert calls.covering("x/y.py", "new\na\nb\nc\n", [3]) == {"t::b"}
    assert calls.covering("z/y.py", before, [1, 3]) == {"", "t::c"}, "a file that moved"
    assert calls.covering("x/y.py", "a\nb\nother\n", [3]) >= {"t::c"}, (
        "a changed line is seen by the tests of the one before"
    )
    assert "" not in calls.covering("x/y.py", "other\nb\nc\n", [1]), "it need not run at import as that one"
    assert calls.covering("x/w.py", before, [1]) == set()


def test_test_files_that_are_recorded_again_replace_what_the_map_said_of_them(tmp_path: Path) -> None:
    def map_of(text: str, seconds: dict[str, float], runs: dict[str, int]) -> dict[str, Any]:
        """The map of a file as it is written, from which test runs which line."""
        (tmp_path / "x.py").write_text(text)
        lines = np.zeros((20, len(seconds)), bool)
        for test, line in runs.items():
            lines[line, list(seconds).index(test)] = True
        return table(tmp_path, seconds, {"x.py": lines})

    old = map_of(
        "a\nb\nc\n",
        {"": 0, "t.py::stays": 3, "u.py::gone": 2, "u.py::moves": 1},
        {"t.py::stays": 1, "u.py::gone": 2, "u.py::moves": 3},
    )
    new = map_of("new\na\nb\nc\n", {"": 0, "u.py::moves": 5}, {"u.py::moves": 1})
    (tmp_path / "map.gz").write_bytes(gzip.compress(json.dumps(joined(tmp_path, old, new)).encode()))
    calls = CallMap.read(tmp_path / "map.gz")
    assert calls.seconds == {"": 0, "t.py::stays": 3, "u.py::moves": 5}
    text = (tmp_path / "x.py").read_text()
    assert calls.covering("x.py", text, [1]) >= {"u.py::moves"}
    assert calls.covering("x.py", text, [2]) == {"t.py::stays"}, "where the line is now"
    assert calls.covering("x.py", text, [3, 4]) == set()


def test_what_runs_at_import_needs_a_fresh_process(tmp_path: Path) -> None:
    _toy(tmp_path)
    path = "ascendsim/toy/b.py"
    text = (tmp_path / path).read_text()
    (tmp_path / "test_b.py").touch()
    seconds = {"": 0.0, "test_b.py::slow": 5.0, "test_b.py::quick": 1.0}
    sets = [bytes([0b1000_0000]), bytes([0b0110_0000])]
    selector = Selector(
        tmp_path, CallMap(list(seconds), seconds, {path: (text, {1: 0, 4: 0, 5: 1})}, sets), budget=5.5
    )
    choices = {mutant.line: selector.choose(mutant) for mutant in mutants_of(path, text)}
    assert choices[1].fresh
    assert choices[1].tests == ["test_b.py::quick"], (
        "those that run a function in which the name occurs, while the budget lasts"
    )
    assert not choices[5].fresh
    assert choices[5].tests == ["test_b.py::quick"]


def test_what_runs_at_import_is_judged_by_tests_that_speak_of_it_first(tmp_path: Path) -> None:
    _toy(tmp_path)
    path = "ascendsim/toy/b.py"
    text = (tmp_path / path).read_text()
    (tmp_path / "tests").mkdir()
    imported = "from ascendsim.toy.b import LIMIT\n"
    for name, said in (
        ("speaks", f"{imported}assert LIMIT == 8"),
        ("silent", f"{imported.replace('LIMIT', 'LIMITS')}assert LIMITS  # no LIMIT"),
        ("other", "from elsewhere import LIMIT"),
    ):
        (tmp_path / "tests" / f"test_{name}.py").write_text(said)
    seconds = {
        "": 0.0,
        "tests/test_silent.py::quick": 1.0,
        "tests/test_speaks.py::slow": 5.0,
        "tests/test_other.py::quick": 1.0,
    }
    calls = CallMap(
        list(seconds), seconds, {path: (text, {1: 0, 5: 1})}, [bytes([0b1000_0000]), bytes([0b0110_0000])]
    )
    (mutant, *_) = [mutant for mutant in mutants_of(path, text) if mutant.line == 1]
    chosen = Selector(tmp_path, calls, budget=9.0).choose(mutant)
    assert chosen.tests == ["tests/test_speaks.py::slow", "tests/test_silent.py::quick"]


def test_code_that_closes_over_less_needs_a_fresh_process() -> None:
    text = "def outer(limit):\n    def inner(x):\n        return x < limit\n    return inner\n"
    found = {mutant.mutated: mutant for mutant in mutants_of("x.py", text) if mutant.line == 3}
    assert _closes_over_less(text, found["return None"]) is True
    assert _closes_over_less(text, found["return x <= limit"]) is False
    assert _closes_over_less(text, found["return x >= limit"]) is False


TABLES = {
    "ascendsim/toy/made.py": (
        "def maker(turned=False):\n    def make(x):\n        return x\n    return make\n"
    ),
    "ascendsim/toy/table.py": (
        "from ascendsim.toy import made\n\nTABLE = {'one': made.maker()}\n\n\n"
        "def look_up(name):\n    return TABLE[name]\n"
    ),
}


def test_defaults_are_judged_by_what_runs_the_body_then_by_who_uses_tables_that_hold_it(
    tmp_path: Path,
) -> None:
    for path, text in TABLES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for name in ("runs", "asks"):
        (tmp_path / f"test_{name}.py").touch()
    seconds = {"": 0.0, "test_runs.py::slow": 5.0, "test_asks.py::quick": 1.0}
    (made, table), sets = TABLES, [bytes([0b1000_0000]), bytes([0b0100_0000]), bytes([0b0010_0000])]
    lines = {
        made: (TABLES[made], {1: 0, 2: 0, 3: 1, 4: 0}),
        table: (TABLES[table], {1: 0, 3: 0, 6: 0, 7: 2}),
    }
    (mutant, *_) = [mutant for mutant in mutants_of(made, TABLES[made]) if mutant.line == 1]
    chosen = Selector(tmp_path, CallMap(list(seconds), seconds, lines, sets), budget=9.0).choose(mutant)
    assert chosen.fresh
    assert chosen.tests == ["test_runs.py::slow", "test_asks.py::quick"]


def test_a_test_that_runs_little_else_is_asked_first(tmp_path: Path) -> None:
    _toy(tmp_path)
    path = "ascendsim/toy/b.py"
    text = (tmp_path / path).read_text()
    (tmp_path / "test_b.py").touch()
    seconds = {"": 0.0, "test_b.py::wide": 1.0, "test_b.py::narrow": 1.0}
    lines = {"x/a.py": ("", dict.fromkeys(range(1, 5), 1)), path: (text, {5: 0})}
    sets = [bytes([0b0110_0000]), bytes([0b0100_0000])]  # both run line 5, and the first all of x/a.py
    selector = Selector(tmp_path, CallMap(list(seconds), seconds, lines, sets), budget=9.0)
    (mutant, *_) = [mutant for mutant in mutants_of(path, text) if mutant.line == 5]
    assert selector.choose(mutant).tests == ["test_b.py::narrow", "test_b.py::wide"]


def test_functions_get_their_new_code_wherever_they_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "def outer(a):\n    def inner(b):\n        return b + 1\n    return inner(a)\n\n\ndef "
        "other(a):\n    return a\n"
    )
    (tmp_path / "ascendsim_toy.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    toy = importlib.import_module("ascendsim_toy")
    monkeypatch.delitem(sys.modules, "ascendsim_toy")
    held = toy.outer
    collected = Collected(Pool(lambda _job: "", lambda _mutant, _outcome: None), [])
    collected.index()
    (mutant,) = [mutant for mutant in mutants_of("ascendsim_toy.py", source) if mutant.kind == "arithmetic"]
    before = toy.other.__code__
    collected.change(mutant, mutant.apply(source))
    assert held(5) == 4
    assert toy.other.__code__ is before
    with pytest.raises(LookupError, match="no function holds"):
        collected.change(edit("ascendsim_toy.py", "x = 1\n", 4, 5, "2", "constant"), "x = 2\n")


def test_a_module_is_loaded_from_the_mutated_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mutated_toy").mkdir()
    (tmp_path / "mutated_toy" / "__init__.py").write_text("from mutated_toy.a import LIMIT\n")
    (tmp_path / "mutated_toy" / "a.py").write_text("LIMIT = 8\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [Importer("mutated_toy/a.py", "LIMIT = 9\n"), *sys.meta_path])
    toy = importlib.import_module("mutated_toy")
    assert toy.LIMIT == 9
    assert (tmp_path / "mutated_toy" / "a.py").read_text() == "LIMIT = 8\n"
    for name in ("mutated_toy", "mutated_toy.a"):
        monkeypatch.delitem(sys.modules, name)


def _job(name: str, *tests: str) -> Job:
    return Job(
        Mutant("ascendsim/x.py", 1, 1, name, "", "given", 0, 0, ""), "", list(tests), [0.0] * len(tests)
    )


def _fate(job: Job) -> str:
    """What a child does in the test of the pool: the name of the mutant says it; test "t::bad" fails
    always."""
    name = job.mutant.original if job.mutant else ""
    if name == "hangs":
        while True:
            pass
    if name == "crashes":
        os.abort()
    if name == "raises":
        raise LookupError("why")
    failing = {"t::bad"} | ({"t::law"} if name == "wrong" else set())
    return next((test for test in job.tests if test in failing and test not in job.left_out), "")


def test_a_mutant_comes_before_pytests_own_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes modules that are named on its command line: those whose doctests are asked for."""
    importer = Importer("ascendsim/ops/one.py", "")
    monkeypatch.setattr(sys, "meta_path", [object(), importer, object()])
    _Only(Job(None, "", [], [])).pytest_sessionstart()
    assert sys.meta_path[0] is importer
    assert len(sys.meta_path) == 3


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("from ascendsim_kernels.conv import fold\n\nx = 1\nfold(x)", {1, 4}),
        ("from ascendsim_kernels import conv as c\n\nc.other()", {1, 3}),
        (
            "def f():\n    from ascendsim_kernels.conv import (\n        fold as own,\n    )\n    own()",
            {2, 3, 5},
        ),
        ("from elsewhere import fold\nfold()", set()),
        ("from ascendsim_kernels.conv import other\nother()", set()),
    ],
)
def test_a_module_mentions_a_kernel_by_its_own_name_for_it(text: str, lines: set[int]) -> None:
    assert _lines_with(text, {"fold", "conv"}) == lines


def test_a_kernel_is_called_by_who_imports_it_and_not_by_who_has_a_variable_of_that_name(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "kernels" / "ascendsim_kernels"
    folder.mkdir(parents=True)
    (folder / "bits.py").write_text("def fold(x):\n    return x\n\ndef wide(x):\n    return fold(x)\n")
    (folder / "run.py").write_text(
        "from ascendsim_kernels.bits import fold\n\ndef run(x):\n    return fold(x)\n"
    )
    (folder / "other.py").write_text("def other(fold, x):\n    y = fold\n    return fold(x) + y\n")
    assert Selector(tmp_path, CallMap([], {}, {}, [])).kernel_callers == {"fold": {"wide", "run"}}


def test_a_kernel_may_be_judged_for_longer_than_other_lines(tmp_path: Path) -> None:
    kernel, test = tmp_path / "kernels" / "ascendsim_kernels", tmp_path / "tests"
    user = tmp_path / "ascendsim" / "user.py"
    for folder in (kernel, test, user.parent):
        folder.mkdir(parents=True)
    (kernel / "bits.py").write_text("def fold(x):\n    return x + 1\n")
    user.write_text("from ascendsim_kernels.bits import fold\n\ndef use(x):\n    return fold(x)\n")
    (test / "test_a.py").touch()
    seconds = {"": 0.0, "tests/test_a.py::law": 5.0, "tests/test_a.py::long": 12.0}
    calls = CallMap(
        list(seconds), seconds, {"ascendsim/user.py": (user.read_text(), {4: 0})}, [bytes([0b0110_0000])]
    )
    path = "kernels/ascendsim_kernels/bits.py"
    (mutant, *_) = mutants_of(path, (kernel / "bits.py").read_text())
    for budget, tests in ((1.0, 0), (2.0, 1), (6.0, 2)):
        assert len(Selector(tmp_path, calls, budget).choose(mutant).tests) == tests


def test_the_pool_tells_what_became_of_each_mutant(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, for a fork of a process with threads (BLAS, numba) is not safe."""
    program = (
        "import json, signal\nfrom tests.unit.test_mutate import _fate, _job, Pool, Job\n"
        "def work(job):\n    job.watch(job.tests[-1])\n    signal.setitimer(signal.ITIMER_PROF, 0.2)\n    "
        "return _fate(job)\n"
        "found = {}\n"
        "def done(mutant, outcome): found[mutant.original] = [outcome.status, outcome.test]\n"
        "jobs = [('wrong', 't::a', 't::law'), ('same', 't::a', 't::law'), ('hangs', 't::a'), ('crashes', "
        "'t::a'), ('raises', 't::a')]\n"
        "jobs.append(('only bad', 't::bad', 't::a'))\n"
        "Pool(work, done).run([_job(*job) for job in jobs])\nprint(json.dumps(found))"
    )
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", f"{root}:{root / 'scripts'}")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, cwd=root
    )
    assert json.loads(done.stdout) == {
        "wrong": ["killed", "t::law"],
        "same": ["survived", ""],
        "hangs": ["timeout", "t::a"],
        "crashes": ["crashed", "t::a"],
        "raises": ["error", "LookupError: why"],
        "only bad": ["survived", ""],
    }


def test_the_report_counts_by_package_and_leaves_equivalent_mutants_out(tmp_path: Path) -> None:
    fates = ["killed", "timeout", "survived", "not covered", "equivalent"]
    mutants = [
        Mutant("ascendsim/machine/l2.py", line, line, f"a{line}", "b", "given", 0, 0, "") for line in range(5)
    ]
    rows = [runner.report_line(mutant, Outcome(fate)) for mutant, fate in zip(mutants, fates, strict=True)]
    other = Mutant("kernels/ascendsim_kernels/a.py", 1, 1, "a", "b", "given", 0, 0, "")
    # run again after a test was added
    rows += [runner.report_line(other, Outcome(fate)) for fate in ("survived", "killed")]
    (tmp_path / "results.jsonl").write_text("\n".join(rows) + "\n")
    text = report(tmp_path / "results.jsonl")
    rates = {line.split()[0]: line.split()[-1] for line in text.splitlines()[1:4]}
    assert rates == {"kernels": "100.0%", "machine": "50.0%", "all": "60.0%"}
    assert "- ascendsim/machine/l2.py:2 `a2` -> `b`" in text
    assert "a0" not in text


@dataclass(frozen=True)
class _Item:
    nodeid: str


def test_a_file_stands_for_its_tests_and_tests_that_are_broken_are_left_out() -> None:
    items = [_Item(name) for name in ("t.py::a", "t.py::b", "u.py::c")]
    job = _job("x", "u.py::c", "t.py", "t.py::a", "gone.py::d")
    job.left_out = {"t.py::b"}
    assert [item.nodeid for item in job.chosen(items)] == ["u.py::c", "t.py::a"]


def test_the_mutants_that_mean_the_same_are_on_lines_that_exist_and_say_why() -> None:
    root = Path(__file__).parents[2]
    entries = tomllib.loads((root / "tests" / "data" / "equivalent_mutants.toml").read_text())["mutant"]
    gone = [
        entry
        for entry in entries
        if not entry["why"] or locate(root, entry["file"], 1, entry["original"], entry["mutated"]) is None
    ]
    assert entries
    assert gone == []
