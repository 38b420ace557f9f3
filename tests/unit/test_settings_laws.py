"""Settings of gears and AIPP at their limits, n and n + 1, and what they say about shapes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError
from ascendsim.graph.ir import Graph
from ascendsim.passes.aipp.insert import insert_aipp
from ascendsim.passes.aipp.settings import AippSettings
from ascendsim.passes.gears.settings import MAX_GEARS, parse_gears
from ascendsim.soc import load as load_chip
from tests.unit.test_gears import inputs_of

# ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "fits"), [(1, False), (2, True), (3, True), (99, True), (100, True), (101, False)]
)
def test_there_are_2_to_100_gears(count: int, fits: bool) -> None:
    graph = inputs_of((None, 3))
    assert MAX_GEARS == 100
    assert [load_chip(name).launch.max_gears for name in ("Ascend310", "Ascend910_95")] == [100, 256]
    if fits:
        assert len(parse_gears("dynamic_batch_size", list(range(1, count + 1)), graph).gears) == count
    else:
        with pytest.raises(InputError, match="gears"):
            parse_gears("dynamic_batch_size", list(range(1, count + 1)), graph)
    if count > 1:
        assert (
            len(parse_gears("dynamic_batch_size", list(range(1, count + 1)), graph, limit=256).gears) == count
        )


@pytest.mark.parametrize(
    ("number", "fits"), [(-1, False), (0, False), (1, True), (2**31 - 1, True), (2**31, False)]
)
def test_numbers_lie_between_1_and_2_to_the_31(number: int, fits: bool) -> None:
    for kind, value in (
        ("dynamic_batch_size", [7, number]),
        ("dynamic_dims", [(7,), (number,)]),
        ("dynamic_dims", f"7;{number}"),
    ):
        if fits:
            assert parse_gears(kind, value, inputs_of((None, 3))).gears == ((7,), (number,))  # type: ignore[arg-type]
        else:
            with pytest.raises(InputError, match="needs numbers"):
                parse_gears(kind, value, inputs_of((None, 3)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("digits", "fits"), [(10, True), (11, True), (12, False)])
def test_a_number_has_at_most_11_digits(digits: int, fits: bool) -> None:
    """So that no text can ask for endless arithmetic; leading zeros count."""
    text = "7".rjust(digits, "0")
    if fits:
        assert parse_gears("dynamic_batch_size", f"1,{text}", inputs_of((None,))).gears == ((1,), (7,))
    else:
        with pytest.raises(InputError, match="must hold whole numbers"):
            parse_gears("dynamic_batch_size", f"1,{text}", inputs_of((None,)))


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ((1, 3, None, None), True),
        ((2, 3, "h", "w"), True),
        ((1, 3, 4, None), False),
        ((1, None, None, 4), False),
        ((1, 3, None, None, 4), False),
        ((3, None, None), False),
        ((None, 3, None, None), False),
    ],
)
def test_an_image_has_height_and_width_at_2_and_3(shape: Any, fits: bool) -> None:
    graph = inputs_of(shape, (1, 5))
    if not fits:
        with pytest.raises(InputError, match="sets height and width of NCHW inputs"):
            parse_gears("dynamic_image_size", "5,6;7,8", graph)
        return
    settings = parse_gears("dynamic_image_size", "5,6;7,8", graph)
    assert settings.marks == (("x0", 2), ("x0", 3))
    assert settings.shapes(graph, settings.gears[1]) == {"x0": (shape[0], 3, 7, 8), "x1": (1, 5)}


def test_shapes_lead_to_their_gear_and_others_to_the_list() -> None:
    graph = inputs_of((None, 3), (2, None))
    settings = parse_gears("dynamic_dims", "1,4;2,8;3,8", graph)
    for number, (first, second) in enumerate([(1, 4), (2, 8), (3, 8)]):
        shapes: dict[str, tuple[int, ...]] = {"x0": (first, 3), "x1": (2, second)}
        assert settings.shapes(graph, settings.gears[number]) == shapes
        assert settings.find(graph, shapes) == number
    with pytest.raises(
        InputError, match=r"must be those of a gear \(1,4;2,8;3,8\), not x0: \[1, 3\], x1: \[2, 8\]"
    ):
        settings.find(graph, {"x0": (1, 3), "x1": (2, 8)})


def test_an_unknown_rank_has_no_gears_and_a_scalar_no_mark() -> None:
    with pytest.raises(InputError, match="input 'x0' needs a known rank for dynamic_dims"):
        parse_gears("dynamic_dims", "1;2", inputs_of(None))
    assert parse_gears("dynamic_dims", "1;2", inputs_of((), (None,))).marks == (("x1", 0),)


# ------------------------------------------------------------------------------------------------------------

RGB = AippSettings("RGB888_U8")


def image(
    channels: int | None = 3,
    height: int | None = 6,
    width: int | None = 8,
    batch: int | None = 2,
    kind: DType = DType.FLOAT32,
) -> Graph:
    graph = Graph("g")
    graph.outputs.append(
        graph.add_node("Relu", [graph.add_input("x", kind, (batch, channels, height, width))], ["y"]).output
    )
    return graph


def shape_with(settings: AippSettings, graph: Graph | None = None) -> tuple[object, ...]:
    graph = graph or image()
    insert_aipp(graph, [settings])
    node = next(node for node in graph.nodes if node.op_type == "Aipp")
    assert graph.topological()[0] is node
    carried = AippSettings.of(node)
    assert carried.result == (6, 8)
    assert replace(carried, source=settings.source) == settings
    shape = graph.inputs[settings.input_rank].shape
    assert shape is not None
    return shape


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (RGB, (2, 6, 8, 3)),
        (replace(RGB, border=(1, 2, 3, 4)), (2, 2, 2, 3)),
        (replace(RGB, source=(6, 8)), (2, 6, 8, 3)),
        (replace(RGB, source=(9, 9), crop=(0, 0, 6, 8)), (2, 9, 9, 3)),
        (replace(RGB, source=(9, 9), crop=(3, 1, 6, 8)), (2, 9, 9, 3)),
        (replace(RGB, source=(9, 9), crop=(3, 1, 5, 7), border=(1, 0, 0, 1)), (2, 9, 9, 3)),
        (AippSettings("YUV420SP_U8"), (2, 9, 8)),
        (AippSettings("YUV420SP_U8", source=(8, 10), crop=(2, 2, 6, 8)), (2, 12, 10)),
    ],
)
def test_the_image_has_the_size_that_leads_to_the_input(
    settings: AippSettings, wanted: tuple[int, ...]
) -> None:
    assert shape_with(settings) == wanted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (replace(RGB, source=(9, 9), crop=(4, 1, 6, 8)), "must lie in the 9x9 image"),
        (replace(RGB, source=(9, 9), crop=(3, 2, 6, 8)), "must lie in the 9x9 image"),
        (replace(RGB, source=(6, 9)), "must give 6x8"),
        (replace(RGB, source=(7, 8)), "must give 6x8"),
        (replace(RGB, border=(3, 0, 3, 0)), "needs src_image_size_h"),
        (replace(RGB, border=(0, 4, 0, 4)), "needs src_image_size_h"),
        (replace(RGB, input_rank=1), "must be below 1"),
        (AippSettings("YUV400_U8"), "gives 1 channels, the model takes 3"),
        (AippSettings("YUV420SP_U8", source=(7, 8), crop=(0, 0, 6, 8)), "needs even sizes"),
        (AippSettings("YUV420SP_U8", source=(8, 8), crop=(1, 0, 6, 8)), "needs even sizes"),
        (AippSettings("YUV420SP_U8", source=(6, 10), crop=(0, 1, 6, 8)), "needs even sizes"),
    ],
)
def test_sizes_that_do_not_lead_to_the_input(settings: AippSettings, message: str) -> None:
    with pytest.raises(InputError, match=message):
        shape_with(settings)


def test_inputs_that_are_no_images_of_known_size() -> None:
    for graph in (image(kind=DType.INT32), image(kind=DType.FLOAT64), inputs_of((3, 6, 8)), inputs_of(None)):
        with pytest.raises(InputError, match="needs a float input of shape"):
            insert_aipp(graph, [RGB])
    for graph in (image(channels=None), image(height=None), image(width=None)):
        with pytest.raises(InputError, match="that are known"):
            insert_aipp(graph, [RGB])
    assert shape_with(RGB, image(kind=DType.FLOAT16)) == (2, 6, 8, 3)
    assert shape_with(RGB, image(batch=None)) == (None, 6, 8, 3)


def test_each_input_is_named_once_and_keeps_its_place() -> None:
    graph = inputs_of((1, 3, 6, 8), (1, 1, 4, 4))
    for number, tensor in enumerate(tuple(graph.inputs)):
        graph.outputs.append(graph.add_node("Relu", [tensor], [f"y{number}"]).output)
    with pytest.raises(InputError, match="must name each input once"):
        insert_aipp(graph, [AippSettings("YUV400_U8", input_rank=1), AippSettings("YUV400_U8", input_rank=1)])
    graph = inputs_of((1, 3, 6, 8), (1, 1, 4, 4))
    for number, tensor in enumerate(tuple(graph.inputs)):
        graph.outputs.append(graph.add_node("Relu", [tensor], [f"y{number}"]).output)
    insert_aipp(graph, [AippSettings("YUV400_U8", input_rank=1), RGB])
    assert [(tensor.name, tensor.shape) for tensor in graph.inputs] == [
        ("x0", (1, 6, 8, 3)),
        ("x1", (1, 4, 4)),
    ]


def test_rows_of_images_in_memory() -> None:
    for name, wanted in (("RGB888_U8", 30), ("YUV420SP_U8", 10), ("YUV400_U8", 10)):
        settings = AippSettings(name, source=(4, 10))
        assert settings.row_bytes == wanted
        assert settings.window == (0, 0, 4, 10)
        assert settings.channels == (1 if name == "YUV400_U8" else 3)
