"""Why a fusion pass cannot be closed by a switch file.

CANN names the passes and gives no reason for one alone: hicann/ge (fusion_pass_util.h) has the lists, and its
introduction to fusion says that closing some passes may break what a network does. What would break is read
off what each kind of pass does (inferred).
"""

from __future__ import annotations

from ascendsim.passes.fusion.catalogue import PassFact

_LISTS = {
    "no": "on CANN's list of passes that must not be closed",
    "risky": "on CANN's list of passes that only --optimization_switch closes",
}
_SOURCE = "hicann/ge, fusion_pass_util.h"
_QUANTISED = (
    "quantised networks need it: scales, offsets and int8 weights reach the Cube by a chain of passes, each "
    "of which works on what the one before it made; without one of them the network computes something else "
    "or has operators without a kernel"
)
_PARTS = (
    "an operator of CANN takes 63 addresses: with more parts there is no kernel, so it is cut into a tree"
)
_FORM = (
    "the operator has no kernel in the form in which files give it; the pass writes it as operators or "
    "attributes that have one"
)
_HARDWARE = "later stages rely on what it writes: formats, memory that is written in place, paths of the chip"
_PATTERN = "other passes and kernels look for the operator that it makes"


def closes_by(fact: PassFact) -> str:
    """What closes a pass, and where nothing of a user's file does, why.

    Args:
        fact: Of the catalogue.
    """
    if fact.switchable == "flag":
        return "MindSpore opens and closes its passes together (options ub_limits)"
    if fact.switchable == "yes":
        return "switch file or --optimization_switch"
    why = f"{_LISTS[fact.switchable]} ({_SOURCE}); inferred: {_because(fact)}"
    return f"--optimization_switch {fact.name}:off only, since it is {why}"


def _because(fact: PassFact) -> str:
    name = fact.name
    if fact.phase in ("quant", "isa", "tf-merge-sub", "prepare") or "uant" in name or name.startswith("Tf"):
        return _QUANTISED
    if name.startswith(("ZConcat", "ZSplit", "Pack", "Unpack")):
        return _PARTS
    if fact.family == "ub" or fact.phase or name in _LATE:
        return _HARDWARE
    several = fact.is_rule or "<-(" in fact.pattern or " + " in fact.pattern
    return _PATTERN if several else _FORM


_LATE = frozenset({"CastRemoveFusionPass", "HostShapeOptimizationPass", "CommonSubexpressionEliminationPass"})
