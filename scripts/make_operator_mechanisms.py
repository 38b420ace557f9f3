"""Writes ascendsim/validate/data/operator_mechanisms.csv: what each mechanism is worth on published operators.

    python scripts/make_operator_mechanisms.py        some minutes

Each is switched off by itself, by a figure of the chips; rows that were set aside are counted apart.
`scripts/make_accuracy_page.py` shows the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ascendsim.core.files import write_whole
from ascendsim.validate.operators import Timing, compare_operators, score_operators

TARGET = Path(__file__).resolve().parents[1] / "ascendsim" / "validate" / "data" / "operator_mechanisms.csv"
LARGE_US = 300.0  # what takes longer moves more than L2 holds


@dataclass(frozen=True)
class Mechanism:
    """A mechanism, the rows that it is about, and how it is switched off."""

    name: str
    group: str
    kinds: frozenset[str]
    off: dict[str, str | int | float]
    least_us: float = 0.0


OPEN = {"kernels.tiling_ns": 0, "kernels.core_code_ns": 0}
FILTERS = {"kernels.transdata_filter_cycles": 0, "kernels.transdata_by_images": False}
GRADIENTS = frozenset({"Conv2DBackpropInput", "Conv2DBackpropFilter"})
CONVOLUTIONS = GRADIENTS | {"Conv2D"}
MECHANISMS = (
    Mechanism(
        "bus turned around between reads and writes; more than 300 us",
        "910B4",
        frozenset({"Add", "Cast", "Exp", "Mul", "RealDiv", "Sub", "TensorMove"}),
        {"dram.mixed_efficiency": 1},
        LARGE_US,
    ),
    Mechanism(
        "tiling and code of kernels for open shapes",
        "910B",
        frozenset({"LogSoftmaxV2", "ReduceSum", "Transpose"}),
        OPEN,
    ),
    Mechanism("TransData: filters by the scalar unit", "910B", frozenset({"TransData"}), FILTERS | OPEN),
    Mechanism(
        "ragged rows start and go at a rate of their own",
        "910B",
        frozenset({"TransData"}),
        {"dma.ragged_row_cycles": 45, "dma.ragged_row_bytes_per_cycle": 126},
    ),
    Mechanism(
        "channels cut into equal parts",
        "910B-30",
        frozenset(
            {
                *("Conv2DBackpropInput", "FusionOp_Conv2D_BNTrainingReduce"),
                *("FusionOp_Conv2DBackpropInput_ReluGradV2", "FusionOp_Conv2DBackpropInput_AddN_ReluGradV2"),
            }
        ),
        {"kernels.divides_maps": False},
    ),
    Mechanism("channels cut into equal parts", "310", frozenset({"Conv2D"}), {"kernels.divides_maps": False}),
    Mechanism("cut as tuned", "910A-tuned", GRADIENTS, {"kernels.tuned_gradients": False}),
    Mechanism(
        "whole blocks of channels a core",
        "910A-tuned",
        frozenset({"DepthwiseConv2DBackpropFilter"}),
        {"kernels.depthwise_by_blocks": False},
    ),
    Mechanism(
        "DRAM as these rows have it",
        "910A-tuned",
        GRADIENTS,
        {"dram.read_gb_per_s": 1024, "dram.write_gb_per_s": 1024, "dram.mixed_efficiency": 1},
    ),
    Mechanism(
        "traffic of both directions at its measured rate",
        "310",
        frozenset({"Conv2D"}),
        {"dram.mixed_efficiency": 0.84},
    ),
    Mechanism("convolutions in HF32", "910B", CONVOLUTIONS, {"kernels.convolves_hf32": False}),
    Mechanism("convolutions in HF32", "910B2", frozenset({"conv_2d"}), {"kernels.convolves_hf32": False}),
    Mechanism("whole images a core", "910B", frozenset({"Conv2D"}), {"kernels.even_images": False}),
    Mechanism(
        "start of the matmul library",
        "910B2",
        frozenset({"quant_matmul"}),
        {"kernels.library_start_ns": 0},
    ),
    Mechanism(
        "code that the cores do not hold",
        "910B2",
        frozenset({"apply_adam_w"}),
        {"kernels.long_code_ns": 0},
    ),
    Mechanism(
        "blocks by bytes of the result",
        "910B-30",
        frozenset({"Add", "Cast", "Mul", "Sub"}),
        {"kernels.core_bytes": 4096},
    ),
    Mechanism(
        "reads and writes of L2 in turn",
        "910B-30",
        frozenset({"Add", "AddN", "Cast", "Concat", "Mul", "Sub"}),
        {"l2.half_duplex": False},
    ),
    Mechanism(
        "128 B a cycle out of UB",
        "910B-30",
        frozenset({"AtomicAddrClean", "Conv2DBackpropFilter", "RealDiv"}),
        {"ports.ub_to_gm": 64},
    ),
    Mechanism(
        "work cut evenly, broadcasts too",
        "910B-30",
        frozenset({"Cast", "Equal", "FusedMulApplyMomentum", "Mul", "Select", "Slice"}),
        {"kernels.even_shares": False},
    ),
    Mechanism(
        "channels spread over maps",
        "910B-30",
        frozenset({"BNTrainingReduceGrad", "BNTrainingUpdate", "FusionOp_BNTrainingUpdate_ReLUV2"}),
        {"kernels.spreads_channels": False},
    ),
    Mechanism(
        "blocks of maps in turns, bits tap by tap",
        "910B-30",
        frozenset({"ConfusionTransposeD", "MaxPoolGradWithArgmax", "MaxPoolWithArgmax", "Transpose"}),
        {"kernels.map_blocks": False},
    ),
    Mechanism(
        "numbers one by one through registers",
        "910B-30",
        frozenset(
            {
                "BiasAddGrad",
                "ConfusionSoftmaxGrad",
                "Gather",
                "OneHot",
                "Slice",
                "SoftmaxCrossEntropyWithLogits",
                "Tile",
                "UnsortedSegmentSum",
            }
        ),
        {"kernels.register_move_cycles": 0},
    ),
    Mechanism(
        "rows added one after the other",
        "910B-30",
        frozenset({"BiasAddGrad", "ReduceSum"}),
        {"kernels.adds_rows_cycles": 1},
    ),
    Mechanism(
        "masks set for each repeat",
        "910B-30",
        frozenset({"DropoutDoMask", "ReluGradV2"}),
        {"kernels.select_sets_mask": False},
    ),
    Mechanism(
        "TransData: all cores, one buffer",
        "910B-30",
        frozenset({"TransData"}),
        {"kernels.transdata_in_turn": False},
    ),
    Mechanism(
        "TransData: arguments of its tiling",
        "910B-30",
        frozenset({"TransData"}),
        {"kernels.transdata_start_ns": 0},
    ),
    Mechanism(
        "products read 80 B a cycle",
        "910B-30",
        frozenset({"MatMul", "FusionOp_MatMul_Mul", "FusionOp_MatMul_ReLU", "Conv2DBackpropFilter"}),
        {"ports.gm_to_l1": 171},
    ),
    Mechanism(
        "selections wait for the mask of a repeat",
        "910B-30",
        frozenset({"Equal", "ReluGrad", "Select"}),
        {"kernels.selects_by_repeat": False},
    ),
    Mechanism(
        "selections wait for the mask of a repeat",
        "910B2",
        frozenset({"mish"}),
        {"kernels.selects_by_repeat": False},
    ),
    Mechanism(
        "float32 divides at 32 elements a cycle",
        "910B2",
        frozenset({"gelu", "sigmoid"}),
        {"vector.cycles_per_repeat.vdiv.float32": 4},
    ),
)


def medians(timings: list[Timing]) -> tuple[str, str]:
    """Median errors in percent: of rows that were there to learn from, and of those set aside."""
    sides = ([t for t in timings if not t.row.held], [t for t in timings if t.row.held])
    seen, held = (f"{100 * score_operators(side).median:.1f}" if side else "" for side in sides)
    return seen, held


def main() -> None:
    """Simulates and writes."""
    lines = ["mechanism,chip,operators,rows,median_without,set_aside_without,median,set_aside"]
    for item in MECHANISMS:
        runs = [
            [
                timing
                for timing in compare_operators([item.group], kinds=item.kinds, overrides=overrides)[0]
                if timing.row.duration_us >= item.least_us
            ]
            for overrides in (item.off, {})
        ]
        cells = (
            item.group,
            " ".join(sorted(item.kinds)),
            str(len(runs[0])),
            *medians(runs[0]),
            *medians(runs[1]),
        )
        lines.append(",".join((f'"{item.name}"', *cells)))
        print(lines[-1])
    write_whole(TARGET, ("\n".join(lines) + "\n").encode())


if __name__ == "__main__":
    main()
