"""A second reading of composite JSON: every operator straight from the file in NumPy, sharing no code with
the front end.

float16 operators compute in float32 and round once; float32 operators compute in float32, reductions and
matrix products in float64 with one rounding. Tensors in FRACTAL_NZ are brought into row-major form to
compute, and back to be compared.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DATA = Path(__file__).parents[1] / "data" / "akg"
FILES = sorted(path.stem for path in DATA.glob("*.json"))
TILED = "FRACTAL_NZ"
# Static shapes of the dynamic files
SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "cpu_mlir_dynamic_01_sub_mul_add_reducemax": {"input_1": (32, 1, 48, 48), "input_5": (32, 12, 48, 48)},
    "gpu_mlir_dynamic_01_sub_mul_cast": {
        "input_0": (32, 16, 24, 40),
        "input_1": (32, 16, 24, 1),
        "input_2": (32, 16, 24, 40),
    },
}

# Files whose values would take gigabytes of host memory: a dimension (their batch) and what it becomes when
# values are compared
SMALLER: dict[str, tuple[int, int]] = {
    "ascend_ci_01_mul_add_cast_reducemax": (24, 1),
    "ascend_stitch_adapt_01_reshape_cast_sub_mul": (24, 1),
    "ascend_ci_04_add_cast_reducemax_sub": (1824, 64),
    "ascend_ci_06_cast_mul_tensoradd_minimum": (256, 8),
    "ascend_perf_benchmark_02_reducesum_exp_mul_sub": (1216, 64),
    "ascend_perf_benchmark_03_reciprocal_reducesum_mul": (1216, 64),
    "ascend_perf_benchmark_01_cast_reducesum_tensoradd_sqrt": (32, 2),
    "ascend_perf_benchmark_04_tensoradd_sqrt_realdiv_mul": (32, 2),
    "ascend_cube_02_matmul": (2285, 15),
    "gpu_gpt_01_reshape_realdiv_add_reciprocal": (50304, 304),
    "gpu_ssd_01_reshape_cast_neg_exp": (32, 2),
}

BINARY = {
    "Add": np.add,
    "TensorAdd": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "RealDiv": np.divide,
    "Div": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
}
COMPARE = {
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
}
UNARY = {
    "Abs": np.abs,
    "Neg": np.negative,
    "Exp": np.exp,
    "Log": np.log,
    "Sqrt": np.sqrt,
    "Tanh": np.tanh,
    "Reciprocal": lambda x: np.float32(1) / x,
    "Rsqrt": lambda x: np.float32(1) / np.sqrt(x),
}


def read(name: str) -> dict[str, Any]:
    """The parsed file."""
    data: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return data


def read_smaller(name: str) -> dict[str, Any]:
    """The parsed file, its largest dimension cut down where values would take too much memory."""
    data = read(name)
    if name not in SMALLER:
        return data
    old, new = SMALLER[name]

    def cut(item: Any) -> Any:
        if isinstance(item, dict):
            changed = {key: cut(value) for key, value in item.items()}
            for key in ("shape", "value"):
                if isinstance(item.get(key), list) and (key == "shape" or item.get("name") == "shape"):
                    changed[key] = [new if dim == old else dim for dim in item[key]]
            if item.get("name") == "depth" and item.get("value") == old:
                changed["value"] = new
            return changed
        return [cut(one) for one in item] if isinstance(item, list) else item

    cut_data: dict[str, Any] = cut(data)
    return cut_data


def rows(array: Array) -> Array:
    """[.., N1, M1, M0, N0] as [.., M, N]."""
    *batch, n1, m1, m0, n0 = array.shape
    return np.moveaxis(array, -4, -2).reshape(*batch, m1 * m0, n1 * n0)


def tiles(array: Array) -> Array:
    """[.., M, N] as [.., N/16, M/16, 16, 16]."""
    *batch, m, n = array.shape
    return np.moveaxis(array.reshape(*batch, m // 16, 16, n // 16, 16), -2, -4)


def interpret(
    data: Mapping[str, Any], inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Every output of a composite, and the new values of inputs that it overwrites, by name."""
    values: dict[str, Array] = dict(inputs)
    updated: dict[str, Array] = {}
    for op in data["op_desc"]:
        attributes = {item["name"]: item["value"] for item in op["attr"] or []}
        operands, tiled = [], []
        for record in (item for group in op["input_desc"] or [] for item in group):
            if "value" in record:
                array = np.full(record["shape"], record["value"], record["data_type"])
            else:
                array = values[record["tensor_name"]]
            operands.append(array)
            tiled.append(record.get("format") == TILED)
        (target,) = op["output_desc"]
        result = compute(op["name"], operands, tiled, target, attributes)
        if op["name"] in ("Assign", "InplaceAssign"):
            updated[op["input_desc"][0][0]["tensor_name"]] = operands[1]
        values[target["tensor_name"]] = result
    return {record["tensor_name"]: values[record["tensor_name"]] for record in data["output_desc"]}, updated


def compute(
    name: str,
    operands: list[Array],
    tiled: list[bool],
    target: Mapping[str, Any],
    attributes: Mapping[str, Any],
) -> Array:
    """One operator."""
    dtype = np.dtype(target["data_type"])
    shape = target["shape"]
    wide = [array.astype(np.float32) if array.dtype == np.float16 else array for array in operands]
    with np.errstate(all="ignore"):
        if name == "InplaceAssign":
            return operands[2]
        if name == "Assign":
            return operands[1]
        if name == "Cast":
            return operands[0].astype(dtype)
        if name in ("Reshape", "ExpandDims"):
            known = [dim if isinstance(dim, int) and dim > 0 else -1 for dim in shape]
            return operands[0].reshape(known if known.count(-1) < 2 else attributes["shape"])
        if name == "Transpose":
            return operands[0].transpose(attributes["perm"] if "perm" in attributes else operands[1])
        if name == "BroadcastTo":
            return np.array(np.broadcast_to(operands[0], shape))
        if name == "OneHot":
            depth = attributes["depth"]
            hot = operands[0][..., None] == np.arange(depth)
            return np.where(hot, operands[1].reshape(()), operands[2].reshape(())).astype(dtype)
        if name in ("ReduceSum", "ReduceMax"):
            axes = tuple(attributes.get("axis", operands[-1].reshape(-1)))
            fold = np.sum if name == "ReduceSum" else np.max
            return (
                fold(wide[0].astype(np.float64), axis=axes, keepdims=attributes["keep_dims"])
                .astype(np.float32)
                .astype(dtype)
            )
        if name == "MatMul":
            a, b = (rows(array) if flag else array for array, flag in zip(wide, tiled, strict=True))
            a = a.T if attributes.get("transpose_a") else a
            b = b.T if attributes.get("transpose_b") else b
            product = np.matmul(a, b).astype(dtype)
            return tiles(product) if target.get("format") == TILED else product
        if (
            target.get("format") == TILED
        ):  # elementwise on logical matrices: row-major operands broadcast against them
            wide = [
                rows(array) if flag or (array.ndim == len(shape) and array.ndim >= 4) else array
                for array, flag in zip(wide, tiled, strict=True)
            ]
        if name == "AddN":
            result = wide[0]
            for other in wide[1:]:
                result = result + other
        elif name == "Select":
            result = np.where(*wide)
        elif name == "Pow":
            exponent = float(wide[1].reshape(-1)[0]) if wide[1].size == 1 else None
            result = {2.0: lambda x: x * x, 3.0: lambda x: x * x * x}.get(
                exponent, lambda x: np.power(x, wide[1])
            )(wide[0])
        elif name in COMPARE:
            result = COMPARE[name](*wide)
        elif name in BINARY:
            result = BINARY[name](*wide)
        else:
            result = UNARY[name](wide[0])
        result = result.astype(dtype)
        return tiles(result) if target.get("format") == TILED else result


def random_inputs(
    data: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], seed: int = 0
) -> dict[str, Array]:
    """Seeded inputs: positive floats near 1 (roots and logarithms occur), masks, indices below any depth."""
    generator = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for record in (item for group in data["input_desc"] or [] for item in group):
        name, dtype = record["tensor_name"], np.dtype(record["data_type"])
        shape = shapes.get(name, tuple(record["shape"]) or (1,))
        if dtype.kind == "f":
            arrays[name] = generator.uniform(0.1, 1.5, shape).astype(dtype)
        else:
            arrays[name] = generator.integers(0, 2, shape).astype(dtype)
    return arrays
