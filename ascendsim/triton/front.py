"""Compiles one Triton kernel in a process of its own: the script that runs with the compilers' folder on its
path and knows nothing of the simulator.

    python front.py JOB.json

The job names the file of the kernel, its arguments and the chip; beside it come `module.mlir`, what the
compiler hands to the step that would make machine code, and `result.json` with the names of the parameters
that are arguments of that module, or with the stage and the text of what failed. All stages and options are
the ones of the compiler's own backend.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


class Pointer:
    """An array as the compiler sees it: an element type and an address that is a multiple of 16."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype

    @staticmethod
    def data_ptr() -> int:
        return 0


def _argument(given: dict[str, Any], triton_language: Any) -> Any:
    kind = given["kind"]
    if kind == "array":
        return Pointer(given["dtype"])
    if kind == "dtype":
        return getattr(triton_language, given["name"])
    return given["value"]


def _compile(job: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the JIT does at a launch, up to the machine code."""
    import triton
    from triton.backends import backends
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    arch = job["arch"]

    class Utilities:
        def get_arch(self) -> str:
            return str(arch)

        def get_aicore_num(self) -> int:
            return int(job["cores"])

        def get_aivector_core_num(self) -> int:
            return int(job["vector_cores"])

    class Driver:
        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int | None = None) -> int:
            return 0

        def get_current_target(self) -> Any:
            return GPUTarget("npu", arch, 0)

    # the backend is loaded under a name of its own: its functions know the module by their globals
    backends["ascend"].compiler.add_stages.__globals__["NPUUtils"] = Utilities
    driver.set_active(Driver())
    spec = importlib.util.spec_from_file_location("kernel_source", job["source"])
    assert spec is not None
    assert spec.loader is not None
    source = importlib.util.module_from_spec(spec)
    sys.modules["kernel_source"] = source
    spec.loader.exec_module(source)
    kernel = getattr(source, job["kernel"])
    arguments = {name: _argument(one, triton.language) for name, one in job["arguments"].items()}
    options = job["options"]
    compiled = kernel.run(grid=(1,), warmup=True, **arguments, **options)
    (folder / "module.mlir").write_bytes(compiled.asm["npubin"])
    constants = {name if isinstance(name, str) else kernel.arg_names[name] for name in compiled.src.constants}
    return {
        "parameters": [name for name in kernel.arg_names if name not in constants],
        "mix_mode": compiled.metadata.mix_mode,
        "name": compiled.metadata.kernel_name,
    }


def _failed(error: Exception) -> dict[str, str]:
    """The stage that failed and what it said."""
    if isinstance(error, subprocess.CalledProcessError):
        stage = Path(error.cmd[0]).name
        text = (error.stderr or b"").decode(errors="replace")
        said = [line for line in text.splitlines() if "error:" in line] or text.strip().splitlines()[-3:]
        return {"stage": stage, "message": " ".join(said) or f"ended with {error.returncode}"}
    return {"stage": "triton", "message": f"{type(error).__name__}: {error}"}


def main(path: str) -> None:
    """Does the job of a file."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    folder = Path(path).parent
    try:
        result = _compile(job, folder)
    except Exception as error:
        result = {"error": _failed(error)}
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
