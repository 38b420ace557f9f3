"""Damaged model files: whatever the damage, loading gives a graph or one of our errors, in one line."""

from __future__ import annotations

import random

import pytest

from ascendsim.core.errors import AscendSimError
from ascendsim.frontends.onnx import load_onnx
from ascendsim.graph.verify import verify
from ascendsim.ops import default_opset
from tests.support.node_suite import all_cases


def damaged(data: bytes, generator: random.Random) -> bytes:
    """The bytes with some bits or bytes changed, cut off, or repeated."""
    content = bytearray(data)
    kind = generator.randrange(5)
    if kind == 0:
        return bytes(content[: generator.randrange(len(content))])
    if kind == 1:
        start = generator.randrange(len(content))
        return bytes(content[:start] + content[start : start + 40] * 3 + content[start:])
    for _ in range(generator.choice([1, 1, 2, 5, 20])):
        position = generator.randrange(len(content))
        content[position] = (
            generator.randrange(256) if kind == 2 else content[position] ^ (1 << generator.randrange(8))
        )
    return bytes(content)


def check(count: int, seed: int, models_dir) -> None:
    generator = random.Random(seed)
    files = [case.model.SerializeToString() for case in all_cases()]
    files += [
        (models_dir / f"{name}.onnx").read_bytes() for name in ("lenet5", "bert_tiny_s64_traced", "lstm_lm")
    ] * 20
    opset = default_opset()
    messages = []
    for _ in range(count):
        options = {"batch": generator.choice([1, 2, 4])} if generator.random() < 0.3 else {}
        try:
            verify(load_onnx(damaged(generator.choice(files), generator), opset=opset, **options), opset)
        except AscendSimError as error:
            messages.append(str(error))
    assert all(message.isprintable() for message in messages)
    assert len(messages) > count / 2


@pytest.mark.filterwarnings("ignore")
def test_damaged_files_are_refused_or_load(models_dir):
    check(2000, 1, models_dir)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_many_damaged_files_are_refused_or_load(models_dir):
    check(60_000, 2, models_dir)
