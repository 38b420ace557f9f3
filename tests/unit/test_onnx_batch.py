"""Other batches and input shapes: what is rewritten, what is refused, and that samples stay apart."""

from __future__ import annotations

import numpy as np
import pytest

from ascendsim.core.errors import GraphError, InputError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.frontends.onnx.batch_change import BatchAxis, preferred, reshaped
from ascendsim.ops import default_opset
from tests.support.onnx_models import model, node, run, value

OPS = default_opset()


def data(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def independent(proto, batch=3, inputs=None):
    """Loads at the old batch (1) and the new one; the new one must give each sample what it gets alone."""
    alone, together = load_onnx(proto, opset=OPS), load_onnx(proto, opset=OPS, batch=batch)
    arrays = inputs or [data(*tensor.static_shape, seed=seed) for seed, tensor in enumerate(together.inputs)]
    found = run(together, *arrays)
    for sample in range(batch):
        wanted = run(alone, *[array[sample : sample + 1] for array in arrays])
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours[sample : sample + 1], theirs, rtol=1e-4, atol=1e-5)
    return together


def refused(proto, error=GraphError, **options) -> str:
    with pytest.raises(error) as caught:
        load_onnx(proto, opset=OPS, **options)
    assert str(caught.value).isprintable()
    return str(caught.value)


def reshape_model(shape, *targets, extra=(), last="y"):
    nodes, constants, name = [], {}, "x"
    for index, target in enumerate(targets):
        constants[f"t{index}"] = np.array(target)
        out = last if index == len(targets) - 1 else f"r{index}"
        nodes.append(node("Reshape", f"{name} t{index}", out, name=f"reshape{index}"))
        name = out
    return model([*nodes, *extra], [value("x", shape)], [last], constants)


def test_where_the_batch_may_go():
    assert reshaped((1, 64, 12, 64), 64 * 768, 1) == [BatchAxis(0, 1), BatchAxis(1, 64)]
    assert reshaped((2, 64, 12, 64), 64 * 768, 2) == [BatchAxis(0, 1)]
    assert reshaped((64, 12, 64), 64 * 768, 1) == [BatchAxis(0, 64)]
    assert reshaped((12, 197, 64), 12 * 197 * 64, 1) == [BatchAxis(0, 12)]
    assert reshaped((5, 7), 3, 1) == []
    assert reshaped((0, 7), 0, 1) == []
    assert preferred(reshaped((197, 1, 768), 768, 1), (197, 1, 768), 1)[0] == BatchAxis(1, 1)
    assert preferred(reshaped((197, 768), 768, 1), (197, 768), 1)[0] == BatchAxis(0, 1)
    assert preferred(reshaped((197, 12, 64), 768, 1), (197, 12, 64), 1)[0] == BatchAxis(1, 12)


@pytest.mark.parametrize("target", [(1, 12), (1, -1), (-1, 12), (0, 12), (1, 3, 4), (1, 2, -1)])
def test_targets_of_reshape(target):
    graph = independent(reshape_model((1, 3, 4), target))
    assert graph.outputs[0].shape[0] == 3


def test_a_target_that_fits_any_batch_is_left_alone():
    graph = load_onnx(reshape_model((1, 3, 4), (-1, 12)), opset=OPS, batch=3)
    np.testing.assert_array_equal(graph.nodes[0].inputs[1].constant.array(), [-1, 12])


@pytest.mark.parametrize(
    "targets",
    [
        [(3, 4), (1, 3, 4)],  # merged into rows and back
        [(1, 3, 2, 2), (3, 2, 2), (1, 12)],
        [(12,), (1, 12)],
        [(1, 1, 3, 4), (1, 3, 4)],
    ],
)
def test_chains_of_reshapes(targets):
    independent(reshape_model((1, 3, 4), *targets))


def test_a_batch_that_is_not_in_front():
    """[1, L, E] -> [L, 1, E] -> heads [L, H, D] -> [H, L, D] -> attention -> rows [L, E] -> [L, 1, E] -> [1,
    L, E]."""
    length, heads, size = 5, 2, 3
    nodes = [
        node("Transpose", "x", "a", perm=[1, 0, 2]),
        node("Reshape", "a split", "b"),
        node("Transpose", "b", "q", perm=[1, 0, 2]),
        node("Transpose", "b", "k", perm=[1, 2, 0]),
        node("MatMul", "q k", "s"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p q", "o"),
        node("Transpose", "o", "u", perm=[1, 0, 2]),
        node("Reshape", "u rows", "v"),
        node("Gemm", "v w", "g"),
        node("Reshape", "g back", "h"),
        node("Transpose", "h", "y", perm=[1, 0, 2]),
    ]
    constants = {
        "split": np.array([length, heads, size]),
        "rows": np.array([length, heads * size]),
        "back": np.array([length, 1, heads * size]),
        "w": data(heads * size, heads * size),
    }
    graph = independent(model(nodes, [value("x", (1, length, heads * size))], ["y"], constants))
    assert graph.tensors["b"].shape == (length, 3 * heads, size)
    assert graph.tensors["v"].shape == (length * 3, heads * size)


def test_operands_that_are_the_same_for_every_sample():
    nodes = [node("Concat", "token x", "c", axis=1), node("Add", "c position", "y")]
    constants = {"token": data(1, 1, 4), "position": data(1, 4, 4, seed=1)}
    graph = independent(model(nodes, [value("x", (1, 3, 4))], ["y"], constants))
    assert graph.outputs[0].shape == (3, 4, 4)


def test_an_operand_added_to_merged_rows():
    nodes = [node("Reshape", "x rows", "r"), node("Add", "r position", "s"), node("Reshape", "s back", "y")]
    constants = {"rows": np.array([3, 4]), "back": np.array([1, 3, 4]), "position": data(3, 4)}
    independent(model(nodes, [value("x", (1, 3, 4))], ["y"], constants))


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("lengths", [False, True])
def test_initial_states_and_lengths(layout, lengths):
    first = "x" if layout else "t"
    nodes = [] if layout else [node("Transpose", "x", "t", perm=[1, 0, 2])]
    nodes += [
        node("LSTM", f"{first} w r _ {'l' if lengths else '_'} h c", "o", hidden_size=4, layout=layout),
        node("Reshape", "o s", "y"),
    ]
    nodes += [] if layout else [node("Transpose", "y", "z", perm=[1, 0, 2])]
    constants = {
        "w": data(1, 16, 3),
        "r": data(1, 16, 4),
        "h": data(1, 1, 4),
        "c": data(1, 1, 4, seed=1),
        "s": np.array([1, 5, 4] if layout else [5, 1, 4]),
    }
    constants |= {"l": np.array([3], np.int32)} if lengths else {}
    independent(model(nodes, [value("x", (1, 5, 3))], ["y" if layout else "z"], constants))


def test_indices_into_a_flattened_mask():
    nodes = [
        node("Flatten", "x", "f", axis=2),
        node("Gather", "f i", "g"),
        node("Reshape", "g flat", "h"),
        node("Reshape", "h s", "y"),
    ]
    constants = {"i": np.array([[[[0, 2, 4]]]]), "flat": np.array([-1]), "s": np.array([1, 1, 1, 3])}
    independent(model(nodes, [value("x", (1, 5))], ["y"], constants))


def test_indices_with_a_component_for_the_batch():
    constants = {"i": np.stack([np.zeros((1, 2, 3), int), np.arange(6).reshape(1, 2, 3) % 5], -1)}
    graph = independent(model([node("GatherND", "x i", "y")], [value("x", (1, 5))], ["y"], constants))
    assert graph.outputs[0].shape == (3, 2, 3)


def test_a_slice_of_the_whole_batch():
    constants = {"s": np.array([0, 1]), "e": np.array([1, 3])}
    graph = independent(model([node("Slice", "x s e", "y")], [value("x", (1, 4))], ["y"], constants))
    assert graph.outputs[0].shape == (3, 2)


def test_resize_sizes():
    proto = model(
        [node("Resize", "x _ _ s", "y")], [value("x", (1, 2, 4, 4))], ["y"], {"s": np.array([1, 2, 8, 8])}
    )
    assert independent(proto).outputs[0].shape == (3, 2, 8, 8)


def test_expand_with_a_baked_batch_of_more_than_one():
    proto = model([node("Expand", "x s", "y")], [value("x", (2, 1, 4))], ["y"], {"s": np.array([2, 3, 4])})
    graph = load_onnx(proto, opset=OPS, batch=5)
    assert graph.outputs[0].shape == (5, 3, 4)


def test_live_shape_arithmetic_needs_no_rewriting():
    nodes = [
        node("Shape", "x", "s", end=1),
        node("Concat", "s rest", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    graph = independent(model(nodes, [value("x", (1, 3, 4))], ["y"], {"rest": np.array([-1])}))
    assert len(graph) == 1


def test_dynamic_models_take_any_batch_and_no_rewriting_changes_them():
    proto = model(
        [node("ReduceMean", "x axes", "y", keepdims=0)],
        [value("x", ("n", 3))],
        ["y"],
        {"axes": np.array([0])},
    )
    assert load_onnx(proto, opset=OPS, batch=7).inputs[0].shape == (7, 3)


def test_a_model_that_leaves_its_batch_open_means_what_it_says():
    proto = reshape_model(("n", 4), (2, -1))
    assert load_onnx(proto, opset=OPS, batch=3).outputs[0].shape == (2, 6)
    constants = {"z": np.array([0])}
    first = model([node("Gather", "x z", "y")], [value("x", ("n", 4))], ["y"], constants)
    assert load_onnx(first, opset=OPS, batch=3).outputs[0].shape == (1, 4)


def test_a_baked_target_in_a_model_that_leaves_its_batch_open_is_rewritten():
    assert load_onnx(reshape_model(("n", 2, 3), (1, 6)), opset=OPS, batch=3).outputs[0].shape == (3, 6)


def test_a_larger_batch_can_be_made_smaller():
    graph = load_onnx(reshape_model((4, 3, 4), (4, 12)), opset=OPS, batch=2)
    assert graph.outputs[0].shape == (2, 12)


# refused


@pytest.mark.parametrize(
    ("nodes", "constants", "message"),
    [
        (
            [node("Reshape", "x t", "r", name="re"), node("Softmax", "r", "y", name="soft", axis=0)],
            {"t": np.array([1, 12])},
            "'soft' (Softmax) combines",
        ),
        (
            [node("Reshape", "x t", "r"), node("ReduceMean", "r a", "y", name="mean")],
            {"t": np.array([1, 12]), "a": np.array([0])},
            "'mean' (ReduceMean)",
        ),
        (
            [node("Reshape", "x t", "r"), node("Gather", "r z", "y", name="first")],
            {"t": np.array([1, 12]), "z": np.array(0)},
            "'first' (Gather)",
        ),
        ([node("Squeeze", "x a", "y", name="sq")], {"a": np.array([0])}, "'sq' (Squeeze)"),
        (
            [node("Slice", "x s e", "y", name="cut")],
            {"s": np.array([0]), "e": np.array([0])},
            "'cut' (Slice) takes part of the axis of 1 elements",
        ),
        (
            [
                node("Reshape", "x t", "r"),
                node("Transpose", "r", "u", perm=[1, 0]),
                node("MatMul", "r u", "y", name="gram"),
            ],
            {"t": np.array([1, 12])},
            "'gram' (MatMul)",
        ),
    ],
)
def test_models_in_which_samples_would_meet(nodes, constants, message):
    text = refused(model(nodes, [value("x", (1, 3, 4))], ["y"], constants), batch=2)
    assert text.startswith("batch size 2 cannot be given to the model: node ")
    assert message in text
    assert text.endswith("export the model with this batch size or with a dynamic batch dimension")


def test_weights_baked_for_several_samples():
    proto = model(
        [node("Concat", "x w", "y", axis=1, name="cat")], [value("x", (2, 3))], ["y"], {"w": data(2, 1)}
    )
    assert "'cat' (Concat) has an operand 'w' that was made for a batch of 2" in refused(proto, batch=4)


# options

TWO = model(
    [node("Add", "a b", "y")],
    [value("a", (1, 4)), value("b", (1, 4))],
    ["y"],
)


def test_shapes_set_inputs_and_the_batch_follows():
    graph = load_onnx(reshape_model((1, 3, 4), (1, -1)), opset=OPS, shapes={"x": (2, 5, 4)})
    assert graph.outputs[0].shape == (2, 20)


def test_batch_goes_to_every_input_that_has_it():
    proto = model(
        [node("MatMul", "x w", "m"), node("Add", "m s", "y")],
        [value("x", ("n", 4)), value("w", (4, 4)), value("s", (4, "n"))],
        ["y"],
    )
    shapes = [t.shape for t in load_onnx(proto, opset=OPS, batch=4, check_operators=True).inputs]
    assert shapes == [(4, 4), (4, 4), (4, 4)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "option batch must have sizes from 1"),
        ({"batch": -3}, "not -3"),
        ({"batch": True}, "not True"),
        ({"batch": 2.5}, "not 2.5"),
        ({"batch": 1 << 40}, "option batch must have sizes"),
        (
            {"shapes": {"aa": (1, 4)}},
            "option shapes: input 'aa' is not an input of the model; did you mean a?",
        ),
        ({"shapes": {"a": (1, 4, 4)}}, "must have 2 dimensions, as in [1, 4], not [1, 4, 4]"),
        ({"shapes": {"a": (1, 0)}}, "must have sizes from 1"),
        ({"shapes": {"a": (1, -4)}}, "must have sizes from 1"),
        ({"shapes": {"a": (1, "n")}}, "must have sizes from 1"),
        ({"shapes": {"a": "1,4"}}, "must be a sequence of numbers"),
    ],
)
def test_options_that_do_not_fit(options, message):
    assert message in refused(TWO, InputError, **options)


def test_a_near_name_is_suggested():
    proto = model([node("Relu", "input_ids", "y")], [value("input_ids", (1, 4))], ["y"])
    assert "did you mean input_ids?" in refused(proto, InputError, shapes={"input_id": (1, 4)})


def test_a_model_without_batch():
    assert "needs a model with a batch dimension" in refused(
        model([node("Relu", "x", "y")], [value("x", ())], ["y"]), InputError, batch=2
    )


def test_what_is_open_in_front_may_be_a_length():
    """A recurrent network over steps [n, 4] whose state is for one sequence: n is no batch."""
    nodes = [
        node("Unsqueeze", "x axis", "steps"),
        node("RNN", "steps w r b lengths h", "y last", hidden_size=3),
    ]
    weights = {
        "axis": np.array([1]),
        "w": data(1, 3, 4),
        "r": data(1, 3, 3),
        "b": data(1, 6),
        "h": data(1, 1, 3),
    }
    weights["lengths"] = np.array([7], np.int32)
    proto = model(nodes, [value("x", ("n", 4))], ["y"], weights)
    graph = load_onnx(proto, opset=OPS, shapes={"x": (7, 4)})
    assert graph.outputs[0].static_shape == (7, 1, 1, 3)
    assert "cannot be given to the model" in refused(proto, batch=7)  # who says batch means a batch


def test_shapes_the_model_cannot_have_name_the_node():
    proto = model([node("MatMul", "x w", "y", name="mm")], [value("x", (1, 4))], ["y"], {"w": data(4, 4)})
    assert "'mm' (MatMul)" in refused(proto, shapes={"x": (1, 5)})
