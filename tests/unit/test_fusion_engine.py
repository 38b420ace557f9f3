"""The engine, the flow around it and the levels: matches before rewrites, refusals, sources, subgraphs,
errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascendsim import soc
from ascendsim.api.compiling import compile
from ascendsim.api.running import random_inputs, run
from ascendsim.cli.main import main
from ascendsim.compiler.fusion import FusionLevel, FusionSettings, pass_states
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import GraphError, InputError, PassError
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.passes.fusion.engine import run_rules
from ascendsim.passes.fusion.flow import fuse_graph
from ascendsim.passes.fusion.report import FusionReport
from ascendsim.passes.fusion.rule import FusionContext, FusionRule
from ascendsim.passes.fusion.switch_file import SwitchFile
from ascendsim.passes.fusion.switches import Switches
from ascendsim.passes.rewriting.pattern import Match
from ascendsim.passes.rewriting.replace import replace_root
from tests.support.evaluate import evaluate
from tests.support.toy_rules import (
    ONLY_TOYS,
    DropNeutral,
    JoinRelu,
    builder,
    named,
    neutral_graph,
    relu_chain,
    toy_context,
)

LENET = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"


def fuse(graph: Graph, *rules: FusionRule, **options: Any) -> FusionReport:
    report = FusionReport()
    fuse_graph(graph, rules, toy_context(), options.pop("switches", Switches()), report, **options)
    return report


def test_all_matches_are_found_before_the_first_rewrite() -> None:
    graph = relu_chain(5)
    (record,) = fuse(graph, JoinRelu()).records
    assert (record.matched, record.effected) == (4, 4)
    assert [node.op_type for node in graph.topological()] == ["Abs", "Relu"]
    assert record.fused[0] == ("relu1", "relu0")


class JoinPairs(JoinRelu):
    """Like JoinRelu, but leaves what it made itself."""

    def check(self, match: Match, context: FusionContext) -> str | None:
        return "made by this pass" if match.nodes["inner"].name.startswith("joined") else None


def test_each_refusal_keeps_its_reason() -> None:
    graph = relu_chain(4)
    (record,) = fuse(graph, JoinPairs()).records
    assert (record.matched, record.effected) == (3, 2)
    assert [(refusal.node, refusal.reason) for refusal in record.refusals] == [("relu2", "made by this pass")]
    (dropped, *_) = fuse(neutral_graph(), DropNeutral()).records
    assert [(refusal.node, refusal.reason) for refusal in dropped.refusals] == [
        ("two", "the constant is not 1")
    ]


def test_the_table_names_the_commonest_refusal() -> None:
    report = fuse(relu_chain(4), JoinPairs())
    (row,) = report.table().rows
    assert row == ("graph", "JoinRelu", 3, 2, "made by this pass")
    refused = report.records[0]
    other = replace(refused, refusals=[replace(refused.refusals[0], reason="more often")] * 2)
    report.records.append(other)
    assert [row[-1] for row in report.table().rows] == ["more often"]
    assert fuse(relu_chain(2), JoinRelu()).table().rows[0][-1] == ""


class Vanishing(JoinRelu):
    """Takes whole chains at once, so that later matches of the same pass are gone."""

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        for tensor in (match.nodes["outer"].output,):
            for use in tensor.uses:
                if use.node.op_type == "Relu":
                    graph.replace_uses(use.node.output, tensor)
                    graph.remove_node(use.node)


def test_a_match_that_an_earlier_rewrite_took_is_a_refusal() -> None:
    (record,) = fuse(relu_chain(3), Vanishing()).records
    assert (record.matched, record.effected) == (2, 1)
    assert [(refusal.node, refusal.reason) for refusal in record.refusals] == [
        ("relu2", "an overlapping match was rewritten before")
    ]


def test_values_and_names_of_outputs_stay() -> None:
    graph, unfused = neutral_graph(), neutral_graph()
    report = fuse(graph, DropNeutral(), JoinRelu())
    assert report.totals("graph") == {"DropNeutral": (3, 2), "JoinRelu": (1, 1)}
    assert [tensor.name for tensor in graph.outputs] == ["y"]
    x = {"x": np.random.default_rng(0).standard_normal((2, 16), np.float32)}
    np.testing.assert_array_equal(evaluate(graph, default_opset(), x), evaluate(unfused, default_opset(), x))
    assert [node.op_type for node in graph.topological()] == ["Mul", "Relu"]


def test_outputs_keep_their_names_when_nothing_is_left_to_compute() -> None:
    """y = x * 1 and z = relu(x) * 1 with relu(x) an output too: x and the relu keep their names, copies take
    those of y and z."""
    b = builder()
    x = b.input("x", (4,))
    b.output(b.op("Mul", x, 1.0), "y")
    relu = b.output(b.op("Relu", x), "r")
    b.output(b.op("Mul", relu, 1.0), "z")
    graph = b.build()
    assert fuse(graph, DropNeutral()).totals("graph") == {"DropNeutral": (2, 2)}
    assert [tensor.name for tensor in graph.outputs] == ["y", "r", "z"]
    assert [tensor.name for tensor in graph.inputs] == ["x"]
    assert sorted(node.op_type for node in graph.nodes) == ["Identity", "Identity", "Relu"]
    inputs = {"x": np.array([-1, 0, 1, 2], np.float32)}
    assert [array.tolist() for array in evaluate(graph, default_opset(), inputs)] == [
        [-1, 0, 1, 2],
        [0, 0, 1, 2],
        [0, 0, 1, 2],
    ]
    model = compile(graph, fusion="off")
    assert run(model, inputs).outputs["z"].tolist() == [0, 0, 1, 2]


def test_new_nodes_remember_whom_they_stand_for() -> None:
    graph = relu_chain(3)
    fuse(graph, JoinRelu())
    (relu,) = [node for node in graph.nodes if node.op_type == "Relu"]
    assert relu.origin["source_names"] == ("relu0", "relu1", "relu2")


class KeepFirst(JoinRelu):
    """Makes no new node: the first Relu takes over."""

    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        graph.replace_uses(match.root.output, match.nodes["inner"].output)
        graph.remove_node(match.root)


def test_a_node_that_takes_over_remembers_whom_it_stands_for() -> None:
    graph = relu_chain(2)
    fuse(graph, KeepFirst())
    assert graph.node("relu0").origin["source_names"] == ("relu0", "relu1")


def test_what_someone_else_reads_is_not_taken() -> None:
    b = builder()
    inner = b.op("Relu", b.input("x", (4,)), name="inner")
    b.output(b.op("Relu", inner), "y")
    b.output(b.op("Abs", inner), "z")
    assert fuse(b.build(), JoinRelu()).records == []


def test_a_graph_output_inside_is_not_taken() -> None:
    b = builder()
    inner = b.op("Relu", b.input("x", (4,)), name="inner")
    b.output(inner, "z")
    b.output(b.op("Relu", inner), "y")
    assert fuse(b.build(), JoinRelu()).records == []


def test_rules_that_are_off_do_not_run_and_say_why() -> None:
    graph = neutral_graph()
    switches = Switches(file=SwitchFile({"graph": {"JoinRelu": False}}))
    report = fuse(graph, JoinRelu(), DropNeutral(), switches=switches)
    assert report.switched_off == {"JoinRelu": "switch file"}
    assert set(report.totals("graph")) == {"DropNeutral"}
    assert sum(node.op_type == "Relu" for node in graph.nodes) == 2


def test_the_rounds_are_apart() -> None:
    graph = neutral_graph()
    rules = (named(JoinRelu, "CastCastFusionPass"), DropNeutral())
    assert set(fuse(graph, *rules).totals("graph")) == {"DropNeutral"}
    assert set(fuse(graph, *rules, second_round=True).totals("graph")) == {"CastCastFusionPass"}


def test_passes_see_what_earlier_ones_left() -> None:
    """Relu(Relu(x) * 1) is a chain of two only after DropNeutral; its place in the order decides."""

    def joined(drop_priority: int) -> bool:
        b = builder()
        y = b.op("Relu", b.op("Mul", b.op("Relu", b.input("x", (4,))), 1.0))
        b.output(y, "y")
        rules = (
            named(JoinRelu, "Join", stage="Main", priority=1500),
            named(DropNeutral, "Drop", stage="Main", priority=drop_priority),
        )
        return "Join" in fuse(b.build(), *rules).totals("graph")

    assert joined(1400)
    assert not joined(1600)


def test_dumps_name_the_pass_and_show_its_graph() -> None:
    graph = neutral_graph()
    seen: list[tuple[str, int]] = []
    fuse(graph, JoinRelu(), DropNeutral(), dump=lambda name, at: seen.append((name, len(at))))
    assert seen == [("DropNeutral", 3), ("JoinRelu", 2)]


def test_subgraphs_are_fused_too() -> None:
    b = builder()
    then, other = Graph("then"), Graph("else")
    x = b.op("Abs", b.input("x", (4,)), name="outer")
    for branch in (then, other):
        first = branch.add_node("Relu", [x], name=f"{branch.name}_first")
        last = branch.add_node("Relu", [first.output], name=f"{branch.name}_last")
        for node in (first, last):
            node.output.dtype, node.output.shape = DType.FLOAT32, (4,)
        branch.outputs.append(last.output)
    choice = b.input("choice", (), DType.BOOL)
    chosen = b.graph.add_node("If", [choice], name="if", then_branch=then, else_branch=other)
    chosen.output.dtype, chosen.output.shape = DType.FLOAT32, (4,)
    b.output(chosen.output, "y")
    report = fuse(b.build(), JoinRelu())
    assert report.totals("graph") == {"JoinRelu": (2, 2)}
    assert [len(branch) for branch in (then, other)] == [1, 1]


class Failing(JoinRelu):
    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        raise GraphError("tensor 'x'", "is not there")


class Raising(JoinRelu):
    def check(self, match: Match, context: FusionContext) -> str | None:
        raise KeyError("no such tensor")


class Searching(JoinRelu):
    def find(self, graph: Graph, pattern: str) -> Iterator[Match]:
        raise ValueError("not found")


class Reshaping(JoinRelu):
    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        flat = context.add(graph, "Flatten", [match.root.required(0)], like=match.root)
        replace_root(
            graph, match.root, context.add(graph, "ReduceMax", [flat.output], like=match.root).output
        )


class Retyping(JoinRelu):
    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        replace_root(
            graph,
            match.root,
            context.add(graph, "Cast", [match.root.required(0)], like=match.root, to=DType.INT32).output,
        )


class Allowing(JoinRelu):
    def check(self, match: Match, context: FusionContext) -> str | None:
        return True  # type: ignore[return-value]


class Breaking(JoinRelu):
    def rewrite(self, graph: Graph, match: Match, context: FusionContext) -> None:
        match.nodes["inner"].set_input(0, match.root.output)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            Failing,
            "fusion pass 'Bad' failed at node 'second': tensor 'x' is not there; rules that had changed the "
            "graph before: DropNeutral",
        ),
        (
            Raising,
            "fusion pass 'Bad' failed at node 'second': KeyError: 'no such tensor'; rules .*: DropNeutral",
        ),
        (
            Searching,
            "fusion pass 'Bad' failed when looking for pattern '.*': ValueError: not found; rules .*: "
            "DropNeutral",
        ),
        (
            Reshaping,
            "fusion pass 'Bad' failed at node 'second': tensor .* must have shape .* to stand for 'y', not",
        ),
        (
            Retyping,
            "fusion pass 'Bad' failed at node 'second': tensor .* must have type .* to stand for 'y', not",
        ),
        (
            Allowing,
            "fusion pass 'Bad' failed at node 'second': TypeError: check must return None or why not, as "
            "text, not True",
        ),
        (
            Breaking,
            "fusion pass 'Bad' left a broken graph: .*cycle.*this is a defect of the pass; changed before "
            "it: DropNeutral",
        ),
    ],
)
def test_a_failing_rule_is_named_with_those_before_it(rule: type[FusionRule], message: str) -> None:
    with pytest.raises(PassError, match=message):
        run_rules(neutral_graph(), [DropNeutral(), named(rule, "Bad")], toy_context(), FusionReport())


def test_levels_are_cumulative() -> None:
    levels = [FusionLevel.of(name) for name in ("off", "graph", "ub", "all")]
    assert [(level.graph, level.ub, level.l1_and_l2) for level in levels] == [
        (False, False, False),
        (True, False, False),
        (True, True, False),
        (True, True, True),
    ]


BAD_OPTIONS: list[tuple[Mapping[str, Any], str]] = [
    ({"fusion": "grph"}, "option fusion must name a level or a flow, not 'grph'; did you mean graph?"),
    ({"fusion": None}, "option fusion must be text, not None"),
    ({"fusion": "off", "passes": [JoinRelu()]}, 'option passes needs fusion="graph" or more'),
    (
        {"buffer_optimize": "l3"},
        "option buffer_optimize must be one of l2_optimize, l1_optimize, off_optimize",
    ),
    ({"oo_level": "O2"}, "option oo_level must be O1 or O3"),
    ({"optimization_switch": "x"}, "option --optimization_switch must have the form"),
    ({"fusion_switch_file": "/nowhere/switch.cfg"}, "EM_OPEN_FILE_FAILED"),
    (
        {"passes": [JoinRelu]},
        "option passes must be a sequence of FusionRule objects, not list; write passes=",
    ),
    (
        {"passes": JoinRelu()},
        "option passes must be a sequence of FusionRule objects, not JoinRelu; write passes=",
    ),
    ({"options": 3}, "option options must be a dictionary by name, not 3; write "),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options_of_compile(options: Mapping[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compile(relu_chain(1), **options)


@pytest.mark.parametrize(
    ("options", "level", "needed"),
    [
        ({"group_conv": "split"}, "off", "graph"),
        ({"ub_conv": 2}, "graph", "ub"),
        ({"l2_batch": "split"}, "ub", "all"),
    ],
)
def test_profile_options_of_a_higher_level_are_warnings(
    options: Mapping[str, Any], level: str, needed: str
) -> None:
    (name,) = options
    wanted = f"profile option {name} has no effect with fusion={level}: it counts from fusion={needed} on"
    assert compile(relu_chain(1), soc="Ascend310", fusion=level, options=options).fusion.warnings == [wanted]
    assert compile(relu_chain(1), soc="Ascend310", fusion=needed, options=options).fusion.warnings == []


def test_warnings_name_the_flow_that_was_asked_for() -> None:
    options: dict[str, Any] = {"ub_conv": 2, "l2_batch": "split"}
    model = compile(
        relu_chain(1), soc="Ascend310", fusion="graph-kernel", buffer_optimize="off_optimize", options=options
    )
    assert model.fusion.warnings == [
        "option buffer_optimize has no effect with fusion=graph-kernel",
        "profile option l2_batch has no effect with fusion=graph-kernel: it counts from fusion=all on",
    ]


def test_options_that_conflict_are_warnings() -> None:
    settings = FusionSettings.of(
        "off", optimization_switch="SoftmaxFusionPass:on", buffer_optimize="off_optimize"
    )
    assert settings.new_report().warnings == [
        "option optimization_switch has no effect with fusion=off",
        "option buffer_optimize has no effect with fusion=off",
    ]
    assert (
        FusionSettings.of(
            "all", optimization_switch="SoftmaxFusionPass:on", buffer_optimize="off_optimize"
        ).switches.warnings
        == ()
    )


@pytest.mark.parametrize(("fusion", "tasks"), [("off", 4), ("graph", 2), ("ub", 2), ("all", 2)])
def test_levels_from_graph_on_run_the_users_passes(fusion: str, tasks: int) -> None:
    passes = [] if fusion == "off" else [JoinRelu()]
    settings = FusionSettings.of(fusion, None, passes, str(ONLY_TOYS["optimization_switch"]), "O1")
    graph, report = relu_chain(3), settings.new_report()
    settings.fuse(graph, soc.load("Ascend310"), default_opset(), report)
    assert len(graph) == tasks


def test_compiling_leaves_the_users_graph_and_its_values() -> None:
    graph = relu_chain(3)
    fused, unfused = compile(graph, passes=[JoinRelu()], **ONLY_TOYS), compile(graph, fusion="off")
    assert len(graph) == 4
    assert len(fused.program.tasks) == len(unfused.program.tasks) - 2
    inputs = random_inputs(unfused)
    for values in ("device", "float32"):
        np.testing.assert_array_equal(
            run(fused, inputs, values=values).outputs["y"], run(unfused, inputs, values=values).outputs["y"]
        )


def test_states_of_all_passes() -> None:
    settings = FusionSettings.of(
        "graph", passes=[JoinRelu(), DropNeutral()], optimization_switch="JoinRelu:off"
    )
    report = settings.new_report()
    settings.fuse(neutral_graph(), soc.load("Ascend310"), default_opset(), report)
    states = {state.name: state for state in pass_states(settings, report)}
    assert (states["DropNeutral"].state, states["DropNeutral"].why, states["DropNeutral"].kind) == (
        "on",
        "default",
        "graph custom",
    )
    assert (states["DropNeutral"].matched, states["DropNeutral"].effected) == (3, 2)
    assert (states["JoinRelu"].state, states["JoinRelu"].why, states["JoinRelu"].matched) == (
        "off",
        "--optimization_switch",
        0,
    )
    everything = {
        (state.name, state.kind.split()[0]): state for state in pass_states(settings, None, everything=True)
    }
    assert len(everything) >= 489 + 129 + 2
    assert everything["TbeEltwiseFusionPass", "ub"].matched is None
    assert {state.state for state in pass_states(FusionSettings.of("off"))} <= {"off"}


def test_list_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    switch_file = tmp_path / "switch.cfg"
    switch_file.write_text("NoSuchPas:off")
    assert (
        main(["fusion", "list", str(LENET), "--all", "--refusals", "--fusion_switch_file", str(switch_file)])
        == 0
    )
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0].split() == ["pass", "kind", "state", "why", "matched", "effected"]
    assert "SoftmaxFusionPass" in captured.out
    assert captured.err == "ascendsim: warning: fusion switch file: no fusion pass has the name 'NoSuchPas'\n"
    assert main(["fusion", "list"]) == 0
    assert "passes," in capsys.readouterr().out


def test_list_of_a_model_begins_with_what_took_effect(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def listed(*options: str) -> tuple[list[list[str]], str]:
        assert main(["fusion", "list", str(LENET), *options]) == 0
        table, rest = capsys.readouterr().out.split("passes,")[0].split("\n", 2)[2].rsplit("\n", 1)
        rows = [line.split() for line in table.splitlines() if line.split()[-1].isdigit()]
        return rows, table.splitlines()[-1] + rest

    shown, closing = listed()
    counts = [(int(row[-1]), int(row[-2])) for row in shown]  # effected, matched
    assert counts == sorted(counts, reverse=True)
    assert counts[0][0] > 0
    everything, _ = listed("--all")
    nothing = [row for row in everything if row[-2:] == ["0", "0"]]
    assert len(nothing) > 100
    assert closing.startswith(f"{len(nothing)} others matched nothing: --all lists them")
    switched = tmp_path / "switch.cfg"
    switched.write_text("SoftmaxFusionPass:off")  # whoever names a pass wants to see what became of it
    assert "SoftmaxFusionPass" in {row[0] for row in listed("--fusion_switch_file", str(switched))[0]}


def test_command_errors_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.cfg"
    bad.write_text('{"Switch": {"GraphFusion": {"SoftmaxFusionPass": "ON"}}}')
    assert main(["fusion", "list", "--fusion_switch_file", str(bad)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "EM_INVALID_CONTENT" in error
    assert main(["compile", str(LENET), "--fusion", "graph-kernels"]) == 2
    assert "invalid choice: 'graph-kernels'" in capsys.readouterr().err
