"""Steps to more of a resource and to less work: what they may cost, and those that cost more, with the
reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

MORE, LESS = 1.01, 1.05  # what a step may cost at most: noise of the order of events, and of whole tiles


@dataclass(frozen=True, slots=True)
class Step:
    """One step to more of a resource, or to more work.

    Attributes:
        subject: What is run: a network on a chip, or a kind of operator on one.
        name: The resource, or the size that grows.
        before, after: Its values.
        time_before, time_after: Microseconds.
    """

    subject: str
    name: str
    before: str
    after: str
    time_before: float
    time_after: float

    @property
    def ratio(self) -> float:
        """Time after the step to time before it."""
        return self.time_after / self.time_before

    def __str__(self) -> str:
        times = f"{self.time_before:10.2f} -> {self.time_after:10.2f} us"
        values = f"{self.before:>10} -> {self.after:10}"
        return f"{self.subject:28} {self.name:12} {values} {times} {self.ratio - 1:+7.1%}"


@dataclass(frozen=True, slots=True)
class Known:
    """Steps that cost more than they may, and why.

    Attributes:
        name: The resource or size.
        subjects: Where the subject has all of these in it, and ends with them if they are chips; () =
            everywhere.
        reason: With the published figure, or the mechanism.
        at_most: What such a step may cost.
        values: To which it goes; () = any.
    """

    name: str
    subjects: tuple[str, ...]
    reason: str
    at_most: float
    values: tuple[str, ...] = ()

    def fits(self, step: Step) -> bool:
        """Whether it speaks of this step."""
        if self.name != step.name or (self.values and step.after not in self.values):
            return False
        return all(
            step.subject.endswith(f" {part}") if part.startswith("Ascend") else part in step.subject
            for part in self.subjects
        )


def reason_of(step: Step, known: Sequence[Known]) -> Known | None:
    """Why a step is known to cost more."""
    return next((item for item in known if item.fits(step)), None)


BLOCKS = (
    "CANN's elementwise kernels take a core for every 1024 elements, also where fewer are quicker: block "
    "counts of profiles of 910A and 910B; one kernel swept from 32 to 2 blocks: 4.76 -> 3.48 us"
)
RAGGED = (
    "rows that fill no blocks of 32 bytes are placed one by one: TransData in profiles of 910A and 910B, "
    "dma.ragged_row_cycles"
)
STEPS_OF_LAYERS = (
    "the product in a recurrent layer's step takes the closed form's first tiling, which counts rates only: "
    "the search times tasks, not a product between gates and barriers. Of the six best of lstm_lm on 910B1 "
    "the third is 4 % quicker with 128 KiB of L0A, the sixth 1 % at four times the bandwidth"
)
SHORT_LOADS = (
    "the search fills L0 with a step of k, and L1 with whole channel blocks where these fit (single kernel "
    "rows only of maps with one block); shorter ones, with which the Cube begins sooner, are looked at in a "
    "smaller buffer alone. A product of 64 x 128 x 128 takes 2.15 us with half of L0, 2.44 us with all of "
    "it; looking at half of L0 everywhere makes ten networks on three chips up to 0.4 % quicker, and BERT "
    "on 910B1 0.8 to 1.4 %, and compiling take 1.3 to 1.8 times as long"
)
WHOLE_IN_UB = (
    "TransposeD with a last axis that stays is started in blocks of as many places as UB holds, whatever the "
    "number of cores (the vendor's kernel): two where UB holds all of a tensor, so that 22.7 us become 64.1"
)
SHORT_LIST = (
    "the search times one share for each size of tile, and of these six at most that the closed form puts "
    "within 8 % of its best: the quickest tiling stays possible with more of a resource, but may fall off "
    "this list. vgg16's first Gemm takes 331064 ticks with a tile that is 5 % behind the best at half of the "
    "rate and 12 % at all of it, 345922 with the best that is timed then; a list of 30 % makes six networks "
    "on chips up to 1.3 % quicker, and compiling take 1.28 times as long"
)
ALL_LAUNCHED = (
    "TransData is launched on all of the 32 cores of 910A, however little there is (profiles), and a block "
    "takes 87 ns: four of them are more than a third of lenet5's time. From 8 to 32 cores it takes 89 of the "
    "113 us that ghostnet loses, and 51 of the 54 of shufflenet_v1; 108 of the 193 of llama_mini, whose "
    "other losses are elementwise kernels and slices"
)
EVEN = (
    "products of the first training chips are cut into parts and tiles of equal size, and L1 holds no more "
    "of k than L0 (profiles of the chip with 30 cores; kernels.even_products): 19 blocks of rows leave tiles "
    "of one or of 19, and a larger L0 has longer steps, which begin later"
)
KNOWN_MORE: tuple[Known, ...] = (
    Known("L0A and L0B", ("lstm_lm", "Ascend910A"), EVEN, 1.06),  # products in its layers
    Known("L0A and L0B", ("lstm_lm",), STEPS_OF_LAYERS, 1.02),
    Known("L0A and L0B", ("bert_", "Ascend910B1"), SHORT_LOADS, 1.02),
    Known("L0A and L0B", ("bert_", "Ascend910A"), EVEN, 1.03),
    Known("L0C", ("bert_", "Ascend910A"), EVEN, 1.03),
    # depthwise 5x5 layers: steps of k of 208 instead of 80, four layers 85 -> 107 us each
    Known("L0A and L0B", ("efficientnet_b3", "Ascend310"), SHORT_LOADS, 1.02),
    Known("L1", ("bert_", "Ascend910B1"), SHORT_LOADS, 1.02),
    # seven layers: half of the channels a load, or all of them; 53 -> 58 us at most
    Known("L1", ("unet", "Ascend910B1"), SHORT_LOADS, 1.015),
    Known("bandwidth", ("lstm_lm", "Ascend910B1"), STEPS_OF_LAYERS, 1.04),
    Known("cube cores", ("lstm_lm", "Ascend910B1"), STEPS_OF_LAYERS, 1.06),
    Known("cube cores", ("bert_large_s384", "Ascend910B1"), SHORT_LIST, 1.025),
    Known("L2 rate", ("bert_large_s384", "Ascend910B1"), SHORT_LIST, 1.025),
    Known("L2 rate", ("vgg16", "Ascend910B1"), SHORT_LIST, 1.06),  # all of it in this Gemm
    # ten layers of 14 x 14: chunks for eight entries are four tilings of the list, six with a queue of eight
    Known("queues", ("resnet34", "Ascend310P3"), SHORT_LIST, 1.015),
    Known("L2 rate", ("bert_large_s128", "Ascend910B1"), SHORT_LIST, 1.025),
    Known("queues", ("vgg16", "Ascend910B1"), SHORT_LIST, 1.02),
    Known("cube cores", ("unet", "Ascend910B1"), SHORT_LIST, 1.03),
    Known("L2 size", ("vgg16", "Ascend910B1"), SHORT_LIST, 1.045),
    Known("cores", ("lstm_lm", "Ascend910B1"), STEPS_OF_LAYERS, 1.06),
    Known("cores", ("llama_mini", "Ascend910A"), ALL_LAUNCHED, 1.23),
    Known("cores", ("llama_mini",), BLOCKS, 1.19),  # most are elementwise or copies, of 32 Ki elements
    # from 24 to 48 vector cores yolov3 loses 211 of 229 us in 72 LeakyRelu, efficientnet_b1 131 of 150 in
    # Sigmoid, deit_small 220 of 224 in Slice, Add, Mul and Gelu
    Known("cores", ("Ascend910B1",), BLOCKS, 1.19),  # deit_small: StridedSliceD, Add and Mul, products gain
    Known("vector cores", ("Ascend910B1",), BLOCKS, 1.20),
    Known("cores", ("densenet121", "Ascend910A"), BLOCKS, 1.09),  # 106 of 106 us in ConcatD and BNInferenceD
    Known("cores", ("lenet5", "Ascend910A"), ALL_LAUNCHED, 1.25),
    Known("cores", ("ghostnet", "Ascend910A"), ALL_LAUNCHED, 1.14),
    Known("cores", ("shufflenet_v1", "Ascend910A"), ALL_LAUNCHED, 1.12),
    Known("cores", (), BLOCKS, 1.07),  # 16 to 32 cores of 310P3: 58 of densenet121's 56 us are ConcatD
    Known("UB", ("deit_small", "Ascend910A"), WHOLE_IN_UB, 1.41),
    Known("UB", ("vit_s_16", "Ascend910A"), WHOLE_IN_UB, 1.41),
    Known("UB", ("swin_t", "Ascend910A"), WHOLE_IN_UB, 1.31),
    Known(
        "UB", (), "a share is cut in four tiles at least; in a smaller UB it is more, which hide more", 1.03
    ),
    Known(
        "L2 size",
        (),
        "a cache that keeps written lines pays for them where it fills up, a smaller one all along",
        1.05,
    ),
)
RAGGED_TRANSPOSE = (
    "lines that fill no whole blocks: maps of 85 channels are transposed at 64 to 86 GB/s on the first "
    "generation of 910, those of whole blocks at 0.8 to 1 TB/s (profiles of YOLO networks)"
)
RAGGED_PRODUCT = (
    "rows that fill no whole blocks become fractals at a tenth of the rate: the vendor's example with rows "
    "of 4095 elements, dma.ragged_nd2nz_bytes_per_cycle"
)
RAGGED_ROWS = (
    "rows that fill no whole blocks: addresses on no 512 B boundary reach 0.70 of the rate and a length of "
    "no whole repeats costs 16 cycles (vendor's guides: dram.unaligned_efficiency, vector.mask_cycles); "
    "Softmax of 76800 rows of 50 takes 1359 us on the first generation of 910B, its gradient in blocks 126"
)
RAGGED_SUMS = (
    "rows that fill no whole blocks are added up by all cores: BiasAddGrad of 32 x 84 takes 32 blocks and "
    "3.69 us on 910A, of 32 x 120 16 blocks and 2.91 us (profile of LeNet-5)"
)
UNFOLDED_ROWS = (
    "16 positions of a map 14 wide lie in two or three input rows, which load3d makes into a fractal at "
    "2 / (2 + rows) of its rate (vendor's table; ports.load3d_least_l0a)"
)
BETWEEN_TRANSPOSES = (
    "CANN's softmaxTransFusionPass puts rows of less than 16 between two transposes, also where these take "
    "longer than the rows (canndev, softmax_transpose_fusion_pass.cc)"
)
ROWS_IN_TURN = (
    "TBE's kernels take rows one by one unless they fill fractals (kernels.rows_in_turn): Softmax of 197 "
    "tokens costs LV-ViT 9.8 ms a layer on 310, ViT on 310P is 50 % too fast without it, and on the first "
    "generation of 910B Softmax takes 478 cycles a row of 50 and LayerNorm 530 a row of 768"
)
# by chip: Softmax with other rows, with other columns; LayerNorm with other rows, with other columns
IN_TURN = {
    "Ascend310": (7.3, 7.4, 5.7, 9.4),
    "Ascend310P3": (5.6, 4.3, 4.5, 7.2),
    "Ascend910A": (2.15, 3.6, 2.45, 3.5),
}
KNOWN_LESS: tuple[Known, ...] = (
    Known("m", ("gemm", "Ascend910A"), EVEN, 1.25),
    Known("n", ("gemm", "Ascend910A"), EVEN, 1.2),
    Known("k", ("gemm", "Ascend910A"), EVEN, 1.2),
    Known("rows", ("transpose",), RAGGED_TRANSPOSE, 20),
    Known("columns", ("transpose",), RAGGED_TRANSPOSE, 20),
    Known("k", ("gemm", "Ascend910B1"), RAGGED_PRODUCT, 1.4),
    Known("n", ("gemm", "Ascend910B1"), RAGGED_PRODUCT, 3.5),
    Known("n", ("matmul", "Ascend910B1"), RAGGED_PRODUCT, 1.75),
    Known("n", ("matmul", "Ascend610Lite"), RAGGED, 1.2),
    Known("rows", ("Ascend910B1",), BLOCKS, 1.10),
    *(
        Known(name, (kind, chip), ROWS_IN_TURN, at_most)
        for chip, limits in IN_TURN.items()
        for (kind, name), at_most in zip(
            itertools.product(("softmax", "norm"), ("rows", "columns")), limits, strict=True
        )
    ),
    Known("columns", ("softmax",), BETWEEN_TRANSPOSES, 3.4, ("7", "8")),
    Known("columns", ("softmax",), RAGGED_ROWS, 1.10),
    Known("columns", ("norm",), RAGGED_ROWS, 1.10),
    Known("columns", ("row mean",), RAGGED_ROWS, 1.25),
    Known("columns", ("column mean", "Ascend310B1"), RAGGED_ROWS, 1.30),
    Known("columns", ("column mean",), RAGGED_SUMS, 2.6),
    Known("size", ("global pool", "Ascend910A"), RAGGED_ROWS, 1.2),
    Known("size", ("conv3x3 on",), UNFOLDED_ROWS, 1.1),
    Known("size", ("average pool", "Ascend610Lite"), UNFOLDED_ROWS, 1.07),
    Known("length", ("heads", "Ascend910A"), BLOCKS, 1.16),  # 24 blocks of 2048 elements, 18 of 4096
    Known("channels", ("layout",), RAGGED, 1.15),
)
