"""Options of a compilation are checked once, before anything else happens, for graphs of every kind."""

from __future__ import annotations

from dataclasses import fields
from inspect import signature
from typing import Any

import pytest

import ascendsim as asim
from ascendsim.cli import compile as compile_command
from ascendsim.compiler import pipeline
from ascendsim.compiler.compiling import compile_until
from ascendsim.compiler.options import CompileOptions, cli_options
from ascendsim.core.errors import AscendSimError, UnsupportedOperatorError
from ascendsim.graph.text import to_text
from ascendsim.isa.program import MODES
from ascendsim.ops import default_opset
from ascendsim.passes.precision.assign import apply_precision

WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"fusion": "bogus"}, "option fusion"),
    ({"options": {"nope": 1}}, "profile option 'nope'"),
    ({"precision_mode": "xx"}, "option precision_mode"),
    ({"buffer_optimize": "zz"}, "option buffer_optimize"),
    ({"fusion_switch_file": "no/such/file.cfg"}, "no/such/file.cfg"),
    ({"passes": [3]}, "passes"),
    ({"graph_kernel_flags": "--opt_level=2"}, "option graph_kernel_flags"),
    ({"output_type": "FP17"}, "option output_type"),
    ({"insert_op_conf": "no/such/aipp.cfg"}, "no/such/aipp.cfg"),
    ({"schedule": "later"}, "option schedule"),
    ({"optimize": ["NoSuchPass"]}, "NoSuchPass"),
    ({"dynamic_batch_size": [1, 2], "dynamic_dims": "1;2"}, "exclude each other"),
)


def network(batch: int | str = 1) -> asim.Graph:
    b = asim.GraphBuilder("small")
    b.output(b.op("Relu", b.input("x", (batch, 8))), "y")
    return b.build()


@pytest.mark.parametrize("batch", [1, "n"], ids=["still", "open"])
@pytest.mark.parametrize(("options", "named"), WRONG, ids=[next(iter(options)) for options, _ in WRONG])
def test_wrong_options_are_refused_whatever_the_graph(
    batch: int | str, options: dict[str, Any], named: str
) -> None:
    with pytest.raises(AscendSimError, match=named):
        asim.compile(network(batch), **options)


@pytest.mark.parametrize("batch", [1, "n"], ids=["still", "open"])
def test_an_unknown_operator_is_refused_before_anything_runs(batch: int | str) -> None:
    graph = network(batch)
    graph.nodes[0].op_type = "Foo"
    with pytest.raises(UnsupportedOperatorError, match="Foo"):
        asim.compile(graph)


def test_compile_takes_the_fields_of_the_options() -> None:
    taken = signature(asim.compile).parameters
    assert list(taken)[1:] == [item.name for item in fields(CompileOptions)]
    assert all(taken[item.name].default == item.default for item in fields(CompileOptions))


def test_choices_of_the_command_line_are_those_of_the_layers_below() -> None:
    known = cli_options()
    assert known["schedule"].choices == MODES
    for mode in known["precision_mode"].choices:
        apply_precision(asim.Graph(), default_opset(), mode)


def test_options_print_what_differs_and_are_equal_by_value() -> None:
    one, other = (
        CompileOptions(soc="Ascend910A", set={"l2.size": 1, "cube.m0": 2}, fusion="ub") for _ in range(2)
    )
    assert str(one) == "CompileOptions(soc='Ascend910A', set={'cube.m0': 2, 'l2.size': 1}, fusion='ub')"
    assert one == other
    assert hash(one) == hash(other)
    assert one != CompileOptions(soc="Ascend910A")


def test_a_model_knows_its_options() -> None:
    assert asim.compile(network(), soc="Ascend910A", fusion="graph").options.plain() == {
        "soc": "'Ascend910A'",
        "fusion": "'graph'",
    }


def test_a_compilation_can_be_stopped_behind_every_stage(tmp_path) -> None:
    texts = []
    for stage in pipeline.STAGES:
        work = compile_until(network(), CompileOptions(), stage.name)
        assert (work.program is not None) == (stage.name == "program")
        texts.append(to_text(work.graph))
    assert any(":f16" in text or "float16" in text for text in texts), texts[-1]
    compile_until(network(), CompileOptions(), dump=tmp_path)
    dumped = sorted(path.name for path in tmp_path.glob("*.dot"))
    assert dumped == [f"{number:02}_{stage.name}.dot" for number, stage in enumerate(pipeline.STAGES)]
    with pytest.raises(AscendSimError, match="did you mean"):
        compile_until(network(), CompileOptions(), "type-and-formats")


def test_stages_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_command._print_stages() == 0
    printed = capsys.readouterr().out
    assert all(stage.name in printed for stage in pipeline.STAGES)
