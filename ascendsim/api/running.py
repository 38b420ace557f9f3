"""`simulate` (timing) and `run` (timing and values)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Literal

from ascendsim.api.image_runs import ImageRun, joined, other_inputs
from ascendsim.api.result import DataParallel, Result
from ascendsim.compiler.before import known_runs
from ascendsim.compiler.dynamic import DynamicModel, with_shapes
from ascendsim.compiler.dynamic_inputs import checked_choices, user_arrays
from ascendsim.compiler.model import CompiledModel
from ascendsim.compiler.naming import TaskNames
from ascendsim.core.arguments import check_seed, checked
from ascendsim.core.errors import InputError, suggest
from ascendsim.core.stopwatch import on_values
from ascendsim.graph.ir import Array
from ascendsim.images.forms import IMAGENET_MEAN, IMAGENET_STD, Fit
from ascendsim.images.pictures import Images
from ascendsim.machine import run as run_machine
from ascendsim.runtime import checked_inputs, evaluate
from ascendsim.runtime import random_inputs as _random_inputs
from ascendsim.runtime.host_run import Choices
from ascendsim.runtime.tiles import Lacking
from ascendsim.runtime.watch import Watch
from ascendsim.soc.collectives import BUCKET_BYTES
from ascendsim.soc.servers import server_for
from ascendsim.training.data_parallel import with_all_reduces

Progress = Callable[[int, int], None]
SHAPES = 'write shapes={"input": (1, 3, 224, 224)}'
SHORTCUTS = ("fast_forward", "groups", "replay", "solo")  # of the machine; none of them changes a result


@checked(
    model="asim.compile makes one",
    shapes=SHAPES,
    branches='write branches={"node": "then"}',
    trips='write trips={"node": 10}',
)
def simulate(
    model: CompiledModel,
    *,
    images: Images | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    branches: Mapping[str, str | int] | None = None,
    trips: Mapping[str, int] | None = None,
    instructions: bool | str | Iterable[str] = False,
    progress: Progress | None = None,
    shortcuts: Iterable[str] = SHORTCUTS,
    devices: int = 1,
    server: str | PathLike[str] | None = None,
    bucket_bytes: int = BUCKET_BYTES,
) -> Result:
    """Runs a compiled model on the simulated chip: timing only, needs no weights.

    Args:
        model: From `compile`.
        images: As in `run`: the time of all of them, through DVPP and the network.
        shapes: Shapes of inputs by name, for a model with open shapes.
        branches: For a model with control flow: by node name the branch that runs, "then" or "else" of an If,
            the number of a Case, where a value decides.
        trips: The same for loops: number of iterations by node name. Without it a Loop runs as often as its
            own limit says.
        instructions: True records every instruction of every task; names record those tasks only (any name
            that `CompiledModel.tasks_of` takes).
        progress: Called with (tasks done, tasks in all).
        shortcuts: Which shortcuts the machine takes: "fast_forward" skips the periods of a machine that
            repeats itself, "groups" simulates equal blocks that start together once, "replay" looks up tasks
            that ran before from the same state, and "solo" beside it has compiled code walk those that did
            not. They save time and change no result, so that leaving one out is a check of it
            (docs/performance.md).
        devices: Chips that train together, each on a batch of its own; the result is that of one of them,
            with the all-reduces of the gradients (`result.communication()`).
        server: What they are in: a name ("Atlas 800 9000") or the path of a TOML file. With one device it is
            checked, and changes nothing.
        bucket_bytes: Gradients that are reduced together, at most.

    Raises:
        GraphError: If nothing has a name in `instructions`.
        InputError: If shapes, branches or numbers of iterations are missing or do not fit; if no server has
            so many devices, or several are to run what is no training step.
        SimulationError: If the program deadlocks.
    """
    taken = _checked_shortcuts(shortcuts)
    for option, count in (("devices", devices), ("bucket_bytes", bucket_bytes)):
        if count < 1:
            raise InputError(f"option {option}", "must be a whole number from 1 on", count)
    if server is not None:  # of one device too, for which it changes nothing
        server_for(devices, server, model.soc.short_name)
    if images is not None:
        if devices > 1 or shapes or branches or trips:
            raise InputError("option images", "goes with none of shapes, branches, trips and devices")
        ready = ImageRun.of(model, images, other_inputs(model))
        return replace(_timed(ready.model(), instructions, progress, taken), image_run=ready)
    if devices > 1:
        return _parallel(
            model,
            instructions,
            progress,
            taken,
            devices=devices,
            server=server,
            bucket_bytes=bucket_bytes,
        )
    if isinstance(model, DynamicModel):
        choices = checked_choices(model.graph, branches, trips)
        model, _ = model.execute(model.shapes_of(shapes or {}), None, choices, progress)
    elif shapes or branches or trips:
        raise InputError(
            "options shapes, branches and trips",
            "go with open shapes or control flow",
            remedy="this model has neither",
        )
    return _timed(model, instructions, progress, taken)


def _checked_shortcuts(shortcuts: Iterable[str]) -> frozenset[str]:
    names = (shortcuts,) if isinstance(shortcuts, str) else tuple(shortcuts)
    for name in names:
        if name not in SHORTCUTS:
            raise InputError(
                "option shortcuts",
                f"must be out of {', '.join(SHORTCUTS)}",
                repr(name),
                suggest(str(name), SHORTCUTS),
            )
    return frozenset(names)


def _parallel(
    model: CompiledModel,
    instructions: bool | str | Iterable[str],
    progress: Progress | None,
    shortcuts: frozenset[str],
    *,
    devices: int,
    server: str | PathLike[str] | None,
    bucket_bytes: int,
) -> Result:
    spec = server_for(devices, server, model.soc.short_name)
    if type(model) is not CompiledModel:
        rule = "must have fixed shapes and no control flow to run on several devices"
        raise InputError(f"model {model.source.name!r}", rule, remedy="devices=1")
    single = _timed(model, False, None, shortcuts).duration_us
    program = with_all_reduces(model.graph, model.program, spec, devices, bucket_bytes)
    result = _timed(replace(model, program=program), instructions, progress, shortcuts)
    return replace(result, parallel=DataParallel(devices, spec.name, single))


def _timed(
    model: CompiledModel,
    instructions: bool | str | Iterable[str],
    progress: Progress | None,
    shortcuts: frozenset[str],
) -> Result:
    wanted: bool | frozenset[int]
    if isinstance(instructions, bool):
        wanted = instructions
    else:
        names = (instructions,) if isinstance(instructions, str) else tuple(instructions)
        known = TaskNames(model.graph, model.program)
        wanted = frozenset(task.id for name in names for task in known.tasks(name))
    trace = run_machine(
        model.program,
        model.soc,
        instructions=wanted,
        groups="groups" in shortcuts,
        fast_forward="fast_forward" in shortcuts,
        replay="replay" in shortcuts,
        solo="solo" in shortcuts,
        known=known_runs(model.soc) if shortcuts == set(SHORTCUTS) else None,
        progress=progress,
    )
    return Result(model, trace)


def _timed_once(
    model: CompiledModel,
    instructions: bool | str | Iterable[str],
    progress: Progress | None,
    shortcuts: frozenset[str],
) -> Result:
    """`_timed` for a run with values, which may have been timed with others before."""
    if instructions is not False:  # records of instructions are too large to keep
        return _timed(model, instructions, progress, shortcuts)
    if shortcuts not in model.timed:
        model.timed[shortcuts] = _timed(model, False, progress, shortcuts).trace
    return Result(model, model.timed[shortcuts])


@checked(model="asim.compile makes one", inputs='pass {"input": array}, or asim.random_inputs(model)')
def run(
    model: CompiledModel,
    inputs: Mapping[str, Any] | None = None,
    *,
    images: Images | None = None,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    fit: Fit = "stretch",
    values: Literal["device", "float32", "tile"] = "device",
    lacking: Lacking = "refuse",
    instructions: bool | str | Iterable[str] = False,
    progress: Progress | None = None,
    shortcuts: Iterable[str] = SHORTCUTS,
) -> Result:
    """Runs a compiled model on the simulated chip and computes its outputs.

    What the arithmetic did to the numbers is in `result.numerics`: overflows, zeros and digits lost.

    Args:
        model: From `compile`.
        inputs: Arrays by graph input name, in the model's own types; what NumPy makes arrays of, or
            `onnx.TensorProto`.
        images: Instead of the one input that takes images: a folder or file, bytes of a file, arrays of uint8
            pixels, or a sequence of these; a whole number of batches. DVPP decodes and resizes them while
            the network works on those before, and the outputs of all batches stand one behind the other.
        mean: Taken off each channel of an image, in units of 0 to 255; one number stands for all. Both only
            where no AIPP takes the image itself.
        std: What each channel is divided by then.
        fit: How an image of other proportions comes to the input's size: "stretch", or "crop" its middle.
        values: "device" computes as the chip would (float16 with float32 accumulation on the Cube, one
            float16 rounding an operator on Vector); "float32" in the model's own types; "tile" as "device",
            by the blocks that were timed: every transfer and product with its addresses
            (docs/tile_values.md). The result then has no `numerics`.
        lacking: What becomes of tasks whose blocks do not say what they do, with values="tile": "refuse" =
            an error that lists them by operator, "operators" = they are computed as with "device".
        instructions: As in `simulate`.
        progress: As in `simulate`; counts the timing first, unless an earlier run of the model has done it,
            then the values.
        shortcuts: As in `simulate`.

    Raises:
        InputError: If an input is missing, unknown, or of the wrong shape or type.
        GraphError: If a weight has no values.
    """
    arrays = user_arrays(inputs or {})
    taken = _checked_shortcuts(shortcuts)
    if values == "tile":
        if images is not None:
            raise InputError("values tile by tile", "need one batch of arrays", remedy='values="device"')
        return _tile_by_tile(model, arrays, lacking, instructions, progress, taken)
    if images is not None:
        over = ImageRun.of(model, images, arrays)
        ready = over.model()
        batches = [checked_inputs(model.graph, {**arrays, **batch}) for batch in over.batches(mean, std, fit)]
        timed = replace(_timed(ready, instructions, progress, taken), image_run=over)
        return _with_values(timed, model, batches, values, progress)
    if isinstance(model, DynamicModel):
        watch = Watch(model.opset)
        ran, found = model.execute(model.values_of(arrays), values, Choices(), progress, watch)
        watch.end(found or {})
        return Result(ran, _timed(ran, instructions, progress, taken).trace, found, watch.report())
    arrays = checked_inputs(model.graph, arrays)  # before the machine has spent its time
    result = _timed_once(model, instructions, progress, taken)
    return _with_values(result, model, [arrays], values, progress)


def _tile_by_tile(
    model: CompiledModel,
    inputs: Mapping[str, Array],
    lacking: Lacking,
    instructions: bool | str | Iterable[str],
    progress: Progress | None,
    shortcuts: frozenset[str],
) -> Result:
    from ascendsim.api.tile_values import check_lacking, tiles_of

    tiles = tiles_of(model)
    check_lacking(tiles, model, lacking)
    arrays = checked_inputs(model.graph, inputs)
    result = _timed_once(model, instructions, progress, shortcuts)
    order = [one.task for one in result.trace.tasks]
    with on_values:
        found = evaluate(
            model.graph,
            model.program,
            model.opset,
            order,
            arrays,
            half=model.float16,
            progress=progress,
            tiles=tiles,
        )
    return replace(result, values=found)


def _with_values(
    result: Result,
    model: CompiledModel,
    batches: Sequence[Mapping[str, Array]],
    values: Literal["device", "float32"],
    progress: Progress | None,
) -> Result:
    """A timed result with the outputs of its executions, each in the order in which its tasks ended."""
    tasks = len(model.program.tasks)
    watch = Watch(model.opset)
    found: list[dict[str, Array]] = []
    orders: dict[int, list[int]] = {}  # tasks of each execution
    for one in result.trace.tasks:
        orders.setdefault(one.task // max(tasks, 1), []).append(one.task % max(tasks, 1))
    for number, arrays in enumerate(batches):
        with on_values:
            found.append(
                evaluate(
                    model.graph,
                    model.program,
                    model.opset,
                    orders.get(number, []),
                    arrays,
                    values=values,
                    half=model.float16,
                    progress=progress,
                    watch=watch,
                )
            )
            watch.end(found[-1], model.graph.tensors)
    outputs = found[0] if result.image_run is None else joined(found, result.image_run.form.batch)
    return replace(result, values=outputs, watched=watch.report())


@checked(model="asim.compile makes one", shapes=SHAPES)
def random_inputs(
    model: CompiledModel, seed: int = 0, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> dict[str, Array]:
    """Seeded inputs for a model: standard normal floats, integers 0 or 1.

    Args:
        model: From `compile`.
        seed: Seed of the generator; equal seeds give equal bytes.
        shapes: Shapes of inputs by name, for a model with open shapes.

    Raises:
        InputError: If a shape is open and not given, or does not fit.
    """
    check_seed(seed)
    return _random_inputs(with_shapes(model, shapes), seed)
