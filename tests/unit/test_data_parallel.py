"""Steps on several devices: laws of the all-reduces, who waits for them, what reports say, refusals."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import ascendsim as asim
from ascendsim.advise.rules import findings
from ascendsim.compiler.model import CompiledModel
from ascendsim.core.errors import AscendSimError, InputError
from ascendsim.isa.program import TaskKind
from ascendsim.profiling.kinds import COMMUNICATION
from ascendsim.training import scopes
from tests.support.gate import every, in_turn, slow

SERVER = "Atlas 800 9000"
LENET = Path(__file__).parents[1] / "data" / "models" / "lenet5.onnx"
NUMBERS = 61_706  # of LeNet's weights

pytestmark = pytest.mark.usefixtures("untimed_tiles")


@cache
def _model(**options: object) -> CompiledModel:
    fusion = options.pop("fusion", "all")
    step = asim.training_step(asim.load(LENET, weights="random"), loss="cross_entropy", **options)  # type: ignore[arg-type]
    return asim.compile(step.graph, "Ascend910A", precision_mode="allow_mix_precision", fusion=fusion)  # type: ignore[arg-type]


def _scaled() -> CompiledModel:
    return _model(optimizer="adamw", loss_scale=1024)


def _plain() -> CompiledModel:
    return _model(optimizer="momentum")


def _clipped() -> CompiledModel:
    return _model(optimizer="momentum", grad_clip=1.0)


def _by_layer() -> CompiledModel:
    return _model(optimizer="lamb", grad_clip=1.0)


def _gradients() -> CompiledModel:
    return _model()


def _run(model: CompiledModel, devices: int = 8, **options: object) -> asim.Result:
    return asim.simulate(model, devices=devices, server=SERVER, **options)  # type: ignore[arg-type]


_RESULTS: dict[object, tuple[CompiledModel, asim.Result]] = {}


def _on(model: CompiledModel, devices: int = 8, **options: object) -> asim.Result:
    """The same, simulated once."""
    key = (id(model), devices, *sorted(options.items()))
    if key not in _RESULTS:
        _RESULTS[key] = model, _run(model, devices, **options)
    return _RESULTS[key][1]


def _cells(result: asim.Result) -> dict[str, float]:
    (row,) = result.communication().records()
    return row  # type: ignore[return-value]


def test_one_device_changes_no_tick() -> None:
    assert _on(_plain(), 1).trace == asim.simulate(_plain()).trace
    assert _on(_plain(), 1).parallel is None


@pytest.mark.parametrize("model", [_plain, *slow(_scaled, _clipped, _by_layer, _gradients)])
def test_several_are_never_quicker_than_one(model: object) -> None:
    compiled = model()  # type: ignore[operator]
    for devices in (2, 16):
        result = _on(compiled, devices, bucket_bytes=40_000)
        cells = _cells(result)
        assert result.duration_us == cells["Step(us)"] >= cells["Step on 1 device(us)"]
        assert 0 < cells["Communication(Not Overlapped)(us)"] <= cells["Communication(us)"]
        assert cells["Step on 1 device(us)"] == _on(compiled, 1).duration_us
        assert cells["Efficiency(%)"] <= 100


@pytest.mark.parametrize("model", [_scaled, _plain, _clipped, *slow(_by_layer, _gradients)])
def test_every_gradient_is_reduced_once(model: object, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(server: object, devices: int, size: int) -> float:
        sizes.append(size)
        return 1.0

    monkeypatch.setattr("ascendsim.training.data_parallel.all_reduce_us", counted)
    _run(model(), bucket_bytes=1)  # type: ignore[operator]
    assert len(sizes) == 10
    assert sum(sizes) == 4 * NUMBERS  # float32


def test_larger_buckets_make_fewer_tasks() -> None:
    counts = [
        _cells(_on(_plain(), bucket_bytes=size))["HcomAllReduce"] for size in (1, 4000, 50_000, 1 << 20)
    ]
    assert counts == sorted(counts, reverse=True)
    assert (counts[0], counts[-1]) == (10, 1)
    assert 1 < counts[2] < counts[1] < 10


def _start_of_update(result: asim.Result, name: str) -> int:
    """Tick at which the new weight's task starts."""
    (output,) = [tensor for tensor in result.model.graph.outputs if tensor.name == f"{name}.updated"]
    assert output.producer is not None
    task = result.model.program.info.tasks_of[output.producer.name][-1]
    return next(record.start for record in result.trace.tasks if record.task == task)


@pytest.mark.parametrize(
    ("model", "bucket_bytes"),
    [
        *in_turn([_scaled, _plain, _clipped], [1, 1 << 30]),
        pytest.param(_by_layer, 1, marks=pytest.mark.slow),
    ],
)
def test_updates_wait_for_their_gradients(model: object, bucket_bytes: int) -> None:
    result = _on(model(), bucket_bytes=bucket_bytes)  # type: ignore[operator]
    records = {record.task: record for record in result.trace.tasks}
    collectives = [task for task in result.model.program.tasks if task.kind is TaskKind.COMMUNICATION]
    assert {task.stream for task in collectives} == {1}
    for task in collectives:
        assert records[task.id].start >= max(records[other].end for other in task.waits_for)
    largest = max(collectives, key=lambda task: task.known_us)  # that of 7.weight, alone or with all others
    assert _start_of_update(result, "7.weight") >= records[largest.id].end
    if bucket_bytes > 1:
        assert _start_of_update(result, "0.bias") >= records[largest.id].end


def test_communication_overlaps_with_backward_tasks() -> None:
    result = _on(_scaled(), bucket_bytes=1)
    cells = _cells(result)
    assert cells["Communication(Not Overlapped)(us)"] < cells["Communication(us)"]
    first = min(view.record.start for view in result.profile.tasks if view.is_communication)
    assert any(
        view.record.start > first and view.name.startswith(scopes.GRADIENTS) for view in result.profile.tasks
    )


def test_conversions_come_between_a_gradient_and_its_all_reduce() -> None:
    result = _on(_scaled(), bucket_bytes=1)
    records = {view.name: view.record for view in result.profile.tasks}
    conversion = records["Gradients//7/Gemm/Gemm_4_out_transdata"]
    largest = max(result.model.program.tasks, key=lambda task: task.known_us)
    assert records["Gradients//7/Gemm/Gemm_4"].end <= conversion.start
    assert conversion.task in largest.waits_for
    assert (
        conversion.end <= records["Gradients//0/Conv/Conv2DBackpropFilter"].start
    )  # one device does it later


@pytest.mark.parametrize("fusion", every(2, ["off", "graph", "graph-kernel"]))
def test_every_fusion_mode_runs(fusion: str) -> None:
    assert _cells(_on(_model(fusion=fusion)))["HcomAllReduce"] == 1


def test_two_runs_are_equal() -> None:
    assert _run(_plain(), bucket_bytes=4000).trace == _on(_plain(), bucket_bytes=4000).trace


def test_shortcuts_change_nothing() -> None:
    slow = _on(_plain(), bucket_bytes=4000, shortcuts=())
    assert slow.trace == _on(_plain(), bucket_bytes=4000).trace


def test_collectives_take_no_core_and_no_memory() -> None:
    for record in _on(_scaled()).trace.tasks:
        if record.kind == "COMMUNICATION":
            assert (record.cores, dict(record.busy), sum(record.read_bytes.values())) == (0, {}, 0)


def test_reports_and_files(tmp_path: Path) -> None:
    result = _on(_scaled(), bucket_bytes=50_000)
    rows = {row["OP Type"]: row for row in result.op_statistic().records()}
    assert rows["HcomAllReduce"]["Core Type"] == "COMMUNICATION"
    assert "Communication" in result.summary().engine_shares
    assert sum(int(row["Tasks"]) for row in result.training_shares().records()) == len(
        _scaled().program.tasks
    )
    assert COMMUNICATION in {lane.name for lane in result.plot_timeline().lanes}
    assert COMMUNICATION in (result.save(tmp_path)[0].parent / "trace.json").read_text(encoding="utf-8")
    collective = next(view for view in result.profile.tasks if view.is_communication)
    assert findings(result.profile, collective) == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"devices": 0}, "devices must be a whole number from 1 on"),
        ({"devices": 8.0}, "devices must be a whole number"),
        ({"devices": 8}, "needs a server"),
        ({"devices": 3, "server": SERVER}, "1, 2, 4, 8 or a multiple of 8 up to 4096"),
        ({"devices": 4104, "server": SERVER}, "4096"),
        ({"devices": 8, "server": "Atlas 9"}, "is unknown"),
        ({"devices": 1, "server": "Atlas 9"}, "is unknown"),
        ({"devices": 8, "server": SERVER, "bucket_bytes": 0}, "bucket_bytes must be"),
    ],
)
def test_refusals(options: dict[str, object], said: str) -> None:
    with pytest.raises(AscendSimError, match=said):
        asim.simulate(_plain(), **options)  # type: ignore[arg-type]


def test_a_model_that_is_no_training_step() -> None:
    model = asim.compile(asim.load(LENET, weights="random"), "Ascend910A")
    with pytest.raises(InputError, match="is no training step"):
        _on(model)
    with pytest.raises(InputError, match="is of one device"):
        asim.simulate(model).communication()


def test_a_server_with_other_chips() -> None:
    step = asim.training_step(asim.load(LENET, weights="random"), loss="cross_entropy")
    with pytest.raises(InputError, match="must have chips of the model"):
        _on(asim.compile(step.graph, "Ascend310P3"))
