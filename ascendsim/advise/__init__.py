"""From a model to advice: which operators are slow and why, and what changing the model would bring, each
proposal simulated.

`ascendsim.advise` is both this package and the function of that name: importing a part of the package binds
the name to the package, so the package can be called as the function.
"""

import sys
from types import ModuleType
from typing import Any

from ascendsim.advise.advice import Advice, Proposal
from ascendsim.advise.advisor import advise

__all__ = ["Advice", "Proposal", "advise"]


class _CallablePackage(ModuleType):
    """A package that is called as its main function."""

    def __call__(self, *args: Any, **settings: Any) -> Advice:
        """As `advise`."""
        return advise(*args, **settings)


sys.modules[__name__].__class__ = _CallablePackage
