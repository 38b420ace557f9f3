"""The number formats that a model may be held in, and what a number of each takes."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.soc import SocSpec, name_warning

GROUP = 128  # int4 weights of a column that share a scale: what AWQ and GPTQ files have


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How weights of products and what flows between kernels are held.

    Attributes:
        name: "bf16", "fp16", "w8a8" or "w4a16".
        flow: Type between kernels, of norms, tables and the cache.
        weight_bits: Of a weight of a product.
        quantised: Whether products take int8 on both sides, scaled by token and by column.
    """

    name: str
    flow: DType
    weight_bits: int
    quantised: bool = False


FORMATS = {
    form.name: form
    for form in (
        NumberFormat("bf16", DType.BFLOAT16, 16),
        NumberFormat("fp16", DType.FLOAT16, 16),
        NumberFormat("w8a8", DType.BFLOAT16, 8, quantised=True),
        NumberFormat("w4a16", DType.BFLOAT16, 4),
    )
}


def format_named(name: str) -> NumberFormat:
    """One of `FORMATS`.

    Raises:
        InputError: If there is no such format.
    """
    if name not in FORMATS:
        rule = f"must be one of {', '.join(FORMATS)}"
        raise InputError("option dtype", rule, repr(name))
    return FORMATS[name]


def usual_format(soc: SocSpec) -> str:
    """The format in which stacks load a model on a chip unless they are told another: bf16, fp16 where there
    is no bfloat16.
    """
    return "bf16" if DType.BFLOAT16.value in soc.cube.k0 else "fp16"


def on_chip(form: NumberFormat, soc: SocSpec) -> NumberFormat:
    """The format as a chip can have it: quantised models flow in float16 where there is no bfloat16.

    Raises:
        InputError: If the model is held in bfloat16 and the chip has none.
    """
    if form.flow is not DType.BFLOAT16 or soc.has_bfloat16:
        return form
    if form.name == "bf16":
        remedy = "choose dtype 'fp16', 'w8a8' or 'w4a16'"
        if other := name_warning(soc):
            remedy += f", or another chip: {other}"
        raise InputError(f"chip {soc.name}", "has no bfloat16", remedy=remedy)
    return NumberFormat(form.name, DType.FLOAT16, form.weight_bits, form.quantised)
