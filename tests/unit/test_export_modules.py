"""Modules of an export: from names and from what torch.onnx writes, nested, without gaps or invented time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.profiling.export import Capture, name_scopes
from ascendsim.profiling.export.database import torch_database
from ascendsim.profiling.export.modules import modules, windows
from tests.support.exported import host_launched, renamed, rows
from tests.support.onnx_models import model, node, value
from tests.support.synthetic_run import synthetic_run

RANGES = (
    "select m.value, e.startNs, e.endNs from MSTX_EVENTS e join STRING_IDS m on m.id = e.message "
    "join STRING_IDS d on d.id = e.domainId where e.eventType = 2 and d.value = '{}' order by e.rowid"
)


def test_layers_of_a_chain():
    run = synthetic_run(30, streams=1)
    capture = Capture(run)
    found = rows(torch_database(capture), RANGES.format("Module"))
    assert [name for name, *_ in found] == ["synthetic", "layer0", "layer1", "layer2"]
    starts, ends = zip(*(capture.span(view) for view in run.tasks), strict=True)
    assert [span for _, *span in found] == [
        [starts[0], ends[29]],
        [starts[0], ends[11]],
        [starts[12], ends[23]],
        [starts[24], ends[29]],
    ]


def test_dotted_names_are_those_below_the_module_around_them():
    run = renamed(synthetic_run(12, streams=1), 5, "/layer1/layer1.0/layer1.0.conv/Conv")
    names = [module.name for module in modules(Capture(run), windows(Capture(run)))]
    assert names == ["synthetic", "layer0", "layer1", "0", "conv", "layer0"]


def test_a_module_that_comes_back_is_another_range():
    run = renamed(synthetic_run(12, streams=1), 5, "/other/inner/pool")
    names = [module.name for module in modules(Capture(run), windows(Capture(run)))]
    assert names == ["synthetic", "layer0", "other", "inner", "layer0"]


@pytest.mark.parametrize("launch", [False, True], ids=["device", "host"])
def test_calls_follow_one_another(launch):
    run = synthetic_run(60, streams=3)
    calls = windows(Capture(host_launched(run) if launch else run))
    assert sorted(call.view.id for call in calls) == list(range(60))
    assert all(call.start < call.end for call in calls)
    assert all(before.end <= after.start for before, after in itertools.pairwise(calls))


def test_operations_of_products():
    run = synthetic_run(12, streams=1)
    capture = Capture(run)
    found = rows(torch_database(capture), RANGES.format("mfu_flops"))
    products = [view for view in run.tasks if view.record.macs]
    assert [int(name.split("-")[0]) for name, *_ in found] == [2 * 4 * 28 * 28 * 32 * 32 * 9] * len(products)
    # both ends of such a range count for its reader: it must end before the next task starts
    assert [span for _, *span in found] == [
        [start, end - 1] for start, end in (capture.span(view) for view in products)
    ]


def test_names_without_modules():
    run = synthetic_run(3)
    for number in range(3):
        run = renamed(run, number, f"node{number}")
    assert rows(torch_database(Capture(run)), RANGES.format("Module")) == []


@pytest.mark.parametrize(
    ("text", "scopes"),
    [
        ("['', 'bert', 'bert.layer.0', 'bert.layer.0.dense', 'linear_3']", ("bert", "layer.0", "dense")),
        ("['', 'relu']", ()),
        ("['', 'head', 'header', 'x']", ("head", "header")),
        ("__import__('os').system('false')", ()),
        ("[1, 2]", ()),
        ("not a list", ()),
        ("['a'", ()),
        ("[" * 9_000 + "]" * 9_000, ()),
        ("['a', " + "'b', " * 30_000 + "]", ()),
        ("", ()),
    ],
)
def test_lists_of_scopes(text, scopes):
    assert name_scopes(text) == scopes


def test_scopes_of_a_file_are_kept_through_fusion(tmp_path):
    nodes = [
        node("MatMul", "x w", "a", name="first"),
        node("Relu", "a", "b", name="second"),
        node("MatMul", "b v", "y", name="third"),
    ]
    paths = ["['', 'encoder', 'mm']", "['', 'encoder', 'encoder.act', 'relu']", "['', 'head', 'mm']"]
    for proto, path in zip(nodes, paths, strict=True):
        proto.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=path)
    weights = {"w": np.ones((64, 64), np.float32), "v": np.ones((64, 16), np.float32)}
    file = model(nodes, [value("x", (32, 64))], ["y"], weights)
    result = asim.simulate(asim.compile(asim.load(file.SerializeToString()), "Ascend310P3", fusion="all"))
    written = result.export(tmp_path, "ascend_pt")
    (base,) = [path for path in written.files if path.name == "ascend_pytorch_profiler_0.db"]
    names = [name for name, *_ in rows(base, RANGES.format("Module"))]
    assert names[1:] in (["encoder", "head"], ["encoder", "act", "head"])
    assert not any("modules" in lack for lack in written.lacking)
