"""Values are equal to the byte however many threads the library for products has; elsewhere it has as many as
before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np  # noqa: F401 - its library has the threads
import pytest
from threadpoolctl import ThreadpoolController

from ascendsim.core.errors import InputError
from ascendsim.core.threads import CHOICE, fixed_threads

# products of shapes that libraries share out to threads in ways of their own: rows, columns, a single row,
# long sums; float16 on the device, and float32
PROGRAM = """
import hashlib
import numpy as np
import ascendsim as asim

rng = np.random.default_rng(0)

def weight(*shape):
    return (rng.normal(size=shape) / 8).astype(np.float32)

builder = asim.GraphBuilder()
image = builder.input("image", (1, 16, 40, 40))
rows = builder.input("rows", (257, 515))
row = builder.input("row", (1, 2048))
conv = builder.op("Conv", image, weight(48, 16, 3, 3), pads=[1, 1, 1, 1])
builder.output(builder.op("Conv", conv, weight(31, 48, 1, 1)), "maps")
builder.output(builder.op("MatMul", rows, weight(515, 323)), "products")
builder.output(builder.op("MatMul", row, weight(2048, 777)), "one_row")
folded = builder.op("MatMul", weight(200, 1500), weight(1500, 64))  # of constants: by the compiler
builder.output(builder.op("MatMul", builder.op("MatMul", rows, weight(515, 200)), folded), "of_constants")
model = asim.compile(builder.build(), "Ascend310P3")
inputs = {name: rng.normal(size=shape).astype(np.float32)
          for name, shape in {"image": (1, 16, 40, 40), "rows": (257, 515), "row": (1, 2048)}.items()}
digest = hashlib.sha256()
for values in ("device", "float32"):
    outputs = asim.run(model, inputs, values=values).outputs
    for name in sorted(outputs):
        digest.update(outputs[name].tobytes())
print(digest.hexdigest())
"""


def digest(threads: str, **more: str) -> str:
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    environment = free | ({"OPENBLAS_NUM_THREADS": threads} if threads else {}) | more
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_values_are_equal_to_the_byte_with_any_number() -> None:
    assert len({digest(threads) for threads in ("1", "2", "4")}) == 1


@pytest.fixture
def used() -> Iterator[Callable[[], list[int]]]:
    """Tells how many; three at first."""
    found = ThreadpoolController().select(user_api="blas")
    if not found.info():
        pytest.skip("NumPy's library for products has no threads")
    before = found.limit(limits=3)
    yield lambda: [each["num_threads"] for each in found.info()]
    before.restore_original_limits()


def test_there_is_one_thread_inside_and_as_many_as_before_outside(used: Callable[[], list[int]]) -> None:
    @fixed_threads()
    def work() -> list[int]:
        with fixed_threads():
            pass
        return used()

    assert set(work()) == {1}
    assert set(used()) == {3}
    with pytest.raises(KeyError), fixed_threads():
        raise KeyError
    assert set(used()) == {3}


def test_the_last_of_several_python_threads_gives_them_back(used: Callable[[], list[int]]) -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with fixed_threads():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with fixed_threads():
        thread.start()
        entered.wait()
    assert set(used()) == {1}
    leave.set()
    thread.join()
    assert set(used()) == {3}


def test_the_user_may_choose_another_number(
    used: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, "2")
    with fixed_threads():
        assert set(used()) == {2}
    for wrong in ("0", "-1", "two", "1.5", "²", "99999999999999999999"):
        monkeypatch.setenv(CHOICE, wrong)
        with pytest.raises(InputError, match=f"{CHOICE} must be from 1 to 1024"), fixed_threads():
            pass
    assert set(used()) == {3}
