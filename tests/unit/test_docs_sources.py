"""docs/sources.md: every command runs, every test and page that it names is there."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from ascendsim.cli.main import main
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from tests.support.fusing import build, random
from tests.support.pictures import folder_of

pytestmark = pytest.mark.usefixtures("untimed_tiles")

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")

PROTOTXT = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 16 dim: 9 dim: 9 } } }
layer { name: "y" type: "Interp" bottom: "x" top: "y" interp_param { height: 17 width: 17 } }
"""


def small(b: GraphBuilder) -> Tensor:
    return b.op("Relu", b.op("Conv", b.input("x", (1, 3, 8, 8)), random(16, 3, 3, 3)))


@pytest.mark.usefixtures("unpainted")
def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.onnx").write_bytes(export_onnx(build(small)))
    shutil.copy("tests/data/mindir/lenet.mindir", tmp_path / "net.mindir")
    (tmp_path / "net.prototxt").write_text(PROTOTXT)
    aipp = "aipp_op { aipp_mode: static input_format: RGB888_U8 csc_switch: false }"
    (tmp_path / "aipp.cfg").write_text(aipp)
    (tmp_path / "fusion_switch.cfg").write_text('{"Switch": {"GraphFusion": {"ALL": "off"}}}')
    folder_of(tmp_path / "images", 2, 8, 8)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASCEND_PROCESS_LOG_PATH", str(tmp_path / "logs"))
    commands = re.findall(r"`ascendsim ([^`]*)`", TEXT)
    assert len(commands) > 9
    for command in commands:
        assert main(shlex.split(command)) == 0, command
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {
        "build_up.png",
        "op_statistic_tasks.csv",
        "ai_core_metrics.csv",
        "images.csv",
        "advice.csv",
    }


def test_what_it_points_to_is_there() -> None:
    for name in re.findall(r"`(tests/[^`]*\.py)`", TEXT):
        assert (ROOT / name).is_file(), name
    for page, _, section in (link.partition("#") for link in re.findall(r"\]\(([^)]*)\)", TEXT)):
        titles = re.findall(r"^## (.*)$", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert not section or section in anchors, section
