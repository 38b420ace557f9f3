"""What a decoder-only language model is made of: sizes, and which variants of its parts it has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in place of the feed-forward network.

    Attributes:
        count, active: Experts, and those that each token goes to.
        width: Inner width of one.
        shared_width: Inner width of the network that all tokens go through beside them; 0 = none.
        dense_layers: Layers at the start that have an ordinary network.
        every: A mixture stands in every layer whose number is divisible by this.
        parallel_width: Inner width of an ordinary network beside the mixture with norms of its own (Gemma 4).
        plain_layers: Numbers of further layers that have an ordinary network.
        sigmoid: Whether the gate takes the sigmoid of scores, else their softmax (DeepSeek V3).
        normalised: Whether shares of a token's experts are divided by their sum.
        factor: Of the shares.
        groups, kept_groups: Groups of experts, and those from which a token's experts are chosen.
        corrected: Whether the gate adds a bias to scores when it chooses (DeepSeek V3).
        shared_gate: Whether the network beside them has a gate of its own (Qwen 2).
    """

    count: int
    active: int
    width: int
    shared_width: int = 0
    dense_layers: int = 0
    every: int = 1
    parallel_width: int = 0
    sigmoid: bool = False
    plain_layers: tuple[int, ...] = ()
    normalised: bool = False
    factor: float = 1.0
    groups: int = 1
    kept_groups: int = 1
    corrected: bool = False
    shared_gate: bool = False


@dataclass(frozen=True, slots=True)
class Scaling:
    """How angles are changed for contexts that are longer than those of training.

    Attributes:
        kind: "linear", "llama3", "yarn" or "longrope"; others have times but no values.
        factor: By which the context grows.
        original: Longest context of training.
        low, high: Of "llama3": waves longer than original / low turn by `factor` slower, those shorter than
            original / high as before. Of "yarn": turns within `original` from which on elements turn as
            before (high), and below which by `factor` slower (low).
        gain: Factor of cosines and sines.
        short, long: Of "longrope": by how much slower each pair turns within `original`, and beyond.
    """

    kind: str
    factor: float = 1.0
    original: int = 0
    low: float = 1.0
    high: float = 4.0
    gain: float = 1.0
    short: tuple[float, ...] = ()
    long: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Latent:
    """Multi-head latent attention: keys and values of all heads come from one short vector a token.

    Attributes:
        query_rank: Width of the queries' own bottleneck; 0 = none.
        rank: Width of the vector that is kept of a token.
        rotary: Elements of a head that turn with the position, kept beside it.
        plain: Elements of a head that do not turn.
        value: Elements of a head's value.
    """

    query_rank: int
    rank: int
    rotary: int
    plain: int
    value: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """Facts of a model.

    Attributes:
        name: As people call it.
        family: `model_type` of its config file.
        hidden, layers, vocabulary: Sizes.
        heads, kv_heads, head: Heads of queries, of keys and values, and elements of one.
        inner: Inner width of the feed-forward network.
        positions: Longest context.
        epsilon: Of the norms.
        tied: Whether the last product uses the table of embeddings.
        qkv_bias, out_bias, inner_bias: Whether these products add a bias; the last are the network's.
        head_norm: Whether queries and keys are normalised head by head.
        sandwich: Whether results of attention and network are normalised before they are added.
        unit_offset: Whether norms multiply by 1 + weight.
        activation: Of the gate: "silu", "gelu" (by erf) or "gelu_tanh".
        theta, local_theta: Bases of the angles, in layers of global attention and of a window.
        rotary: Part of a head that turns; 0 = none does (ALiBi).
        scaling: How angles are changed for longer contexts, in global layers; None = they are not.
        interleaved: Whether neighbours turn together, else halves.
        window: Keys that a query sees in layers of a window; 0 = all.
        global_every: Every so-manieth layer sees all keys, the others a window; 1 = all do.
        global_head, global_kv_heads: Of those layers, where they differ (Gemma 4); 0 = as in the others.
        global_rotary: Part of a head that turns there; 0 = as in the others.
        global_keys_as_values: Whether those layers have no product for values.
        scale: Factor of the scores; None = 1 / sqrt(head).
        score_cap, logit_cap: Bounds by tanh; 0 = none.
        unit_head: Whether rows of the last product's weights are divided by their length (Baichuan 2).
        embedding_scale: Factor of the embeddings.
        experts: None = an ordinary network in all layers.
        latent: None = ordinary attention.
    """

    name: str
    family: str
    hidden: int
    layers: int
    vocabulary: int
    heads: int
    kv_heads: int
    head: int
    inner: int
    positions: int
    epsilon: float = 1e-6
    tied: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    inner_bias: bool = False
    head_norm: bool = False
    sandwich: bool = False
    unit_offset: bool = False
    activation: str = "silu"
    theta: float = 10000.0
    local_theta: float = 0.0
    rotary: float = 1.0
    scaling: Scaling | None = None
    interleaved: bool = False
    window: int = 0
    global_every: int = 1
    global_head: int = 0
    global_kv_heads: int = 0
    global_rotary: float = 0.0
    global_keys_as_values: bool = False
    scale: float | None = None
    score_cap: float = 0.0
    logit_cap: float = 0.0
    unit_head: bool = False
    embedding_scale: float = 1.0
    experts: Experts | None = None
    latent: Latent | None = None

    def is_global(self, layer: int) -> bool:
        """Whether a layer sees all keys."""
        return not self.window or (layer + 1) % self.global_every == 0

    def has_experts(self, layer: int) -> bool:
        """Whether a layer has a mixture of experts."""
        mixture = self.experts
        if mixture is None or layer < mixture.dense_layers or layer in mixture.plain_layers:
            return False
        return (layer + 1) % mixture.every == 0

    def heads_of(self, layer: int) -> tuple[int, int]:
        """Heads of keys and values, and elements of a head, of a layer."""
        if self.global_head and self.is_global(layer):
            return self.global_kv_heads or self.kv_heads, self.global_head
        return self.kv_heads, self.head

    def kind(self, layer: int) -> tuple[bool, bool]:
        """What tells layers apart: whether it sees all keys, and whether it has a mixture."""
        return self.is_global(layer), self.has_experts(layer)

    def cache_elements(self, layer: int) -> int:
        """Numbers that a layer keeps of each token."""
        if self.latent is not None:
            return self.latent.rank + self.latent.rotary
        kv_heads, head = self.heads_of(layer)
        return 2 * kv_heads * head
