"""ATC's options beside those of `compile`: other spellings of one, and those that have no effect here, each
with the reason; and the maps of options that C++ programs hand to `aclgrphBuildInitialize`.

Names: CANN's ATC guide, and the header of its IR building interface (`ge::ir_option`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ascendsim.compiler.options import CompileOptions, cli_options
from ascendsim.core.arguments import checked
from ascendsim.core.errors import InputError, suggest

Framework = Literal["caffe", "mindspore", "tensorflow", "onnx"]
# ATC's numbers of --framework
FRAMEWORKS: Mapping[str, Framework] = {"0": "caffe", "1": "mindspore", "3": "tensorflow", "5": "onnx"}
# --precision_mode_v2, in the words of --precision_mode
PRECISION_V2: Mapping[str, str] = {
    "fp16": "force_fp16",
    "origin": "must_keep_origin_dtype",
    "cube_fp16in_fp32out": "cube_fp16in_fp32out",
    "mixed_float16": "allow_mix_precision",
}
_NO_FILES = "nothing is compiled to files here"
_NO_TUNING = "tiles are picked by the machine (profile option tiling)"
_INSIDE = "inputs and outputs keep the model's types and layouts"
_NO_HOST = "the host is no part of the simulation"
# ATC's options that are accepted with a warning: why they change nothing
WITHOUT_EFFECT: Mapping[str, str] = {
    "ac_parallel_enable": "the AI CPU has a stream of its own wherever it can run beside the AI Cores",
    "atomic_clean_policy": "workspaces need no clearing here",
    "auto_tune_mode": _NO_TUNING,
    "check_report": "--mode 3 prints what it found",
    "compress_weight_conf": "no chip here has compressed weights",
    "core_type": "every operator runs on the cores that its chip has for it",
    "customize_dtypes": "--keep_dtype and --output_type set types",
    "debug_dir": _NO_FILES,
    "deterministic": "sums have one order here",
    "distributed_cluster_build": "one device is compiled for",
    "dump_mode": "--dump_stages writes the graph after each stage",
    "enable_compress_weight": "no chip here has compressed weights",
    "enable_scope_fusion_passes": "scopes of TensorFlow are lost in ONNX files",
    "enable_small_channel": "convolutions of few channels load whole blocks of channels here",
    "external_weight": _NO_FILES,
    "host_env_cpu": _NO_HOST,
    "host_env_os": _NO_HOST,
    "input_fp16_nodes": _INSIDE,
    "is_input_adjust_hw_layout": _INSIDE,
    "is_output_adjust_hw_layout": _INSIDE,
    "is_weight_clip": "weights beyond float16 are cut to its last number, as with 1",
    "jit_compile": "every operator is compiled for its shapes",
    "mdl_bank_path": _NO_TUNING,
    "op_bank_path": _NO_TUNING,
    "op_compiler_cache_dir": _NO_FILES,
    "op_compiler_cache_mode": _NO_FILES,
    "op_debug_config": _NO_FILES,
    "op_debug_level": _NO_FILES,
    "op_name_map": "operators of your own are given by --operators",
    "quant_dumpable": "quantised tensors can be looked at in any case",
    "shape_generalized_build_mode": "open shapes are compiled when they are known",
    "sparsity": "no chip here has sparse weights",
    "static_model_ops_lower_limit": "every static piece of a dynamic graph is sunk",
    "status_check": "overflow is seen in the values of a run",
    "tiling_schedule_optimize": "tiling costs no time on the host",
    "virtual_type": "one whole device is compiled for",
}
# Keys of ge::ir_option, as constants and as the strings behind them -> options of `compile`
_IR_KEYS: Mapping[str, str] = {
    "SOC_VERSION": "ge.socVersion",
    "AICORE_NUM": "ge.aicoreNum",
    "BUFFER_OPTIMIZE": "ge.bufferOptimize",
    "DYNAMIC_BATCH_SIZE": "ge.dynamicBatchSize",
    "DYNAMIC_DIMS": "ge.dynamicDims",
    "DYNAMIC_IMAGE_SIZE": "ge.dynamicImageSize",
    "ENABLE_SINGLE_STREAM": "ge.enableSingleStream",
    "EXEC_DISABLE_REUSED_MEMORY": "ge.exec.disableReuseMemory",
    "FUSION_SWITCH_FILE": "ge.fusionSwitchFile",
    "INSERT_OP_FILE": "ge.insertOpFile",
    "OPTYPELIST_FOR_IMPLMODE": "ge.optypelistForImplmode",
    "OP_PRECISION_MODE": "ge.exec.op_precision_mode",
    "OP_SELECT_IMPL_MODE": "ge.opSelectImplmode",
    "MODIFY_MIXLIST": "ge.exec.modify_mixlist",
    "OUTPUT_TYPE": "ge.outputDatatype",
    "OUT_NODES": "ge.outputNodeName",
    "PRECISION_MODE": "ge.exec.precision_mode",
    "PRECISION_MODE_V2": "ge.exec.precision_mode_v2",
}
_IR_FIELDS: Mapping[str, str] = {
    "SOC_VERSION": "soc",
    "EXEC_DISABLE_REUSED_MEMORY": "disable_reuse_memory",
    "INSERT_OP_FILE": "insert_op_conf",
    "OP_SELECT_IMPL_MODE": "op_select_implmode",
    "OUT_NODES": "outputs",
}
_NUMBERS = ("aicore_num", "topo_sorting_mode")


def precision_of_v2(name: str) -> str:
    """The --precision_mode that a --precision_mode_v2 stands for.

    Raises:
        InputError: If there is no such mode.

    >>> precision_of_v2("origin")
    'must_keep_origin_dtype'
    """
    if name not in PRECISION_V2:
        remedy = suggest(str(name), PRECISION_V2)
        raise InputError(
            "option precision_mode_v2", f"must be one of {', '.join(PRECISION_V2)}", repr(name), remedy
        )
    return PRECISION_V2[name]


def warning_of(option: str) -> str:
    """What a user is told who gives an option of ATC that has no effect here."""
    return f"option --{option} has no effect here: {WITHOUT_EFFECT[option]}"


@checked()
def ir_options(options: Mapping[str, str | bytes]) -> dict[str, Any]:
    """Arguments for `compile` from a map as C++ programs hand it to `aclgrphBuildInitialize` or
    `aclgrphBuildModel`, and TensorFlow's adapter in its parameter map.

    Args:
        options: Values by key, both texts; a value may be bytes, as `tf.compat.as_bytes` makes them. A key is
            a constant of `ge::ir_option` ("FUSION_SWITCH_FILE", with or without its namespace), the string
            behind it ("ge.fusionSwitchFile"), or ATC's name of the option ("fusion_switch_file").

    Returns:
        Keyword arguments of `compile`.

    Raises:
        InputError: If a key is not known or given twice, or a value breaks a rule.

    >>> ir_options({"ge::ir_option::SOC_VERSION": "Ascend310P3", "ge.enableSingleStream": "true"})
    {'soc': 'Ascend310P3', 'enable_single_stream': True}
    """
    found: dict[str, Any] = {}
    for name, value in _read(options):
        if name in found:
            raise InputError(f"option {name}", "is given twice", remedy="give it once")
        found[name] = value
    return found


def _read(options: Mapping[str, str | bytes]) -> Iterator[tuple[str, Any]]:
    constants = {text: constant for constant, text in _IR_KEYS.items()}
    by_atc_name = {cli.name: name for name, cli in cli_options().items()}
    for key, given in options.items():
        value = _text(key, given)
        constant = constants.get(key, key.removeprefix("ge::ir_option::"))
        atc_name = constant.lower() if constant in _IR_KEYS else key
        field = _IR_FIELDS.get(constant) or by_atc_name.get(atc_name, atc_name)
        if field == "precision_mode_v2":
            yield "precision_mode", precision_of_v2(value)
        elif field in CompileOptions.__dataclass_fields__:
            yield field, _value(field, value)
        elif atc_name not in WITHOUT_EFFECT:
            known = (*_IR_KEYS, *constants, *by_atc_name, *WITHOUT_EFFECT)
            raise InputError(f"option {key!r}", "is none of CANN's build options", remedy=suggest(key, known))


def _text(key: str, value: object) -> str:
    subject = f"option {key!r}"
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise InputError(subject, "must be UTF-8 text", repr(value)) from None
    if not isinstance(value, str):
        remedy = "leave it out" if value is None else f"write '{value}'"
        raise InputError(subject, "must be a text, as in the map", repr(value), remedy)
    return value


def _value(field: str, text: str) -> Any:
    cli = cli_options().get(field)
    if cli is not None and cli.words:
        words = {"0": False, "1": True, "false": False, "true": True}
        if text not in words:
            raise InputError(f"option {field}", "must be true or false, or 1 or 0", repr(text))
        return words[text]
    if field in _NUMBERS:
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise InputError(f"option {field}", "must be a whole number", repr(text))
        return int(text)
    return text
