"""Values that an operator cannot take and that only the run knows: the last good one is taken, the next one
refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascendsim.core.errors import GraphError
from tests.support.gate import in_one
from tests.support.operator_cases import Case, build, compute
from tests.support.own_cases import ints, one, some

Arrays = tuple[Any, ...]


def _scores() -> Any:
    return some(2, 5)


def _rotary(positions: list[int]) -> Arrays:
    return some(1, 2, 2, 6), some(4, 3), some(4, 3), np.array([positions], np.int64)


def _rnn(length: int) -> Arrays:
    return some(5, 2, 3), some(1, 4, 3), some(1, 4, 4), None, np.array([length, 1], np.int32)


def _rois(image: int) -> Arrays:
    return some(2, 3, 6, 6), np.array([[0, 0, 4, 4]], np.float32), ints(image)


def _trees(mode: int, split: float = 0.5) -> dict[str, Any]:
    return {
        "nodes_featureids": (0,),
        "nodes_modes": np.array([0], np.uint8),
        "nodes_splits": np.array([split], np.float32),
        "nodes_truenodeids": (0,),
        "nodes_falsenodeids": (1,),
        "nodes_trueleafs": (1,),
        "nodes_falseleafs": (1,),
        "leaf_targetids": (0, 0),
        "leaf_weights": np.array([1, 2], np.float32),
        "tree_roots": (0,),
        "n_targets": 1,
        "post_transform": mode,
    }


# Operator, inputs that are taken, inputs that are not, what it says, attributes
TABLE: list[tuple[str, Arrays, Arrays, str, dict[str, Any]]] = [
    ("Gather", (some(4, 3), ints(3, -4)), (some(4, 3), ints(4)), r"needs indices in \[-4, 4\), not 4", {}),
    ("Gather", (some(4, 3), ints(-4)), (some(4, 3), ints(0, -5)), r"needs indices in \[-4, 4\), not -5", {}),
    (
        "GatherElements",
        (some(2, 3), ints(1, 0, 1)[None]),
        (some(2, 3), ints(2, 0, 1)[None]),
        "needs indices in",
        {},
    ),
    ("GatherND", (some(2, 3), ints(1, 2)[None]), (some(2, 3), ints(1, 3)[None]), r"\[-3, 3\), not 3", {}),
    ("ScatterElements", (some(3), ints(2), some(1)), (some(3), ints(3), some(1)), r"\[-3, 3\), not 3", {}),
    (
        "ScatterND",
        (some(3), ints(-3)[None], some(1)),
        (some(3), ints(-4)[None], some(1)),
        r"\[-3, 3\), not -4",
        {},
    ),
    (
        "TensorScatter",
        (some(1, 4, 2), some(1, 2, 2), ints(2)),
        (some(1, 4, 2), some(1, 2, 2), ints(3)),
        r"\[-4, 4\), not 4",
        {},
    ),
    (
        "MaxUnpool",
        (some(1, 1, 1, 1), np.full((1, 1, 1, 1), 3)),
        (some(1, 1, 1, 1), np.full((1, 1, 1, 1), 4)),
        "indices",
        {"kernel_shape": (2, 2)},
    ),
    (
        "Compress",
        (some(3), np.array([0, 0, 1], bool)),
        (some(3), np.array([0, 0, 0, 1], bool)),
        r"\[-3, 3\), not 3",
        {},
    ),
    (
        "NegativeLogLikelihoodLoss",
        (_scores(), ints(0, 4)),
        (_scores(), ints(0, 5)),
        "needs labels from 0 to 4, not 5",
        {},
    ),
    (
        "NegativeLogLikelihoodLoss",
        (_scores(), ints(0, 4)),
        (_scores(), ints(-1, 4)),
        "needs labels from 0 to 4",
        {},
    ),
    (
        "SoftmaxCrossEntropyLoss",
        (_scores(), ints(5, 4)),
        (_scores(), ints(6, 4)),
        "needs labels from 0 to 4",
        {"ignore_index": 5},
    ),
    ("ReverseSequence", (some(3, 2), ints(3, 0)), (some(3, 2), ints(4, 0)), "needs lengths from 0 to 3", {}),
    ("ReverseSequence", (some(3, 2), ints(3, 0)), (some(3, 2), ints(3, -1)), "needs lengths from 0 to 3", {}),
    ("RotaryEmbedding", _rotary([0, 3]), _rotary([0, 4]), "needs positions from 0 to 3, not 4", {}),
    ("RotaryEmbedding", _rotary([0, 3]), _rotary([-1, 3]), "needs positions from 0 to 3", {}),
    (
        "RotaryEmbedding",
        _rotary([0, 3]),
        (*_rotary([0, 3])[:1], some(4, 2), some(4, 2), ints(0, 1)[None]),
        "needs tables of 3 angles, half of what is turned, not 2",
        {},
    ),
    ("RNN", _rnn(5), _rnn(6), "needs 2 sequence lengths from 0 to 5", {"hidden_size": 4}),
    ("RNN", _rnn(0), _rnn(-1), "needs 2 sequence lengths from 0 to 5", {"hidden_size": 4}),
    ("RoiAlign", _rois(1), _rois(2), "needs batch indices from 0 to 1, not 2", {}),
    ("RoiAlign", _rois(0), _rois(-1), "needs batch indices from 0 to 1", {}),
    (
        "MaxRoiPool",
        (_rois(0)[0], np.array([[1, 0, 0, 4, 4]], np.float32)),
        (_rois(0)[0], np.array([[2, 0, 0, 4, 4]], np.float32)),
        "batch indices",
        {"pooled_shape": (2, 2)},
    ),
    ("TopK", (some(4), ints(4)), (some(4), ints(5)), "needs K between 0 and 4, not 5", {}),
    ("TopK", (some(4), ints(0)), (some(4), ints(-1)), "needs K between 0 and 4, not -1", {}),
    (
        "ArgMax",
        (some(2, 1),),
        (np.empty((2, 0), np.float32),),
        "needs at least one element to search",
        {"axis": 1},
    ),
    (
        "Dropout",
        (some(4), one(0.99), np.array(True)),
        (some(4), one(1.0), np.array(True)),
        r"needs a ratio in \[0, 1\), not 1",
        {},
    ),
    (
        "Dropout",
        (some(4), one(0.0), np.array(True)),
        (some(4), one(-0.1), np.array(True)),
        r"needs a ratio in \[0, 1\)",
        {},
    ),
    (
        "Range",
        (ints(0)[0], ints(3)[0], ints(1)[0]),
        (ints(0)[0], ints(3)[0], ints(0)[0]),
        "needs a delta other than 0",
        {},
    ),
    (
        "Slice",
        (some(4), ints(0), ints(3), ints(0), ints(-1)),
        (some(4), ints(0), ints(3), ints(0), ints(0)),
        "needs steps other than 0",
        {},
    ),
    ("Split", (some(4), ints(1, 3)), (some(4), ints(1, 2)), "needs 2 sizes that add up to 4", {}),
    ("Split", (some(4), ints(0, 4)), (some(4), ints(1, 2, 1)), "needs 2 sizes that add up to 4", {}),
    (
        "Expand",
        (some(3, 1), ints(3, 4)),
        (some(3, 1), ints(2, 4)),
        "needs a shape that its input broadcasts to",
        {},
    ),
    ("Reshape", (some(3, 4), ints(2, 6)), (some(3, 4), ints(2, 7)), "must keep the number of elements", {}),
    ("Squeeze", (some(3, 1), ints(1)), (some(3, 1), ints(0)), "can drop only axes of size 1", {}),
    (
        "Pad",
        (some(3), ints(2, 0)),
        (np.empty(0, np.float32), ints(2, 0)),
        "cannot be padded so",
        {"mode": "reflect"},
    ),
    (
        "STFT",
        (some(1, 8, 1), ints(1)[0], None, ints(8)[0]),
        (some(1, 8, 1), ints(1)[0], None, ints(9)[0]),
        "frames inside the signal",
        {},
    ),
    (
        "STFT",
        (some(1, 8, 1), ints(1)[0], None, ints(4)[0]),
        (some(1, 8, 1), ints(0)[0], None, ints(4)[0]),
        "needs a frame step above 0",
        {},
    ),
    (
        "Resize",
        (some(4), None, some(1, positive=True)),
        (np.empty(0, np.float32), None, np.array([2], np.float32)),
        "not empty",
        {},
    ),
    (
        "Resize",
        (some(4), np.array([0, 1], np.float32), np.array([2], np.float32)),
        (some(4), np.array([0, 1, 1], np.float32), np.array([2], np.float32)),
        "needs 2 numbers in roi, not 3",
        {},
    ),
]


def _run(case: Case) -> list[Any]:
    """Values, where the shape rule has not seen any."""
    return compute(build(case, ()), case.inputs)


@in_one("op_type, taken, refused, message, attributes", TABLE)
def test_the_next_value_is_refused(
    op_type: str, taken: Arrays, refused: Arrays, message: str, attributes: dict[str, Any]
) -> None:
    outputs = 2 if op_type in ("TopK", "Split") else 1
    assert len(_run(Case(op_type, op_type, taken, outputs, "", attributes))) == outputs
    with pytest.raises(GraphError, match=message):
        _run(Case(op_type, op_type, refused, outputs, "", attributes))


def test_trees_that_do_not_end_and_transforms_that_do_not_exist() -> None:
    def case(**attributes: Any) -> Case:
        return Case("trees", "TreeEnsemble", (some(2, 1),), 1, "ai.onnx.ml", {**_trees(0), **attributes})

    _run(case())
    with pytest.raises(GraphError, match="needs post_transform 0 to 3, not 4"):
        _run(case(post_transform=4))
    with pytest.raises(GraphError, match="a path comes back to itself"):
        _run(case(nodes_trueleafs=(0,), nodes_falseleafs=(0,), nodes_falsenodeids=(0,)))


def test_map_index_needs_whole_rows() -> None:
    def case(table: list[int]) -> Case:
        return Case("map", "MapIndex", (np.array([1, 2], np.int32), np.array(table, np.int32)), 1, "ascend")

    assert _run(case([3, 4, 1, 2]))[0] == 1
    assert _run(case([3, 4]))[0] == -1
    with pytest.raises(GraphError, match="needs a table of whole rows"):
        _run(case([3, 4, 1]))
