"""Captures training steps of MindSpore's model zoo from PyTorch (`ascendsim.validate.captured_steps`).

    python scripts/make_captured_steps.py

Needs torch. `tests/unit/test_captured_steps.py` looks whether the files are what it would write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from ascendsim.core.files import write_whole
from ascendsim.graph.ir import Graph
from ascendsim.validate.captured_steps import pack_step
from ascendsim.validate.step_loops import drop_gradients
from tests.support.bert_zoo import bert_step
from tests.support.predicted_steps import BERT_BASE
from tests.support.vit_base_zoo import vit_base_step

TARGET = Path(__file__).resolve().parents[1] / "tests" / "data" / "models" / "published"


def bert() -> Graph:
    """BERT-base with both heads, 256 sequences of 128 words."""
    step = bert_step(replace(BERT_BASE, length=128, batch=256))
    drop_gradients(step.graph)
    return step.graph


def vit() -> Graph:
    """ViT-B/16 with ten classes, 32 images."""
    step = vit_base_step()
    drop_gradients(step.graph)
    return step.graph


STEPS: dict[str, Callable[[], Graph]] = {
    "bert_base_s128_step.txt.gz": bert,
    "vit_b_16_step.txt.gz": vit,
}

if __name__ == "__main__":
    for name, captured in STEPS.items():
        print(f"wrote {write_whole(TARGET / name, pack_step(captured()))}")
