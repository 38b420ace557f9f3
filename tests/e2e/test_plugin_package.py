"""The example plugin, built by pip and installed into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.support.installed import EXAMPLE

ROOT = EXAMPLE.parents[1]
SCRIPT = """
import ascendsim as asim
builder = asim.GraphBuilder("net")
x = builder.input("x", (64, 1024))
builder.output(builder.op("Div", x, builder.op("Sqrt", builder.op("Add", builder.op("Mul", x, x), 1.0))), "y")
result = asim.simulate(asim.compile(builder.build(), soc="Ascend310P3x16", fusion="graph"))
print([row["OP Type"] for row in result.op_summary().records()], result.model.soc.ai_cores)
"""


@pytest.mark.slow
def test_the_example_works_once_it_is_installed_and_is_gone_when_it_is_not(tmp_path: Path) -> None:
    # Everything but the plugin comes from the environment that runs the tests: no network is needed.
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    others = [sysconfig.get_path("purelib"), str(ROOT), str(ROOT / "kernels")]
    (site / "others.pth").write_text("\n".join(others))
    environment = {
        key: value for key, value in os.environ.items() if key not in ("ASCENDSIM_PLUGINS", "PYTHONPATH")
    }
    source = shutil.copytree(EXAMPLE, tmp_path / "source")

    def run(*arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [str(python), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=tmp_path,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def pip(*arguments: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(python), *arguments]
        subprocess.run(command, check=True, capture_output=True, env=environment)

    assert run("-m", "ascendsim", "plugins", "list") == "0 plugins\n"
    pip("install", "--no-index", "--no-deps", "--no-build-isolation", str(source))
    assert run("-c", SCRIPT) == "['Cast', 'Isru', 'Cast'] 16\n"
    listed = run("-m", "ascendsim", "plugins", "list")
    assert "ascendsim_isru::Isru" in listed
    assert "3 plugins" in listed
    pip("uninstall", "--yes", "ascendsim-isru")
    assert run("-m", "ascendsim", "plugins", "list") == "0 plugins\n"
