"""Speed of kernels of the user's own on one thread, as lines for docs/kernels_results.md.

    python -m benchmarks.kernels

CPU time of this process, the best of some runs with everything loaded and compiled: neighbours on the machine
count little. The launch for its time alone comes first, so that the memory that is shown is its own.
"""

from __future__ import annotations

import importlib
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ascendsim as asim
from ascendsim import asc
from ascendsim.tile.evaluate import Evaluator

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "kernels"
CALLS = 20_000


def timed(work: Callable[[], Any], runs: int = 3) -> float:
    """CPU seconds of the quickest run."""
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


@asc.jit
def again(x: asc.GlobalAddress, call: Any, times: int) -> None:
    """Copies 512 elements in, calls with two tensors of 256 again and again, and copies one out."""
    gm = asc.GlobalTensor()
    gm.set_global_buffer(x)
    a, b = (asc.LocalTensor(x.dtype, asc.TPosition.VECCALC, 1024 * at, 256) for at in range(2))
    asc.data_copy(a, gm, 256)
    asc.data_copy(b, gm[256:], 256)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    for _ in range(times):
        call(a, b)
    asc.pipe_barrier(asc.PipeID.PIPE_ALL)
    asc.data_copy(gm, a, 256)


SMALL: dict[str, Callable[[Any, Any], None]] = {
    "add, 64 lanes by count": lambda a, b: asc.add(a, a, b, 64),
    "add, 64 lanes by mask": lambda a, b: asc.add(a, a, b, 64, 1, asc.BinaryRepeatParams(1, 1, 1, 8, 8, 8)),
    "exp, 64 lanes": lambda a, b: asc.exp(a, b, 64),
    "brcb": lambda a, b: asc.brcb(a, b, 1, asc.BrcbRepeatParams(1, 8)),
    "whole_reduce_sum": lambda a, b: asc.whole_reduce_sum(a, b, 64, 1, 1, 1, 8),
    "block_reduce_sum": lambda a, b: asc.block_reduce_sum(a, b, 1, 64, 1, 1, 8),
}


def evaluation(call: Callable[[Any, Any], None], dtype: str) -> float:
    """Microseconds of evaluating one instruction, in a kernel of very many of them."""
    plain, spent = Evaluator.run, [0.0]

    def run(self: Evaluator, rows: Any, values: Any) -> None:
        start = time.process_time()
        plain(self, rows, values)
        spent[0] += time.process_time() - start

    best = float("inf")
    Evaluator.run = run  # type: ignore[method-assign]
    try:
        for _ in range(4):
            spent[0] = 0.0
            asim.run_kernel(again, 1, np.ones(512, dtype), call, CALLS)
            best = min(best, spent[0] / CALLS * 1e6)
    finally:
        Evaluator.run = plain  # type: ignore[method-assign]
    return best


def main() -> None:
    """Prints one line a measurement."""
    sys.path.insert(0, str(EXAMPLES))
    add, matmul, rows = (importlib.import_module(name) for name in ("add", "matmul", "rows"))
    products = importlib.import_module("published.products")
    numbers = np.random.default_rng(0)

    alone = next(row for row in products.rows() if row.number == 35)
    spent = timed(alone.predict, 1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say("time alone, matmul 8192 x 8192 x 8192 on 24 cores", f"{spent:.1f} s, {memory:,.0f} MB", "30 s, 1 GB")

    a, c = numbers.standard_normal((1024, 1024)).astype(np.float16), np.zeros((1024, 1024), np.float32)
    spent = timed(lambda: asim.run_kernel(matmul.matmul, 8, a, a, c, 1024, 1024))
    say("matmul 1024 x 1024 x 1024, float16, all checks", f"{spent:.2f} s", "0.5 s")

    x = numbers.standard_normal((1024, 4096)).astype(np.float32)
    y = np.zeros_like(x)
    spent = timed(lambda: asim.run_kernel(rows.softmax, 8, x, y, 1024, 4096))
    assert np.allclose(y.sum(1), 1, atol=1e-4), "all rows have been made"
    say("softmax 1024 x 4096, float32", f"{spent:.2f} s", "0.25 s")

    x = numbers.standard_normal((8192, 8192)).astype(np.float16)
    z = np.zeros_like(x)
    spent = timed(lambda: asim.run_kernel(add.add_queues, 32, x, x, z, x.size // 32, 8192), 2)
    assert np.array_equal(z[::97], 2 * x[::97]), "all of it has been added"
    say("add 8192 x 8192, float16", f"{spent:.2f} s", "1.5 s")

    for name, call in SMALL.items():
        each = [evaluation(call, dtype) for dtype in ("float32", "float16")]
        say(f"evaluating one {name}", " / ".join(f"{one:.2f}" for one in each) + " us", "0.3 us")

    one = np.ones(512, np.float32)
    spent = timed(lambda: asim.run_kernel(again, 1, one, SMALL["add, 64 lanes by mask"], CALLS, values=False))
    say("recording, re-rolling and timing one call", f"{spent / CALLS * 1e6:.1f} us", "10 us")


def say(what: str, found: str, target: str) -> None:
    """One line of the page's table."""
    print(f"| {what} | {found} | {target} |", flush=True)


if __name__ == "__main__":
    main()
