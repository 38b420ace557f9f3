"""Forms of kernels and versions of CANN: options, what they change, what is refused."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import ascendsim as asim
from ascendsim.cli.main import main
from ascendsim.compiler.cann_versions import VERSIONS, version_of, with_version
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.isa.instructions import Vector
from ascendsim.soc import load

QUICK = {"op_select_implmode": "high_performance", "optypelist_for_implmode": "Gelu"}


def one(op: str, *shape: int) -> Graph:
    b = asim.GraphBuilder(op)
    b.output(b.op(op, b.input("x", shape, "float16")), "y")
    return b.build()


def vectors(graph: Graph, soc: str, **options: Any) -> list[tuple[str, str]]:
    """Vector instructions of the one task, with their types."""
    (task,) = asim.compile(graph, soc, **options).program.tasks
    found = [item for group in task.groups for item in walk(group.block.body) if isinstance(item, Vector)]
    return list(dict.fromkeys((item.op, item.dtype) for item in found))


def walk(body: Any) -> Any:
    for item in body:
        yield item
        yield from walk(getattr(item, "body", ()))


def microseconds(graph: Graph, soc: str, **options: Any) -> float:
    return asim.simulate(asim.compile(graph, soc, **options)).duration_us


def test_quick_gelu_has_no_exponent_and_no_float32() -> None:
    graph = one("Gelu", 512, 1024)
    slow, quick = (dict(vectors(graph, "Ascend310P3", **options)) for options in ({}, QUICK))
    assert slow["vexp"] == "float32"
    assert "vexp" not in quick
    assert set(quick.values()) == {"float16"}
    assert microseconds(graph, "Ascend310P3", **QUICK) < 0.7 * microseconds(graph, "Ascend310P3")


def test_the_ways_to_ask_for_a_form_are_one(tmp_path: Path) -> None:
    graph = one("Gelu", 512, 1024)
    path = tmp_path / "precision.ini"
    path.write_text("[ByOpType]\n# ours\nGelu = high_performance\n")
    ways: list[dict[str, Any]] = [
        QUICK,
        {**QUICK, "optypelist_for_implmode": ["Sigmoid", "Gelu"]},
        {"op_select_implmode": "high_performance_for_all"},
        {"op_precision_mode": str(path)},
        {"op_precision_mode": {"Gelu": "high_performance"}},
        asim.ir_options({"ge.opSelectImplmode": "high_performance", "OPTYPELIST_FOR_IMPLMODE": "Gelu"}),
    ]
    assert len({microseconds(graph, "Ascend310P3", **way) for way in ways}) == 1
    plain = {
        microseconds(graph, "Ascend310P3", **way) for way in ({}, {"op_select_implmode": "high_performance"})
    }
    assert len(plain) == 1, "without a list of types nothing that has two forms changes"


def test_softmax_and_sigmoid_have_forms_too() -> None:
    softmax, sigmoid = one("Softmax", 512, 1024), one("Sigmoid", 512, 1024)
    exact = {"op_select_implmode": "high_precision", "optypelist_for_implmode": "Softmax"}
    assert ("vsub", "float16") in vectors(softmax, "Ascend310P3")
    assert ("vsub", "float32") in vectors(softmax, "Ascend310P3", **exact)
    quick = {"op_select_implmode": "high_performance", "optypelist_for_implmode": "Sigmoid"}
    assert "vexp" in dict(vectors(sigmoid, "Ascend310P3"))
    assert "vexp" not in dict(vectors(sigmoid, "Ascend310P3", **quick))
    assert vectors(sigmoid, "Ascend310", **quick) == vectors(sigmoid, "Ascend310"), (
        "only 310P has a polynomial"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"op_select_implmode": "fast"}, "must be one of high_precision"),
        ({**QUICK, "optypelist_for_implmode": "Gelo"}, "did you mean Gelu"),
        ({"optypelist_for_implmode": "Gelu"}, "goes with op_select_implmode"),
        ({"op_select_implmode": "high_precision_for_all", "optypelist_for_implmode": "Gelu"}, "goes with"),
        ({**QUICK, "op_precision_mode": {"Gelu": "high_precision"}}, "exclude each other"),
        ({"op_precision_mode": {"Gelu": "exact"}}, "must be high_precision or high_performance"),
        ({"op_precision_mode": "nowhere.ini"}, "op_precision_mode"),
        ({"cann": "newest"}, "must be a version of CANN"),
        ({"cann": "3.20"}, "must be 5.0 or newer"),
    ],
)
def test_what_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        asim.compile(one("Gelu", 16, 16), "Ascend310P3", **options)


def test_a_section_by_node_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "precision.ini"
    path.write_text("[ByNodeName]\nGelu_1=high_performance\n")
    with pytest.raises(InputError, match="ByOpType"):
        asim.compile(one("Gelu", 16, 16), "Ascend310P3", op_precision_mode=path)


def test_older_kernels_of_310p() -> None:
    gelu, softmax = one("Gelu", 512, 1024), one("Softmax", 8, 6, 197, 197)
    new, old = (microseconds(gelu, "Ascend310P3", cann=version) for version in (None, "5.1.RC2"))
    assert old > 1.2 * new, "two exponents instead of one"
    assert microseconds(gelu, "Ascend310P3", cann="8.1.RC1") == new
    assert microseconds(gelu, "Ascend310", cann="5.0.2") == microseconds(gelu, "Ascend310")
    assert microseconds(softmax, "Ascend310P3", cann="5.0.4") == microseconds(softmax, "Ascend310P3")


def test_fractals_of_softmax_came_with_5_1() -> None:
    b = asim.GraphBuilder("attention")
    q, k, v = (b.input(name, (8, 6, 197, 64), "float16") for name in "qkv")
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=(0, 1, 3, 2)))
    b.output(b.op("MatMul", b.op("Softmax", scores, axis=-1), v), "y")
    graph = b.build()
    old, new = (microseconds(graph, "Ascend310P3", cann=version) for version in ("5.0.4", "5.1.RC1"))
    assert old > 2 * new


def test_versions() -> None:
    assert [version_of(text) for text in ("5.0.2.alpha003", "CANN 5.1.RC1", "5.9", "7.0", "9.0.1")] == [
        "5.0",
        "5.1",
        "5.1",
        "6.0",
        "8.0",
    ]
    for name, chips in VERSIONS.items():
        for generation, changes in chips.items():
            assert changes
            chip = next(
                load(soc) for soc in ("Ascend310", "Ascend310P3") if load(soc).generation == generation
            )
            other = with_version(chip, name)
            assert all(attrgetter(item.key)(other) == item.value for item in changes)
            assert all(attrgetter(item.key)(chip) != item.value for item in changes)
            assert all(item.source for item in changes)


def test_tasks_follow_later_with_an_older_version() -> None:
    """Each task but the first by as much; a figure of the user's stays."""

    def times(tasks: int, **options: Any) -> float:
        b = asim.GraphBuilder("chain")
        x = b.input("x", (16, 16), "float16")
        for _ in range(tasks):
            x = b.op("Softmax", x, axis=-1)
        b.output(x, "y")
        return microseconds(b.build(), "Ascend310P3", **options)

    late = [times(tasks, cann="5.1") - times(tasks) for tasks in (1, 2, 5)]
    assert late[0] == pytest.approx(0, abs=1e-3)
    assert late[1] > 0.5
    assert late[2] == pytest.approx(4 * late[1], rel=1e-3)
    own = {"set": {"launch.task_gap_us": 0.3}}
    assert times(2, cann="5.1", **own) == times(2, **own)


def test_the_command_line_takes_them(capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--op_select_implmode",
        "high_performance",
        "--optypelist_for_implmode",
        "Gelu",
        "--cann",
        "5.1",
    ]
    assert main(["compile", "tests/data/models/lenet5.onnx", *options]) == 0
    assert main(["compile", "tests/data/models/lenet5.onnx", "--cann", "old"]) == 2
    assert "must be a version of CANN" in capsys.readouterr().err
