"""Trains a small network on handwritten digits and writes tests/data/digits/digits.onnx, with which the tests and
the notebook of quantisation measure accuracy.

    python scripts/make_digits.py

Two convolutions and two layers behind them, trained in float32 by this project's own training step. The first
1297 images are for training, the other 500, of other writers, for testing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import ascendsim as asim
from ascendsim.frontends.onnx.export import export_onnx
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset
from ascendsim.runtime.plain import evaluate_plain

FOLDER = Path(__file__).resolve().parents[1] / "tests" / "data" / "digits"
TRAINING, BATCH, EPOCHS, SEED = 1297, 50, 30, 1


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images of [1, 8, 8] from 0 to 1, and which digits they are."""
    with np.load(FOLDER / "digits.npz") as archive:
        return archive["images"].astype(np.float32)[:, None] / 16, archive["labels"].astype(np.int32)


def network(batch: int, weights: dict[str, np.ndarray]) -> Graph:
    """The network with given weights."""
    b = asim.GraphBuilder("digits")
    x = b.input("image", (batch, 1, 8, 8))
    held = {name: b.constant(array, name) for name, array in weights.items()}
    y = b.op("Conv", x, held["conv1.weight"], held["conv1.bias"], pads=[1, 1, 1, 1], name="conv1")
    y = b.op("Relu", y, name="relu1")
    y = b.op(
        "Conv", y, held["conv2.weight"], held["conv2.bias"], pads=[1, 1, 1, 1], strides=[2, 2], name="conv2"
    )
    y = b.op("Flatten", b.op("Relu", y, name="relu2"), name="flatten")
    y = b.op(
        "Relu", b.op("Gemm", y, held["fc1.weight"], held["fc1.bias"], transB=1, name="fc1"), name="relu3"
    )
    b.output(b.op("Gemm", y, held["fc2.weight"], held["fc2.bias"], transB=1, name="fc2"), "scores")
    return b.build()


def fresh() -> dict[str, np.ndarray]:
    """Weights before training (He)."""
    random = np.random.default_rng(SEED)
    weights = {}
    for name, shape in (
        ("conv1", (16, 1, 3, 3)),
        ("conv2", (32, 16, 3, 3)),
        ("fc1", (32, 512)),
        ("fc2", (10, 32)),
    ):
        spread = np.sqrt(2 / np.prod(shape[1:]))
        weights[f"{name}.weight"] = (spread * random.standard_normal(shape)).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    return weights


def trained() -> dict[str, np.ndarray]:
    """Weights after training."""
    images, labels = (array[:TRAINING] for array in digits())
    step = asim.training_step(
        network(BATCH, fresh()), loss="cross_entropy", optimizer="adam", parameters=["*.weight", "*.bias"]
    )
    held, opset, random = step.initial(), default_opset(), np.random.default_rng(SEED)
    for epoch in range(EPOCHS):
        losses, order = [], random.permutation(TRAINING)
        for at in range(0, TRAINING - BATCH + 1, BATCH):
            chosen = order[at : at + BATCH]
            rate = np.float32(2e-3 * (1 - epoch / EPOCHS))
            feed = {**held, "image": images[chosen], "labels": labels[chosen], "learning_rate": rate}
            outputs = evaluate_plain(step.graph, opset, feed)
            held |= step.carried(outputs)
            losses.append(float(outputs["loss"]))
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")
    return {name: held[name] for name in step.parameters}


def main() -> None:
    """Trains, tests and writes."""
    weights = trained()
    images, labels = (array[TRAINING:] for array in digits())
    scores = evaluate_plain(network(len(images), weights), default_opset(), {"image": images})["scores"]
    print(f"{100 * np.mean(scores.argmax(axis=1) == labels):.1f} % of {len(images)} images right")
    (FOLDER / "digits.onnx").write_bytes(export_onnx(network(1, weights)))


if __name__ == "__main__":
    main()
