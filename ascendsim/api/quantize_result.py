"""What `quantize` gives: the network in int8, and what became of each layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from ascendsim.api.quantize_runs import Chip, Times, compare_values, times_of
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import write_whole
from ascendsim.core.table import GENERAL, Row, Table
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.ir import Graph
from ascendsim.opset import OpSet
from ascendsim.quantisation.ascend import DEPLOYED, as_deployed
from ascendsim.quantisation.calibrate import Calibrated
from ascendsim.quantisation.data import Batch
from ascendsim.quantisation.pairs import insert_one
from ascendsim.quantisation.plan import Plan
from ascendsim.soc import SocSpec

if TYPE_CHECKING:
    import pandas as pd

    from ascendsim.plot.histogram import HistogramDisplay

_COLUMNS = (
    "Layer", "Operator", "Tensor", "T", "Clipped(%)", "Scale", "Weight Scale Min", "Weight Scale Max",
    "SNR(dB)", "Float16(us)", "Int8(us)",
)  # fmt: skip
DEFAULT_CHIP = "Ascend310"


@dataclass(frozen=True, slots=True)
class QuantizedLayer:
    """A layer in int8.

    Attributes:
        name: Its node.
        operator: Its type.
        tensor: The data that it multiplies.
        threshold: T of that tensor, which becomes 127.
        clipped: Share of its elements beyond T.
        scale: Its step, T / 127.
        weight_scales: The smallest and the largest step of the weights.
        snr_db: Signal-to-noise ratio of the layer's result against float32 in dB, all that comes before it in
            int8 too.
    """

    name: str
    operator: str
    tensor: str
    threshold: float
    clipped: float
    scale: float
    weight_scales: tuple[float, float]
    snr_db: float


@dataclass(frozen=True, eq=False)
class QuantizeResult:
    """A network in int8.

    Attributes:
        graph: The quantised network, to compile, run or save.
        source: The float network that it was made from: cleaned up, normalisations in the convolutions.
        plan: What was quantised, and which layers were kept in floating point and why (`plan.kept`).
        layers: The layers in int8, in order of execution.
        snr_db: Signal-to-noise ratio of the outputs against float32 in dB, over the first batches of the
            data.
        activation: How T was chosen.
        form: "qdq" or "ascend".
        batches: How many batches of data were seen.
    """

    graph: Graph
    source: Graph
    plan: Plan
    layers: tuple[QuantizedLayer, ...]
    snr_db: float
    activation: str
    form: str
    batches: int
    _found: Mapping[str, Calibrated] = field(repr=False)
    _data: tuple[Batch, ...] = field(repr=False)  # the first batches, on which values are compared
    _opset: OpSet = field(repr=False)
    _per_channel: bool = field(repr=False)
    _times: dict[object, tuple[Chip, Times, Times]] = field(default_factory=dict, repr=False)

    @checked()
    def times(self, soc: str | PathLike[str] | SocSpec = DEFAULT_CHIP) -> tuple[float, float]:
        """Simulated time of the network in us, float16 and int8, on a chip."""
        before, after = self._timed(soc)
        return before.total_us, after.total_us

    @checked()
    def table(self, soc: str | PathLike[str] | SocSpec = DEFAULT_CHIP) -> Table:
        """One row a layer: T, share clipped, steps, signal-to-noise against float32, and the time of its task
        on a chip in float16 and in int8.
        """
        before, after = self._timed(soc)
        rows: tuple[Row, ...] = tuple(
            (
                layer.name,
                layer.operator,
                layer.tensor,
                layer.threshold,
                100 * layer.clipped,
                layer.scale,
                *layer.weight_scales,
                layer.snr_db,
                before.layers[layer.name],
                after.layers[layer.name],
            )
            for layer in self.layers
        )
        return Table("quantize", _COLUMNS, rows, dict.fromkeys(("T", "Clipped(%)", *_COLUMNS[5:8]), GENERAL))

    @checked()
    def to_dataframe(self, soc: str | PathLike[str] | SocSpec = DEFAULT_CHIP) -> pd.DataFrame:
        """The table as a pandas data frame."""
        return self.table(soc).to_dataframe()

    @checked()
    def sensitivity(self) -> Table:
        """What each layer costs: the outputs' signal-to-noise ratio with that layer alone in int8, worst
        first.

        Layers at the top are those to leave out with `skip=`.
        """
        rows: list[Row] = []
        for layer in self.plan.layers:
            alone = copy_graph(self.source)
            insert_one(
                alone, self._opset, layer, self._found[self.plan.groups[layer.data]].scale, self._per_channel
            )
            noise = compare_values(self.source, alone, self._opset, self._data, ())
            rows.append((layer.name, layer.operator, noise.outputs))
        return Table("sensitivity", ("Layer", "Operator", "SNR(dB)"), tuple(rows)).sort("SNR(dB)")

    @checked()
    def plot(self, layer: str) -> HistogramDisplay:
        """Draws the histogram of what a layer multiplies, and T.

        Args:
            layer: Name of a layer.

        Raises:
            InputError: If there is no such layer.
        """
        from ascendsim.plot.histogram import plot_histogram

        row = next((row for row in self.layers if row.name == layer), None)
        if row is None:
            names = [row.name for row in self.layers]
            raise InputError(f"layer {layer!r}", "is not in int8", remedy=suggest(layer, names))
        found = self._found[self.plan.groups[row.tensor]]
        held = found.histogram
        title = f"{row.tensor}: input of {layer}, T = {row.threshold:.4g} ({self.activation})"
        return plot_histogram(
            held.counts[: held.top],
            held.width,
            zeros=held.zeros,
            threshold=row.threshold,
            largest=held.largest,
            title=title,
        )

    @checked()
    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the quantised network as an ONNX file, whole or not at all.

        Returns:
            The file.

        Raises:
            InputError: If it cannot be written.
        """
        from ascendsim.frontends.onnx.export import export_onnx

        if self.form == "ascend":
            return write_whole(path, export_onnx(as_deployed(self.graph), DEPLOYED))
        return write_whole(path, export_onnx(self.graph))

    def _timed(self, soc: Chip) -> tuple[Times, Times]:
        key = id(soc) if isinstance(soc, SocSpec) else str(soc)
        if key not in self._times:
            names = [layer.name for layer in self.layers]
            both = [times_of(graph, soc, self._opset, names) for graph in (self.source, self.graph)]
            self._times[key] = (soc, both[0], both[1])  # the chip is held, so that its id stays its own
        return self._times[key][1:]

    def __str__(self) -> str:
        kept = f", {len(self.plan.kept)} in floating point" if self.plan.kept else ""
        return (
            f"{len(self.layers)} layers in int8{kept}; T by {self.activation} from {self.batches} batches; "
            f"outputs {self.snr_db:.1f} dB above their noise"
        )

    def __repr__(self) -> str:
        return f"QuantizeResult({self.source.name!r}, {self})"
