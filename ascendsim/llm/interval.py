"""How sure the times of language models are: an interval from the errors of published figures.

`data/step_errors.csv` has them (`scripts/make_llm_results.py`), each as the time that was measured over the
one that is simulated; every model counts once, however many of its figures were published. Figures that
constants of the simulator were read off are left out.
"""

from __future__ import annotations

import csv
import math
from functools import cache
from importlib.resources import files

from ascendsim.profiling.interval import (
    UNMEASURED,
    DurationInterval,
    MeasuredError,
    assumed_spread,
    ratios,
)

KIND = "language model"
MEASURED_ON = ("Ascend910B1", "Ascend910B2", "Ascend910B3", "Ascend910B4", "Ascend910_93")  # begins of names
_CHIPS = "Ascend910B1 to B4 and 910_93"


def language_model_interval(duration_us: float, soc: str, share: float = 0.8) -> DurationInterval:
    """Where the time of a step, or of a server, is likely to be on a real chip.

    Args:
        duration_us: As simulated.
        soc: Name of the chip.
        share: Part of real executions that shall lie inside, 0.1 to 0.9.
    """
    rows = step_errors()
    if not soc.startswith(MEASURED_ON):
        spread = assumed_spread(share)
        note = f"no measurement of language models on {soc} exists: expect a factor of {UNMEASURED:g}"
        return DurationInterval(duration_us / spread, duration_us * spread, share, KIND, 0, 0, note)
    low, high = ratios(rows, KIND, share)
    models = len({row.name for row in rows})
    note = f"errors of {len(rows)} published figures of {models} language models on {_CHIPS}"
    return DurationInterval(duration_us * low, duration_us * high, share, KIND, models, models, note)


def likely_line(soc: str, share: float = 0.8) -> str:
    """The interval in one line, as factors that hold for all times of a table."""
    one = language_model_interval(1.0, soc, share)
    return f"likely ({share:.0%}): {one.low_us:.2f} to {one.high_us:.2f} times these times ({one.note})"


@cache
def step_errors() -> tuple[MeasuredError, ...]:
    """The errors, each as the logarithm of measured / simulated time."""
    with files("ascendsim.llm").joinpath("data/step_errors.csv").open(encoding="utf-8") as source:
        return tuple(
            MeasuredError("", False, KIND, row["model"], math.log(float(row["measured_by_simulated"])))
            for row in csv.DictReader(source)
        )
