"""What the arithmetic of a run did to its numbers: how large they became, operator by operator, and where a
type could not hold them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ascendsim.core.table import GENERAL, Table

Kind = Literal["overflow", "infinite", "saturated", "flushed", "digits"]

# of chips, and modes, in which results beyond float16 become its last number
_SATURATED = {
    "overflow": "overflows {dtype} ({largest} > {limit}), {count} of {elements} values saturate to {limit}",
    "infinite": "saturates {count} of {elements} values, infinite or undefined of finite ones (NaN is 0)",
}
_SAID = {
    "overflow": "overflows {dtype} ({largest} > {limit})",
    "infinite": "makes {count} infinite or undefined values of finite ones",
    "saturated": "saturates {count} values of {elements} ({largest} > {limit})",
    "flushed": "flushes {count} values of {elements} to zero in {dtype}",
    "digits": "loses digits of {count} integers of {elements} ({largest} > {limit}, the end of whole numbers "
    "in {dtype})",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """An operator whose result does not fit its type.

    Attributes:
        name: Of the operator.
        op_type: Of the operator.
        kind: "overflow": finite inputs, a result beyond the type. "infinite": finite inputs, a result that is
            infinite or undefined in float32 too (0 / 0, log 0). "saturated": cut to the end of the type by a
            cast to integers, or as a weight or an input came in.
            "flushed": too small for the type, so zero. "digits": whole numbers that the type cannot tell
            apart.
        dtype: The type of the result.
        largest: The largest magnitude that should have been stored.
        limit: What the type holds.
        count: Elements that do not fit.
        elements: Of the result.
        after: Operators after it whose results are not finite for its sake.
        outputs: Outputs of the network that are not finite for its sake.
        sources: Names that the operator has in the user's model; several where it stands for several.
        saturates: Whether what does not fit became the last number of the type, and NaN 0, as on chips with
            saturation mode: nothing after it then shows what happened.
    """

    name: str
    op_type: str
    kind: Kind
    dtype: str
    largest: float
    limit: float
    count: int
    elements: int
    after: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    saturates: bool = False

    def __str__(self) -> str:
        texts = {**_SAID, **_SATURATED} if self.saturates else _SAID
        said = texts[self.kind].format(
            dtype=self.dtype,
            largest=number(self.largest),
            limit=number(self.limit),
            count=f"{self.count:,}",
            elements=f"{self.elements:,}",
        )
        text = f"{self.op_type} {self.name} {said}"
        if self.after:
            are = "operator after it is" if len(self.after) == 1 else "operators after it are"
            text += f", {len(self.after)} {are} not finite"
        if self.kind in ("overflow", "infinite") and not self.outputs and not self.saturates:
            text += " (no output shows it)"
        return text


@dataclass(frozen=True, slots=True)
class Range:
    """How large an operator's results became.

    Attributes:
        name, op_type, dtype: The operator and the type of its result.
        largest: Largest magnitude; infinite or NaN where it left the type.
        limit: The largest number of the type.
    """

    name: str
    op_type: str
    dtype: str
    largest: float
    limit: float


@dataclass(frozen=True)
class Numerics:
    """What a run with values saw.

    Attributes:
        ranges: By operator, in order of execution.
        findings: What did not fit, in order of execution.
    """

    ranges: tuple[Range, ...] = ()
    findings: tuple[Finding, ...] = field(default=())

    @property
    def overflows(self) -> tuple[Finding, ...]:
        """Operators that made infinite or undefined values of finite ones, or saturated them, in order of
        execution.
        """
        return tuple(item for item in self.findings if item.kind in ("overflow", "infinite"))

    @property
    def table(self) -> Table:
        """A row for each operator: its largest magnitude against its type, what happened, how often, and
        whether that reached an output.
        """
        found: dict[str, list[Finding]] = {}
        for item in self.findings:
            found.setdefault(item.name, []).append(item)
        rows = []
        for held in self.ranges:
            own = found.pop(held.name, [])
            largest = max([held.largest, *(item.largest for item in own)], key=_rank)
            rows.append((held.name, held.op_type, held.dtype, largest, held.limit, *_told(own)))
        for name, own in found.items():  # results that are no floats: casts to integers, weights
            item = own[0]
            rows.append((name, item.op_type, item.dtype, item.largest, item.limit, *_told(own)))
        return Table("numerics", _COLUMNS, tuple(rows), {"Largest": GENERAL, "Limit": GENERAL})

    def __str__(self) -> str:
        """One line: the first overflow, or how many findings of other kinds there are."""
        if self.overflows:
            first, others = self.overflows[0], len(self.overflows) - 1
            return str(first) + (f"; {others} more overflow" + "s" * (others == 1) if others else "")
        kinds = {kind: [item for item in self.findings if item.kind == kind] for kind in _SAID}
        told = [
            str(items[0]) + (f" ({len(items) - 1} more such)" if len(items) > 1 else "")
            for items in kinds.values()
            if items
        ]
        return "; ".join(told) or "every result fits its type"

    def __repr__(self) -> str:
        return f"Numerics({len(self.ranges)} operators, {len(self.overflows)} overflows: {self})"

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


_COLUMNS = (
    "Name", "Type", "Data type", "Largest", "Limit", "Finding", "Count", "Not finite after", "Reaches output",
)  # fmt: skip


def _told(items: list[Finding]) -> tuple[str | None, int | None, int | None, str | None]:
    """Cells of a row about what was found."""
    if not items:
        return None, None, None, None
    worst = next((item for item in items if item.kind in ("overflow", "infinite")), items[0])
    return (
        ", ".join(dict.fromkeys(item.kind for item in items)),
        sum(item.count for item in items),
        len(worst.after),
        None if worst.saturates else "yes" if worst.outputs else "no",
    )


def _rank(value: float) -> float:
    """Orders finite numbers above infinity and NaN, so that the number which should have been is shown."""
    return value if abs(value) < float("inf") else -1.0


def number(value: float) -> str:
    """A magnitude as a sentence has it.

    >>> number(116631.2), number(3.4e38), number(0.25)
    ('116,631', '3.4e+38', '0.25')
    """
    return f"{value:,.0f}" if 1000 <= value < 1e12 else f"{value:.3g}"
