"""Plugins: installed packages that bring operators, fusion rules and chips by entry points.

    [project.entry-points."ascendsim.operators"]
    mine = "my_package.operators:OPERATORS"

A group is read when what it extends is used first, never by `import ascendsim`. Packages take their turn by
the names of their entry points. One that cannot be used is left out with a warning that names its package;
two that bring the same name are an error, since either could be meant. The variable ASCENDSIM_PLUGINS decides
otherwise: "off" leaves all out, "strict" makes every fault an error.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from ascendsim.core.errors import InputError, PluginWarning, suggest
from ascendsim.core.version import __version__

OPERATORS, PASSES, CHIPS = "ascendsim.operators", "ascendsim.passes", "ascendsim.chips"
GROUPS = (OPERATORS, PASSES, CHIPS)
VARIABLE = "ASCENDSIM_PLUGINS"
MODES = ("on", "off", "strict")
_SOURCES = (".py", ".toml")  # what a plugin says is in these

Arguments = ParamSpec("Arguments")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point of an installed package.

    Attributes:
        group: What it extends: one of `GROUPS`.
        name: Of the entry point.
        package, version: Who brings it.
    """

    group: str
    name: str
    package: str
    version: str

    def __str__(self) -> str:
        return f"{self.name!r} of package {self.package} {self.version}"


@dataclass(frozen=True, slots=True)
class State:
    """What became of a plugin.

    Attributes:
        gives: Names of what it brings.
        problem: Why it is left out; empty if it is not.
    """

    plugin: Plugin
    gives: tuple[str, ...] = ()
    problem: str = ""


_caches: list[Any] = []
_states: dict[str, tuple[State, ...]] = {}  # by group, of those that have been read


def remembered(function: Callable[Arguments, T]) -> Callable[Arguments, T]:
    """The function with its result kept until `forget`."""
    kept = cache(function)
    _caches.append(kept)
    return cast(Callable[Arguments, T], kept)


def forget() -> None:
    """Looks for packages anew at the next use: for processes that install some while they run."""
    _states.clear()
    for kept in _caches:
        kept.cache_clear()


def mode() -> str:
    """What ASCENDSIM_PLUGINS says: one of `MODES`.

    Raises:
        InputError: If it says something else.
    """
    text = os.environ.get(VARIABLE) or "on"
    if text not in MODES:
        rule = f"must be one of {', '.join(MODES)}"
        raise InputError(f"variable {VARIABLE}", rule, repr(text), suggest(text, MODES))
    return text


def installed() -> tuple[Plugin, ...]:
    """The plugins of all groups; none where they are off.

    Raises:
        InputError: If two of a group have one name.
    """
    return () if mode() == "off" else tuple(plugin for group in GROUPS for plugin, _ in _entries(group))


def load(group: str, checked: Callable[[object], Mapping[str, T]]) -> dict[str, T]:
    """What the plugins of a group bring, by name. Callers remember the result (`remembered`).

    Args:
        group: One of `GROUPS`.
        checked: Takes what an entry point names apart; raises an error if it is not what the group asks for.

    Raises:
        InputError: If two bring the same name, or one cannot be used and the mode is strict.
    """
    how = mode()
    found: dict[str, T] = {}
    owners: dict[str, Plugin] = {}
    states: list[State] = []
    for plugin, entry in _entries(group) if how != "off" else ():
        problem = _requirement_problem(entry)
        brought: Mapping[str, T] = {}
        if not problem:
            try:
                brought = checked(entry.load())
            except (Exception, SystemExit) as error:
                problem = f"{type(error).__name__}: {error}"
        if problem and how == "strict":
            raise InputError(f"plugin {plugin}", f"cannot be used: {problem}", remedy=_remedy(plugin))
        if problem:
            # No error: what the user asked for may have nothing to do with this package.
            warnings.warn(f"plugin {plugin} is left out: {problem}", PluginWarning, stacklevel=3)
        for name in brought:
            if name in owners:
                raise _twice(f"{name!r} of group {group}", owners[name], plugin)
            owners[name] = plugin
        found.update(brought)
        states.append(State(plugin, tuple(brought), problem))
    _states[group] = tuple(states)
    return found


def states() -> tuple[State, ...]:
    """What became of the plugins of the groups that have been read so far."""
    return tuple(state for group in GROUPS for state in _states.get(group, ()))


def versions() -> dict[str, str]:
    """Version by package, of those whose plugins may have had a part in a result: what reports and saved
    models name.
    """
    broken = {state.plugin for state in states() if state.problem}
    return dict(sorted({p.package: p.version for p in installed() if p not in broken}.items()))


def fingerprint() -> str:
    """A hash of the plugins with the sources of their packages, for keys of results that are kept; empty if
    there are none.
    """
    here = installed()
    return _fingerprint(here) if here else ""


@remembered
def _fingerprint(plugins: tuple[Plugin, ...]) -> str:
    # Not the versions alone: a package that its author works on keeps its version while its rules change.
    digest = hashlib.sha256(repr(plugins).encode())
    tops = {entry.module.partition(".")[0] for group in GROUPS for _, entry in _entries(group)}
    for top in sorted(tops):
        for path in _sources(top):
            digest.update(f"{top} {path.name}".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources(top: str) -> Iterator[Path]:
    """The files of a package or module, which is not run for that."""
    spec = find_spec(top)
    folders = (spec.submodule_search_locations or ()) if spec is not None else ()
    for folder in folders:
        yield from sorted(path for path in Path(folder).rglob("*") if path.suffix in _SOURCES)
    if spec is not None and not folders and spec.origin is not None and Path(spec.origin).is_file():
        yield Path(spec.origin)


@remembered
def _entries(group: str) -> tuple[tuple[Plugin, EntryPoint], ...]:
    """Plugins with their entry points, by name."""
    found: dict[str, tuple[Plugin, EntryPoint]] = {}
    for entry in sorted(entry_points(group=group), key=lambda each: each.name):
        package = entry.dist.metadata["Name"] if entry.dist is not None else None
        version = entry.dist.version if entry.dist is not None else None
        plugin = Plugin(group, entry.name, package or "unknown", version or "unknown")
        if entry.name in found:
            raise _twice(f"plugin {entry.name!r} of group {group}", found[entry.name][0], plugin)
        found[entry.name] = (plugin, entry)
    return tuple(found.values())


def _requirement_problem(entry: EntryPoint) -> str:
    """Why a package does not fit this release by its own word; empty if it does."""
    for text in _requires(entry):
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue
        if canonicalize_name(wanted.name) == "ascendsim" and not wanted.specifier.contains(__version__, True):
            return f"it needs {wanted}, this is {__version__}"
    return ""


def _requires(entry: EntryPoint) -> Iterable[str]:
    return (entry.dist.requires or ()) if entry.dist is not None else ()


def _twice(what: str, one: Plugin, other: Plugin) -> InputError:
    rule = f"is defined twice: by package {one.package} {one.version} and by {other.package} {other.version}"
    return InputError(what, rule, remedy=f"uninstall one of them, or set {VARIABLE}=off")


def _remedy(plugin: Plugin) -> str:
    return f"repair or uninstall {plugin.package}, or set {VARIABLE}=off"
