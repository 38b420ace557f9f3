"""Every public function and method refuses arguments of a wrong type, and its message names the argument.

What is public is found by looking: the names of `ascendsim` and the methods of its classes. A value is wrong
for a parameter if no type that its annotation names accepts it, as the tables below have it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import asc
from ascendsim.core.arguments import checked
from ascendsim.graph.ir import Constant
from ascendsim.runtime.host_run import Choices


class Strange:
    """Of no type that anything takes."""


@asc.jit
def KERNEL() -> None:
    """A kernel that does hardly anything."""
    asc.duplicate(asc.LocalTensor(asc.float32, asc.TPosition.VECCALC, 0, 64), 0.0, 64)


# Wrong unless the annotation of the parameter has one of these words
WRONG: tuple[tuple[Any, str], ...] = (
    (Strange(), "Any"),
    (None, r"None|Any|Operand|AttributeValue"),
    ("a", r"str|Any|Source|GearOption|AttributeValue|Literal|Cell"),
    (3, r"int|float|Any|Operand|AttributeValue|Cell"),
    (2.5, r"float|Any|Operand|AttributeValue|Cell"),
    (b"a", r"Any|Source"),
    ([Strange()], r"Iterable\b(?!\[)|Any|Operand"),
    ({}, r"Mapping|Any|Iterable"),
)


@cache
def subjects() -> tuple[tuple[str, Callable[..., Any]], ...]:
    """Public functions, and methods bound to an object of each public class."""
    return tuple(_subjects())


def _subjects() -> Iterator[tuple[str, Callable[..., Any]]]:
    builder = asim.GraphBuilder("small")
    builder.output(builder.op("Relu", builder.input("x", (1, 4)), name="relu"), "y")
    graph = builder.build()
    model = asim.compile(graph, "Ascend310")
    result = asim.simulate(model)
    matrix = asim.GraphBuilder("layer")
    matrix.output(matrix.op("MatMul", matrix.input("x", (1, 4)), np.eye(4, dtype=np.float32)), "y")
    layer = matrix.build()
    opened = asim.GraphBuilder("opened")
    opened.output(opened.op("Relu", opened.input("x", ("n", 4))), "y")
    objects = {
        "CompiledModel": model,
        "DynamicModel": asim.compile(opened.graph, "Ascend310P3"),
        "GearedModel": asim.compile(opened.graph, "Ascend310", dynamic_dims="1;2"),
        "Result": result,
        "Comparison": asim.compare({"a": result, "b": result}),
        "Ablation": asim.ablate(graph, "Ascend310"),
        "BuildUp": asim.build_up(graph, "Ascend310"),
        "Accuracy": asim.accuracy(graph, asim.random_inputs(asim.compile(graph, "Ascend310")), "Ascend310"),
        "Advice": asim.advise(graph, "Ascend310"),
        "OptimizeResult": asim.optimize(graph),
        "QuantizeResult": asim.quantize(layer, np.ones((1, 4), np.float32)),
        "Graph": graph,
        "GraphBuilder": builder,
        "GraphDisplay": asim.plot_graphs(graph),
        "TrainingStep": trained(),
        "Sweep": asim.sweep("tests/data/models/lenet5.onnx", batch=[1], workers=1),
        "Sensitivity": asim.sensitivity("tests/data/models/lenet5.onnx", keys="dram.size", workers=1),
        "KernelResult": asim.run_kernel(KERNEL, 1),
    }
    for name in asim.__all__:
        public = getattr(asim, name)
        if inspect.ismodule(public):  # a package that is called as its main function, once it is imported
            public = getattr(public, name, public)
        if not inspect.isclass(public):
            if callable(public):
                yield name, public
        elif not issubclass(public, Exception):
            instance = objects.pop(name)
            assert isinstance(instance, public)
            yield from methods(name, instance)
    yield from methods("Table", result.op_summary())
    yield "GraphBuilder", asim.GraphBuilder
    assert not objects


def trained() -> asim.TrainingStep:
    builder = asim.GraphBuilder("trained")
    weight = builder.constant(np.ones((4, 2), np.float32), "w")
    builder.output(builder.op("MatMul", builder.input("x", (1, 4)), weight), "y")
    return asim.training_step(builder.build(), loss="mse")


def methods(name: str, instance: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    for attribute, _ in inspect.getmembers(type(instance), inspect.isfunction):
        if not attribute.startswith("_"):
            yield f"{name}.{attribute}", getattr(instance, attribute)


@cache
def _module() -> Any:
    """A module, or anything: where PyTorch is absent nothing asks what it is."""
    return import_module("torch").nn.Identity() if find_spec("torch") else 1.0


def given(note: str, tmp_path: Path) -> Any:
    """A value that fits an annotation, for parameters before the wrong one."""
    graph = asim.Graph("other")
    tensor = graph.add_constant("c", np.zeros(1, np.float32))
    node = graph.add_node("Relu", [tensor], name="n")
    model = (
        asim.compile(asim.load("tests/data/models/lenet5.onnx"), "Ascend310")
        if "CompiledModel" in note
        else None
    )
    choices: tuple[tuple[str, Any], ...] = (
        (r"str \| Sequence\[str\]", "n"),
        (r"Sequence\[Tensor", [tensor]),
        (r"Mapping", {}),
        (r"Sequence\[Node", [node]),
        (r"Sequence\[Constant", [Constant(np.zeros(1))]),
        (r"Sequence|Shape", (1,)),
        (r"CompiledModel", model),
        (r"Graph\b", graph),
        (r"torch\.nn\.Module", _module()),
        (r"Kernel\b", KERNEL),
        (r"Literal|None", None),
        (r"str|Cell", str(tmp_path / "none")),
        (r"int", 1),
        (r"DType", tensor.dtype),
        (r"Tensor", tensor),
        (r"Node", node),
        (r"Array", np.zeros(1)),
        (r"Source", b""),
        (r"Choices", Choices()),
        (r"Any", 1.0),
    )
    return next(value for pattern, value in choices if re.search(pattern, note))


def test_every_public_function_names_the_argument_of_a_wrong_type(tmp_path: Path) -> None:
    tried: dict[str, int] = {}
    silent = []
    for name, function in subjects():
        before: list[Any] = []
        for parameter in inspect.signature(function).parameters.values():
            note = "Any" if parameter.annotation is parameter.empty else str(parameter.annotation)
            for wrong, fine in WRONG:
                if re.search(fine, note):
                    continue
                keyword = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY)
                label = "extra" if parameter.kind is parameter.VAR_KEYWORD else parameter.name
                arguments = before if keyword else [*before, wrong]
                tried[name] = tried.get(name, 0) + 1
                problem = outcome(function, arguments, {label: wrong} if keyword else {}, label)
                if problem:
                    silent.append(f"{name}({label}={wrong!r}: {note}): {problem}")
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                before.append(given(note, tmp_path))
    assert not silent, "\n".join(silent)
    assert len(tried) > 60
    assert sum(tried.values()) > 700


def test_the_chip_may_have_the_name_that_atc_gives_it(tmp_path: Path) -> None:
    tried = []
    for name, function in subjects():
        before: list[Any] = []
        parameters = inspect.signature(function).parameters
        for parameter in parameters.values():
            if parameter.name == "soc":
                break
            if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                before.append(given(str(parameter.annotation), tmp_path))
        else:
            continue
        tried.append(name)
        with pytest.raises(asim.AscendSimError, match=r"(argument|option|axis) soc must"):
            function(*before, soc_version=Strange())
        with pytest.raises(asim.InputError, match="options soc and soc_version say the same"):
            function(*before, soc="Ascend310", soc_version="Ascend310")
    assert len(tried) > 10
    with pytest.raises(TypeError, match="soc_version"):  # where there is no chip there is no second name
        asim.optimize(subjects_graph(), soc_version="Ascend310")  # type: ignore[call-arg]


def test_an_option_that_a_function_does_not_take_is_named_with_what_to_write() -> None:
    """Both as this package's error and as Python's TypeError; the nearest name is suggested."""
    tried, silent = 0, []
    for name, function in subjects():
        parameters = inspect.signature(function).parameters.values()
        keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        if not keywords or any(p.kind is p.VAR_KEYWORD for p in parameters):
            continue
        for wrong in ("not_an_option", *(f"{word}x" for word in keywords if f"{word}x" not in keywords)):
            tried += 1
            try:
                function(**{wrong: 1})
            except asim.InputError as error:
                meant = f"did you mean {wrong[:-1]}?" if wrong != "not_an_option" else "does not exist"
                if not isinstance(error, TypeError) or wrong not in str(error) or meant not in str(error):
                    silent.append(f"{name}: {error}")
            except TypeError as error:
                silent.append(f"{name}: {error!r}")
    assert not silent, "\n".join(silent)
    assert tried > 100


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("enable_graph_kernel", 'write fusion="graph-kernel"'),
        ("device_target", 'write soc="Ascend910A"'),
        ("save_graphs_path", "write save_graphs=FOLDER"),
    ],
)
def test_what_mindspore_calls_an_option_is_told_in_the_words_here(option: str, remedy: str) -> None:
    with pytest.raises(asim.InputError, match=f"option {option} does not exist; {remedy}"):
        asim.compile(subjects_graph(), **{option: True})  # type: ignore[arg-type]


def subjects_graph() -> asim.Graph:
    builder = asim.GraphBuilder("small")
    builder.output(builder.op("Relu", builder.input("x", (1, 4))), "y")
    return builder.build()


def test_every_public_function_says_what_it_cannot_write_and_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    nowhere = tmp_path / "file" / "x.svg"
    tried = set()
    for name, function in subjects():
        parameters = inspect.signature(function).parameters.values()
        target = next(
            (
                p.name
                for p in parameters
                if re.search("PathLike", str(p.annotation)) and p.name not in ("source", "soc")
            ),
            None,
        )
        if target is None or name.startswith(
            (
                *("load", "compile", "simulate", "advise", "ablate", "build_up", "accuracy"),
                *(
                    "aipp_data",
                    "Result.compare",
                    "sweep",
                    "sensitivity",
                    "search",
                    "run_triton",
                ),  # all of these read the file
            )
        ):
            continue
        needed = {
            p.name: given(str(p.annotation), tmp_path)
            for p in parameters
            if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD and p.name != target
        }
        tried.add(name)
        for path, why in ((nowhere, "Not a directory"), (f"{tmp_path}/a\0b.svg", "it has a NUL character")):
            with pytest.raises(asim.InputError) as caught:
                function(**needed, **{target: path})
            assert repr(str(path)).encode().decode("unicode_escape") in str(caught.value).encode().decode(
                "unicode_escape"
            )
            assert f"cannot be written ({why}); choose another" in str(caught.value), name
    assert tried >= {"save", "Result.save", "Result.save_trace", "Table.to_csv", "Comparison.to_csv"}
    assert tried >= {"Comparison.save", "GraphDisplay.save"}
    assert not list(tmp_path.glob("**/*partial*"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda graph, model: asim.advise(graph, trials="a"),
            "option trials must be a whole number, not 'a'",
        ),
        (
            lambda graph, model: asim.advise(graph, precision_mode=3),
            "option precision_mode must be text, not 3",
        ),
        (
            lambda graph, model: asim.ablate(graph, set=3),
            "option set must be a dictionary by name, not 3; write set=",
        ),
        (lambda graph, model: asim.compare_gears(graph, dynamic_dims=2.5), "option dynamic_dims must be"),
        (lambda graph, model: model.listing(3), "argument node must be text, not 3"),
        (
            lambda graph, model: asim.simulate(model).top_operators("a"),
            "argument count must be a whole number, not 'a'",
        ),
        (
            lambda graph, model: asim.simulate(model).top_operators(True),
            "argument count must be a whole number, not True",
        ),
        (lambda graph, model: asim.save(model, None), "argument path must be a path, not None"),
        (
            lambda graph, model: asim.simulate(model).save_trace("x.json", level=3),
            'option level must be "task" or "instruction", not 3',
        ),
        (
            lambda graph, model: asim.simulate(model).plot_timeline(window="a"),
            r"option window must be \(a number, a number\), not 'a'",
        ),
        (lambda graph, model: asim.simulate(model).plot_timeline(ax=3), "argument ax must be an Axes, not 3"),
        (
            lambda graph, model: asim.simulate(graph),
            "argument model must be a CompiledModel, not Graph; asim.compile makes one",
        ),
        (
            lambda graph, model: asim.optimize(graph, passes=[3]),
            "option passes must be a sequence of texts, not list",
        ),
        (
            lambda graph, model: asim.compile(graph, oo_constant_folding=1),
            "option oo_constant_folding must be True or False, not 1",
        ),
    ],
)
def test_messages(call: Callable[..., Any], message: str) -> None:
    builder = asim.GraphBuilder("small")
    builder.output(builder.op("Relu", builder.input("x", (1, 4)), name="relu"), "y")
    graph = builder.build()
    with pytest.raises(asim.InputError, match=f"^{message}"):
        call(graph, asim.compile(graph, "Ascend310"))


def test_numbers_of_numpy_are_numbers() -> None:
    builder = asim.GraphBuilder(dtype=asim.GraphBuilder().dtype)
    builder.output(builder.op("Relu", builder.input("x", np.array([1, 4]))), "y")
    model = asim.compile(
        builder.build(), "Ascend310", topo_sorting_mode=np.int64(1), oo_constant_folding=np.bool_(True)
    )
    assert len(asim.simulate(model).top_operators(np.int32(1))) == 1


@checked()
def takes(
    number: int = 0,
    pair: tuple[int, int] = (0, 0),
    word: Literal["a"] | list[int] = "a",
    many: Sequence[str | None] = (),
    nested: Sequence[Sequence[int]] = (),
) -> None:
    """Takes what its annotations say."""


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ({"number": 1}, {"number": True}),
        ({"pair": (1, 2)}, {"pair": (1, 2, 3)}),
        ({"word": "a"}, {"word": "b"}),
        ({"word": [1]}, {"word": ["a"]}),
        ({"many": ["a"]}, {"many": ["a", 1]}),
        ({"many": ["a"]}, {"many": [1]}),
        ({"many": [None]}, {"many": [2.5, None]}),
        ({"many": ["a"]}, {"many": "a"}),
        ({"nested": [[1]]}, {"nested": [["a"]]}),
        ({"nested": [(1,)]}, {"nested": [("a",)]}),
    ],
)
def test_what_was_fine_before_makes_nothing_else_fine(good: dict[str, Any], bad: dict[str, Any]) -> None:
    for _ in range(2):
        takes(**good)
        with pytest.raises(asim.InputError, match=f"argument {next(iter(bad))} must be"):
            takes(**bad)


@checked()
def by_position(word: Literal["a"] | int, number: float = 0, *others: str | list[int]) -> None:
    """Takes what its annotations say."""


@pytest.mark.parametrize(
    ("good", "bad", "name"),
    [
        (("a",), ("b",), "word"),
        ((1, 2.5), (1, "a"), "number"),
        ((1, 2), (1, True), "number"),
        ((1, 2, "a", "b"), (1, 2, "a", 3), "others"),
        ((1, 2, [1]), (1, 2, ["a"]), "others"),
        ((1, 2, "a"), (1, 2, "a", 2.5), "others"),
    ],
)
def test_calls_that_were_fine_before_make_no_other_call_fine(
    good: tuple[Any, ...], bad: tuple[Any, ...], name: str
) -> None:
    for _ in range(2):
        by_position(*good)
        with pytest.raises(asim.InputError, match=f"argument {name} must be"):
            by_position(*bad)


def outcome(function: Callable[..., Any], arguments: list[Any], named: dict[str, Any], label: str) -> str:
    """What is wrong with the way in which a call is refused; empty if nothing is."""
    try:
        function(*arguments, **named)
    except asim.AscendSimError as error:
        return "" if re.search(rf"\b{label}\b", str(error)) else f"does not name it: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "is accepted"
