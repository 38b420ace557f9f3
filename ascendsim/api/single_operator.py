"""One operator as a network of its own, by its type and the shapes of its inputs, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from ascendsim.api.building import GraphBuilder
from ascendsim.api.compiling import compile
from ascendsim.api.operator_attributes import read_attributes
from ascendsim.api.result import Result
from ascendsim.api.running import Progress, simulate
from ascendsim.core.arguments import checked
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Array, Graph, Tensor
from ascendsim.ops import opset_with
from ascendsim.opset import Layout, OpDef, OpSet
from ascendsim.soc import SocSpec

if TYPE_CHECKING:
    from onnx.defs import OpSchema

KEPT = "must_keep_origin_dtype"  # the mode in which an operator runs in the type that is asked for
WEIGHT = "weight"
_OTHERS = (
    "int32",
    "int64",
    "bool",
    "float32",
    "int8",
    "uint8",
)  # types of inputs that cannot have the one asked
_ONNX_NAMES = {"float": "float32", "double": "float64"}
_MAX_RANK = 32

Shape = Sequence[int]


@checked(
    attributes='write attributes={"strides": (2, 2)}',
    values='write values={"axes": [1]}',
    operators="write operators=[MY_OPERATOR]",
)
def op(
    op_type: str,
    *inputs: Shape | str | None,
    soc: str | PathLike[str] | SocSpec = "Ascend310",
    dtype: str | DType = "float16",
    attributes: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    precision_mode: str = KEPT,
    operators: Sequence[OpDef] = (),
    instructions: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Result:
    """Runs one operator without values: how long it takes, what bounds it.

    Nothing stands around it but what its formats need (TransData): inputs and outputs have its own types, so
    there is no Cast unless the precision mode asks for one.

    asim.op("MatMul", (1024, 1024), (1024, 1024), soc="Ascend910B3").duration_us
    asim.op("Conv", (1, 64, 56, 56), (64, 64, 3, 3), attributes={"pads": (1, 1, 1, 1)})
    asim.op("ReduceSum", (32, 4096), values={"axes": [1]})

    Args:
        op_type: As `ascendsim ops list` writes it: "Conv", "ascend::SwiGlu".
        inputs: Shapes of its inputs in order, those of `values` and ones that are None left out; as text
            "1024x1024", with a type "1024x1024:int8", of a constant "64x3x3x3:weight". Filters and parameters
            of convolutions, pooling and normalisation are constants without saying so.
        soc: As for `compile`.
        dtype: Element type of all inputs that may have it; indices and the like get one that they may have.
        attributes: By name, as ONNX has them.
        values: Inputs that are known numbers (axes, shapes), by name, or by place, from 0 on.
        precision_mode: As for `compile`.
        operators: Operators of your own.
        instructions: Whether to record every instruction.
        progress: As for `simulate`.
        **options: Further options of `compile`.

    Raises:
        InputError: If there is no such operator, input or attribute, or a shape is none.
        GraphError: If the inputs do not fit the operator.
        AscendSimError: As `compile` and `simulate`.
    """
    with complete(op_type):
        graph = operator_graph(
            op_type, inputs, dtype=dtype, attributes=attributes, values=values, operators=operators
        )
        model = compile(graph, soc, precision_mode=precision_mode, operators=operators, **options)
        return simulate(model, instructions=instructions, progress=progress)


@contextmanager
def complete(op_type: str) -> Iterator[None]:
    """A `with` block in which an operator of the chip's own (domain ascend) may turn out to lack what the
    pass that makes it would give: no schema says beforehand what that is.

    Raises:
        InputError: If it does.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if "::" not in op_type:
            raise
        lacks = f"is made by passes, and lacks inputs, attributes or results here ({error})"
        remedy = "run the operators that it is made of"
        raise InputError(f"operator {op_type}", lacks, remedy=remedy) from None


def operator_graph(
    op_type: str,
    inputs: Sequence[Shape | str | None],
    *,
    dtype: str | DType = "float16",
    attributes: Mapping[str, Any] | None = None,
    values: Mapping[str, Any] | None = None,
    operators: Sequence[OpDef] = (),
) -> Graph:
    """The network of one operator; arguments and errors as of `op`."""
    definition = _definition(op_type, opset_with(operators))
    schema = None
    if not definition.domain:
        from ascendsim.frontends.onnx.schemas import schema_of

        schema = schema_of(definition.name)
    wanted = DType.of(dtype)
    b = GraphBuilder(definition.name, dtype=wanted, operators=operators)
    subject = f"operator {op_type}"
    ports = _Ports(subject, definition, schema, wanted)
    given = {ports.place(name): value for name, value in (values or {}).items()}
    rest = list(inputs)
    operands: list[Tensor | None] = []
    while rest or any(place >= len(operands) for place in given):
        place = len(operands)
        if place in given:
            value = ports.array(place, given[place])
            operands.append(b.constant(value, ports.name(place)))
            continue
        if not rest:
            operands.append(None)
            continue
        operands.append(ports.tensor(b, place, rest.pop(0)))
    while operands and operands[-1] is None:
        operands.pop()
    ports.check(operands)
    chosen = read_attributes(subject, schema, attributes or {})
    made = b.ops(
        definition.name,
        *operands,
        outputs=_outputs(schema, chosen),
        name=definition.name,
        domain=definition.domain,
        **chosen,
    )
    for number, tensor in enumerate(made):
        b.output(tensor, "y" if number == 0 else f"y{number}")
    return b.build()


def _definition(op_type: str, opset: OpSet) -> OpDef:
    domain, _, name = op_type.rpartition("::")
    found = opset.find(name, domain)
    if found is None:
        known = (f"{item.domain}::{item.name}" if item.domain else item.name for item in opset)
        remedy = f"{suggest(op_type, known)} (ascendsim ops list)"
        raise InputError(f"operator {op_type!r}", "is not supported", remedy=remedy)
    return found


def _outputs(schema: OpSchema | None, attributes: Mapping[str, Any]) -> int:
    """How many results: those that must be there, or as many parts as attributes say."""
    if schema is None:
        return 1
    if isinstance(attributes.get("num_outputs"), int):
        return max(1, int(attributes["num_outputs"]))
    return max(1, int(schema.min_output))


class _Ports:
    """The inputs of an operator: their names, types, and which are constants."""

    def __init__(self, subject: str, definition: OpDef, schema: OpSchema | None, wanted: DType) -> None:
        self._subject, self._definition, self._schema, self._wanted = subject, definition, schema, wanted
        self._steering = {*definition.steered_by, definition.facts.shape_port}

    def check(self, operands: Sequence[Tensor | None]) -> None:
        """Refuses inputs that are missing, before the operator's rule stumbles over them.

        Raises:
            InputError: Names all that are needed.
        """
        formals = self._schema.inputs if self._schema is not None else ()
        needed = [formal for formal in formals if str(formal.option).rpartition(".")[2] != "Optional"]
        count = len(operands)
        if any(place >= count or operands[place] is None for place in range(len(needed))):
            names = ", ".join(formal.name for formal in needed)
            rule = f"needs {len(needed)} input{'s' if len(needed) > 1 else ''}: {names}"
            remedy = "give their shapes in this order, or numbers by --input NAME=1,2"
            raise InputError(self._subject, rule, remedy=remedy)

    def name(self, place: int) -> str:
        """Of an input: the schema's, or one by its place."""
        formal = self._formal(place)
        if formal is None:
            return f"x{place}"
        repeated = place - len(self._schema.inputs) + 1 if self._schema is not None else 0
        return f"{formal.name}{repeated}" if repeated > 0 else str(formal.name)

    def place(self, name: str) -> int:
        """Where an input stands.

        Raises:
            InputError: If there is none of that name.
        """
        if name.isascii() and name.isdigit() and len(name) < 4:
            return int(name)
        names = [str(formal.name) for formal in self._schema.inputs] if self._schema is not None else []
        if name in names:
            return names.index(name)
        remedy = suggest(name, names) if names else "write its place, from 0 on"
        raise InputError(f"{self._subject}: input {name!r}", "does not exist", remedy=remedy)

    def tensor(self, b: GraphBuilder, place: int, given: Shape | str | None) -> Tensor | None:
        """A network's input or a constant without values.

        Raises:
            InputError: If the shape is none, or the operator needs the values of this input.
        """
        if given is None or given == "-":
            return None
        name = self.name(place)
        if place in self._steering:
            remedy = f"give its values: --input {name}=1,2 (Python: values={{{name!r}: [1, 2]}})"
            raise InputError(
                f"{self._subject}: input {name!r}", "holds numbers that decide the work", remedy=remedy
            )
        shape, dtype, constant = self._read(place, given)
        is_map = place in self._definition.facts.maps
        if constant or (self._definition.layout is Layout.FEATURE and not is_map):
            return b.weight(name, shape, dtype=dtype)
        return b.input(name, shape, dtype)

    def array(self, place: int, value: Any) -> Array:
        """The numbers of an input, in a type that it may have; one number alone is a scalar, or a list of
        one where axes and sizes are meant.

        Raises:
            InputError: If they are no numbers.
        """
        try:
            array = np.asarray(value)
            whole = array.dtype.kind in "iub"
            if array.dtype.kind not in "iubf":
                raise ValueError
        except (ValueError, TypeError):
            raise InputError(
                f"{self._subject}: input {self.name(place)!r}", "must be numbers", repr(value)[:60]
            ) from None
        if place in self._steering:
            array = np.atleast_1d(array)
        allowed = self._allowed(place)
        numbers = ("int64", "int32", "bool") if whole else ("float32", "float16")
        order = (*numbers, self._wanted.value) if place in self._steering else (self._wanted.value, *numbers)
        kind = next((name for name in order if not allowed or name in allowed), self._type(place).value)
        return array.astype(DType.of(kind).numpy)

    def _read(self, place: int, given: Shape | str) -> tuple[tuple[int, ...], DType, bool]:
        if not isinstance(given, str):
            return tuple(int(dim) for dim in given), self._type(place), False
        text, *more = (part.strip() for part in given.split(":"))
        constant = WEIGHT in more
        types = [part for part in more if part != WEIGHT]
        if len(types) > 1:
            raise InputError(f"{self._subject}: input {given!r}", "names more than one type")
        dtype = DType.of(types[0]) if types else self._type(place)
        parts = [] if text in ("", "scalar") else text.replace("x", ",").replace("X", ",").split(",")
        for part in parts:
            if not (part.isascii() and part.isdigit() and 0 < len(part) < 14):
                rule = 'must be a shape such as "1024x1024" or "1024,1024:int8"'
                raise InputError(f"{self._subject}: input {given!r}", rule)
        if len(parts) > _MAX_RANK:
            raise InputError(
                f"{self._subject}: input {given[:40]!r}", f"has more than {_MAX_RANK} dimensions"
            )
        return tuple(int(part) for part in parts), dtype, constant

    def _type(self, place: int) -> DType:
        """The type asked for, where the input may have it."""
        allowed = self._allowed(place)
        if place in self._definition.facts.indices and not allowed:
            return DType.INT32
        if not allowed or self._wanted.value in allowed:
            return self._wanted
        return DType.of(next((name for name in _OTHERS if name in allowed), self._wanted.value))

    def _allowed(self, place: int) -> frozenset[str]:
        """Names of the types that an input may have; none = nothing is known."""
        formal = self._formal(place)
        if formal is None:
            return frozenset()
        names = (text.removeprefix("tensor(").removesuffix(")") for text in formal.types)
        return frozenset(_ONNX_NAMES.get(name, name) for name in names)

    def _formal(self, place: int) -> Any:
        """The schema's input at a place; the last one is repeated."""
        inputs = self._schema.inputs if self._schema is not None else ()
        return inputs[min(place, len(inputs) - 1)] if inputs else None
