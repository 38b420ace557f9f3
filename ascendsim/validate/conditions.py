"""Under which conditions a published row was measured, as settings of a compilation."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.passes.levers import LEVERS, LeverContext, apply_lever

# READMEs of "310P" are older than those that call the same chip 310P3: 2022, CANN 5.1 where they say it
VERSIONS: Mapping[str, str] = {"310P": "5.1"}
# What scripts of READMEs do to the ONNX file, as levers; others (onnxsim, fix_onnx.py) make of it what the
# structures here are from the start, or are not known. Every fix_onnx.py of a BERT restores its attention;
# in graphs without one the lever finds nothing
REWRITES: Mapping[str, str] = {
    "opt_vit.py": "pad-tokens",
    "fix_softmax.py": "softmax-axis",
    "fix_onnx.py": "attention-pattern",
}
UNKNOWN = "unknown"
_FORMS = ("op_select_implmode", "optypelist_for_implmode")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is known of a measurement beside chip, network and batch.

    Attributes:
        cann: Version of CANN; "" = the newest.
        settings: Further arguments of `compile`, by name.
        levers: Rewrites of the model before it, by name.
        known: Whether the README that prints the figure says it.
    """

    cann: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    levers: tuple[str, ...] = ()
    known: bool = False

    @classmethod
    def of(cls, row: Mapping[str, str]) -> Conditions:
        """Those of a row of `measured_models.csv`.

        Options that name a file are left out, since no such file is published with its table; the row's own
        column says whether images went through AIPP.
        """
        options = dict(_options(row["options"]))
        scripts = row["scripts"].split()
        return cls(
            row["cann"] or VERSIONS.get(row["soc"], ""),
            tuple([(name, options[name]) for name in _FORMS if name in options and _FORMS[1] in options]),
            tuple([REWRITES[script] for script in scripts if script in REWRITES]),
            row["options"] != UNKNOWN,
        )

    def rewritten(self, graph: Graph) -> Graph:
        """The model as it was compiled."""
        context = LeverContext(default_opset())
        for lever in LEVERS:
            if lever.name in self.levers:
                graph = apply_lever(graph, lever, context).graph
        return graph

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `compile`."""
        return {**dict(self.settings), **({"cann": self.cann} if self.cann else {})}


UNSAID = Conditions()


def _options(text: str) -> list[tuple[str, str]]:
    """ATC's options of a text, by name without dashes."""
    pairs = [item[2:].partition("=") for item in shlex.split(text) if item.startswith("--")]
    return [(name, value) for name, _, value in pairs]
