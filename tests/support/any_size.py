"""Random convolutions, poolings, products and resizes of one layer, with sizes of up to a million along each
axis; weights have no values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import ascendsim
from ascendsim.graph.ir import Graph, Node
from ascendsim.ops import default_opset
from ascendsim.opset import InferContext

MOST = 10**6  # along an axis
MOST_ELEMENTS = 1 << 27  # of a tensor


@dataclass(frozen=True)
class Layer:
    """A network of one layer, and what it is."""

    text: str
    graph: Graph


def infer(node: Node) -> None:
    default_opset().get(node).infer(InferContext(node))


def size(random: Random, most: int) -> int:
    """A size of any magnitude."""
    return round(math.exp(random.uniform(0, math.log(max(1, most)))))


def map_sizes(random: Random) -> list[int]:
    """Sizes of a map of one to three axes, one of them of any size."""
    while True:
        sizes = [size(random, 30) for _ in range(random.choice((1, 2, 2, 3)))]
        sizes[random.randrange(len(sizes))] = size(random, MOST)
        if math.prod(sizes) <= MOST_ELEMENTS:
            return sizes


def windows(random: Random, sizes: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Kernels, strides and dilations over a map; now and then one is as large as the map."""
    kernels = [size(random, min(9, one)) for one in sizes]
    strides, dilations = [size(random, 4) for _ in sizes], [1] * len(sizes)
    axis = random.randrange(len(sizes))
    if random.random() < 0.4:
        kernels[axis] = size(random, sizes[axis])
    if random.random() < 0.3:
        strides[axis] = size(random, sizes[axis])
    axis = random.randrange(len(sizes))
    if random.random() < 0.3 and kernels[axis] > 1:
        dilations[axis] = size(random, (sizes[axis] - 1) // (kernels[axis] - 1))
    return kernels, strides, dilations


def channels(random: Random) -> int:
    return size(random, MOST if random.random() < 0.2 else 600)


def convolution(random: Random) -> Layer | None:
    """Of one group, of several, or depthwise; or a transposed one."""
    kind = random.choice(("Conv", "Conv", "Conv", "ConvTranspose"))
    sizes = map_sizes(random)
    kernels, strides, dilations = windows(random, sizes)
    groups = random.choice((1, 1, size(random, 64), size(random, 3000)))
    inner, outer = (channels(random) if groups == 1 else size(random, 12) for _ in range(2))
    if kind == "ConvTranspose":
        strides = [min(stride, 8) for stride in strides]
        spans = [
            stride * one + dilation * kernel
            for stride, one, dilation, kernel in zip(strides, sizes, dilations, kernels, strict=True)
        ]
    else:
        spans = [one // stride + 1 for one, stride in zip(sizes, strides, strict=True)]
    batch = random.choice((1, 1, 2, 7))
    weight = (
        (groups * inner, outer, *kernels) if kind == "ConvTranspose" else (groups * outer, inner, *kernels)
    )
    image = (batch, groups * inner, *sizes)
    made = batch * groups * outer * math.prod(spans)
    if max(math.prod(weight), math.prod(image), made) > MOST_ELEMENTS:
        return None
    b = ascendsim.GraphBuilder("any", infer=infer)
    operands = [b.input("x", image), b.weight("w", weight)]
    if random.random() < 0.5:
        operands.append(b.weight("bias", (groups * outer,)))
    b.output(b.op(kind, *operands, strides=strides, dilations=dilations, group=groups))
    return Layer(
        f"{kind} {image} * {weight}, strides {strides}, dilations {dilations}, {groups} groups", b.build()
    )


def pooling(random: Random) -> Layer | None:
    kind = random.choice(("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"))
    sizes = map_sizes(random)
    kernels, strides, _ = windows(random, sizes)
    image = (random.choice((1, 2)), channels(random), *sizes)
    if math.prod(image) > MOST_ELEMENTS:
        return None
    b = ascendsim.GraphBuilder("any", infer=infer)
    attributes = {} if kind.startswith("Global") else {"kernel_shape": kernels, "strides": strides}
    b.output(b.op(kind, b.input("x", image), **attributes))
    return Layer(f"{kind} {image}, {attributes}", b.build())


def product(random: Random) -> Layer | None:
    m, k, n = (size(random, MOST) for _ in "mkn")
    batch = random.choice(((), (), (size(random, MOST),)))
    if math.prod(batch) * max(m * k, k * n, m * n) > MOST_ELEMENTS:
        return None
    b = ascendsim.GraphBuilder("any", infer=infer)
    make = random.choice((b.input, b.weight))
    a, w = b.input("a", (*batch, m, k)), make("w", (*batch, k, n))
    if batch or random.random() < 0.5:
        b.output(b.op("MatMul", a, w))
    else:
        b.output(b.op("Gemm", a, w, b.weight("bias", (n,))))
    return Layer(f"product {batch} {m} x {k} x {n}, {make.__name__}", b.build())


def resize(random: Random) -> Layer | None:
    mode = random.choice(("nearest", "linear", "cubic"))
    sizes, made = map_sizes(random), map_sizes(random)
    if len(sizes) != 2:
        return None
    factor = random.choice((0, 0.5, 2, 3))
    made = [max(1, int(one * factor)) for one in sizes] if factor else (*made, 1)[:2]  # type: ignore[assignment]
    depth = size(random, 600)
    if max(math.prod(sizes), math.prod(made)) * depth > MOST_ELEMENTS:
        return None
    b = ascendsim.GraphBuilder("any", infer=infer)
    x = b.input("x", (1, depth, *sizes))
    b.output(b.op("Resize", x, None, None, b.constant([1, depth, *made]), mode=mode))
    return Layer(f"Resize {mode} {depth} {sizes} to {made}", b.build())


KINDS: dict[str, Callable[[Random], Layer | None]] = {
    "convolution": convolution,
    "pooling": pooling,
    "product": product,
    "resize": resize,
}


def layers(kind: str, count: int) -> list[Layer]:
    """Random layers of a kind, always the same."""
    random, found = Random(kind), list[Layer]()
    while len(found) < count:
        layer = KINDS[kind](random)
        if layer is not None:
            found.append(layer)
    return found
