"""`serve`: a server that batches requests as they come, over step times from the simulator.

SimPy runs two processes: one lets requests arrive, the other makes steps. In each step every running sequence
gets a token, and prompts take what is left of the step's tokens, in chunks ("continuous"), as vLLM does it;
or a batch is taken in and runs until its last sequence is done ("static"). The cache is dealt out in blocks;
when there is none left, the youngest sequence gives its blocks back and starts anew later, with what it has
so far as its prompt. Steps between which nothing arrives, ends or grows out of the cache are made in one go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from os import PathLike
from typing import Any, Literal

import numpy as np
import simpy

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.llm.language_model import Chip, LanguageModel, Mode, called_otherwise, warn
from ascendsim.llm.layers import BLOCK
from ascendsim.llm.requests import Request, Workload, workload
from ascendsim.llm.serving import Serving, Steps
from ascendsim.llm.times import StepTimes

Progress = Callable[[int, int], None]
OVERHEAD_US = 1500.0
"""What a server does between two steps in graph mode: 5 to 7 % of a step of Qwen3-32B on 16 dies (vLLM-Ascend
0.15), which takes about 25 ms; assumed for other models."""
_MOST_STEPS = 4096  # in one go, so that pictures have points


@checked(model="asim.llm.model makes one", requests="a file, a list of asim.llm.Request, or asim.llm.poisson")
def serve(
    model: LanguageModel,
    requests: str | PathLike[str] | Sequence[Request] | Workload,
    soc: Chip = "Ascend910B3",
    *,
    policy: Literal["continuous", "static"] = "continuous",
    max_batch: int = 256,
    max_tokens: int = 8192,
    chunk: int | None = None,
    concurrency: int | None = None,
    mode: Mode = "graph",
    overhead_us: float = OVERHEAD_US,
    times: StepTimes | None = None,
    progress: Progress | None = None,
) -> Serving:
    """Serves requests.

    Args:
        model: From `asim.llm.model`.
        requests: A file, `Request`s, or a workload of `asim.llm.poisson`.
        soc: As for `compile`.
        policy: "continuous" = new requests join running ones; "static" = batch after batch.
        max_batch: Sequences that run at a time, at most.
        max_tokens: Tokens of a step, at most.
        chunk: Tokens of a prompt that a step takes in, at most; None = as many as `max_tokens` leaves.
        concurrency: Requests that clients have under way, at most; None = they come when they arrive.
        mode: As for `LanguageModel.step`.
        overhead_us: What the server does between two steps.
        times: Of an earlier run of the same model, chip and mode, whose steps need no simulation again.
        progress: Called with (requests done, requests in all).

    Raises:
        InputError: If an option or a request is out of range, or the model does not fit.
    """
    given = workload(requests)
    _check(
        model,
        given,
        max_batch=max_batch,
        max_tokens=max_tokens,
        chunk=chunk,
        concurrency=concurrency,
        overhead_us=overhead_us,
    )
    memory = model.memory(soc)
    longest = int((given.prompt + given.output).max())
    if not memory.largest_batch(longest):
        model.step(soc, 1, longest)  # says what does not fit
    blocks = (memory.capacity - memory.weights - memory.workspace) // max(1, memory.cache(1, BLOCK))
    if times is None:
        times = StepTimes(model, soc, mode, overhead_us)
    engine = _Engine(
        given,
        times,
        static=policy == "static",
        max_batch=max_batch,
        max_tokens=max_tokens,
        chunk=chunk or max_tokens,
        blocks=int(blocks),
        progress=progress,
    )
    warn(model.note(soc))
    warn(called_otherwise(soc))
    engine.run(concurrency)
    return engine.result(model, memory.soc, model.note(soc))


def _check(
    model: LanguageModel,
    given: Workload,
    *,
    max_batch: int,
    max_tokens: int,
    chunk: int | None,
    concurrency: int | None,
    overhead_us: float,
) -> None:
    counts = {"max_batch": max_batch, "max_tokens": max_tokens, "chunk": chunk, "concurrency": concurrency}
    for name, value in counts.items():
        if value is not None and value < 1:
            raise InputError(f"option {name}", "must be a whole number from 1 on", value)
    if max_tokens < max_batch:
        raise InputError("option max_tokens", f"must be at least max_batch ({max_batch})", max_tokens)
    if not 0 <= overhead_us < 1e9:
        raise InputError("option overhead_us", "must be from 0 on", overhead_us)
    whole = given.prompt + given.output
    if whole.max() > model.architecture.positions:
        number = int(whole.argmax())
        rule = f"must be within the {model.architecture.positions} tokens of {model.name}"
        raise InputError(f"request {number}", rule, f"{given.prompt[number]} + {given.output[number]}")


class _Engine:
    """The server's state; running sequences are rows of arrays, which large batches need."""

    def __init__(
        self,
        given: Workload,
        times: StepTimes,
        *,
        static: bool,
        max_batch: int,
        max_tokens: int,
        chunk: int,
        blocks: int,
        progress: Progress | None,
    ) -> None:
        self.given, self.times, self.static = given, times, static
        self.max_batch, self.max_tokens, self.blocks = max_batch, max_tokens, blocks
        self.chunk = chunk
        self.progress = progress
        count = len(given)
        self.first, self.finish = np.full(count, np.nan), np.full(count, np.nan)
        self.produced = np.zeros(count, np.int64)
        self.waiting: deque[int] = deque()
        self.filling: list[list[int]] = []  # [request, tokens taken in, tokens of its prompt]
        self.running = np.zeros(0, np.int64)
        self.context = np.zeros(0, np.int64)
        self.done = self.preempted = 0
        self.steps = Steps()
        self.arrived = 0
        self.env = simpy.Environment()
        self.wake = self.env.event()

    def run(self, concurrency: int | None) -> None:
        """Until all requests are done."""
        self.slots = concurrency
        self.env.process(self._arrive())
        self.env.run(self.env.process(self._work()))

    def result(self, model: LanguageModel, soc: str, note: str) -> Serving:
        """What clients saw."""
        return Serving(
            model=model.name,
            soc=soc,
            cards=model.cards,
            arrival=self.arrival,
            prompt=self.given.prompt,
            output=self.given.output,
            first=self.first,
            finish=self.finish,
            steps=self.steps,
            preempted=self.preempted,
            cells=self.times.simulated,
            error=self.times.error(*self.steps.typical()),
            estimated=self.given.estimated,
            note=note,
        )

    def _arrive(self) -> Generator[Any, Any, None]:
        """Requests come in; where clients have so many under way at most, the next when one is done."""
        self.arrival = self.given.arrival.astype(np.float64).copy()
        while self.arrived < len(self.given):
            if self.slots is not None and self.arrived - self.done >= self.slots:
                self.freed = self.env.event()
                yield self.freed
                continue
            gap = self.arrival[self.arrived] - self.env.now
            if gap > 0:
                yield self.env.timeout(gap)
            self.arrival[self.arrived] = max(self.arrival[self.arrived], self.env.now)
            self.waiting.append(self.arrived)
            self.arrived += 1
            if not self.wake.triggered:
                self.wake.succeed()

    def _work(self) -> Generator[Any, Any, None]:
        while self.done < len(self.given):
            self._admit()
            if not len(self.running) and not self.filling:
                self.wake = self.env.event()
                yield self.wake
                yield self.env.timeout(0)  # what arrives at the same moment goes along
                continue
            if self.filling:
                yield from self._mixed_step()
            else:
                yield from self._decode_steps()

    def _used(self) -> int:
        """Blocks of the cache that are taken."""
        taken = -(-self.context // BLOCK)
        return int(taken.sum()) + sum(-(-entry[2] // BLOCK) for entry in self.filling)

    def _admit(self) -> None:
        """Waiting requests whose prompts fit into the cache start to fill it."""
        if self.static and (len(self.running) or self.filling):
            return
        used = self._used()
        while self.waiting and len(self.running) + len(self.filling) < self.max_batch:
            request = self.waiting[0]
            tokens = int(self.given.prompt[request] + self.produced[request])
            need = -(-(tokens + 1) // BLOCK)
            if used + need > self.blocks:
                return
            used += need
            self.waiting.popleft()
            self.filling.append([request, 0, tokens])

    def _mixed_step(self) -> Generator[Any, Any, None]:
        """A token for each running sequence, and a part of the prompts."""
        self._make_room(1)
        batch = 0 if self.static else len(self.running)
        left, rows, prompts, reach = self.max_tokens - batch, 0, 0, 0
        for entry in self.filling:
            part = min(left, self.chunk, entry[2] - entry[1])
            if part <= 0:
                break
            entry[1] += part
            left, rows, prompts, reach = left - part, rows + part, prompts + 1, reach + entry[1]
        mean = float(self.context.mean()) if batch else 0.0
        seconds = self.times.mixed(batch, mean, rows, prompts, reach / prompts) / 1e6
        yield self.env.timeout(seconds)
        if batch:
            self._advance(1)
        ready = [entry for entry in self.filling if entry[1] == entry[2]]
        self.filling = [entry for entry in self.filling if entry[1] < entry[2]]
        for request, _, _ in ready:
            if np.isnan(self.first[request]):
                self.first[request] = self.env.now
            self.produced[request] += 1
        if ready:
            self.running = np.append(self.running, [request for request, _, _ in ready])
            self.context = np.append(self.context, [tokens + 1 for _, _, tokens in ready])
        self._note(seconds, 1, batch + len(ready), batch + rows)
        self._retire()

    def _decode_steps(self) -> Generator[Any, Any, None]:
        """Steps of the running sequences, as many as nothing else happens in."""
        batch = len(self.running)
        once = self.times.decode(batch, float(self.context.mean()) + 1) / 1e6
        count = int((self.given.output[self.running] - self.produced[self.running]).min())
        count = min(count, _MOST_STEPS, self._steps_in_cache())
        if self.arrived < len(self.given) and not self.static and batch < self.max_batch:
            gap = float(self.given.arrival[self.arrived]) - self.env.now
            if self.slots is None:
                count = min(count, max(1, int(gap / once) + 1))
        count = max(1, count)
        self._make_room(count)
        batch = len(self.running)
        mean = float(self.context.mean()) + (count + 1) / 2
        seconds = count * self.times.decode(batch, mean) / 1e6
        yield self.env.timeout(seconds)
        self._advance(count)
        self._note(seconds, count, batch, batch)
        self._retire()

    def _steps_in_cache(self) -> int:
        """Steps for which the free blocks surely last."""
        free = self.blocks - self._used()
        return max(1, (free // max(1, len(self.context))) * BLOCK)

    def _make_room(self, count: int) -> None:
        """The youngest sequences give back their blocks until the others can grow by so many tokens."""
        filling = sum(-(-entry[2] // BLOCK) for entry in self.filling)
        while len(self.running) > 1:
            needed = int((-(-(self.context + count) // BLOCK)).sum())
            if needed + filling <= self.blocks:
                return
            self.waiting.appendleft(int(self.running[-1]))
            self.running, self.context = self.running[:-1], self.context[:-1]
            self.preempted += 1

    def _advance(self, count: int) -> None:
        self.context = self.context + count
        self.produced[self.running] += count

    def _retire(self) -> None:
        """Sequences that have all their tokens leave."""
        over = self.produced[self.running] >= self.given.output[self.running]
        ended = int(over.sum())
        if not ended:
            return
        self.finish[self.running[over]] = self.env.now
        self.running, self.context = self.running[~over], self.context[~over]
        self.done += ended
        if self.slots is not None and self.arrived < len(self.given):
            freed = getattr(self, "freed", None)
            if freed is not None and not freed.triggered:
                freed.succeed()
        if self.progress is not None:
            self.progress(self.done, len(self.given))

    def _note(self, seconds: float, count: int, batch: int, tokens: int) -> None:
        context = float(self.context.mean()) if len(self.context) else 0.0
        self.steps.add(
            self.env.now, seconds / count, count, batch, tokens, context, self._used() / self.blocks
        )
