"""The kernels of a decoder, as inference stacks on these chips call them.

Every method adds the operators of one step of a layer to a graph. Rows are tokens of all sequences, one
sequence behind the other; products keep their weights (columns, rows), as checkpoints do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ascendsim.core.dtypes import DType
from ascendsim.graph.builder import GraphBuilder
from ascendsim.graph.ir import Tensor
from ascendsim.llm.types import GROUP, NumberFormat

if TYPE_CHECKING:
    from ascendsim.llm.links import Links
    from ascendsim.llm.sharding import Shard
    from ascendsim.llm.structure import Architecture
    from ascendsim.llm.weights import Weights

ASCEND = "ascend"


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
    """

    builder: GraphBuilder
    model: Architecture
    shard: Shard
    tokens: Tokens
    form: NumberFormat
    links: Links
    weights: Weights

    def norm(self, x: Tensor, name: str) -> Tensor:
        """RmsNorm over what the last axis holds."""
        gamma = self._gamma(name, x)
        return self.builder.ops(
            "RmsNorm", x, gamma, domain=ASCEND, outputs=2, name=name, epsilon=self.model.epsilon
        )[0]

    def add_norm(self, x: Tensor, residual: Tensor, name: str) -> tuple[Tensor, Tensor]:
        """The norm of a sum, and the sum."""
        total = self.builder.op("Add", x, residual, name=f"{name}_add")
        return self.norm(total, name), total

    def _gamma(self, name: str, x: Tensor) -> Tensor:
        fill = self.weights.norm(self.builder.graph, name, x.static_shape[-1:], self.model.unit_offset)
        return self.builder.weight(f"{name}.weight", x.static_shape[-1:], fill)

    def product(
        self, x: Tensor, name: str, columns: int, *, bias: bool = False, plain: bool = False
    ) -> Tensor:
        """Rows times the transpose of weights (columns, elements of a row), in the model's number format.

        Args:
            x: Two axes.
            name: Of the weights.
            columns: Of the result.
            bias: Whether it adds one.
            plain: Whether the weights stay in the type of the activations, whatever the format.
        """
        b, rows = self.builder, x.static_shape[-1]
        added = b.weight(f"{name}.bias", (columns,), self.weights.bias(name, columns)) if bias else None
        if plain or self.form.weight_bits == 16:
            weight = b.weight(f"{name}.weight", (columns, rows), self.weights.matrix(name, (columns, rows)))
            return b.op("Gemm", x, weight, added, transB=1, name=name)
        if self.form.quantised:
            values, scale = self.quantised(x, name)
            return self._int8(values, scale, name, columns, added)
        weight = b.weight(f"{name}.qweight", (columns, rows // 8), dtype=DType.INT32)
        scales = b.weight(f"{name}.scales", (columns, rows // GROUP))
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

    def _int8(self, x: Tensor, scale: Tensor, name: str, columns: int, bias: Tensor | None) -> Tensor:
        b, rows = self.builder, x.static_shape[-1]
        weight = b.weight(f"{name}.qweight", (columns, rows), dtype=DType.INT8)
        steps = b.weight(f"{name}.scales", (columns,), dtype=DType.FLOAT32)
        return b.op(
            "QuantBatchMatmulV3",
            *(x, weight, steps, None, bias, scale),
            domain=ASCEND,
            name=name,
            transpose_x2=1,
            dtype=27 if self.form.flow is DType.BFLOAT16 else 1,
        )

    def all_reduce(self, x: Tensor, name: str) -> Tensor:
        """The sum over all cards; x itself on one card."""
        return self._collective("HcomAllReduce", x, name)

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
        half = x.static_shape[-1] // 2
        gate, up = b.ops("Split", x, [half, half], axis=-1, outputs=2, name=f"{name}_split")
        return b.op("Mul", b.op("Gelu", gate, approximate="tanh", name=f"{name}_gelu"), up, name=name)

    def capped(self, x: Tensor, bound: float, name: str) -> Tensor:
        """Bound tanh(x / bound)."""
        b = self.builder
        return b.op("Mul", b.op("Tanh", b.op("Mul", x, 1 / bound), name=name), bound)
