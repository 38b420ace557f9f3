"""Commands say when most of their time went into values."""

from __future__ import annotations

import pytest

from ascendsim.cli import values_time
from ascendsim.cli.main import main
from ascendsim.cli.values_time import values_line
from ascendsim.core import stopwatch
from ascendsim.core.stopwatch import Stopwatch


def test_nested_blocks_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([1.0, 4.0, 10.0, 12.0])
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: next(moments))
    watch = Stopwatch()
    with watch, watch:
        pass
    with pytest.raises(KeyError), watch:
        raise KeyError
    assert watch.seconds == 5.0


@pytest.mark.parametrize(
    ("values", "whole", "said"),
    [(10.2, 12.6, True), (10.2, 20.5, False), (2.9, 3.0, False), (3.0, 6.0, True)],
)
def test_it_is_said_where_values_took_most_of_some_seconds(values: float, whole: float, said: bool) -> None:
    line = values_line(values, whole)
    assert bool(line) == said
    if said:
        assert line.startswith(
            f"computing values took {values:.1f} of {whole:.1f} s; --values off leaves them out"
        )


@pytest.mark.parametrize("command", ["run", "compare"])
def test_on_standard_error(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, models_dir: object
) -> None:
    monkeypatch.setattr(values_time, "values_line", lambda values, whole: f"of values: {0 < values < whole}")
    options = ["--soc_version", "Ascend310P3", "--weights", "random"]
    for values, spent in (("device", True), ("off", False)):
        assert main([command, f"{models_dir}/lenet5.onnx", "--values", values, *options]) == 0
        assert f"of values: {spent}\n" in capsys.readouterr().err
