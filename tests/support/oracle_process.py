"""onnx's checker and onnxruntime in a process of their own: odd files can end the process that runs them
(a division of integers by zero), or keep it for ever.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

Array = Any
SECONDS = 10.0  # for one file, before it counts as one that cannot be run


@dataclass(frozen=True)
class Answer:
    """What onnx and onnxruntime say of a file.

    Attributes:
        checker: Why onnx's checker, with shape inference, refuses it; empty if it does not.
        runtime: Why onnxruntime refuses it, or fails on it; empty if it ran.
        outputs: By name, if it ran.
    """

    checker: str = ""
    runtime: str = ""
    outputs: dict[str, Array] = field(default_factory=dict)

    @property
    def ran(self) -> bool:
        """Whether onnxruntime has outputs."""
        return not self.runtime

    @property
    def invalid(self) -> str:
        """Why it is no valid model; empty if it is one, or if onnxruntime only has no kernel for it."""
        if self.runtime and "NOT_IMPLEMENTED" not in self.runtime:
            return self.runtime
        return self.checker if self.runtime else ""


class Oracle:
    """Asks them about one file after another. A context manager."""

    def __init__(self) -> None:
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def ask(self, model: bytes, inputs: dict[str, Array]) -> Answer:
        """What they say of a file and arrays for its inputs."""
        if self._process is None:
            self._start()
        assert self._pipe is not None
        try:
            self._pipe.send((model, inputs))
            if self._pipe.poll(SECONDS):
                answer = self._pipe.recv()
                assert isinstance(answer, Answer)
                return answer
            reason = "does not end"
        except (EOFError, OSError):
            reason = "ends the process"
        self._stop()
        return Answer(runtime=reason)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def _stop(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.terminate()
            self._process.join()
        self._pipe = self._process = None


def _serve(pipe: Connection) -> None:
    while True:
        try:
            model, inputs = pipe.recv()
        except EOFError:
            return
        pipe.send(_answer(model, inputs))


def _answer(model: bytes, inputs: dict[str, Array]) -> Answer:
    import onnx
    import onnxruntime

    checker = runtime = ""
    outputs: dict[str, Array] = {}
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        if "Field 'type' of 'value_info'" not in str(error):  # outputs that are not declared
            checker = f"{type(error).__name__}: {error}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_outputs()]
        wanted = {value.name for value in session.get_inputs()}
        given = {name: array for name, array in inputs.items() if name in wanted}
        outputs = dict(zip(names, session.run(None, given), strict=True))
    except Exception as error:
        runtime = f"{type(error).__name__}: {error}"
    return Answer(checker, runtime, outputs)
