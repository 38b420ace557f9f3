"""The plan of device memory: first fit by life time.

Regions live from the first to the last task that uses them (inclusive, so that a task's outputs never overlap its inputs). Graph
inputs and outputs live for the whole run, weights lie behind the arena of all others. A region that is another name of a tensor
(reshape), or a slice of one (parts of a Concat that are written in place), shares its bytes and prolongs its life.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format, align
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.isa.program import MemoryPlan, Region

ALIGNMENT = 512


@dataclass(frozen=True, slots=True)
class Life:
    """A piece of memory to place.

    Attributes:
        first, last: Task numbers of first and last use.
    """

    name: str
    bytes: int
    first: int
    last: int


def first_fit(lives: Iterable[Life]) -> tuple[dict[str, int], int]:
    """Places pieces in order of their first use, each at the lowest free address.

    Returns:
        Offsets by name, and the end of the arena.
    """
    placed: dict[str, int] = {}
    active: list[tuple[int, int, int]] = []  # offset, end, last use; ordered by offset
    peak = 0
    for life in sorted(lives, key=lambda item: (item.first, -item.bytes, item.name)):
        active = [item for item in active if item[2] >= life.first]
        size = align(life.bytes, ALIGNMENT)
        offset = 0
        for start, end, _ in active:
            if offset + size <= start:
                break
            offset = max(offset, end)
        placed[life.name] = offset
        if size:
            insort(active, (offset, offset + size, life.last))
            peak = max(peak, offset + size)
    return placed, peak


def plan_memory(
    graph: Graph,
    uses: Sequence[Iterable[str]],
    aliases: Mapping[str, str],
    workspaces: Mapping[str, int],
    cuts: Mapping[str, tuple[int, int]] | None = None,
    internal: Collection[str] = (),
) -> MemoryPlan:
    """Places every tensor and workspace.

    Args:
        graph: The compiled graph.
        uses: By task id: names of all regions that the task's node (or program) reads or writes.
        aliases: Name of a tensor -> name of the tensor whose memory it is.
        workspaces: Bytes of scratch regions by name.
        cuts: Aliases that are slices: logical axis, and index of the first element along it.
        internal: Tensors that never leave the Unified Buffer of a fused task: they get no memory.
    """
    cuts = cuts or {}
    end = max(0, len(uses) - 1)

    def root(name: str) -> str:
        seen = {name}
        while name in aliases and aliases[name] not in seen:
            name = aliases[name]
            seen.add(name)
        return name

    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for task, names in enumerate(uses):
        for name in names:
            for one in {name, root(name)}:
                first.setdefault(one, task)
                last[one] = task
    sizes = {
        name: tensor.storage_bytes
        for name, tensor in graph.tensors.items()
        if tensor.is_static and tensor.dtype is not None and name not in internal
    }
    kinds: dict[str, str] = {}
    for name, tensor in graph.tensors.items():
        if name in sizes:
            kinds[name] = "weight" if tensor.is_constant else "activation"
    for tensor in graph.inputs:
        kinds[tensor.name] = "input"
    for tensor in graph.outputs:
        kinds[tensor.name] = "weight" if tensor.is_constant else "output"
        if tensor.name in aliases and kinds[root(tensor.name)] == "activation":
            kinds[root(tensor.name)] = "output"
    for name, bytes in workspaces.items():
        sizes[name], kinds[name] = bytes, "workspace"
    grown: dict[str, int] = {}  # a root must hold the largest of its names (formats may pad differently)
    for name, bytes in sizes.items():
        grown[root(name)] = max(bytes, grown.get(root(name), 0))
    lives, constants = [], []
    for name in sizes:
        if name in aliases:
            continue
        if kinds[name] == "weight":
            constants.append(name)
            continue
        whole = kinds[name] in ("input", "output")
        lives.append(Life(name, grown[name], 0 if whole else first.get(name, 0), end if whole else last.get(name, first.get(name, 0))))
    offsets, peak = first_fit(lives)
    at = peak
    for name in constants:
        offsets[name] = at
        at += align(grown[name], ALIGNMENT)
    bounds = {life.name: (life.first, life.last) for life in lives}

    def address(name: str) -> int:
        if name not in aliases:
            return offsets[name]
        inside = slice_offset(graph.tensors[aliases[name]], *cuts[name]) if name in cuts else 0
        return address(aliases[name]) + inside

    regions: dict[str, Region] = {}
    for name, bytes in sizes.items():
        home = root(name)
        begin, until = bounds.get(home, (0, end))
        size = bytes if name in aliases else grown[name]
        regions[name] = Region(name, address(name), size, kinds[name], aliases.get(name), begin, until, cuts.get(name))
    return MemoryPlan(regions, peak, at - peak)


def slice_offset(whole: Tensor, axis: int, first: int) -> int:
    """Bytes from the start of a tensor to the first element of a slice; slices of NC1HWC0 along channels start at a block.

    Raises:
        CompileError: If the format does not store slices along the axis in one piece an outer index.
    """
    stored, itemsize = whole.storage_shape, whole.element_type.itemsize
    stacked = whole.format is Format.NC1HWC0 or (whole.format is Format.FRACTAL_NZ and len(stored) > 4)
    if axis == 0 and stacked:
        return first * math.prod(stored[1:]) * itemsize
    if whole.format is Format.NC1HWC0 and axis == 1:
        block = stored[-1]
        if first % block == 0:
            return first // block * math.prod(stored[2:]) * itemsize
    elif whole.format in (Format.ND, Format.NCHW):
        return first * math.prod(stored[axis + 1 :]) * itemsize
    raise CompileError(
        f"tensor {whole.name!r}", f"cannot be cut along axis {axis} at {first} in {whole.format.value}", remedy="please report this"
    )
