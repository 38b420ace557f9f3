"""`model`: a language model on cards, its prefill and its steps as ordinary results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from ascendsim.api.building import GraphBuilder
from ascendsim.api.compiling import compile
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.arguments import check_seed, checked
from ascendsim.core.collection import without_collection
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, OptionWarning
from ascendsim.core.host_memory import require_host_memory
from ascendsim.graph.ir import Graph
from ascendsim.llm.config import architecture
from ascendsim.llm.decoder import step_graph
from ascendsim.llm.generating import generate
from ascendsim.llm.layers import Step, Tokens
from ascendsim.llm.links import Links
from ascendsim.llm.memory import Memory
from ascendsim.llm.names import NAMED
from ascendsim.llm.repeat import repeated_us
from ascendsim.llm.rotation import SCALED
from ascendsim.llm.sharding import Shard
from ascendsim.llm.structure import Architecture
from ascendsim.llm.types import FORMATS, GROUP, NumberFormat, format_named, on_chip
from ascendsim.llm.weights import Checkpoint, RandomWeights, Weights
from ascendsim.soc import SocSpec, name_warning
from ascendsim.soc.boards import memory_that_holds
from ascendsim.soc.links import extrapolated
from ascendsim.soc.loading import load as load_soc

Chip = str | PathLike[str] | SocSpec
Mode = Literal["graph", "eager"]
_COUNTS = (2, 4, 8, 16)  # of cards that are proposed: `soc.links` knows no larger groups
_CONTEXT = 1024  # of the step whose weights count: any over a cache
_CHUNK = 4096  # new tokens of the step whose workspace counts: what stacks prefill at once


@dataclass(frozen=True)
class LanguageModel:
    """A model in a number format, spread over cards.

    Attributes:
        architecture: What it is made of.
        form: Number format.
        shard: What each card holds.
    """

    architecture: Architecture
    form: NumberFormat
    shard: Shard
    weights: Weights = field(default_factory=Weights, repr=False)
    _timed: dict[tuple[object, ...], float] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    @property
    def name(self) -> str:
        return self.architecture.name

    @property
    def cards(self) -> int:
        return self.shard.cards

    @checked()
    def prefill(self, soc: Chip, batch: int = 1, length: int = 1024, mode: Mode = "graph") -> Result:
        """Takes prompts in and chooses the first token of each: time to first token is its duration.

        Args:
            soc: As for `compile`.
            batch: Prompts.
            length: Tokens of each.
            mode: As in `step`.

        Raises:
            InputError: If a number is out of range, the chip lacks the number format or the cards their
                links, or the model does not fit.
        """
        return self._run(soc, Tokens(batch, length, length), mode)

    @checked()
    def step(self, soc: Chip, batch: int = 1, context: int = 1024, mode: Mode = "graph") -> Result:
        """Makes one token for each sequence: time per output token is its duration.

        Args:
            soc: As for `compile`.
            batch: Sequences.
            context: Tokens of each when the step is done.
            mode: "graph" = the device has the whole step; "eager" = the framework calls kernel by kernel.

        Raises:
            InputError: As `prefill`.
        """
        return self._run(soc, Tokens(batch, 1, context), mode)

    @checked()
    def chunk(self, soc: Chip, batch: int, queries: int, context: int, mode: Mode = "graph") -> Result:
        """Takes in a part of prompts of which the cache holds what is before: chunked prefill.

        Args:
            soc: As for `compile`.
            batch: Prompts.
            queries: New tokens of each.
            context: Tokens of each when the step is done.
            mode: As in `step`.

        Raises:
            InputError: As `prefill`.
        """
        return self._run(soc, Tokens(batch, queries, context), mode)

    @checked()
    def graph(
        self, soc: Chip, batch: int = 1, queries: int = 1, context: int = 1024, layers: int | None = None
    ) -> Graph:
        """The graph that one card runs, for `compile` with options of your own (precision_mode
        "must_keep_origin_dtype").

        Args:
            soc: As for `compile`; number formats and links go by it.
            batch, queries, context: As for `chunk`.
            layers: The first so many only.

        Raises:
            InputError: As `prefill`, memory left out.
        """
        chip = _chip(soc)
        form = on_chip(self.form, chip)
        links = Links(self.cards, chip.short_name)
        tokens = self.check_tokens(batch, queries, context)
        builder = GraphBuilder(self.name, dtype=form.flow)
        slots = builder.input("slots", (tokens.rows,), DType.INT64)
        step = Step(builder, self.architecture, self.shard, tokens, form, links, self.weights, slots)
        return step_graph(step, layers)

    @checked()
    def duration_us(self, soc: Chip, batch: int, queries: int, context: int, mode: Mode = "graph") -> float:
        """The time of a step from a few of its layers, which is that of all; memory is not looked at.

        Args:
            soc, batch, queries, context, mode: As for `chunk`.
        """

        def layers_us(layers: int) -> float:
            return simulate(self.compiled(soc, batch, queries, context, mode, layers=layers)).duration_us

        return repeated_us(self.architecture, layers_us)

    @checked()
    def compiled(
        self,
        soc: Chip,
        batch: int,
        queries: int,
        context: int,
        mode: Mode = "graph",
        layers: int | None = None,
    ) -> CompiledModel:
        """The program of a step, memory not looked at.

        Args:
            soc, batch, queries, context, mode: As for `chunk`.
            layers: The first so many only.
        """
        schedule = "sink" if mode == "graph" else "eager"
        made = self.graph(soc, batch, queries, context, layers)
        with warnings.catch_warnings():  # what fits is looked at before, with caches counted once
            warnings.simplefilter("ignore", OptionWarning)
            return compile(
                made,
                soc,
                precision_mode="must_keep_origin_dtype",
                schedule=schedule,
                options={
                    "open_shape_kernels": "always"
                },  # captured graphs call the kernels that are installed
            )

    @checked()
    def memory(self, soc: Chip) -> Memory:
        """What the model needs of a card's memory.

        Raises:
            InputError: If the chip lacks the number format or the cards their links, or its file says nothing
                of its memory.
        """
        chip, model = _chip(soc), self.architecture
        kept = [
            self.shard.cache_elements(model, layer) * self.form.flow.itemsize for layer in range(model.layers)
        ]
        whole = [model.is_global(layer) for layer in range(model.layers)]
        plain = replace(self, weights=Weights())  # values that are given count as well
        graph = plain.graph(soc, context=min(_CONTEXT, model.positions))
        weights = sum(
            tensor.logical_bytes
            for tensor in graph.tensors.values()
            if tensor.constant is not None and not tensor.constant.available
        )
        rows = min(_CHUNK, model.positions)
        widest = max(self.shard.inner * 2, model.hidden, self.shard.heads * model.head)
        memory = Memory(
            self.name,
            chip.name,
            (chip.dram.size or 0) - (chip.dram.reserved or 0),
            weights,
            sum(size for size, each in zip(kept, whole, strict=True) if each),
            sum(size for size, each in zip(kept, whole, strict=True) if not each),
            model.window,
            rows * (widest + 3 * model.hidden) * self.form.flow.itemsize,
        )
        if chip.dram.size is None:
            needed = memory.needed(1, min(_CONTEXT, model.positions)) + (chip.dram.reserved or 0)
            remedy = f"set {memory_that_holds(chip.name, needed)} or more"
            raise InputError(f"chip {chip.name}", "has no figure of its memory", remedy=remedy)
        return memory

    def note(self, soc: Chip) -> str:
        """What is to be known of times on a chip: whether those of collectives are extrapolated."""
        return extrapolated(_chip(soc).short_name, self.cards)

    @without_collection
    def _run(self, soc: Chip, tokens: Tokens, mode: Mode) -> Result:
        self.check_tokens(tokens.batch, tokens.queries, tokens.context)
        self._check_memory(soc, tokens)
        # behind the decorators of this and of what the caller called
        warn(self.note(soc), stacklevel=6)
        warn(called_otherwise(soc), stacklevel=6)
        return simulate(self.compiled(soc, tokens.batch, tokens.queries, tokens.context, mode))

    @checked()
    def check_tokens(self, batch: int, queries: int, context: int) -> Tokens:
        """Refuses a step that the model does not take; memory is not looked at.

        Args:
            batch, queries, context: As for `chunk`.

        Raises:
            InputError: If a number is out of range.
        """
        tokens = Tokens(batch, queries, context)
        for name, value in (("batch", tokens.batch), ("length", tokens.queries), ("context", tokens.context)):
            if value < 1:
                raise InputError(f"option {name}", "must be a whole number from 1 on", value)
        if tokens.context > self.architecture.positions:
            rule = f"must be at most {self.architecture.positions}, the longest of {self.name}"
            raise InputError("option context", rule, tokens.context)
        if tokens.queries > tokens.context:
            raise InputError(
                "option context", f"must be at least the {tokens.queries} new tokens", tokens.context
            )
        return tokens

    def _check_memory(self, soc: Chip, tokens: Tokens) -> None:
        memory = self.memory(soc)
        if memory.fits(tokens.batch, tokens.context):
            return
        most = memory.largest_batch(tokens.context)
        actual = f"{memory.needed(tokens.batch, tokens.context) / 2**30:.1f} GiB"
        rule = f"must fit into the {memory.capacity / 2**30:.1f} GiB of {memory.soc}"
        remedy = f"at most {most} sequences of {tokens.context} tokens do"
        if not most:
            chip = _chip(soc)
            size = memory.needed(tokens.batch, tokens.context) + (chip.dram.reserved or 0)
            others = [*self._that_fit(chip, tokens), f"set {memory_that_holds(chip.name, size)}"]
            listed = " or ".join(filter(None, (", ".join(others[:-1]), others[-1])))
            remedy = f"its weights take {memory.weights / 2**30:.1f} GiB: {listed} would do"
        raise InputError(f"{self.name} ({self.form.name}, cards={self.cards})", rule, actual, remedy)

    def _that_fit(self, soc: Chip, tokens: Tokens) -> list[str]:
        """The fewest more cards and the most bits less, each alone, with which a step fits."""
        more = [(f"cards={count}", self.form, count) for count in _COUNTS if count > self.cards]
        fewer = [
            (f"dtype={form.name!r}", form, self.cards)
            for form in FORMATS.values()
            if form.weight_bits < self.form.weight_bits
        ]
        return [name for each in (more, fewer) if (name := self._first_that_fits(soc, tokens, each))]

    def _first_that_fits(
        self, soc: Chip, tokens: Tokens, wanted: Sequence[tuple[str, NumberFormat, int]]
    ) -> str:
        for name, form, cards in wanted:
            try:
                shard = Shard.of(self.architecture, cards, data_parallel=not self.shard.split)
                _check_format(self.architecture, form, shard)
                if (
                    LanguageModel(self.architecture, form, shard)
                    .memory(soc)
                    .fits(tokens.batch, tokens.context)
                ):
                    return name
            except InputError:  # does not divide, or the chip has no such links
                continue
        return ""

    @checked(prompt="a list of token numbers")
    def generate(
        self,
        soc: Chip,
        prompt: Sequence[int],
        count: int = 16,
        values: Literal["device", "float32"] = "device",
    ) -> list[int]:
        """The likeliest tokens behind a prompt, computed by the kernels that are timed.

        Args:
            soc: As for `compile`.
            prompt: Tokens.
            count: How many to make.
            values: As for `run`.

        Raises:
            InputError: If the model has no values, is spread over cards, or scales angles in a way that is
                not known; if a token is not in the vocabulary.
        """
        model = self.architecture
        if type(self.weights) is Weights:
            raise InputError(
                f"model {self.name}", "has no weights", remedy='asim.llm.model(..., weights="random")'
            )
        if self.cards > 1:
            raise InputError("option cards", "must be 1 for values", self.cards)
        if model.scaling is not None and model.scaling.kind not in SCALED:
            rule = f"has scaled angles ({model.scaling.kind}), which are for timing"
            raise InputError(f"model {self.name}", rule, remedy=f"known are {', '.join(SCALED)}")

        require_host_memory(f"values of {self.name}", self.memory(soc).weights, "take a smaller model")

        def step(queries: int, context: int) -> CompiledModel:
            return self.compiled(soc, 1, queries, context)

        return generate(step, model.vocabulary, prompt, count, values)

    def __repr__(self) -> str:
        return f"LanguageModel({self.name!r}, {self.form.name}, cards={self.cards})"


def warn(text: str, stacklevel: int = 4) -> None:
    """Tells a caller behind `@checked` something about times, if there is something."""
    if text:
        warnings.warn(text, OptionWarning, stacklevel=stacklevel)


def called_otherwise(soc: Chip) -> str:
    """What is to be said of a chip's name that most people use for another one; "" if there is nothing."""
    return "" if isinstance(soc, SocSpec) else name_warning(_chip(soc))


def _chip(soc: Chip) -> SocSpec:
    return soc if isinstance(soc, SocSpec) else load_soc(soc)


@checked(source='write "config.json", a mapping of its content, or a name of asim.llm.shipped()')
def model(
    source: str | PathLike[str] | Mapping[str, Any],
    dtype: str = "bf16",
    cards: int = 1,
    *,
    expert_parallel: bool = False,
    data_parallel: bool = False,
    weights: str | PathLike[str] | Mapping[str, Any] | None = None,
    seed: int = 0,
) -> LanguageModel:
    """A language model from a config file of Hugging Face.

    Args:
        source: Path of a config.json, its content, or the name of a shipped one (`asim.llm.shipped()`).
        dtype: "bf16", "fp16", "w8a8" (int8 products with scales of tokens and columns) or "w4a16" (int4
            weights in groups of 128).
        cards: That share each layer (tensor parallel). Of packages with two dies, dies.
        expert_parallel: Whether cards share whole experts of a mixture, else the inner width of each.
        data_parallel: Whether each card has sequences of its own (`batch` is that of one card), and the cards
            share whole experts only, with an all-to-all in front of them and behind.
        weights: Values, which timing does not need: "random", a file or folder of safetensors, or arrays by
            the names of checkpoints.
        seed: Of random ones.

    Raises:
        InputError: If the config is not usable, heads or widths do not divide, or there is no such format.
    """
    check_seed(seed)
    facts = architecture(source)
    form = format_named(dtype)
    if expert_parallel and facts.experts is None:
        raise InputError("option expert_parallel", f"is for mixtures of experts, and {facts.name} is none")
    shard = Shard.of(facts, cards, expert_parallel, data_parallel)
    _check_format(facts, form, shard)
    return LanguageModel(facts, form, shard, _weights(weights, facts, seed))


def _weights(
    source: str | PathLike[str] | Mapping[str, Any] | None, facts: Architecture, seed: int
) -> Weights:
    from ascendsim.llm.safetensors import checkpoint

    if source is None:
        return Weights()
    if isinstance(source, str) and source == "random":
        return RandomWeights(seed, facts.unit_offset)
    if facts.family not in NAMED:
        rule = f"have names of their own in checkpoints of {facts.family}"
        raise InputError("option weights", rule, remedy=f"known are those of {', '.join(sorted(NAMED))}")
    return Checkpoint(source if isinstance(source, Mapping) else checkpoint(Path(source)), facts)


def _check_format(facts: Architecture, form: NumberFormat, shard: Shard) -> None:
    """Int4 weights of a column are scaled in groups, which must divide every row; experts have none."""
    if form.weight_bits != 4:
        return
    if facts.experts is not None:
        rule = "is not among what the product of experts takes"
        raise InputError(f"dtype 'w4a16' of {facts.name}", rule, remedy="choose 'bf16', 'fp16' or 'w8a8'")
    rows = {"hidden_size": facts.hidden, "intermediate_size / cards": shard.inner}
    if facts.latent is None:
        rows["heads / cards x head_dim"] = shard.heads * facts.head
    for name, size in rows.items():
        if size % GROUP:
            rule = f"needs {name} to be a multiple of {GROUP}, the weights that share a scale"
            raise InputError(f"dtype 'w4a16' of {facts.name}", rule, size, "choose fewer cards, or 'w8a8'")
