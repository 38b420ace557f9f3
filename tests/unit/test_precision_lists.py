"""ATC's --keep_dtype and --modify_mixlist: the files, and what becomes of the operators that they name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.dtypes import DType
from tests.support.half_stories import written_out_norm

NORM = ["LayerNorm_1/Sum_1", "LayerNorm_1/Scale"]


def dtypes(model: asim.CompiledModel) -> dict[str, DType | None]:
    """Type of each operator's first result, inserted Casts left out."""
    return {
        source: node.output.dtype
        for node in model.graph.nodes
        if "inserted" not in node.origin
        for source in node.origin.get("source_names", (node.name,))
    }


def compiled(graph: asim.Graph, **options: object) -> asim.CompiledModel:
    return asim.compile(graph, "Ascend310P3", **{"fusion": "off", **options})  # type: ignore[arg-type]


def test_named_operators_stay_in_float32_and_mend_the_network(tmp_path: Path) -> None:
    graph, inputs = written_out_norm()
    path = tmp_path / "keep.cfg"
    path.write_text("# sums of squares\n" + "\n".join(NORM) + "\n")
    for keep in (path, str(path), NORM):
        model = compiled(graph, keep_dtype=keep)
        found = dtypes(model)
        assert {name for name, dtype in found.items() if dtype is DType.FLOAT32} == set(NORM)
    result = asim.run(model, inputs)
    assert result.numerics.overflows == ()
    exact = asim.run(model, inputs, values="float32").outputs["y"]
    wrong = asim.run(compiled(graph), inputs).outputs["y"]
    assert np.abs(result.outputs["y"] - exact).max() < 0.01 < np.abs(wrong - exact).max()


def test_a_fused_operator_is_kept_with_what_it_stands_for() -> None:
    graph, _ = written_out_norm()
    found = dtypes(compiled(graph, fusion="all", keep_dtype=["LayerNorm_1/Square"]))
    assert found["LayerNorm_1/Sum_1"] is DType.FLOAT32
    assert found["LayerNorm_1/Div"] is DType.FLOAT16


def test_types_are_named_as_cann_or_onnx_has_them() -> None:
    graph, _ = written_out_norm()
    for name in ("ReduceSum", "ReduceSumD"):
        found = dtypes(compiled(graph, keep_dtype=[f"OpType::{name}"]))
        assert {key for key, dtype in found.items() if dtype is DType.FLOAT32} == {"LayerNorm_1/Sum_1"}


def test_a_product_that_the_cube_lacks_takes_float16_and_gives_float32() -> None:
    graph, _ = written_out_norm()
    node = compiled(graph, keep_dtype=["Dense_0/MatMul"]).graph.node("Dense_0/MatMul")
    assert (node.required(0).dtype, node.output.dtype) == (DType.FLOAT16, DType.FLOAT32)
    wide = asim.compile(graph, "Ascend910B1", fusion="off", keep_dtype=["Dense_0/MatMul"])
    assert wide.graph.node("Dense_0/MatMul").required(0).dtype is DType.FLOAT32


def test_lists_of_mixed_precision_are_changed(tmp_path: Path) -> None:
    graph, _ = written_out_norm()
    plain = dtypes(compiled(graph, precision_mode="allow_mix_precision"))
    assert plain["LayerNorm_1/Sum_1"] is DType.FLOAT32
    assert plain["Dense_2/MatMul"] is DType.FLOAT16
    path = tmp_path / "ops_info.json"
    path.write_text(json.dumps({"black-list": {"to-remove": ["ReduceSumD"], "to-add": ["Relu"]},
                                "white-list": {"to-add": ["Sqrt"]}}))  # fmt: skip
    changed = dtypes(compiled(graph, precision_mode="allow_mix_precision", modify_mixlist=path))
    assert changed["LayerNorm_1/Sum_1"] is DType.FLOAT16  # follows the centred input
    assert changed["Relu_1"] is DType.FLOAT32
    assert changed["LayerNorm_1/Sqrt"] is DType.FLOAT16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_dtype": ["LayerNorm_1/Sum"]}, "'LayerNorm_1/Sum' is not in the model.*LayerNorm_1/Sum_1"),
        ({"keep_dtype": ["LayerNorm_1/Sud"]}, "'LayerNorm_1/Sud' is not in the model.*LayerNorm_1/Sub"),
        ({"keep_dtype": ["OpType::Reluu"]}, "'Reluu' is not known.*Relu"),
        ({"keep_dtype": "no/such/file"}, "cannot be opened"),
        ({"modify_mixlist": {}}, "goes with precision_mode allow_mix_precision"),
        ({"modify_mixlist": {"grey-list": {}}, "precision_mode": "allow_mix_precision"}, "'grey-list'"),
        ({"modify_mixlist": {"black-list": {"add": []}}, "precision_mode": "allow_mix_precision"}, "'add'"),
        (
            {
                "modify_mixlist": {"white-list": {"to-add": ["Reluu"]}},
                "precision_mode": "allow_mix_precision",
            },
            "'Reluu' is not known",
        ),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(asim.InputError, match=message):
        compiled(written_out_norm()[0], **options)


def test_an_open_network_keeps_operators_too() -> None:
    b = asim.GraphBuilder("open")
    x = b.input("x", ("n", 4))
    b.output(b.op("Mul", b.op("Mul", x, x, name="square"), np.float32(1e-3), name="back"), "y")
    model = asim.compile(b.build(), "Ascend310P3", keep_dtype=["square", "back"])
    result = asim.run(model, {"x": np.full((2, 4), 400, np.float32)})
    assert result.numerics.overflows == ()
    np.testing.assert_allclose(result.outputs["y"], 160, rtol=1e-3)
