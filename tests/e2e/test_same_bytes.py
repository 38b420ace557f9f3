"""Two runs in two processes with different string hashes write the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = (
    "run {model} --soc_version {chip} --weights random --values {values} --output out",
    "compile {model} --soc_version {chip} --listing *",
    "fusion list {model} --soc_version {chip}",
)
PROGRAM = """
import sys
from ascendsim.cli.main import main
for line in sys.argv[1:]:
    print(">", line.split()[0], main(line.split()))
"""


def everything(model: Path, chip: str, values: str, folder: Path, seed: int) -> dict[str, bytes]:
    """All that the commands print and write, by name; the time that a run took left out."""
    folder.mkdir()
    lines = [command.format(model=model, chip=chip, values=values) for command in COMMANDS]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "MPLBACKEND": "Agg"}
    arguments = [sys.executable, "-c", PROGRAM, *lines]
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, check=True)
    printed = [line for line in done.stdout.splitlines() if not line.startswith(b"took ")]
    assert [line for line in printed if line.startswith(b"> ")] == [b"> run 0", b"> compile 0", b"> fusion 0"]
    made = {"printed": b"\n".join(printed)}
    made.update(
        (str(path.relative_to(folder)), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )
    return made


@pytest.mark.parametrize(
    ("name", "chip", "values"),
    [
        ("lenet5", "Ascend310", "off"),  # a process without values is half as long
        pytest.param("lenet5", "Ascend310", "device", marks=pytest.mark.slow),
        pytest.param("bert_tiny_s64", "Ascend910B1", "device", marks=pytest.mark.slow),
        pytest.param("squeezenet1_1", "Ascend310P3", "device", marks=pytest.mark.slow),
    ],
)
def test_hashes_of_strings_do_not_show(
    models_dir: Path, tmp_path: Path, name: str, chip: str, values: str
) -> None:
    first, second = (
        everything(models_dir / f"{name}.onnx", chip, values, tmp_path / str(seed), seed) for seed in (1, 77)
    )
    assert {Path(file).name for file in first} >= {
        "op_summary.csv",
        "trace.json",
        "timeline.png",
        "fusion_result.json",
        *(["outputs.npz"] if values != "off" else []),
    }
    assert [file for file in first if first[file] != second.get(file)] == []
    assert list(first) == list(second)
