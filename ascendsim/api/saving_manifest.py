"""What a saved model holds besides graph and weights, and how its program is made again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ascendsim.api.saving_codec import decode, encode
from ascendsim.compiler.model import CompiledModel
from ascendsim.core import plugins
from ascendsim.core.errors import InputError
from ascendsim.core.version import __version__
from ascendsim.graph.ir import Graph
from ascendsim.isa.program import MODES, Program
from ascendsim.lower import LowerOptions, lower_graph
from ascendsim.lower.memory import MemoryOptions
from ascendsim.lower.streams import StreamOptions
from ascendsim.lower.tiling_search import TILING
from ascendsim.ops.fused.chain import chain_work
from ascendsim.opset import OpSet
from ascendsim.soc import SocSpec

FORMAT = "ascendsim compiled model"
VERSION = 2  # 1: without plugins, and still written where there are none


@dataclass(frozen=True, slots=True)
class Lowering:
    """How the graph was lowered: `LowerOptions` without what is the same for all models."""

    aicpu_types: frozenset[str]
    flags: Mapping[str, object]
    memory: MemoryOptions
    streams: StreamOptions


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant.

    Attributes:
        dtype, shape: Of its values.
        offset: Of their first byte in the entry of all weights; -1 if there are none.
        absent: Why there are none.
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int
    absent: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of manifest.json.

    Attributes:
        format, version: Of the file.
        made_by: Release that wrote it.
        soc: The chip, changes applied.
        lowering: How the graph was lowered.
        mode: Who launches tasks.
        l2_placed, l2_kept: Regions that L2 fusion placed.
        origins: Facts about nodes that are not part of the graph's text: scopes, names in the source, tilings
            that were picked.
        weights: Constants, in the order of the graph's text.
        program: Hash of the program.
        plugins: Versions of the packages that extended the release, by name.
    """

    format: str
    version: int
    made_by: str
    soc: SocSpec
    lowering: Lowering
    mode: str
    l2_placed: tuple[str, ...]
    l2_kept: tuple[str, ...]
    origins: Mapping[str, Mapping[str, object]]
    weights: tuple[Weight, ...]
    program: str
    plugins: Mapping[str, str]


def manifest_of(model: CompiledModel, weights: tuple[Weight, ...]) -> Manifest:
    """The manifest of a model."""
    program, options, extended_by = model.program, model.lowering, plugins.versions()
    return Manifest(
        format=FORMAT,
        version=VERSION if extended_by else 1,
        made_by=__version__,
        soc=model.soc,
        lowering=Lowering(options.aicpu_types, options.flags, options.memory, options.streams),
        mode=program.mode,
        l2_placed=program.info.l2_placed,
        l2_kept=program.info.l2_kept,
        origins=_origins(model),
        weights=weights,
        program=program_hash(program),
        plugins=extended_by,
    )


def written(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON, in the oldest version of the format that can say it."""
    data: dict[str, Any] = encode(manifest)
    if manifest.version == 1:
        del data["plugins"]
    return data


def checked_manifest(data: Any, subject: str) -> Manifest:
    """The manifest from parsed JSON.

    Raises:
        InputError: If it is of another format or a newer version, or something in it is missing or of another
            type.
    """
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("version"), int):
        raise InputError(subject, "is no saved model of ascendsim", remedy="see asim.save")
    if data["version"] > VERSION:
        rule = f"has version {data['version']} of the format, this release reads up to {VERSION}"
        raise InputError(subject, rule, remedy="use a newer release of ascendsim")
    manifest = decode(Manifest, {"plugins": {}, **data} if data["version"] == 1 else data, "manifest")
    if manifest.mode not in MODES:
        raise InputError("manifest.mode", f"must be one of {', '.join(MODES)}", repr(manifest.mode))
    return manifest


def differing_plugins(manifest: Manifest) -> str:
    """Packages that were there when a model was saved and are not here in the same version, as a remedy;
    empty if there are none.
    """
    here = plugins.versions()
    lacking = [
        f"{name} {version} (here {here.get(name, 'not installed')})"
        for name, version in manifest.plugins.items()
        if here.get(name) != version
    ]
    return f"it was saved with the plugins of {', '.join(lacking)}" if lacking else ""


def lowering_of(manifest: Manifest) -> LowerOptions:
    """How the graph was lowered, and is lowered again."""
    how = manifest.lowering
    return LowerOptions(how.aicpu_types, how.flags, chain_work, how.memory, how.streams)


def lowered(graph: Graph, manifest: Manifest, opset: OpSet) -> Program:
    """The program of a graph, made as the manifest says.

    Raises:
        CompileError: If the graph cannot be lowered for the chip.
    """
    program = lower_graph(graph, manifest.soc, opset, options=lowering_of(manifest))
    placed = program.noting(l2_placed=manifest.l2_placed, l2_kept=manifest.l2_kept)
    return replace(placed, mode=manifest.mode)


def program_hash(program: Program) -> str:
    """A hash of all that decides time and values: tasks with their blocks, streams and events, memory, mode
    and placement in L2.
    """
    digest = hashlib.sha256(program.mode.encode())
    blocks: dict[int, str] = {}
    for task in program.tasks:
        plain = (
            task.id,
            task.name,
            task.kind,
            task.stream,
            task.waits_for,
            task.cpu_us,
            task.fused,
            task.accesses,
        )
        digest.update(repr(plain).encode())
        for group in task.groups:
            block = group.block
            if id(block) not in blocks:
                blocks[id(block)] = repr((block.body, block.allocations, block.flags, block.core))
            digest.update(f"{group.count} {blocks[id(block)]}".encode())
    for name in sorted(program.memory.regions):
        digest.update(repr(program.memory.regions[name]).encode())
    placed = [sorted(program.info.l2_placed), sorted(program.info.l2_kept)]
    digest.update(repr((program.memory.peak_bytes, program.memory.weight_bytes, placed)).encode())
    return digest.hexdigest()


def origins_restored(graph: Graph, origins: Mapping[str, Mapping[str, object]]) -> None:
    """Gives the nodes of a graph the facts about them that its text leaves out.

    Raises:
        GraphError: If the graph does not have a node.
    """
    for name, facts in origins.items():
        graph.node(name).origin.update(facts)


def _origins(model: CompiledModel) -> dict[str, dict[str, object]]:
    """What is known of nodes besides the graph, and for the first node of a task which of several tilings it
    has.
    """
    tilings = model.program.info.tilings
    facts = {node.name: _plain(node.origin) for node in model.graph.nodes}
    facts.update({name: {**facts[name], TILING: option} for name, option in tilings.items()})
    return {name: known for name, known in facts.items() if known}


def _plain(origin: Mapping[str, Any]) -> dict[str, object]:
    """Facts that are numbers, text or sequences of text; others served passes that are over."""
    return {
        key: value
        for key, value in origin.items()
        if isinstance(value, bool | int | str)
        or (isinstance(value, tuple) and all(isinstance(item, str) for item in value))
    }
