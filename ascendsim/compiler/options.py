"""What can be asked of a compilation: one frozen object, whose fields are the arguments of `compile` and the
options of the command line.

Light to import: `ascendsim COMMAND --help` reads it. `settings` checks the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from ascendsim.opset import OpDef
    from ascendsim.passes.fusion.rule import FusionRule
    from ascendsim.passes.gears import GearOption
    from ascendsim.passes.graph_kernel.flags import Flags
    from ascendsim.soc import SocSpec

Setting = Union[str, int, float]

PRECISION_MODES = (
    "force_fp16",
    "allow_fp32_to_fp16",
    "must_keep_origin_dtype",
    "force_fp32",
    "cube_fp16in_fp32out",
    "allow_mix_precision",
)
MIXED = PRECISION_MODES[-1]
FUSION_LEVELS = ("off", "graph", "ub", "all")
# the value of `fusion` for MindSpore's flow: graph fusion, composites, then UB fusion of what they left
GRAPH_KERNEL = "graph-kernel"
BUFFER_OPTIMIZE = ("l2_optimize", "l1_optimize", "off_optimize")
OO_LEVELS = ("O1", "O3")
SCHEDULES = ("sink", "host", "eager")
SORTING_MODES = (0, 1, 2, 3)
CHECKS = ("chip", "atc")
HOST_INPUTS = ("device", "pinned", "pageable")


@dataclass(frozen=True, slots=True)
class Cli:
    """How an option is spelled on the command line.

    Attributes:
        name: Without the dashes, in ATC's spelling where ATC has it.
        help: One line.
        words: What the values are called, False before True, for options that are written as words; () = the
            text itself.
        choices: Values to choose from; () = any.
        metavar: What stands for the value in the help.
    """

    name: str
    help: str
    words: tuple[str, ...] = ()
    choices: tuple[Any, ...] = ()
    metavar: str | None = None


TRUE_FALSE, DIGITS, ON_OFF = ("false", "true"), ("0", "1"), ("off", "on")


def _cli(
    name: str,
    help: str,
    words: tuple[str, ...] = (),
    choices: tuple[Any, ...] = (),
    metavar: str | None = None,
) -> Mapping[str, Any]:
    return {"cli": Cli(name, help, words, choices, metavar)}


@dataclass(frozen=True)
class CompileOptions:
    """All that `compile` takes besides the graph; see there for what each means."""

    soc: str | PathLike[str] | SocSpec = field(
        default="Ascend310",
        metadata=_cli(
            "soc_version", "chip (ascendsim soc list) or chip file (default: Ascend310)", metavar="CHIP"
        ),
    )
    set: Mapping[str, Setting] | None = None
    precision_mode: str = field(
        default="force_fp16",
        metadata=_cli(
            "precision_mode", "precision of the network (default: force_fp16)", choices=PRECISION_MODES
        ),
    )
    keep_dtype: str | PathLike[str] | Sequence[str] | None = field(
        default=None,
        metadata=_cli(
            "keep_dtype",
            "file of operators that stay in float32: names, or OpType::Type, one a line",
            metavar="FILE",
        ),
    )
    modify_mixlist: str | PathLike[str] | Mapping[str, Mapping[str, Sequence[str]]] | None = field(
        default=None,
        metadata=_cli(
            "modify_mixlist",
            "JSON file of operator types that change between the black and the white list of "
            "allow_mix_precision",
            metavar="FILE",
        ),
    )
    op_select_implmode: str | None = field(
        default=None,
        metadata=_cli(
            "op_select_implmode",
            "form of the kernels that have two: high_precision, high_performance (of the types listed), or "
            "these with _for_all (default: as each kernel has it)",
            metavar="MODE",
        ),
    )
    optypelist_for_implmode: str | Sequence[str] | None = field(
        default=None,
        metadata=_cli(
            "optypelist_for_implmode",
            "operator types that take op_select_implmode: Gelu,Sigmoid",
            metavar="LIST",
        ),
    )
    op_precision_mode: str | PathLike[str] | Mapping[str, str] | None = field(
        default=None,
        metadata=_cli(
            "op_precision_mode",
            "file with the form of each operator type: Gelu=high_performance",
            metavar="FILE",
        ),
    )
    inf_nan_mode_enable: bool | None = field(
        default=None,
        metadata=_cli(
            "inf_nan_mode_enable",
            "float16 beyond its range: 1 = infinite or NaN, 0 = saturation, at its last number or 0 "
            "(default: as the chip has it)",
            DIGITS,
        ),
    )
    aicore_num: int | None = field(
        default=None, metadata=_cli("aicore_num", "number of AI Cores to use (default: all)", metavar="N")
    )
    fusion: str = field(
        default="all",
        metadata=_cli(
            "fusion",
            "how much is fused: off, graph, ub, all, each with those before it; or graph-kernel, "
            "MindSpore's flow (default: all)",
            choices=(*FUSION_LEVELS, GRAPH_KERNEL),
        ),
    )
    fusion_switch_file: str | PathLike[str] | None = field(
        default=None,
        metadata=_cli(
            "fusion_switch_file", "fusion switch file, JSON as for ATC or lines Name:on", metavar="FILE"
        ),
    )
    passes: Sequence[FusionRule] = ()
    operators: Sequence[OpDef] = ()
    optimization_switch: str | None = field(
        default=None,
        metadata=_cli(
            "optimization_switch",
            'passes by name, "PassA:on;PassB:off"; stronger than the file',
            metavar="TEXT",
        ),
    )
    oo_level: str = field(
        default="O3",
        metadata=_cli(
            "oo_level", "O1 runs only the passes that CANN needs to work (default: O3)", choices=OO_LEVELS
        ),
    )
    buffer_optimize: str = field(
        default="l2_optimize",
        metadata=_cli(
            "buffer_optimize", "data buffer optimisation (default: l2_optimize)", choices=BUFFER_OPTIMIZE
        ),
    )
    output_type: str | None = field(
        default=None,
        metadata=_cli(
            "output_type",
            "type of floating-point outputs: FP16, FP32, or node:index:type;...",
            metavar="TYPE",
        ),
    )
    schedule: str = field(
        default="sink",
        metadata=_cli(
            "mode",
            "who launches tasks: the device (sink), the host, or a framework operator by operator (eager) "
            "(default: sink); or a number of ATC: 0 compiles, and ascendsim compile has 1 model to JSON, "
            "3 check, 5 device graph to JSON, 6 show information",
            choices=SCHEDULES,
        ),
    )
    host_inputs: str = field(
        default="device",
        metadata=_cli(
            "host_inputs",
            "where inputs lie when the graph is run: on the device, or in memory of the host, pinned or "
            "pageable, out of which each is copied first (default: device)",
            choices=HOST_INPUTS,
        ),
    )
    host_reads: str | Sequence[str] = field(
        default="",
        metadata=_cli(
            "host_reads",
            "tensors that the host reads as soon as they are made and waits for, as scripts do for the loss; "
            "goes with --mode host or eager (default: none)",
            metavar="TENSORS",
        ),
    )
    enable_single_stream: bool = field(
        default=False,
        metadata=_cli("enable_single_stream", "all tasks on one stream (default: false)", TRUE_FALSE),
    )
    multi_stream_parallel_mode: str = field(
        default="",
        metadata=_cli(
            "multi_stream_parallel_mode",
            "streams for independent operators: cv, LoadBalance:N or MainStream:N (default: none)",
            metavar="MODE",
        ),
    )
    topo_sorting_mode: int = field(
        default=3,
        metadata=_cli(
            "topo_sorting_mode",
            "order of operators: 0 breadth first, 1 depth first, 2 reverse depth first, 3 as the model "
            "lists them (default: 3)",
            choices=SORTING_MODES,
        ),
    )
    disable_reuse_memory: bool = field(
        default=False,
        metadata=_cli("disable_reuse_memory", "1 = every tensor has memory of its own (default: 0)", DIGITS),
    )
    insert_op_conf: str | PathLike[str] | None = field(
        default=None,
        metadata=_cli(
            "insert_op_conf",
            "AIPP operators: inputs become uint8 images that are converted in front of the first convolution",
            metavar="FILE",
        ),
    )
    dynamic_batch_size: GearOption | None = None
    dynamic_image_size: GearOption | None = None
    dynamic_dims: GearOption | None = None
    options: Mapping[str, bool | int | str] | None = None
    release: str = field(
        default="cann",
        metadata=_cli(
            "release",
            "cann, or ddk: the early release that the Ascend 310 tuning guide describes, several of the "
            "choices of --option in one (default: cann)",
            choices=("cann", "ddk"),
        ),
    )
    cann: str | None = field(
        default=None,
        metadata=_cli(
            "cann",
            "version of CANN whose kernels run and whose precision modes count: 5.0.2, 5.1.RC1, 7.0 ... "
            "(default: the newest)",
            metavar="VERSION",
        ),
    )
    check: str = field(
        default="chip",
        metadata=_cli(
            "check",
            "what is an error: chip, what the chip cannot do, while what only ATC refuses is a warning; atc, "
            "both, all listed at once (default: chip)",
            choices=CHECKS,
        ),
    )
    graph_kernel_flags: Flags = field(
        default=None,
        metadata=_cli(
            "graph_kernel_flags",
            'flags of graph-kernel fusion: --graph_kernel_flags="--opt_level=1"',
            metavar="TEXT",
        ),
    )
    save_graphs: bool | str | PathLike[str] | None = field(
        default=None,
        metadata=_cli(
            "save_graphs", "folder for Graphviz files of the graph after every stage of fusion", metavar="DIR"
        ),
    )
    optimize: bool | Sequence[str] = field(
        default=True,
        metadata=_cli(
            "optimize", "whether the graph engine optimises the graph around fusion (default: on)", ON_OFF
        ),
    )
    outputs: Sequence[str] | str | None = None
    oo_constant_folding: bool = field(
        default=True,
        metadata=_cli("oo_constant_folding", "whether constants are folded (default: true)", TRUE_FALSE),
    )
    oo_dead_code_elimination: bool = field(
        default=True,
        metadata=_cli(
            "oo_dead_code_elimination",
            "whether branches of constant conditions go (default: true)",
            TRUE_FALSE,
        ),
    )

    @property
    def graphs_folder(self) -> str | PathLike[str] | None:
        """The folder that `save_graphs` means: the working folder for True, as MindSpore has it."""
        if isinstance(self.save_graphs, bool):
            return "." if self.save_graphs else None
        return self.save_graphs

    def changed(self) -> dict[str, Any]:
        """The options that differ from their defaults, by name."""
        return {
            item.name: value
            for item in fields(self)
            if (value := getattr(self, item.name)) != item.default and value is not None
        }

    def plain(self) -> dict[str, str]:
        """The changed options as text, for reports and saved models: chips and passes by name."""
        return {name: _text(value) for name, value in self.changed().items()}

    def __repr__(self) -> str:
        return f"CompileOptions({', '.join(f'{name}={text}' for name, text in self.plain().items())})"

    def __hash__(self) -> int:
        return hash(repr(self))


def cli_options() -> dict[str, Cli]:
    """How options are spelled on the command line, by the name of the field."""
    return {item.name: item.metadata["cli"] for item in fields(CompileOptions) if "cli" in item.metadata}


def default_of(name: str) -> Any:
    """The default of an option."""
    return next(item.default for item in fields(CompileOptions) if item.name == name)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_text(item)}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    name = getattr(value, "name", None)  # a chip or a pass
    return (
        repr(name)
        if isinstance(name, str)
        else repr(str(value))
        if isinstance(value, PathLike)
        else repr(value)
    )
