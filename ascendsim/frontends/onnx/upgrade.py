"""Older forms of operators turned into those of the newest operator set, one small rule an operator family.

Source: the change notes of the operators in the ONNX specification (docs/Changelog.md of the onnx project). A
rule changes a `Draft` in place and may put nodes before it. Versions that only added types or attributes with
neutral defaults need no rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, UnsupportedTypeError
from ascendsim.graph.ir import Array, AttributeValue, Constant, Shape, Tensor


@dataclass(slots=True)
class Draft:
    """A node on its way into the graph.

    Attributes:
        outputs: Names of its outputs in the file ("" = left out).
        version: Version of the operator set that it was written in.
    """

    op_type: str
    domain: str
    name: str
    inputs: list[Tensor | None]
    outputs: list[str]
    attributes: dict[str, AttributeValue]
    version: int

    @property
    def subject(self) -> str:
        return f"node {self.name!r} ({self.op_type})"

    def data(self, index: int = 0) -> Tensor:
        """An input that the operator cannot do without."""
        tensor = self.inputs[index] if index < len(self.inputs) else None
        if tensor is None:
            raise GraphError(self.subject, f"needs input {index}", remedy="export the model again")
        return tensor

    def pop(self, name: str, default: Any = None) -> Any:
        return self.attributes.pop(name, default)


class Emitter(Protocol):
    """What a rule needs to put nodes before the draft."""

    def constant(self, values: Array, stem: str) -> Tensor:
        """Adds a constant whose name starts with `stem`."""
        ...

    def hold(self, constant: Constant, dtype: DType, shape: tuple[int, ...], stem: str) -> Tensor:
        """Adds a constant whose values need not be read yet."""
        ...

    def emit(
        self,
        op_type: str,
        inputs: list[Tensor | None],
        stem: str,
        domain: str = "",
        **attributes: AttributeValue,
    ) -> Tensor:
        """Adds a node with one output in the newest form and infers it."""
        ...

    def declared(self, output: str) -> Shape | None:
        """The shape that the file declares for an output of the draft."""
        ...

    def give(self, output: str, tensor: Tensor) -> None:
        """Lets a tensor be an output of the draft by its name in the file."""
        ...


Rule = Callable[[Draft, Emitter], None]


def upgrade(draft: Draft, emitter: Emitter) -> None:
    """Turns a draft of the standard domain into the newest form.

    Raises:
        GraphError: If the old form has no equal in the newest one.
    """
    rule = RULES.get(draft.op_type)
    if rule is not None:
        rule(draft, emitter)


def _integers(draft: Draft, emitter: Emitter, name: str) -> Tensor | None:
    """Pops an attribute and gives it as a constant of int64."""
    values = draft.pop(name)
    return None if values is None else emitter.constant(np.array(values, np.int64), f"{draft.name}/{name}")


def _scalar_like(draft: Draft, emitter: Emitter, name: str, value: float) -> Tensor:
    """A scalar constant of the type of the first input."""
    dtype = draft.data().origin_dtype or DType.FLOAT32
    return emitter.constant(np.array(value).astype(dtype.numpy), f"{draft.name}/{name}")


def _axes_input(below: int) -> Rule:
    """Rule of operators whose `axes` became an input."""

    def rule(draft: Draft, emitter: Emitter) -> None:
        if draft.version < below and "axes" in draft.attributes:
            draft.inputs = [draft.data(), _integers(draft, emitter, "axes")]

    return rule


def _split(draft: Draft, emitter: Emitter) -> None:
    """13: sizes became an input; 18: the number of equal parts is said explicitly."""
    if draft.version < 13 and "split" in draft.attributes:
        draft.inputs = [draft.data(), _integers(draft, emitter, "split")]
    if draft.version < 18 and (len(draft.inputs) < 2 or draft.inputs[1] is None):
        draft.attributes["num_outputs"] = len(draft.outputs)


def _slice(draft: Draft, emitter: Emitter) -> None:
    """10: starts, ends and axes became inputs."""
    if draft.version < 10:
        draft.inputs = [
            draft.data(),
            *(_integers(draft, emitter, name) for name in ("starts", "ends", "axes")),
        ]


def _pad(draft: Draft, emitter: Emitter) -> None:
    """11: pads and value became inputs."""
    if draft.version < 11:
        pads, value = _integers(draft, emitter, "pads"), draft.pop("value", 0.0)
        draft.inputs = [draft.data(), pads, _scalar_like(draft, emitter, "value", value)]


def _clip(draft: Draft, emitter: Emitter) -> None:
    """11: min and max became inputs; a missing one is no bound."""
    if draft.version < 11:
        low, high = draft.pop("min"), draft.pop("max")
        draft.inputs = [
            draft.data(),
            None if low is None else _scalar_like(draft, emitter, "min", low),
            None if high is None else _scalar_like(draft, emitter, "max", high),
        ]


def _dropout(draft: Draft, emitter: Emitter) -> None:
    """12: ratio became an input; without a training_mode input it is the identity, as before."""
    if draft.version < 12:
        ratio = np.array(draft.pop("ratio", 0.5), np.float32)
        draft.inputs = [draft.data(), emitter.constant(ratio, f"{draft.name}/ratio")]


def _top_k(draft: Draft, emitter: Emitter) -> None:
    """10: k became an input."""
    if draft.version < 10:
        draft.inputs = [
            draft.data(),
            emitter.constant(np.array([draft.pop("k", 0)], np.int64), f"{draft.name}/k"),
        ]


def _upsample(draft: Draft, emitter: Emitter) -> None:
    """Became Resize; 9 made the scales an input. Coordinates were asymmetric, the nearest one was the
    floor.
    """
    if "scales" in draft.attributes:
        scales: Tensor | None = emitter.constant(
            np.array(draft.pop("scales"), np.float32), f"{draft.name}/scales"
        )
    else:
        scales = draft.data(1)
    draft.op_type = "Resize"
    _asymmetric(draft, scales)


def _resize(draft: Draft, emitter: Emitter) -> None:
    """10 had the coordinates of Upsample; 11 added the region of interest before the scales; an empty tensor
    is no input.
    """
    if draft.version < 11:
        _asymmetric(draft, draft.data(1))
    draft.inputs = [None if t is not None and t.shape == (0,) else t for t in draft.inputs]


def _asymmetric(draft: Draft, scales: Tensor | None) -> None:
    mode = draft.attributes.get("mode", "nearest")
    draft.attributes["mode"] = "linear" if mode in ("linear", "bilinear") else mode
    draft.attributes["coordinate_transformation_mode"] = "asymmetric"
    draft.attributes["nearest_mode"] = "floor"
    draft.inputs = [draft.data(), None, scales]


def _softmax(draft: Draft, emitter: Emitter) -> None:
    """13: one axis; before it, all axes from `axis` on (1 by default) as one row of a matrix."""
    if draft.version >= 13:
        return
    data, axis = draft.data(), draft.attributes.get("axis", 1)
    rank = None if data.shape is None else len(data.shape)
    if rank is not None and axis in (rank - 1, -1):
        draft.attributes["axis"] = -1
        return
    matrix = emitter.emit("Flatten", [data], f"{draft.name}/flatten", axis=axis)
    rows = emitter.emit(draft.op_type, [matrix], f"{draft.name}/rows", axis=-1)
    shape = emitter.emit("Shape", [data], f"{draft.name}/shape")
    draft.op_type, draft.inputs, draft.attributes = "Reshape", [rows, shape], {}


def _batch_normalization(draft: Draft, emitter: Emitter) -> None:
    """14: training is an attribute and the saved statistics are gone; 9: `spatial` is gone."""
    if draft.version >= 14:
        return
    if draft.pop("spatial", 1) != 1:
        raise GraphError(
            draft.subject,
            "has spatial = 0, which newer operator sets do not have",
            remedy="export the model with opset 9 or newer",
        )
    if any(draft.outputs[1:]):
        raise GraphError(
            draft.subject, "is in training form (outputs besides Y)", remedy="export the model for inference"
        )
    del draft.outputs[1:]


def _group_normalization(draft: Draft, emitter: Emitter) -> None:
    """21: scale and bias hold one value a channel, not one a group."""
    if draft.version >= 21:
        return
    data, groups = draft.data(), draft.attributes.get("num_groups", 0)
    channels = data.shape[1] if data.shape is not None and len(data.shape) > 1 else None
    if not isinstance(channels, int) or not isinstance(groups, int) or groups < 1 or channels % groups:
        raise GraphError(
            draft.subject,
            "of operator set 18 needs a known number of channels, a multiple of num_groups",
            channels,
        )
    for index, stem in ((1, "scale"), (2, "bias")):
        column = emitter.emit(
            "Unsqueeze",
            [draft.data(index), emitter.constant(np.array([1]), f"{draft.name}/axis")],
            f"{draft.name}/{stem}",
        )
        wide = emitter.constant(np.array([groups, channels // groups], np.int64), f"{draft.name}/wide")
        spread = emitter.emit("Expand", [column, wide], f"{draft.name}/{stem}")
        draft.inputs[index] = emitter.emit(
            "Reshape",
            [spread, emitter.constant(np.array([-1]), f"{draft.name}/flat")],
            f"{draft.name}/{stem}",
        )


def _roi_align(draft: Draft, emitter: Emitter) -> None:
    """16: half-pixel coordinates by default; before it, none of them."""
    if draft.version < 16:
        draft.attributes["coordinate_transformation_mode"] = "output_half_pixel"


def _scatter(draft: Draft, emitter: Emitter) -> None:
    """11: renamed."""
    draft.op_type = "ScatterElements"


def _grid_sample(draft: Draft, emitter: Emitter) -> None:
    """20: modes are named without the "bi"."""
    mode = draft.attributes.get("mode")
    if draft.version < 20 and isinstance(mode, str):
        draft.attributes["mode"] = mode.removeprefix("bi")


def _dft(draft: Draft, emitter: Emitter) -> None:
    """20: the axis became an input."""
    if draft.version < 20:
        axis = emitter.constant(np.array(draft.pop("axis", 1), np.int64), f"{draft.name}/axis")
        draft.inputs = [draft.data(), draft.inputs[1] if len(draft.inputs) > 1 else None, axis]


def _scan(draft: Draft, emitter: Emitter) -> None:
    """9: the batch axis in front and the lengths of the sequences in it went."""
    if draft.version < 9:
        raise UnsupportedTypeError(
            draft.subject,
            "scans a batch of sequences (its form of version 8)",
            remedy="export to opset 9 or newer",
        )


_REDUCTIONS_18 = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin",
    "ReduceProd", "ReduceSumSquare",
)  # fmt: skip

RULES: dict[str, Rule] = {
    "Squeeze": _axes_input(13),
    "Unsqueeze": _axes_input(13),
    "ReduceSum": _axes_input(13),
    **dict.fromkeys(_REDUCTIONS_18, _axes_input(18)),
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Clip": _clip,
    "Dropout": _dropout,
    "TopK": _top_k,
    "Upsample": _upsample,
    "Resize": _resize,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Hardmax": _softmax,
    "BatchNormalization": _batch_normalization,
    "GroupNormalization": _group_normalization,
    "RoiAlign": _roi_align,
    "Scatter": _scatter,
    "GridSample": _grid_sample,
    "DFT": _dft,
    "Scan": _scan,
}
