"""The kernels of a decoder, as inference stacks on these chips call them.

Every method adds the operators of one step of a layer to a graph. Rows are tokens of all sequences, one
sequence behind the other; products keep their weights (columns, rows), as checkpoints do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Array, Tensor
from ascendsim.llm.types import GROUP, NumberFormat
from ascendsim.llm.weights import int4_of, int8_of, unit_rows

if TYPE_CHECKING:
    from ascendsim.llm.links import Links
    from ascendsim.llm.sharding import Shard
    from ascendsim.llm.structure import Architecture
    from ascendsim.llm.weights import Fill, Weights

ASCEND = "ascend"
BLOCK = 128  # tokens of a block of the paged cache: what stacks on these chips use


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a step works on.

    Attributes:
        batch: Sequences.
        queries: New tokens of each.
        context: Tokens of each after the step, the new ones among them.
    """

    batch: int
    queries: int
    context: int

    @property
    def rows(self) -> int:
        return self.batch * self.queries

    @property
    def blocks(self) -> int:
        """Blocks of a sequence in the cache."""
        return -(-self.context // BLOCK)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a model, whose kernels are added to a graph.

    Attributes:
        builder: Of the graph.
        model: What the model is made of.
        shard: What the card holds of it.
        tokens: What the step works on.
        form: Number format.
        links: Between the cards.
        weights: Where weights come from.
        slots: Places of the new tokens in the cache.
    """

    builder: GraphBuilder
    model: Architecture
    shard: Shard
    tokens: Tokens
    form: NumberFormat
    links: Links
    weights: Weights
    slots: Tensor

    def norm(self, x: Tensor, name: str) -> Tensor:
        """RmsNorm over what the last axis holds."""
        gamma = self.gamma(name, x)
        return self.builder.ops(
            "RmsNorm", x, gamma, domain=ASCEND, outputs=2, name=name, epsilon=self.model.epsilon
        )[0]

    def add_norm(self, x: Tensor, residual: Tensor, name: str) -> tuple[Tensor, Tensor]:
        """The norm of a sum, and the sum."""
        made = self.builder.ops(
            "AddRmsNorm",
            *(x, residual, self.gamma(name, x)),
            domain=ASCEND,
            outputs=3,
            name=name,
            epsilon=self.model.epsilon,
        )
        return made[0], made[2]

    def weight(
        self, name: str, shape: tuple[int, ...], change: Callable[[Array], Array] | None = None
    ) -> Tensor:
        """A weight in the type of the activations, its values changed if there is something to change."""
        fill, kind = self.fill(name, shape), self.form.flow.numpy
        made = fill and (lambda: (fill() if change is None else change(fill())).astype(kind))
        return self.builder.weight(name, shape, made)

    def gamma(self, name: str, x: Tensor) -> Tensor:
        """Weights of a norm over the last axis of x."""
        shape = x.static_shape[-1:]
        fill, kind, offset = self.fill(f"{name}.weight", shape), self.form.flow.numpy, self.model.unit_offset
        made = fill and (lambda: (fill().astype(np.float32) + offset).astype(kind))
        return self.builder.weight(f"{name}.weight", shape, made)

    def fill(self, name: str, shape: tuple[int, ...]) -> Fill:
        """What makes the values of a weight of the present scope; None = it has none."""
        return self.weights.fill((self.builder.prefix + name).replace("/", "."), shape)

    def product(
        self,
        x: Tensor,
        name: str,
        columns: int,
        *,
        bias: bool = False,
        plain: bool = False,
        unit: bool = False,
    ) -> Tensor:
        """Rows times the transpose of weights (columns, elements of a row), in the model's number format.

        Args:
            x: Two axes.
            name: Of the weights.
            columns: Of the result.
            bias: Whether it adds one.
            plain: Whether the weights stay in the type of the activations, whatever the format.
            unit: Whether each row of the weights is divided by its length, of plain ones.
        """
        b, rows = self.builder, x.static_shape[-1]
        added = self.weight(f"{name}.bias", (columns,)) if bias else None
        if plain or self.form.weight_bits == 16:
            weight = self.weight(f"{name}.weight", (columns, rows), unit_rows if unit else None)
            return b.op("Gemm", x, weight, added, transB=1, name=name)
        fill = self.fill(f"{name}.weight", (columns, rows))
        if self.form.quantised:
            weight = b.weight(
                f"{name}.qweight", (columns, rows), fill and (lambda: int8_of(fill())[0]), DType.INT8
            )
            steps = b.weight(
                f"{name}.scales", (columns,), fill and (lambda: int8_of(fill())[1]), DType.FLOAT32
            )
            values, scale = self.quantised(x, name)
            return b.op(
                "QuantBatchMatmulV3",
                *(values, weight, steps, None, added, scale),
                domain=ASCEND,
                name=name,
                transpose_x2=1,
                dtype=27 if self.form.flow is DType.BFLOAT16 else 1,
            )
        shape, kind = (columns, rows // 8), self.form.flow.numpy
        weight = b.weight(f"{name}.qweight", shape, fill and (lambda: int4_of(fill(), GROUP)[0]), DType.INT32)
        made = fill and (lambda: int4_of(fill(), GROUP)[1].astype(kind))
        scales = b.weight(f"{name}.scales", (columns, rows // GROUP), made)
        return b.op(
            "WeightQuantBatchMatmulV2",
            *(x, weight, scales, None, None, None, added),
            domain=ASCEND,
            name=name,
            transpose_weight=1,
            antiquant_group_size=GROUP,
        )

    def quantised(self, x: Tensor, name: str) -> tuple[Tensor, Tensor]:
        """Rows in int8 with a scale a token."""
        values, scale = self.builder.ops("DynamicQuant", x, domain=ASCEND, outputs=2, name=f"{name}_quant")
        return values, scale

    def all_reduce(self, x: Tensor, name: str) -> Tensor:
        """The sum over all cards; x itself on one card, or where each has sequences of its own."""
        return self._collective("HcomAllReduce", x, name) if self.shard.split else x

    def all_gather(self, x: Tensor, name: str) -> Tensor:
        """What all cards have, one behind the other along the first axis."""
        return self._collective("HcomAllGather", x, name)

    def all_to_all(self, x: Tensor, name: str) -> Tensor:
        """Every card's rows for every other."""
        return self._collective("HcomAllToAll", x, name)

    def _collective(self, kind: str, x: Tensor, name: str) -> Tensor:
        if self.links.cards == 1:
            return x
        us = self.links.us(kind, x.elements * self.form.flow.itemsize)
        return self.builder.op(kind, x, domain=ASCEND, name=name, rank_size=self.links.cards, known_us=us)

    def gated(self, x: Tensor, activation: str, name: str) -> Tensor:
        """Activation of the first half times the second half."""
        b = self.builder
        if activation == "silu":
            return b.op("SwiGlu", x, domain=ASCEND, name=name)
        tanh = int(activation == "gelu_tanh")
        return b.ops("GeGluV2", x, domain=ASCEND, outputs=2, name=name, activate_left=1, approximate=tanh)[0]

    def capped(self, x: Tensor, bound: float, name: str) -> Tensor:
        """Bound tanh(x / bound)."""
        b = self.builder
        return b.op("Mul", b.op("Tanh", b.op("Mul", x, 1 / bound), name=name), bound)
