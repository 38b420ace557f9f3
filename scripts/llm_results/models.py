"""Whole models: steps, prompts and servers of the published rows, each in the unit of its row.

What a row does not say is assumed here: a 910B is a 910B3, the most frequent one, but on inference servers
(Atlas 800I A2, for which vLLM-Ascend's own examples are), a 910B4; a die of the 910C is an Ascend910_9391;
prompts of unknown length have 512 tokens. TPOT of a server is a step and what the server does
between two; of a step that is given as such, the device's time alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import ascendsim as asim
from ascendsim.llm.requests import Workload
from ascendsim.llm.server import OVERHEAD_US
from ascendsim.llm.times import StepTimes
from llm_results.operators import eager

A2, A3, B2, B4, P3 = "Ascend910B3", "Ascend910_9391", "Ascend910B2", "Ascend910B4", "Ascend310P3"
UNKNOWN = 512


@cache
def model(name: str, dtype: str = "bf16", cards: int = 1, apart: bool = False) -> Any:
    """A model, read once."""
    options = {"expert_parallel": True, "data_parallel": True} if apart else {}
    return asim.llm.model(name, dtype, cards, **options)


def step(
    name: str,
    chip: str,
    batch: int = 1,
    context: int = UNKNOWN,
    mode: str = "graph",
    overhead: float = 0.0,
    **how: Any,
) -> float:
    """Milliseconds of a decode step."""
    return (model(name, **how).duration_us(chip, batch, 1, context, mode) + overhead) / 1e3


def rate(name: str, chip: str, batch: int = 1, context: int = UNKNOWN, **how: Any) -> float:
    """Tokens a second of all sequences."""
    return 1e3 * batch / step(name, chip, batch, context, **how)


def prompt(name: str, chip: str, length: int, batch: int = 1, mode: str = "graph", **how: Any) -> float:
    """Milliseconds of a prefill."""
    return model(name, **how).duration_us(chip, batch, length, length, mode) / 1e3


def prompt_rate(name: str, chip: str, length: int, **how: Any) -> float:
    """Tokens of a prompt a second."""
    return 1e3 * length / prompt(name, chip, length, **how)


@cache
def times(name: str, chip: str, mode: str, how: tuple[tuple[str, Any], ...]) -> StepTimes:
    """Times of steps, which rows of one model share."""
    return StepTimes(model(name, **dict(how)), chip, mode, 0.0 if mode == "eager" else OVERHEAD_US)


def served(
    measure: str,
    name: str,
    requests: Workload,
    chip: str = A2,
    mode: str = "graph",
    concurrency: int | None = None,
    **how: Any,
) -> float:
    """A measure of a server."""
    known = times(name, chip, mode, tuple(sorted(how.items())))
    found = asim.llm.serve(
        known.model,
        requests,
        chip,
        mode=mode,
        concurrency=concurrency,
        overhead_us=known.overhead_us,
        times=known,
    )
    values = {
        "total": lambda: found.total_tokens_per_s,
        "output": lambda: found.output_tokens_per_s,
        "tpot": lambda: float(found.tpot_ms.mean()),
        "ttft": lambda: float(found.ttft_ms.mean()),
        "itl": lambda: found.inter_token_ms(50),
    }
    return values[measure]()


def burst(count: int, prompt: int, output: int) -> Workload:
    """Requests that all come at once."""
    return asim.llm.poisson(float("inf"), count, prompt, output)


Q8, Q32 = "qwen3-8b", "qwen3-32b"
G26, G31 = "gemma-4-26b-a4b", "gemma-4-31b"
EP8: dict[str, Any] = {"cards": 8, "apart": True}  # a sequence a card: batch 8 in all
LITE: dict[str, Any] = {"name": "longcat-flash-lite", "cards": 8}
CHAT = burst(100, 217, 202)
Row = Callable[[], float]

ROWS: dict[str, Row] = {
    "L001": partial(step, Q8, A3, context=640),
    "L002": partial(prompt, Q8, A3, UNKNOWN),
    "L003": partial(step, Q8, A3, context=640, cards=2),
    "L005": partial(step, Q8, A3, context=640, dtype="w8a8"),
    "L007": partial(step, Q8, A3, context=640, dtype="w8a8", cards=2),
    "L009": partial(step, G26, A3, context=272, **EP8),
    "L010": lambda: 8 / step(G26, A3, context=272, **EP8) * 1e3,
    "L011": partial(step, G26, A3, context=272, **EP8),
    "L012": lambda: 8 / step(G26, A3, context=272, **EP8) * 1e3,
    "L013": partial(step, G26, A2, context=272, **EP8),
    "L014": lambda: 8 / step(G26, A2, context=272, **EP8) * 1e3,
    "L015": partial(step, G26, A2, context=272, mode="eager", **EP8),
    "L016": lambda: 8 / step(G26, A2, context=272, mode="eager", **EP8) * 1e3,
    "L017": partial(prompt, G26, A2, 256, mode="eager", **EP8),
    "L018": partial(prompt, G26, A2, 256, **EP8),
    "L019": partial(prompt, G26, A3, 256, **EP8),
    "L020": partial(prompt, G26, A3, 256, **EP8),
    "L021": partial(step, chip=A2, context=1600, mode="eager", **LITE),
    "L022": partial(prompt, chip=A2, length=1024, mode="eager", **LITE),
    "L023": partial(step, chip=A2, context=1600, **LITE),
    "L024": partial(prompt, chip=A2, length=1024, **LITE),
    "L025": partial(step, chip=A3, context=1600, **LITE),
    "L026": partial(prompt, chip=A3, length=1024, **LITE),
    "L027": partial(step, chip=A3, context=4672, **LITE),
    "L028": partial(prompt, chip=A3, length=4096, **LITE),
    "L034": partial(served, "total", Q8, burst(1000, 128, 4)),
    "L035": partial(served, "total", Q8, burst(500, 2000, 100)),
    "L036": partial(served, "total", Q8, burst(500, 4000, 200)),
    "L037": partial(served, "total", Q8, burst(100, 32000, 100)),
    "L038": partial(served, "total", Q8, burst(1000, 128, 4), dtype="w8a8"),
    "L039": partial(served, "total", Q8, burst(500, 2000, 100), dtype="w8a8"),
    "L040": partial(served, "total", Q8, burst(500, 4000, 200), dtype="w8a8"),
    "L041": partial(served, "total", Q8, burst(100, 32000, 100), dtype="w8a8"),
    "L042": partial(served, "tpot", Q8, burst(100, 233, 221), concurrency=4),
    "L043": partial(served, "tpot", Q8, CHAT, concurrency=4, dtype="w8a8"),
    "L044": partial(served, "itl", Q8, CHAT, concurrency=4, dtype="w8a8"),
    "L045": partial(served, "ttft", Q8, CHAT, concurrency=4, dtype="w8a8"),
    "L046": partial(served, "output", Q8, burst(1000, 217, 201)),
    "L047": partial(served, "output", Q8, burst(1000, 217, 201)),
    "L048": partial(served, "tpot", Q8, burst(100, 137, 266), B4, concurrency=10),
    "L049": partial(served, "ttft", Q8, burst(100, 137, 266), B4, concurrency=10),
    "L050": partial(served, "output", Q8, burst(10, 128, 128), B4),
    "L052": partial(step, Q32, A2, 1, 1500, overhead=OVERHEAD_US, cards=4),
    "L053": partial(step, Q32, A2, 15, 1500, overhead=OVERHEAD_US, cards=4),
    "L054": partial(step, Q32, A2, 26, 1500, overhead=OVERHEAD_US, cards=4),
    "L055": partial(step, Q32, A2, 1, 852, overhead=OVERHEAD_US, cards=4),
    "L056": partial(step, Q32, A2, 26, 852, overhead=OVERHEAD_US, cards=4),
    "L057": partial(step, "hunyuan-a13b", A2, 8, 1706, mode="eager", cards=4),
    "L058": partial(served, "tpot", "qwen2.5-vl-7b", asim.llm.poisson(1, 200, 1024, 128)),
    "L059": partial(served, "tpot", "qwen2.5-vl-7b", asim.llm.poisson(4, 200, 1024, 128)),
    "L060": partial(served, "tpot", "qwen2.5-vl-7b", asim.llm.poisson(16, 200, 1024, 128)),
    "L061": partial(served, "tpot", "qwen3-30b-a3b", asim.llm.poisson(1, 200, 128, 128), cards=4),
    "L062": partial(served, "ttft", "qwen3-30b-a3b", asim.llm.poisson(1, 200, 128, 128), cards=4),
    "L064": partial(served, "output", "qwen2.5-0.5b", burst(200, 512, 256), mode="eager", concurrency=50),
    "L065": partial(step, Q32, A2, 1, 15360, overhead=OVERHEAD_US, cards=4),
    "L066": partial(step, "qwen3-30b-a3b", A2, 1, 15360, overhead=OVERHEAD_US, cards=4),
    "L067": partial(step, "qwen3-4b", A2, 1, 15360, overhead=OVERHEAD_US, cards=4),
    "L068": partial(step, G31, A3, 1, 4864, overhead=OVERHEAD_US, cards=4),
    "L069": partial(step, G26, A3, 1, 4864, overhead=OVERHEAD_US, cards=4),
    "L070": partial(step, G26, A3, 1, 4864, overhead=OVERHEAD_US, cards=4, dtype="w8a8"),
    "L071": partial(step, G31, A2, 1, 4864, overhead=OVERHEAD_US, cards=4),
    "L072": partial(step, G31, A2, 1, 4864, overhead=OVERHEAD_US, cards=4, dtype="w8a8"),
    "L073": partial(prompt, G31, A2, 4096, cards=4),
    "L074": partial(prompt, G31, A2, 4096, cards=4, dtype="w8a8"),
    "L076": partial(step, "qwen2.5-vl-3b", P3, 10, 864, overhead=OVERHEAD_US, dtype="fp16"),
    "L077": partial(step, "qwen2.5-0.5b", B4, 1, 73, dtype="fp16"),
    "L078": partial(prompt, "qwen2.5-0.5b", B4, 20, mode="eager", dtype="fp16"),
    "L079": partial(rate, "qwen2.5-0.5b", A2, 1, 128, mode="eager", dtype="fp16"),
    "L080": partial(rate, "qwen2.5-0.5b", A2, 1, 128, dtype="fp16"),
    "L081": partial(step, "qwen3-30b-a3b", B4, 1, 120, mode="eager", dtype="fp16", cards=2),
    "L082": partial(step, "qwen3-30b-a3b", B4, 1, 120, dtype="fp16", cards=2),
    "L083": partial(prompt_rate, "qwen2.5-0.5b", A2, 512, mode="eager", dtype="w4a16"),
    "L084": partial(rate, "qwen2.5-0.5b", A2, 1, 64, mode="eager", dtype="w4a16"),
    "L086": partial(rate, "llama-2-7b", A2, 1, UNKNOWN, mode="eager", dtype="w4a16"),
    "L088": partial(rate, "qwen2.5-7b", A2, 1, UNKNOWN, mode="eager", dtype="fp16"),
    "L089": partial(rate, "qwen2-0.5b", A2, 16, overhead=OVERHEAD_US),
    "L090": partial(rate, "qwen2-1.5b", A2, 16, overhead=OVERHEAD_US),
    "L091": partial(rate, "qwen2-7b", A2, 16, overhead=OVERHEAD_US),
    "L092": partial(rate, "qwen2-72b", A2, 16, overhead=OVERHEAD_US, cards=4),
    "L093": partial(rate, "internlm-7b", A2, overhead=OVERHEAD_US, dtype="fp16"),
    "L094": partial(rate, "internlm-20b", A2, overhead=OVERHEAD_US, dtype="fp16"),
    "L095": partial(rate, "baichuan2-7b", A2, overhead=OVERHEAD_US, dtype="fp16"),
    "L096": partial(rate, "baichuan2-13b", A2, overhead=OVERHEAD_US, dtype="fp16"),
    "L097": partial(rate, "chatglm2-6b", A2, overhead=OVERHEAD_US, dtype="fp16"),
    **{
        row: partial(rate, "skywork-13b", A2, 2, length, dtype="fp16")
        for row, length in zip(
            ("L098", "L099", "L100", "L101", "L102", "L103"), (1024, 512, 256, 128, 64, 32), strict=True
        )
    },
    "L194": eager(26),
    "L195": eager(52),
}
_LINKS = "collectives of 310P cards have no figures"
UNSAID = {
    "L029": _LINKS,
    "L030": _LINKS,
    "L031": _LINKS,
    "L063": "no kernel multiplies int4 by int4 here",
    "L085": "an encoder, not a decoder: asim.llm builds decoders",
    "L087": "three number formats in one model",
    "L196": "expert parallel over 320 dies, with attention and experts on different ones",
    "L197": "expert parallel over dies of several servers, with prompts of unknown length",
}
