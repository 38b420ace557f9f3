"""Many points of a space: sweeps over chips, batches and options, what a chip's figures weigh, and searches.

`ascendsim.sweep` is both this package and the function of that name: importing a part of the package binds
the name to the package, so the package can be called as the function.
"""

import sys
from types import ModuleType
from typing import Any

from ascendsim.sweep.rows import Sweep, SweepRow
from ascendsim.sweep.searching import search
from ascendsim.sweep.sensing import sensitivity
from ascendsim.sweep.sensitivities import Band, Sensitivity
from ascendsim.sweep.sweeping import sweep

__all__ = ["Band", "Sensitivity", "Sweep", "SweepRow", "search", "sensitivity", "sweep"]


class _CallablePackage(ModuleType):
    """A package that is called as its main function."""

    def __call__(self, *args: Any, **settings: Any) -> Sweep:
        """As `sweep`."""
        return sweep(*args, **settings)


sys.modules[__name__].__class__ = _CallablePackage
