"""Scripts with Triton kernels as they are: `import triton` where none is installed, and launches
`kernel[grid](...)` that go to the simulated chip.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import Any

from ascendsim.api.kernels import KernelResult
from ascendsim.soc import SocSpec
from ascendsim.triton.kit import compilers
from ascendsim.triton.launch import run_triton


def provide(folder: str | PathLike[str] | None = None) -> None:
    """Lets `import triton` find the vendor's, if no other one is installed.

    Args:
        folder: Where the compilers are, if not in their own place.

    Raises:
        InputError: They are not there.
    """
    if "triton" not in sys.modules and find_spec("triton") is None:
        sys.path.append(str(compilers(None if folder is None else Path(folder))))


@contextmanager
def simulated(
    soc: str | PathLike[str] | SocSpec = "Ascend910B1", *, values: bool = True
) -> Iterator[list[KernelResult]]:
    """Within the block, `kernel[grid](...)` of Triton runs on the simulated chip.

    Args:
        soc: The chip, as in `run_triton`.
        values: Whether values are computed.

    Yields:
        The results, one a launch, in order.
    """
    provide()
    kind: Any = import_module("triton.runtime.jit").JITFunction
    results: list[KernelResult] = []

    def run(kernel: Any, *args: Any, grid: Any, warmup: bool = False, **named: Any) -> KernelResult | None:
        if warmup:
            return None
        results.append(run_triton((kernel, grid), *args, soc=soc, values=values, **named))
        return results[-1]

    before = kind.run
    kind.run = run
    try:
        yield results
    finally:
        kind.run = before
