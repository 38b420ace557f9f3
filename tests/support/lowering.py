"""Work objects and walks that tests of the lowering share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, storage_bytes
from ascendsim.isa.checks import check_block
from ascendsim.isa.hazards import check_hazards
from ascendsim.isa.instructions import Buffer, Loop, Mmad, Move, Statement, Vector
from ascendsim.isa.program import MemoryPlan, Program, Region, Task
from ascendsim.lower.accesses import accesses_of
from ascendsim.lower.templates.stage import Stage
from ascendsim.opset.work import ConvGeometry, CubeWork, Ref
from ascendsim.soc import SocSpec

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")


def ref(name: str, shape: tuple[int, ...], format: Format = Format.ND, dtype: DType = DType.FLOAT16) -> Ref:
    """A tensor in global memory."""
    return Ref(name, shape, dtype, format, storage_bytes(shape, format, dtype))


def matmul(m: int, k: int, n: int, soc: SocSpec, batch: int = 1, **more: object) -> CubeWork:
    """A (batched) product of float16 matrices in the chip's format."""
    format = Format.ND if soc.split_cores else Format.FRACTAL_NZ
    shapes = [(batch, *shape) if batch > 1 else shape for shape in ((m, k), (k, n), (m, n))]
    a, b, c = (ref(name, shape, format) for name, shape in zip("abc", shapes, strict=True))
    return CubeWork(m, k, n, a, b, c, batch=batch, **more)  # type: ignore[arg-type]


def convolution(
    channels: int, size: int, outputs: int, kernel: int, stride: int = 1, pad: int = 0, images: int = 1
) -> CubeWork:
    """A square 2-d convolution with bias."""
    out = (size + 2 * pad - kernel) // stride + 1
    geometry = ConvGeometry(
        images, channels, size, size, kernel, kernel, stride, stride, 1, 1, (pad,) * 4, out, out
    )
    return CubeWork(
        m=images * out * out,
        k=kernel * kernel * channels,
        n=outputs,
        a=ref("x", (images, channels, size, size), Format.NC1HWC0),
        b=ref("w", (outputs, channels, kernel, kernel), Format.FRACTAL_Z),
        out=ref("y", (images, outputs, out, out), Format.NC1HWC0),
        conv=geometry,
        bias=ref("bias", (outputs,)),
    )


def statements(body: Iterable[Statement], times: int = 1) -> Iterator[tuple[Statement, int]]:
    """Every instruction with the number of times that it runs."""
    for item in body:
        if isinstance(item, Loop):
            yield from statements(item.body, times * item.trips)
        else:
            yield item, times


def loops(body: Iterable[Statement]) -> Iterator[Loop]:
    """Every loop of a program's text."""
    for item in body:
        if isinstance(item, Loop):
            yield item
            yield from loops(item.body)


def executed(stages: Iterable[Stage]) -> Iterator[tuple[Statement, int]]:
    """Every instruction of all blocks with the number of times that it runs."""
    for stage in stages:
        for group in stage.groups:
            yield from statements(group.block.body, group.count)


def multiplied(stages: Iterable[Stage]) -> int:
    """Products on the Cube, k padded to blocks."""
    return sum(item.m * item.k * item.n * times for item, times in executed(stages) if isinstance(item, Mmad))


def moved(stages: Iterable[Stage]) -> Counter[tuple[str, bool]]:
    """Bytes by region and direction (True = written)."""
    total: Counter[tuple[str, bool]] = Counter()
    for item, times in executed(stages):
        if isinstance(item, Move) and item.dst.buffer is Buffer.GM:
            total[item.dst.name, True] += item.bytes * times
        elif isinstance(item, Move) and item.src.buffer is Buffer.GM:
            total[item.src.name, False] += item.bytes * times
    return total


def computed(stages: Iterable[Stage], op: str) -> int:
    """Elements that a vector instruction works on in all."""
    return sum(
        item.elements * item.calls * times
        for item, times in executed(stages)
        if isinstance(item, Vector) and item.op == op
    )


def verify(stages: Iterable[Stage], soc: SocSpec, limit: int = 3000) -> None:
    """Static checks, hazards of the first instructions, and conservation of bytes."""
    for stage in stages:
        assert stage.groups
        for group in stage.groups:
            assert group.count >= 1
            check_block(group.block, soc)
            check_hazards(group.block, limit)
            assert all(loop.trips > 1 for loop in loops(group.block.body)), "a loop that does not turn"
        accounted = Counter(
            {
                (access.region, access.write): access.moved_bytes
                for access in accesses_of(stage.groups, stage.sizes)
            }
        )
        assert accounted == moved([stage])


def program_of(stages: Iterable[Stage]) -> Program:
    """A program that runs the stages one after the other, its regions side by side."""
    tasks: list[Task] = []
    regions: dict[str, Region] = {}
    end = 0
    for number, stage in enumerate(stages):
        accesses = accesses_of(stage.groups, stage.sizes)
        for name, size in stage.sizes.items():
            if name not in regions:
                regions[name] = Region(name, end, size, "activation")
                end += -(-size // 512) * 512
        tasks.append(Task(number, f"task{number}", stage.kind, groups=stage.groups, accesses=accesses))
    return Program(tuple(tasks), MemoryPlan(regions, end, 0))
