"""What the PyTorch front end refuses, and in which words."""

from __future__ import annotations

import re
import subprocess
import sys
import types

import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError, UnsupportedOperatorError
from ascendsim.frontends.torch.requirement import require_torch


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # what makes an import fail
    with pytest.raises(InputError, match=r'PyTorch cannot be imported .*; pip install "ascendsim\[torch\]"'):
        require_torch()


def test_an_old_torch_is_refused(monkeypatch):
    old = types.ModuleType("torch")
    old.__version__ = "2.8.1+cpu"
    monkeypatch.setitem(sys.modules, "torch", old)
    with pytest.raises(
        InputError, match=r"PyTorch must be of version 2.9 or newer, not 2.8.1\+cpu; pip install"
    ):
        require_torch()


def test_importing_the_front_end_does_not_import_torch():
    program = (
        "import sys, ascendsim; ascendsim.torch.last_runs(); ascendsim.from_torch; "
        "import ascendsim.frontends.torch.joint; sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.filterwarnings("ignore")
def test_modules_and_inputs_are_checked():
    torch = pytest.importorskip("torch", reason="PyTorch is absent: see tests/requirements-torch.txt")
    linear = torch.nn.Linear(2, 2)
    cases = [
        (linear.double(), torch.ones(1, 2), "tensor 'weight' of the module must be of a type .* not float64"),
        (torch.nn.Identity(), torch.ones(2, dtype=torch.complex64), r"example input .* not complex64"),
        (torch.nn.Identity(), torch.ones(2).to_sparse(), r"example input .* must be dense"),
        (
            torch.nn.Identity(),
            torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
            r"example input .* must not be quantised",
        ),
        (lambda x: x, torch.ones(2), "argument module must be a Module, not function"),
        (torch.nn.Identity(), 3.0, "argument example_inputs must be a tensor, a sequence or a dictionary"),
    ]
    for module, inputs, message in cases:
        with pytest.raises(InputError, match=message):
            asim.from_torch(module, inputs)


@pytest.mark.filterwarnings("ignore")
def test_what_depends_on_values_names_its_line():
    torch = pytest.importorskip("torch", reason="PyTorch is absent: see tests/requirements-torch.txt")

    class Asks(torch.nn.Module):
        def forward(self, x):
            return x * 2 if x.sum().item() > 0 else x

    with pytest.raises(InputError, match="module Asks cannot be captured.*torch.compile") as caught:
        asim.from_torch(Asks(), torch.ones(2))
    line = "return x * 2 if x.sum().item() > 0 else x"
    assert re.search(r" at test_torch_errors.py:\d+, " + re.escape(line), str(caught.value))


@pytest.mark.filterwarnings("ignore")
def test_all_operators_without_a_converter_are_listed():
    torch = pytest.importorskip("torch", reason="PyTorch is absent: see tests/requirements-torch.txt")

    class Rare(torch.nn.Module):
        def forward(self, x):
            y = torch.linalg.det(x) + torch.linalg.det(x + 1)
            return y + torch.special.bessel_j0(x).sum()

    with pytest.raises(UnsupportedOperatorError) as caught:
        asim.from_torch(Rare(), torch.eye(3))
    names = [name for name, _ in caught.value.operators]
    assert names.count("aten._linalg_det.default") + names.count("aten.linalg_det.default") == 2
    assert names.count("aten.special_bessel_j0.default") == 1
    text = str(caught.value)
    assert "det.default (2 x, test_torch_errors.py:" in text
    assert "y = torch.linalg.det(x) + torch.linalg.det(x + 1)" in text
