"""What workers of sweeps do in tests: they come from a module that a fresh process can import."""

from __future__ import annotations

import os
import signal
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ascendsim.sweep.store import DONE, Answer
from ascendsim.sweep.work import Request

SCRIPT = """
import sys
import ascendsim as asim
model, store, workers = sys.argv[1:]
rates = {"dram.read_gb_per_s": [30, 40]}
asim.sweep(model, batch=list(range(1, 13)), set=rates, store=store, workers=int(workers))
"""  # no `if __name__`: workers must not run it again
SEARCH = """
import sys
import ascendsim as asim
space = {"batch": {"low": 1, "high": 6}, "set": {"dram.read_gb_per_s": {"low": 20, "high": 80}}}
asim.search(sys.argv[1], space, trials=24, store=sys.argv[2], workers=2)
"""


def mortal(request: Request) -> Answer:
    """Dies of a point whose batch is 13, raises at 7, and writes down what it was asked."""
    batch = request.point["batch"]
    with Path(request.point["model"]).open("a") as log:
        log.write(f"{batch} {os.getpid()}\n")
    if batch == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    if batch == 7:
        raise ValueError("seven")
    return Answer(request.key, DONE, {"Time(us)": float(batch)})


def request(key: str, batch: int, log: str = "") -> Request:
    """A request that needs no model."""
    from ascendsim.sweep.work import Source

    point: dict[str, Any] = {"model": log, "soc": "Ascend310", "batch": batch}
    return Request(key, point, Source("m", "d"), "", "")


def main_file() -> str | None:
    """The file of the program that this process thinks it is."""
    return getattr(sys.modules["__main__"], "__file__", None)


@cache
def tiny() -> bytes:
    """An ONNX file of one product and a Relu, which takes a few milliseconds to simulate."""
    import ascendsim as asim
    from ascendsim.frontends.onnx.export import export_onnx

    builder = asim.GraphBuilder("tiny")
    weight = builder.constant(np.ones((64, 64), np.float32), "w")
    builder.output(builder.op("Relu", builder.op("MatMul", builder.input("x", (16, 64)), weight)), "y")
    return export_onnx(builder.build())
