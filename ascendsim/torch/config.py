"""torchair's `CompilerConfig`, as far as there is something behind its options here."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendsim.compiler.options import OO_LEVELS
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.frontends.torch.gears import mark_gears
from ascendsim.torch.backend import compiled
from ascendsim.torch.running import clear_runs

_PATH, _TEXT, _NUMBER = "a path", "text", "a whole number from 1 on"
_TRUTH = (True, False)


@dataclass(frozen=True, slots=True)
class _Option:
    """An option that exists.

    Attributes:
        values: Those that it may have, or what kind of thing they are.
        default: As in torchair.
        field: The option of `ascendsim.compile` that it is; "" for those of the back end.
    """

    values: Sequence[Any] | str
    default: Any = None
    field: str = ""


_OPTIONS: Mapping[str, _Option] = {
    "mode": _Option(("max-autotune",), "max-autotune"),
    "fusion_config.fusion_switch_file": _Option(_PATH, None, "fusion_switch_file"),
    "ge_config.oo_level": _Option(OO_LEVELS, "O3", "oo_level"),
    "ge_config.optimization_switch": _Option(_TEXT, None, "optimization_switch"),
    "ge_config.aicore_num": _Option(_NUMBER, None, "aicore_num"),
    "ge_config.enable_single_stream": _Option(_TRUTH, False, "enable_single_stream"),
    "ge_config.oo_constant_folding": _Option(_TRUTH, True, "oo_constant_folding"),
    "ge_config.oo_dead_code_elimination": _Option(_TRUTH, True, "oo_dead_code_elimination"),
    "debug.graph_dump.type": _Option(("txt",)),
    "debug.graph_dump.path": _Option(_PATH),
    "debug.fx_summary.type": _Option(("csv",)),
    "debug.fx_summary.path": _Option(_PATH),
    "debug.run_eagerly": _Option(_TRUTH, False),
}
# what torchair has besides: refused as not modelled, not as unknown
_ELSEWHERE = (
    "aclgraph_config",
    "aoe_config",
    "debug.aclgraph",
    "debug.data_dump",
    "debug.fx_summary.skip_compile",
    "dump_config",
    "experimental_config",
    "export",
    "ge_config.export_compile_stat",
    "inference_config",
)


class Section:
    """Options that share the front of their names; they are set as attributes, and checked at once."""

    def __init__(self, path: str, values: dict[str, Any]) -> None:
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_values", values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # Python's own questions, when it copies
        path = self._below(name)
        if path in self._values:
            return self._values[path]
        if any(known.startswith(f"{path}.") for known in _OPTIONS):
            return Section(path, self._values)
        raise self._unknown(path)

    def __setattr__(self, name: str, value: Any) -> None:
        path = self._below(name)
        if path not in _OPTIONS:
            raise self._unknown(path)
        self._values[path] = _checked(path, value)

    def __dir__(self) -> list[str]:
        front = f"{self._path}." if self._path else ""
        return sorted({path.removeprefix(front).partition(".")[0] for path in self._inside()})

    def __repr__(self) -> str:
        set_ = {path: value for path, value in self._values.items() if value != _OPTIONS[path].default}
        return f"{type(self).__name__}({self._path or 'torchair'}: {set_})"

    def _below(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _inside(self) -> list[str]:
        return [path for path in _OPTIONS if path.startswith(f"{self._path}." if self._path else "")]

    def _unknown(self, path: str) -> InputError:
        if any(path == one or path.startswith(f"{one}.") for one in _ELSEWHERE):
            return InputError(f"option {path}", "is torchair's, and not modelled", remedy="leave it out")
        inside = Section(path, self._values)._inside()
        if inside:
            return InputError(f"option {path}", "has options of its own", remedy=f"set {inside[0]}")
        sections = {known.rpartition(".")[0] for known in _OPTIONS} - {""}
        return InputError(f"option {path}", "does not exist", remedy=suggest(path, (*_OPTIONS, *sections)))


class CompilerConfig(Section):
    """torchair's configuration: set options as attributes and give it to `get_npu_backend`.

    >>> config = CompilerConfig()
    >>> config.ge_config.oo_level = "O1"
    >>> config.ge_config.oo_level
    'O1'
    """

    def __init__(self) -> None:
        super().__init__("", {path: option.default for path, option in _OPTIONS.items()})

    def compile_options(self) -> dict[str, Any]:
        """What of it `ascendsim.compile` takes, where it is not the default."""
        return {
            option.field: self._values[path]
            for path, option in _OPTIONS.items()
            if option.field and self._values[path] != option.default
        }

    def dump_path(self, name: str) -> Path | None:
        """The folder that "graph_dump" or "fx_summary" writes into; None if it is not asked for."""
        if self._values[f"debug.{name}.type"] is None:
            return None
        return Path(self._values[f"debug.{name}.path"] or ".")


def _checked(path: str, value: Any) -> Any:
    """The value as it is kept.

    Raises:
        InputError: If the option cannot have it.
    """
    option = _OPTIONS[path]
    if value is None and option.default is None:
        return None
    if not isinstance(option.values, str):
        if not any(type(value) is type(known) and value == known for known in option.values):
            rule = f"must be {' or '.join(map(repr, option.values))}"
            raise InputError(f"option {path}", rule, repr(value))
        return value
    if option.values == _NUMBER and isinstance(value, str) and value.isdecimal():
        value = int(value)  # as torchair's users write it
    right = {
        _PATH: lambda: isinstance(value, (str, os.PathLike)),
        _TEXT: lambda: isinstance(value, str),
        _NUMBER: lambda: type(value) is int and value > 0,
    }
    if not right[option.values]():
        raise InputError(f"option {path}", f"must be {option.values}", repr(value))
    return value


@checked()
def get_npu_backend(compiler_config: CompilerConfig | None = None) -> Callable[..., Any]:
    """A back end for `torch.compile` with torchair's configuration.

    `torch.compile(model, backend=get_npu_backend(compiler_config=config), options={"soc": "Ascend910B2"})`;
    an option that is given there too is stronger than the configuration.

    Args:
        compiler_config: As it is when a region is compiled; torchair's defaults without one.
    """
    config = compiler_config or CompilerConfig()

    def npu(
        module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **modes: Any
    ) -> Any:
        if config.debug.run_eagerly:
            return module.forward
        given = {**config.compile_options(), **dict(options or {})}
        dumps = {name: config.dump_path(name) for name in ("graph_dump", "fx_summary")}
        return compiled(module, example_inputs, given, modes, dumps)

    npu.reset = clear_runs  # type: ignore[attr-defined]  # torch._dynamo.reset() calls it
    return npu


@checked(dim_gears="write {0: [1, 4, 8]}")
def set_dim_gears(t: Any, dim_gears: Mapping[int, Sequence[int]]) -> None:
    """Says which sizes dimensions of an input of a compiled model may have, as torchair does.

    The model is captured once with these dimensions open, compiled once for each gear that comes, and refuses
    all other sizes.

    Args:
        t: The tensor that the model is going to be called with first.
        dim_gears: Sizes by dimension.

    Raises:
        InputError: If the tensor has no such dimension, or its size is not among the gears.
    """
    mark_gears(t, dim_gears)
