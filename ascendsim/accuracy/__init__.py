"""How exact the device is, tensor by tensor, and which operators must stay in float32 for it.

`ascendsim.accuracy` is both this package and the function of that name: importing a part of the package binds
the name to the package, so the package can be called as the function.
"""

import sys
from types import ModuleType
from typing import Any

from ascendsim.accuracy.comparing import accuracy
from ascendsim.accuracy.report import Accuracy

__all__ = ["Accuracy", "accuracy"]


class _CallablePackage(ModuleType):
    """A package that is called as its main function."""

    def __call__(self, *args: Any, **settings: Any) -> Accuracy:
        """As `accuracy`."""
        return accuracy(*args, **settings)


sys.modules[__name__].__class__ = _CallablePackage
