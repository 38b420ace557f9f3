"""Plugins: what installed packages bring is there as if it were built in, and a bad one harms nobody."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import ascendsim as asim
from ascendsim import soc
from ascendsim.cli.main import main
from ascendsim.cli.run import print_result
from ascendsim.core import plugins
from ascendsim.core.errors import InputError, PluginWarning, SocError, UnsupportedOperatorError
from ascendsim.graph.ir import Graph
from ascendsim.ops import default_opset, opset_with
from ascendsim.report.payload import unpacked
from ascendsim.soc.loading import plugin_chips
from tests.support.installed import Install, example_plugin, installing

OPERATOR = """
from ascendsim.ops.shared.common import elementwise_lower, same_as, with_numpy
from ascendsim.opset import OpDef
from ascendsim.opset.structure import ELEMENTWISE

DOMAIN = __name__

def operator(name, domain=DOMAIN):
    return OpDef(name, domain=domain, infer=same_as(0), compute=with_numpy(lambda node, x: x + 1),
                 facts=ELEMENTWISE)

OPERATORS = (operator("Plus"),)
"""


@pytest.fixture
def example(tmp_path: Path) -> Iterator[None]:
    with example_plugin(tmp_path):
        yield


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Install]:
    with installing(tmp_path) as function:
        yield function


def network(alpha: float = 0.5, added: float = 1.0) -> Graph:
    builder = asim.GraphBuilder("net")
    x = builder.input("x", (16, 256))
    square = builder.op("Mul", builder.op("Mul", x, x), alpha)
    root = builder.op("Sqrt", builder.op("Add", square, added))
    builder.output(builder.op("Div", x, root), "y")
    return builder.build()


def plugins_on(page: str) -> dict[str, str]:
    (text,) = re.findall(r'id="payload">([^<]*)<', page)
    versions: dict[str, str] = unpacked(text)["provenance"]["plugins"]
    return versions


@pytest.mark.usefixtures("example")
def test_an_operator_and_a_chip_of_a_package_run_like_built_in_ones() -> None:
    builder = asim.GraphBuilder("net")
    x = builder.input("x", (16, 256))
    builder.output(builder.op("Isru", x, domain="ascendsim_isru", alpha=0.5), "y")
    values = np.linspace(-4, 4, 16 * 256, dtype=np.float32).reshape(16, 256)
    result = asim.run(asim.compile(builder.build(), soc="Ascend310P3x16", fusion="graph"), {"x": values})
    np.testing.assert_allclose(result.outputs["y"], values / np.sqrt(1 + values**2 / 2), rtol=4e-3)
    assert result.model.soc.ai_cores == 16
    assert "Isru" in {row["OP Type"] for row in result.op_summary().records()}


@pytest.mark.usefixtures("example")
@pytest.mark.parametrize(("added", "joined"), [(1.0, True), (2.0, False)])
def test_a_rule_of_a_package_runs_without_being_named(added: float, joined: bool) -> None:
    model = asim.compile(network(added=added), fusion="graph")
    assert [node.op_type for node in model.graph.nodes if node.op_type == "Isru"] == ["Isru"] * joined
    if joined:
        (made,) = (node for node in model.graph.nodes if node.op_type == "Isru")
        assert made.attr("alpha") == 0.5


@pytest.mark.usefixtures("example")
def test_a_switch_file_can_switch_a_rule_of_a_package_off(tmp_path: Path) -> None:
    switches = tmp_path / "switches.cfg"
    switches.write_text("JoinIsru:off\n")
    model = asim.compile(network(), fusion="graph", fusion_switch_file=switches)
    assert "Isru" not in {node.op_type for node in model.graph.nodes}


def test_off_leaves_all_out(tmp_path: Path) -> None:
    with example_plugin(tmp_path, "off"):
        assert not plugins.installed()
        assert not plugins.fingerprint()
        assert opset_with() is default_opset()
        with pytest.raises(SocError, match="Ascend310P3x16' is unknown; did you mean Ascend310P3"):
            soc.load("Ascend310P3x16")
        model = asim.compile(network(), fusion="graph")
    assert "Isru" not in {node.op_type for node in model.graph.nodes}


@pytest.mark.usefixtures("example")
def test_the_command_lists_what_each_brings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "list"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert lines == [
        ["ascendsim.operators", "isru", "ascendsim-isru", "1.0", "ascendsim_isru::Isru"],
        ["ascendsim.passes", "isru", "ascendsim-isru", "1.0", "JoinIsru"],
        ["ascendsim.chips", "isru", "ascendsim-isru", "1.0", "Ascend310P3x16"],
        ["3", "plugins"],
    ]
    assert main(["passes", "show", "JoinIsru"]) == 0
    assert "of an installed package" in capsys.readouterr().out
    for command, wanted in (
        ("ops", "ascendsim_isru::Isru"),
        ("soc", "Ascend310P3x16"),
        ("passes", "JoinIsru"),
    ):
        assert main([command, "list"]) == 0
        assert f"{wanted} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "module", "problem"),
    [
        ("bad:OPERATORS", "raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("bad:OPERATORS", "import sys; sys.exit(3)", "SystemExit: 3"),
        ("bad:OPERATORS", "import a_module_that_is_not_there", "ModuleNotFoundError"),
        ("bad:MISSING", "OPERATORS = ()", "has no attribute 'MISSING'"),
        ("bad:OPERATORS", "OPERATORS = 42", "must name a tuple of OpDef, not int"),
        ("bad:OPERATORS", "OPERATORS = ()", "must name a tuple of OpDef"),
        ("bad:OPERATORS", "OPERATORS = ('Relu',)", "not one with a str"),
        ("bad:OPERATORS", OPERATOR + "OPERATORS = (operator('Relu', ''),)", "::Relu has a name that is"),
        ("bad:OPERATORS", OPERATOR + "OPERATORS *= 2", "has a name that is taken"),
    ],
)  # fmt: skip
def test_a_bad_package_is_named_and_left_out(
    install: Install, capsys: pytest.CaptureFixture[str], value: str, module: str, problem: str
) -> None:
    install("bad", "0.3", {plugins.OPERATORS: {"first": value}}, module)
    install("good", "2.0", {plugins.OPERATORS: {"second": "good:OPERATORS"}}, OPERATOR)
    with pytest.warns(PluginWarning, match="plugin 'first' of package bad 0.3 is left out") as caught:
        known = opset_with()
    assert len(caught) == 1
    assert problem in str(caught[0].message)
    assert len(known) == len(default_opset()) + 1
    assert plugins.versions() == {"good": "2.0"}
    assert opset_with() is known  # and nothing is said twice
    plugins.forget()
    assert main(["plugins", "list"]) == 1
    assert problem.partition(":")[0] in capsys.readouterr().out


def test_strict_makes_a_fault_an_error(tmp_path: Path) -> None:
    with installing(tmp_path, "strict") as install:
        install("bad", entries={plugins.OPERATORS: {"one": "bad:OPERATORS"}}, module="OPERATORS = 42")
        with pytest.raises(
            InputError, match=r"plugin 'one' of package bad 1\.0 cannot be used.*uninstall bad"
        ):
            opset_with()


def test_another_word_in_the_variable_is_refused(tmp_path: Path) -> None:
    with (
        installing(tmp_path, "of"),
        pytest.raises(InputError, match="ASCENDSIM_PLUGINS must be one of on, off"),
    ):
        opset_with()


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [("ascendsim>=99", False), ("AscendSim<0.1", False), ("ascendsim>=0.1", True), ("numpy>=99", True)],
)
def test_a_package_for_another_release_is_left_out(install: Install, requirement: str, fits: bool) -> None:
    entries = {plugins.OPERATORS: {"one": "mine:OPERATORS"}}
    install("mine", entries=entries, module=OPERATOR, requires=(requirement,))
    if fits:
        assert len(opset_with()) == len(default_opset()) + 1
        return
    with pytest.warns(PluginWarning, match="it needs .*, this is 0.1.0"):
        assert opset_with() is default_opset()


def test_two_packages_with_one_name_are_an_error_that_names_both(install: Install) -> None:
    install("mine", "1.0", {plugins.OPERATORS: {"one": "mine:OPERATORS"}}, OPERATOR)
    install("yours", "2.0", {plugins.OPERATORS: {"one": "yours:OPERATORS"}}, OPERATOR)
    with pytest.raises(InputError, match=r"plugin 'one'.* defined twice: by package .*mine 1\.0.*"):
        plugins.installed()


def test_two_packages_with_one_operator_are_an_error_that_names_both(install: Install) -> None:
    same = OPERATOR.replace("__name__", "'shared'")
    install("mine", "1.0", {plugins.OPERATORS: {"a": "mine:OPERATORS"}}, same)
    install("yours", "2.0", {plugins.OPERATORS: {"b": "yours:OPERATORS"}}, same)
    both = r"'shared::Plus' .*twice: by package mine 1\.0 and by yours 2\.0; uninstall one"
    with pytest.raises(InputError, match=both):
        opset_with()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (
            "Ascend310",
            'name = "Ascend310"\nextends = "Ascend310P3"',
            "chip Ascend310 has a name that is taken",
        ),
        (
            "Ascend910",
            'name = "Ascend910"\nextends = "Ascend910A"',
            "chip Ascend910 has a name that is taken",
        ),
        ("Mine", 'name = "Yours"\nextends = "Ascend310"', "key name must be the name of the file"),
        ("Mine", "name =", "is not valid TOML"),
        (None, "", "must name a folder of chip files"),
    ],
)
def test_a_bad_folder_of_chips_is_left_out(
    install: Install, tmp_path: Path, name: str | None, text: str, problem: str
) -> None:
    folder = tmp_path / "figures"
    folder.mkdir()
    if name is not None:
        (folder / f"{name}.toml").write_text(text)
    install("mine", entries={plugins.CHIPS: {"one": "mine:FOLDER"}}, module=f"FOLDER = {str(folder)!r}")
    with pytest.warns(PluginWarning, match=problem):
        assert plugin_chips() == {}
    assert soc.load("Ascend310").ai_cores == 2


@pytest.mark.parametrize(
    ("module", "problem"),
    [
        ("RULES = ()", "an empty tuple"),
        ("RULES = ('JoinIsru',)", "takes instances of FusionRule"),
        (
            "from ascendsim.passes.fusion.rules import all_rules\nRULES = all_rules()[:1]",
            "has a name that is taken",
        ),
    ],
)
def test_bad_rules_are_left_out(install: Install, module: str, problem: str) -> None:
    install("mine", entries={plugins.PASSES: {"one": "mine:RULES"}}, module=module)
    with pytest.warns(PluginWarning, match=problem):
        asim.compile(network(), fusion="graph")


def test_reports_name_the_packages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with example_plugin(tmp_path):
        result = asim.simulate(asim.compile(network()))
        assert plugins_on(result.report().html) == {"ascendsim-isru": "1.0"}
        print_result(result, 3)
        assert "extended by ascendsim-isru 1.0\n" in capsys.readouterr().out
    assert plugins_on(result.report().html) == {}


def test_a_saved_model_names_the_packages_it_needs(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    with example_plugin(tmp_path / "site"):
        saved = asim.save(asim.compile(network()), tmp_path / "net.asim")
        assert asim.load_compiled(saved).graph.nodes[0].op_type
    with pytest.raises(InputError, match=r"with the plugins of ascendsim-isru 1\.0 \(here not installed\)"):
        asim.load_compiled(saved)


def test_the_fingerprint_follows_the_text_of_a_package(install: Install, tmp_path: Path) -> None:
    assert plugins.fingerprint() == ""
    install("mine", entries={plugins.OPERATORS: {"one": "mine:OPERATORS"}}, module=OPERATOR)
    first = plugins.fingerprint()
    (tmp_path / "mine.py").write_text(OPERATOR + "\n# another text, the same version\n")
    plugins.forget()
    assert first != plugins.fingerprint() != ""
    assert "mine" not in sys.modules  # a key is made without running anything


def test_the_import_of_ascendsim_asks_for_no_package() -> None:
    code = "import sys, ascendsim; sys.exit('importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_operator_that_is_not_installed_is_unknown() -> None:
    builder = asim.GraphBuilder("net", infer=lambda node: None)
    builder.output(builder.op("Isru", builder.input("x", (4, 4)), domain="ascendsim_isru"), "y")
    with pytest.raises(UnsupportedOperatorError, match="ascendsim_isru::Isru"):
        asim.compile(builder.build())
