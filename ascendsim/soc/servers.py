"""Servers: how many devices they have and how fast the links between them are, with sources as chips have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from ascendsim.core.errors import InputError, SocError, suggest
from ascendsim.soc.figures import DATA, figures_of, read_toml, references_of

SERVERS = DATA / "servers"


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server.

    Attributes:
        name: As people call it.
        short_name: Of the chips that it has (`SocSpec.short_name`).
        devices: Chips in it.
        mesh_devices: Chips of a group in which each has a link to each.
        most_servers: Servers that can work together.
        hccs_gb_per_s: One link of a group, one direction.
        pcie_gb_per_s: From one group to another, one direction.
        network_gb_per_s: From a device to one in another server, one direction.
        step_us: Fixed time of a step inside a server (HCCL's alpha).
        network_step_us: The same between servers.
        reduce_gb_per_s: Rate at which a device adds what arrives (HCCL's 1 / gamma).
        sources, assumed: As in `SocSpec`.
    """

    name: str
    short_name: str
    devices: int
    mesh_devices: int
    most_servers: int
    hccs_gb_per_s: float
    pcie_gb_per_s: float
    network_gb_per_s: float
    step_us: float
    network_step_us: float
    reduce_gb_per_s: float
    sources: Mapping[str, str] = field(default_factory=dict)
    assumed: frozenset[str] = frozenset()

    def groups_of(self, devices: int) -> tuple[int, int]:
        """Devices in each server, and servers, for a number of devices.

        Raises:
            InputError: If there is no such arrangement: part of a server must be a divisor of its devices, so
                that groups stay equal; more than one server are whole ones.
        """
        if devices <= self.devices and self.devices % devices == 0:
            return devices, 1
        servers, rest = divmod(devices, self.devices)
        if servers and not rest and servers <= self.most_servers:
            return self.devices, servers
        parts = ", ".join(str(count) for count in range(1, self.devices + 1) if self.devices % count == 0)
        most = self.devices * self.most_servers
        rule = f"must be one of {parts} or a multiple of {self.devices} up to {most} on {self.name}"
        raise InputError("option devices", rule, devices, "choose one of these")


def server_for(devices: int, server: str | PathLike[str] | None, short_name: str) -> ServerSpec:
    """The server that several chips train in.

    Args:
        devices: How many.
        server: A name, or the path of a TOML file.
        short_name: Of the chip.

    Raises:
        InputError: If none is given, it has no place for so many, or has other chips.
    """
    if server is None:
        raise InputError("option devices", "needs a server", remedy=f"server={server_names()[0]!r}")
    spec = load_server(server)
    spec.groups_of(devices)
    if spec.short_name != short_name:
        rule = f"must have chips of the model ({short_name})"
        raise InputError(f"server {spec.name!r}", rule, spec.short_name, "compile for its chip")
    return spec


def server_names() -> tuple[str, ...]:
    """Names of the built-in servers, sorted."""
    return tuple(sorted(path.stem.replace("_", " ") for path in SERVERS.glob("*.toml")))


def load_server(name_or_path: str | PathLike[str]) -> ServerSpec:
    """Loads a server.

    Args:
        name_or_path: A built-in name, or the path of a TOML file in the same form (a path ends in .toml).

    Raises:
        SocError: If the server is unknown or its file breaks a rule; the message names file and key.
    """
    text = str(name_or_path)
    if text.endswith(".toml"):
        return _read(Path(text))
    if text not in server_names():
        remedy = suggest(text, server_names()) + " (a file of your own ends in .toml)"
        raise SocError(f"server {text!r}", "is unknown", remedy=remedy)
    return _built_in(text)


@cache
def _built_in(name: str) -> ServerSpec:
    return _read(SERVERS / f"{name.replace(' ', '_')}.toml")


def _read(path: Path) -> ServerSpec:
    document, where = read_toml(path), path.name
    references = references_of(document, where)
    found = dict(figures_of(document, "", where, references, ServerSpec))
    values: dict[str, Any] = {key: figure.value for key, figure in found.items()}
    for rule in fields(ServerSpec):
        if rule.name not in ("sources", "assumed") and values.get(rule.name) is None:
            raise SocError(
                f"{where}: key {rule.name}", "is missing", remedy="a server needs all of its figures"
            )
    spec = ServerSpec(
        **values,
        sources={key: figure.source for key, figure in found.items() if figure.source},
        assumed=frozenset(key for key, figure in found.items() if figure.assumed),
    )
    if spec.devices % spec.mesh_devices:
        raise SocError(
            f"{where}: key mesh_devices", f"must divide devices ({spec.devices})", spec.mesh_devices
        )
    return spec
