"""Training steps that were captured from PyTorch once, kept as texts of their graphs.

What a zoo trains can be more than a network's structure and an optimiser: heads of a pre-training, dropout,
casts of its own, gradients that are bounded one by one. Such a step is captured from its own code where
PyTorch is (`scripts/make_captured_steps.py`), for one batch size, and read here without it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import parse_text, to_text

SUFFIX = ".txt.gz"
MOST_BYTES = 1 << 26  # of a text
# MindSpore's own casts are in the graph, and so its UB fusion takes the place of CANN's
OPTIONS: Mapping[str, Any] = {
    "precision_mode": "must_keep_origin_dtype",
    "options": {"ub_limits": "MindSpore"},
}


def read_step(path: Path) -> Graph:
    """The graph of a captured step.

    Raises:
        InputError: If the file is none.
        GraphError: If its text is not that of a graph.
    """
    subject, remedy = f"captured step {path.name!r}", "take the file from the project again"
    try:
        with gzip.open(path) as source:
            packed = source.read(MOST_BYTES + 1)
        text = packed.decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(subject, "must be a text in UTF-8, packed by gzip", str(error), remedy) from None
    if len(packed) > MOST_BYTES:
        raise InputError(subject, f"must have at most {MOST_BYTES} bytes", remedy=remedy)
    return parse_text(text)


def pack_step(graph: Graph) -> bytes:
    """What `read_step` reads, without a time of day in it."""
    return gzip.compress(to_text(graph).encode(), mtime=0)
