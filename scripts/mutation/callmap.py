"""The call map: which tests run a line, and how long they take. Built once by `scripts/mutate --map`, kept as
one compressed file.
"""

from __future__ import annotations

import base64
import difflib
import gzip
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mutation.recorder import FOLDER

# Tests of files and pages, which say nothing of behaviour, and of notebooks, which run in other processes and
# see no mutant.
IGNORED = (
    "tests/architecture",
    "tests/e2e/test_notebooks.py",
    "tests/unit/test_mutate.py",
    "tests/unit/test_docs_performance.py",
)
IMPORT = ""  # stands for the time at which modules are imported and tests collected


def record(root: Path, path: Path, jobs: int = 2, files: Sequence[str] = ()) -> int:
    """Runs the default tests under coverage in `jobs` processes, and writes the map; returns how many tests
    it holds.

    Args:
        root: Checkout.
        path: The map. With `files` what it says of all other tests stays.
        jobs: Processes.
        files: Test files to record; all if there are none.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            str(jobs),
            "--dist",
            "worksteal",
            "-p",
            "mutation.recorder",
            "-p",
            "no:cacheprovider",
            *files,
        ]
        command += [f"--ignore={name}" for name in IGNORED]
        ended = subprocess.run(command, cwd=root, env=environment(root) | {FOLDER: str(folder)}, check=False)
        if ended.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            raise RuntimeError(f"no map: pytest ended with {pytest.ExitCode(ended.returncode)!r}")
        found = _merge(root, folder)
    if files:
        found = joined(root, json.loads(gzip.decompress(path.read_bytes())), found)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(found).encode(), 6))
    return len(found["tests"]) - 1


def environment(root: Path) -> dict[str, str]:
    """Variables with which the tests of a checkout run."""
    paths = [str(root), str(root / "kernels"), str(Path(__file__).resolve().parents[1])]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",  # a fork waits for ever for threads that PyTorch has started before
        "MPLBACKEND": "Agg",
    }


def _merge(root: Path, folder: Path) -> dict[str, Any]:
    """One table of what all workers recorded."""
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    seconds = {IMPORT: 0.0}
    users: dict[str, list[str]] = {}
    for report in reports:
        seconds |= report["seconds"]
        users |= report["users"]
    number = {name: index for index, name in enumerate(seconds)}
    lines: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("*.coverage")):
        _add(lines, path, root, number, users)
    return table(root, seconds, lines)


def table(root: Path, seconds: Mapping[str, float], lines: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The table that is written.

    Args:
        root: Checkout.
        seconds: By test, the time of import first.
        lines: By file which line (rows) is run by which test (columns).
    """
    sets: dict[bytes, int] = {}
    files = {}
    for name, matrix in sorted(lines.items()):
        rows = np.packbits(matrix, axis=1)
        of_line = {
            str(line): sets.setdefault(rows[line].tobytes(), len(sets))
            for line in np.flatnonzero(matrix.any(axis=1))
        }
        files[name] = {"text": (root / name).read_text(encoding="utf-8"), "lines": of_line}
    modules = {name.split("::")[0] for name in seconds if name}
    digests = {
        name: hashlib.sha256((root / name).read_bytes()).hexdigest()
        for name in sorted(modules)
        if (root / name).is_file()
    }
    packed = [base64.b85encode(row).decode() for row in sets]
    return {
        "tests": list(seconds),
        "seconds": [round(value, 4) for value in seconds.values()],
        "digests": digests,
        "files": files,
        "sets": packed,
    }


def joined(root: Path, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """A map with all tests of the files that the new one holds, and of the others what the old one says."""
    again = {test.split("::")[0] for test in new["tests"]} - {IMPORT}
    seconds = {
        test: value
        for one in (old, new)
        for test, value in zip(one["tests"], one["seconds"], strict=True)
        if one is new or test.split("::")[0] not in again
    }
    number = {test: index for index, test in enumerate(seconds)}
    places_of = Counter(Path(name).name for name in new["files"])
    moved = {Path(name).name: name for name in new["files"] if places_of[Path(name).name] == 1}
    lines: dict[str, np.ndarray] = {}
    for one in (old, new):
        kept = [
            (column, number[test])
            for column, test in enumerate(one["tests"])
            if one is new or test.split("::")[0] not in again
        ]
        columns, places = (np.array(side) for side in zip(*kept, strict=True))
        sets = [np.unpackbits(np.frombuffer(base64.b85decode(row), np.uint8)) for row in one["sets"]]
        for recorded, entry in one["files"].items():
            name = recorded if (root / recorded).is_file() else moved.get(Path(recorded).name, "")
            if not name:
                continue
            text = (root / name).read_text(encoding="utf-8")
            matrix = lines.setdefault(name, np.zeros((text.count("\n") + 17, len(seconds)), bool))
            for line, before in _origins(entry["text"], text).items():
                seen = [
                    sets[entry["lines"][str(row)]][columns] for row in before if str(row) in entry["lines"]
                ]
                for bits in seen:  # lines around do not say when a line runs
                    matrix[line, places] |= bits.astype(bool) & ((places > 0) | (len(before) == 1))
    return table(root, seconds, lines)


def _add(
    lines: dict[str, np.ndarray],
    path: Path,
    root: Path,
    number: Mapping[str, int],
    users: Mapping[str, list[str]],
) -> None:
    with sqlite3.connect(path) as database:
        contexts = dict(database.execute("select id, context from context"))
        for file, name in database.execute("select id, path from file").fetchall():
            columns = []
            for context, bits in database.execute(
                "select context_id, numbits from line_bits where file_id = ?", (file,)
            ):
                tests = users.get(contexts[context], [contexts[context]])
                columns.append(
                    ([number[test] for test in tests if test in number], np.frombuffer(bits, np.uint8))
                )
            relative = Path(name).relative_to(root).as_posix()
            height = len(Path(name).read_text(encoding="utf-8").splitlines()) + 16
            matrix = lines.setdefault(relative, np.zeros((height, len(number)), bool))
            for tests, bits in columns:
                seen = np.unpackbits(bits, bitorder="little").astype(bool)
                matrix[: len(seen), tests] |= seen[:height, None]


@dataclass
class CallMap:
    """A map that was read.

    Attributes:
        tests: Node ids; the first stands for the time of import.
        seconds: Recorded time by node id.
        files: By path: text when the map was recorded, and numbers of sets by line.
        sets: Packed bits, one a test.
    """

    tests: list[str]
    seconds: dict[str, float]
    files: dict[str, tuple[str, dict[int, int]]]
    sets: list[bytes]

    @classmethod
    def read(cls, path: Path) -> CallMap:
        """Reads what `record` wrote."""
        found = json.loads(gzip.decompress(path.read_bytes()))
        files = {
            name: (entry["text"], {int(line): number for line, number in entry["lines"].items()})
            for name, entry in found["files"].items()
        }
        seconds = dict(zip(found["tests"], found["seconds"], strict=True))
        return cls(found["tests"], seconds, files, [base64.b85decode(row) for row in found["sets"]])

    def covering(self, path: str, text: str, lines: Iterable[int]) -> set[str]:
        """Tests that run any of these lines of a file as it is now; the empty name is among them if importing
        runs them.
        """
        recorded = self._recorded(path)
        if recorded is None:
            return set()
        before, sets = self.files[recorded]
        origins = _origins(before, text) if before != text else {line: (line,) for line in lines}
        found: set[str] = set()
        for line in lines:
            near = origins.get(line, ())
            tests = self._tests(sets[row] for row in near if row in sets)
            found |= tests if len(near) == 1 else tests - {IMPORT}  # of lines around: not when they run
        return found

    def _tests(self, numbers: Iterable[int]) -> set[str]:
        """Tests of some sets."""
        rows = [np.frombuffer(self.sets[number], np.uint8) for number in numbers]
        if not rows:
            return set()
        return {self.tests[index] for index in np.flatnonzero(np.unpackbits(np.bitwise_or.reduce(rows)))}

    @cached_property
    def breadth(self) -> dict[str, int]:
        """How many lines each test runs."""
        times = Counter(number for _, lines in self.files.values() for number in lines.values())
        total = np.zeros(8 * len(self.sets[0]), np.int64)
        for number, count in times.items():
            total += count * np.unpackbits(np.frombuffer(self.sets[number], np.uint8)).astype(np.int64)
        return dict(zip(self.tests, total.tolist(), strict=False))

    def _recorded(self, path: str) -> str | None:
        """Name under which a file was recorded: its own, or that of the only file of this name if it has
        moved.
        """
        if path in self.files:
            return path
        alike = [name for name in self.files if Path(name).name == Path(path).name]
        return alike[0] if len(alike) == 1 else None


def _origins(before: str, after: str) -> dict[int, Collection[int]]:
    """Lines of an old text by those of a new one; a changed line is where the lines that it replaced were."""
    found: dict[int, Collection[int]] = {}
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for tag, first, last, start, end in matcher.get_opcodes():
        for line in range(start + 1, end + 1):
            # the lines around stand for one that is new
            found[line] = (line - start + first,) if tag == "equal" else range(max(1, first), last + 2)
    return found
