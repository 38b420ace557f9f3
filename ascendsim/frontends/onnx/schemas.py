"""Nodes of standard operators against the schema of their version, before anything is computed of them: their
inputs and outputs, names and types of attributes, element types.

A type variable of a schema (`T`) stands for one type in a node: the operands of an Add have the same one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from onnx import defs

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, suggest
from ascendsim.frontends.onnx.upgrade import Draft

DOMAINS = frozenset({"", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"})
"""Domains whose schemas the onnx package has."""

_ONNX_NAMES = {"float32": "float", "float64": "double"}
_NAMES = {f"tensor({_ONNX_NAMES.get(kind.value, kind.value)})": kind for kind in DType}
_DAMAGED = "the file is damaged; export it again"
_TEXT = onnx.AttributeProto.STRING
_Option: Any = defs.OpSchema.FormalParameterOption
# what onnxruntime's optimizer writes into files of older operator sets
_IN_ANY_SET = frozenset({"LayerNormalization"})

# attributes that say yes or no
_FLAGS = frozenset(
    {
        "align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad",
        "exclusive", "exclude_outside", "fmod", "input_forget", "inverse", "interleaved", "is_causal",
        "is_case_sensitive", "keepdims", "saturate", "zeros", "detect_negative", "detect_positive",
        "largest", "linear_before_reset", "noop_with_empty_axes", "onesided", "periodic", "reverse",
        "select_last_index", "sorted", "storage_order", "training_mode", "transA", "transB", "upper",
    }
)  # fmt: skip

_WORDS = {
    "auto_pad": ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
    "approximate": ("none", "tanh"),
}


@cache
def schema_of(op_type: str, domain: str = "", version: int | None = None) -> defs.OpSchema | None:
    """The schema of an operator in a version of the operator set (None = the newest); None if there is
    none.
    """
    if domain not in DOMAINS:
        return None
    try:
        if version is None:
            return defs.get_schema(op_type, domain=domain)
        return defs.get_schema(op_type, version, domain)
    except (defs.SchemaError, TypeError):
        return None


def check_version(op_type: str, domain: str, version: int, subject: str) -> None:
    """Checks that an operator that ONNX has is in the operator set that the file uses.

    Raises:
        GraphError: If it came with a newer one; says which.
    """
    if schema_of(op_type, domain, version) is not None or op_type in _IN_ANY_SET:
        return
    newest = schema_of(op_type, domain)
    if newest is None:
        return
    later = range(version + 1, newest.since_version + 1)
    first = next(number for number in later if schema_of(op_type, domain, number) is not None)
    rule = f"came with operator set {first}"
    raise GraphError(
        subject, rule, f"{version}, as the file says", f"export to operator set {first} or newer"
    )


@dataclass(frozen=True, slots=True)
class Checks:
    """What a schema says of one node.

    Args:
        schema: Of the operator.
        subject: The node as messages name it.
        version: Of the operator set that a file uses; None = the newest, for a node that belongs to no file.
    """

    schema: defs.OpSchema
    subject: str
    version: int | None = None

    def ports(self, inputs: Sequence[object], outputs: Sequence[str] | None = None) -> None:
        """Checks that there are the inputs and outputs that there must be.

        Args:
            inputs: What is given; None where nothing is.
            outputs: Names, empty where one is left out; None: not to be checked.

        Raises:
            GraphError: If there are too many of them, or one that must be there is not; names it.
        """
        schema = self.schema
        count = max((place + 1 for place, item in enumerate(inputs) if item is not None), default=0)
        self._most(count, schema.max_input, "takes", "input")
        for place, port in enumerate(schema.inputs):
            given = inputs[place:count] if port.option == _Option.Variadic else inputs[place : place + 1]
            lacks = not given and place < schema.min_input
            if lacks or (port.option != _Option.Optional and any(item is None for item in given)):
                raise GraphError(self.subject, f"needs input {place} ({port.name})", remedy="connect it")
        if outputs is None:
            return
        self._most(len(outputs), schema.max_output, "gives", "output")
        if schema.min_output and not any(outputs):
            raise GraphError(self.subject, "gives no output", remedy=_DAMAGED)

    def _most(self, count: int, most: int, verb: str, what: str) -> None:
        if count > most:
            where = "" if self.version is None else f" in operator set {self.version}"
            rule = f"{verb} at most {most} {what}{'s' * (most != 1)}{where}"
            remedy = "leave out the further ones" if self.version is None else _DAMAGED
            raise GraphError(self.subject, rule, count, remedy)

    def names(self, names: Iterable[str]) -> None:
        """Checks that a node has no attributes but those of its schema. Names that begin with two underscores
        are for tools to mark nodes with, by ONNX's own checker too.

        Raises:
            GraphError: If an attribute is not in the schema; says which there are, and whether it is an
                input.
        """
        schema, seen = self.schema, set[str]()
        inputs = [port.name for port in schema.inputs]
        for name in names:
            if name in seen:
                raise GraphError(
                    f"attribute {name!r} of {self.subject}", "must be given once", remedy=_DAMAGED
                )
            seen.add(name)
            if name in schema.attributes or name.startswith("__"):
                continue
            near = suggest(name, schema.attributes)
            remedy = near if near.startswith("did you mean") else "leave it out"
            if name in inputs:
                remedy = f"there it is input {inputs.index(name)}"
            known = ", ".join(sorted(schema.attributes)) or "none"
            version = defs.onnx_opset_version() if self.version is None else self.version
            rule = f"is unknown in operator set {version}, whose {schema.name} has {known}"
            raise GraphError(f"attribute {name!r} of {self.subject}", rule, remedy=remedy)

    @staticmethod
    def left_out(attribute: onnx.AttributeProto) -> bool:
        """Whether an attribute says nothing: onnxruntime takes empty text for the default of auto_pad."""
        return attribute.name == "auto_pad" and attribute.type == _TEXT and not attribute.s

    def given(self, names: Collection[str]) -> None:
        """Checks that a node has the attributes that have no default.

        Raises:
            GraphError: If one is not there; names it.
        """
        for name, attribute in self.schema.attributes.items():
            if attribute.required and name not in names:
                raise GraphError(self.subject, f"needs attribute {name!r}", remedy="it has no default")

    def kind(self, attribute: onnx.AttributeProto) -> None:
        """Checks that an attribute has the type that its schema says.

        Raises:
            GraphError: If it has another one.
        """
        if attribute.name not in self.schema.attributes:
            return
        kind: Any = self.schema.attributes[attribute.name].type
        wanted = int(kind)
        if attribute.type != wanted:
            names = {value: name for name, value in onnx.AttributeProto.AttributeType.items()}
            raise GraphError(
                f"attribute {attribute.name!r} of {self.subject}",
                f"must be of type {names.get(wanted, wanted)}",
                names.get(attribute.type, attribute.type),
                "export the model again",
            )

    def value(self, name: str, value: object) -> None:
        """Checks that an attribute that says yes or no is 1 or 0, and one that is a word is one of its words.

        Raises:
            GraphError: If it is something else, of which each program makes another thing.
        """
        if name not in self.schema.attributes:
            return
        if name in _FLAGS and value not in (0, 1):
            raise GraphError(f"attribute {name!r} of {self.subject}", "must be 0 or 1", value)
        if name in _WORDS and value not in _WORDS[name]:
            rule = f"must be one of {', '.join(_WORDS[name])}"
            raise GraphError(f"attribute {name!r} of {self.subject}", rule, repr(value))

    def types(self, types: Sequence[DType | None]) -> None:
        """Checks the element types of a node's inputs.

        Args:
            types: Of the inputs; None where there is none, or its type is not known.

        Raises:
            GraphError: If a type is none of those that the schema lists, or two inputs that must have one
                type have two; names the inputs and what they may be.
        """
        schema, bound = self.schema, dict[str, tuple[str, DType]]()
        for place, kind in enumerate(types):
            port = schema.inputs[min(place, len(schema.inputs) - 1)] if schema.inputs else None
            if kind is None or port is None:
                continue
            allowed = _allowed(schema.name, schema.domain, schema.since_version, port.type_str)
            what = f"input {place} ({port.name})"
            if allowed and kind not in allowed:
                listed = ", ".join(item.value for item in DType if item in allowed)
                where = "" if self.version is None else f" in operator set {self.version}"
                rule = f"takes {listed} as {what}{where}"
                raise GraphError(self.subject, rule, kind.value, "put a Cast in front of it")
            if not port.is_homogeneous:  # each part of a variadic input has a type of its own
                continue
            first, other = bound.setdefault(port.type_str, (what, kind))
            if other is not kind and port.name.endswith("zero_point"):
                rule = f"needs zero points in the range of {other.value}, of that type, as input {place}"
                raise GraphError(self.subject, rule, kind.value, "quantise the model again")
            if other is not kind:
                rule = f"needs one element type for {first} and {what}"
                actual = f"{other.value} and {kind.value}"
                raise GraphError(self.subject, rule, actual, "put a Cast in front of one")


def held(draft: Draft, attributes: Sequence[onnx.AttributeProto], typed: bool) -> Checks | None:
    """Holds a node of a file against the schema of its version, values of attributes aside.

    Args:
        draft: The node, as the file has it.
        attributes: Of it.
        typed: Whether its element types count.

    Returns:
        The checks, for values of attributes; None if there is no schema.

    Raises:
        GraphError: If it breaks a rule of the schema, or its operator came with a newer operator set.
    """
    check_version(draft.op_type, draft.domain, draft.version, draft.subject)
    schema = schema_of(draft.op_type, draft.domain, draft.version)
    if schema is None:
        return None
    checks = Checks(schema, draft.subject, draft.version)
    names = [item.name for item in attributes]
    checks.ports(draft.inputs, draft.outputs)
    checks.names(names)
    checks.given(names)
    for attribute in attributes:
        checks.kind(attribute)
    if typed:
        checks.types([None if tensor is None else tensor.origin_dtype for tensor in draft.inputs])
    return checks


@cache
def _allowed(op_type: str, domain: str, version: int, name: str) -> frozenset[DType]:
    """Types that a type variable (or a type that is written out) may be; none where it is about other than
    dense tensors.
    """
    schema = schema_of(op_type, domain, version)
    assert schema is not None
    for item in schema.type_constraints:
        if item.type_param_str == name:
            return frozenset(_NAMES[text] for text in item.allowed_type_strs if text in _NAMES)
    return frozenset({_NAMES[name]}) if name in _NAMES else frozenset()
