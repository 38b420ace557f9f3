"""A headless Chromium for tests of HTML pages, by the package playwright (tests/requirements-browser.txt) and
the browser of the distribution (`apt install chromium`), or the one that the variable CHROMIUM names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def browser() -> Iterator[Any]:
    """A running browser; skips the test where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright, see requirements-browser.txt"
    )
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("needs Chromium: install it, or name it in the variable CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        # Chromium's emulated GPU makes a canvas ten times slower than drawing by the processor
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@contextmanager
def opened(running: Any, path: Path, **options: Any) -> Iterator[Any]:
    """A page of a report, ready, without a network; fails if it asks for anything or complains."""
    context = running.new_context(offline=True, viewport={"width": 1300, "height": 900}, **options)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: said.append(request.url) if request.url != path.as_uri() else None)
    page.goto(path.as_uri())
    page.wait_for_function("window.asimReport !== undefined")
    assert page.evaluate("asimReport.error || ''") == ""
    yield page
    assert said == []
    context.close()
