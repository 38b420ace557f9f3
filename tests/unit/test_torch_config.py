"""torchair's configuration and gears: what they do, and what they refuse."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import ascendsim as asim
from ascendsim.core.errors import InputError
from tests.support.torch_present import torch_or_skip

pytestmark = pytest.mark.usefixtures("untimed_tiles")


def test_options_that_exist_are_compiled_with():
    config = asim.torch.CompilerConfig()
    assert config.compile_options() == {}
    config.fusion_config.fusion_switch_file = "switches.cfg"
    config.ge_config.oo_level = "O1"
    config.ge_config.optimization_switch = "PassA:off"
    config.ge_config.aicore_num = "8"
    config.ge_config.oo_constant_folding = False
    assert config.compile_options() == {
        "fusion_switch_file": "switches.cfg",
        "oo_level": "O1",
        "optimization_switch": "PassA:off",
        "aicore_num": 8,
        "oo_constant_folding": False,
    }
    assert copy.deepcopy(config).ge_config.aicore_num == 8
    assert asim.torch.CompilerConfig().ge_config.aicore_num is None  # nothing is shared
    assert "graph_dump" in dir(config.debug)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "ge_config.oo_levels",
            "O1",
            "option ge_config.oo_levels does not exist; did you mean ge_config.oo_level",
        ),
        ("ge_config.oo_level", "O2", "option ge_config.oo_level must be 'O1' or 'O3', not 'O2'"),
        ("ge_config.aicore_num", 0, "option ge_config.aicore_num must be a whole number from 1 on, not 0"),
        ("ge_config.aicore_num", "24|48", "must be a whole number from 1 on, not '24|48'"),
        ("debug.run_eagerly", 1, "option debug.run_eagerly must be True or False, not 1"),
        ("debug.graph_dump.type", "pdf", "option debug.graph_dump.type must be 'txt', not 'pdf'"),
        ("debug.data_dump.type", "npy", "option debug.data_dump is torchair's, and not modelled"),
        ("experimental_config.cc_parallel_enable", True, "option experimental_config is torchair's, and not"),
        ("debugg.run_eagerly", True, "option debugg does not exist; did you mean debug"),
        ("ge_config", 3, "option ge_config has options of its own; set ge_config.oo_level"),
        ("mode", "reduce-overhead", "option mode must be 'max-autotune', not 'reduce-overhead'"),
        (
            "fusion_config.fusion_switch_file",
            3,
            "option fusion_config.fusion_switch_file must be a path, not 3",
        ),
    ],
)
def test_others_are_refused_by_name_and_change_nothing(path, value, message):
    config = asim.torch.CompilerConfig()
    *sections, name = path.split(".")

    def setting():
        at = config
        for section in sections:
            at = getattr(at, section)
        setattr(at, name, value)

    with pytest.raises(InputError) as caught:
        setting()
    assert message in str(caught.value)
    assert repr(config) == "CompilerConfig(torchair: {})"


class TestCompiled:
    @pytest.fixture(autouse=True)
    def torch(self):
        torch = torch_or_skip()
        torch._dynamo.reset()
        yield torch
        torch._dynamo.reset()

    def test_a_configuration_steers_the_compilation(self, torch, tmp_path):
        config = asim.torch.CompilerConfig()
        config.ge_config.aicore_num = 2
        for dump, kind in ((config.debug.graph_dump, "txt"), (config.debug.fx_summary, "csv")):
            dump.type, dump.path = kind, tmp_path
        back_end = asim.torch.get_npu_backend(compiler_config=config)
        model = torch.compile(lambda x: torch.tanh(x) * 2, backend=back_end, options={"soc": "Ascend310P3"})
        x = torch.linspace(0, 1, 6)
        np.testing.assert_allclose(model(x), torch.tanh(x) * 2, rtol=1e-6)
        (run,) = asim.torch.last_runs()
        assert (run.result.model.soc.name, run.result.model.soc.ai_cores) == ("Ascend310P3", 2)
        assert "Tanh(" in (tmp_path / "graph_001_inference.txt").read_text()
        summary = (tmp_path / "graph_001_inference.csv").read_text()
        assert "aten.tanh.default,aten,supported,1,Tanh,float32[6],float32[6]" in summary

    def test_eagerly_nothing_runs_on_the_chip(self, torch):
        config = asim.torch.CompilerConfig()
        config.debug.run_eagerly = True
        model = torch.compile(lambda x: torch.tanh(x) * 2, backend=asim.torch.get_npu_backend(config))
        x = torch.linspace(0, 1, 6)
        assert torch.equal(model(x), torch.tanh(x) * 2)
        assert asim.torch.last_runs() == ()

    def test_gears_are_compiled_once_each_and_other_sizes_are_refused(self, torch):
        torch._dynamo.utils.counters.clear()
        model = torch.compile(lambda x: torch.tanh(x) * 2, backend=asim.torch.backend)
        for size in (4, 8, 4, 1, 8):
            x = torch.ones(size, 3)
            asim.torch.set_dim_gears(x, {0: [1, 4, 8]})
            assert model(x).shape == (size, 3)
        assert [run.calls for run in asim.torch.last_runs()] == [2, 2, 1]
        captured = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        assert captured == 2  # one with the size open, one for a batch of 1, which PyTorch treats apart
        with pytest.raises(InputError, match="size of dimension 0 must be one of its gears 1, 4, 8, not 5"):
            model(torch.ones(5, 3))

    def test_wrong_gears_are_refused(self, torch):
        x = torch.ones(4, 3)
        for gears, message in (
            ({2: [1, 4]}, "a key of dim_gears must be a dimension of the tensor, 0 to 1, not 2"),
            ({0: [1, 0]}, "gears of dimension 0 must be different whole numbers from 1 on"),
            ({0: [4, 4]}, "gears of dimension 0 must be different"),
            ({0: []}, "gears of dimension 0 must be different"),
            ({0: [1, 8]}, "size of dimension 0 must be one of its gears 1, 8, not 4"),
        ):
            with pytest.raises(InputError, match=message):
                asim.torch.set_dim_gears(x, gears)
        with pytest.raises(InputError, match="argument t must be a tensor, not list"):
            asim.torch.set_dim_gears([1], {0: [1, 2]})
        model = torch.compile(lambda x: x + 1, backend=asim.torch.backend)
        assert model(torch.ones(4, 3)).shape == (4, 3)  # nothing was noted
