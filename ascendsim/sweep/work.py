"""One point becomes figures. This is what worker processes run: plain data in, plain data out.

Graphs and compiled models never travel; the graph of a model is kept, since the next point is likely to ask
for it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ascendsim.api.compiling import compile
from ascendsim.api.loading import load
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.core.errors import AscendSimError, InputError, OptionWarning
from ascendsim.core.version import __version__
from ascendsim.graph.ir import Graph
from ascendsim.profiling.comparison import COLUMNS, compare_figures, comparison_table
from ascendsim.sweep.key import chip_digest, chip_of, digest, fingerprint
from ascendsim.sweep.space import Point
from ascendsim.sweep.store import DONE, FAILED, Answer

# columns of a comparison that say something of one run by itself
_OF_OTHERS = ("Variant", "Speed-up", "Largest difference", "Of range", "Values")
SHARES = ("Cube(%)", "DDR(%)", "TFLOP/s")
NOTES = "Notes"
FIGURES = (*(name for name in COLUMNS if name not in _OF_OTHERS), *SHARES)  # of a row, all numbers
_GRAPHS = 2  # graphs that a process keeps: a large one has some tens of megabytes
_ELSEWHERE = "where workers do not see the file, give its bytes as the model"
_WATCH_S = 1.0  # between two looks at whether the parent is still there
_one_at_a_time = threading.RLock()  # a pool of threads takes turns: what is compiled is shared by them


@dataclass(frozen=True)
class Source:
    """A model: its file, or what is in it.

    Attributes:
        name: For people.
        digest: Of the content.
        path: Where it is; None if `content` has it.
        content: All bytes of an ONNX file.
    """

    name: str = field(compare=False)
    digest: str
    path: str | None = field(default=None, compare=False)
    content: bytes | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Request:
    """What a worker gets.

    Attributes:
        key: Of the point.
        point: What is asked.
        source: The model.
        chip: Digest of the chip's figures.
        fingerprint: Of the package that asks.
        time_limit: Seconds that it may take.
    """

    key: str
    point: Point
    source: Source
    chip: str
    fingerprint: str
    time_limit: float | None = None


class _TooLongError(BaseException):
    """The time limit; no `Exception`, so that nothing on the way takes it for its own."""


def answer_elsewhere(request: Request) -> Answer:
    """`answer` in another process, which ends when the one that started it does."""
    if multiprocessing.parent_process() is not None:  # not in a thread of the process that asks
        watch_parent()
    return answer(request)


def answer(request: Request) -> Answer:
    """The figures of a point, or why there are none. Never raises for what is wrong with the point."""
    with _one_at_a_time:
        started = time.perf_counter()
        try:
            if request.fingerprint != fingerprint():
                raise InputError(
                    "this worker",
                    "must have the code of the process that asks",
                    f"ascendsim {__version__} with other files",
                )
            with _limited(request.time_limit):
                figures = figures_of(request)
        except AscendSimError as error:
            return Answer(request.key, FAILED, {}, str(error), time.perf_counter() - started)
        except _TooLongError:
            text = f"took longer than {request.time_limit:g} s"
            return Answer(request.key, FAILED, {}, text, time.perf_counter() - started)
        except Exception as error:  # one point must not end the others
            text = f"{type(error).__name__}: {error}"
            return Answer(request.key, FAILED, {}, text, time.perf_counter() - started)
        return Answer(request.key, DONE, figures, "", time.perf_counter() - started)


def figures_of(request: Request) -> dict[str, Any]:
    """Simulates a point; its figures by column.

    Raises:
        AscendSimError: If the model or the chip refuses.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OptionWarning)
        result = simulated(request.point, request.source, request.chip)
    notes = dict.fromkeys(str(each.message) for each in caught if issubclass(each.category, OptionWarning))
    table = comparison_table(compare_figures({"": result.profile}, likely={"": result.duration_interval()}))
    (figures,) = table.records()
    summary = result.summary()
    shares = (100 * summary.cube_utilisation, 100 * summary.ddr_utilisation, summary.achieved_tflops)
    own = {name: value for name, value in figures.items() if name not in _OF_OTHERS}
    return {**own, **dict(zip(SHARES, shares, strict=True)), NOTES: "; ".join(notes)}


def simulated(point: Point, source: Source, chip: str = "") -> Result:
    """The whole result of a point.

    Args:
        point: What is asked.
        source: The model.
        chip: Digest that the chip's figures must have; "" = whatever they are now.

    Raises:
        AscendSimError: If the model or the chip refuses.
    """
    spec = chip_of(point)
    if chip and chip_digest(spec) != chip:
        raise InputError(f"chip {point['soc']!r}", "has other figures than when the sweep began")
    shapes = point.get("shapes")
    shape_text = tuple((name, tuple(sizes)) for name, sizes in shapes.items()) if shapes else None
    graph = _graph(source, point.get("batch"), shape_text)
    others = {
        name: value for name, value in point.items() if name not in ("model", "soc", "set", "batch", "shapes")
    }
    return simulate(compile(graph, spec, **others))


def graph_of(point: Point, source: Source) -> tuple[str, int, str]:
    """What tells the graph that a point needs from others."""
    return source.digest, point.get("batch") or 0, repr(point.get("shapes"))


@lru_cache(maxsize=_GRAPHS)
def _graph(
    source: Source, batch: int | None, shapes: tuple[tuple[str, tuple[int, ...]], ...] | None
) -> Graph:
    content: Any = source.content
    if source.path is not None:
        if digest(_read(source.path, _ELSEWHERE)) != source.digest:
            raise InputError(f"model {source.path!r}", "has changed since the sweep began")
        content = source.path
    return load(content, batch=batch, shapes=None if shapes is None else dict(shapes))


def _read(path: str, remedy: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"model {path!r}", f"cannot be read ({why})", remedy=remedy) from None


def source_of(model: Any) -> Source:
    """A model that a user names, by its path or its bytes.

    Raises:
        InputError: If it is neither, or cannot be read.
    """
    if isinstance(model, bytes):
        return Source(f"{digest(model)[:8]}.onnx", digest(model), None, model)
    if not isinstance(model, (str, os.PathLike)):
        raise InputError(
            "argument model",
            "must be a path or bytes",
            type(model).__name__,
            "workers read the model themselves: give its file",
        )
    path = Path(os.fspath(model))
    return Source(path.name, digest(_read(str(path), "check the path")), str(path.absolute()))


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    """Stops the block after some seconds by a signal, which only the main thread of a process can get.

    Raises:
        InputError: If this is another thread.
        _TooLongError: When the time is over.
    """
    if seconds is None:
        yield
        return
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        raise InputError("option time_limit", "needs workers that are processes", "threads", "leave it out")

    def stop(*_: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


_watched: set[int] = set()


def watch_parent(parent: int | None = None) -> None:
    """Ends this process soon after its parent is gone, which would leave it waiting for ever otherwise.

    Args:
        parent: Number of that process; that of the parent now by default.
    """
    expected = os.getppid() if parent is None else parent
    if _watched:
        return
    _watched.add(expected)

    def watch() -> None:
        while os.getppid() == expected:
            time.sleep(_WATCH_S)
        os._exit(1)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()
