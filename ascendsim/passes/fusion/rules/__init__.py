"""All graph-fusion rules, one file each.

`RULES` is the explicit list of what exists; the order of execution follows from `fusion/order.py` (stages and priorities of
`fusion/data/passes.csv`), never from the order in this tuple.
"""

from __future__ import annotations

from ascendsim.passes.fusion.rule import FusionRule

RULES: tuple[FusionRule, ...] = ()
