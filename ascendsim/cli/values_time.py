"""Says when computing values took longer than all else that a command did."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ascendsim.core.stopwatch import on_values

LEAST_S = 3.0  # what is shorter is not worth a line


@contextmanager
def values_told() -> Iterator[None]:
    """Around the work of a command: one line on standard error if most of its time went into values."""
    begun, before = time.perf_counter(), on_values.seconds
    yield
    line = values_line(on_values.seconds - before, time.perf_counter() - begun)
    if line:
        print(line, file=sys.stderr)


def values_line(values_s: float, whole_s: float) -> str:
    """The line; "" where values took little, or less than the rest.

    Args:
        values_s: Seconds spent on values.
        whole_s: Seconds in all.
    """
    if values_s < LEAST_S or 2 * values_s < whole_s:
        return ""
    return (
        f"computing values took {values_s:.1f} of {whole_s:.1f} s; --values off leaves them out, "
        "device times stay the same"
    )
