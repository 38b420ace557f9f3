"""What blocks of vector work do to the byte, against numpy on whole tensors.

Values are small whole numbers, so that sums are exact in float16. What the vector unit computes stands in the
test: a weighted sum of all streams, and where in the iteration space it is told to be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import CompileError
from ascendsim.core.formats import Format
from ascendsim.isa.notes import Kernel
from ascendsim.lower.templates.stage import Stage
from ascendsim.lower.templates.steps import Expansion
from ascendsim.lower.templates.vector import lower_vector
from ascendsim.opset.work import Over, Step, Stream, VectorWork
from ascendsim.runtime.storage import logical, stored
from ascendsim.soc import SocSpec, load
from tests.support.lowering import ref
from tests.support.noted_stages import like_box, matrix_of, run, tells_all, transfers_of

Array = NDArray[Any]
CHIPS = ("Ascend310", "Ascend310P3", "Ascend910A", "Ascend910B1")
FULL, NARROW = DType.FLOAT32, DType.FLOAT16


def random_work(random: Random) -> VectorWork:
    """Work on tensors of every form, with results on whole tiles or one a row."""
    format = random.choice((Format.ND, Format.ND, Format.NC1HWC0, Format.FRACTAL_NZ))
    rows, cols, images = random.randint(1, 90), random.randint(1, 120), 1
    whole: tuple[int, ...] = (rows, cols)
    if format is Format.NC1HWC0:
        images, cols = random.randint(1, 3), 16 * random.randint(1, 6)
        high, wide = random.randint(1, 6), random.randint(1, 9)
        channels = cols - random.choice((0, 0, random.randint(1, 15)))
        rows, whole = images * high * wide, (images, channels, high, wide)
    elif format is Format.FRACTAL_NZ:
        images, high, cols = random.randint(1, 3), 16 * random.randint(1, 3), 16 * random.randint(1, 6)
        rows, whole = images * high, (images, high, cols)
    kind = random.choice((NARROW, NARROW, FULL)) if format is Format.ND else NARROW
    values = (whole[1] if format is Format.NC1HWC0 else cols,)
    shapes: dict[Over, tuple[int, ...]] = {"all": whole, "row": (rows,), "col": values, "one": (1,)}

    def stream(name: str, over: Over) -> Stream:
        dtype = kind if over == "all" or random.random() < 0.7 else random.choice((FULL, NARROW))
        return Stream(ref(name, shapes[over], format if over == "all" else Format.ND, dtype), over)

    inputs = [stream("x", "all")]
    inputs += [
        stream(f"z{n}", random.choice(("all", "row", "col", "one"))) for n in range(random.randint(0, 3))
    ]
    reduces = random.choice(("none", "none", "cols"))
    results: list[Over] = ["all"] if reduces == "none" else random.choice([["row"], ["all"], ["all", "row"]])
    outputs = [stream(f"y{number}", over) for number, over in enumerate(results)]
    steps = [Step(random.choice(("vadd", "vmul", "vrelu")), kind) for _ in range(random.randint(1, 3))]
    if reduces != "none":
        steps.append(Step("vcadd", kind))
    return VectorWork(rows, cols, tuple(steps), tuple(inputs), tuple(outputs), reduces)  # type: ignore[arg-type]


@cache
def stages(count: int = 60) -> tuple[tuple[VectorWork, SocSpec, Stage], ...]:
    """Programs that say what they do; UB is small, so that there are several tiles, and cores have shares."""
    random, found = Random(11), []
    while len(found) < count:
        work = random_work(random)
        chip = load(random.choice(CHIPS))
        few = random.choice((1, 2, 3))
        more = {"vector_cores": few} if chip.split_cores else {}
        soc = load(chip.name, {"ai_cores": few, "buffers.ub": random.choice((4, 8, 24)) << 10, **more})
        work = replace(work, cores=random.choice(("worthwhile", "shares")))
        try:
            stage = lower_vector(work, soc, Expansion(soc, noted=True))
        except CompileError as error:  # not even one row fits
            if "UB" not in str(error):
                raise
            continue
        if tells_all(stage):
            found.append((work, soc, stage))
    return tuple(found)


def values(stream: Stream, random: np.random.Generator) -> Array:
    return random.integers(0, 8, stream.ref.shape).astype(stream.ref.dtype.numpy)


def in_rows(values: Array, stream: Stream, work: VectorWork) -> Array:
    """A stream over the whole iteration space, row by row; columns of channels that fill a block up are 0."""
    if stream.over in ("row", "one"):
        return np.broadcast_to(values.reshape(-1, 1), (work.rows, work.cols))
    if stream.over == "col":
        values = np.broadcast_to(values, (work.rows, values.size))
    elif stream.ref.format is Format.NC1HWC0:
        values = values.transpose(0, 2, 3, 1)
    there = values.reshape(work.rows, -1)
    return np.pad(there, ((0, 0), (0, work.cols - there.shape[1])))


def sums(streams: Sequence[Array]) -> Array:
    """What is computed on an element: each stream counts otherwise."""
    return sum(
        weight * stream.astype(np.int64) for weight, stream in zip((1, 3, 9, 27), streams, strict=False)
    )  # type: ignore[return-value]


def place(row: Any, column: Any) -> Any:
    """A number for a place in the iteration space."""
    return row % 7 * 11 + column % 11


def counts_places(work: VectorWork) -> bool:
    """Whether blocks know of rows and columns; else all elements lie in a row."""
    return work.reduces != "none" or any(stream.over in ("row", "col") for stream in work.inputs)


class VectorUnit:
    """What is computed on a tile, and how many tiles there were."""

    def __init__(self, work: VectorWork) -> None:
        self.work, self.tiles = work, 0

    def __call__(self, kernel: Kernel, arrays: Sequence[Array]) -> Array:
        self.tiles += 1
        parts = []
        for part, array in zip(kernel.sources, arrays, strict=True):
            if part.over == "all":
                parts.append(matrix_of(array).reshape(kernel.rows, -1))
                continue
            line = np.zeros(part.count)
            line[: len(array)] = array
            parts.append(line.reshape({"row": (-1, 1), "col": (1, -1), "one": (1, 1)}[part.over]))
        made = sums(parts)
        if counts_places(self.work):
            rows, columns = np.indices(parts[0].shape)
            made = made + place(rows + kernel.first[0], columns + kernel.first[1])
        if kernel.target.over == "row":
            made = made.max(axis=1, keepdims=True)
        assert made.shape == (kernel.rows, kernel.columns)
        assert kernel.whole_rows == (self.work.reduces == "cols")
        return like_box(made, kernel)


def test_blocks_make_of_every_element_what_numpy_makes_of_the_whole() -> None:
    random, seen = np.random.default_rng(0), set()
    for work, soc, stage in stages():
        inputs = {stream.ref.region: values(stream, random) for stream in work.inputs}
        full = sums([in_rows(inputs[stream.ref.region], stream, work) for stream in work.inputs])
        if counts_places(work):
            full = full + place(*np.indices(full.shape))
        unit = VectorUnit(work)
        given = {
            stream.ref.region: stored(inputs[stream.ref.region], stream.ref.format) for stream in work.inputs
        }
        made = {
            stream.ref.region: stored(np.zeros(stream.ref.shape, stream.ref.dtype.numpy), stream.ref.format)
            for stream in work.outputs
        }
        run(stage, soc, given, made, unit)
        for stream in work.outputs:
            found = logical(made[stream.ref.region], stream.ref.shape, stream.ref.format)
            if stream.over == "row":
                np.testing.assert_array_equal(found, full.max(axis=1), str(work))
                continue
            there = found.shape[1] if stream.ref.format is Format.NC1HWC0 else work.cols
            np.testing.assert_array_equal(in_rows(found, stream, work)[:, :there], full[:, :there], str(work))
            seen.add(("padded", there < work.cols))
        blocks = sum(group.count for group in stage.groups)
        seen |= {
            (work.inputs[0].ref.format, blocks > 1, unit.tiles > blocks),
            *[one.over for one in work.inputs],
        }
        seen |= {len(work.outputs), work.reduces, len(given["x"].shape) > 2 and given["x"].shape[0] > 1}
    forms = {(format, True, True) for format in (Format.ND, Format.NC1HWC0, Format.FRACTAL_NZ)}
    assert forms | {"all", "row", "col", "one", 1, 2, "none", "cols", ("padded", True)} <= seen


def test_what_is_timed_are_the_bytes_that_are_told() -> None:
    """But in several maps or matrices in blocks, which are timed as if they were one."""
    seen = set()
    for work, _, stage in stages():
        whole = work.inputs[0].ref
        if whole.format is not Format.ND and whole.shape[0] > 1 and len(whole.shape) > 2:
            continue
        overs = {stream.ref.region: stream.over for stream in (*work.inputs, *work.outputs)}
        for region, _, timed, told in transfers_of(stage):
            assert timed[0] <= told[0] < told[1] <= timed[1], (region, timed, told, work)
            seen |= {(whole.format, timed == told), overs[region]}
    forms = {(format, True) for format in (Format.ND, Format.NC1HWC0, Format.FRACTAL_NZ)}
    assert forms | {"all", "row", "col", "one"} <= seen
