"""Runs of plausible shape made from the contracts alone, for tests and pictures of the reports."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import Format
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.isa.program import Block, BlockGroup, CoreKind, MemoryPlan, Program, Task, TaskKind
from ascendsim.ops import default_opset
from ascendsim.opset import OpSet
from ascendsim.profiling.view import ProfiledRun
from ascendsim.soc.spec import SocSpec
from ascendsim.trace.records import InstructionRecord, TaskRecord, Trace
from tests.support.toy_soc import toy

TICK = Fraction(1, 6_800_000_000)  # a tenth of a 680 MHz cycle
CORE_TICKS = 10
CANN = {
    "Conv": "Conv2D",
    "MaxPool": "Pooling",
    "MatMul": "MatMulV2",
    "Softmax": "SoftmaxV2",
    "NonZero": "NonZero",
}
# operator -> (pipe ratios, mean us); None = AI CPU
SHAPES: dict[str, tuple[dict[str, float] | None, float]] = {
    "Conv": ({"M": 0.7, "MTE1": 0.5, "MTE2": 0.6, "V": 0.2, "MTE3": 0.2, "S": 0.05}, 120),
    "MatMul": ({"M": 0.3, "MTE1": 0.2, "MTE2": 0.9, "V": 0.1, "MTE3": 0.1, "S": 0.05}, 90),
    "Relu": ({"V": 0.3, "MTE2": 0.6, "MTE3": 0.6, "S": 0.03}, 30),
    "Add": ({"V": 0.25, "MTE2": 0.85, "MTE3": 0.4, "S": 0.03}, 40),
    "MaxPool": ({"V": 0.85, "MTE2": 0.3, "MTE3": 0.2, "S": 0.1}, 60),
    "Softmax": ({"V": 0.6, "MTE2": 0.3, "MTE3": 0.2, "S": 0.1}, 20),
    "TransData": ({"V": 0.2, "MTE2": 0.5, "MTE3": 0.5, "S": 0.3}, 25),
    "NonZero": (None, 80),
}
NAMES = OpSet(
    [
        replace(op, domain="", cann=CANN[op.name], cann_of=None)
        if op.name in CANN
        else replace(op, domain="")
        for op in default_opset()
        if op.name in SHAPES
    ]
)
SPREAD = (0.3, 0.5, 0.7, 0.9, 1.1, 1.5, 2.2)
CHAIN = (
    "Conv",
    "Relu",
    "Conv",
    "Add",
    "Relu",
    "MaxPool",
    "Conv",
    "TransData",
    "MatMul",
    "Softmax",
    "NonZero",
    "Add",
)


def tiny_soc(name: str = "Ascend310", *, split: bool = False, half_duplex: bool = True) -> SocSpec:
    """A chip with round figures: 2 AI Cores at 680 MHz (or 2 cube and 4 vector cores), 50 GB/s."""
    return toy(
        name=name,
        architecture="test",
        generation="c220" if split else "v100",
        short_name=name,
        kernels={"inference": not split},
        split_cores=split,
        ai_cores=2,
        vector_cores=4 if split else 0,
        frequency_mhz=680,
        vector_frequency_mhz=680,
        ports={"l1_to_l0a": 256, "l1_to_l0b": 128, "l1_to_ub": 64, "ub_to_l1": 64, "ub_to_ub": 64},
        l2={"size": 8 << 20, "software_managed": True},
        dram={"read_gb_per_s": 50, "write_gb_per_s": 50, "half_duplex": half_duplex},
        launch={"kernel_init_ns": 500, "task_launch_us": 2, "task_gap_us": 1, "block_dispatch_ns": 50},
        assumed=frozenset({"launch.task_gap_us", "l2.read_latency_cycles"}),
    )


def chain_graph(count: int) -> tuple[Graph, list[Node]]:
    """A chain of `count` nodes over feature maps of (4, 32, 28, 28)."""
    graph = Graph("synthetic")
    tensor = graph.add_input("input", DType.FLOAT16, (4, 32, 28, 28))
    tensor.format = Format.NC1HWC0
    weight = graph.add_tensor(Tensor("weight", DType.FLOAT16, (32, 32, 3, 3), Format.FRACTAL_Z))
    nodes = []
    for number in range(count):
        op_type = CHAIN[number % len(CHAIN)]
        inputs = [tensor, weight] if op_type == "Conv" else [tensor, tensor] if op_type == "Add" else [tensor]
        node = graph.add_node(op_type, inputs, name=f"/layer{number // 12}/{op_type.lower()}_{number}")
        node.output.dtype, node.output.shape, node.output.format = (
            DType.FLOAT16,
            (4, 32, 28, 28),
            Format.NC1HWC0,
        )
        tensor = node.output
        nodes.append(node)
    graph.outputs.append(tensor)
    return graph, nodes


def synthetic_run(
    count: int = 60, *, streams: int = 2, instructions: bool = False, split: bool = False, seed: int = 1
) -> ProfiledRun:
    """A run of `count` tasks on a chain, every third of which may go to another stream.

    Instructions, if asked for, are double-buffered loads, products and stores of the first tasks on two cores
    in lock-step.
    """
    dice = random.Random(seed)
    soc = tiny_soc("Ascend910B1" if split else "Ascend310", split=split)
    graph, nodes = chain_graph(count)
    tasks: list[Task] = []
    records: list[TaskRecord] = []
    listed: list[InstructionRecord] = []
    free = [0] * streams
    last_in: dict[int, int] = {}
    for number, node in enumerate(nodes):
        ratios, mean_us = SHAPES[node.op_type]
        stream = number % 3 if number % 3 < streams else 0
        other = (stream + 1) % streams
        waits = (last_in[other],) if number % 6 == 5 and other in last_in and other != stream else ()
        ready = max([free[stream], *(records[task].end for task in waits)])
        start = ready + _ticks(1.5)
        end = start + _ticks(max(mean_us * dice.choice(SPREAD), 3))
        vector = split and ratios is not None and "M" not in ratios
        kind = TaskKind.AI_CPU if ratios is None else TaskKind.AI_VECTOR_CORE if vector else TaskKind.AI_CORE
        core = CoreKind.VECTOR if vector else CoreKind.CUBE if split else CoreKind.AI
        blocks = 0 if ratios is None else 4 if vector else 2
        groups = (BlockGroup(Block((), core=core), blocks),) if blocks else ()
        tasks.append(
            Task(
                number,
                node.name,
                kind,
                stream,
                groups,
                waits_for=waits,
                cpu_us=mean_us if ratios is None else 0.0,
            )
        )
        inside = end - start - _ticks(1)
        busy = {
            pipe: int(share * inside) * blocks
            for pipe, share in (ratios or {}).items()
            if not (vector and pipe == "MTE1")
        }
        if split and not vector:
            busy = {("FIX" if pipe == "MTE3" else pipe): ticks for pipe, ticks in busy.items() if pipe != "V"}
        moved = 4 * 32 * 28 * 28 * 2
        records.append(
            TaskRecord(
                task=number,
                name=node.name,
                kind=kind.value,
                stream=stream,
                ready=ready,
                start=start,
                end=end,
                blocks=max(blocks, 1),
                rounds=1,
                cores=blocks,
                busy=busy,
                block_ticks=inside * blocks,
                vector_busy=busy if vector else {},
                vector_ticks=inside * blocks if vector else 0,
                read_bytes={"ddr": moved, "l2": moved // 2} if blocks else {},
                write_bytes={"ddr": moved} if blocks else {},
                first_compute=start + (end - start) // 8 if blocks else -1,
                last_compute=end - (end - start) // 10 if blocks else -1,
                macs=4 * 28 * 28 * 32 * 32 * 9 if "M" in busy else 0,
            )
        )
        if instructions and ratios is not None and number < 40:
            listed.extend(_instructions(records[-1], ratios))
        free[stream] = end
        last_in[stream] = number
    trace = Trace(
        TICK,
        CORE_TICKS,
        tuple(sorted(records, key=lambda r: (r.end, r.task))),
        tuple(listed),
        max((r.end for r in records), default=0),
    )
    program = Program(tuple(tasks), MemoryPlan({}, 0, 0))
    return ProfiledRun(graph, program, trace, soc, NAMES)


def _ticks(us: float) -> int:
    return round(us * 6800)


def _instructions(record: TaskRecord, ratios: dict[str, float]) -> list[InstructionRecord]:
    """Eight rounds of load (two in flight at a time), compute and store."""
    rounds = 8
    step = (record.end - record.start - 400) // (rounds + 2)
    result = []
    names = {
        "MTE2": "copy GM->L1 16384 B",
        "MTE1": "load3d 8192 B",
        "M": "mmad 128x64x128",
        "V": "vrelu 4096",
        "MTE3": "copy UB->GM 8192 B",
        "S": "scalar 12",
    }
    for number in range(rounds):
        for offset, pipe in enumerate(("S", "MTE2", "MTE1", "M", "V", "MTE3")):
            if pipe not in ratios:
                continue
            start = record.start + 200 + number * step + offset * step // 4
            length = step * 3 // 2 if pipe == "MTE2" else max(int(step * ratios[pipe]), 1)
            size = 16384 if pipe.startswith("MTE") else 0
            result.append(
                InstructionRecord(
                    record.task, (0, 1), pipe, names[pipe], start, min(start + length, record.end), size
                )
            )
    return result
