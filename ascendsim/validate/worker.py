"""Processes that work on rows of measurements until there are no more."""

from __future__ import annotations

import gc
from signal import SIG_IGN, SIGINT, signal

from ascendsim.core.collection import no_collection_at_exit


def start_worker() -> None:
    """Sets up such a process: interrupts are left to the calling one, and the collector of cyclic garbage,
    which walks all that the process remembers for what little a row leaves behind, is off.
    """
    signal(SIGINT, SIG_IGN)
    gc.disable()
    no_collection_at_exit()
