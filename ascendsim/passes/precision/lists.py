"""ATC's two files that say which operators compute in which type.

--keep_dtype names operators that stay as the model has them, in lines: a name of an operator of the model,
or `OpType::Relu` for all of a type. --modify_mixlist changes CANN's lists for allow_mix_precision, in JSON:

    {"black-list": {"to-add": ["ReduceSumD"], "to-remove": []}, "white-list": {"to-remove": ["Conv2D"]}}

(ATC documentation of both options, CANN 8.0: black operators stay in float32, white ones go to float16, all
others follow their input; what is removed from a list follows its input.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Union

from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import path_option, read_bounded, write_whole
from ascendsim.graph.ir import Graph, Node
from ascendsim.opset import OpSet
from ascendsim.opset.facts import Precision

Path = Union[str, PathLike[str]]
KeepOption = Union[str, PathLike[str], Sequence[str], None]
MixOption = Union[str, PathLike[str], Mapping[str, Mapping[str, Sequence[str]]], None]

MAX_BYTES = 1 << 20
TYPE = "OpType::"
FORWARD = "forward"  # key in Node.origin: domain and type of the operator whose gradient the node works for
_LISTS = {"black-list": Precision.BLACK, "white-list": Precision.WHITE}
_CHANGES = ("to-add", "to-remove")


@dataclass(frozen=True, slots=True)
class KeepList:
    """Operators that keep the model's types.

    Attributes:
        names: Of operators of the model.
        types: Operator types, CANN's or ONNX's names.
    """

    names: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.names or self.types)

    def holds(self, node: Node, opset: OpSet) -> bool:
        """Whether a node is kept: it, or an operator of the model that it stands for, is named."""
        if not self:
            return False
        if node.op_type in self.types or opset.cann_type(node) in self.types:
            return True
        return node.name in self.names or not self.names.isdisjoint(node.origin.get("source_names", ()))

    def check(self, graph: Graph, opset: OpSet) -> None:
        """Makes sure that the model has what the list names.

        Raises:
            InputError: If it has no such operator.
        """
        nodes = list(all_nodes(graph))
        known = {name for node in nodes for name in (node.name, *node.origin.get("source_names", ()))}
        for name in sorted(self.names):
            if name not in known:
                raise InputError(f"option keep_dtype: operator {name!r}", "is not in the model",
                                 remedy=suggest(name, known))  # fmt: skip
        _check_types(self.types, nodes, opset, "keep_dtype")


@dataclass(frozen=True, slots=True)
class MixList:
    """Changes to CANN's lists.

    Attributes:
        moved: Where operator types belong now.
        removed: Types by the list that they leave.
    """

    moved: Mapping[str, Precision] = field(default_factory=dict)
    removed: Mapping[str, Precision] = field(default_factory=dict)

    def of(self, node: Node, opset: OpSet) -> Precision:
        """The list that an operator is on. What follows its input and works for the gradient of an operator
        that stays in float32 stays there too.
        """
        listed = self._moved(opset.get(node).facts.precision, (opset.cann_type(node), node.op_type))
        forward = opset.find(*node.origin[FORWARD][::-1]) if FORWARD in node.origin else None
        if listed is not Precision.GRAY or forward is None:
            return listed
        followed = self._moved(forward.facts.precision, (forward.cann, forward.name))
        return Precision.BLACK if followed.sensitive else listed

    def _moved(self, own: Precision, names: Sequence[str]) -> Precision:
        """The list that an operator of these names is on, with the changes."""
        if own is Precision.BITS:
            return own
        for name in names:
            if name in self.moved:
                return self.moved[name]
            left = self.removed.get(name)
            if (left is Precision.WHITE and own.on_cube) or (left is Precision.BLACK and own.sensitive):
                return Precision.GRAY
        return own

    def check(self, graph: Graph, opset: OpSet) -> None:
        """Makes sure that the types exist.

        Raises:
            InputError: If one does not.
        """
        _check_types({*self.moved, *self.removed}, all_nodes(graph), opset, "modify_mixlist")


def read_keep(option: KeepOption) -> KeepList:
    """The list of a file, or of names as the file would have them in its lines.

    Raises:
        InputError: If the file cannot be read.
    """
    if option is None:
        return KeepList()
    lines: Iterable[str]
    if isinstance(option, (str, PathLike)):
        lines = list_text(path_option("keep_dtype", option), "keep_dtype").splitlines()
    else:
        lines = option
    entries = [entry for line in lines if (entry := line.strip()) and not entry.startswith("#")]
    types = frozenset(entry[len(TYPE) :].strip() for entry in entries if entry.startswith(TYPE))
    return KeepList(frozenset(entry for entry in entries if not entry.startswith(TYPE)), types)


def read_mix(option: MixOption) -> MixList:
    """The lists of a file, or of its content.

    Raises:
        InputError: If the file cannot be read or breaks a rule.
    """
    if option is None:
        return MixList()
    data: Any = option
    if isinstance(option, (str, PathLike)):
        try:
            data = json.loads(list_text(path_option("modify_mixlist", option), "modify_mixlist"))
        except (ValueError, RecursionError) as error:
            raise _mix_error(f"must be a JSON file ({error})") from None
    if not isinstance(data, Mapping):
        raise _mix_error("must be an object by list")
    moved: dict[str, Precision] = {}
    removed: dict[str, Precision] = {}
    for name, changes in data.items():
        if name not in _LISTS:
            raise _mix_error("must have lists black-list and white-list only", repr(name))
        if not isinstance(changes, Mapping):
            raise _mix_error(f"{name} must have to-add and to-remove")
        for change, types in changes.items():
            if change not in _CHANGES:
                raise _mix_error(f"{name} must have to-add and to-remove only", repr(change))
            if not isinstance(types, (list, tuple)) or not all(isinstance(item, str) for item in types):
                raise _mix_error(f"{name}, {change} must be a list of operator types")
            for item in types:
                target = moved if change == "to-add" else removed
                if target.setdefault(item, _LISTS[name]) is not _LISTS[name]:
                    raise _mix_error(f"{change} must name a type in one list", repr(item))
    return MixList(moved, removed)


def write_keep(path: Path, names: Iterable[str]) -> None:
    """Writes a file for --keep_dtype.

    Raises:
        InputError: If it cannot be written.
    """
    write_whole(path, "".join(f"{name}\n" for name in names).encode())


def write_mix(path: Path, black: Iterable[str]) -> None:
    """Writes a file for --modify_mixlist that keeps operator types in float32.

    Raises:
        InputError: If it cannot be written.
    """
    lists = {"black-list": {"to-remove": [], "to-add": list(black)}}
    write_whole(path, (json.dumps(lists, indent=2) + "\n").encode())


def all_nodes(graph: Graph) -> Iterable[Node]:
    """Nodes of a graph and of its subgraphs."""
    for node in graph.nodes:
        yield node
        for _, body in node.subgraphs:
            yield from all_nodes(body)


def _check_types(types: Iterable[str], nodes: Iterable[Node], opset: OpSet, option: str) -> None:
    known = {name for item in opset for name in (item.name, item.cann) if name}
    known.update(opset.cann_type(node) for node in nodes)
    for name in sorted(types):
        if name not in known:
            raise InputError(f"option {option}: operator type {name!r}", "is not known",
                             remedy=suggest(name, known))  # fmt: skip


def list_text(path: Any, option: str) -> str:
    """Text of a file that an option names.

    Raises:
        InputError: If it cannot be read, is too large or is no UTF-8.
    """
    subject = f"option {option}: file {str(path)!r}"
    content = read_bounded(path, subject, MAX_BYTES)
    if len(content) > MAX_BYTES:
        raise InputError(subject, f"must not be larger than {MAX_BYTES >> 20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(subject, "must be UTF-8 text") from None


def _mix_error(rule: str, actual: str = "") -> InputError:
    return InputError(
        "option modify_mixlist", rule, actual, 'write {"black-list": {"to-add": ["ReduceSumD"]}}'
    )
