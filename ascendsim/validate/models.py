"""Whole networks: simulated throughput against published measurements."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from ascendsim import soc as chips
from ascendsim.api.compiling import compile
from ascendsim.api.loading import load
from ascendsim.api.running import simulate
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.errors import AscendSimError, InputError
from ascendsim.isa.program import Program
from ascendsim.soc import SocSpec
from ascendsim.validate.points import Point
from ascendsim.validate.roofline import roofline_us
from ascendsim.validate.rows import LeftOutRow
from ascendsim.validate.score import Prediction
from ascendsim.validate.worker import start_worker

T = TypeVar("T")

AIPP = Path(__file__).parent / "data" / "aipp_rgb.cfg"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predictions of the simulator and of the roofline for the same points, in the same order."""

    simulated: tuple[Prediction, ...]
    roofline: tuple[Prediction, ...]

    @staticmethod
    def of_pairs(pairs: Sequence[tuple[Prediction, Prediction]]) -> Comparison:
        """The comparison of what `predictions` gave."""
        return Comparison(tuple(own for own, _ in pairs), tuple(base for _, base in pairs))

    def of(self, group: str) -> Comparison:
        """The part that belongs to one chip."""
        mine = [index for index, prediction in enumerate(self.simulated) if prediction.point.group == group]
        return Comparison(tuple(self.simulated[i] for i in mine), tuple(self.roofline[i] for i in mine))


def compile_point(
    point: Point, folder: Path, fusion: str = "all", values: Mapping[str, float] | None = None
) -> CompiledModel:
    """A point's network, compiled under the conditions of the published run, where these are not known as ATC
    would by default: float16, graph and UB fusion on, the whole graph on the device.

    Where the published run had its images converted by AIPP, so has this one (uint8 RGB); all others take
    float32 in NCHW.

    Args:
        point: What to compile.
        folder: Where the structure files are.
        fusion: Fusion level of `compile`.
        values: Changes to the chip by dotted key.

    Raises:
        InputError: If the structure file is missing.
    """
    changes = dict(values) if values else None
    graph = load(structure(point.file, folder), batch=point.batch)
    return compile(
        point.conditions.rewritten(graph),
        soc=point.soc,
        set=changes,
        fusion=fusion,
        insert_op_conf=AIPP if point.aipp else None,
        **point.conditions.arguments,
    )


def predictions(
    points: Sequence[Point],
    folder: Path,
    fusion: str = "all",
    values: Callable[[Point], Mapping[str, float]] | None = None,
    processes: int = 1,
    left_out: list[LeftOutRow] | None = None,
) -> Iterator[tuple[Prediction, Prediction]]:
    """The predictions of the simulator and of the roofline, each as soon as it is there: with several
    processes not in the order of the points.

    Args:
        points: What to simulate.
        folder: Where the structure files are.
        fusion: Fusion level of `compile`.
        values: Changes to the chip for a point, by dotted key; None = the chip files as they are.
        processes: How many points are simulated at a time; results do not depend on it. Interrupts are left
            to the calling process.
        left_out: Receives the points that cannot be simulated, with the reason; None = they are errors.

    Raises:
        InputError: If a structure file is missing.
    """
    for point in points:
        structure(point.file, folder)
    work = partial(_predict if left_out is None else _try_to_predict, folder, fusion)
    for found in of_points(work, points, values, processes):
        if not isinstance(found, LeftOutRow):
            yield found
        elif left_out is not None:
            left_out.append(found)


def of_points(
    work: Callable[[Point, Mapping[str, float] | None], T],
    points: Sequence[Point],
    values: Callable[[Point], Mapping[str, float]] | None,
    processes: int,
) -> Iterator[T]:
    """What `work` makes of each point and its changes to the chip, as in `predictions`."""
    lines = in_lines(points, processes)

    def item(point: Point) -> tuple[Point, Mapping[str, float] | None]:
        return point, values(point) if values is not None else None

    if len(lines) < 2:
        yield from (work(*item(point)) for line in lines for point in line)
        return
    context = get_context("spawn")  # the progress bar's thread must not be copied
    pools = [ProcessPoolExecutor(1, context, initializer=start_worker) for _ in lines]
    running: dict[Future[T], int] = {}
    try:
        for number, pool in enumerate(pools):
            running[pool.submit(work, *item(lines[number].popleft()))] = number
        while running:
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                number = running.pop(done)
                following = next_in(lines, number)
                if following is not None:
                    running[pools[number].submit(work, *item(following))] = number
                yield done.result()
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)


def in_lines(points: Sequence[Point], processes: int) -> list[deque[Point]]:
    """A line of points for each process; in their order for a single one.

    A process remembers what it has compiled and timed. Batches of one network on one chip share the most,
    since smaller ones are tried while larger ones are cut, so these stand together.
    """
    if processes < 2:
        return [deque(points)]
    ordered = sorted(points, key=lambda point: (point.soc, point.file, point.batch))
    count = min(processes, len(ordered))
    ends = [len(ordered) * number // count for number in range(count + 1)]
    return [deque(ordered[first:end]) for first, end in pairwise(ends)]


def next_in(lines: Sequence[deque[Point]], number: int) -> Point | None:
    """Takes the point that a process does next: of its own line, or the last one of the longest, which is
    the farthest from what others do.
    """
    if lines[number]:
        return lines[number].popleft()
    longest = max(lines, key=len)
    return longest.pop() if longest else None


def _predict(
    folder: Path, fusion: str, point: Point, values: Mapping[str, float] | None
) -> tuple[Prediction, Prediction]:
    model = compile_point(point, folder, fusion, values)
    taken = simulate(model).duration_us + call_us(model.program, model.soc)
    simulated = Prediction(point, point.batch / taken * 1e6)
    return simulated, Prediction(point, point.batch / roofline_us(model.source, chips.load(point.soc)) * 1e6)


def call_us(program: Program, soc: SocSpec) -> float:
    """What a host that waits for a call of a model spends besides the device's time: published throughput
    was measured in such loops.
    """
    return soc.launch.model_call_us if program.mode == "sink" else 0.0


def _try_to_predict(
    folder: Path, fusion: str, point: Point, values: Mapping[str, float] | None
) -> tuple[Prediction, Prediction] | LeftOutRow:
    try:
        return _predict(folder, fusion, point, values)
    except AscendSimError as error:
        return LeftOutRow(f"{point.model}, batch {point.batch}, {point.group}", str(error))


def compare_models(
    points: Sequence[Point],
    folder: Path,
    fusion: str = "all",
    values: Callable[[Point], Mapping[str, float]] | None = None,
) -> Comparison:
    """All `predictions`, in one process."""
    return Comparison.of_pairs(list(predictions(points, folder, fusion, values)))


def structure(file: str, folder: Path) -> Path:
    """The path of a structure file.

    Raises:
        InputError: If it, or the folder, is missing.
    """
    if not folder.is_dir():
        raise InputError(
            f"folder {str(folder)!r}",
            "of network structures does not exist",
            remedy="they are no part of the package: run it in a clone of the repository, or name a folder "
            "with --models",
        )
    path = folder / file
    if not path.is_file():
        raise InputError(
            f"network structure {file!r}",
            f"is not in {str(folder)!r}",
            remedy="name the folder that holds it with --models",
        )
    return path
