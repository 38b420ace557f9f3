"""Operators whose operands are known not to lie in L2."""

from __future__ import annotations

from dataclasses import replace

from ascendsim.validate import operators
from ascendsim.validate.operators_rows import measured_operators


def test_what_is_known_not_to_lie_in_l2_comes_from_dram() -> None:
    """Copies out of buckets of an all-reduce, and an activation behind the TransData of 2.5 GB."""
    rows = [row for row in measured_operators(["910B", "910B4"])[0] if row.cold]
    assert sorted(row.shapes for row in rows) == ["1000x4096", "4096x1024", "4096x4096", "4096x9216"]
    for row in rows:
        cold, warm = (operators._predicted(one, {}) for one in (row, replace(row, cold=False)))
        assert not isinstance(cold, str)
        assert not isinstance(warm, str)
        assert cold[0] > 1.5 * warm[0]
        assert row.duration_us / 2 < cold[0] < 2 * row.duration_us
