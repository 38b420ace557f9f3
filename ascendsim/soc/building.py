"""From figures to a `SocSpec`: overrides applied, gaps noted, rules checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, SocError, suggest
from ascendsim.core.hints import hints_of
from ascendsim.core.units import parse_number, parse_size
from ascendsim.soc.figures import ChipFile, Figure
from ascendsim.soc.schema import Field, Value, check_type, field_of, needed_keys, schema
from ascendsim.soc.spec import EVEN_PRODUCTS, OVERFLOW_MODES, SocSpec

_USER = "set by the user"
ONE_CLOCK = "one clock: "  # how the source of a vector unit's clock begins where it is that of the core
_ACCUMULATOR_BYTES = 4  # float32 or int32 in L0C
_DTYPES = tuple(dtype.value for dtype in DType)


def build_spec(chip: ChipFile, overrides: Mapping[str, str | int | float], where: str) -> SocSpec:
    """Makes the spec of a chip.

    Args:
        chip: What the files say.
        overrides: New values by dotted key, as text ("16MiB") or number.
        where: Names the chip or its file in errors.

    Raises:
        SocError: If an override has an unknown key or a wrong value, or the figures break a rule.
    """
    figures = dict(chip.figures)
    for key, given in overrides.items():
        figures[key] = Figure(checked_override(key, given), _USER)
    if "vector_frequency_mhz" not in figures and "frequency_mhz" in figures:
        clock = figures["frequency_mhz"]
        figures["vector_frequency_mhz"] = replace(clock, source=f"{ONE_CLOCK}{clock.source}")
    split = figures.get("split_cores", Figure(False)).value is True
    missing = tuple(_gaps(figures, split))
    records = {
        "sources": {
            key: figure.source
            for key, figure in figures.items()
            if figure.value is not None and figure.source
        },
        "fitted_on": {
            key: figure.fitted_on
            for key, figure in figures.items()
            if figure.value is not None and figure.fitted_on
        },
        "assumed": frozenset(
            key for key, figure in figures.items() if figure.assumed and figure.value is not None
        ),
        "overrides": {key: str(given) for key, given in overrides.items()},
        "missing": missing,
    }
    values = {key: figure.value for key, figure in figures.items() if figure.value is not None}
    spec: SocSpec = _build(SocSpec, "", values, records)
    _check(spec, where)
    return spec


def checked_override(key: str, given: str | int | float) -> Value:
    """The value that a user gives a figure, whatever the chip, in the figure's type.

    Raises:
        SocError: If there is no such key, it cannot be set, or the value breaks a rule of the key.
    """
    where = "override"
    rule = field_of(key, where)
    if rule.kind in ("str", "strings"):
        remedy = "only numbers and switches can; write a chip file that extends the chip"
        raise SocError(f"{where}: key {key}", "cannot be set", remedy=remedy)
    value: Any = given
    if isinstance(given, str):
        value = _parse(given, rule, f"{where}: key {key}")
    return check_type(value, rule, where, key)


def _parse(text: str, rule: Field, subject: str) -> bool | int | float:
    try:
        if rule.kind == "bool":
            if text.lower() not in ("true", "false"):
                raise SocError(subject, "must be true or false", repr(text))
            return text.lower() == "true"
        return parse_size(text, subject) if rule.unit == "B" else parse_number(text, subject)
    except InputError as error:  # a chip's number: same words, the chip's kind of error
        raise SocError(error.subject, error.rule, error.actual, error.remedy) from None


def _gaps(figures: Mapping[str, Figure], split: bool) -> list[str]:
    gaps = []
    for key in needed_keys(split):
        figure = figures.get(key)
        if figure is None or figure.value is None:
            gaps.append(f"{key} ({figure.source})" if figure is not None and figure.source else key)
    return gaps


def _build(owner: type, prefix: str, values: Mapping[str, Value], records: Mapping[str, Any]) -> Any:
    """Fills a dataclass; an unknown number reads 0 (its key is in `missing`), an unknown optional one
    None.
    """
    hints = hints_of(owner)
    filled: dict[str, Any] = {}
    for field in fields(owner):
        key = prefix + field.name
        if key in records:
            filled[field.name] = records[key]
        elif is_dataclass(hints[field.name]):
            filled[field.name] = _build(hints[field.name], key + ".", values, records)
        else:
            rule = schema()[key]
            if rule.table:
                filled[field.name] = {
                    name[len(key) + 1 :]: value
                    for name, value in values.items()
                    if name.startswith(key + ".")
                }
            else:
                empty = (
                    None
                    if rule.optional
                    else {"int": 0, "float": 0.0, "bool": False, "str": "", "strings": ()}[rule.kind]
                )
                filled[field.name] = values.get(key, empty)
    return owner(**filled)


def _check(spec: SocSpec, where: str) -> None:
    """Rules that join several figures; those of a single figure are in `schema.check_type`."""
    for key in ("name", "generation"):
        if not getattr(spec, key):
            raise SocError(f"{where}: key {key}", "is missing")
    if spec.split_cores and not spec.vector_cores:
        raise SocError(
            f"{where}: key vector_cores", "must be above 0 on a chip whose cube and vector cores are apart", 0
        )
    shares = {
        "dram.unaligned_efficiency": spec.dram.unaligned_efficiency,
        "dma.ragged_efficiency": spec.dma.ragged_efficiency,
        "ports.load3d_least_l0a": spec.ports.load3d_least_l0a,
        "ports.load3d_least_l0b": spec.ports.load3d_least_l0b,
    }
    for key, share in shares.items():
        if share > 1:
            raise SocError(f"{where}: key {key}", "must not be above 1", share)
    for mode in spec.arithmetic.overflow:
        if mode not in OVERFLOW_MODES:
            words, remedy = " or ".join(map(repr, OVERFLOW_MODES)), suggest(mode, OVERFLOW_MODES)
            raise SocError(f"{where}: key arithmetic.overflow", f"must name {words}", repr(mode), remedy)
    rule = spec.kernels.even_products
    if rule not in EVEN_PRODUCTS:
        words = ", ".join(map(repr, EVEN_PRODUCTS))
        remedy = suggest(rule, EVEN_PRODUCTS)
        raise SocError(f"{where}: key kernels.even_products", f"must be one of {words}", repr(rule), remedy)
    for key, dtypes in _dtype_names(spec):
        for dtype in dtypes:
            if dtype not in _DTYPES:
                raise SocError(
                    f"{where}: key {key}", "must name element types", repr(dtype), suggest(dtype, _DTYPES)
                )
    for dtype in spec.cube.cycles_per_block:
        if dtype not in spec.cube.k0:
            raise SocError(
                f"{where}: key cube.k0.{dtype}",
                "is missing",
                remedy=f"cube.cycles_per_block.{dtype} needs it",
            )
        _check_tile(spec, dtype, where)
    if spec.buffers.ub is not None and spec.buffers.ub < spec.vector.repeat_bytes:
        rule = f"must hold one repeat of the vector unit ({spec.vector.repeat_bytes} B)"
        raise SocError(f"{where}: key buffers.ub", rule, f"{spec.buffers.ub} B")


def _dtype_names(spec: SocSpec) -> Iterator[tuple[str, Iterable[str]]]:
    yield "cube.k0", spec.cube.k0
    yield "cube.cycles_per_block", spec.cube.cycles_per_block
    for name, dtypes in spec.vector.intrinsics.items():
        yield f"vector.intrinsics.{name}", dtypes


def _check_tile(spec: SocSpec, dtype: str, where: str) -> None:
    cube, size = spec.cube, DType.of(dtype).itemsize
    needs = {
        "l0a": (spec.buffers.l0a, cube.m0 * cube.k0[dtype] * size),
        "l0b": (spec.buffers.l0b, cube.k0[dtype] * cube.n0 * size),
        "l0c": (spec.buffers.l0c, cube.m0 * cube.n0 * _ACCUMULATOR_BYTES),
    }
    for name, (available, needed) in needs.items():
        if available is not None and available < needed:
            raise SocError(
                f"{where}: key buffers.{name}",
                f"must hold one {dtype} block of the Cube ({needed} B)",
                f"{available} B",
            )
