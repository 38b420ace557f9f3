"""What the record of a task sums up is what its instructions did one by one, on random programs, skipped and
replayed work included."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from ascendsim.machine import Statistics, run
from tests.support.random_programs import random_chip, random_program


def test_records_of_tasks_sum_up_those_of_instructions() -> None:
    """Busy ticks of every pipe, from the first to the last start of a computing one, bytes through L2 or
    around it, cores."""
    seen: Counter[str] = Counter()
    for seed in range(14):
        random = Random(seed)
        program, soc = random_program(random), random_chip(random)
        managed = not seed % 4
        soc = replace(soc, l2=replace(soc.l2, software_managed=managed))
        program = program.noting(l2_placed=("x", "y_1"))  # where L2 is a cache this says nothing
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
            for bytes_of, pipe in ((record.read_bytes, "MTE2"), (record.write_bytes, "MTE3")):
                if moved[pipe] and managed:  # either way, and memory may deliver more than is wanted
                    assert bytes_of["l2"] <= moved[pipe] <= bytes_of["l2"] + bytes_of["ddr"]
                    seen["placed"] += bytes_of["l2"] > 0
                    seen["around"] += bytes_of["l2"] < moved[pipe]
                elif moved[pipe]:
                    assert bytes_of["l2"] == moved[pipe]
            if done:
                used = {core for item in done for core in item.cores}
                assert len(used) <= record.cores <= min(record.blocks, soc.ai_cores)
                assert (record.rounds - 1) * record.cores < record.blocks <= record.rounds * record.cores
            assert record.block_ticks >= max(
                [*record.busy.values(), 0]
            )  # no pipe is busy longer than its core
            assert record.block_ticks <= record.blocks * (record.end - record.start)
    assert min(seen[what] for what in ("jumps", "replayed", "placed", "around")) > 2
