"""What one of several cards holds of a model: tensor parallel, heads and inner widths shared evenly.

Heads of keys and values that are fewer than the cards are held by several of them. Experts are shared by
their inner width, or whole ones (`expert_parallel`). Tables of the vocabulary are cut by rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.errors import InputError
from ascendsim.llm.structure import Architecture

VOCABULARY_ALIGN = 64  # rows of a card's share: stacks pad the table


@dataclass(frozen=True, slots=True)
class Shard:
    """Sizes of one card's share.

    Attributes:
        cards: That work together.
        heads: Of queries.
        inner: Of the ordinary network.
        vocabulary: Rows of the tables.
        experts, expert_inner, shared_inner: Whole experts that it holds, and the inner widths of one and of
            the network beside them.
        parallel_inner: Inner width of an ordinary network beside a mixture.
        split: Whether cards share all but the experts too; else each has sequences of its own.
    """

    cards: int
    heads: int
    inner: int
    vocabulary: int
    experts: int = 0
    expert_inner: int = 0
    shared_inner: int = 0
    parallel_inner: int = 0
    split: bool = True

    @classmethod
    def of(
        cls, model: Architecture, cards: int, expert_parallel: bool = False, data_parallel: bool = False
    ) -> Shard:
        """The share of each of several cards.

        Raises:
            InputError: If something does not divide; says by what it would.
        """
        mixture = model.experts
        if data_parallel:
            return cls._data_parallel(model, cards)
        parts = {"num_attention_heads": model.heads}
        if mixture is None or mixture.dense_layers:
            parts["intermediate_size"] = model.inner
        if mixture is not None:
            parts |= {"num_experts": mixture.count} if expert_parallel else {"expert width": mixture.width}
        for name, size in parts.items():
            if cards < 1 or size % cards:
                fits = [str(count) for count in range(1, 65) if not any(n % count for n in parts.values())]
                rule = f"must divide {name} ({size}) of {model.name}"
                raise InputError("option cards", rule, cards, f"choose one of {', '.join(fits)}")
        vocabulary = model.vocabulary
        if cards > 1:
            unit = VOCABULARY_ALIGN * cards
            vocabulary = -(-vocabulary // unit) * unit // cards
        if mixture is None:
            return cls(cards, model.heads // cards, model.inner // cards, vocabulary)
        return cls(
            cards,
            model.heads // cards,
            -(-model.inner // cards),
            vocabulary,
            mixture.count // cards if expert_parallel else mixture.count,
            mixture.width if expert_parallel else mixture.width // cards,
            -(-mixture.shared_width // cards),
            -(-mixture.parallel_width // cards),
        )

    @classmethod
    def _data_parallel(cls, model: Architecture, cards: int) -> Shard:
        """All of the model but experts, of which the cards have whole ones."""
        mixture = model.experts
        if mixture is None or cards < 1 or mixture.count % cards:
            count = "none" if mixture is None else mixture.count
            rule = f"with data_parallel must divide num_experts of {model.name} ({count})"
            raise InputError("option cards", rule, cards)
        return cls(
            cards,
            model.heads,
            model.inner,
            model.vocabulary,
            mixture.count // cards,
            mixture.width,
            mixture.shared_width,
            mixture.parallel_width,
            split=False,
        )

    def kv_heads(self, whole: int) -> int:
        """Heads of keys and values, of so many in the model."""
        return max(1, whole // self.cards) if self.split else whole

    def cache_elements(self, model: Architecture, layer: int) -> int:
        """Numbers that the card keeps of each token in a layer."""
        if model.latent is not None:  # every head reads all of it, so every card has it
            return model.cache_elements(layer)
        kv_heads, head = model.heads_of(layer)
        return 2 * self.kv_heads(kv_heads) * head
