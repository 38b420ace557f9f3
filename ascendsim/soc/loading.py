"""Finding and loading chips: built-in ones and those of installed packages by name, users' own by path."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from types import ModuleType

from ascendsim.core import plugins
from ascendsim.core.errors import InputError, SocError
from ascendsim.soc.building import build_spec
from ascendsim.soc.figures import DATA, ChipFile, read_chip_file
from ascendsim.soc.naming import misunderstood, remedy
from ascendsim.soc.spec import SocSpec

# Family names that tools accept where a chip is meant. "Ascend910B" is none: it is a chip of the first
# generation.
ALIASES: Mapping[str, str] = {
    "Ascend310B": "Ascend310B1",
    "Ascend310P": "Ascend310P3",
    "Ascend910": "Ascend910A",
}


def names() -> tuple[str, ...]:
    """Names of the built-in chips and of those that installed packages bring, sorted."""
    return tuple(sorted({*_built_in_names(), *plugin_chips()}))


@plugins.remembered
def plugin_chips() -> dict[str, Path]:
    """The chip files of installed packages by name.

    Raises:
        InputError: If two packages bring chips of one name.
    """
    return plugins.load(plugins.CHIPS, _checked_plugin)


def load(
    name_or_path: str | PathLike[str], overrides: Mapping[str, str | int | float] | None = None
) -> SocSpec:
    """Loads a chip.

    Args:
        name_or_path: A built-in name, an alias (`ALIASES`), a name that an installed package brings, or the
            path of a TOML file in the same form (a path ends in .toml).
        overrides: New values by dotted key of `SocSpec`, as text with unit ("l2.size": "16MiB") or as plain
            number.

    Returns:
        The chip. If figures are missing it can be shown but not run; `spec.missing` lists them.

    Raises:
        SocError: If the chip is unknown, a file or an override breaks a rule; the message names file and key.
    """
    path = _path_of(name_or_path)
    if path.parent != DATA:  # a user's file may change between two calls
        return build_spec(read_chip_file(path), overrides or {}, path.name)
    return build_spec(_built_in_file(path), overrides, path.name) if overrides else _built_in(path)


@cache
def _built_in_file(path: Path) -> ChipFile:
    return read_chip_file(path)


@cache
def _built_in(path: Path) -> SocSpec:
    return build_spec(_built_in_file(path), {}, path.name)


def require_runnable(spec: SocSpec) -> None:
    """Makes sure that a chip has all figures that the machine needs.

    Raises:
        SocError: If figures are missing; lists each with the reason.
    """
    if spec.missing:
        listed = ", ".join(spec.missing)
        remedy = (
            f"give each by override (--set {spec.missing[0].partition(' ')[0]}=...) or in a chip file "
            f"that extends {spec.name}"
        )
        raise SocError(f"chip {spec.name}", f"can be shown but not run, it lacks {listed}", remedy=remedy)


def name_warning(spec: SocSpec) -> str:
    """What is to be said of a chip whose name people use for another one; "" if there is nothing."""
    return misunderstood(spec, _built_in_names())


def _path_of(name_or_path: str | PathLike[str]) -> Path:
    text = str(name_or_path)
    if text.endswith(".toml"):
        return Path(text)
    name = ALIASES.get(text, text)
    if name not in names():
        what = remedy(text, (*names(), *ALIASES)) + " (a file of your own ends in .toml)"
        raise SocError(f"chip {text!r}", "is unknown", remedy=what)
    return plugin_chips().get(name, DATA / f"{name}.toml")


def _built_in_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in DATA.glob("*.toml")))


def _checked_plugin(value: object) -> dict[str, Path]:
    """The chip files of a plugin by name.

    Raises:
        InputError: If it is no folder with chip files, or a chip has the name of a built-in one.
        SocError: If a file breaks a rule.
    """
    places = [*value.__path__] if isinstance(value, ModuleType) and hasattr(value, "__path__") else [value]
    folders = [Path(place) for place in places if isinstance(place, str | PathLike)]
    files = {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}
    if not files:
        raise InputError("it", "must name a folder of chip files (.toml)", repr(value))
    for name, path in files.items():
        if name in ALIASES or name in _built_in_names():
            raise InputError(f"chip {name}", "has a name that is taken", remedy="choose another name")
        if (written := build_spec(read_chip_file(path), {}, path.name).name) != name:
            raise InputError(f"{path.name}: key name", "must be the name of the file", repr(written))
    return files
