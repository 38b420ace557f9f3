"""What a process remembers of networks changes no program and no time of those that follow."""

from __future__ import annotations

import gc
from pathlib import Path
from random import Random
from types import FunctionType

import pytest

import ascendsim as asim
from ascendsim.api.saving_manifest import program_hash
from ascendsim.compiler import before
from ascendsim.compiler.cann_versions import VERSIONS, with_version
from ascendsim.core.errors import CompileError, Named, Subject
from ascendsim.graph.ir import Node
from ascendsim.isa.program import Program
from ascendsim.lower.known_units import KnownUnits, Refusal
from ascendsim.lower.units import UnitLowering
from ascendsim.machine import Known, Statistics, run
from ascendsim.ops import default_opset
from ascendsim.soc import load
from tests.support.random_programs import random_chip, random_program

# a network whose batch is cut, at batches that meet each other's, and one with refused scopes
OPTIONS = {"tiling": "closed_form", "l2_batch": "split"}
CASES = (("squeezenet1_1", 4), ("squeezenet1_1", 2), ("squeezenet1_1", 1), ("mobilenet_v3_small", 2))


def compiled(models_dir: Path, name: str, batch: int) -> tuple[Program, str, str, float]:
    """Program, its hash, fusion report and time."""
    graph = asim.load(models_dir / f"{name}.onnx", batch=batch)
    model = asim.compile(graph, soc="Ascend310P3", options=OPTIONS)
    time = asim.simulate(model).duration_us
    return model.program, program_hash(model.program), str(model.fusion), time


def test_networks_after_others_are_compiled_as_if_they_came_first(models_dir: Path) -> None:
    first = {}
    for case in CASES:
        before.forget()
        first[case] = compiled(models_dir, *case)
    before.forget()
    for case in CASES[::-1]:
        assert compiled(models_dir, *case) == first[case], case


def test_what_was_lowered_is_not_lowered_again(models_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of the same network, nor, for the most part, of a batch that a larger one was tried in."""
    lowered: list[str] = []
    for kind in ("_lower_scope", "_lower_node"):

        def counted(self: UnitLowering, *args: object, of: object = getattr(UnitLowering, kind)) -> object:
            lowered.append("one")
            return of(self, *args)  # type: ignore[operator]

        monkeypatch.setattr(UnitLowering, kind, counted)
    compiled(models_dir, "squeezenet1_1", 4)
    anew = len(lowered)
    compiled(models_dir, "squeezenet1_1", 4)
    assert len(lowered) == anew > 0
    compiled(models_dir, "squeezenet1_1", 2)
    after = len(lowered) - anew
    before.forget()
    lowered.clear()
    compiled(models_dir, "squeezenet1_1", 2)
    assert 4 * after < len(lowered)  # of pieces that only this batch is cut into


@pytest.mark.parametrize(
    ("name", "more"),
    [  # with Gelu; with Sigmoid, whose quick form the older versions lack
        ("bert_tiny_s64", {}),
        ("efficientnet_b1", {"op_select_implmode": "high_performance", "optypelist_for_implmode": "Sigmoid"}),
    ],
)
def test_versions_of_cann_share_what_is_alike_in_them_and_nothing_else(
    models_dir: Path, name: str, more: dict[str, str]
) -> None:
    def of(cann: str | None) -> tuple[str, float]:
        model = asim.compile(
            asim.load(models_dir / f"{name}.onnx"), soc="Ascend310P3", cann=cann, options=OPTIONS, **more
        )
        return program_hash(model.program), asim.simulate(model).duration_us

    versions = (None, "5.1", "5.0")
    first = []
    for cann in versions:
        before.forget()
        first.append(of(cann))
    assert len({text for text, _ in first}) > 1
    for order in (versions, versions[::-1]):
        before.forget()
        found = {cann: of(cann) for cann in order}
        assert [found[cann] for cann in versions] == first


def test_another_version_lowers_next_to_nothing_of_a_network_of_convolutions(
    models_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lowered: list[object] = []
    for kind in ("_lower_scope", "_lower_node"):

        def counted(self: UnitLowering, *args: object, of: object = getattr(UnitLowering, kind)) -> object:
            lowered.append(args)
            return of(self, *args)  # type: ignore[operator]

        monkeypatch.setattr(UnitLowering, kind, counted)
    graph = asim.load(models_dir / "squeezenet1_1.onnx")
    before.forget()
    asim.compile(graph, soc="Ascend310P3", options=OPTIONS)
    anew = len(lowered)
    asim.compile(graph, soc="Ascend310P3", cann="5.1", options=OPTIONS)
    assert 2 * (len(lowered) - anew) < anew  # scopes without a program are tried anew


def test_single_tasks_feel_no_version_of_cann_and_all_other_figures() -> None:
    """Otherwise versions would share nothing, or what differs."""
    soc = load("Ascend310P3")
    for version in VERSIONS:
        assert with_version(soc, version).task_figures == soc.task_figures
    assert with_version(soc, "5.0").figures != soc.figures
    for key, value in (("l2.size", 1 << 20), ("dram.read_gb_per_s", 99.0), ("launch.block_dispatch_ns", 9.0)):
        assert load("Ascend310P3", {key: value}).task_figures != soc.task_figures, key


def test_operators_say_whether_they_ask_what_differs_between_versions() -> None:
    """What the code of `lower` and of all that it calls names."""
    flags = {"gelu_two_exponents", "sigmoid_polynomial"}

    def asks(function: object, seen: set[object]) -> bool:
        function = getattr(function, "func", function)
        if not isinstance(function, FunctionType) or function in seen:
            return False
        seen.add(function)
        names = {*function.__code__.co_names}
        inner = [cell.cell_contents for cell in function.__closure__ or ()]
        called = [*inner, *(function.__globals__.get(name) for name in names)]
        return bool(names & flags) or any(asks(one, seen) for one in called)

    for one in default_opset():
        assert asks(one.lower, set()) == one.facts.versioned, one.name


def test_no_graph_is_kept_alive(models_dir: Path) -> None:
    def nodes() -> int:
        gc.collect()
        # not isinstance, which asks a weak proxy for the class of an object that may be gone
        return sum(issubclass(type(item), Node) for item in gc.get_objects())

    compiled(models_dir, "squeezenet1_1", 1)  # what is made once
    known = nodes()
    before.forget()
    compiled(models_dir, "squeezenet1_1", 2)
    assert nodes() == known


def test_a_kept_refusal_says_the_same() -> None:
    named = Named("node", "conv1")
    error = CompileError(Subject.of("node ", named), "must fit", 3, "make it smaller")
    try:
        raise error
    except CompileError as raised:
        known = KnownUnits()
        known.keep_scope(("key",), ("conv1",), Refusal(raised, (named,)))
    _, kept = known.scopes[("key",)]
    assert isinstance(kept, Refusal)
    assert str(kept.error) == str(error)
    assert kept.error.__traceback__ is None
    assert str(kept.of((Named("node", "conv7"),))) == str(error).replace("conv1", "conv7")
    unnamed = CompileError("node 'conv1'", "must fit")
    known.keep_scope(("other",), (), Refusal(unnamed, ()))  # others cannot be told of it
    assert ("other",) not in known.scopes


def test_room_is_made_for_what_comes_last() -> None:
    known = KnownUnits(engines={str(number): "cube" for number in range(9)})
    known.make_room(4)
    assert list(known.engines) == ["5", "6", "7", "8"]


def test_random_programs_run_as_if_they_came_first() -> None:
    """On one chip after the other, with blocks and tasks that come again."""
    replayed = 0
    for seed in range(6):
        soc, known = random_chip(Random(seed)), Known()
        for number in range(12):
            program = random_program(Random(seed * 100 + number % 8))
            statistics = Statistics()
            assert run(program, soc, known=known, statistics=statistics) == run(program, soc)
            known.make_room()
            replayed += statistics.replayed
    assert replayed > 20
