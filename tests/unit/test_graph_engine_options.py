"""What of the graph engine runs and what it tells: named outputs, options, chosen passes, the catalogue,
reports and dumps."""

from __future__ import annotations

import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.ops import default_opset
from ascendsim.passes.engine import pass_names
from ascendsim.passes.engine.catalogue import SUMMARIES, built_passes, ge_passes
from tests.support.fusing import types


def test_pruning_walks_over_control_edges():
    b = asim.GraphBuilder()
    x = b.input("x", (4,))
    waited_for = b.op("Exp", x, name="waited_for").producer
    last = b.op("Neg", x, name="last")
    last.producer.add_control(waited_for)
    b.op("Abs", x, name="dead")
    b.output(last, "y")
    graph = b.graph
    result = asim.optimize(graph)
    assert sorted(node.name for node in result.graph.nodes) == ["last", "waited_for"]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["nothing"], "is no node:index and no tensor of the model"),
        (["relu:1"], "must have an index from 0 to 0, not '1'"),
        (["relu:x"], "must have an index from 0 to 0"),
        (["relu:0", "relu:0"], "comes twice"),
        (["x"], "must be computed by a node, not an input or a weight"),
        ([], 'must name tensors or "node:index"'),
        (";", 'must have the form "node1:0;node2:1"'),
        ([7], "must be a sequence of texts or text, not list"),
    ],
)
def test_wrong_outputs_are_errors(outputs, message):
    b = asim.GraphBuilder()
    b.output(b.op("Relu", b.input("x", (2,)), name="relu"), "y")
    with pytest.raises(InputError) as caught:
        asim.optimize(b.build(), outputs=outputs)
    assert message in str(caught.value)


def test_outputs_take_names_of_tensors_and_the_given_order():
    b = asim.GraphBuilder()
    x = b.input("x", (4, 6))
    first, second = b.ops("Split", x, [2, 4], outputs=["small", "large"], axis=1, name="split")
    b.output(b.op("Neg", first), "y")
    result = asim.optimize(b.build(), outputs="split:1;small")
    assert [tensor.shape for tensor in result.graph.outputs] == [(4, 4), (4, 2)]
    assert second.name == result.graph.outputs[0].name


def test_oo_level_o1_keeps_folding_and_no_common_subexpressions():
    def graph() -> Graph:
        b = asim.GraphBuilder()
        x = b.input("x", (4,))
        number = b.op("Add", b.constant(1.0), b.constant(2.0))
        b.output(b.op("Sub", b.op("Mul", x, number), b.op("Mul", x, number)), "y")
        return b.build()

    assert types(asim.optimize(graph(), oo_level="O1").graph) == ["Mul", "Mul", "Sub"]
    assert types(asim.optimize(graph()).graph) == ["Mul", "Sub"]
    assert types(asim.optimize(graph(), oo_constant_folding=False).graph) == ["Add", "Mul", "Sub"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"passes": ["ConstantFoldingPas"]}, "did you mean ConstantFoldingPass?"),
        ({"passes": "ConstantFoldingPass"}, "must be a sequence of texts, not 'ConstantFoldingPass'"),
        ({"oo_level": "O2"}, "must be O1 or O3"),
        ({"oo_constant_folding": "false"}, "must be True or False"),
    ],
)
def test_wrong_options_are_errors(options, message):
    b = asim.GraphBuilder()
    b.output(b.op("Relu", b.input("x", (2,))), "y")
    with pytest.raises(InputError) as caught:
        asim.optimize(b.build(), **options)
    assert message in str(caught.value)


def test_only_chosen_passes_run():
    b = asim.GraphBuilder()
    x = b.op("Identity", b.op("Mul", b.input("x", (2,)), 1.0))
    b.output(b.op("Relu", x), "y")
    result = asim.optimize(b.build(), passes=["IdentityPass"])
    assert types(result.graph) == ["Mul", "Relu"]


def test_the_catalogue_describes_every_pass():
    opset = default_opset()
    assert set(SUMMARIES) == set(pass_names(opset))
    assert [item.name for item in built_passes(opset)] == list(pass_names(opset))
    assert all(len(item.description) > 40 for item in built_passes(opset))  # what its module says
    assert len(ge_passes()) == 138
    own = set(SUMMARIES) - {item.name for item in ge_passes()}
    assert own == {"InlinePartitionedCallPass", "IdentityArithmeticPass", "NoUseMovementRemovePass"}


def test_the_report_says_what_each_pass_did():
    b = asim.GraphBuilder()
    x = b.op("Identity", b.op("Mul", b.input("x", (2,)), 1.0))
    b.output(b.op("Relu", x), "y")
    result = asim.optimize(b.build())
    assert (result.before.nodes, result.after.nodes) == (3, 1)
    named = {str(row[1]).strip(): row[2] for row in result.table()}
    assert named["IdentityPass"] == "removed Identity 1"
    assert named["IdentityArithmeticPass"] == "removed Mul 1"
    assert "<table" in result._repr_html_()
    assert "3 nodes -> 1" in str(result)


def test_dumps_show_the_graph_before_and_after_each_pass(tmp_path, monkeypatch):
    """A stand-in for Graphviz shows that pictures come from it; it is not installed everywhere."""
    tool = tmp_path / "bin" / "dot"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nwc -l\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    b = asim.GraphBuilder("picture")
    b.output(b.op("Relu", b.op("Identity", b.input("x", (2,)), name="same"), name="my relu:0"), "y")
    folder = tmp_path / "dump"
    graph = b.build()
    asim.optimize(graph, dump=folder)
    assert (folder / "00_input.txt").read_text() == to_text(graph)
    diff = (folder / "01_prepare_traversal.txt").read_text()
    assert "-  same: " in diff
    assert '+  "my relu:0": ' in diff
    assert "#f5c6c6" in (folder / "01_prepare_traversal.before.dot").read_text()
    (green,) = [
        line for line in (folder / "01_prepare_traversal.dot").read_text().splitlines() if "#c8f0c8" in line
    ]
    assert "my relu:0" in green
    assert (folder / "01_prepare_traversal.svg").read_text().strip().isdigit()


def test_a_dump_folder_that_is_a_file_is_an_error(tmp_path):
    b = asim.GraphBuilder()
    b.output(b.op("Relu", b.input("x", (2,))), "y")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file.*cannot be written"):
        asim.optimize(b.build(), dump=tmp_path / "file")
