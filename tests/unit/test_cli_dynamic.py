"""Open shapes, gears and control flow on the command line: what is printed, and how mistakes are answered."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from ascendsim.cli.main import main
from tests.unit.test_runtime_control_flow import halving_loop, two_branches

pytestmark = pytest.mark.usefixtures("unpainted", "untimed_tiles")

NETWORK = str(Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx")
OPEN = ("--input_shape", "input:-1,1,28,28")
CHIP = ("--soc_version", "Ascend310P3")  # Ascend310, the default, runs no open shapes


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 0
    return capsys.readouterr().out


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "loop.onnx"
    onnx.save(halving_loop(None), path)
    return str(path)


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "branches.onnx"
    onnx.save(two_branches(("n", 8)), path)
    return str(path)


def test_compile_shows_gears(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "compile", NETWORK, *OPEN, "--dynamic_batch_size", "1,4")
    assert "input: [4, 1, 28, 28]" in out
    assert "2 gears in one model; weights" in out


def test_run_takes_a_gear(capsys: pytest.CaptureFixture[str]) -> None:
    gears = (*OPEN, "--dynamic_batch_size", "1,4", "--values", "off")
    assert "gear 4 of 1,4" in printed(capsys, "run", NETWORK, *gears)  # the largest
    assert "gear 1 of 1,4" in printed(capsys, "run", NETWORK, *gears, "--gear", "1")
    assert "option --gear must be one of 1,4, not '3'" in fails(capsys, "run", NETWORK, *gears, "--gear", "3")
    assert "option --gear needs a model with gears" in fails(capsys, "run", NETWORK, "--gear", "3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (*OPEN, "--dynamic_batch_size", "4"),
            "option dynamic_batch_size needs at least 2 gears (E10035), not 1",
        ),
        ((*OPEN, "--dynamic_batch_size", "4,4"), "(E10039)"),
        ((*OPEN, "--dynamic_batch_size", "1,-4"), "(E10038)"),
        ((*OPEN, "--dynamic_dims", "1,2;3"), "(E10037)"),
        ((*OPEN, "--dynamic_dims", "1,2;3,4"), "(E10046)"),
        ((*OPEN, "--dynamic_image_size", "28,28;56,56"), "(E10046)"),
        (("--dynamic_batch_size", "1,4"), '--input_shape "input:-1,3,224,224"'),
        ((*OPEN, "--dynamic_batch_size", "1,4", "--dynamic_dims", "1;4"), "exclude each other"),
    ],
)
def test_wrong_gears(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    assert message in fails(capsys, "compile", NETWORK, *arguments)


def test_open_shapes_say_who_schedules_and_why(capsys: pytest.CaptureFixture[str], branches: str) -> None:
    out = printed(capsys, "compile", branches, *CHIP)
    assert "scheduled by the host, task by task\n  input 'x' has the open shape [-1 (n), 8]" in out
    assert "input 'x' has the open shape [n, 8]; say which" in fails(capsys, "run", branches, *CHIP)
    out = printed(capsys, "run", branches, "--input_shape", "x:4,8")
    assert "scheduled by the host" not in out
    assert "if/" in out


def test_time_without_values(capsys: pytest.CaptureFixture[str], loop: str) -> None:
    assert "trips={'loop': 10}" in fails(capsys, "run", loop, *CHIP, "--values", "off")
    out = printed(capsys, "run", loop, *CHIP, "--values", "off", "--trips", "loop=12")
    assert "scheduled by the host, task by task: node 'loop' (Loop) gives 'ys' the shape [-1]" in out
    assert "loop/body/" in out
    assert "must be a whole number" in fails(
        capsys, "run", loop, *CHIP, "--values", "off", "--trips", "loop=many"
    )
    assert "did you mean loop?" in fails(capsys, "run", loop, *CHIP, "--values", "off", "--trips", "lop=3")


def test_advice_and_comparisons_without_values_take_numbers_of_iterations(
    capsys: pytest.CaptureFixture[str], loop: str
) -> None:
    assert "proposals:" in printed(capsys, "advise", loop, *CHIP, "--trips", "loop=3")
    few, many = (
        printed(capsys, "compare", loop, *CHIP, "--values", "off", "--trips", f"loop={count}")
        for count in (1, 3)
    )
    tasks = [
        next(line.split()[1:] for line in text.splitlines() if line.startswith("Tasks"))
        for text in (few, many)
    ]
    assert all(int(a) < int(b) for a, b in zip(*tasks, strict=True))
    assert "all together" in printed(capsys, "compare", loop, *CHIP, "--ablate", "--trips", "loop=3")
    assert "--trips loop=10" in fails(capsys, "advise", loop, *CHIP)


def test_advice_on_gears_keeps_to_options_that_go_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert "proposals:" in printed(capsys, "advise", NETWORK, *OPEN, "--dynamic_batch_size", "1,2")


def test_compare_gears(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gears = ("compare", NETWORK, *OPEN, "--dynamic_batch_size", "1,4")
    out = printed(capsys, *gears, *CHIP, "--output", str(tmp_path))
    assert all(f"{kind} {batch}" in out for kind in ("gear", "static", "host") for batch in (1, 4))
    closed = printed(capsys, *gears)  # a chip without open shapes
    assert "static 4" in closed
    assert "host 4" not in closed
    assert "open shapes that the host schedules" not in closed
    assert (tmp_path / "compare.png").exists()
    assert "takes one fusion level" in fails(
        capsys, "compare", NETWORK, *OPEN, "--dynamic_batch_size", "1,4", "--fusion", "off,all"
    )


def test_what_open_models_lack(capsys: pytest.CaptureFixture[str], loop: str, tmp_path: Path) -> None:
    assert "has no report on memory" in fails(capsys, "compile", loop, *CHIP, "--memory")
    assert "must be a model of fixed shapes" in fails(
        capsys, "compile", loop, *CHIP, "--output", str(tmp_path / "loop.asim")
    )
    assert "has tasks only when it runs" in fails(capsys, "compile", loop, *CHIP, "--listing", "loop")
