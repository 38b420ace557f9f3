"""Whether a compiled model fits into the chip's memory, and at which batch it would."""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.table import Table
from ascendsim.core.units import GIB
from ascendsim.isa.program import Program
from ascendsim.soc import SocSpec
from ascendsim.soc.boards import memory_that_holds


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a model needs of the chip's memory, in bytes.

    Attributes:
        soc: Name of the chip.
        size: Memory of the chip, None if its file does not say.
        reserved: What the driver and CANN's runtime take of it before any model is loaded.
        weights: Of the model.
        activations: Largest use by inputs, outputs, activations and workspaces at one time.
        batch: Samples of one execution.
    """

    soc: str
    size: int | None
    reserved: int
    weights: int
    activations: int
    batch: int

    @classmethod
    def of(cls, program: Program, soc: SocSpec, batch: int) -> Capacity:
        plan = program.memory
        return cls(soc.name, soc.dram.size, soc.dram.reserved, plan.weight_bytes, plan.peak_bytes, batch)

    @property
    def available(self) -> int | None:
        """What models can have."""
        return None if self.size is None else max(0, self.size - self.reserved)

    @property
    def fits(self) -> bool:
        """Whether it fits; of a chip of unknown size everything does."""
        return self.available is None or self.weights + self.activations <= self.available

    @property
    def largest_batch(self) -> int | None:
        """The largest batch that fits, if activations grow with the batch as those of convolutions and
        products do; 0 if not even one sample does, None if the size of the memory is not known.
        """
        if self.available is None:
            return None
        a_sample = max(1, -(-self.activations // max(1, self.batch)))
        return max(0, (self.available - self.weights) // a_sample)

    def table(self) -> Table:
        """Weights, activations, what is reserved and what is left."""
        rows = [("weights", self.weights), ("activations, workspace", self.activations)]
        if self.size is not None:
            rows += [
                ("driver and runtime", self.reserved),
                ("left", self.size - self.reserved - self.weights - self.activations),
                (f"memory of {self.soc}", self.size),
            ]
        return Table("capacity", ("What", "MiB"), tuple((name, size / 2**20) for name, size in rows))

    def complaint(self) -> str | None:
        """What does not fit, in a line; None if all does."""
        if self.fits or self.available is None:
            return None
        batch = self.largest_batch
        needed = self.weights + self.activations
        memory = memory_that_holds(self.soc, needed + self.reserved)
        none = f"not even one sample fits: cut the model, or set {memory}"
        helps = f"about batch {batch} would fit" if batch else none
        return (
            f"the model needs {needed / GIB:,.1f} GiB "
            f"({self.weights / GIB:,.1f} weights, {self.activations / GIB:,.1f} activations at batch "
            f"{self.batch}), {self.soc} has {self.available / GIB:,.1f} for models; {helps}"
        )
