"""Vector work that looks for the place of the largest or smallest element of an axis.

CANN's ArgMaxV2 on split cores (canndev, tbe/impl/dynamic/arg_max_v2.py and its tiling) brings a piece of one
row at a time. Along the last axis all repeats of a piece are folded to one, compared with it, and the scalar
unit reads the mask of every repeat and then the place of each lane (float32), or the few results of vcmax
(float16). Along other axes a row is compared with the best so far, and the scalar unit reads the masks before
the next one is worked on. Indices go out in whole blocks of 32 B, so a core has 8 rows at least (16 of
float16), and one core has all if there are fewer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascendsim.core.formats import BLOCK_BYTES, align, ceil_div
from ascendsim.isa.instructions import ZERO, Affine, Operand, Pipe, Scalar
from ascendsim.lower.affine import plus, times
from ascendsim.lower.templates.steps import emit_steps
from ascendsim.lower.templates.vector_writer import VectorWriter
from ascendsim.opset.work import Search, Step, VectorWork
from ascendsim.soc.spec import SocSpec

PLACES = 4  # of a repeat, of the repeats, of those and of the piece: what vcmax leaves to be put together


def searched_share(search: Search, step: Step, soc: SocSpec) -> tuple[int, int]:
    """Rows and columns of one core's share.

    Args:
        search: What is looked for.
        step: An instruction in the type that it is looked for in.
        soc: The chip.
    """
    block, lanes = BLOCK_BYTES // step.dtype.itemsize, soc.vector.repeat_bytes // step.dtype.itemsize
    cores = soc.vector_units
    if search.inner == 1:
        cores = 1 if search.outer < block else cores
        return min(search.outer, align(ceil_div(search.outer, cores), block)), search.length
    if search.outer >= min(cores, search.inner / lanes):
        return ceil_div(search.outer, cores) * search.length, search.inner
    columns = align(ceil_div(search.inner, cores if search.inner >= lanes else 1), lanes)
    return search.outer * search.length, min(search.inner, columns)


class SearchWriter(VectorWriter):
    """Writes the program of one share."""

    def _known(self) -> bool:
        return False

    def _choose_tile(self) -> None:
        search = _search(self.work)
        self.tile_rows, self.tile_cols = 1, min(self.cols, search.piece)
        self.sweeping = search.inner == 1

    def _sweeps(self) -> None:
        """Along the last axis; of a row in several pieces the next one comes while one is worked on."""
        b = self.b
        whole, rest = divmod(self.cols, self.tile_cols)
        ends = [(whole, rest)] if rest else []
        (result,) = [ring for _, ring in self.outputs]
        with b.loop("r", self.rows) as i:
            row = (i, 1)
            b.acquire(result)
            self._bring("all", row, (ZERO, self.tile_cols))
            if whole > 1:
                with b.loop("c", whole - 1) as j:
                    self._bring("all", row, (plus(times(j, self.tile_cols), self.tile_cols), self.tile_cols))
                    self._compute(self.steps, ("all",), 1, self.tile_cols, [result])
            for at, size in ends:
                self._bring("all", row, (Affine(at * self.tile_cols), size))
            self._compute(self.steps, ("all",), 1, self.tile_cols, [result])
            for _, size in ends:
                self._compute(self.steps, ("all",), 1, size, [result])
            b.commit(result)
            self._save("row", row, (ZERO, self.cols))

    def _emit(
        self, steps: Sequence[Step], rows: int, cols: int, target: Operand, sources: tuple[Operand, ...]
    ) -> None:
        b = self.b
        for step in steps:
            emit_steps(b, (step,), self._counts(rows, cols, step), target, sources, self.scratch)
            sources = (target, *sources[1:])
            if not step.indexed:
                continue
            lanes = b.soc.vector.repeat_bytes // step.dtype.itemsize
            reads = ceil_div(cols, lanes) + (lanes if _search(self.work).inner == 1 else 0)
            if step.op in ("vcmax", "vcmin"):
                reads = PLACES
            b.order(Pipe.V, Pipe.S, "scalar")
            b.emit(Scalar(reads * b.soc.issue.scalar_element_cycles, "places", srcs=(target,)))
            b.order(Pipe.S, Pipe.V, "scalar")


def _search(work: VectorWork) -> Search:
    assert work.search is not None
    return work.search
