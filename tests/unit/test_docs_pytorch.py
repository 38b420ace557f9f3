"""docs/pytorch.md: its Python runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.frontends.torch.dynamo import MAX_SHAPES
from ascendsim.torch.running import MAX_RUNS
from tests.support.torch_present import torch_or_skip

torch = torch_or_skip()

PAGE = (Path(__file__).parents[2] / "docs" / "pytorch.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("untimed_tiles")
@pytest.mark.filterwarnings("ignore")
def test_the_python_of_the_page_runs(capsys):
    torch._dynamo.reset()
    if "ascendsim" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(
            asim.torch.backend, name="ascendsim"
        )  # installed without its entry point
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    exec(compile(code, "docs/pytorch.md", "exec"), {})
    printed = capsys.readouterr().out
    assert re.search(r"^forward 1 [\d.]+ us\nbackward 1 [\d.]+ us$", printed, re.MULTILINE)
    assert "(4, 10) ['0/Conv', '1/BatchNormalization']" in printed
    assert re.search(r"^\d+ [\d.]+ us$", printed, re.MULTILINE)
    assert "\n(2, 3)\n" in printed  # steps that were profiled
    assert "\ntorch.Size([4, 2])\n" in printed
    torch._dynamo.reset()


def test_limits_of_the_page_are_those_of_the_code():
    assert f"At most {MAX_SHAPES} sets of shapes of a region and {MAX_RUNS} results are kept" in PAGE
