"""Where in the user's model a captured call comes from: the path of its module and the line of Python."""

from __future__ import annotations

import re
import sys
from pathlib import PurePath
from traceback import extract_tb
from types import FrameType
from typing import Any

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n?\s*([^\n]*)')
_INDEX = re.compile(r"\[['\"]?([^\]'\"]+)['\"]?\]")
_LIBRARIES = ("/torch/nn/", "/torch/_", "/torch/utils/", "/torch/autograd/")


def path_of(node: Any) -> str:
    """The path of the module that makes a call, "encoder.layer.0"; "" for the outermost.

    Gradients carry the path of the forward call that they belong to.
    """
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    for name, _ in reversed(stack.values()):
        return tidy(name)
    return ""


def tidy(path: str) -> str:
    """A module path in attribute form, whatever wrote it.

    >>> tidy("L['fn'].encoder.layer[0]"), tidy("L__self___net.conv"), tidy("self")
    ('encoder.layer.0', 'net.conv', '')
    """
    path = re.sub(r"^(?:L\['\w+'\]|L__(?:self|fn)__|self)(?=\.|$|\[|_)[._]*", "", path)
    return _INDEX.sub(r".\1", path).replace("._modules.", ".").strip(".")


def is_gradient(node: Any) -> bool:
    """Whether a call belongs to the backward pass of a joint graph."""
    return "fwd_nn_module_stack" in node.meta or node.meta.get("partitioner_tag") == "is_backward"


def line_of_error(error: BaseException, torch: Any) -> str:
    """The user's line in which PyTorch failed, " at net.py:12, return x.item()"; "" if it is not known."""
    libraries = (str(PurePath(torch.__file__).parent), str(PurePath(__file__).parents[2]))
    for frame in reversed(extract_tb(error.__traceback__)):
        if not frame.filename.startswith((*libraries, "<")):
            return f" at {PurePath(frame.filename).name}:{frame.lineno}, {frame.line}"
    return ""


def line_here(torch: Any) -> str:
    """The innermost of the user's lines that are being run, 'net.py:12'; "" in threads of PyTorch's."""
    libraries = (str(PurePath(torch.__file__).parent), str(PurePath(__file__).parents[2]))
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith((*libraries, "<")):
            return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def line_of(node: Any) -> str:
    """The user's line that makes a call: 'net.py:12, y = self.conv(x)'."""
    trace = node.meta.get("stack_trace") or ""
    frames = _FRAME.findall(trace)
    own = [frame for frame in frames if not any(part in frame[0] for part in _LIBRARIES)]
    for file, number, _, text in reversed(own or frames):
        return f"{PurePath(file).name}:{number}" + (f", {text.strip()}" if text.strip() else "")
    return path_of(node) or "an unknown line"
