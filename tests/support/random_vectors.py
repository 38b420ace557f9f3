"""Random vector work on chips with one core: elementwise, broadcasting, reducing along rows or over them,
row-major and blocked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format, align
from ascendsim.isa.program import Block
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import Over, Step, Stream, VectorWork
from ascendsim.soc import SocSpec, load
from tests.support.lowering import ref

CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")
FULL, NARROW = DType.FLOAT32, DType.FLOAT16


@dataclass(frozen=True)
class VectorProgram:
    """Work and the program of the one core of a chip, whose share is everything."""

    soc: SocSpec
    work: VectorWork
    block: Block
    sizes: Mapping[str, int]

    @property
    def steps(self) -> tuple[Step, ...]:
        """As the chip has them."""
        return Expansion(self.soc).expand(self.work.steps)

    def room(self, name: str) -> int:
        """Bytes of one slot of an allocation, 0 if there is none."""
        return next(
            (allocation.slot_bytes for allocation in self.block.allocations if allocation.name == name), 0
        )


@cache
def vector_programs(count: int = 120) -> tuple[VectorProgram, ...]:
    """Programs of random work; always the same."""
    random, found = Random(5), []
    for number in range(count):
        chip = CHIPS[number % len(CHIPS)]
        soc = load(chip, {"ai_cores": 1} | ({"vector_cores": 1} if load(chip).split_cores else {}))
        work = planes(random) if number % 10 == 9 else vector_work(random)
        stage = lower_vector(work, soc, Expansion(soc))
        (group,) = stage.groups
        found.append(VectorProgram(soc, work, group.block, stage.sizes))
    return tuple(found)


def vector_work(random: Random) -> VectorWork:
    """Work whose first input is x and whose result is y."""
    rows, cols = extent(random), extent(random)
    reduces = random.choice(("none", "none", "cols", "rows"))
    format, kind = (
        random.choice((Format.ND, Format.ND, Format.NC1HWC0, Format.FRACTAL_NZ)),
        random.choice((NARROW, NARROW, FULL)),
    )
    whole: tuple[int, ...] = (rows, cols)
    if format is Format.NC1HWC0:
        cols, kind = align(min(cols, 600), 16), NARROW
        whole = (1, cols, 1, rows)
    elif format is Format.FRACTAL_NZ:
        rows, cols, kind = align(rows, 16), align(cols, 16), NARROW
        whole = (rows, cols)
    if reduces == "cols" and format is Format.ND and random.random() < 0.3:
        rows, cols = random.randint(1, 3), random.randint(100_000, 200_000)  # rows that do not fit into UB
        whole = (rows, cols)
    shapes: dict[Over, tuple[int, ...]] = {"all": whole, "row": (rows,), "col": (cols,), "one": (1,)}

    def stream(name: str, over: Over) -> Stream:
        return Stream(ref(name, shapes[over], format if over == "all" else Format.ND, kind), over)

    overs: list[Over] = [random.choice(("all", "row", "col", "one")) for _ in range(random.randint(0, 2))]
    inputs = (stream("x", "all"), *(stream(f"z{number}", over) for number, over in enumerate(overs)))
    results: dict[str, tuple[Over, ...]] = {"none": ("all",), "cols": ("row", "all"), "rows": ("col",)}
    inside = random.choice((kind, kind, FULL))
    steps = [Step(random.choice(("vadd", "vmul", "vrelu")), inside) for _ in range(random.randint(1, 4))]
    if reduces != "none":
        steps.append(Step("vcadd" if reduces == "cols" else "vadd", inside))
    sweeps = random.choice((1, 3)) if reduces == "cols" else 1
    output = stream("y", random.choice(results[reduces]))
    return VectorWork(rows, cols, tuple(steps), inputs, (output,), reduces, sweeps)  # type: ignore[arg-type]


def planes(random: Random) -> VectorWork:
    """Sums over the positions of a map."""
    images, channels, height, width = (
        random.randint(1, 4),
        random.randint(1, 300),
        random.randint(1, 60),
        random.randint(1, 60),
    )
    x, y = (
        ref("x", (images, channels, height, width), Format.NC1HWC0),
        ref("y", (images, channels, 1, 1), Format.NC1HWC0),
    )
    steps = (
        Step("vconv", FULL),
        Step("vmuls", FULL),
        Step("vadd", FULL, lanes=16),
        Step("vconv", FULL, "col"),
    )
    columns = x.bytes // (2 * height * width)
    return VectorWork(height * width, columns, steps, (Stream(x),), (Stream(y, "col"),), "rows", planes=True)


def extent(random: Random) -> int:
    """A length of an axis: tiny, short or long."""
    return random.choice((1, random.randint(1, 20), random.randint(1, 300), random.randint(1, 3000)))
