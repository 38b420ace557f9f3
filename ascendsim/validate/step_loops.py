"""How published training steps were run, and what their scripts do in them beside the network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.carried import GRAD, UPDATED
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.ops import default_opset
from ascendsim.passes.precision.integer_sums import WIDE
from ascendsim.training.backward import Pen
from ascendsim.training.losses import LABELS


@dataclass(frozen=True, slots=True)
class Loop:
    """How a step was run, and what a script does in it beside the network.

    Attributes:
        eager: A framework launches operator by operator, and nothing is fused.
        memory: Where images lie when the step begins: "device", or in memory of the host, "pinned" or
            "pageable".
        bytes: Images come as bytes, of which the device makes numbers, less their mean, over their deviation.
        combined: Weights, state and gradients lie in one buffer each.
        half: The whole network is in half precision but for batch normalisation (apex's opt_level O2); else
            products are (mixed precision).
        step: File of the step as its own code has it, in place of one that is made of the structure.
        apart: Each gradient is freed of the factor of the loss by itself, though they lie in one buffer (apex
            without combine_grad).
        waits: What the host waits for before it launches what comes next: "loss", "accuracy_1" and
            "accuracy_5", which scripts read; "backward", when it looks for a flag of overflow (apex's dynamic
            factor of the loss) or waits for the stream.
        accuracy: The device counts how often the label is the network's first guess, and among its first
            five.
        averaged: It keeps the averages of both over the steps too, for the line that is printed.
    """

    eager: bool = False
    memory: str = "device"
    bytes: bool = False
    combined: bool = False
    half: bool = False
    step: str = ""
    apart: bool = False
    waits: tuple[str, ...] = ()
    accuracy: bool = False
    averaged: bool = False


BACKWARD = "backward"  # of `Loop.waits`
SUNK = Loop()  # the graph is on the device as a whole, and so are the images


def drop_gradients(graph: Graph) -> None:
    """Leaves gradients out of the outputs of a training step: published ones hand them to nobody."""
    graph.outputs[:] = [tensor for tensor in graph.outputs if not tensor.name.endswith(GRAD)]


def take_bytes(graph: Graph, name: str) -> None:
    """Lets a step take images as bytes, `images.float().sub(mean).div(deviation)` in front of what it did.

    Every channel has the same mean and deviation, 118 of 255 (`assumed`: times do not depend on them).

    Args:
        graph: Of the step; changed in place.
        name: The input that takes images as numbers.
    """
    images = graph.tensors[name]
    shape = images.static_shape
    pen = Pen(graph, default_opset(), "Images", **{WIDE: True})
    raw = graph.add_input(f"{name}_bytes", DType.UINT8, shape)
    means = pen.constant(np.full((1, shape[1], 1, 1), 118, np.float32))
    numbers = pen.op("Div", pen.op("Sub", pen.op("Cast", raw, to=DType.FLOAT32), means), means)
    graph.replace_uses(images, numbers)
    graph.inputs.remove(images)
    graph.remove_tensor(images)


def measure_accuracy(graph: Graph, guesses: str) -> None:
    """Lets a step count right guesses, as `accuracy` of PyTorch's example for ImageNet does: topk, eq with
    the labels, and for one and for five guesses a slice, float, a sum and a factor.

    Args:
        graph: Of the step; changed in place: outputs accuracy_1 and accuracy_5, before the host can read the
            loss.
        guesses: What the network gives, [images, classes].
    """
    known = len(graph.nodes)
    pen = Pen(graph, default_opset(), "Accuracy", **{WIDE: True})
    labels, scores = graph.tensors[LABELS], graph.tensors[guesses]
    count = labels.elements
    _, first = pen.ops("TopK", scores, [5], outputs=2, axis=-1)
    guessed = pen.op("Transpose", pen.op("Cast", first, to=DType.INT32), perm=[1, 0])
    right = pen.op("Equal", guessed, pen.op("Reshape", labels, [1, count]))
    for most in (1, 5):
        some = right if most == 5 else pen.op("Slice", right, [0], [most], [0])
        numbers = pen.op("Cast", pen.op("Reshape", some, [most * count]), to=DType.FLOAT32)
        share = pen.op("Mul", pen.op("ReduceSum", numbers, [0], keepdims=1), np.float32(100 / count))
        graph.rename_tensor(share, f"accuracy_{most}")
        graph.outputs.append(share)
    _place_behind(graph, scores, known)


def average_accuracy(graph: Graph) -> None:
    """Lets a step keep averages of its accuracies, as `AverageMeter` of the same example does with numbers of
    the device: each times the images, added to a sum, over the images so far.

    Args:
        graph: Of a step that measures accuracy; changed in place: inputs accuracy_1.sum, accuracy_5.sum and
            images_so_far, outputs accuracy_1.average and accuracy_5.average, behind the loss.
    """
    known, count = len(graph.nodes), graph.tensors[LABELS].elements
    pen = Pen(graph, default_opset(), "Averages", **{WIDE: True})
    images = graph.add_input("images_so_far", DType.FLOAT32, (1,))
    for most in (1, 5):
        total = graph.add_input(f"accuracy_{most}.sum", DType.FLOAT32, (1,))
        weighted = pen.op("Mul", graph.tensors[f"accuracy_{most}"], np.float32(count))
        added = pen.op("Add", total, weighted)
        average = pen.op("Div", added, images)
        graph.rename_tensor(added, f"{total.name}{UPDATED}")
        graph.rename_tensor(average, f"accuracy_{most}.average")
        graph.outputs += [added, average]
    _place_behind(graph, graph.tensors["loss"], known)


def _place_behind(graph: Graph, tensor: Tensor, known: int) -> None:
    """Moves the nodes from `known` on to where a tensor is made."""
    assert tensor.producer is not None
    after = graph.nodes[graph.nodes.index(tensor.producer) + 1]
    for node in graph.nodes[known:]:
        graph.place_before(node, after)


def unscale_apart(graph: Graph, loss_scale: float) -> None:
    """Frees each gradient of the factor of the loss by itself, before the optimiser takes the buffer.

    Args:
        graph: Of a step with combined weights, whose optimiser does not; changed in place.
        loss_scale: The factor.
    """
    joined = _buffer(graph)
    readers = joined.uses
    assert joined.producer is not None
    sizes = [part.elements for part in joined.producer.inputs if part is not None]
    pen = Pen(graph, default_opset(), "Unscale", **{WIDE: True})
    pieces = pen.ops("Split", joined, sizes, outputs=len(sizes), axis=0, no_task=1)
    freed = [pen.op("Mul", piece, np.float32(1 / loss_scale)) for piece in pieces]
    whole = pen.op("Concat", *freed, axis=0, no_task=1)
    for reader, port in readers:
        reader.set_input(port, whole)


def watch_overflow(graph: Graph) -> None:
    """Hands out a number as soon as all gradients are in their buffer, as the flag of what overflowed is.

    Args:
        graph: Of a step with combined weights; changed in place: output `backward`.
    """
    known, joined = len(graph.nodes), _buffer(graph)
    pen = Pen(graph, default_opset(), "Overflow", **{WIDE: True})
    graph.outputs.append(pen.op("Slice", joined, [0], [1], [0]))
    graph.rename_tensor(graph.outputs[-1], BACKWARD)
    _place_behind(graph, joined, known)


def _buffer(graph: Graph) -> Tensor:
    """All gradients."""
    sums = [node.output for node in graph.nodes if node.op_type == "AccumulateGrad"]
    (joined,) = {use.node.output for tensor in sums for use in tensor.uses}
    return joined
