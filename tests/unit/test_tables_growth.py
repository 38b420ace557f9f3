"""Tables, pictures and pages of four times the rows take four times the work: nothing looks at all rows for
each row.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import ascendsim as asim
from ascendsim.compiler.naming import TaskNames
from ascendsim.core.errors import AscendSimError
from ascendsim.llm.memory import Memory
from ascendsim.llm.sweeping import Point
from ascendsim.llm.sweeping import Sweep as Steps
from ascendsim.plot.pareto import plot_pareto
from ascendsim.profiling.export import DEFAULT_FORMS
from ascendsim.sweep.figures import Movable
from ascendsim.sweep.fronts import front
from ascendsim.sweep.probes import Probe, Side
from ascendsim.sweep.rows import Sweep, SweepRow
from ascendsim.sweep.sensitivities import Sensitivity
from ascendsim.sweep.space import space_of
from ascendsim.sweep.store import DONE, FAILED, Answer
from ascendsim.sweep.work import FIGURES, Source
from ascendsim.torch.profile_tables import step_times
from tests.support.work_counted import questions, work_of

pytestmark = pytest.mark.usefixtures("untimed_tiles")

FEW, TIMES, MOST = 12, 4, 5  # rows, how many times as many, and how much of the work that may take
SOURCE = Source("net", "digest", "net.onnx")


def network(blocks: int) -> Any:
    builder = asim.GraphBuilder(name="net")
    x = builder.input("x", (1, 16, 8, 8))
    for _ in range(blocks):
        y = builder.op("Conv", x, np.full((16, 16, 1, 1), 0.01, np.float32))
        x = builder.op("Add", x, builder.op("Sigmoid", y))
    builder.output(x, "y")
    return builder.build()


def result(blocks: int) -> Any:
    return asim.simulate(asim.compile(network(blocks), "Ascend310P3"))


def unfused(blocks: int) -> Any:
    return asim.compile(network(blocks), "Ascend310P3", fusion="off")


def with_values(blocks: int) -> Any:
    return asim.run(unfused(blocks), {"x": np.full((1, 16, 8, 8), 0.5, np.float32)})


def over_images(count: int) -> Any:
    builder = asim.GraphBuilder()
    x = builder.input("x", (1, 3, 32, 32))
    builder.output(builder.op("Relu", x), "y")
    model = asim.compile(builder.build(), "Ascend310")
    return asim.simulate(model, images=[np.zeros((32, 32, 3), np.uint8)] * count)


def swept(rows: int) -> Sweep:
    """Rows on two chips, each with a batch of its own, some of which failed; all others lie on the front."""
    found = []
    for number in range(rows):
        point = {"model": "net", "soc": "Ascend310" if number % 2 else "Ascend310P3", "batch": number + 1}
        figures = dict.fromkeys(FIGURES, 1.0)
        figures |= {"Time(us)": 10.0 + number, "Samples/s": 1000.0 + number, "Memory(MiB)": 2.0 + number}
        bad = number % 8 == 7
        answer = Answer(str(number), FAILED, {}, "no room") if bad else Answer(str(number), DONE, figures)
        found.append(SweepRow(point, answer, SOURCE))
    return Sweep(tuple(found), ("soc", "batch"))


def sensitivity(figures: int) -> Sensitivity:
    base = SweepRow({"model": "net", "soc": "Ascend310"}, Answer("", DONE, {"Time(us)": 100.0}), SOURCE)
    probes = tuple(
        Probe(
            Movable(f"figure.{number}", {f"figure.{number}": 8}, "cycles", number % 2 == 0, "assumed"),
            Side({f"figure.{number}": 6}, 100.0 + number),
            Side({f"figure.{number}": 10}, 100.0 - number / 1000),
        )
        for number in range(figures)
    )
    return Sensitivity(base, probes, (), lambda points: [base for _ in points])


def language_steps(points: int) -> Steps:
    memory = Memory("net", "Ascend910B3", 60 << 30, 10 << 30, 1 << 10, 0, 0, 1 << 30)
    one = [Point(1, 1024 + number, 10.0 + number, {"MatMul": 5.0, "Add": 5.0}) for number in range(points)]
    return Steps("net", "Ascend910B3", "graph", tuple(one), memory)


def compared(variants: int) -> Any:
    one = result(2)
    return asim.compare({f"variant {number}": one for number in range(variants)})


SUBJECTS: dict[str, Callable[[int], Any]] = {
    "result": result,
    "numerics": lambda count: with_values(count).numerics,
    "result over images": over_images,
    "compiled model": unfused,
    "graph": network,
    "fusion": lambda count: result(count).model.fusion,
    "memory": lambda count: result(count).memory,
    "sweep": swept,
    "sensitivity": sensitivity,
    "language model's steps": language_steps,
    "comparison": compared,
}
_NOT_DRAWN = (
    "numerics",
    "compiled model",
    "graph",
    "fusion",
    "comparison",
)  # the last has the page of a result
DRAWN = tuple(name for name in SUBJECTS if name not in _NOT_DRAWN)


def check_growth(subject: str, drawn: bool) -> int:
    """How many questions were answered, each with little enough work; `drawn` = those for pictures."""
    make = SUBJECTS[subject]
    asked = [questions(thing) for thing in (make(2), make(FEW), make(TIMES * FEW))]
    answered = 0
    for (name, first), (_, small), (_, large) in zip(*asked, strict=True):
        if drawn != name.startswith(("plot", "report", "save")):
            continue
        try:
            first()  # what a process finds once is found
        except AscendSimError:
            continue  # the object has not got what is asked for
        least, most = work_of(small), work_of(large)
        plt.close("all")
        answered += 1
        assert most <= MOST * least + 1000, f"{subject}.{name}: {most:,} after {least:,}"
    return answered


@pytest.mark.parametrize("subject", SUBJECTS)
def test_four_times_the_rows_take_at_most_five_times_the_work(subject: str) -> None:
    assert check_growth(subject, drawn=False) > 1


@pytest.mark.slow
@pytest.mark.parametrize("subject", DRAWN)
def test_so_do_pictures_and_pages(subject: str) -> None:
    assert check_growth(subject, drawn=True)


def step_timeline(steps: int) -> Any:
    """A recording of steps that each have a graph, a launch and a break."""
    run = SimpleNamespace(kind="forward")
    return SimpleNamespace(
        steps=[SimpleNamespace(number=at, start=10 * at, end=10 * at + 9) for at in range(steps)],
        graphs=[SimpleNamespace(run=run, start=10 * at + 1, end=10 * at + 5, step=at) for at in range(steps)],
        host=[SimpleNamespace(kind="launch", start=10 * at, end=10 * at + 1, step=at) for at in range(steps)],
        breaks=[SimpleNamespace(step=at) for at in range(steps)],
    )


def points(count: int) -> list[dict[str, int]]:
    return [{"batch": number + 1} for number in range(count)]


def names_of(blocks: int) -> Callable[[], object]:
    model = unfused(blocks)
    names = [node.name for node in model.graph.nodes]

    def ask() -> None:
        known = TaskNames(model.graph, model.program)
        for name in names:
            known.tasks(name)

    return ask


def row_names(rows: int) -> Callable[[], object]:
    found = swept(rows)
    return lambda: [found.name_of(row) for row in range(rows)]


def pareto_of_many_groups(rows: int) -> Callable[[], object]:
    table = swept(rows).table()
    return lambda: plot_pareto(table, ("Time(us)", "Samples/s"), "batch", {0})


MORE: dict[str, Callable[[int], Callable[[], object]]] = {
    "times of a profile's steps": lambda count: lambda: step_times(step_timeline(count)),
    "points of a sweep": lambda count: lambda: space_of(["net"], {}, points(count)),
    "tasks by name": names_of,
    "names of rows": row_names,
    "groups of a picture": pareto_of_many_groups,
    **{
        f"front of {goals} goals": lambda count, goals=goals: (
            lambda: front(  # type: ignore[misc]
                [[float(at), *[float(-at)] * (goals - 1)] for at in range(count)]
            )
        )
        for goals in (1, 2, 3)
    },
}


@pytest.mark.parametrize("subject", MORE)
def test_so_do_what_makes_them_and_what_is_asked_of_each_row(subject: str) -> None:
    MORE[subject](2)()
    least, most = work_of(MORE[subject](FEW)), work_of(MORE[subject](TIMES * FEW))
    plt.close("all")
    assert 0 < most <= MOST * least, f"{subject}: {most:,} after {least:,}"


@pytest.mark.slow
@pytest.mark.parametrize("form", [*DEFAULT_FORMS, "kineto"])
def test_so_do_files_for_other_tools(form: str, tmp_path: Any) -> None:
    few, many = result(FEW), result(TIMES * FEW)
    few.export(tmp_path / "first", form)
    least = work_of(lambda: few.export(tmp_path / "few", form))
    most = work_of(lambda: many.export(tmp_path / "many", form))
    assert most <= MOST * least, f"{form}: {most:,} after {least:,}"
