#!/usr/bin/env python3
"""Looks for operators that are far slower than their chip needs, or than its AI CPU.

    python scripts/scan_operators.py --chips Ascend310,Ascend910B1 --operators DepthToSpace --sizes 1e5,1e7

Each operator is timed at several sizes on several chips and compared with a bound: the launch, all inputs and
outputs once through DRAM. Printed are those beyond --times the bound, and kernels that lose to the AI
CPU; docs/how_time_is_modelled.md says why the ones that it finds are slow.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import ascendsim as asim
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from ascendsim.graph.ir import Graph, Tensor

CHIPS = "Ascend310,Ascend310P3,Ascend910A,Ascend910B1"
SIZES = "1e5,1e6,1.6e7"
Build = Callable[[asim.GraphBuilder, int], Tensor]
HALF, LONG = DType.FLOAT16, DType.INT64


def _square(b: asim.GraphBuilder, size: int, dtype: DType = HALF) -> Tensor:
    side = max(16, math.isqrt(size) // 16 * 16)
    return b.input("x", (side, side), dtype)


def _image(b: asim.GraphBuilder, size: int, channels: int = 16) -> Tensor:
    side = max(4, math.isqrt(size // channels) // 4 * 4)
    return b.input("x", (1, channels, side, side), HALF)


def _beside(b: asim.GraphBuilder, x: Tensor, dtype: DType, name: str = "i") -> Tensor:
    return b.input(name, x.static_shape, dtype)


def _first(found: Tensor | list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    return found if isinstance(found, Tensor) else found[0]


def _plain(op: str, **attributes: object) -> Build:
    return lambda b, size: b.op(op, _square(b, size), **attributes)


def _pair(op: str, dtype: DType = HALF) -> Build:
    def build(b: asim.GraphBuilder, size: int) -> Tensor:
        x = _square(b, size, dtype)
        return b.op(op, x, _beside(b, x, dtype))

    return build


def _folded(op: str, axis: int) -> Build:
    return lambda b, size: b.op(op, _square(b, size), np.array([axis]), keepdims=0)


def _channels_last(b: asim.GraphBuilder, size: int) -> Tensor:
    return b.op("Transpose", _image(b, size, 3), perm=[0, 2, 3, 1])


def _tall(b: asim.GraphBuilder, size: int) -> Tensor:
    return b.op("ReduceSum", b.input("x", (size // 64, 64), HALF), np.array([0]), keepdims=0)


def _top(axis: int) -> Build:
    def build(b: asim.GraphBuilder, size: int) -> Tensor:
        return b.ops("TopK", _square(b, size), np.array([100]), axis=axis, outputs=2)[0]

    return build


def _gathered(axis: int) -> Build:
    def build(b: asim.GraphBuilder, size: int) -> Tensor:
        x = _square(b, size)
        return b.op("Gather", x, b.input("i", x.static_shape[:1], LONG), axis=axis)

    return build


def _elements(axis: int) -> Build:
    def build(b: asim.GraphBuilder, size: int) -> Tensor:
        x = _square(b, size)
        return b.op("GatherElements", x, _beside(b, x, LONG), axis=axis)

    return build


def _focus(b: asim.GraphBuilder, size: int) -> Tensor:
    return b.op("Slice", _square(b, size), np.array([0]), np.array([2**31]), np.array([-1]), np.array([2]))


def _regions(b: asim.GraphBuilder, size: int) -> Tensor:
    boxes = max(1, size // 32768)
    rois, images = b.input("r", (boxes, 4), HALF), b.input("n", (boxes,), LONG)
    sizes = {"output_height": 7, "output_width": 7, "sampling_ratio": 2}
    return b.op("RoiAlign", _image(b, size, 256), rois, images, **sizes)


def _sampled(b: asim.GraphBuilder, size: int) -> Tensor:
    x = _image(b, size, 64)
    return b.op("GridSample", x, b.input("g", (1, *x.static_shape[2:], 2), HALF))


OPERATORS: dict[str, Build] = {
    **{op: _plain(op) for op in ("Relu", "Exp", "Sigmoid", "Erf", "Softmax", "LogSoftmax", "Transpose")},
    **{op: _pair(op) for op in ("Add", "Mul", "Div", "Pow", "Equal", "Max")},
    **{f"{op} int64": _pair(op, LONG) for op in ("Add", "Mul", "Equal", "Max", "Div")},
    **{f"{op} axis {axis}": _folded(op, axis) for op in ("ReduceSum", "ReduceMax") for axis in (0, -1)},
    "ReduceSum tall": _tall,
    "ArgMax axis 0": _plain("ArgMax", axis=0),
    "ArgMax axis -1": _plain("ArgMax", axis=-1),
    "CumSum axis 0": lambda b, size: b.op("CumSum", _square(b, size), np.array([0])),
    "CumSum axis -1": lambda b, size: b.op("CumSum", _square(b, size), np.array([-1])),
    "TopK axis 0": _top(0),
    "TopK axis -1": _top(-1),
    "Transpose to NHWC": _channels_last,
    "DepthToSpace": lambda b, size: b.op("DepthToSpace", _image(b, size), blocksize=2),
    "SpaceToDepth": lambda b, size: b.op("SpaceToDepth", _image(b, size), blocksize=2),
    "Slice step 2": _focus,
    "Gather axis 0": _gathered(0),
    "Gather axis -1": _gathered(-1),
    "GatherElements axis 0": _elements(0),
    "GatherElements axis -1": _elements(-1),
    "RoiAlign": _regions,
    "GridSample": _sampled,
}


@dataclass(frozen=True, slots=True)
class Found:
    """One operator at one size on one chip (microseconds)."""

    name: str
    size: int
    chip: str
    time: float
    bound: float
    ai_cpu: bool
    ai_cpu_time: float


def scan(names: list[str], sizes: list[int], chips: list[str]) -> Iterator[Found | str]:
    """Times of every combination, or why it has none."""
    for name in names:
        for size in sizes:
            for chip in chips:
                builder = asim.GraphBuilder()
                builder.output(_first(OPERATORS[name](builder, size)), "y")
                try:
                    yield _timed(name, size, chip, builder.build())
                except AscendSimError as error:
                    yield f"{name} {size} {chip}: {error}"


def _timed(name: str, size: int, chip: str, graph: Graph) -> Found:
    model = asim.compile(graph, chip)
    soc = model.soc
    ends = (*model.graph.inputs, *model.graph.outputs)
    elements = max(math.prod(tensor.static_shape) for tensor in ends)
    moved = sum(tensor.storage_bytes for tensor in ends) / soc.dram.read_gb_per_s * 1e-3
    cpu = soc.ai_cpu.dispatch_us + soc.ai_cpu.overhead_us
    return Found(
        name,
        size,
        chip,
        asim.simulate(model).duration_us,
        moved + soc.launch.task_launch_us + soc.launch.kernel_init_ns / 1e3,
        any(task.cpu_us for task in model.program.tasks),
        cpu + elements * _operations(name, elements) / soc.ai_cpu.elements_per_us,
    )


def _operations(name: str, elements: int) -> float:
    """Simple operations an element on the AI CPU."""
    if name.startswith("TopK"):
        return max(1.0, math.log2(math.isqrt(elements)) / 2)
    return {"RoiAlign": 16.0, "GridSample": 4.0}.get(name, 1.0)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--chips", default=CHIPS)
    parser.add_argument("--operators", default=",".join(OPERATORS))
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--times", type=float, default=20.0, help="the bound that is too slow (default: 20)")
    parser.add_argument("--all", action="store_true", help="print what is within the bounds as well")
    args = parser.parse_args()
    sizes = [int(float(size)) for size in args.sizes.split(",")]
    print(f"{'operator':24}{'elements':>10}  {'chip':12}{'us':>10}{'bound':>9}{'times':>7}")
    for found in scan(args.operators.split(","), sizes, args.chips.split(",")):
        if isinstance(found, str):
            print(found)
            continue
        slow, lost = (
            found.time > args.times * found.bound,
            not found.ai_cpu and found.time > found.ai_cpu_time,
        )
        if slow or lost or args.all:
            why = (["AI CPU"] if found.ai_cpu else []) + (["slower than the AI CPU"] if lost else [])
            times = f"{found.time:10.1f}{found.bound:9.1f}{found.time / found.bound:7.1f}"
            print(f"{found.name:24}{found.size:10}  {found.chip:12}{times}  {' '.join(why)}", flush=True)


if __name__ == "__main__":
    main()
