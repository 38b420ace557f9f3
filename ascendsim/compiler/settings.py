"""`CompileOptions`, checked: everything that a compilation asks while it runs, made once and before anything
else happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

from ascendsim import soc as chips
from ascendsim.compiler.cann_versions import with_version
from ascendsim.compiler.composites import GraphKernelFlow, graph_saver
from ascendsim.compiler.eager import EAGER, idle_options
from ascendsim.compiler.fusion import FusionLevel, FusionSettings
from ascendsim.compiler.options import CHECKS, HOST_INPUTS, MIXED, PRECISION_MODES, CompileOptions
from ascendsim.compiler.profile_options import Value, check_release, profile_options
from ascendsim.compiler.scheduling import Scheduling
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.files import path_option
from ascendsim.frontends.aipp import read_aipp_file
from ascendsim.graph.ir import Graph
from ascendsim.lower import KnownUnits
from ascendsim.ops import opset_with
from ascendsim.opset import OpSet
from ascendsim.passes.aipp import AippSettings, DynamicAipp
from ascendsim.passes.engine import EngineSettings, pass_names
from ascendsim.passes.gears import GearOption
from ascendsim.passes.gears.settings import KINDS, Kind
from ascendsim.passes.host_reads import names_of
from ascendsim.passes.precision.forms import forms_of
from ascendsim.passes.precision.lists import KeepList, MixList, read_keep, read_mix
from ascendsim.passes.precision.output_type import check_form
from ascendsim.soc import SocSpec
from ascendsim.soc.arithmetic import in_mode


@dataclass(frozen=True)
class Settings:
    """Options of one compilation, checked.

    Attributes:
        options: As they were given.
        opset: Operators, the user's own among them.
        soc: The chip, changes applied.
        scheduling: Who launches tasks, streams, memory, order.
        engine: Which passes of the graph engine run.
        profile: Profile options, defaults filled in.
        fusion: Level, switches and own passes.
        composites: Flow of graph-kernel fusion, None in others.
        aipp: AIPP operators of a file.
        gears: The one of ATC's gear options that is given, by name; empty if none is.
        forms: Forms of kernels that options choose, by CANN's operator type.
        keep: Operators that stay in float32.
        mix: Changes to the lists of allow_mix_precision.
        units: What was lowered so far; all pieces of a graph look here, so that a loop whose shapes change
            lowers only what it has not met before.
    """

    options: CompileOptions
    opset: OpSet
    soc: SocSpec
    scheduling: Scheduling
    engine: EngineSettings
    profile: Mapping[str, Value]
    fusion: FusionSettings
    composites: GraphKernelFlow | None
    aipp: tuple[AippSettings | DynamicAipp, ...]
    gears: Mapping[Kind, GearOption]
    forms: Mapping[str, str] = field(default_factory=dict)
    keep: KeepList = field(default_factory=KeepList)
    mix: MixList = field(default_factory=MixList)
    units: KnownUnits = field(default_factory=KnownUnits)

    @classmethod
    def of(cls, options: CompileOptions, single_kernel: bool = False) -> Settings:
        """Checks options.

        Args:
            options: To be checked.
            single_kernel: Whether the graph is a composite file, which stays as it was generated.

        Raises:
            SocError: If the chip or a change is not valid, or the chip lacks figures that a run needs.
            InputError: If an option, a file or a pass breaks a rule.
        """
        opset = opset_with(options.operators)
        soc = with_version(_chip(options), options.cann)
        chips.require_runnable(soc)
        soc = in_mode(soc, options.inf_nan_mode_enable)
        scheduling = Scheduling.of(
            options.schedule,
            options.enable_single_stream,
            options.multi_stream_parallel_mode,
            options.topo_sorting_mode,
            options.disable_reuse_memory,
        )
        engine = EngineSettings.of(
            options.optimize,
            pass_names(opset),
            options.oo_level,
            options.oo_constant_folding,
            options.oo_dead_code_elimination,
        )
        if options.precision_mode not in PRECISION_MODES:
            remedy = suggest(str(options.precision_mode), PRECISION_MODES)
            raise InputError(
                "option precision_mode", "must be a mode of ATC", repr(options.precision_mode), remedy
            )
        if options.modify_mixlist is not None and options.precision_mode != MIXED:
            raise InputError(
                "option modify_mixlist", f"goes with precision_mode {MIXED}", options.precision_mode
            )
        for name, known in (("host_inputs", HOST_INPUTS), ("check", CHECKS)):
            given = getattr(options, name)
            if given not in known:
                rule = f"must be one of {', '.join(known)}"
                raise InputError(f"option {name}", rule, repr(given), suggest(str(given), known))
        if names_of(options.host_reads) and options.schedule == "sink":
            rule, remedy = "is for graphs that the host launches", 'set schedule to "host" or "eager"'
            raise InputError("option host_reads", rule, 'schedule "sink"', remedy)
        check_form(options.output_type)
        aipp = (
            ()
            if options.insert_op_conf is None
            else read_aipp_file(path_option("insert_op_conf", options.insert_op_conf))
        )
        gears = {name: value for name in KINDS if (value := getattr(options, name)) is not None}
        if len(gears) > 1:
            raise InputError(f"options {', '.join(gears)}", "exclude each other", remedy="give one of them")
        check_release(options.release, soc.short_name)
        profile = profile_options(options.options, options.release)
        profile_given = {name: profile[name] for name in options.options or {}}
        idle: list[str] = []
        asked, passes, cause = options.fusion, options.passes, f"fusion={options.fusion}"
        composites = GraphKernelFlow.of(asked, options.graph_kernel_flags, options.graphs_folder, opset)
        if scheduling.mode == EAGER:
            if composites is None:
                FusionLevel.of(asked)  # a name that does not exist is refused in any mode
            idle.extend(idle_options(options))
            asked, passes, cause, composites = "off", (), f"schedule={EAGER}", None
        level = asked if composites is None else composites.graph_level(single_kernel)
        if composites is not None and "ub_limits" not in (options.options or {}):
            profile["ub_limits"] = "MindSpore"
        fusion = FusionSettings.of(
            level,
            options.fusion_switch_file,
            passes,
            options.optimization_switch,
            options.oo_level,
            buffer_optimize=options.buffer_optimize,
            cause=cause,
        )
        if idle:
            switches = replace(fusion.switches, warnings=(*fusion.switches.warnings, *idle))
            fusion = replace(fusion, switches=switches)
        if not isinstance(options.soc, SocSpec) and (text := chips.name_warning(soc)):
            switches = replace(fusion.switches, warnings=(text, *fusion.switches.warnings))
            fusion = replace(fusion, switches=switches)
        dump = None if options.graphs_folder is None else graph_saver(options.graphs_folder)
        return cls(
            options,
            opset,
            soc,
            scheduling,
            engine,
            profile,
            replace(fusion, options=profile, given=profile_given, dump=dump),
            composites,
            aipp,
            gears,
            forms_of(
                options.op_select_implmode, options.optypelist_for_implmode, options.op_precision_mode, opset
            ),
            read_keep(options.keep_dtype),
            read_mix(options.modify_mixlist),
        )

    def check_names(self, graph: Graph, opset: OpSet) -> None:
        """Makes sure that the user's graph has the operators that options name.

        Raises:
            InputError: If it has not.
        """
        self.keep.check(graph, opset)
        self.mix.check(graph, opset)

    def for_piece(self, **changes: Any) -> Settings:
        """Settings for a piece of the graph: what concerned the whole graph is done, `changes` are options of
        the piece's own.
        """
        done = dict.fromkeys((*KINDS, "insert_op_conf", "outputs"))
        options = replace(self.options, **{**done, **changes})
        fusion, composites = self.fusion, self.composites
        folder = options.graphs_folder
        if folder != self.options.graphs_folder and folder is not None:
            fusion = replace(fusion, dump=graph_saver(folder))
            composites = None if composites is None else composites.saving(folder)
        return replace(self, options=options, fusion=fusion, composites=composites, aipp=(), gears={})

    def scheduled(self, schedule: str) -> Settings:
        """The same with another launcher of tasks."""
        if schedule == self.options.schedule:
            return self
        options = replace(self.options, schedule=schedule)
        scheduling = Scheduling.of(
            schedule,
            options.enable_single_stream,
            options.multi_stream_parallel_mode,
            options.topo_sorting_mode,
            options.disable_reuse_memory,
        )
        return replace(self, options=options, scheduling=scheduling)


def _chip(options: CompileOptions) -> SocSpec:
    soc: str | PathLike[str] | SocSpec = options.soc
    overrides, cores = dict(options.set or {}), options.aicore_num
    if isinstance(soc, SocSpec):
        if not overrides and cores is None:
            return soc
        remedy = "apply the changes with ascendsim.soc.load(name, overrides)"
        raise InputError("option set", "needs the chip by name or file", "a SocSpec", remedy)
    if cores is not None:
        available = chips.load(soc).ai_cores
        if not 1 <= cores <= available:
            raise InputError("option aicore_num", f"must be between 1 and {available} on this chip", cores)
        overrides["ai_cores"] = cores
    return chips.load(soc, overrides or None)
