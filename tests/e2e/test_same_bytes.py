"""Two runs in two processes with different string hashes write the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = (
    ("run", "--weights", "random", "--output", "out"),
    ("compile", "--listing", "*"),
    ("fusion", "list"),
)


def everything(model: Path, chip: str, folder: Path, seed: int) -> dict[str, bytes]:
    """All that the commands print and write, by name; the time that a run took left out."""
    folder.mkdir()
    made = {}
    for number, command in enumerate(COMMANDS):
        arguments = [sys.executable, "-m", "ascendsim.cli.main", *command, "--soc_version", chip]
        arguments.insert(5 if command[0] == "fusion" else 4, str(model))
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "MPLBACKEND": "Agg"}
        done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, check=True)
        made[f"printed {number}"] = b"\n".join(
            line for line in done.stdout.splitlines() if not line.startswith(b"took ")
        )
    made.update(
        (str(path.relative_to(folder)), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )
    return made


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("lenet5", "Ascend310"),
        pytest.param("bert_tiny_s64", "Ascend910B1", marks=pytest.mark.slow),
        pytest.param("squeezenet1_1", "Ascend310P3", marks=pytest.mark.slow),
    ],
)
def test_hashes_of_strings_do_not_show(models_dir: Path, tmp_path: Path, name: str, chip: str) -> None:
    first, second = (
        everything(models_dir / f"{name}.onnx", chip, tmp_path / str(seed), seed) for seed in (1, 77)
    )
    assert {Path(file).name for file in first} >= {
        "op_summary.csv",
        "trace.json",
        "timeline.png",
        "fusion_result.json",
        "outputs.npz",
    }
    assert [file for file in first if first[file] != second.get(file)] == []
    assert list(first) == list(second)
