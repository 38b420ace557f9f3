"""Writes the table of docs/report.md: what reports of some networks weigh, and what they cost to make and to open;
and with a browser a picture of each.

    python scripts/make_report_page.py          # pictures and the browser's figures need tests/requirements-browser.txt
"""

from __future__ import annotations

import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

import ascendsim as asim
from ascendsim.api.result import Result
from ascendsim.report import Report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # tests.support

from tests.support.browser import browser, opened

PAGE, IMAGES = ROOT / "docs" / "report.md", ROOT / "docs" / "images"
BEGIN, END = "<!-- measured -->\n", "<!-- end of measured -->"
ZOOMS = 20


def network(name: str, batch: int | None = None) -> asim.Graph:
    """One of the test models, which are structure alone."""
    return asim.load(ROOT / "tests" / "data" / "models" / f"{name}.onnx", weights="random", batch=batch)


def yolov5s() -> asim.Graph:
    """With the mean square of its maps as result, as the training steps have it."""
    import torch

    from tests.support.yolov5 import Yolov5s

    return asim.from_torch(Yolov5s().eval(), (torch.zeros(1, 3, 640, 640),))


def loop() -> Result:
    """A product that is repeated as often as an input says."""
    size = 256
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size])  # noqa: E731
    flag = lambda name: helper.make_tensor_value_info(name, TensorProto.BOOL, [])  # noqa: E731
    count = helper.make_tensor_value_info("count", TensorProto.INT64, [])
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "weight"], ["product"]),
            helper.make_node("Relu", ["product"], ["next"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [count, flag("go"), value("state")],
        [flag("go_on"), value("next")],
    )
    weight = onnx.numpy_helper.from_array(np.full((size, size), 1 / size, np.float32), "weight")
    trips = helper.make_tensor_value_info("trips", TensorProto.INT64, [])
    node = helper.make_node("Loop", ["trips", "", "x"], ["y"], body=body)
    graph = helper.make_graph([node], "loop", [trips, value("x")], [value("y")], [weight])
    model = asim.compile(
        asim.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])), "Ascend310P3"
    )
    return asim.run(model, {"trips": np.array(8), "x": np.ones((size, size), np.float32)})


def shown() -> Iterator[tuple[str, str, Callable[[], Report]]]:
    """(name of its picture, what it shows, how it is made); simulated before, so that making is timed alone."""
    bert = network("bert_large_s128")
    off, fused = (asim.simulate(asim.compile(bert, "Ascend910A", fusion=level)) for level in ("off", "all"))
    yield "bert_large", "BERT-large s128, Ascend910A", fused.report
    yield (
        "bert_large_compared",
        "the same without and with fusion",
        asim.compare({"off": off, "all": fused}).report,
    )
    recorded = asim.simulate(fused.model, instructions=True)
    yield "bert_large_instructions", "the same with all instructions of a core", recorded.report
    yield (
        "resnet50",
        "ResNet-50 b64, Ascend310P3",
        asim.simulate(asim.compile(network("resnet50", 64), "Ascend310P3")).report,
    )
    yield "yolov5s", "YOLOv5s 640, Ascend310", asim.simulate(asim.compile(yolov5s(), "Ascend310")).report
    llama = asim.compile(network("llama_mini"), "Ascend910B1", schedule="host")
    yield "host", "llama_mini launched by the host, Ascend910B1", asim.simulate(llama).report
    yield "loop", "a Loop of 8 trips, Ascend310P3", loop().report


def in_browser(running: Any, made: Report, name: str, folder: Path) -> tuple[float, float]:
    """CPU seconds of the page's thread until it is ready, and milliseconds a step of zooming; takes the picture."""
    path = folder / "r.html"
    made.save(path)
    with opened(running, path) as page:
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})

        def spent() -> float:
            metrics = session.send("Performance.getMetrics")["metrics"]
            return next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")

        idle = spent()
        page.reload()
        page.wait_for_function("window.asimReport !== undefined")
        ready = spent() - idle
        taken = io.BytesIO(page.screenshot())
        # by coverage: colours of few pixels must not be taken for their neighbours
        few = Image.open(taken).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE)
        few.save(IMAGES / f"report_{name}.png", optimize=True)
        before = spent()
        page.evaluate(f"""async () => {{
            for (let i = 0; i < {ZOOMS}; i++) {{
                asimReport.timeline.zoom(0.8, asimReport.timeline.view()[1] / 3);
                await new Promise(requestAnimationFrame);
            }}
        }}""")
        return ready, (spent() - before) / ZOOMS * 1000


def rows(running: Any) -> Iterator[str]:
    """Rows of the table; pictures are written on the way."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text, make in shown():
            make()  # reads template and scripts once
            started = time.process_time()
            made = make()
            seconds = time.process_time() - started
            ready, frame = in_browser(running, made, name, Path(folder))
            row = f"| {text} | {len(made.html) / 1000:.0f} | {seconds:.2f} | {ready:.2f} | {frame:.0f} |"
            print(row, flush=True)
            yield row


def main() -> None:
    """Renews the page."""
    with browser() as running:
        table = "\n".join(
            [
                "| report of | KB | made in (s) | ready in (s) | a step of zooming (ms) |",
                "|---|---|---|---|---|",
                *rows(running),
            ]
        )
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
