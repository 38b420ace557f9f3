"""What a template returns: blocks for one task, and how shares of work become groups of equal blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product as combinations

from ascendsim.core.formats import BLOCK_BYTES, TRANSACTION_BYTES
from ascendsim.core.records import quickly_made
from ascendsim.isa.instructions import ZERO, Affine, Buffer, Operand, Scalar
from ascendsim.isa.notes import Origin
from ascendsim.isa.program import BlockGroup, CoreKind, TaskKind
from ascendsim.lower.emit import BlockBuilder
from ascendsim.opset.work import AiCpuWork, LinkWork, Ref
from ascendsim.soc.spec import SocSpec


@dataclass(frozen=True, slots=True)
class Stage:
    """One task's worth of blocks.

    Attributes:
        sizes: By region: bytes of it that the stage can touch at all.
        option: Which of the tilings that were worth a look it has, by the closed form's rank; -1 = there was
            no choice.
        cpu: What an AI CPU does, in a stage without blocks.
        link: What the links between devices do, in a stage without blocks.
        inside: Scratch memory that the stage writes before it reads it: nothing of it comes from DRAM.
    """

    groups: tuple[BlockGroup, ...]
    kind: TaskKind = TaskKind.AI_CORE
    sizes: Mapping[str, int] = field(default_factory=dict)
    option: int = -1
    cpu: AiCpuWork | None = None
    link: LinkWork | None = None
    inside: frozenset[str] = frozenset()

    @property
    def core(self) -> CoreKind | None:
        """The kind of core that its blocks need; None for an AI CPU."""
        return self.groups[0].block.core if self.groups else None


def work_out_tiling(b: BlockBuilder, parts: int) -> None:
    """What a core does first in a kernel for open shapes (`KernelSpec.tiling_ns`), one of so many."""
    kernels = b.soc.kernels
    cycles = round((kernels.tiling_ns + kernels.core_code_ns * parts) * b.soc.vector_frequency_mhz / 1000)
    if cycles:
        b.emit(Scalar(cycles, "tiling and code"))


def fetch_code(b: BlockBuilder, parts: int) -> None:
    """What a core does first in a kernel of long code (`KernelSpec.long_code_ns`), one of so many."""
    cycles = round(b.soc.kernels.long_code_ns * parts * b.soc.vector_frequency_mhz / 1000)
    if cycles:
        b.emit(Scalar(cycles, "code"))


def start_turning(b: BlockBuilder) -> None:
    """What a core with work does first in TransData (`KernelSpec.transdata_start_ns`)."""
    cycles = round(b.soc.kernels.transdata_start_ns * b.soc.vector_frequency_mhz / 1000)
    if cycles:
        b.emit(Scalar(cycles, "tiling"))


def vector_core(soc: SocSpec) -> tuple[CoreKind, TaskKind]:
    """Where vector work runs."""
    return (CoreKind.VECTOR, TaskKind.AI_VECTOR_CORE) if soc.split_cores else (CoreKind.AI, TaskKind.AI_CORE)


def start_library(b: BlockBuilder) -> None:
    """What a core does first where Ascend C's matmul library multiplies (`KernelSpec.library_start_ns`)."""
    cycles = round(b.soc.kernels.library_start_ns * b.soc.frequency_mhz / 1000)
    if cycles:
        b.emit(Scalar(cycles, "matmul library"))


def core_counts(soc: SocSpec) -> dict[CoreKind, int]:
    """Cores of each kind."""
    if soc.split_cores:
        return {CoreKind.CUBE: soc.ai_cores, CoreKind.VECTOR: soc.vector_cores}
    return {CoreKind.AI: soc.ai_cores}


def sizes_of(*refs: Ref | None) -> dict[str, int]:
    """Bytes of the regions behind tensors."""
    return {ref.region: ref.bytes for ref in refs if ref is not None}


def sizes_in_all(stages: Iterable[Stage]) -> dict[str, int]:
    """Bytes of each region that stages on pieces of their own touch together; of scratch memory, that any
    does.
    """
    sizes: dict[str, int] = {}
    for stage in stages:
        for region, bytes in stage.sizes.items():
            before = sizes.get(region, 0)
            sizes[region] = max(before, bytes) if region in stage.inside else before + bytes
    return sizes


def shared(total: int, share: int) -> tuple[tuple[int, int], ...]:
    """Shares of an axis as (size, how many): equal ones and a smaller last one.

    >>> shared(10, 4)
    ((4, 2), (2, 1))
    """
    whole, tail = divmod(total, share)
    cut = ((share, whole),) if whole else ()
    return (*cut, (tail, 1)) if tail else cut


def share_groups(axes: Sequence[tuple[int, int]]) -> Iterator[tuple[tuple[int, ...], int]]:
    """All combinations of shares of several axes (total, share): sizes along each axis, and how many cores
    have them.
    """
    for combination in combinations(*(shared(total, share) for total, share in axes)):
        count = 1
        for _, times in combination:
            count *= times
        yield tuple(size for size, _ in combination), count


def share_origins(axes: Sequence[tuple[str, int, int]]) -> Iterator[tuple[Origin, ...]]:
    """By group of `share_groups`: where the share of each of its cores begins.

    Args:
        axes: Name, total and share of each axis.

    >>> list(share_origins([("m", 10, 4)]))
    [((('@m', 0),), (('@m', 4),)), ((('@m', 8),),)]
    """
    starts = []
    for name, total, share in axes:
        whole = total - total % share
        cut = [[(f"@{name}", first) for first in range(0, whole, share)], [(f"@{name}", whole)]]
        starts.append([part for part, there in zip(cut, (whole, total % share), strict=True) if there])
    for combination in combinations(*starts):
        yield tuple(combinations(*combination))


@quickly_made
@dataclass(frozen=True, slots=True)
class Tile:
    """A strided piece of a region: `bursts` pieces of `burst_bytes`, `stride` bytes apart (of a single
    burst 0).
    """

    region: str
    offset: Affine
    bursts: int
    burst_bytes: int
    stride: int = 0

    @property
    def bytes(self) -> int:
        return self.bursts * self.burst_bytes

    @property
    def aligned(self) -> bool:
        """Whether no burst crosses a 512 B boundary that it need not: all start on one, or all are parts of
        aligned pieces of 512 B.
        """
        steps = [step for _, step in self.offset.terms]
        starts = [self.offset.base, *steps, self.stride if self.bursts > 1 else 0]
        grain = (
            self.burst_bytes
            if self.burst_bytes and TRANSACTION_BYTES % self.burst_bytes == 0
            else TRANSACTION_BYTES
        )
        return all(start % grain == 0 for start in starts) or (
            self.bursts == 1 and self.burst_bytes < BLOCK_BYTES
        )

    @property
    def operand(self) -> Operand:
        """The footprint in global memory."""
        span = (self.bursts - 1) * self.stride + self.burst_bytes
        return Operand(Buffer.GM, self.region, span, self.offset)

    @classmethod
    def strided(cls, region: str, offset: Affine, bursts: int, burst_bytes: int, stride: int) -> Tile:
        """A tile whose bursts join if they touch."""
        if bursts == 1 or stride == burst_bytes:
            return cls(region, offset, 1, bursts * burst_bytes)
        return cls(region, offset, bursts, burst_bytes, stride)

    @classmethod
    def whole(cls, ref: Ref, bytes: int | None = None) -> Tile:
        """A tensor from its start."""
        return cls(ref.region, ZERO, 1, ref.bytes if bytes is None else bytes)
