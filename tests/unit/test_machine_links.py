"""Max-min fair shares on the links."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendsim.machine.clock import UNITS_PER_BYTE, Clock
from ascendsim.machine.links import WEIGHT, FlowClass, Requests, capacities, shares
from tests.support.toy_soc import toy

ONE = (0, 0, WEIGHT, 0)
CAPACITY = (1000, 1000, 600, 600)


def flow(cap: int = 10_000, cores: int = 1, **weights: float) -> FlowClass:
    names = ("l2r", "l2w", "dr", "dw")
    return FlowClass(cap, tuple(round(weights.get(name, 0) * WEIGHT) for name in names), cores)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flows", "rates"),
    [
        ([flow(dr=1)], [600]),
        ([flow(100, dr=1)], [100]),
        ([flow(dr=1), flow(dr=1)], [300, 300]),
        ([flow(dr=1, cores=3)], [200]),
        ([flow(100, dr=1), flow(dr=1), flow(dr=1)], [100, 250, 250]),  # what one cannot use, the others get
        ([flow(l2r=1, dr=1), flow(l2r=1)], [500, 500]),  # L2 binds both
        # DRAM binds: 2.5 r = 600
        ([flow(l2r=1, dr=1), flow(l2r=1, dr=1), flow(l2r=1, dr=0.5)], [240, 240, 240]),
        ([flow(l2r=1, dr=1), flow(l2r=1, dr=1), flow(l2r=1)], [300, 300, 400]),
        ([flow(dr=1), flow(dw=1)], [600, 600]),
        ([flow()], [10_000]),
    ],
)
def test_hand_computed_shares(flows: list[FlowClass], rates: list[int]) -> None:
    assert shares(flows, CAPACITY) == rates


@pytest.mark.parametrize("vector_mhz", [None, 700])
def test_a_link_that_is_alone_moves_what_the_chip_is_said_to_move(vector_mhz: int | None) -> None:
    """In a second, of gigabytes of memory and of bytes a cycle of L2 for each of three cores at 1 GHz."""
    soc = toy(
        ai_cores=3,
        vector_frequency_mhz=vector_mhz,
        frequency_mhz=1000,
        l2={"read_bytes_per_cycle_per_core": 96, "write_bytes_per_cycle_per_core": 40},
        dram={"read_gb_per_s": 55, "write_gb_per_s": 21},
    )
    clock = Clock.of(soc)
    moved = {"l2r": 288e9, "l2w": 120e9, "dr": 55e9, "dw": 21e9}
    for link, wanted in moved.items():
        (rate,) = shares([flow(1 << 60, **{link: 1})], capacities(soc, clock))
        assert rate / UNITS_PER_BYTE / clock.tick_seconds == pytest.approx(wanted, rel=1e-5)


weights = st.tuples(*[st.sampled_from([0, WEIGHT // 3, WEIGHT, 2 * WEIGHT])] * 4)
waits = st.one_of(
    st.none(),
    st.builds(
        Requests,
        st.integers(1, 2000),
        st.just((100, 150, 500)),
        st.integers(0, WEIGHT),
        st.integers(0, WEIGHT // 4),
    ),
)
flows = st.lists(
    st.builds(FlowClass, st.integers(1, 2000), weights, st.integers(1, 4), waits), min_size=1, max_size=6
)


def test_memory_answers_the_later_the_more_is_asked_of_it() -> None:
    """L2 takes 100 cycles, idle memory 150, memory that four cores ask 500."""
    asking = FlowClass(10_000, (0, 0, 0, 0), 1, Requests(640, (100, 150, 500), WEIGHT, WEIGHT // 4))
    one, two, four, eight = (shares([asking] * count, CAPACITY)[0] for count in (1, 2, 4, 8))
    assert one == int(640 / (1.50 + 3.5 / 4))
    assert two == int(640 / (1.50 + 3.5 / 2))
    assert four == eight == 640 // 5  # it never takes longer than 500
    half = asking._replace(requests=Requests(640, (100, 150, 500), WEIGHT // 2, WEIGHT // 8))
    assert shares([half], CAPACITY) == [int(640 / (0.5 + 0.5 * (1.5 + 3.5 / 8)))]
    assert shares([flow(600), asking], CAPACITY) == [600, one]  # whoever does not ask it is not slowed down
    assert shares([asking._replace(cap=100)], CAPACITY) == [100]


@given(flows)
def test_no_link_is_overbooked_and_no_rate_could_rise_alone(active: list[FlowClass]) -> None:
    rates = shares(active, CAPACITY)
    load = [
        sum(item.weights[link] * item.cores * rate for item, rate in zip(active, rates, strict=True))
        for link in range(4)
    ]
    cores = sum(item.cores for item in active)
    asked = sum(item.requests.load * item.cores for item in active if item.requests)
    assert all(used <= full * WEIGHT for used, full in zip(load, CAPACITY, strict=True))
    for item, rate in zip(active, rates, strict=True):
        slack = 2 * WEIGHT * cores  # rates are rounded down to whole units
        full = [
            link for link in range(4) if item.weights[link] and load[link] + slack >= CAPACITY[link] * WEIGHT
        ]
        waited = item.cap if item.requests is None else item.requests.cap(asked)
        assert rate == min(item.cap, waited) or full


@given(flows)
def test_a_flow_of_n_cores_equals_n_flows(active: list[FlowClass]) -> None:
    alone = [item._replace(cores=1) for item in active for _ in range(item.cores)]
    expanded = [
        rate for item, rate in zip(active, shares(active, CAPACITY), strict=True) for _ in range(item.cores)
    ]
    assert shares(alone, CAPACITY) == expanded


@given(flows, st.randoms(use_true_random=False))
def test_shares_do_not_depend_on_order(active: list[FlowClass], random: object) -> None:
    order = list(range(len(active)))
    random.shuffle(order)  # type: ignore[attr-defined]
    rates = shares(active, CAPACITY)
    assert shares([active[number] for number in order], CAPACITY) == [rates[number] for number in order]
