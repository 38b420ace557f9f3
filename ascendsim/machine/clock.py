"""Time as an integer number of ticks that divide every clock period of the chip exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from ascendsim.core.errors import SimulationError
from ascendsim.isa.program import CoreKind
from ascendsim.soc.spec import SocSpec

# Transfers count their remaining work in this fraction of a byte, so that rates in bytes per tick are
# integers.
UNITS_PER_BYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Clock:
    """Conversions between ticks and the chip's units.

    Attributes:
        megahertz: Ticks per microsecond: the least common multiple of the chip's clocks in MHz.
        ai_ticks: Ticks of one cycle of the AI (or cube) cores.
        vector_ticks: Ticks of one cycle of the vector cores.
    """

    megahertz: int
    ai_ticks: int
    vector_ticks: int

    @classmethod
    def of(cls, soc: SocSpec) -> Clock:
        """The clock of a chip.

        Raises:
            SimulationError: A clock is not a positive number of MHz.
        """
        vector = soc.vector_frequency_mhz or soc.frequency_mhz
        if soc.frequency_mhz <= 0 or vector <= 0:
            raise SimulationError(
                f"clock of {soc.name}",
                "must be above 0 MHz",
                min(soc.frequency_mhz, vector),
                "set frequency_mhz",
            )
        common = math.lcm(soc.frequency_mhz, vector)
        return cls(common, common // soc.frequency_mhz, common // vector)

    @property
    def tick_seconds(self) -> Fraction:
        return Fraction(1, self.megahertz * 1_000_000)

    def cycle(self, core: CoreKind) -> int:
        """Ticks of one cycle of a kind of core."""
        return self.vector_ticks if core is CoreKind.VECTOR else self.ai_ticks

    def us(self, microseconds: float) -> int:
        """Ticks of a number of microseconds, rounded up."""
        return math.ceil(round(microseconds * self.megahertz, 6))

    def ns(self, nanoseconds: float) -> int:
        """Ticks of a number of nanoseconds, rounded up."""
        return self.us(nanoseconds / 1000)

    def rate(self, bytes_per_second: float) -> int:
        """Work units per tick of a bandwidth, rounded down."""
        return int(bytes_per_second * UNITS_PER_BYTE / (self.megahertz * 1e6))

    def width(self, bytes_per_cycle: float, cycle_ticks: int) -> int:
        """Work units per tick of a width in bytes per cycle, rounded down."""
        return int(bytes_per_cycle * UNITS_PER_BYTE / cycle_ticks)
