"""Memory has an end: on the chip, which a compiled model may not fit, and here, where its values are."""

from __future__ import annotations

from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.compiler.capacity import Capacity
from ascendsim.core import host_memory

GIB = 1 << 30
MODEL = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"


def capacity(weights: int, activations: int, batch: int, size: int | None = 8 * GIB) -> Capacity:
    return Capacity("Chip", size, GIB, weights, activations, batch)


def test_what_fits_fits_to_the_byte() -> None:
    assert capacity(3 * GIB, 4 * GIB, 4).fits
    assert capacity(3 * GIB, 4 * GIB, 4).complaint() is None
    over = capacity(3 * GIB, 4 * GIB + 1, 4)
    assert not over.fits
    assert over.largest_batch == 3
    assert over.complaint() == (
        "the model needs 7.0 GiB (3.0 weights, 4.0 activations at batch 4), Chip has 7.0 for models; about "
        "batch 3 would fit"
    )


def test_the_largest_batch_leaves_room_for_weights() -> None:
    assert capacity(3 * GIB, GIB, 1).largest_batch == 4
    assert capacity(3 * GIB, 8 * GIB, 8).largest_batch == 4
    assert capacity(7 * GIB, 1, 1).largest_batch == 0
    assert "not even one sample fits: cut the model, or set dram.size=9GiB" in str(
        capacity(7 * GIB, 1, 1).complaint()
    )


def test_a_chip_of_unknown_size_refuses_nothing() -> None:
    unknown = capacity(1 << 50, 1 << 50, 1, size=None)
    assert (unknown.fits, unknown.largest_batch, unknown.complaint()) == (True, None, None)
    assert [row[0] for row in unknown.table()] == ["weights", "activations, workspace"]


def test_the_table_adds_up_to_the_chip() -> None:
    rows = dict(capacity(3 * GIB, 2 * GIB, 1).table().rows)
    assert rows.pop("memory of Chip") == sum(rows.values()) == 8192
    assert rows["left"] == 2048


def test_compile_says_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    small = {"dram.size": "24MiB", "dram.reserved": "8MiB"}
    graph = asim.load(MODEL, batch=4096)
    with pytest.warns(UserWarning, match=r"Ascend310 has 0\.0 for models; about batch \d+ would fit"):
        model = asim.compile(graph, soc="Ascend310", set=small)
    batch = model.capacity.largest_batch
    assert batch is not None
    assert asim.compile(asim.load(MODEL, batch=batch), soc="Ascend310", set=small).capacity.fits
    options = [option for key, text in small.items() for option in ("--set", f"{key}={text}")]
    assert main(["compile", str(MODEL), "--batch", "4096", "--soc_version", "Ascend310", *options]) == 0
    assert "warning: the model needs" in capsys.readouterr().err


def test_values_that_this_machine_cannot_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model = asim.compile(asim.load(MODEL, batch=64), soc="Ascend310")
    inputs = asim.random_inputs(model)
    needed = model.program.memory.peak_bytes
    monkeypatch.setattr(host_memory, "free_bytes", lambda: needed - 1)
    with pytest.raises(asim.InputError, match=r"values of graph .* need .* GiB, .* are free; run without"):
        asim.run(model, inputs)
    monkeypatch.setattr(host_memory, "free_bytes", lambda: inputs["input"].nbytes - 1)
    with pytest.raises(asim.InputError, match="random inputs need"):
        asim.random_inputs(model)


def test_absurd_sizes_end_in_a_line() -> None:
    b = asim.GraphBuilder("huge")
    with pytest.raises(asim.GraphError, match="input 'wide' must have at most 1099511627776 elements"):
        b.op("Relu", b.input("wide", (1_000_000, 10_000_000)))
    b = asim.GraphBuilder("large")
    b.output(b.op("Relu", b.input("x", (1_000_000, 1_000_000))), "y")
    model = asim.compile(b.build(), soc="Ascend910B1", fusion="off")
    with pytest.raises(asim.InputError, match="GiB"):
        asim.random_inputs(model)


def test_free_memory_is_the_smaller_of_system_and_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info, limit, used = tmp_path / "meminfo", tmp_path / "max", tmp_path / "current"
    info.write_text("MemTotal: 9000 kB\nMemAvailable:   4000 kB\n")
    monkeypatch.setattr(host_memory, "_MEMINFO", info)
    monkeypatch.setattr(host_memory, "_GROUPS", ((limit, used),))
    assert host_memory.free_bytes() == 4000 << 10
    limit.write_text(f"{3000 << 10}\n")
    used.write_text(f"{1000 << 10}\n")
    assert host_memory.free_bytes() == 2000 << 10
    limit.write_text("max\n")
    assert host_memory.free_bytes() == 4000 << 10
