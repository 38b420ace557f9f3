"""A folder that shows how a graph changed pass by pass: a diff as text, Graphviz files, and pictures where
Graphviz is installed.

00_input.txt, .dot, .svg            the graph before the first pass
01_<stage>_<pass>.txt               lines that went (-) and came (+), in the graph's text form
01_<stage>_<pass>.dot, .svg         the graph after the pass; nodes that are new or changed are green
01_<stage>_<pass>.before.dot, .svg  the graph before it; nodes that went or were changed are red
"""

from __future__ import annotations

import difflib
import json
import re
import shutil
from os import PathLike

from ascendsim.core.files import file_stem, make_folder, write_whole
from ascendsim.graph.copying import copy_graph
from ascendsim.graph.dot import to_dot
from ascendsim.graph.ir import Graph
from ascendsim.graph.text import to_text
from ascendsim.graph.verify import nodes_in

MAX_DRAWN_NODES = 400  # Graphviz needs minutes for more
DRAWING_SECONDS = 60
NEW, GONE = "#c8f0c8", "#f5c6c6"
_NODE_LINE = re.compile(r'\s*("(?:[^"\\]|\\.)*"|\S+): ')  # names that are not plain words are quoted as JSON


class GraphDumps:
    """Writes the files; call it with a name and the graph after each pass.

    Args:
        folder: Made if need be.
        graph: Before the first pass.

    Raises:
        InputError: If the folder cannot be made or written.
    """

    def __init__(self, folder: str | PathLike[str], graph: Graph) -> None:
        self._dot = shutil.which("dot")
        self._text, self._graph = to_text(graph), copy_graph(graph)
        self.folder = make_folder(folder)
        self._write("00_input.txt", self._text)
        self._draw("00_input", graph, {})

    def __call__(self, name: str, graph: Graph) -> None:
        """Writes what a pass changed."""
        name = file_stem(re.sub(r"[^A-Za-z0-9_.-]", "_", name))
        text = to_text(graph)
        diff = difflib.unified_diff(
            self._text.splitlines(), text.splitlines(), "before", "after", n=1, lineterm=""
        )
        self._write(f"{name}.txt", "\n".join(diff) + "\n")
        before, after = _lines_by_node(self._text), _lines_by_node(text)
        self._draw(
            f"{name}.before",
            self._graph,
            {node: GONE for node, line in before.items() if after.get(node) != line},
        )
        self._draw(name, graph, {node: NEW for node, line in after.items() if before.get(node) != line})
        self._text, self._graph = text, copy_graph(graph)

    def _draw(self, name: str, graph: Graph, colours: dict[str, str]) -> None:
        text = to_dot(graph, colours=colours)
        self._write(f"{name}.dot", text)
        if self._dot is None or sum(1 for _ in nodes_in(graph)) > MAX_DRAWN_NODES:
            return
        import subprocess

        try:
            done = subprocess.run(
                [self._dot, "-Tsvg"],
                input=text.encode(),
                capture_output=True,
                timeout=DRAWING_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            return  # the .dot file is there; the picture is an extra
        self._write(f"{name}.svg", done.stdout)

    def _write(self, name: str, content: str | bytes) -> None:
        write_whole(self.folder / name, content.encode() if isinstance(content, str) else content)


def _lines_by_node(text: str) -> dict[str, str]:
    """Lines of nodes by name, as the text form writes both."""
    found = ((_NODE_LINE.match(line), line.strip()) for line in text.splitlines())
    return {_name(match.group(1)): line for match, line in found if match is not None}


def _name(text: str) -> str:
    return str(json.loads(text)) if text.startswith('"') else text
