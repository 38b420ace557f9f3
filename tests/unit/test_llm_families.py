"""Models of two layers of every family that is known: tokens against transformers, or against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from tests.support import llm_references
from tests.unit.test_llm_models import CHIP

pytestmark = pytest.mark.usefixtures("untimed_tiles")

PROMPT = [3, 5, 7, 100, 11, 13]
TIE = 2e-3  # of the spread of logits: below it, tables of angles in float16 decide which token is the largest
SIZES: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
WINDOW = {"sliding_window": 4}  # shorter than the prompt
MIXTURE = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 64}
LATENT = {"kv_lora_rank": 64, "qk_rope_head_dim": 16, "qk_nope_head_dim": 32, "v_head_dim": 48}
LATENT |= {"head_dim": 16, "num_key_value_heads": 8}
DEEP = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 64}
DEEP |= {"n_shared_experts": 2, "first_k_dense_replace": 1}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 40.0, "original_max_position_embeddings": 64}
CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "query_pre_attn_scalar": 32}


def turning(kind: str, **numbers: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 10000.0, **numbers}}


CASES: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama, angles of llama3": turning(
        "llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=64,
    ),
    "llama, linear angles": turning("linear", factor=4.0),
    "llama, yarn": turning("yarn", factor=4.0, original_max_position_embeddings=64),
    "llama, longrope": turning(
        "longrope",
        factor=4.0,
        original_max_position_embeddings=4,
        short_factor=[1.0] * 16,
        long_factor=[2.0 + 0.3 * pair for pair in range(16)],
    ),
    "mistral": WINDOW,
    "qwen2": {},
    "qwen3": {},
    "qwen2_moe": {**MIXTURE, "shared_expert_intermediate_size": 128},
    "qwen3_moe": {**MIXTURE, "norm_topk_prob": True},
    "qwen3_moe, a plain layer": {**MIXTURE, "mlp_only_layers": [0]},
    "internlm3": {"qkv_bias": True, "bias": True},
    "glm": {},
    "glm4": {},
    "gemma": {},
    "gemma, gelu by erf": {"hidden_act": "gelu"},
    "gemma2": {**WINDOW, **CAPS},
    "gemma3_text": {**WINDOW, "sliding_window_pattern": 2},
    "deepseek_v2": {
        **LATENT,
        **DEEP,
        "q_lora_rank": None,
        "rope_parameters": {**YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
    },
    "deepseek_v2, groups": {
        **LATENT,
        **DEEP,
        "q_lora_rank": 96,
        "topk_method": "group_limited_greedy",
        "n_group": 4,
        "topk_group": 2,
        "routed_scaling_factor": 4.0,
    },
    "deepseek_v3": {**LATENT, **DEEP, "q_lora_rank": 96, "n_group": 4, "topk_group": 2},
}


def near(own: list[int], logits: Any) -> bool:
    """Whether each token is the largest of its logits, ties left open."""
    rows = logits[len(PROMPT) - 1 :]
    behind = [row.max() - row[token] for row, token in zip(rows, own, strict=False)]
    return max(behind) <= TIE * logits.std()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_tokens_are_those_of_transformers(case: str) -> None:
    reason = "transformers is absent: see tests/requirements-torch.txt"
    transformers, torch = pytest.importorskip("transformers", reason=reason), pytest.importorskip("torch")
    config = transformers.AutoConfig.for_model(case.split(",")[0], **{**SIZES, **CASES[case]})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    biases = [pair for pair in model.named_buffers() if pair[0].endswith("e_score_correction_bias")]
    with torch.no_grad():
        for name, values in [*model.named_parameters(), *biases]:
            noise = torch.randn_like(values)
            drawn = values + 0.1 * noise if "norm" in name else noise * values.shape[-1] ** -0.5
            values.copy_(drawn.half())  # what our model holds
    tensors = {name: values.detach().numpy() for name, values in model.state_dict().items()}
    own = asim.llm.model(config.to_dict(), "fp16", weights=tensors).generate(CHIP, PROMPT, 6, "float32")
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT + own])).logits[0].numpy()
    assert near(own, logits)


@pytest.mark.parametrize("name", ["InternLM2", "Baichuan2", "Baichuan2Large", "ChatGLM3"])
def test_tokens_are_those_of_the_published_architecture(name: str) -> None:
    """Of families that transformers has by remote code only."""
    reference = getattr(llm_references, name)()
    tensors = reference.tensors()
    own = asim.llm.model(reference.config, "fp16", weights=tensors).generate(CHIP, PROMPT, 3, "float32")
    assert near(own, reference.logits(tensors, PROMPT + own))


@pytest.mark.parametrize("family", ["deepseek_v2", "qwen2_moe"])
def test_a_step_over_the_cache_goes_on_where_the_prompt_ends(family: str) -> None:
    """One token over what the cache has gives a longer prompt's logits, but for float16 in the cache."""
    parts = {
        "deepseek_v2": {**LATENT, **DEEP},
        "qwen2_moe": {**MIXTURE, "shared_expert_intermediate_size": 128},
    }
    config = {**SIZES, **parts[family], "model_type": family}
    model = asim.llm.model(config, "fp16", weights="random")

    def ran(queries: int, context: int, pools: dict[str, Any]) -> dict[str, Any]:
        compiled = model.compiled(CHIP, 1, queries, context)
        given = {
            one.name: pools.get(f"{one.name}_new", np.zeros(one.static_shape, np.float16))
            for one in compiled.source.inputs
            if "cache" in one.name
        }
        places = np.arange(context - queries, context)
        given |= {"input_ids": np.array(PROMPT)[places], "slots": places, "positions": places}
        return dict(asim.run(compiled, given, values="float32").outputs)

    whole = ran(len(PROMPT), len(PROMPT), {})
    split = ran(1, len(PROMPT), ran(len(PROMPT) - 1, len(PROMPT) - 1, {}))
    assert np.abs(whole["logits"] - split["logits"]).max() <= 0.01 * whole["logits"].std()
