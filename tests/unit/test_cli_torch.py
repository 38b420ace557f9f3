"""`ascendsim torch ops`, and what `ascendsim train` refuses before it loads a model."""

from __future__ import annotations

import re
import sys

import pytest

from ascendsim.cli.main import main
from ascendsim.frontends.torch.table import CONVERTERS
from tests.support.torch_present import torch_or_skip


def test_the_table_has_every_converter_once(capsys):
    assert main(["torch", "ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{len(CONVERTERS)} operators"
    rows = [line.split() for line in lines[2:-1]]
    assert len({name for name, _ in rows}) == len(CONVERTERS)
    assert ["aten.add.Tensor", "elementwise.binary"] in rows
    assert ["prims.fma.default", "updates.fma"] in rows
    assert all(re.fullmatch(r"[a-z_]+\.[a-z_0-9]+", converter) for _, converter in rows)


NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.layer(x)).sum() {rest}

def make():
    return Net(), torch.eye(3)

def broken():
    return 1 / 0
"""


@pytest.fixture
def net(tmp_path, monkeypatch):
    torch_or_skip()
    monkeypatch.chdir(tmp_path)
    names = set(sys.modules)
    yield lambda name, rest="": (tmp_path / f"{name}.py").write_text(NET.format(rest=rest))
    for name in set(sys.modules) - names:
        if name.startswith("cli_torch_"):
            del sys.modules[name]


@pytest.mark.filterwarnings("ignore")
def test_what_a_model_lacks_is_named_with_its_line(net, capsys):
    net("cli_torch_lacks", "+ torch.linalg.det(self.layer.weight)")
    assert main(["torch", "ops", "cli_torch_lacks.py:make"]) == 1
    lines = capsys.readouterr().out.splitlines()
    missing = [line.split()[:4] for line in lines if " MISSING " in line]
    assert ["aten._linalg_det.default", "forward", "1", "MISSING"] in missing
    assert {graph for _, graph, *_ in missing} == {"forward", "backward"}
    assert lines[2].split()[3] == "MISSING"  # they come first
    assert "cli_torch_lacks.py:10, return" in lines[2]  # what does not fit goes on in the next line
    known = [line.split()[:4] for line in lines if line.startswith("aten.threshold_backward")]
    assert known == [["aten.threshold_backward.default", "backward", "1", "yes"]]
    assert lines[-1].endswith(f" operators, {len({name for name, *_ in missing})} without a converter")


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_lacks_nothing(net, capsys):
    net("cli_torch_whole")
    assert main(["torch", "ops", "cli_torch_whole:make"]) == 0
    assert capsys.readouterr().out.endswith(" 0 without a converter\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cli_torch_wrong", "argument 'cli_torch_wrong' must be MODULE:FUNCTION"),
        ("absent.py:make", "names a file that does not exist: absent.py"),
        ("absent_module:make", "cannot be run: ModuleNotFoundError: No module named 'absent_module'"),
        ("cli_torch_wrong:nothing", "cannot be run: AttributeError"),
        ("cli_torch_wrong:broken", "cannot be run: ZeroDivisionError"),
        ("cli_torch_wrong:Net", "must return a module and its inputs, not Net"),
    ],
)
def test_functions_that_give_no_model_are_refused(net, name, message, capsys):
    net("cli_torch_wrong")
    path = list(sys.path)
    assert main(["torch", "ops", name]) == 2
    assert message in capsys.readouterr().err
    assert sys.path == path


def test_a_server_wants_several_devices(capsys):
    assert main(["train", "absent.onnx", "--server", "Atlas 800 9000"]) == 2
    assert "option server is for several devices; say how many: --devices 8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--soc_version", "Ascend910A"], "option devices needs a server"),
        (["--soc_version", "Ascend910A", "--server", "Atlas 9"], "'Atlas 9'"),
        (["--soc_version", "Ascend310P3", "--server", "Atlas 800 9000"], "must have chips of the model"),
    ],
)
def test_devices_are_checked_before_the_model_is_loaded(options, message, capsys):
    assert main(["train", "absent.onnx", "--devices", "8", *options]) == 2
    assert message in capsys.readouterr().err
