"""What else can be done with a model than to change its graph: batch, AIPP, float16 inputs, streams, int8.
Each is tried by at most two simulations, or a row says why it was not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascendsim.api.compiling import compile
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.dtypes import DType
from ascendsim.core.errors import AscendSimError
from ascendsim.core.files import write_whole
from ascendsim.core.table import Row, Table
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph, Tensor
from ascendsim.graph.samples import batch_of
from ascendsim.opset import OpSet
from ascendsim.passes.levers.half_inputs import with_half_inputs
from ascendsim.quantisation.calibrate import Calibrated
from ascendsim.quantisation.histogram import Histogram
from ascendsim.quantisation.pairs import insert_pairs
from ascendsim.quantisation.plan import plan_of
from ascendsim.quantisation.prepare import prepared

BATCHES = (4, 16)  # times the batch that the model has; the second only if the first pays
STREAMS = "MainStream:4"
_PAYS = 1.05  # throughput from which a larger batch is worth a try
AIPP = """aipp_op {{
    aipp_mode: static
    input_format: {form}
    src_image_size_w: {width}
    src_image_size_h: {height}
    # x' = (x - mean - min) * var_reci: your network's normalisation goes here instead of to the host
{channels}}}
"""

Timed = Callable[[Graph, Mapping[str, Any]], float]


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another way to run the model.

    Attributes:
        kind: "batch", "AIPP", "inputs", "streams" or "int8".
        what: What was tried.
        how: The option or command that does it.
        time_us: Device time of one execution; None = not tried.
        speed_up: Samples a second over those of the model as it is; None = not tried.
        samples_per_s: Samples a second.
        note: What to know about it, or why it was not tried.
    """

    kind: str
    what: str
    how: str
    time_us: float | None = None
    speed_up: float | None = None
    samples_per_s: float | None = None
    note: str = ""


def table_of(found: tuple[Alternative, ...]) -> Table:
    """One row an alternative: latency and throughput side by side."""
    rows: tuple[Row, ...] = tuple(
        (one.kind, one.what, one.time_us, one.samples_per_s, one.speed_up, one.how, one.note) for one in found
    )
    columns = ("Kind", "Tried", "Latency(us)", "Samples/s", "Throughput(x)", "How", "Note")
    return Table("alternatives", columns, rows)


class Trier:
    """Tries alternatives of one model.

    Args:
        graph: The model.
        opset: Operators.
        settings: Arguments of `compile`.
        before_us: Device time as it is.
        timed: Compiles a graph with settings, and simulates.
        at_batch: Loads the model at another batch; None = cannot be done.
    """

    def __init__(
        self,
        graph: Graph,
        opset: OpSet,
        settings: Mapping[str, Any],
        before_us: float,
        timed: Timed,
        at_batch: Callable[[int], Graph] | None,
    ) -> None:
        self._graph, self._opset, self._settings = graph, opset, settings
        self._before, self._timed, self._at_batch = before_us, timed, at_batch
        self._batch = batch_of(graph)

    def all(self) -> tuple[Alternative, ...]:
        """Every kind, tried or not."""
        tried = (self._batches, self._aipp, self._half_inputs, self._streams, self._int8)
        return tuple(one for attempt in tried for one in attempt())

    def _tried(
        self, one: Alternative, graph: Callable[[], Graph], more: Mapping[str, Any], batch: int
    ) -> Alternative:
        """With its figures, or why there are none."""
        try:
            time_us = self._timed(graph(), {**self._settings, **more})
        except AscendSimError as error:
            return _noted(one, f"cannot be done: {error}")
        rate = batch / time_us * 1e6 if time_us else 0.0
        speed_up = rate / (self._batch / self._before * 1e6) if self._before else 1.0
        return Alternative(one.kind, one.what, one.how, time_us, speed_up, rate, one.note)

    def _batches(self) -> list[Alternative]:
        load = self._at_batch
        if load is None:
            why = "not tried: the graph alone cannot be given another batch; load the file with batch="
            return [Alternative("batch", f"batch {self._batch * BATCHES[0]}", "--batch N", note=why)]
        found: list[Alternative] = []
        for factor in BATCHES:
            size = self._batch * factor
            one = Alternative(
                "batch", f"batch {size}", f"--batch {size}", note="latency is of the whole batch"
            )
            found.append(self._tried(one, lambda size=size: load(size), {}, size))  # type: ignore[misc]
            if (found[-1].speed_up or 0.0) < _PAYS:
                break
        return found

    def _aipp(self) -> list[Alternative]:
        image = next((tensor for tensor in self._graph.inputs if is_image(tensor)), None)
        how = "--insert_op_conf=aipp.cfg"
        if image is None:
            return [
                Alternative("AIPP", "-", how, note="not tried: no input looks like an image (N,1 or 3,H,W)")
            ]
        one = Alternative(
            "AIPP", f"{image.name} as uint8", how, note="normalisation and type in the device's AIPP"
        )
        if self._settings.get("insert_op_conf") is not None:
            return [_noted(one, "not tried: it has a file of AIPP already")]
        with tempfile.TemporaryDirectory() as folder:
            path = write_whole(Path(folder) / "aipp.cfg", aipp_text(image).encode())
            return [self._tried(one, lambda: self._graph, {"insert_op_conf": path}, self._batch)]

    def _half_inputs(self) -> list[Alternative]:
        names = ";".join(t.name for t in self._graph.inputs if t.dtype is DType.FLOAT32)
        one = Alternative(
            "inputs", "float16 inputs", f"--input_fp16_nodes={names}", note="the host gives float16"
        )
        if not names:
            return [_noted(one, "not tried: no input is float32")]
        made = with_half_inputs(self._graph, self._opset)
        if made is None:
            return [_noted(one, "not tried: nothing reads them")]
        return [self._tried(one, lambda: made, {}, self._batch)]

    def _streams(self) -> list[Alternative]:
        one = Alternative("streams", STREAMS, f"--multi_stream_parallel_mode={STREAMS}")
        if self._settings.get("multi_stream_parallel_mode"):
            return [_noted(one, "not tried: the option is given already")]
        return [self._tried(one, lambda: self._graph, {"multi_stream_parallel_mode": STREAMS}, self._batch)]

    def _int8(self) -> list[Alternative]:
        how = "ascendsim quantize MODEL --data FILES"
        one = Alternative("int8", "convolutions and products in int8", how)
        if any(t.constant and not t.constant.available for t in self._graph.constants):
            return [_noted(one, "not tried: weights have no values (--weights random fills them)")]
        note = "time alone: what it costs in accuracy, data must say"
        return [self._tried(_noted(one, note), self._quantised, {}, self._batch)]

    def _quantised(self) -> Graph:
        """In int8 with scales of 1/127 throughout, of which the time does not depend."""
        source = prepared(self._graph, self._opset)
        plan = plan_of(source)
        found = dict.fromkeys((*plan.groups, *plan.groups.values()), Calibrated(Histogram(2), 1.0))
        made = copy_graph(source)
        insert_pairs(made, self._opset, plan, found, True)
        return made


def aipp_text(image: Tensor) -> str:
    """A file for --insert_op_conf for an input: uint8 pixels become its numbers; means and factors are to be
    filled in.
    """
    _, channels, height, width = image.static_shape
    names = range(channels)
    lines = [f"    mean_chn_{n}: 0\n    var_reci_chn_{n}: {1 / 255:.6f}\n" for n in names]
    form = "RGB888_U8" if channels == 3 else "YUV400_U8"
    return AIPP.format(form=form, width=width, height=height, channels="".join(lines))


def is_image(tensor: Tensor) -> bool:
    """Whether an input looks like an image: one or three channels of at least 16 x 16 floats."""
    if not tensor.is_static or tensor.dtype not in (DType.FLOAT32, DType.FLOAT16):
        return False
    shape = tensor.static_shape
    return len(shape) == 4 and shape[1] in (1, 3) and min(shape[2:]) >= 16


def _noted(one: Alternative, note: str) -> Alternative:
    return Alternative(one.kind, one.what, one.how, note=note)


def is_static(model: CompiledModel) -> bool:
    """Whether a model has one shape, which alternatives are tried of."""
    return type(model) is CompiledModel


def timer(simulated: Callable[[CompiledModel], Any], soc: Any) -> Timed:
    """How alternatives are timed."""
    return lambda graph, settings: float(simulated(compile(graph, soc, **settings)).duration_us)
