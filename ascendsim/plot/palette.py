"""Colours of pictures: one fixed colour a kind of operator or a pipe, told apart by people with any colour
vision.

The palette is that of Okabe and Ito (Color Universal Design, 2008), without its yellow, which is too light
for thin bars.
"""

from __future__ import annotations

from ascendsim.opset.facts import Kind
from ascendsim.profiling.kinds import AI_CPU, COMMUNICATION, CTRL_CPU, DVPP
from ascendsim.profiling.metrics import PIPE_NAMES

KIND_COLOURS = {
    Kind.CONVOLUTION.value: "#0072b2",
    Kind.MATMUL.value: "#56b4e9",
    Kind.ELEMENTWISE.value: "#009e73",
    Kind.REDUCTION.value: "#e69f00",
    Kind.MOVEMENT.value: "#d55e00",
    Kind.OTHER.value: "#8c8c8c",
    AI_CPU: "#cc79a7",
    COMMUNICATION: "#000000",
    DVPP: "#8b5a2b",
    CTRL_CPU: "#5b4b8a",
    # pipes, for tasks without an operator; computing pipes look like what they compute in networks
    PIPE_NAMES["M"]: "#56b4e9",
    PIPE_NAMES["V"]: "#009e73",
    PIPE_NAMES["S"]: "#202428",
    PIPE_NAMES["MTE1"]: "#cc79a7",
    PIPE_NAMES["MTE2"]: "#d55e00",
    PIPE_NAMES["MTE3"]: "#e69f00",
    PIPE_NAMES["FIX"]: "#0072b2",
}
LANE = "#f1f2f4"  # background of a lane
INK = "#202428"
FAINT = "#6b7178"
SURE = "#c8c9ca"  # bars that say how sure a figure is


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on a colour (relative luminance of WCAG 2).

    >>> ink_on("#0072b2"), ink_on("#e69f00")
    ('white', 'black')
    """
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "white" if luminance < 0.25 else "black"
