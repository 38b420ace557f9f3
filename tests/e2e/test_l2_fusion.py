"""L2 fusion from the graph to the traffic: placed tensors, cut batches, options."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.lower.l2_placement import check_placement
from tests.support.batched import residual_net, traffic

SPLIT = {"l2_batch": "split"}
# A small L2 that is as fast as it is said to be: with the fitted rate cutting pays less often.
SMALL = {"l2.size": "1MiB", "l2.read_bytes_per_cycle_per_core": 128, "l2.write_bytes_per_cycle_per_core": 64}

pytestmark = pytest.mark.usefixtures("untimed_tiles")


@cache
def small_net(fusion: str) -> asim.CompiledModel:
    """The network of a single image on a chip whose L2 is told what to hold."""
    return asim.compile(residual_net(), "Ascend310", fusion=fusion)


def test_ddr_bytes_become_l2_bytes() -> None:
    without, placed = small_net("ub"), small_net("all")
    plan = placed.buffers.l2
    assert plan is not None
    assert plan.placed
    assert check_placement(placed.program, plan) == []
    assert traffic(without) - traffic(placed) == placed.buffers.saved_bytes == traffic(placed, "l2") > 0
    assert traffic(without, "l2") == 0
    assert asim.simulate(placed).duration_us < asim.simulate(without).duration_us
    assert [task.name for task in without.program.tasks] == [task.name for task in placed.program.tasks]


def test_a_larger_buffer_takes_more() -> None:
    graph = residual_net()
    saved = [
        asim.compile(graph, "Ascend310", set={"l2.size": size}).buffers.saved_bytes
        for size in ("64KiB", "512KiB", "2MiB", "64MiB")
    ]
    assert saved == sorted(saved)
    assert saved[0] < saved[-1]


@pytest.mark.parametrize("option", ["l1_optimize", "off_optimize"])
def test_buffer_optimize_switches_it_off(option: str) -> None:
    model = asim.compile(residual_net(), "Ascend310", buffer_optimize=option)
    assert model.buffers.l2 is None
    assert model.program.tasks == small_net("ub").program.tasks


def test_a_cache_needs_no_placement() -> None:
    model = asim.compile(residual_net(), "Ascend310P3")
    assert (model.buffers.l2, model.buffers.blocks) == (None, ())


def test_the_listed_kinds_alone_place_little() -> None:
    graph = residual_net()
    listed = asim.compile(graph, "Ascend310", options={"l2_edges": "listed"})
    assert listed.buffers.l2 is not None
    assert listed.buffers.l2.placed == ()


def test_a_cut_batch_saves_bytes_and_keeps_values() -> None:
    graph = residual_net(batch=8, size=64)
    whole, parts = (
        asim.compile(graph, "Ascend310", set=SMALL, options={"l2_batch": how}) for how in ("whole", "split")
    )
    assert parts.buffers.blocks
    assert all(block.batch * block.passes == 8 for block in parts.buffers.blocks)
    assert traffic(parts) < traffic(whole)
    assert asim.simulate(parts).duration_us < asim.simulate(whole).duration_us
    inputs = asim.random_inputs(whole)
    before, after = (asim.run(model, inputs).outputs["scores"] for model in (whole, parts))
    assert np.array_equal(before, after)


def test_a_cut_batch_stays_in_a_cache_too() -> None:
    graph = residual_net(batch=32, size=64, channels=32)
    small = {"l2.size": "2MiB"}
    whole, parts = (
        asim.compile(graph, "Ascend310P3", set=small, options={"l2_batch": how}) for how in ("whole", "split")
    )
    assert parts.buffers.blocks
    assert traffic(parts) < 0.8 * traffic(whole)
    assert asim.simulate(parts).duration_us < asim.simulate(whole).duration_us


def test_the_chip_says_up_to_which_batch_plain_networks_are_cut() -> None:
    """Published throughput of 310P3 shows passes up to batch 32; of other chips it shows none."""
    graph, small = residual_net(batch=16, size=64, channels=32), {"l2.size": "4MiB"}

    def passes(soc: str, **changes: object) -> list[int]:
        model = asim.compile(graph, soc, set={**small, **changes})
        return [block.passes for block in model.buffers.blocks]

    cut = passes("Ascend310P3")
    assert cut
    assert all(count in (2, 4, 8, 16) for count in cut)
    assert passes("Ascend310P3", **{"kernels.cut_batches": 16}) == cut
    assert passes("Ascend310P3", **{"kernels.cut_batches": 15}) == []
    assert passes("Ascend910A") == []


def test_what_does_not_pay_is_not_cut() -> None:
    graph = residual_net(batch=16, size=64, channels=32)
    assert asim.compile(graph, "Ascend310P3", set={"l2.size": "1MiB"}, options=SPLIT).buffers.blocks == ()


def test_nothing_is_cut_where_all_fits() -> None:
    assert asim.compile(residual_net(), "Ascend310", options=SPLIT).buffers.blocks == ()


def test_listed_kinds_take_what_is_inside_of_cut_blocks() -> None:
    options = {"l2_edges": "listed", "l2_batch": "split"}
    model = asim.compile(residual_net(batch=8, size=64), "Ascend310", set=SMALL, options=options)
    assert model.buffers.l2 is not None
    assert model.buffers.l2.placed
    assert all("_l2split" in item.region or item.weight for item in model.buffers.l2.placed)


@pytest.mark.slow
def test_resnet50_at_batch_8_runs_a_block_in_four_passes_of_two(models_dir: Path) -> None:
    graph = asim.load(models_dir / "resnet50.onnx", batch=8)
    whole, parts = asim.compile(graph, "Ascend310"), asim.compile(graph, "Ascend310", options=SPLIT)
    assert any(
        (block.batch, block.passes) == (2, 4) and len(block.nodes) > 20 for block in parts.buffers.blocks
    )
    unfused = asim.compile(graph, "Ascend310", fusion="ub")
    assert traffic(parts) < 0.7 * traffic(whole) < 0.47 * traffic(unfused)
    assert (
        asim.simulate(parts).duration_us
        < asim.simulate(whole).duration_us
        < asim.simulate(unfused).duration_us
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["mobilenet_v1", "googlenet", "alexnet", "resnet18", "squeezenet1_1", "se_resnet50"]
)
def test_the_choice_of_blocks_does_not_lose(models_dir: Path, name: str) -> None:
    graph = asim.load(models_dir / f"{name}.onnx", batch=8)
    whole, parts = (
        asim.simulate(asim.compile(graph, "Ascend310", options={"l2_batch": how}))
        for how in ("whole", "split")
    )
    assert parts.duration_us <= 1.01 * whole.duration_us
