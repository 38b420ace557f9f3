"""DVPP and the Ctrl CPU on the clock: the rates that CANN's tables give, and the network beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.api.result import Result
from ascendsim.api.running import SHORTCUTS
from ascendsim.core.errors import InputError
from ascendsim.profiling import chrome_trace
from ascendsim.soc import SocSpec
from tests.support.pictures import file_of, smooth

SMALL = np.zeros((1080, 1920, 3), np.uint8)
JPEG = file_of(SMALL, "JPEG")

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def network(
    size: int = 32, batch: int = 1, soc: str | SocSpec = "Ascend310", channels: int = 16, **options: Any
) -> Any:
    builder = asim.GraphBuilder()
    x = builder.input("x", (batch, 3, size, size))
    kernel = builder.weight("w", (channels, 3, 3, 3))
    builder.output(builder.op("Relu", builder.op("Conv", x, kernel, name="conv")), "y")
    return asim.compile(builder.build(), soc, **options)


def column(result: Result, name: str) -> list[Any]:
    return [row[name] for row in result.images().records()]


@pytest.mark.parametrize(
    ("soc", "jpegd", "vpc"),
    [
        ("Ascend310", 256, 1440),
        ("Ascend310P3", 2048, 4320),
        ("Ascend310B1", 512, 1600),
        ("Ascend910B1", 14336, 14400),
    ],
)
def test_images_a_second_are_those_of_the_tables(soc: str, jpegd: int, vpc: int) -> None:
    """Frame rates of all channels at 1920 x 1080, by CANN's documentation of media data processing."""
    model = network(soc=soc)
    # as many as keep all channels busy twice; requests come one by one, so that the first are left out
    count = 2 * (model.soc.dvpp.jpegd_channels or 0)
    decoded = column(asim.simulate(model, images=[JPEG] * count), "Decoded(us)")
    alone = 1e6 * count / 2 / jpegd
    assert alone < decoded[0] < alone + 30
    assert 2 * alone < decoded[-1] < 2 * alone + 17.5 * count + 30
    count = 2 * (model.soc.dvpp.vpc_channels or 0)
    ready = column(asim.simulate(model, images=[SMALL] * count), "Ready(us)")
    alone = 1e6 * count / 2 / vpc
    assert alone < ready[0] < alone + 30
    assert 2 * alone < ready[-1] < 2 * alone + 17.5 * count + 30


def test_steps_of_an_image_follow_each_other_without_a_gap() -> None:
    """By hand, of four images on two decoders: request 17.5 us, decoder 1 / 128 s, VPC 1 / 360 s."""
    result = asim.simulate(network(), images=[JPEG] * 4)
    expected = [17.5 + 7812.5, 17.5 + 7812.5, 17.5 + 15625, 17.5 + 15625]
    assert column(result, "Decoded(us)") == pytest.approx(expected, abs=0.05)
    assert column(result, "Ready(us)") == pytest.approx([time + 1e6 / 360 for time in expected], abs=0.05)


def test_time_goes_by_pixels_of_the_larger_of_source_and_result() -> None:
    def vpc(size: int, height: int, width: int) -> float:
        pixels = np.zeros((height, width, 3), np.uint8)
        statistic = asim.simulate(network(size), images=[pixels]).op_statistic().records()
        return next(row["Total Time(us)"] for row in statistic if row["OP Type"] == "VPC")

    assert vpc(32, 540, 960) == pytest.approx(1e6 / 360 / 4, rel=1e-3)
    assert vpc(512, 32, 32) == pytest.approx(1e6 / 360 * 512 * 512 / (1920 * 1080), rel=1e-3)


def test_the_network_works_while_the_next_images_are_prepared() -> None:
    model = network(224, channels=256)  # takes longer than an image of this size
    images = [file_of(smooth(200, 200, seed), "JPEG") for seed in range(8)]
    one, all_of_them = asim.simulate(model, images=images[:1]), asim.simulate(model, images=images)
    alone = asim.simulate(model).duration_us
    before = one.duration_us - alone
    assert before > 200
    assert all_of_them.duration_us < before + 8 * alone * 1.05  # one after the other it is 8 times before
    starts, ends, ready = (
        column(all_of_them, f"{name}(us)") for name in ("Network start", "Network end", "Ready")
    )
    for number in range(7):
        assert ends[number] < starts[number + 1] < ends[number] + 10
        assert ready[number + 1] < ends[number]
    assert all_of_them.summary().samples_per_s == pytest.approx(8e6 / all_of_them.duration_us)


def test_images_under_way_are_bounded() -> None:
    soc = asim.soc.load("Ascend310", {"dvpp.jpegd_channels": 1, "dvpp.vpc_channels": 1})
    model = network(224, soc=soc, channels=256)
    result = asim.simulate(model, images=[file_of(smooth(64, 64), "JPEG")] * 6)
    requested, ends = column(result, "Requested(us)"), column(result, "Network end(us)")
    assert requested[1] < ends[0]
    for number in range(2, 6):
        assert ends[number - 2] <= requested[number] < ends[number - 1]


def test_files_that_jpegd_does_not_take_are_decoded_by_the_ctrl_cpu() -> None:
    """15 images of 1920 x 1080 a second by one core, CANN's figure for software."""
    progressive, png = file_of(SMALL, "JPEG", progressive=True), file_of(SMALL)
    result = asim.simulate(network(), images=[JPEG, progressive, png, SMALL])
    assert column(result, "Decoder") == ["JPEGD", "software", "software", "none"]
    by_jpegd, *by_software, never = column(result, "Decoded(us)")
    assert by_jpegd < 8_000
    assert all(1e6 / 15 < time < 1e6 / 15 + 100 for time in by_software)
    assert never is None
    assert {row["OP Type"]: row["Count"] for row in result.op_statistic().records()}["JPEGD"] == 1


def test_the_ctrl_cpu_controls_and_normalises_what_no_aipp_takes(tmp_path: Path) -> None:
    def on_ctrl_cpu(result: Result) -> dict[str, int]:
        rows = result.op_statistic().records()
        return {row["OP Type"]: row["Count"] for row in rows if row["Core Type"] == "CTRL_CPU"}

    images = [JPEG] * 4
    result = asim.simulate(network(batch=2), images=images)
    assert on_ctrl_cpu(result) == {"Request": 4, "Normalise": 2, "Execute": 2}
    assert not any(view.nodes for view in result.profile.tasks if view.for_images)
    config = tmp_path / "aipp.cfg"
    config.write_text("aipp_op { aipp_mode: static input_format: YUV420SP_U8 }")
    assert on_ctrl_cpu(asim.simulate(network(batch=2, insert_op_conf=config), images=images)) == {
        "Request": 4,
        "Execute": 2,
    }


def test_the_host_launches_the_network_only() -> None:
    images = [file_of(smooth(64, 64), "JPEG")] * 3
    result = asim.simulate(network(schedule="host"), images=images)
    launched = {view.name for view in result.profile.tasks if view.record.launch_end >= 0}
    assert launched == {view.name for view in result.profile.tasks if not view.for_images}
    assert column(result, "Requested(us)") == [0.0, 0.0, 0.0]


def test_streams_of_one_execution_wait_for_those_of_the_one_before() -> None:
    """They share its memory; the next images are there long before."""
    builder = asim.GraphBuilder()
    x = builder.input("x", (1, 3, 128, 128))
    branches = [
        builder.op("Conv", x, builder.weight(f"w{i}", (256, 3, 3, 3)), name=f"conv{i}") for i in range(3)
    ]
    builder.output(builder.op("Add", builder.op("Add", *branches[:2]), branches[2]), "y")
    model = asim.compile(builder.build(), "Ascend310P3", multi_stream_parallel_mode="LoadBalance:3")
    first, *_, last = model.program.tasks
    assert first.stream != last.stream
    result = asim.simulate(model, images=[smooth(32, 32)] * 6)
    starts, ends = column(result, "Network start(us)"), column(result, "Network end(us)")
    assert all(end < start < end + 1 for end, start in zip(ends, starts[1:], strict=False))


def test_shortcuts_of_the_machine_change_nothing() -> None:
    model, images = network(64), [file_of(smooth(64, 64), "JPEG")] * 3
    fast, slow = (asim.simulate(model, images=images, shortcuts=taken) for taken in (SHORTCUTS, ()))
    assert fast.trace.tasks == slow.trace.tasks


def test_picture_trace_and_tables_have_dvpp_and_ctrl_cpu() -> None:
    result = asim.simulate(network(), images=[JPEG] * 2)
    lanes = {lane.name: set(lane.labels) for lane in result.plot_timeline().lanes}
    assert lanes["DVPP"] == {"JPEGD_0", "JPEGD_1", "VPC_0", "VPC_1"}
    assert {"Request_0", "Execute_1"} < lanes["Ctrl CPU"]
    assert list(lanes)[:3] == ["Ctrl CPU", "DVPP", "Stream 0"]
    events = chrome_trace(result.profile)["traceEvents"]
    names = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    by_process = {
        name: {event["name"] for event in events if event["ph"] == "X" and event["pid"] == pid}
        for name, pid in names.items()
    }
    assert by_process["DVPP"] == lanes["DVPP"]
    assert by_process["Ctrl CPU"] == lanes["Ctrl CPU"]
    assert not by_process["Streams"] & (lanes["DVPP"] | lanes["Ctrl CPU"])
    slices = {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"}
    assert {(event["pid"], event["tid"]) for event in events if event["ph"] in "sf"} <= slices
    engines = {row["Task Type"] for row in result.op_summary().records()}
    assert engines == {"AI_CORE", "DVPP", "CTRL_CPU"}
    assert {row["Task Type"] for row in result.ai_core_metrics().records()} == {"AI_CORE"}


def test_figures_of_images_are_assumed_by_runs_over_images_only() -> None:
    model = network()
    assert "ctrl_cpu.request_us" in asim.simulate(model, images=[SMALL]).summary().assumed
    assert not [key for key in asim.simulate(model).summary().assumed if "ctrl_cpu" in key]


def test_instructions_are_recorded_of_every_execution() -> None:
    result = asim.simulate(network(), images=[SMALL] * 3, instructions="conv")
    ids = {task.id for task in result.model.tasks_of("conv")}
    assert len(ids) == 3
    assert {record.task for record in result.trace.instructions} == ids


def test_memory_is_that_of_one_execution() -> None:
    model = network()
    assert str(asim.simulate(model, images=[SMALL] * 3).memory) == str(model.memory)
    with pytest.raises(InputError, match="is of no images"):
        asim.simulate(model).images()
