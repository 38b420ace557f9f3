"""torchvision's networks beside PyTorch's CPU build, whose wheels do not match: the library of torchvision's
operators cannot load. The networks need none of them, so their names alone are declared before the import.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

_FAKES = re.compile(r'register_(?:fake\("torchvision::|meta\(")(\w+)"\)')


@cache
def torchvision() -> Any:
    """The package, or None where it is absent."""
    found = find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    text = (Path(found.origin).parent / "_meta_registrations.py").read_text(encoding="utf-8")
    library = torch.library.Library("torchvision", "DEF")
    for name in sorted({"nms", *_FAKES.findall(text)}):
        library.define(f"{name}(Tensor a) -> Tensor")
    import torchvision as package

    package.declared = library  # operators live as long as it does
    return package
