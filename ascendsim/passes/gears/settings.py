"""ATC's options --dynamic_batch_size, --dynamic_image_size and --dynamic_dims: syntax, limits, and what they
say about inputs.

    dynamic_batch_size   "1,2,4,8"                 dimension 0 of every input that is open there
    dynamic_image_size   "416,416;832,832"         height and width of every input that is open there
    dynamic_dims         "20,20,1,1;40,40,2,2"     all open dimensions, input by input, in order

Rules and error codes are those of ATC (GE, multi_batch_options.cc and the option's documentation). An open
dimension is what ATC marks with -1 in --input_shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Union

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph, Shape

Kind = Literal["dynamic_batch_size", "dynamic_image_size", "dynamic_dims"]
KINDS: tuple[Kind, ...] = ("dynamic_batch_size", "dynamic_image_size", "dynamic_dims")
GearOption = Union[str, Sequence[int], Sequence[Sequence[int]]]

MIN_GEARS = 2
MAX_GEARS = 100
MAX_DIM = 1 << 31
# numbers of a gear
NUMBERS: dict[str, int | None] = {"dynamic_batch_size": 1, "dynamic_image_size": 2, "dynamic_dims": None}


@dataclass(frozen=True, slots=True)
class GearSettings:
    """Gears and what they set.

    Attributes:
        kind: The option.
        gears: One row of numbers each, in the user's order.
        marks: Input name and dimension that each open dimension stands for, in the order of the inputs.
    """

    kind: Kind
    gears: tuple[tuple[int, ...], ...]
    marks: tuple[tuple[str, int], ...]

    def dims(self, gear: Sequence[int]) -> tuple[int, ...]:
        """The size of every mark under a gear."""
        if self.kind == "dynamic_batch_size":
            return (gear[0],) * len(self.marks)
        if self.kind == "dynamic_image_size":
            return tuple(gear[dimension - 2] for _, dimension in self.marks)
        return tuple(gear)

    def shapes(self, graph: Graph, gear: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Input shapes under a gear, by name."""
        sizes = dict(zip(self.marks, self.dims(gear), strict=True))
        found = {}
        for tensor in graph.inputs:
            dims = tensor.shape or ()
            found[tensor.name] = tuple(
                sizes[(tensor.name, axis)] if not isinstance(dim, int) else dim
                for axis, dim in enumerate(dims)
            )
        return found

    def find(self, graph: Graph, shapes: dict[str, tuple[int, ...]]) -> int:
        """Number of the gear that input shapes are of.

        Raises:
            InputError: If they are of none; lists the gears.
        """
        for number, gear in enumerate(self.gears):
            if self.shapes(graph, gear) == shapes:
                return number
        actual = ", ".join(
            f"{name}: {list(shape)}"
            for name, shape in shapes.items()
            if any(name == mark for mark, _ in self.marks)
        )
        raise InputError(
            "the input shapes",
            f"must be those of a gear ({self.text()})",
            actual,
            f"pad the inputs, or add a gear to {self.kind}",
        )

    def text(self) -> str:
        """The gears as ATC writes them."""
        return ("," if self.kind == "dynamic_batch_size" else ";").join(
            ",".join(map(str, gear)) for gear in self.gears
        )


def parse_gears(kind: Kind, value: GearOption, graph: Graph, limit: int = MAX_GEARS) -> GearSettings:
    """Checks an option against its rules and the graph's open dimensions.

    Args:
        kind: The option.
        value: ATC's text, or numbers (rows of numbers).
        graph: With open dimensions in its inputs.
        limit: Most gears that the chip allows.

    Raises:
        InputError: Names the rule, with ATC's error code where it has one.
    """
    option = f"option {kind}"
    gears = _rows(kind, value)
    if len(gears) < MIN_GEARS:
        raise InputError(
            option,
            f"needs at least {MIN_GEARS} gears (E10035)",
            len(gears),
            "without choice give the shape with input_shape",
        )
    if len(gears) > limit:
        raise InputError(option, f"takes at most {limit} gears", len(gears))
    wanted = NUMBERS[kind] or len(gears[0])
    for gear in gears:
        if len(gear) != wanted:
            raise InputError(
                option, f"needs {wanted} numbers in every gear (E10037)", ",".join(map(str, gear))
            )
        if any(number < 1 for number in gear):
            raise InputError(option, "needs numbers above 0 (E10038)", ",".join(map(str, gear)))
        if any(number >= MAX_DIM for number in gear):
            raise InputError(option, f"needs numbers up to {MAX_DIM - 1}", ",".join(map(str, gear)))
    doubles = [gear for number, gear in enumerate(gears) if gear in gears[:number]]
    if doubles:
        raise InputError(option, "must not name a gear twice (E10039)", ",".join(map(str, doubles[0])))
    marks = _marks(kind, graph, option, wanted)
    return GearSettings(kind, gears, marks)


def _rows(kind: Kind, value: GearOption) -> tuple[tuple[int, ...], ...]:
    option = f"option {kind}"
    example = {
        "dynamic_batch_size": '"1,2,4,8"',
        "dynamic_image_size": '"416,416;832,832"',
        "dynamic_dims": '"20,20;40,40"',
    }[kind]
    if isinstance(value, str):
        rows = [row.split(",") for row in value.strip().strip(";").split(";")]
        if kind == "dynamic_batch_size" and len(rows) == 1:
            rows = [[number] for number in rows[0]]
        return tuple(tuple(_number(number.strip(), option, example) for number in row) for row in rows)
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise InputError(option, f"must be text such as {example}, or rows of numbers", type(value).__name__)
    return tuple(
        tuple(_number(item, option, example) for item in (row if isinstance(row, Sequence) else (row,)))
        for row in value
    )


def _number(item: object, option: str, example: str) -> int:
    if isinstance(item, str):
        digits = item.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) < 12:
            return int(item)
    elif hasattr(item, "__index__") and not isinstance(item, bool):
        return int(item)
    raise InputError(option, f"must hold whole numbers, as in {example}", repr(item))


def _marks(kind: Kind, graph: Graph, option: str, wanted: int) -> tuple[tuple[str, int], ...]:
    """Every open dimension of the inputs; it must be one that the option sets, and there must be one."""
    marks = []
    for tensor in graph.inputs:
        if tensor.shape is None:
            raise InputError(
                f"input {tensor.name!r}",
                f"needs a known rank for {kind}",
                remedy=f"say it: --input_shape {tensor.name}:-1,..., in Python "
                f"shapes={{{tensor.name!r}: (-1, ...)}}",
            )
        marks += [(tensor.name, axis) for axis, dim in enumerate(tensor.shape) if not isinstance(dim, int)]
    shapes = "; ".join(f"{tensor.name}: {_text(tensor.shape)}" for tensor in graph.inputs)
    load = (
        'mark them when loading: shapes={"input": (-1, 3, 224, 224)}, or --input_shape "input:-1,3,224,224"'
    )
    if not marks:
        raise InputError(option, "needs open dimensions (-1) in the inputs (E10046)", shapes, load)
    if kind == "dynamic_batch_size" and any(axis != 0 for _, axis in marks):
        raise InputError(
            option, "sets dimension 0 only, so no other may be open (E10046)", shapes, "use dynamic_dims"
        )
    if kind == "dynamic_image_size":
        ranks = {tensor.name: len(tensor.shape or ()) for tensor in graph.inputs}
        by_input: dict[str, list[int]] = {}
        for name, axis in marks:
            by_input.setdefault(name, []).append(axis)
        if any(axes != [2, 3] or ranks[name] != 4 for name, axes in by_input.items()):
            raise InputError(
                option,
                "sets height and width of NCHW inputs: both must be open, and nothing else (E10046)",
                shapes,
            )
    if kind == "dynamic_dims" and wanted != len(marks):
        raise InputError(
            option,
            f"needs as many numbers in a gear as dimensions are open, {len(marks)} (E10046)",
            wanted,
            f"inputs: {shapes}",
        )
    return tuple(marks)


def _text(shape: Shape | None) -> str:
    return "[" + ", ".join(str(dim) if isinstance(dim, int) else "-1" for dim in shape or ()) + "]"
