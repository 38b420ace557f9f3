"""Scheduling as the user asks for it: who launches tasks, on how many streams, in which order."""

from __future__ import annotations

from ascendsim.core.errors import InputError, suggest
from ascendsim.isa.program import MODES


def check_schedule(schedule: object, fusion: str) -> str:
    """The fusion level that goes with a mode: operator by operator nothing is fused.

    Args:
        schedule: "sink", "host" or "eager".
        fusion: The level that the user asked for.

    Returns:
        "off" for "eager", the level as it came for all others.

    Raises:
        InputError: If there is no such mode.
    """
    if schedule not in MODES:
        raise InputError("option schedule", f"must be one of {', '.join(MODES)}", repr(schedule), suggest(str(schedule), MODES))
    return "off" if schedule == "eager" else fusion
