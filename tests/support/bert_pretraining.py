"""BERT with both heads of its pre-training: masked language model and next sentence; needs torch.

Structure and sizes are those of the paper (Devlin et al. 2018, BERT-large: 24 layers, width 1024, 16 heads)
and of Google's published code: dropout of 0.1 behind the embeddings, on the attention's probabilities and
behind each projection, GELU by erf, and the table of words as the last layer's weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a network and its batch.

    Attributes:
        layers, width, heads, words, places: Of the network.
        batch, length, masked: Sequences, words of each, and words of each that are to be found.
        dropout: Probability.
    """

    layers: int = 24
    width: int = 1024
    heads: int = 16
    words: int = 30522
    places: int = 512
    batch: int = 32
    length: int = 128
    masked: int = 20
    dropout: float = 0.1


LARGE = Sizes()
SMALL = Sizes(layers=2, width=64, heads=4, words=160, places=32, batch=4, length=16, masked=3)


class Embeddings(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(sizes.words, sizes.width, padding_idx=0)
        self.position_embeddings = nn.Embedding(sizes.places, sizes.width)
        self.token_type_embeddings = nn.Embedding(2, sizes.width)
        self.LayerNorm = nn.LayerNorm(sizes.width, eps=1e-12)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, ids: Tensor, kinds: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.word_embeddings(ids) + self.token_type_embeddings(kinds) + self.position_embeddings(places)
        return self.dropout(self.LayerNorm(x))


class Attention(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(sizes.width, sizes.width) for _ in range(3))
        self.dropout, self.heads = nn.Dropout(sizes.dropout), sizes.heads

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            one(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for one in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5 + mask
        y = self.dropout(F.softmax(scores, -1)) @ value
        return y.transpose(1, 2).reshape(batch, length, width)


class Output(nn.Module):
    """A projection, dropout, and the normalised sum with what went around."""

    def __init__(self, inner: int, sizes: Sizes) -> None:
        super().__init__()
        self.dense, self.dropout = nn.Linear(inner, sizes.width), nn.Dropout(sizes.dropout)
        self.LayerNorm = nn.LayerNorm(sizes.width, eps=1e-12)

    def forward(self, x: Tensor, around: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + around)


class Layer(nn.Module):
    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.attention, self.attention_output = Attention(sizes), Output(sizes.width, sizes)
        self.intermediate = nn.Linear(sizes.width, 4 * sizes.width)
        self.output = Output(4 * sizes.width, sizes)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attention_output(self.attention(x, mask), x)
        return self.output(F.gelu(self.intermediate(x)), x)


class BertForPreTraining(nn.Module):
    """Its result is the loss of a step: that of the masked words and that of the next sentence."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embeddings = Embeddings(sizes)
        self.layer = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.pooler, self.transform = (nn.Linear(sizes.width, sizes.width) for _ in range(2))
        self.transform_norm = nn.LayerNorm(sizes.width, eps=1e-12)
        self.decoder, self.seq_relationship = nn.Linear(sizes.width, sizes.words), nn.Linear(sizes.width, 2)
        self.decoder.weight = self.embeddings.word_embeddings.weight

    def forward(
        self, ids: Tensor, valid: Tensor, kinds: Tensor, places: Tensor, masked: Tensor, order: Tensor
    ) -> Tensor:
        """The loss.

        Args:
            ids: Words, (batch, length).
            valid: 1 where there is a word, 0 where the sentence is filled up; float32, (batch, length).
            kinds: 0 in the first sentence, 1 in the second.
            places: Masked words, numbered through the whole batch.
            masked: What words stood there.
            order: Whether the second sentence does not follow the first, (batch).
        """
        x = self.embeddings(ids, kinds)
        mask = (1.0 - valid[:, None, None, :]) * -10000.0
        for layer in self.layer:
            x = layer(x, mask)
        found = F.embedding(places.view(-1), x.reshape(-1, x.shape[-1]))
        scores = self.decoder(self.transform_norm(F.gelu(self.transform(found))))
        pooled = torch.tanh(self.pooler(x[:, 0]))
        return F.cross_entropy(scores, masked.view(-1)) + F.cross_entropy(
            self.seq_relationship(pooled), order
        )


def on_meta(sizes: Sizes) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The network in training and a batch, without memory."""
    with torch.device("meta"):
        return BertForPreTraining(sizes).train(), batch_of(sizes)


def with_values(sizes: Sizes, seed: int = 0) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The same with seeded values."""
    torch.manual_seed(seed)
    return BertForPreTraining(sizes).train(), batch_of(sizes)


def batch_of(sizes: Sizes) -> tuple[Tensor, ...]:
    """A batch of random words on the current device; the last quarter of the first sequence is empty."""
    batch, length, masked = sizes.batch, sizes.length, sizes.masked
    valid = torch.ones(batch, length)
    valid[0, length - length // 4 :] = 0.0
    kinds = (torch.arange(length) >= length // 2).long().expand(batch, length).contiguous()
    places = torch.randint(0, length, (batch, masked)) + length * torch.arange(batch)[:, None]
    return (
        torch.randint(1, sizes.words, (batch, length)),
        valid,
        kinds,
        places,
        torch.randint(1, sizes.words, (batch, masked)),
        torch.randint(0, 2, (batch,)),
    )
