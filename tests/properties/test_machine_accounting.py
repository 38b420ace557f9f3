"""What the record of a task sums up is what its instructions did one by one, on random programs, skipped and
replayed work included."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from ascendsim.machine import Statistics, run
from tests.support.random_programs import random_chip, random_program


def test_records_of_tasks_sum_up_those_of_instructions() -> None:
    """Busy ticks of every pipe, from the first to the last start of a computing one, bytes through L2."""
    seen: Counter[str] = Counter()
    for seed in range(18):
        random = Random(seed)
        program, soc = random_program(random), random_chip(random)
        soc = replace(soc, l2=replace(soc.l2, software_managed=False))
        statistics = Statistics()
        trace = run(program, soc, instructions=True, groups=bool(seed % 3), statistics=statistics)
        seen.update(jumps=statistics.jumps, replayed=statistics.replayed)
        for record in trace.tasks:
            done = [item for item in trace.instructions if item.task == record.task]
            busy: Counter[str] = Counter()
            moved: Counter[str] = Counter()
            for item in done:
                assert record.start <= item.start <= item.end <= record.end
                busy[item.pipe] += (item.end - item.start) * len(item.cores)
                moved[item.pipe] += item.bytes * len(item.cores)
            scalar = busy.pop("S", 0)
            assert {pipe: ticks for pipe, ticks in record.busy.items() if ticks and pipe != "S"} == +busy
            assert record.busy.get("S", 0) >= scalar
            computed = [item for item in done if item.pipe in ("M", "V")]
            assert record.first_compute == min((item.start for item in computed), default=-1)
            assert record.last_compute == max((item.end for item in computed), default=-1)
            if done:
                assert (record.read_bytes["l2"], record.write_bytes["l2"]) == (moved["MTE2"], moved["MTE3"])
                seen["ran"] += 1
            assert record.block_ticks <= record.blocks * (record.end - record.start)
    assert min(seen["jumps"], seen["replayed"], seen["ran"]) > 5
