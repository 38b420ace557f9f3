"""Transfers on shared links against a simulation that moves what the rates allow in every tick."""

from __future__ import annotations

from collections.abc import Generator
from random import Random

from simpy import Environment
from simpy.events import Event

from ascendsim.machine.clock import UNITS_PER_BYTE, Clock
from ascendsim.machine.links import WEIGHT, Flow, FlowClass, Links, capacities, shares
from tests.support.gate import in_one
from tests.support.toy_soc import toy


def random_class(random: Random) -> FlowClass:
    """A flow that is bound by its own path, by L2 or by DRAM."""
    weights = tuple(random.choice((0, 0, WEIGHT // 2, WEIGHT, 2 * WEIGHT)) for _ in range(4))
    return FlowClass(
        random.choice((5, 16, 64)) * UNITS_PER_BYTE + random.randint(0, 9), weights, random.randint(1, 3)
    )  # type: ignore[arg-type]


def moved_tick_by_tick(transfers: list[tuple[int, int, FlowClass]], capacity: tuple[int, ...]) -> list[int]:
    """Ends of transfers (begin, work, class): what is on the links in a tick moves on by its rate."""
    left = [work for _, work, _ in transfers]
    ends = [-1] * len(transfers)
    now = 0
    while min(ends) < 0:
        for number, (begin, _, _) in enumerate(transfers):
            if begin < now and ends[number] < 0 and left[number] <= 0:
                ends[number] = now
        active = [
            number for number, (begin, _, _) in enumerate(transfers) if begin <= now and ends[number] < 0
        ]
        for number, rate in zip(
            active, shares([transfers[number][2] for number in active], capacity), strict=True
        ):
            left[number] -= rate
        now += 1
    return ends


@in_one("seed", range(40))
def test_transfers_end_when_their_last_byte_has_moved(seed: int) -> None:
    random = Random(seed)
    soc = toy(ai_cores=random.randint(1, 4), dram={"read_gb_per_s": random.choice((20, 71, 500))})
    clock, env = Clock.of(soc), Environment()
    links = Links(env, soc, clock)
    kinds = [random_class(random) for _ in range(3)]
    transfers, ends = [], {}

    def enter(
        number: int, called: int, begin: int, work: int, kind: FlowClass
    ) -> Generator[Event, None, None]:
        yield env.timeout(called)
        flow = Flow()
        flow.remaining, flow.kind = work, links.number_of(kind)
        ended = Event(env)
        flow.done = ended.succeed
        links.enter(flow, begin)
        yield ended
        ends[number] = int(env.now)

    for number in range(random.randint(1, 8)):
        called, kind = random.choice((0, 0, random.randint(0, 60))), random.choice(kinds)
        begin = called + random.choice((0, 0, random.randint(0, 40)))  # known some ticks before
        work = random.choice((1, 3000 * UNITS_PER_BYTE, random.randint(1, 2000 * UNITS_PER_BYTE)))
        transfers.append((begin, work, kind))
        env.process(enter(number, called, begin, work, kind))
    env.run()
    assert [ends[number] for number in range(len(transfers))] == moved_tick_by_tick(
        transfers, capacities(soc, clock)
    )


def test_classes_of_flows_have_numbers_of_their_own() -> None:
    soc = toy()
    links = Links(Environment(), soc, Clock.of(soc))
    kinds = [
        FlowClass(cap, (0, 0, weight, 0), cores) for cap in (1, 2) for weight in (1, 2) for cores in (1, 2)
    ]
    numbers = [links.number_of(kind) for kind in kinds]
    assert sorted(numbers) == list(range(8))
    assert [links.number_of(kind._replace()) for kind in kinds] == numbers
