"""Switches of the machine's shortcuts in `simulate`: all give the same result, and a wrong name is told."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim import machine
from ascendsim.api import running
from ascendsim.api.running import SHORTCUTS

LENET = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"


def test_every_choice_gives_the_same_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    model = asim.compile(asim.load(LENET), soc="Ascend910A")
    given: list[dict[str, object]] = []

    def watched(*args: object, **options: object) -> object:
        given.append({name: options[name] for name in SHORTCUTS})
        return machine.run(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(running, "run_machine", watched)
    whole = asim.simulate(model, instructions=True).trace
    choices = [chosen for count in range(len(SHORTCUTS)) for chosen in combinations(SHORTCUTS, count)]
    for chosen in choices:
        trace = asim.simulate(model, instructions=True, shortcuts=chosen).trace
        assert trace.tasks == whole.tasks
        if "groups" in chosen:
            assert list(trace.instructions) == list(whole.instructions)
    assert given == [dict.fromkeys(SHORTCUTS, True)] + [
        {name: name in chosen for name in SHORTCUTS} for chosen in choices
    ]


def test_further_runs_need_no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values change no time; whoever asks for instructions, other shortcuts or a simulation gets one."""
    model = asim.compile(asim.load(LENET, weights="random"))
    times: list[int] = []

    def counted(*args: object, **options: object) -> object:
        trace = machine.run(*args, **options)  # type: ignore[arg-type]
        times.append(trace.end)
        return trace

    monkeypatch.setattr(running, "run_machine", counted)
    first, second = (asim.run(model, asim.random_inputs(model, seed)) for seed in (1, 2))
    assert len(times) == 1
    assert first.trace == second.trace
    assert any((first.outputs[name] != second.outputs[name]).any() for name in first.outputs)
    inputs = asim.random_inputs(model, 1)
    assert asim.run(model, inputs, instructions=True).trace.instructions
    assert not asim.run(model, inputs).trace.instructions
    asim.run(model, inputs, shortcuts="replay")
    asim.simulate(model)
    asim.run(asim.compile(asim.load(LENET, weights="random")), inputs)
    assert len(times) == 5
    assert len(set(times)) == 1


def test_a_wrong_name_is_told() -> None:
    model = asim.compile(asim.load(LENET))
    with pytest.raises(
        asim.InputError,
        match="must be out of fast_forward, groups, replay, solo, not 'fast-forward'; did you",
    ):
        asim.simulate(model, shortcuts=["fast-forward"])
    assert asim.simulate(model, shortcuts="groups").cycles == asim.simulate(model).cycles
    with pytest.raises(asim.InputError, match="option shortcuts must be a sequence of texts, not False"):
        asim.simulate(model, shortcuts=False)  # type: ignore[arg-type]
