"""Points are handed to workers, never more than there are workers, and answers come back as they are ready.

When a worker dies, a pool of Python's gives up on everything that it was handed. So the pool is made anew and
the points that were under way are tried one at a time: a point that kills its worker again has failed, and
the others are not lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait

from ascendsim.core.errors import InputError
from ascendsim.sweep.pool import Processes, usable_cpus
from ascendsim.sweep.store import FAILED, Answer
from ascendsim.sweep.work import Request, answer, answer_elsewhere

Executors = Executor | Callable[[], Executor]
DIED = "the worker that computed it died, twice"


def answers(
    requests: Sequence[Request], workers: int | None = None, executor: Executors | None = None
) -> Generator[Answer]:
    """Answers to all requests, in the order in which they are ready.

    Args:
        requests: What is asked.
        workers: Points under way at a time. With 1 and no executor this process works itself, without
            another; None = as many as there are processors, or as the executor says.
        executor: Where to work, instead of processes of our own: any `concurrent.futures.Executor`, which
            stays open, or a function that makes one, which is called again when workers die.

    Raises:
        InputError: If the number is below 1, or the executor takes nothing (any more).
    """
    if workers is not None and workers < 1:
        raise InputError("option workers", "must be a positive whole number", workers)
    own = getattr(executor, "_max_workers", None) if executor is not None else None
    width = workers or min(own or usable_cpus(), max(len(requests), 1))
    if not requests:
        return
    if executor is None and width == 1:
        yield from map(answer, requests)
        return
    crew = _Crew(width, executor)
    try:
        yield from _answers(deque(requests), crew, width)
    except BaseException:
        crew.close(at_once=True)
        raise
    crew.close()


class _Crew:
    """Where the work is done: processes of our own, or the user's executor."""

    def __init__(self, width: int, executor: Executors | None) -> None:
        self._width, self._given = width, executor
        self._own: Processes | None = None
        self._executor = self._made()

    def _made(self) -> Executor:
        if self._given is None:
            self._own = Processes(self._width)
            return self._own.executor
        made = self._given if isinstance(self._given, Executor) else self._given()
        if not isinstance(made, Executor):
            raise InputError("option executor", "must make an Executor", type(made).__name__)
        return made

    def submit(self, request: Request) -> Future[Answer]:
        """Hands one point over.

        Raises:
            BrokenExecutor: If a worker has died.
            InputError: If the executor takes nothing.
        """
        try:
            return self._executor.submit(answer_elsewhere, request)
        except BrokenExecutor:
            raise
        except RuntimeError as error:
            raise InputError(
                "option executor", f"takes no work ({error})", remedy="give one that is open"
            ) from None

    def renew(self) -> None:
        """Makes a new pool in place of one whose workers died.

        Raises:
            InputError: If the user gave an executor and no way to make another.
        """
        if isinstance(self._given, Executor):
            raise InputError(
                "option executor",
                "lost a worker, and cannot go on",
                remedy="what was done is in the store; give a function that makes an executor",
            )
        self.close()
        self._executor = self._made()

    def close(self, at_once: bool = False) -> None:
        """Ends what is ours."""
        if self._own is not None:
            self._own.close(at_once)
        elif self._given is not None and not isinstance(self._given, Executor):
            self._executor.shutdown(wait=not at_once)  # loky takes no cancel_futures


def _answers(waiting: deque[Request], crew: _Crew, width: int) -> Iterator[Answer]:
    suspects: deque[Request] = deque()
    running: dict[Future[Answer], Request] = {}
    while waiting or suspects or running:
        alone = bool(suspects)
        broken: list[Request] = []
        queue, most = (suspects, 1) if alone else (waiting, width)
        while queue and len(running) < most and not broken:
            request = queue.popleft()
            try:
                running[crew.submit(request)] = request
            except BrokenExecutor:
                broken.append(request)
        ready, _ = wait(running, return_when="ALL_COMPLETED" if broken else FIRST_COMPLETED)
        for future in [future for future in running if future in ready]:
            yield from _outcome(future, running.pop(future), broken)
        if broken:
            wait(running)  # those of a broken pool end with it
            for future in list(running):
                yield from _outcome(future, running.pop(future), broken)
            if alone:
                yield from (Answer(request.key, FAILED, {}, DIED) for request in broken)
            else:
                suspects.extend(broken)
            crew.renew()


def _outcome(future: Future[Answer], request: Request, broken: list[Request]) -> Iterator[Answer]:
    """The answer of a future that is done; nothing, and the request among the broken, if its worker died."""
    try:
        yield future.result()
    except BrokenExecutor:
        broken.append(request)
    except Exception as error:  # of the executor: the point's own come as answers
        yield Answer(request.key, FAILED, {}, f"{type(error).__name__}: {error}")
