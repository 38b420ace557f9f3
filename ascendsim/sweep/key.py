"""What a result is known by: the same in every process and on every machine that would compute the same."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ascendsim import soc
from ascendsim.core import plugins
from ascendsim.soc import SocSpec, figures_by_key
from ascendsim.sweep.space import Point

_SOURCES = (".py", ".toml", ".csv")


def digest(*contents: bytes) -> str:
    """SHA-256 of some bytes, as text."""
    found = hashlib.sha256()
    for content in contents:
        found.update(content)
    return found.hexdigest()


def chip_of(point: Point) -> SocSpec:
    """The chip of a point, with its changes.

    Raises:
        SocError: If it does not exist, or refuses a change.
    """
    return soc.load(point["soc"], point.get("set"))


def chip_digest(spec: SocSpec) -> str:
    """What the figures of a chip are known by, whatever they are called and wherever they come from."""
    texts = {"name": spec.name, "architecture": spec.architecture, "short_name": spec.short_name}
    return digest(_text({**texts, **figures_by_key(spec)}))


def key_of_point(point: Point, model: str, chip: str) -> str:
    """What the result of a point is known by.

    Args:
        point: Its model's name does not count, the model does.
        model: Digest of the model's file.
        chip: Digest of the chip's figures.
    """
    asked = {name: value for name, value in point.items() if name != "model"}
    return digest(_text([asked, model, chip, fingerprint()]))


def fingerprint() -> str:
    """Digest of the package's own files and of installed plugins: other code may give other times, whatever
    the versions say.
    """
    return digest(_own_files().encode(), plugins.fingerprint().encode())


@cache
def _own_files() -> str:
    parts: list[bytes] = []
    for package in ("ascendsim", "ascendsim_kernels"):
        folder = Path(str(import_module(package).__file__)).parent
        for path in sorted(folder.rglob("*")):
            if path.suffix in _SOURCES:
                parts += [path.relative_to(folder).as_posix().encode(), path.read_bytes()]
    return digest(*parts)


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=list).encode()
