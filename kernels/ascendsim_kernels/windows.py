"""What convolution and pooling kernels share: the geometry of a sliding window over a (depth, height, width)
volume.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Triple = tuple[int, int, int]


class Window(NamedTuple):
    """A sliding window; all triples are (depth, height, width), with ones (pads zero) for axes that a problem
    lacks.

    Attributes:
        before: Padding in front of each axis. Padding behind follows from `output`: windows may reach beyond
            the input.
        output: Number of window positions on each axis.
    """

    kernel: Triple
    stride: Triple
    dilation: Triple
    before: Triple
    output: Triple

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1] * self.kernel[2]

    def is_pointwise(self, size: Triple) -> bool:
        """Whether every window is one input position and the output has the shape of the input."""
        return (
            self.taps == 1 and self.stride == (1, 1, 1) and self.before == (0, 0, 0) and self.output == size
        )

    def table(self) -> NDArray[np.int64]:
        """The numbers as a (5, 3) array, the form that jitted functions take."""
        return np.array(self, dtype=np.int64)
