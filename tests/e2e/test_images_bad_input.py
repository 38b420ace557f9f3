"""What a user can get wrong with images ends in one line and exit code 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.frontends.onnx.export import export_onnx
from tests.e2e.test_bad_input import fails
from tests.support.fusing import build
from tests.support.pictures import file_of, folder_of, smooth


def saved(path: Path, shape: tuple[int, ...]) -> str:
    path.write_bytes(export_onnx(build(lambda b: b.op("Relu", b.input("x", shape)))))
    return str(path)


def test_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good, images = saved(tmp_path / "good.onnx", (2, 3, 8, 8)), folder_of(tmp_path / "images", 3, 8, 8)
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.jpg").write_text("no image")
    (tmp_path / "cut.jpg").write_bytes(file_of(smooth(64, 64), "JPEG")[:400])
    output = tmp_path / "out"
    cases = {
        "nothing.jpg' does not exist": (good, "--images", "nothing.jpg"),
        "holds no image": (good, "--images", f"{tmp_path}/empty"),
        "text.jpg' cannot be read as an image": (good, "--images", f"{tmp_path}/text.jpg"),
        "must fill batches of 2, not 3 images": (good, "--images", str(images)),
        "must have one input [batch, 1 or 3 channels": (
            saved(tmp_path / "rows.onnx", (2, 64)),
            "--images",
            str(images),
        ),
        "cut.jpg' cannot be read as an image": (good, "--batch", "1", "--images", f"{tmp_path}/cut.jpg"),
        "has no known DVPP": (good, "--batch", "1", "--soc_version", "Ascend610", "--images", str(images)),
        "are for images": (good, "--mean", "1"),
        "option mean must have one number": (good, "--batch", "1", "--images", str(images), "--mean", "1,2"),
        "option std must be above 0": (good, "--batch", "1", "--images", str(images), "--std", "0"),
    }
    for message, arguments in cases.items():
        assert message in fails(capsys, "run", *arguments, "--output", str(output)), message
    assert not output.exists() or not any(output.iterdir())


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "must hold an image"),
        ([3], "must be a path, bytes of a file, or an array"),
        (np.zeros((8, 8, 3), np.float32), "must be uint8"),
        (np.zeros((8, 8, 4), np.uint8), "must be uint8"),
        (np.zeros((0, 8, 3), np.uint8), "must have pixels"),
        (b"", "cannot be read as an image"),
    ],
)
def test_in_python(images: object, message: str) -> None:
    model = asim.compile(build(lambda b: b.op("Relu", b.input("x", (1, 3, 8, 8)))), "Ascend310")
    with pytest.raises(InputError, match=message):
        asim.run(model, images=images)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        asim.simulate(model, images=images)  # type: ignore[arg-type]


def test_with_options_that_do_not_go_with_them() -> None:
    model = asim.compile(build(lambda b: b.op("Relu", b.input("x", (1, 3, 8, 8)))), "Ascend310")
    with pytest.raises(InputError, match="goes with none of"):
        asim.simulate(model, images=[smooth(8, 8)], devices=2)
    with pytest.raises(InputError, match="option fit"):
        asim.run(model, images=[smooth(8, 8)], fit="cut")  # type: ignore[arg-type]
