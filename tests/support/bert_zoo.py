"""The pre-training step of BERT as MindSpore's model zoo has it (official/nlp/Bert: bert_model.py,
bert_for_pre_training.py); needs torch.

Structure only: products, normalisations and attention in float16 with casts of the network's own, float32
masters, GELU by tanh; each gradient is divided by the loss scale and bounded by its own norm; LAMB. The zoo
branches around the update when a gradient overflowed: the step here is one that updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ascendsim as asim
from ascendsim.graph.ir import Graph, Node
from ascendsim.graph.ir import Tensor as GraphTensor
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext
from ascendsim.training.backward import Pen
from ascendsim.training.optimizers import Lamb, Scalars
from ascendsim.training.step import TrainingStep
from tests.support.bert_pretraining import Embeddings, Sizes, batch_of
from tests.support.vit_training import LayerNorm, Linear

LOSS_SCALE = 65536.0  # where the zoo's dynamic scale starts
HALVES = torch.finfo(torch.float16)


@dataclass(frozen=True, slots=True)
class ZooLamb(Lamb):
    """MindSpore's LAMB behind what the zoo does to each gradient: unscaled, then scaled down to a norm of
    one where it is longer (nn.ClipByNorm).
    """

    name: ClassVar[str] = "lamb"

    def update(
        self,
        pen: Pen,
        weight: GraphTensor,
        grad: GraphTensor,
        state: Sequence[GraphTensor],
        scalars: Scalars,
    ) -> tuple[GraphTensor, ...]:
        """The new weight, then its new state."""
        zero, one = scalars["zero"], scalars["one"]
        grad = pen.op("Mul", grad, 1 / LOSS_SCALE)
        total = pen.op("ReduceSum", pen.op("Mul", grad, grad), keepdims=0)
        some = pen.op("Greater", total, zero)
        norm = pen.op("Where", some, pen.op("Sqrt", pen.op("Where", some, total, one)), total)
        grad = pen.op("Div", pen.op("Mul", grad, one), pen.op("Max", norm, one))
        return super(ZooLamb, self).update(pen, weight, grad, state, scalars)


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.query, self.key, self.value = (Linear(sizes.width, sizes.width) for _ in range(3))
        self.dropout, self.heads, self.length = nn.Dropout(sizes.dropout), sizes.heads, sizes.length

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        rows, width = x.shape
        query, key, value = (
            one(x).view(-1, self.length, self.heads, width // self.heads).transpose(1, 2)
            for one in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5
        scores = scores + (1.0 - mask.half()) * -10000.0
        y = self.dropout(F.softmax(scores, -1)) @ value
        return y.transpose(1, 2).reshape(rows, width)


class Output(nn.Module):
    """A projection, dropout, and the normalised sum with what went around."""

    def __init__(self, inner: int, sizes: Sizes) -> None:
        super().__init__()
        self.dense, self.dropout = Linear(inner, sizes.width), nn.Dropout(sizes.dropout)
        self.layernorm = LayerNorm(sizes.width, eps=1e-7)

    def forward(self, x: Tensor, around: Tensor) -> Tensor:
        return self.layernorm(around + self.dropout(self.dense(x)))


class Layer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention, self.attention_output = Attention(sizes), Output(sizes.width, sizes)
        self.intermediate = Linear(sizes.width, 4 * sizes.width)
        self.output = Output(4 * sizes.width, sizes)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention_output(self.attention(x, mask), x)
        return self.output(F.gelu(self.intermediate(x), approximate="tanh"), x)


class Bert(nn.Module):
    """Its result is the scaled loss of a step."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embeddings = Embeddings(sizes)
        self.layer = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.pooler, self.transform = (Linear(sizes.width, sizes.width) for _ in range(2))
        self.transform_norm, self.next = LayerNorm(sizes.width, eps=1e-7), Linear(sizes.width, 2)
        self.output_bias = nn.Parameter(torch.zeros(sizes.words))

    def forward(
        self, ids: Tensor, valid: Tensor, kinds: Tensor, places: Tensor, masked: Tensor, order: Tensor
    ) -> Tensor:
        """The loss; arguments are those of `tests.support.bert_pretraining`."""
        x = self.embeddings(ids, kinds).clamp(HALVES.min, HALVES.max).half()
        batch, length, width = x.shape
        x = x.view(-1, width)
        for layer in self.layer:
            x = layer(x, valid[:, None, None, :])
        x = x.float()
        found = F.embedding(places.view(-1), x).half()
        found = self.transform_norm(F.gelu(self.transform(found), approximate="tanh"))
        table = self.embeddings.word_embeddings.weight.half()
        scores = (found @ table.t()).float() + self.output_bias
        pooled = torch.tanh(self.pooler(x.view(batch, length, width)[:, 0].half()))
        following = self.next(pooled).float()
        return (F.cross_entropy(scores, masked.view(-1)) + F.cross_entropy(following, order)) * LOSS_SCALE


def bert_step(sizes: Sizes, device: str = "meta") -> TrainingStep:
    """The whole step; on the meta device without memory."""
    with torch.device(device):
        network, batch = Bert(sizes).train(), batch_of(sizes)
    step = asim.training_step(network, batch, optimizer=ZooLamb())
    _with_heads(step.graph)
    return step


def _with_heads(graph: Graph) -> None:
    """Lets products of attention have the axes of batch and heads, as MindSpore's BatchMatMul; PyTorch's have
    one axis for both, and the Reshapes around them would keep scores out of fractals.
    """
    for node in graph.nodes:
        if node.op_type != "MatMul" or len(node.output.static_shape) != 3:
            continue
        operands = [_unflattened(graph, node.required(port)) for port in (0, 1)]
        if None in operands:
            continue
        product = _added(graph, "MatMul", operands, node)
        wanted = graph.add_constant(graph.fresh("flat"), np.array(node.output.static_shape, np.int64))
        flat = _added(graph, "Reshape", [product, wanted], node)
        graph.replace_uses(node.output, flat)
        graph.remove_node(node)


def _unflattened(graph: Graph, tensor: GraphTensor) -> GraphTensor | None:
    """A tensor of three axes as it was before the first two of four became one."""
    made = tensor.producer
    if made is None:
        return None
    source = made.required(0)
    if made.op_type == "Reshape":
        same = source.static_shape[2:] == tensor.static_shape[1:]
        return source if len(source.static_shape) == 4 and same else None
    if made.op_type != "Transpose" or made.attr("perm") != (0, 2, 1):
        return None
    before = _unflattened(graph, source)
    return None if before is None else _added(graph, "Transpose", [before], made, perm=(0, 1, 3, 2))


def _added(
    graph: Graph, kind: str, inputs: Sequence[GraphTensor | None], like: Node, **attributes: Any
) -> GraphTensor:
    node = graph.add_node(kind, inputs, name=graph.fresh(like.name), **attributes)
    node.origin.update(like.origin)
    default_opset().get(node).infer(InferContext(node))
    return node.output
