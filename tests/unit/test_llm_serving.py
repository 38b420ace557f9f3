"""Servers of language models: requests, batching, the cache, and what clients see. Steps have known times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.llm import times
from ascendsim.llm.requests import workload
from ascendsim.llm.times import StepTimes
from tests.unit.test_llm_models import CHIP, TINY

MS = 1e-3


@pytest.fixture
def known_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decode step takes 1 ms, a token of a prompt 0.1 ms more."""

    def simulated(self: StepTimes, batch: int, queries: int, context: int) -> float:
        return 1000.0 + (100.0 * batch * queries if queries > 1 else 0.0)

    monkeypatch.setattr(times.StepTimes, "_simulated", simulated)


def serve(requests: Any, **options: Any) -> Any:
    return asim.llm.serve(asim.llm.model(TINY), requests, CHIP, overhead_us=0.0, **options)


def request(prompt: int, output: int, arrival: float = 0.0) -> Any:
    return asim.llm.Request(prompt, output, arrival)


@pytest.mark.usefixtures("known_times")
def test_one_request_by_hand() -> None:
    found = serve([request(64, 11)])
    assert found.ttft_ms[0] == pytest.approx(1 + 6.4)
    assert found.tpot_ms[0] == pytest.approx(1)
    assert found.finish[0] == pytest.approx((7.4 + 10) * MS)
    assert found.utilisation == pytest.approx(1)


@pytest.mark.usefixtures("known_times")
def test_a_server_waits_for_requests() -> None:
    found = serve([request(64, 1), request(64, 1, arrival=1.0)])
    assert found.first[1] == pytest.approx(1.0 + 7.4 * MS)
    assert found.utilisation == pytest.approx(2 * 7.4 * MS / (1 + 7.4 * MS))


@pytest.mark.usefixtures("known_times")
def test_running_sequences_get_tokens_while_prompts_come_in() -> None:
    requests = [request(16, 100), request(64, 100, arrival=0.02)]
    continuous, static = (serve(requests, policy=policy) for policy in ("continuous", "static"))
    assert continuous.first[1] < 0.04
    assert static.first[1] > static.finish[0]
    assert continuous.finish[0] > static.finish[0]  # it waits while the prompt comes in


@pytest.mark.usefixtures("known_times")
def test_chunks_of_a_prompt_hold_running_sequences_up_for_less() -> None:
    requests = [request(16, 200), request(2048, 2, arrival=0.02)]
    whole, chunked = serve(requests), serve(requests, chunk=128)
    assert max(chunked.steps.seconds) < 0.2 * max(whole.steps.seconds)
    assert chunked.first[1] > whole.first[1]


@pytest.mark.usefixtures("known_times")
def test_batches_are_bounded() -> None:
    requests = [request(16, 50) for _ in range(10)]
    assert max(serve(requests, max_batch=4).steps.batch) == 4
    assert max(serve(requests).steps.batch) == 10
    found = serve(requests, concurrency=2)
    assert max(found.steps.batch) == 2
    assert (np.diff(found.arrival) >= 0).all()
    assert found.ttft_ms.max() < 10  # nobody queues: clients wait themselves


@pytest.mark.usefixtures("known_times")
@pytest.mark.parametrize("room", [0, 1])
def test_arrivals_cut_steps_short_only_while_there_is_room(room: int) -> None:
    """A full server makes its steps in one go, whoever waits; one with room stops for the next arrival."""
    busy = [request(16, 100), request(16, 100)]
    others = [request(16, 50, arrival=0.02 + 0.01 * number) for number in range(3)]
    before = busy[0].output - 1
    counts = serve([*busy, *others], max_batch=2 + room).steps.count
    alone = serve(busy, max_batch=2 + room).steps.count
    assert max(alone) == before
    assert (before in counts) == (not room)


@pytest.mark.usefixtures("known_times")
def test_a_full_cache_turns_sequences_out_and_all_end(monkeypatch: pytest.MonkeyPatch) -> None:
    model = asim.llm.model(TINY)
    memory = model.memory(CHIP)
    room = memory.weights + memory.workspace + 5 * memory.cache(1, 1)  # five blocks of 128 tokens
    monkeypatch.setattr(type(memory), "fits", lambda *_: True)
    changed = type(memory)(**{name: getattr(memory, name) for name in memory.__slots__} | {"capacity": room})
    monkeypatch.setattr(type(model), "memory", lambda *_: changed)
    requests = [request(100, 200) for _ in range(4)]
    found = serve(requests)
    assert found.preempted > 0
    assert max(found.steps.cache) <= 1
    assert np.isfinite(found.finish).all()
    assert (found.finish > found.first).all()
    made = (np.array(found.steps.count) * np.array(found.steps.batch)).sum()
    assert made == 4 * 200  # a token that was made before is not made again


@pytest.mark.usefixtures("known_times")
@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_many_requests_run_with_progress(count: int) -> None:
    seen: list[tuple[int, int]] = []
    requests = asim.llm.poisson(float("inf"), count, 1, 1)
    found = serve(requests, max_batch=1024, progress=lambda *state: seen.append(state))
    assert seen[-1] == (count, count)
    assert len(seen) > 5
    assert len(found.finish) == count


def test_arrivals_are_seeded_and_as_frequent_as_asked() -> None:
    one, again, other = (asim.llm.poisson(5, 20000, (10, 20), 7, seed) for seed in (1, 1, 2))
    assert (one.arrival == again.arrival).all()
    assert (one.arrival != other.arrival).any()
    assert len(one) / one.arrival[-1] == pytest.approx(5, rel=0.05)
    assert (one.prompt.min(), one.prompt.max(), set(one.output)) == (10, 20, {7})


def test_files_of_benchmarks(tmp_path: Path) -> None:
    rows = [
        {"prompt_len": 5, "output_len": 6, "timestamp": 3.0},
        {"input_len": 7, "output_tokens": 8, "arrival": 1},
    ]
    lines, listed = tmp_path / "lines.jsonl", tmp_path / "list.json"
    lines.write_text("\n".join(map(json.dumps, rows)))
    listed.write_text(json.dumps(rows))
    for path in (lines, listed):
        found = workload(path)
        assert found.prompt.tolist() == [7, 5]  # by arrival
        assert found.arrival.tolist() == [0, 2]
    turns = [{"from": "human", "value": "a" * 400}, {"from": "gpt", "value": "b" * 80}]
    shared = tmp_path / "sharegpt.json"
    shared.write_text(json.dumps([{"conversations": turns}, {"conversations": turns[:1]}]))
    found = workload(shared)
    assert (found.prompt.tolist(), found.output.tolist(), found.estimated) == ([100], [20], True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"prompt_len": 5}]', r"request 0: output_tokens is missing"),
        ('[{"prompt_len": 5, "output_len": 2}, {"output_len": 2}]', r"request 1: prompt_tokens is missing"),
        ('[{"prompt_len": -5, "output_len": 2}]', r"prompt_len must be a whole number of tokens"),
        ('[{"prompt_len": 5, "output_len": 2, "arrival": -1}]', r"arrival must be seconds from 0 on"),
        ('[{"conversations": [{}, {}]}]', r"conversations\[0\].value is missing"),
        ("[]", r"has no requests"),
        ("{", r"is no JSON"),
        ('{"prompt_len": 5, "output_len": 2}\n\n{"prompt_len"\n', r"line 3 of file .* is no JSON"),
        ("[3]", r"request 0 must be an object"),
    ],
)
def test_files_that_are_not_usable(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "requests.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        workload(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_batch": 0}, "max_batch must be"),
        ({"max_tokens": 16}, r"max_tokens must be at least max_batch \(256\)"),
        ({"chunk": 0}, "chunk must be"),
        ({"policy": "fifo"}, "policy must be"),
        ({"requests": [request(4000, 200)]}, r"request 0 must be within the 4096 tokens"),
        ({"requests": []}, "one or more Requests"),
    ],
)
def test_options_that_are_not_usable(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        serve(**{"requests": [request(1, 1)], **options})


@pytest.mark.slow
def test_times_between_cells_are_near_simulated_ones() -> None:
    found = StepTimes(asim.llm.model(TINY), CHIP)
    assert found.error(6, 1500) < 0.05
    corner = found.decode(4, 1024)
    assert corner == asim.llm.model(TINY).step(CHIP, 4, 1024).duration_us
    mixed = found.mixed(4, 1024, 64, 1, 64)
    assert max(corner, found.mixed(0, 0, 64, 1, 64)) <= mixed <= corner + found.mixed(0, 0, 64, 1, 64)
