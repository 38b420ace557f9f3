"""Random composite files of the kinds that graph-kernel fusion makes: what a seed draws is the same
everywhere.

Each family is what one sees in real files: a bias added and axes exchanged, gradients of layer norm and batch
norm with sums in the middle and several results, softmax, optimiser steps, elementwise chains with broadcasts
and sums along any axes, and independent chains side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Shape = tuple[int, ...]
Record = dict[str, Any]

TWO = ("Add", "Sub", "Mul", "Maximum", "Minimum", "RealDiv")
ONE = ("Abs", "Neg", "Exp", "Sqrt", "Tanh", "Reciprocal")


class CompositeWriter:
    """Writes a composite file operator by operator; tensors are their records."""

    def __init__(self) -> None:
        self.inputs: list[Record] = []
        self.operators: list[Record] = []
        self.outputs: list[Record] = []

    def input(self, shape: Sequence[int], dtype: str = "float32") -> Record:
        """A new input."""
        self.inputs.append(_tensor(f"input_{len(self.inputs)}", shape, dtype))
        return self.inputs[-1]

    def op(self, name: str, *operands: Record | float, **options: Any) -> Record:
        """An operator with broadcasting; its result.

        Args:
            name: AKG's name.
            operands: Tensors, or numbers in the type of the first tensor.
            options: `shape` and `dtype` of the result where they are not those of the operands, and
                attributes.
        """
        first = next(item for item in operands if isinstance(item, dict))
        shapes = [tuple(item["shape"]) for item in operands if isinstance(item, dict)]
        shape, dtype = (
            options.pop("shape", None) or broadcast(shapes),
            options.pop("dtype", first["data_type"]),
        )
        given = [
            item
            if isinstance(item, dict)
            else {**_tensor(f"const_{item}", (1,), first["data_type"]), "value": item}
            for item in operands
        ]
        result = _tensor(f"output_{len(self.operators)}", shape, dtype)
        self.operators.append(
            {
                "name": name,
                "attr": [{"name": key, "value": value} for key, value in options.items()] or None,
                "input_desc": [[{**item, "name": f"x{place}"}] for place, item in enumerate(given)],
                "output_desc": [result],
            }
        )
        return result

    def cast(self, x: Record, dtype: str) -> Record:
        """Another type."""
        return self.op("Cast", x, dtype=dtype, dst_type=dtype)

    def reshape(self, x: Record, shape: Sequence[int]) -> Record:
        """Another shape."""
        return self.op("Reshape", x, shape=tuple(shape))

    def reduce(self, name: str, x: Record, axes: Sequence[int], keep: bool = True) -> Record:
        """A reduction."""
        size = x["shape"]
        shape = [1 if axis in axes else dim for axis, dim in enumerate(size) if keep or axis not in axes]
        return self.op(name, x, shape=tuple(shape or (1,)), axis=list(axes), keep_dims=keep)

    def transpose(self, x: Record, perm: Sequence[int]) -> Record:
        """Axes in another order."""
        return self.op("Transpose", x, shape=tuple(x["shape"][axis] for axis in perm), perm=list(perm))

    def output(self, *tensors: Record) -> None:
        """Marks results of the file."""
        self.outputs += [
            tensor for tensor in tensors if tensor not in self.outputs and tensor not in self.inputs
        ]

    def file(self, name: str = "") -> Record:
        """The file."""
        label = name or "_".join(["Fused", *(op["name"] for op in self.operators)])
        read = {item["tensor_name"] for op in self.operators for group in op["input_desc"] for item in group}
        return {
            "op": label,
            "composite": True,
            "composite_graph": "1.1",
            "id": 1,
            "platform": "AKG",
            "process": "aicore",
            "input_desc": [[tensor] for tensor in self.inputs if tensor["tensor_name"] in read],
            "output_desc": self.outputs,
            "op_desc": self.operators,
        }


def _tensor(name: str, shape: Sequence[int], dtype: str) -> Record:
    return {"tensor_name": name, "shape": list(shape), "data_type": dtype, "format": "DefaultFormat"}


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The shape that several broadcast to."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(max(dims) for dims in zip(*padded, strict=True))


# --- families -----------------------------------------------------------------------------------------------


def bias_and_transpose(w: CompositeWriter, r: Random, scale: int) -> None:
    """Cast + BiasAdd + Transpose: heads of attention, [N, C] to [C, N], channels first and last."""
    kind = r.randrange(4)
    if kind == 0:
        batch, heads = r.choice([1, 2, 8, 16]), r.choice([4, 12, 16])
        length, depth = r.choice([16, 64, 128, 384]), r.choice([32, 64])
        shape, perm = (batch, length, heads, depth), r.choice([(0, 2, 1, 3), (0, 2, 3, 1), (0, 1, 3, 2)])
    elif kind == 1:
        shape, perm = (r.choice([100, 128, 1000, 4096]), r.choice([16, 81, 512, 1024])), (1, 0)
    elif kind == 2:
        shape, perm = (
            (r.choice([1, 8, 32]), r.choice([24, 84, 256]), r.choice([10, 19, 38]), r.choice([10, 19, 38])),
            (0, 2, 3, 1),
        )
    else:
        shape, perm = (
            (r.choice([1, 8, 32]), r.choice([7, 19, 56]), r.choice([7, 19, 56]), r.choice([24, 64, 324])),
            (0, 3, 1, 2),
        )
    shape = smaller(shape, scale)
    x = w.input(shape, r.choice(["float16", "float32"]))
    if r.random() < 0.7:
        x = w.cast(x, "float32" if x["data_type"] == "float16" else "float16")
    if r.random() < 0.8:
        channels = (1, shape[1], 1, 1) if kind == 2 else (shape[-1],)
        x = w.op("Add", x, w.input(channels, x["data_type"]))
    x = w.transpose(x, perm)
    if r.random() < 0.3:
        x = w.op("Mul", x, 0.125)
    if r.random() < 0.3:
        x = w.reshape(x, (math.prod(x["shape"]),))
    w.output(x)


def norm_gradient(w: CompositeWriter, r: Random, scale: int) -> None:
    """Layer norm's and batch norm's gradient: sums in the middle, their results used on all elements, several
    outputs."""
    rank = r.choice([2, 2, 3, 4])
    shape = smaller(
        tuple(r.choice([1, 2, 8, 16, 24, 64, 128, 512, 768, 1000, 1024, 4096]) for _ in range(rank)), scale
    )
    axes = r.choice([(rank - 1,), (rank - 1,), (0,), tuple(range(1, rank)), tuple(range(rank - 1))])
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    low = r.random() < 0.3
    x, dy = (w.input(shape, "float16" if low else "float32") for _ in range(2))
    if low:
        x, dy = w.cast(x, "float32"), w.cast(dy, "float32")
    count = math.prod(shape) // max(1, math.prod(kept))
    gamma = w.input(r.choice([kept, shape[-1:]]))
    scaled = w.op("Mul", dy, gamma)
    total = w.op("Mul", w.reduce("ReduceSum", w.op("Mul", scaled, x), axes), -1.0 / count)
    variance, mean = w.input(kept), w.input(kept)
    deviation = w.op(r.choice(["Sqrt", "Rsqrt"]), w.op("Add", variance, 1e-5))
    centred = w.op("Sub", x, mean)
    inverse = w.op("RealDiv", centred, deviation) if r.random() < 0.5 else w.op("Mul", centred, deviation)
    result = w.op("Add", w.op("Mul", inverse, total), w.op("RealDiv", scaled, deviation))
    if r.random() < 0.5:
        second = w.op("Mul", w.reduce("ReduceSum", r.choice([scaled, inverse]), axes), 1.0 / count)
        result = w.op("Sub", result, second)
    w.output(w.cast(result, "float16") if low else result)
    if r.random() < 0.5:
        w.output(inverse)
    if r.random() < 0.3:
        w.output(total)
    if r.random() < 0.3:
        w.output(
            w.reduce(
                "ReduceSum",
                w.op("Mul", dy, inverse),
                tuple(axis for axis in range(rank) if axis not in axes) or (0,),
            )
        )


def reshape_and_add(w: CompositeWriter, r: Random, scale: int) -> None:
    """Reshape + Add: a bias or a residual under another shape, split off from a larger cluster."""
    shape = smaller(
        tuple(
            r.choice([1, 2, 8, 12, 16, 30, 64, 100, 128, 197, 512, 768, 1024])
            for _ in range(r.choice([2, 3, 4]))
        ),
        scale,
    )
    dtype = r.choice(["float16", "float32"])
    x = w.input(r.choice([shape, (math.prod(shape),), (math.prod(shape[:-1]), shape[-1])]), dtype)
    other = r.choice(
        [shape, shape[-1:], (1, *shape[1:]), (*shape[:-1], 1), (shape[0], *(1,) * (len(shape) - 1))]
    )
    y = w.input(r.choice([other, (math.prod(other),)]), dtype)
    x, y = w.reshape(x, shape), w.reshape(y, other)
    total = w.op("Add", x, y)
    w.output(total if r.random() < 0.5 else w.reshape(total, (math.prod(shape[:-1]), shape[-1])))


def softmax(w: CompositeWriter, r: Random, scale: int) -> None:
    """Softmax and its logarithm with scale and mask."""
    columns = min(scale, r.choice([10, 100, 128, 512, 1001, 4096, 30522]))
    rows = smaller(
        tuple(r.choice([1, 4, 12, 32, 128, 384, 1000]) for _ in range(r.choice([1, 2, 3]))),
        max(1, scale // columns),
    )
    shape = (*rows, columns)
    axis = len(shape) - 1 if r.random() < 0.8 else r.randrange(len(shape))
    x = w.input(shape, r.choice(["float16", "float32"]))
    if r.random() < 0.5:
        x = w.op("Mul", x, 0.125)
    if r.random() < 0.5:
        x = w.op("Add", x, w.input((shape[0], *(1,) * (len(shape) - 2), shape[-1]), x["data_type"]))
    if x["data_type"] == "float16" and r.random() < 0.7:
        x = w.cast(x, "float32")
    centred = w.op("Sub", x, w.reduce("ReduceMax", x, (axis,)))
    powers = w.op("Exp", centred)
    total = w.reduce("ReduceSum", powers, (axis,))
    w.output(w.op("RealDiv", powers, total) if r.random() < 0.6 else w.op("Sub", centred, w.op("Log", total)))
    if r.random() < 0.2:
        w.output(powers)


def optimiser_step(w: CompositeWriter, r: Random, scale: int) -> None:
    """Moments and weights of one or several parameters, side by side."""
    for _ in range(r.choice([1, 1, 3, 7])):
        shape = smaller(
            tuple(r.choice([1, 16, 81, 1000, 1024, 4096]) for _ in range(r.choice([1, 2]))), scale
        )
        weight, moment, gradient, rate = w.input(shape), w.input(shape), w.input(shape), w.input((1,))
        moved = w.op("Add", w.op("Mul", moment, 0.9), w.op("Mul", gradient, 0.1))
        square = w.op("Add", w.op("Mul", w.op("Mul", gradient, gradient), 0.01), 1e-6)
        step = w.op("RealDiv", moved, w.op("Add", w.op("Sqrt", square), 1e-6))
        w.output(w.op("Sub", weight, w.op("Mul", step, rate)), moved)


def any_chain(w: CompositeWriter, r: Random, scale: int) -> None:
    """Elementwise operators, broadcasts, sums along any axes and exchanges of axes in any order, with several
    outputs."""
    rank = r.choice([1, 2, 2, 3, 4])
    shape = smaller(
        tuple(r.choice([1, 2, 3, 7, 16, 24, 64, 100, 128, 333, 512, 1024, 4096]) for _ in range(rank)), scale
    )
    dtype = r.choice(["float16", "float32", "float32"])

    def part(keep: float) -> Shape:
        return tuple(dim if r.random() < keep else 1 for dim in shape)

    full = [w.input(shape, dtype)]
    pool = [*full, w.input(part(0.5), dtype)]
    for _ in range(r.randrange(2, 14)):
        kind = r.random()
        if kind < 0.15:
            x = w.reduce(r.choice(["ReduceSum", "ReduceMax"]), r.choice(full), r.choice(axis_sets(rank)))
        elif kind < 0.3:
            x = w.op(r.choice(ONE), r.choice(pool))
        elif kind < 0.4:
            x = w.op(r.choice(TWO), r.choice(pool), w.input(part(0.7), dtype))
        elif kind < 0.5:
            x = w.op(r.choice(TWO), r.choice(pool), r.choice([0.5, 2.0, 3.0]))
        else:
            x = w.op(r.choice(TWO), r.choice([*pool[-2:], *full]), r.choice(pool))
        pool.append(x)
        if tuple(x["shape"]) == shape:
            full.append(x)
    last = pool[-1]
    if rank > 1 and r.random() < 0.15:
        last = w.transpose(last, r.sample(range(rank), rank))
    w.output(last, r.choice(pool), *(tensor for tensor in pool if not is_read(w, tensor)))


FAMILIES: dict[str, Callable[[CompositeWriter, Random, int], None]] = {
    "bias_and_transpose": bias_and_transpose,
    "norm_gradient": norm_gradient,
    "reshape_and_add": reshape_and_add,
    "softmax": softmax,
    "optimiser_step": optimiser_step,
    "any_chain": any_chain,
}


def random_composite(family: str, seed: int, scale: int = 1 << 22) -> Record:
    """A file.

    Args:
        family: One of `FAMILIES`.
        seed: What is drawn.
        scale: Most elements of a tensor.
    """
    writer = CompositeWriter()
    FAMILIES[family](writer, Random(f"{family} {seed}"), scale)
    return writer.file(f"{family}_{seed}")


# --- helpers ------------------------------------------------------------------------------------------------


def smaller(shape: Shape, most: int) -> Shape:
    """The shape with its largest dimensions halved until it has `most` elements."""
    dims = list(shape)
    while math.prod(dims) > most:
        place = dims.index(max(dims))
        dims[place] = max(1, dims[place] // 2)
    return tuple(dims)


def axis_sets(rank: int) -> list[tuple[int, ...]]:
    """Sets of axes that reductions fold."""
    return [
        (rank - 1,),
        (0,),
        tuple(range(rank)),
        tuple(range(1, rank)) or (0,),
        tuple(range(max(1, rank - 1))),
    ]


def is_read(w: CompositeWriter, tensor: Record) -> bool:
    """Whether an operator reads a tensor."""
    return any(
        item["tensor_name"] == tensor["tensor_name"]
        for op in w.operators
        for group in op["input_desc"]
        for item in group
    )
