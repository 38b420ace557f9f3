"""Histograms of the tensors that a plan rounds, and the steps that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Array, Tensor
from ascendsim.quantisation.histogram import Histogram
from ascendsim.quantisation.plan import Plan
from ascendsim.quantisation.thresholds import STEPS, threshold


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was found for the tensors of one scale.

    Attributes:
        histogram: Of their magnitudes.
        threshold: T, the magnitude that becomes 127.
    """

    histogram: Histogram
    threshold: float

    @property
    def scale(self) -> float:
        """Step of the integers, as float32 has it."""
        return float(np.float32(self.threshold / STEPS))

    @property
    def clipped(self) -> float:
        """Share of the elements beyond T."""
        return self.histogram.above(self.threshold) if self.threshold < self.histogram.largest else 0.0


class Calibrator:
    """Counts magnitudes while the float network runs.

    Args:
        plan: Says which tensors count, and which share a scale.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._histograms = {group: Histogram() for group in plan.groups.values()}

    def see(self, tensor: Tensor, array: Array) -> None:
        """A tensor of the network has its values.

        Raises:
            InputError: If they are not finite.
        """
        if tensor.name not in self._plan.seen:
            return
        if not np.isfinite(array).all():
            rule = "must be finite for all data"
            remedy = "look for the operator that overflows, or leave its layers out with skip="
            raise InputError(f"tensor {tensor.name!r}", rule, "NaN or infinity", remedy)
        self._histograms[self._plan.groups[tensor.name]].add(array)

    def result(self, method: str, percentile: float) -> Mapping[str, Calibrated]:
        """Group -> histogram and T.

        Raises:
            InputError: If a tensor held nothing but zeros: T would be 0, and so would the step.
        """
        found = {}
        plan = self._plan
        first = dict.fromkeys(plan.groups[layer.data] for layer in plan.layers)  # in order of execution
        for group in (*first, *(group for group in self._histograms if group not in first)):
            histogram = self._histograms[group]
            limit = threshold(histogram, method, percentile)
            if not float(np.float32(limit / STEPS)) > 0:
                readers = [
                    layer.name for layer in self._plan.layers if self._plan.groups[layer.data] == group
                ]
                remedy = "give data that reach it" + (f", or skip={readers}" if readers else "")
                raise InputError(f"tensor {group!r}", "must have a T above 0 in the data", limit, remedy)
            found[group] = Calibrated(histogram, limit)
        return found
