"""Tokens of language models against formulas of their own, and against transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core import host_memory
from ascendsim.core.errors import AscendSimError, InputError
from ascendsim.llm.safetensors import checkpoint
from ascendsim.llm.weights import int4_of, int8_of
from tests.unit.test_llm_models import CHIP, TINY

SMALL: dict[str, Any] = {**TINY, "num_hidden_layers": 2}
PROMPT = [3, 5, 7, 200, 11]


def normed(x: Any, weight: Any) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


def turned(x: Any, base: float = 10000.0) -> Any:
    """Rows of heads, the row's number being its position: pairs (i, i + half) as complex numbers."""
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None] / base ** (np.arange(half) / half)
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)[:, None]
    return np.concatenate([pairs.real, pairs.imag], -1)


def reference(tensors: dict[str, Any], tokens: list[int]) -> int:
    """The likeliest token behind some, all of them anew."""
    heads, shared, size = 8, 2, 32
    x = tensors["model.embed_tokens.weight"][tokens]
    for layer in range(SMALL["num_hidden_layers"]):
        own = {
            name.removeprefix(f"model.layers.{layer}."): value
            for name, value in tensors.items()
            if name.startswith(f"model.layers.{layer}.")
        }
        y = normed(x, own["input_layernorm.weight"])
        q, k, v = (
            (y @ own[f"self_attn.{part}_proj.weight"].T).reshape(len(tokens), -1, size) for part in "qkv"
        )
        q, k = (
            turned(normed(part, own[f"self_attn.{name}_norm.weight"])) for part, name in ((q, "q"), (k, "k"))
        )
        rows = []
        for head in range(heads):
            scores = q[:, head] @ k[:, head * shared // heads].T / np.sqrt(size)
            scores[np.triu_indices(len(tokens), 1)] = -np.inf
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            rows.append(shares / shares.sum(-1, keepdims=True) @ v[:, head * shared // heads])
        x = x + np.concatenate(rows, -1) @ own["self_attn.o_proj.weight"].T
        y = normed(x, own["post_attention_layernorm.weight"])
        gate, up = (y @ own[f"mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ own["mlp.down_proj.weight"].T
    logits = normed(x[-1], tensors["model.norm.weight"]) @ tensors["lm_head.weight"].T
    return int(logits.argmax())


def tensors_of_qwen3(seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)

    def drawn(*shape: int) -> Any:
        noise = random.standard_normal(shape)
        return (1 + 0.1 * noise if len(shape) == 1 else noise * shape[-1] ** -0.5).astype(np.float32)

    found = {"model.embed_tokens.weight": drawn(1000, 256), "lm_head.weight": drawn(1000, 256)}
    found["model.norm.weight"] = drawn(256)
    for layer in range(SMALL["num_hidden_layers"]):
        parts = {"self_attn.q_proj": (256, 256), "self_attn.k_proj": (64, 256), "self_attn.v_proj": (64, 256)}
        parts |= {"self_attn.o_proj": (256, 256), "self_attn.q_norm": (32,), "self_attn.k_norm": (32,)}
        parts |= {"mlp.gate_proj": (512, 256), "mlp.up_proj": (512, 256), "mlp.down_proj": (256, 512)}
        parts |= {"input_layernorm": (256,), "post_attention_layernorm": (256,)}
        found |= {f"model.layers.{layer}.{name}.weight": drawn(*shape) for name, shape in parts.items()}
    return found


def qwen3(**options: Any) -> Any:
    return asim.llm.model({**SMALL, "model_type": "qwen3", "head_dim": 32}, "fp16", **options)


def test_tokens_are_those_of_the_formula() -> None:
    tensors = tensors_of_qwen3()
    tokens = list(PROMPT)
    for _ in range(3):
        tokens.append(reference(tensors, tokens))
    assert qwen3(weights=tensors).generate(CHIP, PROMPT, 3) == tokens[len(PROMPT) :]


def test_random_weights_follow_their_seed() -> None:
    one, again, other = (qwen3(weights="random", seed=seed).generate(CHIP, PROMPT, 1) for seed in (1, 1, 2))
    assert one == again != other


def test_weights_in_few_bits_are_near() -> None:
    matrix = np.random.default_rng(0).standard_normal((6, 256)).astype(np.float32)
    values, scale = int8_of(matrix)
    assert np.abs(values * scale[:, None] - matrix).max() <= 0.51 * scale.max()
    packed, steps = int4_of(matrix, 128)
    assert (packed.shape, packed.dtype, steps.shape) == ((6, 32), np.int32, (6, 2))
    for place in range(8):  # the first of eight has the lowest bits
        nibble = (packed.view(np.uint32) >> (4 * place)) & 15
        signed = np.where(nibble > 7, nibble.astype(np.int64) - 16, nibble)
        whole = np.repeat(steps, 128, axis=1)[:, place::8]
        assert np.abs(signed * whole - matrix[:, place::8]).max() <= 0.51 * steps.max()


def logits(dtype: str) -> Any:
    """Of the prompt's last token, with weights of 512 rows: two groups of a column and more."""
    model = asim.llm.model({**SMALL, "num_hidden_layers": 1}, dtype, weights="random")
    compiled = model.compiled("Ascend910B3", 1, len(PROMPT), len(PROMPT))
    places = np.arange(len(PROMPT))
    pools = {one.name: np.zeros(one.static_shape, one.element_type.numpy) for one in compiled.source.inputs}
    given = {**pools, "input_ids": np.array(PROMPT), "slots": places, "positions": places}
    return asim.run(compiled, given).outputs["logits"].astype(np.float64).reshape(-1)


@pytest.mark.slow
def test_few_bits_change_little() -> None:
    whole, int8, int4 = (logits(dtype) for dtype in ("bf16", "w8a8", "w4a16"))
    assert np.corrcoef(whole, int8)[0, 1] > 0.995
    assert 0.9 < np.corrcoef(whole, int4)[0, 1] < np.corrcoef(whole, int8)[0, 1]


def saved(path: Path, tensors: dict[str, Any]) -> Path:
    header, offset = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": "F32", "shape": value.shape, "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(v.tobytes() for v in tensors.values()))
    return path


def test_a_file_of_weights(tmp_path: Path) -> None:
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(4, np.float32)}
    found = checkpoint(saved(tmp_path / "model.safetensors", tensors))
    assert {name: read().tolist() for name, read in found.items()} == {
        k: v.tolist() for k, v in tensors.items()
    }
    assert checkpoint(tmp_path).keys() == tensors.keys()


def test_files_of_weights_that_are_malformed(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for content, message in (
        (b"", "header has a wrong length"),
        ((1 << 40).to_bytes(8, "little") + b"{}", "header has a wrong length"),
        ((2).to_bytes(8, "little") + b"{x", "is no safetensors file"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            checkpoint(path)
    header = json.dumps({"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"1234")
    with pytest.raises(InputError, match="tensor 'a' does not fit its offsets"):
        checkpoint(path)


def test_what_has_no_values() -> None:
    with pytest.raises(InputError, match="has no weights"):
        qwen3().generate(CHIP, PROMPT)
    with pytest.raises(InputError, match="cards must be 1 for values"):
        qwen3(cards=2, weights="random").generate(CHIP, PROMPT)
    scaled = {**SMALL, "rope_scaling": {"rope_type": "proportional", "factor": 8.0}}
    with pytest.raises(InputError, match=r"has scaled angles \(proportional\), .* known are linear, llama3"):
        asim.llm.model(scaled, "fp16", weights="random").generate(CHIP, PROMPT)
    with pytest.raises(InputError, match="tokens below 1000"):
        qwen3(weights="random").generate(CHIP, [1000])
    with pytest.raises(AscendSimError, match="is not in the checkpoint"):
        qwen3(weights={"model.embed_tokens.weight": np.zeros((1000, 256))}).generate(CHIP, PROMPT, 1)
    with pytest.raises(InputError, match="names of their own"):
        asim.llm.model("longcat-flash-lite", weights={})


def test_memory_counts_weights_whether_they_have_values_or_not() -> None:
    assert qwen3(weights="random").memory(CHIP).weights == qwen3().memory(CHIP).weights > 0


def test_values_that_this_machine_has_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = qwen3(weights="random")
    monkeypatch.setattr(host_memory, "free_bytes", lambda: model.memory(CHIP).weights - 1)
    with pytest.raises(InputError, match=r"values of qwen3 need .* GiB"):
        model.generate(CHIP, PROMPT, 1)
