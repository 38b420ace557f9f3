"""Ticks against the chip's units."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ascendsim.core.errors import SimulationError
from ascendsim.isa.program import CoreKind
from ascendsim.machine.clock import UNITS_PER_BYTE, Clock
from tests.support.toy_soc import toy


def test_a_tick_divides_both_clocks() -> None:
    clock = Clock.of(toy(frequency_mhz=1060, vector_frequency_mhz=1000))
    assert (clock.megahertz, clock.ai_ticks, clock.vector_ticks) == (53_000, 50, 53)
    assert clock.tick_seconds == Fraction(1, 53_000_000_000)
    assert (clock.cycle(CoreKind.AI), clock.cycle(CoreKind.CUBE), clock.cycle(CoreKind.VECTOR)) == (
        50,
        50,
        53,
    )


def test_times_are_rounded_up_once() -> None:
    clock = Clock.of(toy(frequency_mhz=680, vector_frequency_mhz=680))
    assert clock.ns(40) == 28  # 27.2
    assert clock.us(2.3) == 1564  # exactly, in spite of binary fractions
    assert clock.us(0) == 0


def test_a_million_nanoseconds_are_a_thousand_microseconds() -> None:
    clock = Clock.of(toy(frequency_mhz=680, vector_frequency_mhz=680))
    assert clock.ns(1_000_000) == clock.us(1_000) == 680_000


def test_rates_are_whole_units_per_tick() -> None:
    clock = Clock.of(toy(frequency_mhz=500, vector_frequency_mhz=1000))
    assert clock.rate(32e9) == 32 * UNITS_PER_BYTE
    assert clock.width(64, clock.ai_ticks) == 32 * UNITS_PER_BYTE


def test_a_chip_without_a_vector_clock_has_one() -> None:
    assert Clock.of(toy(vector_frequency_mhz=0)).vector_ticks == 1


@pytest.mark.parametrize(("core", "vector"), [(0, 0), (0, 1000), (-1, 1000), (1000, -1)])
def test_a_clock_that_stands_still_is_refused(core: int, vector: int) -> None:
    with pytest.raises(SimulationError, match="must be above 0 MHz"):
        Clock.of(toy(frequency_mhz=core, vector_frequency_mhz=vector))
