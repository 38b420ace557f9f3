"""Pictures of small graphs, side by side: what a pass made of a graph.

For graphs of some dozen nodes, without any program beside Python; `graph.dot` writes graphs of every size for
Graphviz.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.graph.text import dims
from ascendsim.plot.figures import Picture, shortened, text_width
from ascendsim.plot.graph_layout import Layout, layered
from ascendsim.plot.palette import FAINT, INK, LANE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BOXES = 120
SIZE, SMALL = 9.0, 7.5  # points
DPI = 110
STEP = 0.78  # inches from layer to layer
HEIGHT = 0.42  # of a box
BETWEEN = 0.9  # inches between graphs
GONE, NEW = "#f6d5c3", "#cdebdf"  # lighter forms of the palette's orange and green
VALUES_SHOWN = 6
# so that an arrow behind a label does not cross it out
_UNDERLAY = {"facecolor": "white", "lw": 0, "pad": 0.4, "alpha": 0.8}


@dataclass(frozen=True, slots=True)
class Box:
    """A node, an input, an output or a constant in the picture.

    Attributes:
        lines: One or two lines of text.
        kind: "node", "end" (input or output) or "constant".
        name: Name of the node or tensor, by which boxes of several graphs are compared.
    """

    lines: tuple[str, ...]
    kind: str
    name: str

    @property
    def width(self) -> float:
        """Inches."""
        texts = [text_width(text, self.size(row), DPI) for row, text in enumerate(self.lines)]
        return max(max(texts) / DPI + 0.24, HEIGHT + 0.14)

    def size(self, row: int) -> float:
        """Font size of a line in points."""
        return SMALL if row or self.kind == "constant" else SIZE


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph as boxes, edges and their places.

    Attributes:
        title: Above the graph.
        boxes: In execution order.
        labels: By box: type and shape of what leaves it first; "" for constants, which say it themselves.
        layout: Places of both.
    """

    title: str
    boxes: tuple[Box, ...]
    labels: tuple[str, ...]
    layout: Layout


@dataclass(eq=False, repr=False)
class GraphDisplay(Picture):
    """Graphs as boxes and arrows, and the picture of them.

    Attributes:
        drawings: One a graph, from left to right.
        figure_, ax_: Where it was drawn last; unset before `plot`.
    """

    drawings: tuple[Drawing, ...]

    @property
    def title(self) -> str:  # type: ignore[override]
        """Titles of the graphs."""
        return ", ".join(drawing.title for drawing in self.drawings)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the graphs.

        Args:
            ax: Axes to draw on; a new figure that is just large enough if None.
        """
        widths = [
            max(drawing.layout.width, text_width(drawing.title, SIZE + 2, DPI) / DPI)
            for drawing in self.drawings
        ]
        width = sum(widths) + BETWEEN * (len(widths) - 1)
        height = max(drawing.layout.layers for drawing in self.drawings) * STEP + 0.3
        ax = self._begin(ax, width + 0.4, height + 0.2)
        ax.set_xlim(-0.1, width + 0.1)
        ax.set_ylim(height, 0)
        ax.set_aspect("equal")
        ax.set_axis_off()
        left = 0.0
        for number, (drawing, room) in enumerate(zip(self.drawings, widths, strict=True)):
            before = _names(self.drawings[number - 1]) if number else None
            after = _names(self.drawings[number + 1]) if number + 1 < len(self.drawings) else None
            _draw(ax, drawing, left + (room - drawing.layout.width) / 2, before, after)
            ax.text(
                left + room / 2, 0.12, drawing.title, ha="center", va="center", fontsize=SIZE + 2, color=INK
            )
            left += room + BETWEEN
        return self


@checked()
def plot_graphs(graphs: Graph | Mapping[str, Graph], ax: Axes | None = None) -> GraphDisplay:
    """Draws a graph, or several side by side, for example before and after a pass.

    Boxes are operators (their names below where these say more), rounded ends inputs and outputs, grey text
    constants; arrows carry type and shape. Operators that the next graph lacks are orange, those that the
    graph before lacked are green. Subgraphs are not drawn: give them as graphs of their own; arrows to the
    operator that holds one show what it reads from outside.

    Args:
        graphs: A graph, or graphs by title, from left to right.
        ax: Axes to draw on; a new figure if None.

    Raises:
        InputError: If there is nothing to draw, or a graph has more than 120 boxes.
    """
    named = {graphs.name: graphs} if isinstance(graphs, Graph) else dict(graphs)
    if not named:
        raise InputError("plot_graphs", "needs a graph")
    return GraphDisplay(tuple(drawing_of(title, graph) for title, graph in named.items())).plot(ax)


def drawing_of(title: str, graph: Graph) -> Drawing:
    """Boxes and edges of a graph, placed."""
    boxes: list[Box] = []
    edges: list[tuple[int, int]] = []
    labels: dict[int, str] = {}
    numbers: dict[Node | Tensor, int] = {}

    def add(item: Node | Tensor | None, box: Box) -> int:
        if item is not None:
            numbers[item] = len(boxes)
        boxes.append(box)
        return len(boxes) - 1

    def join(tensor: Tensor, target: int) -> None:
        source = numbers.get(tensor.producer or tensor)
        if source is not None:
            edges.append((source, target))
            if tensor.constant is None:
                labels.setdefault(source, _type(tensor))

    for tensor in graph.inputs:
        add(tensor, Box((tensor.name,), "end", tensor.name))
    for node in graph.topological():
        for operand in node.inputs:
            if operand is not None and operand.constant is not None and operand not in numbers:
                add(operand, Box((_constant(operand),), "constant", operand.name))
        number = add(node, Box(_node_lines(node), "node", node.name))
        for operand in node.inputs:
            if operand is not None:
                join(operand, number)
        for outer in dict.fromkeys(
            tensor for _, subgraph in node.subgraphs for tensor in subgraph.captured()
        ):
            join(outer, number)
    for tensor in graph.outputs:
        if tensor.constant is not None and tensor not in numbers:
            add(tensor, Box((_constant(tensor),), "constant", tensor.name))
        join(tensor, add(None, Box((tensor.name,), "end", tensor.name)))
    if len(boxes) > MOST_BOXES:
        rule = f"must have at most {MOST_BOXES} boxes to be drawn"
        raise InputError(
            f"graph {title!r}",
            rule,
            len(boxes),
            "write ascendsim.graph.dot.to_dot(graph) to a file, or take out a part",
        )
    texts = tuple(labels.get(number, "") for number in range(len(boxes)))
    return Drawing(title, tuple(boxes), texts, layered([box.width for box in boxes], edges))


def _draw(ax: Axes, drawing: Drawing, left: float, before: set[str] | None, after: set[str] | None) -> None:
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
    from matplotlib.path import Path

    def y(layer: int) -> float:
        return 0.3 + (layer + 0.5) * STEP

    tops = {
        place: (0.1 if box.kind == "constant" else HEIGHT / 2)
        for box, place in zip(drawing.boxes, drawing.layout.places, strict=True)
    }
    drifts: dict[tuple[float, int], list[float]] = {}
    for route in drawing.layout.routes:
        drifts.setdefault(route[0], []).append(route[1][0] - route[0][0])
        points = [(left + x, y(layer)) for x, layer in route]
        points[0] = (points[0][0], points[0][1] + tops[route[0]])
        points[-1] = (points[-1][0], points[-1][1] - HEIGHT / 2 - 0.02)
        ax.add_patch(
            FancyArrowPatch(
                path=Path(points), arrowstyle="-|>", mutation_scale=8, color=FAINT, lw=0.9, zorder=1
            )
        )
    for label, (x, layer) in zip(drawing.labels, drawing.layout.places, strict=True):
        below = y(layer) + HEIGHT / 2 + 0.11
        # beside the arrows: on the left where all of them lead down or to the right
        side = -1 if max(leads := drifts.get((x, layer), [0.0])) > 0.05 and min(leads) > -0.05 else 1
        ax.text(
            left + x + 0.06 * side,
            below,
            label,
            fontsize=SMALL - 0.5,
            color=FAINT,
            ha="right" if side < 0 else "left",
            va="center",
            zorder=3,
            bbox=_UNDERLAY,
        )
    for box, (x, layer) in zip(drawing.boxes, drawing.layout.places, strict=True):
        colour = LANE
        if box.kind == "node" and before is not None and box.name not in before:
            colour = NEW
        elif box.kind == "node" and after is not None and box.name not in after:
            colour = GONE
        if box.kind != "constant":
            style = (
                "round,pad=0,rounding_size=0.21" if box.kind == "end" else "round,pad=0,rounding_size=0.05"
            )
            corner = (left + x - box.width / 2, y(layer) - HEIGHT / 2)
            face = "white" if box.kind == "end" else colour
            ax.add_patch(
                FancyBboxPatch(
                    corner,
                    box.width,
                    HEIGHT,
                    boxstyle=style,
                    facecolor=face,
                    edgecolor=FAINT,
                    lw=0.8,
                    zorder=2,
                )
            )
        for row, text in enumerate(box.lines):
            shift = (row - (len(box.lines) - 1) / 2) * 0.17
            tone = FAINT if row or box.kind == "constant" else INK
            ax.text(
                left + x,
                y(layer) + shift,
                text,
                ha="center",
                va="center",
                fontsize=box.size(row),
                color=tone,
                zorder=3,
            )


def _names(drawing: Drawing) -> set[str]:
    return {box.name for box in drawing.boxes if box.kind == "node"}


def _node_lines(node: Node) -> tuple[str, ...]:
    held = Counter(key for key, _ in node.subgraphs)
    if held:
        return (
            node.op_type,
            ", ".join(key if count == 1 else f"{count} {key}" for key, count in held.items()),
        )
    if node.name.rstrip("_0123456789") in (node.op_type, ""):
        return (node.op_type,)
    return (node.op_type, node.name if len(node.name) <= 24 else shortened(node.name, SMALL, DPI, 150.0))


def _constant(tensor: Tensor) -> str:
    constant = tensor.constant
    if constant is not None and constant.available and len(tensor.shape or ()) <= 1:
        array = constant.array()
        if array.size <= VALUES_SHOWN and array.dtype.kind in "iub":
            return str(array.tolist())
        if array.size == 1:
            return f"{array.item():g}" if array.dtype.kind == "f" else str(array.item())
    return f"{tensor.name.rsplit('/', 1)[-1]} {_type(tensor)}"


def _type(tensor: Tensor) -> str:
    return f"{tensor.dtype.value if tensor.dtype else '?'} {dims(tensor.shape)}".replace(
        "float", "f"
    ).replace("int", "i")
