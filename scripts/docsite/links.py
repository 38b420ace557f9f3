"""Links of Markdown pages and notebooks, and of the built site: each leads somewhere, and none fetches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[(?:[^\]\[]|\[[^\]]*\])*\]\(<?([^)\s>]+)>?\)")
FETCHED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "video": "src"}


def sources(root: Path = ROOT) -> list[Path]:
    """The pages that people write."""
    alone = [root / name for name in ("index.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    found = [*alone, *(root / "docs").glob("*.md"), *(root / "notebooks").glob("*.ipynb")]
    return sorted([*found, *(root / "examples").rglob("*.md")])


def dead_links(paths: list[Path], made: frozenset[Path] = frozenset()) -> list[str]:
    """Links to files or headings that are not there, as "page: link".

    Args:
        paths: Pages.
        made: Files that exist only once the site is built.
    """
    heads: dict[Path, set[str]] = {}
    dead = []
    for page in paths:
        for target in links_of(markdown_of(page)):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if file in made:
                continue
            there = file.exists()
            if there and parts.fragment and file.suffix in (".md", ".ipynb"):
                if file not in heads:
                    heads[file] = set(anchors_of(markdown_of(file)))
                there = parts.fragment in heads[file]
            if not there:
                dead.append(f"{page.name}: {target}")
    return dead


def markdown_of(page: Path) -> str:
    """The Markdown of a page, or of a notebook's cells."""
    text = page.read_text(encoding="utf-8")
    if page.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def links_of(text: str) -> Iterator[str]:
    """Targets of the links and pictures outside of code."""
    text = re.sub(r"^(```+).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith("    ")]
    yield from LINK.findall(re.sub(r"`[^`]*`|\\[\[\]]", "", "\n".join(lines)))


def anchors_of(text: str) -> Iterator[str]:
    """Names that GitHub and MyST give headings."""
    text = re.sub(r"^(```+).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    seen: dict[str, int] = {}
    for head in re.findall(r"^#+ +(.*?) *$", text, flags=re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")
        count = seen[name] = seen.get(name, -1) + 1
        yield name if not count else f"{name}-{count}"


def listed_pages(text: str) -> list[str]:
    """The pages that the toctrees of a page name."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.strip() for tree in trees for line in tree.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


class _Page(HTMLParser):
    """What a built page links to, fetches and names."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Takes note of one tag."""
        given = {key: value or "" for key, value in attrs}
        self.ids.update(given[key] for key in ("id", "name") if key in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        followed = tag != "link" or given.get("rel") in ("stylesheet", "icon", "preload")
        if tag in FETCHED and FETCHED[tag] in given and followed:
            self.fetched.append(given[FETCHED[tag]])


def faults_of_site(folder: Path) -> list[str]:
    """What is wrong with a built site: what it would fetch from the network, links that lead nowhere."""
    pages = {path.resolve(): _read(path) for path in sorted(folder.rglob("*.html"))}
    faults = []
    for path, page in pages.items():
        name = path.relative_to(folder.resolve())
        faults += [f"{name} fetches {target}" for target in page.fetched if urlsplit(target).netloc]
        for target in (*page.links, *page.fetched):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not file.exists() or (anchor and file in pages and anchor not in pages[file].ids):
                faults.append(f"{name} links to {target}, which is not there")
    return faults


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page
