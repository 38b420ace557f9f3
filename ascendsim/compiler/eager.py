"""Operator by operator: which options of a compilation then change nothing.

A framework that launches each operator as it is called (`schedule="eager"`) sees no graph: nothing is fused,
the graph engine does not run, no stage of fusion has a graph to write. Who asked for any of that is told so.
Options whose wish is granted anyway (`fusion="off"`, `oo_constant_folding=False`) need no word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ascendsim.compiler.options import CompileOptions, default_of

EAGER = "eager"
_FUSED = "operators run one by one, nothing is fused"
_ENGINE = "operators run one by one, the graph engine has no graph"
# option: whether its value asks for something that eager mode does not have, and why it has not
_IDLE: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "fusion": (lambda value: value not in ("off", default_of("fusion")), _FUSED),
    "passes": (bool, _FUSED),
    "graph_kernel_flags": (lambda value: value is not None, _FUSED),
    "save_graphs": (bool, "operators run one by one, fusion has no graph to write"),
    "optimize": (lambda value: not isinstance(value, bool), _ENGINE),
    "oo_level": (lambda value: value != default_of("oo_level"), _ENGINE),
}


def idle_options(options: CompileOptions) -> Iterator[str]:
    """A sentence for each option that eager mode ignores; switches of passes and profile options are told of
    where fusion levels are (`compiler.fusion`).

    Args:
        options: Of a compilation with `schedule="eager"`.
    """
    for name, (asks, why) in _IDLE.items():
        if asks(getattr(options, name)):
            yield f"option {name} has no effect with schedule={EAGER}: {why}"
