"""`graph_kernel_flags`: the switches of graph-kernel fusion, in MindSpore's form ("--opt_level=2
--disable_expand_ops=Softmax").

opt_level                 0 nothing, 1 basic and composite stage, 2 expanders too (default), 3 stitching too
enable_stitch_fusion      composites with reductions grow without limit (on from opt_level 3)
enable_expand_ops         these operators are expanded too; _only: no others; disable_expand_ops: not these
enable_cluster_ops        these operators may join composites too; _only: no others; disable_cluster_ops: not
                          these
enable_pass, disable_pass stages by name: expander, basic, composite
cluster_limit             most operators of a composite
dump_as_text              dumps are also written as text
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Union

from ascendsim.core.errors import InputError, suggest
from ascendsim.opset import OpSet
from ascendsim.passes.graph_kernel.expanders import expandable
from ascendsim.passes.graph_kernel.lists import EXPANDER_RELEASE, NEVER_GROWN, operators

STAGES = ("expander", "basic", "composite")
Flags = Union[str, Mapping[str, Any], None]
_LISTS = (
    "enable_expand_ops",
    "enable_expand_ops_only",
    "disable_expand_ops",
    "enable_cluster_ops",
    "enable_cluster_ops_only",
    "disable_cluster_ops",
    "enable_pass",
    "disable_pass",
)
_SWITCHES = ("enable_stitch_fusion", "dump_as_text")
_NUMBERS = ("opt_level", "cluster_limit")
# Known to MindSpore, about what this simulator has no second form of: kernels side by side, recomputation in
# training
_WITHOUT_EFFECT = ("enable_parallel_fusion", "enable_recompute_fusion")
# What a user may let join a composite: elementwise operators and reductions, under MindSpore's names
_MORE = frozenset({"Sigmoid", "ReLU", "Select", "Greater"})
_CLUSTERABLE = (
    operators("basic")
    | operators("composite")
    | operators("reduce")
    | operators("cluster", EXPANDER_RELEASE)
    | _MORE
)


@dataclass(frozen=True, slots=True)
class GraphKernelFlags:
    """The flags, checked; sets hold MindSpore's operator names.

    Attributes:
        expand: Operators that are expanded.
        basic, composite: Operators that the two stages join.
        stitch: Whether composites with reductions grow without limit.
        limit: Most operators of a composite; 0 = no limit.
        stages: Stages that run.
        warnings: Flags that are known and have no effect here.
    """

    opt_level: int = 2
    expand: frozenset[str] = frozenset()
    basic: frozenset[str] = frozenset()
    composite: frozenset[str] = frozenset()
    stitch: bool = False
    limit: int = 0
    stages: tuple[str, ...] = STAGES
    dump_as_text: bool = False
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, opset: OpSet, flags: Flags = None) -> GraphKernelFlags:
        """Reads flags from text or a mapping.

        Args:
            opset: Says which operators can be expanded.
            flags: Text or mapping.

        Raises:
            InputError: If a flag, an operator or a stage is unknown, or a value is not valid.
        """
        given = _parsed(flags)
        level = int(given.get("opt_level", 2))
        if not 0 <= level <= 3:
            raise InputError("graph_kernel_flags: opt_level", "must be 0, 1, 2 or 3", level)
        supported = expandable(opset)
        expand = _changed(operators("expander", EXPANDER_RELEASE) & supported, given, "expand_ops", supported)
        basic = _changed(operators("basic"), given, "cluster_ops", _CLUSTERABLE)
        composite = _changed(operators("composite"), given, "cluster_ops", _CLUSTERABLE)
        chosen = {0: (), 1: ("basic", "composite")}.get(level, STAGES)
        on, off = given.get("enable_pass", frozenset()), given.get("disable_pass", frozenset())
        for name in sorted(on | off):
            if name not in STAGES:
                raise InputError(
                    "graph_kernel_flags: pass",
                    f"must be one of {', '.join(STAGES)}",
                    repr(name),
                    suggest(name, STAGES),
                )
        stages = tuple(name for name in STAGES if (name in chosen or name in on) and name not in off)
        limit = int(given.get("cluster_limit", 0))
        if limit < 0 or (limit == 0 and "cluster_limit" in given):
            raise InputError(
                "graph_kernel_flags: cluster_limit", "must be a positive number of operators", limit
            )
        warnings = tuple(
            f"graph_kernel_flags: {name} has no effect here" for name in _WITHOUT_EFFECT if given.get(name)
        )
        result = cls(
            level,
            expand,
            basic,
            composite,
            bool(given.get("enable_stitch_fusion", level == 3)),
            limit,
            stages,
        )
        return replace(result, dump_as_text=bool(given.get("dump_as_text", False)), warnings=warnings)

    def grows(self, name: str) -> bool:
        """Whether a composite of this name may take more operators in."""
        return name.rstrip("_") not in NEVER_GROWN


def _changed(
    default: frozenset[str], given: Mapping[str, Any], kind: str, known: frozenset[str]
) -> frozenset[str]:
    """A list after enable_, enable_.._only and disable_."""
    only, more, less = (
        given.get(key) for key in (f"enable_{kind}_only", f"enable_{kind}", f"disable_{kind}")
    )
    for name in sorted((only or frozenset()) | (more or frozenset()) | (less or frozenset())):
        if name not in known:
            raise InputError(
                f"graph_kernel_flags: operator {name!r}",
                f"is not known to {kind}",
                remedy=suggest(name, known),
            )
    return ((only if only is not None else default) | (more or frozenset())) - (less or frozenset())


def _parsed(flags: Flags) -> dict[str, Any]:
    if flags is None:
        return {}
    if isinstance(flags, str):
        pairs: dict[str, Any] = {}
        for word in flags.split():
            name, _, value = word.removeprefix("--").partition("=")
            if not word.startswith("--") or name in pairs:
                raise InputError(
                    "graph_kernel_flags", "must be words --flag=value, each flag once", repr(word)
                )
            pairs[name] = value or True
        flags = pairs
    known = (*_LISTS, *_SWITCHES, *_NUMBERS, *_WITHOUT_EFFECT)
    result: dict[str, Any] = {}
    if not isinstance(flags, Mapping):
        raise InputError("graph_kernel_flags", "must be text or a mapping", type(flags).__name__)
    for name, value in flags.items():
        if name not in known:
            raise InputError(f"graph_kernel_flags: {name!r}", "is no flag", remedy=suggest(str(name), known))
        result[name] = _value(name, value)
    return result


def _value(name: str, value: Any) -> Any:
    if name in _LISTS:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, (list, tuple, set, frozenset)) or not all(
            isinstance(item, str) for item in items
        ):
            raise InputError(f"graph_kernel_flags: {name}", "must be names joined by commas", repr(value))
        return frozenset(item.strip() for item in items if item.strip())
    if name in _NUMBERS:
        try:
            if isinstance(value, bool):
                raise ValueError
            return int(value)
        except (TypeError, ValueError):
            raise InputError(f"graph_kernel_flags: {name}", "must be a whole number", repr(value)) from None
    text = str(value).lower()
    if text not in ("true", "false", "1", "0", "on", "off"):
        raise InputError(f"graph_kernel_flags: {name}", "must be true or false", repr(value))
    return text in ("true", "1", "on")
