"""How long a process has spent on values, for commands that say what their time went into."""

from __future__ import annotations

import time
from types import TracebackType


class Stopwatch:
    """Adds up the wall time inside of its blocks, those inside of others once.

    Attributes:
        seconds: So far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0
        self._begun = 0.0

    def __enter__(self) -> Stopwatch:
        if not self._depth:
            self._begun = time.perf_counter()
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self.seconds += time.perf_counter() - self._begun


on_values = Stopwatch()
"""Of the process: what `asim.run` computes arrays for."""
