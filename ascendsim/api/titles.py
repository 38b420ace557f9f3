"""Titles of networks: the file's name where a graph has none of its own.

Exporters give every graph the same name, so that pictures and tables of two networks could not be told apart.
"""

from __future__ import annotations

import re
from pathlib import Path

from ascendsim.graph.ir import Graph

# what exporters write: PyTorch since 2.0, 1.x, tf2onnx, Keras, paddle2onnx, MXNet, scikit-learn (a hash), and
# names that say nothing, with the numbers that some of them count by
_GENERIC = re.compile(
    r"(main|torch|onnx|tf|tensorflow|keras|functional|sequential|mxnet|paddle|pytorch|kernel|converted|jit|export|"
    r"model|graph|net|network|module|surgeon|subgraph|inference|default|untitled|unnamed|[0-9 _.:/-])*|"
    r"[0-9a-f]{32}|model from .*|.*paddlepaddle.*",
    re.IGNORECASE,
)


def is_generic(name: str) -> bool:
    """Whether a graph's name is none, or one that an exporter gives to every graph.

    >>> [is_generic(name) for name in ("main_graph", "torch-jit-export", "Model from PaddlePaddle.", "")]
    [True, True, True, True]
    >>> [is_generic(name) for name in ("resnet18", "yolov8n", "lenet5", "bert_base_s128", "netG")]
    [False, False, False, False, False]
    """
    return _GENERIC.fullmatch(name.strip()) is not None


def title_by_file(graph: Graph, source: object) -> None:
    """Gives a graph whose own name says nothing the name of the file that it came from.

    Args:
        graph: As it was read.
        source: What it was read from; nothing happens if that is no path.
    """
    if isinstance(source, (str, Path)) and is_generic(graph.name) and Path(source).stem:
        graph.name = Path(source).stem
