"""From the source of a Triton kernel to the module that the vendor's compiler makes of it, and its cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendsim.compiler.tiling_store import cache_folder
from ascendsim.core.errors import CompileError
from ascendsim.soc.spec import SocSpec
from ascendsim.triton.kit import COMPILER, VERSIONS

FRONT = Path(__file__).with_name("front.py")
SECONDS = 600  # that a compilation may take
# In place of the step that makes machine code: it keeps the module that it is handed.
STAND_IN = """#!/bin/sh
case "$*" in *--version*) echo "hivmc 1.2.0 (8796a8ac1508 2026-09-01)"; exit 0;; esac
while [ $# -gt 0 ]; do
  case "$1" in
    -o) out="$2"; shift;;
    -*) ;;
    *) [ -n "$in" ] || in="$1";;
  esac
  shift
done
cp "$in" "$out.o"
"""


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel.

    Attributes:
        module: File of the module.
        parameters: Parameters of the kernel that are arguments of the module, in order.
        kept: Whether it came from the cache.
    """

    module: Path
    parameters: tuple[str, ...]
    kept: bool


def compiled(
    source: str,
    kernel: str,
    arguments: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Any],
    soc: SocSpec,
    *,
    kit: Path,
    scratch: Path,
) -> Compiled:
    """Compiles a kernel, or takes it from the cache.

    Args:
        source: Text of a module that holds the kernel and what it needs.
        kernel: Its name there.
        arguments: Of each parameter what the compiler sees of the argument.
        options: The compiler's options, as a launch has them.
        soc: The chip.
        kit: Folder of the compilers.
        scratch: Folder for what is not kept.

    Raises:
        CompileError: A stage of the compilers failed; says which, and what it said.
    """
    job = {
        "kernel": kernel,
        "arguments": arguments,
        "options": options,
        "arch": soc.name,
        "cores": soc.ai_cores,
        "vector_cores": soc.vector_cores,
    }
    text = json.dumps([job, source, VERSIONS, FRONT.read_text(encoding="utf-8"), STAND_IN], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    cache = cache_folder()
    kept = None if cache is None else cache / "triton" / key
    if kept is not None:
        found = _kept(kept)
        if found is not None:
            return found
    folder = scratch / "compile"
    result = _front({**job, "source": str(folder / "source.py")}, source, folder, kit)
    if "error" in result:
        raise _failed(kernel, result["error"])
    if kept is not None:
        _keep(folder, kept, result)
    return Compiled(folder / "module.mlir", tuple(result["parameters"]), False)


def _kept(folder: Path) -> Compiled | None:
    try:
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        content = (folder / "module.mlir").read_bytes()
    except (OSError, ValueError):
        return None
    if hashlib.sha256(content).hexdigest() != result.get("sum"):
        return None
    return Compiled(folder / "module.mlir", tuple(result["parameters"]), True)


def _keep(folder: Path, kept: Path, result: Mapping[str, Any]) -> None:
    """Puts a module into the cache; a disk that takes no more stops nothing."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as temporary:
            part = Path(temporary) / "part"
            part.mkdir()
            content = (folder / "module.mlir").read_bytes()
            (part / "module.mlir").write_bytes(content)
            noted = {**result, "sum": hashlib.sha256(content).hexdigest()}
            (part / "result.json").write_text(json.dumps(noted), encoding="utf-8")
            shutil.rmtree(kept, ignore_errors=True)
            part.rename(kept)
    except OSError:
        return


def _front(job: Mapping[str, Any], source: str, folder: Path, kit: Path) -> dict[str, Any]:
    """Runs the script of the compilers' own process."""
    bin_folder, temporary = folder / "bin", folder / "tmp"
    for one in (bin_folder, temporary):
        one.mkdir(parents=True)
    stand_in = bin_folder / "hivmc"
    stand_in.write_text(STAND_IN, encoding="utf-8")
    stand_in.chmod(0o755)
    (folder / "source.py").write_text(source, encoding="utf-8")
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    path = os.pathsep.join([str(bin_folder), str((kit / COMPILER).parent), os.environ.get("PATH", "")])
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TRITON_INTERPRET")},
        "PYTHONPATH": str(kit),
        "PATH": path,
        "TMPDIR": str(temporary),
        "TRITON_CACHE_DIR": str(folder / "cache"),
    }
    command = [sys.executable, "-P", str(FRONT), str(folder / "job.json")]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
        )
        result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except subprocess.TimeoutExpired:
        return {"error": {"stage": "triton", "message": f"takes more than {SECONDS} seconds"}}
    except (OSError, ValueError):
        said = done.stderr.strip().splitlines()[-1:] or [f"ended with {done.returncode}"]
        return {"error": {"stage": "triton", "message": said[0]}}
    return result


_STAGE = re.compile(r"\[(\w+)\] encounters error:\s*(.*?)(?:\[INFO\]|///|$)", re.DOTALL)


def _failed(kernel: str, error: Mapping[str, str]) -> CompileError:
    """What the compilers said, in one line."""
    stage, message = error["stage"], error["message"]
    wrapped = _STAGE.search(message)
    if wrapped is not None:
        stage, message = wrapped[1], wrapped[2]
    complaints = re.findall(r"error: (.*)", message)
    text = " ".join(" ".join(complaints[:3] or [message]).split())
    return CompileError(f"Triton kernel {kernel!r}", f"does not compile (stage {stage}): {text[:600]}")
