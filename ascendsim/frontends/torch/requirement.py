"""PyTorch, imported when it is needed and not before."""

from __future__ import annotations

import re
from typing import Any

from ascendsim.core.errors import InputError

OLDEST = (2, 9)  # the first with the capture of joint graphs with descriptors
REMEDY = 'pip install "ascendsim[torch]"'


def require_torch() -> Any:
    """The module `torch`.

    Raises:
        InputError: If it is missing or too old; names the extra that installs it.
    """
    try:
        import torch
    except ImportError as error:
        raise InputError("PyTorch", f"cannot be imported ({error})", remedy=REMEDY) from error
    wanted = ".".join(map(str, OLDEST))
    if version_of(torch.__version__) < OLDEST:
        raise InputError("PyTorch", f"must be of version {wanted} or newer", torch.__version__, REMEDY)
    return torch


def version_of(text: str) -> tuple[int, ...]:
    """Major and minor number of a version.

    >>> version_of("2.13.0+cpu")
    (2, 13)
    """
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])
