"""More of a resource makes no network slower, and less work no operator; what does is listed in
`tests.support.scaling_known`, with its reason.

Here a part of both, a larger one in slow tests; `python -m tests.support.scaling` prints the tables of all
networks, chips and sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

import pytest

import ascendsim
from ascendsim.core.dtypes import DType
from ascendsim.lower.templates.cube import product_of
from ascendsim.lower.templates.product import rates_of
from ascendsim.lower.templates.tiling import best_tilings, candidates, shares
from ascendsim.soc import load
from tests.support.lowering import convolution as square
from tests.support.random_cubes import convolution, matmul
from tests.support.scaling import OPERATOR_CHIPS, RESOURCES, more_of
from tests.support.scaling_known import KNOWN_LESS, KNOWN_MORE, LESS, MORE, Known, Step, reason_of
from tests.support.scaling_less import KINDS, less_of


def unexplained(steps: Iterable[Step], limit: float, known: Sequence[Known]) -> list[str]:
    """Steps that cost more than they may for no known reason, or more than the reason accounts for."""
    found = []
    for step in steps:
        why = reason_of(step, known)
        if step.ratio > (limit if why is None else max(limit, why.at_most)):
            found.append(str(step))
    return found


@pytest.mark.parametrize(
    ("network", "chip", "resource", "factors"),
    [
        pytest.param("resnet18", "Ascend310P3", "cores", (1, 2, 4), marks=pytest.mark.slow),
        pytest.param("resnet18", "Ascend910A", "cores", (1, 2), marks=pytest.mark.slow),
        pytest.param("resnet18", "Ascend910B1", "cores", (1, 2), marks=pytest.mark.slow),
        pytest.param("resnet18", "Ascend310", "queues", (1, 4), marks=pytest.mark.slow),
        pytest.param("resnet18", "Ascend310P3", "queues", (0.5, 1), marks=pytest.mark.slow),
        pytest.param("squeezenet1_1", "Ascend910B1", "L0A and L0B", (0.5, 2), marks=pytest.mark.slow),
        ("lstm_lm", "Ascend910B1", "L0A and L0B", (0.5, 2)),
        ("bert_tiny_s64", "Ascend310", "queues", (1, 4)),
        ("bert_tiny_s64", "Ascend310P3", "cores", (0.5, 1, 2, 4)),
        ("bert_tiny_s64", "Ascend310P3", "bandwidth", (0.5, 1, 2)),
    ],
)
def test_more_of_a_resource_makes_a_network_no_slower(
    network: str, chip: str, resource: str, factors: tuple[float, ...]
) -> None:
    assert not unexplained(more_of(network, chip, resource, factors), MORE, KNOWN_MORE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "chip"),
    [
        ("resnet18", "Ascend310"),
        ("resnet18", "Ascend310P3"),
        ("bert_tiny_s64", "Ascend310P3"),
        ("bert_tiny_s64", "Ascend910B1"),
        ("lenet5", "Ascend910A"),
        ("llama_mini", "Ascend910A"),
        ("lstm_lm", "Ascend910B1"),
    ],
)
@pytest.mark.parametrize("resource", RESOURCES)
def test_more_of_any_resource_makes_a_network_no_slower(resource: str, network: str, chip: str) -> None:
    assert not unexplained(more_of(network, chip, resource), MORE, KNOWN_MORE)


@pytest.mark.parametrize(
    ("kind", "chip", "size", "values"),
    [
        ("layout", "Ascend310P3", "batch", (1, 2, 3)),
        ("conv3x3 512", "Ascend610Lite", "batch", (1, 2)),
        ("conv3x3 512", "Ascend910B1", "batch", (1, 2)),
        ("conv3x3 512", "Ascend310P3", "batch", (6, 7)),
        ("conv3x3", "Ascend910B1", "size", (20, 28)),
        ("gemm", "Ascend310B1", "m", (100, 112, 128)),
        ("softmax", "Ascend310P3", "rows", (31, 32, 60, 64)),
        ("conv3x3/2", "Ascend310P3", "maps", (112, 128)),
        ("max pool", "Ascend310P3", "size", (7, 14, 20)),
        ("max pool", "Ascend310B1", "size", (14, 20, 28, 32)),
        ("max pool", "Ascend910B1", "batch", (7, 8)),
        ("mean", "Ascend910A", "columns", (256, 500)),
        ("norm", "Ascend610Lite", "columns", (197, 208, 500, 512, 1000, 1024)),
        ("norm", "Ascend310P3", "columns", (1, 8, 16, 31, 32)),
        ("row mean", "Ascend910A", "rows", (7, 8, 16, 31, 32)),
        ("row mean", "Ascend910A", "columns", (8, 16, 32, 60, 64)),
        ("global pool", "Ascend910A", "size", (7, 14)),
        ("column mean", "Ascend910B1", "columns", (60, 64, 100, 112)),
    ],
)
def test_less_work_makes_an_operator_no_slower(
    kind: str, chip: str, size: str, values: tuple[int, ...]
) -> None:
    assert not unexplained(less_of(kind, chip, size, values), LESS, KNOWN_LESS)


@pytest.mark.slow
@pytest.mark.parametrize("chip", OPERATOR_CHIPS)
@pytest.mark.parametrize(
    "kind", ["layout", "conv3x3 512", "max pool", "norm", "softmax", "mean", "row mean", "global pool"]
)
def test_less_of_any_work_makes_no_operator_slower(kind: str, chip: str) -> None:
    steps = (step for size in KINDS[kind].ladders for step in less_of(kind, chip, size))
    assert not unexplained(steps, LESS, KNOWN_LESS)


# --- why it is so -------------------------------------------------------------------------------------------


def test_what_a_chip_with_half_the_cores_can_do_is_looked_at() -> None:
    for number in range(24):
        random, soc = Random(number), load(("Ascend310P3", "Ascend910B1", "Ascend910A")[number % 3])
        product = product_of(matmul(random, soc, 900) if number % 2 else convolution(random), soc)
        for cores in (1, 3, 5, 8, 12, 24, 32):
            assert set(shares(product, cores)) <= set(shares(product, 2 * cores))


def test_changes_of_layout_take_no_more_cores_than_help() -> None:
    """Profiles of 910A show TransData on all of its 32 cores, however little there is."""

    def blocks(size: int, cores: int) -> int:
        b = ascendsim.GraphBuilder("net", dtype=DType.FLOAT16)
        b.output(b.op("MaxPool", b.input("x", (1, 64, size, size)), kernel_shape=[1, 1]), "y")
        model = ascendsim.compile(b.build(), load("Ascend910A", {"ai_cores": cores}))
        names = {node.name for node in model.graph.nodes if node.op_type == "TransData"}
        return max(
            sum(group.count for group in task.groups) for task in model.program.tasks if task.name in names
        )

    assert [blocks(32, cores) for cores in (16, 32, 64, 128)] == [16, 32, 32, 32]
    assert blocks(512, 128) > 32


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910A", "Ascend910B1"])
def test_first_convolutions_may_come_in_single_kernel_rows(chip: str) -> None:
    """Else nothing is computed before all of the first tile is there, and a larger L1 makes them slower."""
    soc = load(chip)
    tilings = best_tilings(product_of(square(3, 224, 64, 7, stride=2, pad=3), soc), soc)
    assert {tiling.chunk_k for tiling in tilings} >= {7, 49}


def test_what_a_chip_with_half_the_l0_can_do_is_looked_at() -> None:
    """Steps fill L0, so that those of a smaller one would be missing."""
    missing = 0
    for number in range(12):
        random, base = Random(number), load(("Ascend310P3", "Ascend910B1", "Ascend310")[number % 3])
        work = matmul(random, base, 900) if number % 2 else convolution(random)
        product, tilings = product_of(work, base), []
        for size in ("64KiB", "128KiB", "256KiB"):
            soc = load(base.name, {"buffers.l0a": size, "buffers.l0b": size})
            tilings.append(set(best_tilings(product, soc)))
            missing += not tilings[0] <= set(candidates(product, rates_of(soc, "float16")))
        assert tilings[0] <= tilings[1] <= tilings[2]
    assert missing


def test_what_a_chip_with_shorter_queues_can_do_is_looked_at() -> None:
    """The chunks of k in L1 do not grow with the queue alone."""
    for number in range(8):
        random, base = Random(number), load("Ascend310")
        work = matmul(random, base, 900) if number % 2 else convolution(random)
        tilings = []
        for depth in (8, 16, 32):
            soc = load("Ascend310", {"issue.queue_depth.M": depth})
            every = candidates(product_of(work, soc), rates_of(soc, "float16"))
            tilings.append(
                {(one.share_m, one.share_n, one.tile_m, one.tile_n, one.hold, one.chunk_k) for one in every}
            )
        assert tilings[0] <= tilings[1] <= tilings[2]
