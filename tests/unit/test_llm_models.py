"""Language models from config files: what they are made of, what a card holds, and what steps take."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError, OptionWarning
from ascendsim.llm.config import architecture
from ascendsim.llm.repeat import period
from ascendsim.llm.sharding import Shard

TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
}
MIXTURE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
CHIP = "Ascend910B3"

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def tiny(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**TINY, **changes}.items() if value is not None}


def weights(model: Any) -> int:
    tensors = model.graph(CHIP).tensors.values()
    return sum(one.elements for one in tensors if one.constant is not None and not one.constant.available)


# numbers of parameters as the models' publishers count them
@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("qwen2.5-0.5b", 494_032_768),
        ("qwen3-0.6b", 596_049_920),
        ("llama-2-7b", 6_738_415_616),
        ("chatglm3-6b", 6_243_584_000),
        ("gemma-2-9b", 9_241_705_984),
    ],
)
def test_models_have_as_many_weights_as_published(name: str, published: int) -> None:
    assert weights(asim.llm.model(name)) == published


def test_a_file_says_the_same_as_its_content(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY))
    for source in (path, tmp_path, str(path)):
        found = architecture(source)
        assert (found.hidden, found.kv_heads, found.head, found.name) == (256, 2, 32, tmp_path.name)


def test_every_shipped_config_can_be_read() -> None:
    for name in asim.llm.shipped():
        model = architecture(name)
        assert model.heads % model.kv_heads == 0, name


def test_layers_of_a_window_keep_no_more_than_it() -> None:
    model = architecture("gemma-3-4b")
    assert [model.is_global(layer) for layer in range(12)] == [layer in (5, 11) for layer in range(12)]
    memory = asim.llm.model("gemma-3-4b").memory(CHIP)
    longer = memory.cache(1, 65536) - memory.cache(1, 32768)
    whole = sum(model.is_global(layer) for layer in range(model.layers))
    assert longer == 32768 * whole * 2 * 4 * 256 * 2  # tokens x layers x (K, V) x heads x elements x bytes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, r"model_type must be one of baichuan, .*qwen3_moe.*'mamba'"),
        ({"num_key_value_heads": 3}, r"num_key_value_heads must divide num_attention_heads \(8\), not 3"),
        ({"hidden_size": None}, r"hidden_size is missing"),
        ({"num_hidden_layers": 0}, r"num_hidden_layers must be a whole number from 1 on, not 0"),
        ({"vocab_size": "many"}, r"vocab_size must be a whole number"),
        ({"hidden_size": 250}, r"hidden_size must be a multiple of num_attention_heads \(8\), not 250"),
        ({"num_hidden_layers": 10**9}, r"num_hidden_layers must be at most 1024"),
        ({"rms_norm_eps": float("nan")}, r"rms_norm_eps must be a number above 0, not nan"),
        ({"head_dim": 31}, r"head_dim must be even"),
        ({"rope_scaling": "linear"}, r"rope_scaling must hold an object, not 'linear'"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, r"factor must be above 0, not 0"),
        ({"rope_scaling": {"type": "yarn"}}, r"original_max_position_embeddings is missing"),
        ({"model_type": "mistral", "sliding_window": "a"}, r"sliding_window must be a whole number"),
        (
            {"model_type": "gemma2", "attn_logit_softcapping": -4},
            r"attn_logit_softcapping must be a number from",
        ),
        (
            {"model_type": "gemma3_text", "sliding_window_pattern": 0},
            r"sliding_window_pattern must be a whole",
        ),
        ({"model_type": "glm", "partial_rotary_factor": 3}, r"the part of it that turns .*, not 32 x 3"),
        ({"model_type": "qwen3_moe", **MIXTURE, "num_experts": "a"}, r"num_experts must be a whole number"),
        (
            {"model_type": "qwen3_moe", **MIXTURE, "moe_intermediate_size": 0},
            r"moe_intermediate_size must be",
        ),
        (
            {"model_type": "qwen3_moe", **MIXTURE, "num_experts_per_tok": 9},
            r"from 1 to the number of experts \(8",
        ),
        ({"hidden_act": "relu2"}, r"hidden_act must be one of silu, .*'relu2'"),
    ],
)
def test_a_config_that_is_not_usable(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        asim.llm.model(tiny(**changes))


def test_what_is_neither_a_file_nor_shipped() -> None:
    with pytest.raises(InputError, match="did you mean qwen3-8b"):
        asim.llm.model("qwen3-8")
    with pytest.raises(InputError, match="cannot be opened"):
        asim.llm.model("nowhere/config.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cards": 3}, r"cards must divide num_attention_heads \(8\).*choose one of 1, 2, 4, 8"),
        ({"expert_parallel": True}, r"expert_parallel is for mixtures of experts"),
        ({"dtype": "int3"}, r"dtype must be one of bf16, fp16, w8a8, w4a16"),
        ({"dtype": "w4a16", "cards": 8}, r"multiple of 128.*choose fewer cards"),
    ],
)
def test_options_that_do_not_fit_a_model(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        asim.llm.model(TINY, **options)


def test_steps_that_do_not_fit() -> None:
    model = asim.llm.model(TINY)
    with pytest.raises(InputError, match="at most 4096, the longest"):
        model.step(CHIP, context=5000)
    with pytest.raises(InputError, match=r"batch must be .* from 1 on"):
        model.step(CHIP, batch=0)
    with pytest.raises(InputError, match="has no bfloat16.*fp16"):
        model.step("Ascend310P3")
    with pytest.raises(InputError, match="has no figures of its links"):
        asim.llm.model(TINY, "fp16", cards=2).step("Ascend310")
    large = asim.llm.model("qwen3-32b")
    with pytest.raises(
        InputError, match="its weights take 61.0 GiB: cards=2, dtype='w8a8' or set dram.size=6.GiB would do"
    ):
        large.step(CHIP)
    with pytest.raises(InputError, match="at most 40 sequences of 8192 tokens do"):
        asim.llm.model("qwen3-8b").step(CHIP, batch=64, context=8192)


def test_memory_counts_blocks_of_the_cache() -> None:
    memory = asim.llm.model(TINY).memory(CHIP)
    token = 3 * 2 * 2 * 32 * 2  # layers x (K, V) x heads x elements x bytes
    assert memory.cache(1, 1) == memory.cache(1, 128) == 128 * token
    assert memory.cache(2, 129) == 2 * 256 * token
    most = memory.largest_batch(1000)
    assert memory.fits(most, 1000)
    assert not memory.fits(most + 1, 1000)
    assert memory.fits(1, memory.longest_context())
    assert not memory.fits(1, memory.longest_context() + 1)


def test_shares_of_several_cards() -> None:
    model = architecture("qwen3-32b")
    share = Shard.of(model, 16)
    assert (share.heads, share.kv_heads(model.kv_heads), share.inner, share.vocabulary) == (4, 1, 1600, 9536)
    one, two = (asim.llm.model("qwen2.5-0.5b", cards=cards) for cards in (1, 2))
    tables = 2 * 151936 // 2 * 896  # the tied table stands once on each card
    assert weights(two) == pytest.approx((weights(one) - tables) / 2 + tables / 2, rel=2e-3)


def test_a_layer_more_takes_as_long_as_the_one_before() -> None:
    times = [
        asim.llm.model(tiny(num_hidden_layers=count)).step(CHIP, 2, 512).trace.end for count in (2, 3, 4, 8)
    ]
    assert times[2] - times[1] == times[1] - times[0]
    assert times[3] - times[2] == 4 * (times[2] - times[1])


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 9},
        {
            "model_type": "gemma3_text",
            "sliding_window": 128,
            "sliding_window_pattern": 3,
            "num_hidden_layers": 14,
        },
    ],
)
def test_a_few_layers_say_the_time_of_all(changes: dict[str, Any]) -> None:
    model = asim.llm.model(tiny(**changes))
    for queries, context in ((1, 512), (64, 64)):
        whole = asim.simulate(model.compiled(CHIP, 2, queries, context)).duration_us
        assert model.duration_us(CHIP, 2, queries, context) == pytest.approx(whole, rel=1e-9)


def test_periods_of_layers() -> None:
    periods = {
        name: period(architecture(name)) for name in ("qwen3-8b", "gemma-3-4b", "gemma-2-9b", "deepseek-v3")
    }
    assert periods == {"qwen3-8b": 1, "gemma-3-4b": 6, "gemma-2-9b": 2, "deepseek-v3": 1}


def test_several_cards_meet_in_every_layer() -> None:
    model = asim.llm.model(TINY, cards=2)
    result = model.step(CHIP, 4, 512)
    kinds = [row["OP Type"] for row in result.op_summary().records()]
    assert kinds.count("HcomAllReduce") == 1 + 2 * 3  # embeddings, and two a layer
    assert kinds.count("HcomAllGather") == 1
    waiting = [one for one in result.profile.tasks if one.is_communication]
    assert all(one.duration > 0 and not one.task.groups for one in waiting)
    alone = [kind for kind in kinds if not kind.startswith("Hcom")]
    assert len(alone) == len(asim.llm.model(TINY).step(CHIP, 4, 512).trace.tasks) + 1  # logits change places


@pytest.mark.slow
def test_few_bits_take_less_memory_and_time() -> None:
    wide = tiny(hidden_size=2048, intermediate_size=8192, num_hidden_layers=1, num_attention_heads=16)
    models = [asim.llm.model(wide, dtype) for dtype in ("bf16", "w8a8", "w4a16")]
    weights = [
        model.memory(CHIP).weights - 2 * 1000 * 2048 * 2 for model in models
    ]  # tables stay in bfloat16
    assert weights[1] == pytest.approx(weights[0] / 2, rel=0.01)
    assert weights[2] == pytest.approx(weights[0] / 4 * (1 + 4 / 128), rel=0.01)
    steps = [model.step(CHIP) for model in models]
    assert steps[1].duration_us < steps[0].duration_us
    kernels = [{row["OP Type"] for row in step.op_statistic().records()} for step in steps]
    assert {"DynamicQuant", "QuantBatchMatmulV3"} <= kernels[1]
    assert "WeightQuantBatchMatmulV2" in kernels[2]


def test_experts_meet_all_to_all_where_cards_have_their_own_sequences() -> None:
    changes = {"model_type": "qwen3_moe", "num_experts": 16, "num_experts_per_tok": 2, "head_dim": 32}
    config = tiny(**changes, moe_intermediate_size=64)
    apart = asim.llm.model(config, cards=4, expert_parallel=True, data_parallel=True).step(CHIP, 2, 256)
    together = asim.llm.model(config, cards=4, expert_parallel=True).step(CHIP, 8, 256)
    counts = [[row["OP Type"] for row in one.op_summary().records()] for one in (apart, together)]
    assert [own.count("HcomAllToAll") for own in counts] == [2 * 3, 0]
    assert [own.count("HcomAllReduce") for own in counts] == [0, 1 + 2 * 3]
    assert [own.count("GroupedMatmul") for own in counts] == [2 * 3, 2 * 3]
    with pytest.raises(InputError, match=r"data_parallel must divide num_experts of .* \(16\)"):
        asim.llm.model(config, cards=3, data_parallel=True)


@pytest.mark.slow
def test_mixtures_hold_all_experts_and_read_those_that_are_reached() -> None:
    model = asim.llm.model("qwen3-30b-a3b")
    assert weights(model) == 30_532_122_624  # as published
    one, many = (model.duration_us(CHIP, batch, 1, 256) for batch in (1, 64))
    assert one < many / 3  # of 128 experts 8 are reached, or nearly all
    with pytest.raises(InputError, match="the product of experts"):
        asim.llm.model("qwen3-30b-a3b", "w4a16")


def test_eager_steps_wait_for_the_host() -> None:
    model = asim.llm.model(TINY)
    graph, eager = (model.step(CHIP, 1, 256, mode) for mode in ("graph", "eager"))
    assert eager.schedule == "eager"
    assert eager.duration_us > 3 * graph.duration_us


def test_prompts_take_longer_and_less_a_token() -> None:
    model = asim.llm.model(TINY)
    short, long = (model.prefill(CHIP, 1, length).duration_us for length in (32, 512))
    assert short < long < 16 * short
    assert model.chunk(CHIP, 1, 32, 4096).duration_us > short


def test_a_sweep_has_a_row_a_point_and_says_what_does_not_fit() -> None:
    model = asim.llm.model(TINY)
    found = asim.llm.sweep(model, CHIP, (1, 400_000), (1024,))
    first, second = found.table().records()
    assert first["TPOT(ms)"] > 0.03
    assert first["Tokens/s"] == pytest.approx(1000 / first["TPOT(ms)"])
    assert second["TPOT(ms)"] is None
    assert second["Memory(GiB)"] > 60
    point = found.points[0]
    assert 0.5 * (point.step_us or 0) < sum(point.kernels.values()) < (point.step_us or 0)  # gaps of launches
    assert found.plot_memory().limit == (pytest.approx(60.625), "card")
    names = list(found.plot_kernels(1).series)
    assert {"MatMulV2", "AddRmsNorm"} <= set(names)


def test_steps_on_more_cards_than_there_are_figures_warn() -> None:
    wide = tiny(num_attention_heads=16, num_hidden_layers=1)
    with pytest.warns(OptionWarning, match="16 devices are extrapolated .* groups of 2, 4 and 8") as caught:
        asim.llm.model(wide, cards=16).step(CHIP, context=128)
    assert [Path(each.filename).name for each in caught] == [Path(__file__).name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", OptionWarning)
        asim.llm.model(wide, cards=8).step(CHIP, context=128)


def test_models_of_short_contexts_have_memory_too() -> None:
    short, long = (asim.llm.model(tiny(max_position_embeddings=size)).memory(CHIP) for size in (512, 4096))
    assert short.weights == long.weights > 0
