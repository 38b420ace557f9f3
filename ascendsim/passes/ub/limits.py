"""How much UB fusion may put into one task. The sources disagree, so the numbers are profiles.

    profile    behind conv  elementwise  reduce            segment           automatic
    Ascend310  3            5 nodes      4 elementwise     4 elementwise     -
    MindSpore  3            2..6 nodes   3 before, 1..3    3 before, 1..3    -
    documents  5            6 nodes      1 + 5, 5 or 1..5  3 before, 1..3    28 nodes

Sources: the tuning guide of Ascend 310; MindSpore 1.0.1 .. 1.3.0; FE rule reference 8.0 .. 9.0.

Documents: the patterns behind a convolution are a matter of each pass, five repeats are FE's default; segment
operators are not described, MindSpore's numbers stand in (assumed); the automatic pass takes 28 nodes in code
and the document of 8.0, 29 in that of 9.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from ascendsim.core.errors import InputError, suggest

# Chips for which the rule reference lists no pass that joins product and bias though it lists other passes of
# products: the Atlas inference products. Of Ascend310 and 910 it says nothing.
BIAS_APART = frozenset({"Ascend310P"})
MOST = 64  # no limit may be larger: names of tasks and the search for patterns stay in bounds


@dataclass(frozen=True, slots=True)
class UbLimits:
    """Numbers of one profile.

    Attributes:
        name: Of the profile.
        conv_elementwise: Elementwise operators behind a convolution.
        elementwise: Nodes of an elementwise chain.
        reduce_before, reduce_after, reduce_all: Elementwise operators before, behind and in all around one
            reduction.
        segment_before, segment_after, segment_all: The same around a segment operator.
        automatic: Nodes of a scope of the automatic pass; 0 = the profile does not have the pass.
        readers: Readers that a tensor inside such a scope may have.
        summands: Inputs that AddN may have there.
        bias_apart: Whether a bias is none of a batched product's own inputs but an operator behind it; see
            `cann_passes`.
        conv_one_input: Whether elementwise operators behind a convolution have one input and one output, as
            the tuning guide of Ascend 310 has it; constants are no inputs.
    """

    name: str
    conv_elementwise: int
    elementwise: int
    reduce_before: int
    reduce_after: int
    reduce_all: int
    segment_before: int
    segment_after: int
    segment_all: int
    automatic: int = 0
    readers: int = 6
    summands: int = 6
    bias_apart: bool = False
    conv_one_input: bool = False

    @property
    def mindspore(self) -> bool:
        """Whether MindSpore's passes run in place of CANN's."""
        return self.name == "MindSpore"


PROFILES: dict[str, UbLimits] = {
    "Ascend310": UbLimits("Ascend310", 3, 5, 4, 4, 4, 4, 4, 4),
    "MindSpore": UbLimits("MindSpore", 3, 6, 3, 3, 6, 3, 3, 6),
    "documents": UbLimits("documents", 5, 6, 6, 5, 11, 3, 3, 6, automatic=28),
}


def limits_of(soc: str, profile: str | None = None, changes: Mapping[str, int] | None = None) -> UbLimits:
    """The limits for a chip.

    Args:
        soc: Short name of the chip ("Ascend310", "Ascend310P" ...).
        profile: Name of a profile; by default "Ascend310" on that chip and "documents" on all others.
        changes: Other numbers by name of the limit.

    Raises:
        InputError: If there is no such profile or limit, or a number is out of bounds.

    >>> limits_of("Ascend310").elementwise, limits_of("Ascend310P", changes={"elementwise": 3}).elementwise
    (5, 3)
    """
    name = profile if profile is not None else "Ascend310" if soc == "Ascend310" else "documents"
    if name not in PROFILES:
        raise InputError(
            "option ub_profile",
            f"must be one of {', '.join(PROFILES)}",
            repr(name),
            suggest(str(name), PROFILES),
        )
    numbers = {field.name for field in fields(UbLimits)} - {"name", "bias_apart", "conv_one_input"}
    for key, value in (changes or {}).items():
        if key not in numbers:
            raise InputError(
                f"option ub_limits: {key}", "is no limit of UB fusion", remedy=suggest(str(key), numbers)
            )
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST:
            remedy = "to fuse nothing of a kind, switch its passes off"
            raise InputError(
                f"option ub_limits: {key}", f"must be a whole number from 1 to {MOST}", repr(value), remedy
            )
    limits = PROFILES[name]
    for key, value in (changes or {}).items():
        limits = replace(limits, **{key: value})  # type: ignore[arg-type]
    return replace(
        limits,
        reduce_before=min(limits.reduce_before, limits.reduce_all),
        reduce_after=min(limits.reduce_after, limits.reduce_all),
        segment_before=min(limits.segment_before, limits.segment_all),
        segment_after=min(limits.segment_after, limits.segment_all),
        bias_apart=soc in BIAS_APART and not limits.mindspore,
    )
