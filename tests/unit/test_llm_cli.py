"""`ascendsim llm`: tables, files and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ascendsim.cli.main import main
from tests.unit.test_llm_models import TINY

pytestmark = pytest.mark.usefixtures("untimed_tiles")


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "tiny" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps({**TINY, "num_hidden_layers": 1}))
    return str(path)


def test_a_table_of_steps(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    line = ["llm", config, "--batch", "1,4", "--context", "128,1k", "--prefill", "32", "--output", str(out)]
    assert main(line) == 0
    text = capsys.readouterr().out
    assert "tiny, bf16, 1 x Ascend910B3, graph" in text
    assert "prefill of 1 x 32 tokens" in text
    assert len((out / "llm_steps.csv").read_text().splitlines()) == 5
    assert sorted(path.name for path in out.glob("*.png")) == ["kernels.png", "memory.png", "tpot.png"]


@pytest.mark.usefixtures("unpainted")
def test_a_served_file(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = tmp_path / "requests.json"
    requests.write_text(
        json.dumps([{"prompt_len": 16, "output_len": 4, "arrival": 0.001 * n} for n in range(3)])
    )
    assert main(["llm", config, "--serve", str(requests), "--output", str(tmp_path / "out")]) == 0
    text, told = capsys.readouterr()
    assert "TTFT(ms)" in text
    assert told.splitlines()[-1] == "serving: 3 of 3 requests"  # also where nobody sees a bar
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"serving.png", "llm_serving.csv"}


def test_times_of_links_that_are_extrapolated_say_so(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = tmp_path / "config.json"
    wide.write_text(json.dumps({**TINY, "num_hidden_layers": 1, "num_attention_heads": 16}))
    told = "collectives of 16 devices are extrapolated from figures of groups of 2, 4 and 8"
    for more, counts in ((["--context", "128"], (8, 16)), (["--serve", "9:1:8:2"], (16,))):
        for cards in counts:
            assert main(["llm", str(wide), "--cards", str(cards), *more]) == 0
            assert (told in capsys.readouterr().out) == (cards == 16)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--batch", "1,x"], "option --batch must be whole numbers, 1,8 or 1k,32k, not 'x'"),
        (["--cards", "3"], "option cards must divide num_attention_heads (8)"),
        (["--serve", "a:1:1:1"], "option --serve must be a file, or RATE:COUNT:PROMPT:OUTPUT"),
        (["--serve", "4:1:1"], "option --serve must be a file, or RATE:COUNT:PROMPT:OUTPUT"),
        (["--batch", "1,8,1"], "option --batch names '1' twice"),
        (["--serve", "nowhere.json"], "cannot be opened"),
        (["--context", "1k,64k"], "option context must be at most 4096"),
        (["--max_batch", "8"], "option --max_batch is for a server; add --serve"),
        (["--chunk", "8"], "option --chunk is for a server; add --serve"),
        (["--policy", "static"], "option --policy is for a server; add --serve"),
        (["--serve", "4:1:8:8", "--batch", "8"], "option --batch is for single steps, not for a server"),
        (["--serve", ""], "cannot be opened"),
        (["--prefill", "64k"], "option context must be at most 4096"),
    ],
)
def test_mistakes_are_one_line(
    config: str, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["llm", config, *more]) == 2
    said, error = capsys.readouterr()
    assert not said  # found before anything was computed
    assert message in error
    assert error.count("\n") == 1
