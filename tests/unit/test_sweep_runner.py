"""Points go to workers a few at a time; when a worker dies, only the point that kills it is lost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from threading import Timer
from typing import Any

import pytest

from ascendsim.core.errors import InputError
from ascendsim.sweep import runner
from ascendsim.sweep.runner import DIED, answers
from ascendsim.sweep.store import DONE, FAILED, Answer
from ascendsim.sweep.work import Request
from tests.support.sweep_workers import request

DEADLY = 13


class Fragile(Executor):
    """Gives up, as Python's pools do, on all that it holds when one point kills its worker.

    Args:
        log: Batches handed over, a list for each executor made.
    """

    def __init__(self, log: list[list[int]]) -> None:
        self.held: list[tuple[Future[Any], Request]] = []
        self.most, self.broken = 0, False
        self.log: list[int] = []
        log.append(self.log)

    def submit(self, function: Callable[..., Any], /, *args: Any, **more: Any) -> Future[Any]:
        if self.broken:
            raise BrokenExecutor
        future: Future[Any] = Future()
        self.log.append(args[0].point["batch"])
        self.held.append((future, args[0]))
        self.most = max(self.most, len(self.held))
        if len(self.held) == 1:
            Timer(0.01, self._work).start()
        return future

    def _work(self) -> None:
        held, self.held = self.held, []
        self.broken = any(each.point["batch"] == DEADLY for _, each in held)
        for future, each in held:
            if self.broken:
                future.set_exception(BrokenExecutor("dead"))
            else:
                future.set_result(Answer(each.key, DONE, {"batch": each.point["batch"]}))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.broken = True


def test_only_the_deadly_point_is_lost() -> None:
    log: list[list[int]] = []
    batches = [1, 2, 3, DEADLY, 4, 5, 6]
    asked = [request(str(batch), batch) for batch in batches]
    found = {each.key: each for each in answers(asked, 3, lambda: Fragile(log))}
    assert sorted(found) == sorted(map(str, batches))
    assert [key for key, each in found.items() if each.state == FAILED] == [str(DEADLY)]
    assert found[str(DEADLY)].error == DIED
    # three together, then those of the broken pool one by one, then a third pool for the rest
    assert log[0] == [1, 2, 3, DEADLY, 4, 5]
    assert [each for part in log[1:] for each in part] == [DEADLY, 4, 5, 6]


def test_no_more_is_handed_over_than_there_are_workers() -> None:
    log: list[list[int]] = []
    made: list[Fragile] = []

    def make() -> Fragile:
        made.append(Fragile(log))
        return made[-1]

    list(answers([request(str(n), n) for n in range(10)], 2, make))
    assert [each.most for each in made] == [2]


def test_an_executor_that_cannot_be_made_anew_ends_the_sweep() -> None:
    with pytest.raises(InputError, match="lost a worker.*give a function that makes an executor"):
        list(answers([request("a", DEADLY), request("b", 1)], 2, Fragile([])))


def test_an_executor_that_is_shut_down_is_refused() -> None:
    closed = ThreadPoolExecutor(1)
    closed.shutdown()
    with pytest.raises(InputError, match="option executor takes no work .*after shutdown"):
        list(answers([request("a", 1)], 1, closed))
    with pytest.raises(InputError, match="option executor must make an Executor, not NoneType"):
        list(answers([request("a", 1)], 1, lambda: None))  # type: ignore[arg-type,return-value]


def test_what_an_executor_raises_is_the_failure_of_the_point(monkeypatch: pytest.MonkeyPatch) -> None:
    def seventh(each: Request) -> Answer:
        if each.point["batch"] == 7:
            raise OSError("no way there")
        return Answer(each.key, DONE)

    monkeypatch.setattr(runner, "answer_elsewhere", seventh)
    with ThreadPoolExecutor(2) as threads:
        found = {each.key: each for each in answers([request(str(n), n) for n in range(9)], None, threads)}
    assert [each.error for each in found.values() if each.state == FAILED] == ["OSError: no way there"]
    assert len(found) == 9


def test_one_worker_is_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "Processes", None)  # nothing to start
    monkeypatch.setattr(runner, "answer", lambda each: Answer(each.key, DONE))
    assert [each.key for each in answers([request("a", 1), request("b", 2)], 1)] == ["a", "b"]
    assert list(answers([], 4)) == []
