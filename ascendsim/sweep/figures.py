"""Which figures of a chip can be moved, and where to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ascendsim.core.errors import InputError, suggest
from ascendsim.soc import ONE_CLOCK, SocSpec, figures_by_key
from ascendsim.soc.schema import Field, field_of

ASSUMED = "assumed"
WHOLE = ".*"  # behind the name of a table whose entries move together
_BLOCK_BYTES = 32  # sizes of buffers are multiples of it
# sizes that are what a unit is built of: three quarters of it is no smaller unit but another one
_STRUCTURE = frozenset({"vector.repeat_bytes"})
_OF_IMAGES = ("ctrl_cpu.", "dvpp.")
_BY_VALUE = "is part of the chip's structure: give values of your own"

Number = int | float


@dataclass(frozen=True)
class Movable:
    """A figure, or a table of them, that can be moved.

    Attributes:
        name: The key; of a table with `WHOLE` behind it.
        figures: Its values by key: one, or those of all entries.
        unit: Of the values.
        assumed: Whether it has no source; a table if one of its entries has none.
        source: Where it comes from.
    """

    name: str
    figures: Mapping[str, Number]
    unit: str
    assumed: bool
    source: str

    @property
    def value(self) -> Number | None:
        """The figure; None of a table whose entries differ."""
        values = set(self.figures.values())
        return values.pop() if len(values) == 1 else None

    def scaled(self, factor: float) -> dict[str, Number]:
        """The values times a factor, at least one unit away where they are whole numbers."""
        return {key: _scaled(field_of(key, ""), value, factor) for key, value in self.figures.items()}


def movable(spec: SocSpec, asked: Sequence[str] | str | None) -> tuple[list[Movable], list[tuple[str, str]]]:
    """Figures that a factor can move, and those that it cannot with the reason.

    Args:
        spec: The chip.
        asked: None = all, "assumed" = those without a source, or keys; the first parts of keys stand for all
            below them ("dram"), but entries of a table that is named whole move together.

    Raises:
        InputError: If a key names nothing.
    """
    found: list[Movable] = []
    left: list[tuple[str, str]] = []
    for each in _candidates(spec, asked):
        reason = _reason(spec, each)
        if reason:
            left.append((each.name, reason))
        elif asked != ASSUMED or each.assumed:
            found.append(each)
    return found, left


def single(spec: SocSpec, key: str) -> Movable:
    """One figure of a chip.

    Raises:
        InputError: If there is no such number.
    """
    figures = figures_by_key(spec)
    value = figures.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        known = [
            name
            for name, each in figures.items()
            if isinstance(each, int | float) and not isinstance(each, bool)
        ]
        raise InputError(f"figure {key}", f"is no number of {spec.name}", remedy=suggest(key, known))
    return Movable(key, {key: value}, field_of(key, "").unit, key in spec.assumed, spec.sources.get(key, ""))


def _candidates(spec: SocSpec, asked: Sequence[str] | str | None) -> Iterator[Movable]:
    """All figures that are asked for, whether they can be moved or not; no texts and no unknown ones."""
    figures = {key: value for key, value in figures_by_key(spec).items() if isinstance(value, int | float)}
    tables: dict[str, dict[str, Number]] = {}
    for key, value in figures.items():
        rule = field_of(key, "")
        tables.setdefault(rule.key + WHOLE if rule.table else key, {})[key] = value
    if asked is None or asked == ASSUMED:
        names = list(tables)
    else:
        wanted = [asked] if isinstance(asked, str) else list(asked)
        names = []
        for each in wanted:
            below = [
                name for name in tables if name.removesuffix(WHOLE) == each or name.startswith(each + ".")
            ]
            if not below and each not in figures:
                raise InputError(
                    f"figure {each}",
                    f"is no number of {spec.name}",
                    remedy=suggest(each, {*tables, *figures, *(key.partition(".")[0] for key in figures)}),
                )
            names += below or [each]
    for name in dict.fromkeys(names):
        held = tables.get(name) or {name: figures[name]}
        sources = dict.fromkeys(spec.sources.get(key, "") for key in held)
        unsure = any(key in spec.assumed for key in held)
        yield Movable(
            name, held, field_of(next(iter(held)), "").unit, unsure, "; ".join(filter(None, sources))
        )


def _reason(spec: SocSpec, each: Movable) -> str:
    """Why a factor cannot move a figure; "" if it can."""
    first = next(iter(each.figures))
    rule = field_of(first, "")
    if rule.kind == "bool":
        return "is a switch"
    if first.startswith(_OF_IMAGES):
        return "matters to images only"
    if each.source.startswith(ONE_CLOCK):
        return "follows frequency_mhz"
    if first in _STRUCTURE or (rule.kind == "int" and not rule.unit):
        return _BY_VALUE
    return "" if any(each.figures.values()) else "is 0"


def _scaled(rule: Field, value: Number, factor: float) -> Number:
    if rule.kind == "float":
        return value * factor
    if rule.key.startswith("buffers.") or rule.key == "l2.size":
        return int(value * factor) // _BLOCK_BYTES * _BLOCK_BYTES
    moved = round(value * factor)
    away = value + (1 if factor > 1 else -1)
    return moved if moved != value or not value else away
