"""`advise`: simulates a model, finds where levers could be pulled, and simulates each change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from ascendsim.advise.advice import Advice, Proposal, joined_settings
from ascendsim.advise.alternatives import Alternative, Trier, is_static, timer
from ascendsim.advise.formats import forced, transdata
from ascendsim.advise.rules import element_by_element, slow_operators
from ascendsim.api.compiling import compile
from ascendsim.api.result import Result
from ascendsim.api.running import simulate
from ascendsim.compiler.dynamic import DynamicModel
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.options import MIXED, PRECISION_MODES
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.ops.shared.aicpu import ai_cpu_rules
from ascendsim.opset.work import LowerContext
from ascendsim.passes.levers import LEVERS, Lever, LeverContext, Site, apply_lever, find_sites
from ascendsim.profiling.view import ProfiledRun
from ascendsim.soc import SocSpec

_HALF_MODES = (PRECISION_MODES[0], MIXED)  # in which floats that are sorted become float16, or may
LEAST_GAIN = 0.005  # share of the time below which a change does not count as a gain


@checked(graph="asim.load and asim.GraphBuilder make one")
def advise(
    graph: Graph,
    soc: str | PathLike[str] | SocSpec = "Ascend310",
    *,
    trials: int = 8,
    at_batch: Callable[[int], Graph] | None = None,
    alternatives: bool = True,
    shapes: Mapping[str, Sequence[int]] | None = None,
    branches: Mapping[str, str | int] | None = None,
    trips: Mapping[str, int] | None = None,
    **settings: Any,
) -> Advice:
    """Finds what makes a model slow on a chip and what changing the model would bring.

    Every proposal is compiled and simulated: its gain is that of the whole model with this change alone.

    Args:
        graph: From `load` or `GraphBuilder`; stays as it is.
        soc: Chip, as for `compile`.
        trials: A lever with at most that many sites is tried at each of them alone, and those that do not pay
            are left out; with more sites it is tried at all of them at once.
        at_batch: Loads the model at another batch (`lambda n: asim.load(path, batch=n)`), to try more.
        alternatives: Whether to try batch, AIPP, float16 inputs, streams and int8 (at most six runs).
        shapes, branches, trips: As for `simulate`, for models with open shapes or control flow.
        settings: Further arguments of `compile`: fusion, precision_mode, options ...

    Raises:
        InputError: If `trials` is negative, or `compile` refuses a setting.
        AscendSimError: As `compile` and `simulate`.
    """
    if trials < 0:
        raise InputError("option trials", "must not be negative", trials)

    def simulated(model: CompiledModel) -> Result:
        return simulate(model, shapes=shapes, branches=branches, trips=trips)

    compiled = compile(graph, soc, **settings)
    baseline = simulated(compiled)
    before = baseline.duration_us
    run = baseline.profile
    options = dict(settings.get("options") or {})
    single = element_by_element(run)
    listed = bool(options.get("transpose_white_list", True))
    causes = forced(run)
    chip = baseline.model.soc
    rules = ai_cpu_rules(chip.kernels.ai_cpu_table)
    context = LeverContext(
        baseline.model.opset,
        _on_ai_cpu(graph, run),
        {} if listed else single,
        {cause.names[-1]: cause.kind for one in causes for cause in one.causes},
        LowerContext.of(chip, rules, options),
        settings.get("precision_mode", PRECISION_MODES[0]) in _HALF_MODES,
    )

    def timed(lever: Lever, sites: tuple[Site, ...]) -> float:
        changed = apply_lever(graph, lever, context, {site.node for site in sites}).graph
        return simulated(compile(changed, soc, **joined_settings(settings, lever.settings))).duration_us

    proposals: list[Proposal] = []
    declined: list[tuple[str, str, str]] = []
    for lever in LEVERS:
        if any(settings.get(name) is not None for name in lever.settings if name != "options"):
            continue  # the user has decided on it
        if "output_type" in lever.settings and isinstance(compiled, DynamicModel):
            continue  # the option does not go with open shapes or control flow
        sites = find_sites(graph, lever, context)
        declined += [(lever.name, site.node, site.reason) for site in sites if not site.possible]
        possible = tuple(site for site in sites if site.possible)
        if 1 < len(possible) <= trials and not lever.settings:
            alone = {site: timed(lever, (site,)) for site in possible}
            declined += [
                (lever.name, site.node, _no_gain(before, us))
                for site, us in alone.items()
                if not _pays(before, us)
            ]
            possible = tuple(site for site in possible if _pays(before, alone[site]))
        if not possible:
            continue
        after = timed(lever, possible)
        if _pays(before, after):
            proposals.append(Proposal(lever.name, lever.title, possible, before, after, lever.settings))
        else:
            declined.append((lever.name, possible[0].node, _no_gain(before, after)))
    others: tuple[Alternative, ...] = ()
    if alternatives and is_static(compiled):
        trier = Trier(graph, baseline.model.opset, settings, before, timer(simulated, soc), at_batch)
        others = trier.all()
    proposals.sort(key=lambda proposal: (-proposal.gain_us, proposal.lever))
    return Advice(
        graph,
        baseline.model.soc.name,
        before,
        slow_operators(run, single, listed),
        baseline.op_statistic(task_ids=True),
        baseline.ai_core_metrics(),
        tuple(proposals),
        tuple(declined),
        context,
        options,
        transdata(run),
        others,
    )


def _pays(before: float, after: float) -> bool:
    return before - after > LEAST_GAIN * before


def _no_gain(before: float, after: float) -> str:
    return f"does not pay: {before:.1f} us before, {after:.1f} us after"


def _on_ai_cpu(graph: Graph, run: ProfiledRun) -> frozenset[str]:
    """The user's operators among those that ran on the AI CPU."""
    names = {node.name for node in graph.nodes}
    return frozenset(
        node.name for view in run.tasks if not view.on_ai_core for node in view.nodes if node.name in names
    )
