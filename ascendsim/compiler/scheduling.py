"""Scheduling as the user asks for it: who launches tasks, on how many streams, in which order, and how they
share memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Graph
from ascendsim.graph.sorting import MODES as SORTING_MODES
from ascendsim.graph.sorting import STABLE, called_nodes, sorted_nodes
from ascendsim.isa.program import MODES
from ascendsim.lower.memory import MemoryOptions
from ascendsim.lower.streams import StreamOptions


@dataclass(frozen=True, slots=True)
class Scheduling:
    """Everything that steers scheduling in one compilation.

    Attributes:
        mode: "sink", "host" or "eager".
        streams: Streams; one if the host launches, as CANN has it for graphs that are not sunk.
        memory: How memory is planned; operator by operator it is given out as an allocator does that knows
            nothing of what comes.
        sorting: ATC's number of the order of operators.
    """

    mode: str
    streams: StreamOptions
    memory: MemoryOptions
    sorting: int = STABLE

    @classmethod
    def of(
        cls,
        schedule: str = "sink",
        enable_single_stream: bool = False,
        multi_stream_parallel_mode: str = "",
        topo_sorting_mode: int = STABLE,
        disable_reuse_memory: bool = False,
    ) -> Scheduling:
        """Checks the options of `compile`.

        Raises:
            InputError: If a mode does not exist, or options exclude each other.
        """
        if schedule not in MODES:
            raise InputError(
                "option schedule",
                f"must be one of {', '.join(MODES)}",
                repr(schedule),
                suggest(str(schedule), MODES),
            )
        if isinstance(topo_sorting_mode, bool) or topo_sorting_mode not in SORTING_MODES:
            raise InputError(
                "option topo_sorting_mode",
                f"must be one of {', '.join(map(str, SORTING_MODES))}",
                repr(topo_sorting_mode),
            )
        streams = StreamOptions.of(enable_single_stream, multi_stream_parallel_mode)
        if schedule == "eager" and multi_stream_parallel_mode:
            raise InputError(
                "option multi_stream_parallel_mode",
                'has no meaning with schedule="eager"',
                remedy="leave one of them out",
            )
        if schedule != "sink" and not multi_stream_parallel_mode:
            streams = StreamOptions(single=True)
        memory = MemoryOptions(reuse=not disable_reuse_memory, online=schedule == "eager")
        return cls(schedule, streams, memory, topo_sorting_mode)

    def sort(self, graph: Graph) -> None:
        """Puts the nodes of a graph in the order in which they are to run."""
        if self.sorting != STABLE:
            graph.reorder(sorted_nodes(graph, self.sorting))
        elif self.mode == "eager":
            graph.reorder(called_nodes(graph))
