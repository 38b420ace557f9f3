"""The interval of a result's duration: which measured runs it is like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ascendsim.api.network_kind import OTHER, QUANTISED, TRAINING, network_kind
from ascendsim.compiler.cann_versions import older_kernels
from ascendsim.compiler.model import CompiledModel
from ascendsim.opset.facts import Kind
from ascendsim.profiling.interval import OPERATOR, DurationInterval, interval_of, shared_intervals
from ascendsim.profiling.view import ProfiledRun

_LONE = 4  # tasks of a single operator: casts and conversions in front and behind it
# other kinds of inference in float16 say nothing of these
_APART = {
    OTHER: "networks without convolutions or attention",
    QUANTISED: "quantised networks",
    TRAINING: "training steps",
}


def interval_of_run(
    model: CompiledModel, run: ProfiledRun, share: float, unlike: str = ""
) -> DurationInterval:
    """As `Result.duration_interval`.

    Args:
        model: What ran.
        run: How.
        share: Part of real executions that shall lie inside.
        unlike: What of the run was never measured ("several devices together").
    """
    kind = network_kind(model.source, model.opset)
    if kind == OTHER and len(run.tasks) <= _LONE:
        kind = _operator_kind(run) or kind
    older = bool(older_kernels(model.soc, model.options.cann))
    unlike = unlike or _unlike(model) or _APART.get(kind, "")
    return interval_of(run.trace.duration_us, model.soc.name, kind, share, older=older, unlike=unlike)


class Timed(Protocol):
    """What the intervals of variants ask of a `Result`."""

    @property
    def model(self) -> CompiledModel: ...
    @property
    def duration_us(self) -> float: ...
    def duration_interval(self, share: float = 0.8) -> DurationInterval: ...


def intervals_of_variants(results: Mapping[str, Timed], share: float = 0.8) -> dict[str, DurationInterval]:
    """Intervals of runs that are compared, by name: those of one kind of network, chip, CANN and schedule
    have most of their errors in common, so a level of fusion that was never measured gets the factors of the
    one that was.

    Args:
        results: By name.
        share: Part of real executions that shall lie inside.
    """
    found = {name: result.duration_interval(share) for name, result in results.items()}
    alike = {
        name: (
            found[name].kind,
            result.model.soc.name,
            tuple(sorted(result.model.soc.overrides)),
            bool(older_kernels(result.model.soc, result.model.options.cann)),
            result.model.program.mode,
        )
        for name, result in results.items()
    }
    return shared_intervals(found, {name: result.duration_us for name, result in results.items()}, alike)


def _operator_kind(run: ProfiledRun) -> str:
    """The kind of the operator that takes the most time, one that only moves data after all others; "" if
    none ran.
    """
    times = [
        (kind is not Kind.MOVEMENT, view.duration, kind.value) for view in run.tasks for kind in view.kinds
    ]
    return OPERATOR + max(times)[-1] if times else ""


def _unlike(model: CompiledModel) -> str:
    """In what a model differs from all that were measured: the graph on the device as a whole, all fusion,
    the chip as shipped; "" if in nothing.
    """
    if model.soc.overrides:
        return "a chip with changed figures"
    if model.program.mode != "sink":
        return f"schedule {model.program.mode!r}"
    return "" if model.options.fusion == "all" else f"fusion {model.options.fusion!r}"
