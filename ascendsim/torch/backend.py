"""The back end that torch.compile finds under the name "ascendsim"."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from inspect import signature
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ascendsim.api.compiling import compile
from ascendsim.core.arguments import chip_by_its_name_here
from ascendsim.core.errors import InputError, OptionWarning, suggest
from ascendsim.frontends.torch.dynamo import compile_for
from ascendsim.frontends.torch.whole_calls import ATTENTION, is_flash
from ascendsim.ops import opset_with
from ascendsim.soc import SocSpec, load, name_warning
from ascendsim.torch.running import VALUES, Simulated, clear_runs

FALLBACKS = ("error", "host")
_KNOWN = (
    "values",
    "fallback",
    "attention",
    *(name for name in signature(compile).parameters if name != "graph"),
)
_DEFAULTS = {"soc": "Ascend910A"}


def backend(
    module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **modes: Any
) -> Any:
    """Compiles a region that Dynamo captured.

    Args:
        module: The region, a `torch.fx.GraphModule`.
        example_inputs: Fake tensors.
        options: Those of `ascendsim.compile` (`soc` is "Ascend910A" by default, `precision_mode` as torch_npu
            has it for the chip, see `precision_of`), and `values`: "float32" (default), "device" or "off"
            (shapes only); `fallback`: "error" (default), or "host" to run operators without a converter in
            PyTorch; `attention`: "formula" (default), or "flash" for CANN's FlashAttentionScore.
        **modes: Of torch.compile; `mode` is refused.

    Raises:
        InputError: If an option is unknown or has no such value.
        UnsupportedOperatorError: Lists all operators without a converter.
    """
    return compiled(module, example_inputs, options or {}, modes)


def compiled(
    module: Any,
    example_inputs: Sequence[Any],
    options: Mapping[str, Any],
    modes: Mapping[str, Any],
    dumps: Mapping[str, Path | None] = MappingProxyType({}),
) -> Any:
    """`backend`, and folders for files about each graph: "graph_dump", "fx_summary"."""
    if modes.get("mode") not in (None, "default"):
        raise InputError("option mode", "belongs to other back ends", modes["mode"], "pass options={...}")
    given = {**_DEFAULTS, **chip_by_its_name_here(compile, (), options)}
    values = _choice(given.pop("values", VALUES[0]), "values", VALUES)
    fallback = _choice(given.pop("fallback", FALLBACKS[0]), "fallback", FALLBACKS)
    flash = is_flash(given.pop("attention", ATTENTION[0]))
    for name in given:
        if name not in _KNOWN:
            raise InputError(f"option {name}", "does not exist", remedy=suggest(name, _KNOWN))
    given.setdefault("precision_mode", precision_of(given["soc"]))
    if not isinstance(given["soc"], SocSpec) and (text := name_warning(load(given["soc"]))):
        warnings.warn(text, OptionWarning, stacklevel=2)
    return compile_for(
        module,
        example_inputs,
        opset=opset_with(given.get("operators", ())),
        chip=Simulated(given, values, dumps),
        host=fallback == "host",
        flash=flash,
    )


def precision_of(soc: str | PathLike[str] | SocSpec) -> str:
    """The precision mode that torch_npu sets for a chip (NpuSysCtrl.cpp): allow_fp32_to_fp16 before
    Ascend910B1, must_keep_origin_dtype from there on, whose Cube takes float32.

    Args:
        soc: The chip, as for `ascendsim.compile`.

    Raises:
        SocError: If there is no such chip.
    """
    chip = soc if isinstance(soc, SocSpec) else load(soc)
    return "must_keep_origin_dtype" if "float32" in chip.cube.cycles_per_block else "allow_fp32_to_fp16"


def _choice(value: Any, name: str, known: Sequence[str]) -> str:
    if value not in known:
        raise InputError(
            f"option {name}", "must be one of its values", repr(value), suggest(str(value), known)
        )
    return str(value)


backend.reset = clear_runs  # type: ignore[attr-defined]  # torch._dynamo.reset() calls it
