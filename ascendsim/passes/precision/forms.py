"""ATC's options that choose between the forms of CANN's kernels: high precision or high performance.

--op_select_implmode and --optypelist_for_implmode name one form and the operator types that take it;
--op_precision_mode is a file with a line for each type, `Gelu=high_performance`, under [ByOpType] if there
are sections. The two *_for_all modes are for every operator that has two forms. Without a list of types the
plain modes change only what a file of CANN lists, which is none of the operators that have two forms here
(ATC documentation, CANN 8.0; canndev, tbe/impl: the default stands in each kernel's signature).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Union

from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import path_option
from ascendsim.opset import OpSet
from ascendsim.passes.precision.lists import list_text

PRECISION, PERFORMANCE = "high_precision", "high_performance"
FOR_ALL = "_for_all"
MODES = (PRECISION, PERFORMANCE, PRECISION + FOR_ALL, PERFORMANCE + FOR_ALL)
TypeList = Union[str, Sequence[str], None]
ModeFile = Union[str, PathLike[str], Mapping[str, str], None]
_BY_TYPE = "[ByOpType]"


def forms_of(mode: str | None, types: TypeList, file: ModeFile, opset: OpSet) -> dict[str, str]:
    """The forms that options choose, by CANN's operator type.

    Args:
        mode: --op_select_implmode.
        types: --optypelist_for_implmode: names, or a text with commas between them.
        file: --op_precision_mode: a file, or what stands in it.
        opset: Operators.

    Raises:
        InputError: If a mode or a type is not known, or options do not go together.
    """
    if mode is not None and mode not in MODES:
        raise InputError(
            "option op_select_implmode",
            f"must be one of {', '.join(MODES)}",
            repr(mode),
            suggest(mode, MODES),
        )
    if types is not None and mode not in (PRECISION, PERFORMANCE):
        rule = f"goes with op_select_implmode {PRECISION} or {PERFORMANCE}"
        raise InputError("option optypelist_for_implmode", rule, repr(mode))
    if file is not None and mode is not None:
        raise InputError("options op_precision_mode and op_select_implmode", "exclude each other")
    if file is not None:
        return dict(_lines(file, opset))
    if mode is None:
        return {}
    if mode.endswith(FOR_ALL):
        return {item.cann or item.name: mode.removesuffix(FOR_ALL) for item in opset if item.facts.two_forms}
    names = types.split(",") if isinstance(types, str) else types or ()
    option = "optypelist_for_implmode"
    return {_type(name.strip(), opset, option): mode for name in names if name.strip()}


def _lines(file: str | PathLike[str] | Mapping[str, str], opset: OpSet) -> Iterable[tuple[str, str]]:
    option = "op_precision_mode"
    pairs = list(file.items()) if isinstance(file, Mapping) else []
    if not isinstance(file, Mapping):
        for line in (line.strip() for line in list_text(path_option(option, file), option).splitlines()):
            if line.startswith("[") and line != _BY_TYPE:
                remedy = f"list operator types under {_BY_TYPE}"
                raise InputError(f"option {option}", f"takes section {_BY_TYPE} only", repr(line), remedy)
            if line and line[0] not in "#;[":
                name, _, value = line.partition("=")
                pairs.append((name.strip(), value.strip()))
    for name, value in pairs:
        if value not in (PRECISION, PERFORMANCE):
            rule = f"must be {PRECISION} or {PERFORMANCE}"
            raise InputError(
                f"option {option}: {name}", rule, repr(value), suggest(value, (PRECISION, PERFORMANCE))
            )
        yield _type(name, opset, option), value


def _type(name: str, opset: OpSet, option: str) -> str:
    """CANN's name of an operator type."""
    known = {alias: item.cann or item.name for item in opset for alias in (item.name, item.cann) if alias}
    if name not in known:
        raise InputError(
            f"option {option}: operator type {name!r}", "is not known", None, suggest(name, known)
        )
    return known[name]
