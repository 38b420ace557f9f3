"""Images in front of a network: what the Ctrl CPU and DVPP do for each, and the network once a batch.

    image    Ctrl CPU: Request (or Decode of a file that JPEGD does not take) -> JPEGD -> VPC
    batch    Ctrl CPU: Execute -> the network

Every thread of the Ctrl CPU and every channel of DVPP is a stream that takes images in turn, so that they
work on images of later batches while the network runs: at most `_AHEAD` images a channel are under way. One
core of the Ctrl CPU starts the network; where no AIPP takes the image itself, that core normalises the pixels
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ascendsim.core.errors import ONE_BY_ONE, InputError
from ascendsim.images.forms import PLANES, ImageForm
from ascendsim.images.pictures import JPEGD, SOFTWARE, Picture
from ascendsim.isa.program import Program, Task, TaskKind
from ascendsim.soc.spec import SocSpec

_PIXELS_1080P = 1920 * 1080
_AHEAD = 2  # one that a channel works on, one that is ready or waits for it (assumed)
_NORMALISE = 2.0  # operations an element: subtract and divide


def with_images(program: Program, soc: SocSpec, form: ImageForm, given: Sequence[Picture]) -> Program:
    """The program of a network that runs over images, one batch after the other.

    Args:
        program: Of one execution.
        soc: The chip.
        form: The input that takes the images.
        given: A whole number of batches.

    Raises:
        InputError: If the chip's DVPP is not known, or the last batch is not full.
    """
    if len(given) % form.batch:
        rule, remedy = f"must fill batches of {form.batch}", f"add images; {ONE_BY_ONE}"
        raise InputError("option images", rule, f"{len(given)} images", remedy)
    runs, tasks = len(given) // form.batch, len(program.tasks)  # numbers of tasks are their places
    stream = 1 + max((task.stream for task in program.tasks), default=0)
    stage = _Stage(program, soc, form, runs * tasks, stream)
    for number, picture in enumerate(given):
        stage.prepare(number, picture)
        if (number + 1) % form.batch == 0:
            stage.execute(number // form.batch)
    numbers = {
        node: tuple(run * tasks + one for run in range(runs) for one in ids)
        for node, ids in program.info.tasks_of.items()
    }
    made = replace(program, tasks=(*stage.before, *stage.network))
    return made.noting(tasks_of=numbers, runs=runs)


@dataclass
class _Stage:
    """The program as it grows.

    Attributes:
        number: Id of the next task of DVPP or the Ctrl CPU; those of the network come first.
        stream: Of the Ctrl CPU's core that starts the network; threads and channels have those behind it.
        before, network: Tasks made so far; those of images stand first, as no launch of the host is for them.
        ready: Tasks after which the images of the batch at hand are there.
        decoded: Images that JPEGD has taken.
    """

    program: Program
    soc: SocSpec
    form: ImageForm
    number: int
    stream: int
    before: list[Task] = field(default_factory=list)
    network: list[Task] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    decoded: int = 0

    def __post_init__(self) -> None:
        dvpp, cpu = self.soc.dvpp, self.soc.ctrl_cpu
        figures = (dvpp.jpegd_channels, dvpp.jpegd_fps_1080p, dvpp.vpc_channels, dvpp.vpc_fps_1080p)
        if any(figure is None for figure in figures):
            remedy = "set dvpp.jpegd_channels, jpegd_fps_1080p, vpc_channels and vpc_fps_1080p"
            raise InputError(self.soc.name, "has no known DVPP, so that it takes no images", remedy=remedy)
        self._decoders, self._resizers = dvpp.jpegd_channels or 1, dvpp.vpc_channels or 1
        self._decode_fps, self._resize_fps = dvpp.jpegd_fps_1080p or 1.0, dvpp.vpc_fps_1080p or 1.0
        self._threads = max(1, cpu.cores - 1)
        self._under_way = _AHEAD * max(self._decoders, self._resizers, self.form.batch)
        self._tasks = len(self.program.tasks)
        streams = {task.stream: task.id for task in self.program.tasks}
        self._last = tuple(streams.values())

    def prepare(self, number: int, picture: Picture) -> None:
        """The image's way to the memory that the network reads."""
        cpu, pixels = self.soc.ctrl_cpu, picture.pixels
        late = number - self._under_way  # the network has taken this one, so that there is room
        room = self._ends(late // self.form.batch) if late >= 0 else ()
        thread = self.stream + 1 + number % self._threads
        us, name = cpu.request_us, "Request"
        if picture.decoder == SOFTWARE:
            us, name = us + _us(pixels, cpu.decode_fps_1080p), "Decode"
        last = self._add(f"{name}_{number}", TaskKind.CTRL_CPU, thread, us, room)
        if picture.decoder == JPEGD:
            channel = self.stream + 1 + self._threads + self.decoded % self._decoders
            last = self._add(
                f"JPEGD_{number}", TaskKind.DVPP, channel, _us(pixels, self._decode_fps), (last,)
            )
            self.decoded += 1
        channel = self.stream + 1 + self._threads + self._decoders + number % self._resizers
        larger = max(pixels, self.form.height * self.form.width)
        us = _us(larger, self._resize_fps)
        self.ready.append(self._add(f"VPC_{number}", TaskKind.DVPP, channel, us, (last,)))

    def execute(self, run: int) -> None:
        """One execution of the network, behind the one before it and behind its images."""
        us, cpu = self.soc.ctrl_cpu.request_us, self.soc.ai_cpu
        ready, self.ready = tuple(self.ready), []
        if self.form.form == PLANES:
            form = self.form
            elements = form.batch * form.channels * form.height * form.width
            # the cores of both CPUs are alike
            normalise = _NORMALISE * elements / cpu.elements_per_us
            ready = (self._add(f"Normalise_{run}", TaskKind.CTRL_CPU, self.stream, normalise, ready),)
        start = self._add(f"Execute_{run}", TaskKind.CTRL_CPU, self.stream, us, ready)
        offset, seen = run * self._tasks, set[int]()
        for task in self.program.tasks:
            waits = tuple(offset + other for other in task.waits_for)
            if task.stream not in seen:
                seen.add(task.stream)
                waits += (start, *(self._ends(run - 1) if run else ()))
            self.network.append(replace(task, id=offset + task.id, waits_for=waits))

    def _ends(self, run: int) -> tuple[int, ...]:
        """The last tasks of an execution, one a stream."""
        return tuple(run * self._tasks + last for last in self._last)

    def _add(self, name: str, kind: TaskKind, stream: int, us: float, waits_for: Sequence[int]) -> int:
        task = Task(self.number, name, kind, stream, waits_for=tuple(waits_for), known_us=us)
        self.before.append(task)
        self.number += 1
        return task.id


def _us(pixels: int, fps: float) -> float:
    """Time of an image at a rate that is given for 1920 x 1080."""
    return 1e6 / fps * pixels / _PIXELS_1080P
