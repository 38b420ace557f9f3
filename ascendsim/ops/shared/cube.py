"""Descriptions of convolutions as the Cube sees them; shared by float, transposed and quantised forms."""

from __future__ import annotations

import math
from collections.abc import Callable

from ascendsim.core.dtypes import DType
from ascendsim.core.formats import c0, ceil_div
from ascendsim.graph.ir import Node, Tensor
from ascendsim.ops.shared.windows import Axis, static_outputs, taps
from ascendsim.opset.work import ConvGeometry, CubeWork, Ref, Step, Stream

N0 = 16  # output channels of one fractal, whatever the type


def cube_type(dtype: DType) -> DType:
    """Operand type on the Cube: 8-bit types are int8 (unsigned ones are shifted by their zero point), floats
    as they are.
    """
    return DType.INT8 if dtype in (DType.INT8, DType.UINT8) else dtype


def enlarged_groups(groups: int, channels: int, outputs: int, block: int) -> int:
    """How many groups of a grouped convolution are packed into one product.

    FRACTAL_Z of a grouped convolution in TBE packs E groups onto the diagonal of one weight block, so that
    neither C0 nor the 16 columns run empty: E = min(lcm(lcm(c, C0) / c, lcm(n, 16) / n), groups) with c, n
    channels of one group. The blocks off the diagonal are zeros that the Cube multiplies all the same.

    Args:
        groups: Groups of the convolution.
        channels: Input channels of one group.
        outputs: Output channels of one group.
        block: C0 of the operand type.

    >>> enlarged_groups(64, 1, 1, 16), enlarged_groups(1, 64, 64, 16), enlarged_groups(32, 4, 4, 16)
    (16, 1, 4)
    """
    by_channels = math.lcm(channels, block) // channels
    by_outputs = math.lcm(outputs, N0) // outputs
    return min(math.lcm(by_channels, by_outputs), groups)


def geometry(shape: tuple[int, ...], axes: tuple[Axis, ...], channels: int) -> ConvGeometry:
    """Geometry of a convolution over an input of shape (N, C, *spatial): 1-d has height 1, output depth
    counts as batch.
    """
    sizes = (1,) * (2 - len(shape[2:])) + shape[2:]
    one = Axis(1, 1, 1, 0, 0, 1)
    padded = (one,) * (3 - len(axes)) + axes
    depth, high, wide = padded
    out_d, out_h, out_w = static_outputs(padded)
    return ConvGeometry(
        batch=shape[0] * out_d,
        channels=channels,
        height=sizes[-2],
        width=sizes[-1],
        kernel_h=high.kernel,
        kernel_w=wide.kernel,
        stride_h=high.stride,
        stride_w=wide.stride,
        dilation_h=high.dilation,
        dilation_w=wide.dilation,
        pads=(high.before, wide.before, high.after, wide.after),
        out_h=out_h,
        out_w=out_w,
        kernel_d=depth.kernel,
    )


def convolution_work(
    image: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    output: Tensor,
    axes: tuple[Axis, ...],
    groups: int,
    *,
    shape: tuple[int, ...] | None = None,
    useful_macs: int | None = None,
    epilogue: tuple[Step, ...] = (),
    epilogue_inputs: tuple[Stream, ...] = (),
) -> CubeWork:
    """The work of a convolution: groups packed as `enlarged_groups` says, bias in L0C.

    Args:
        image: (N, C, *spatial).
        weight: In the operator's own order.
        bias: One value an output channel, or None.
        output: (N, cout, *out).
        axes: Windows over the image.
        groups: Channel groups.
        shape: Shape of the image as the Cube sees it, if it is not the tensor's (stride-expanded gradients).
        useful_macs: If other than positions * taps * channels (zeros in a stride-expanded image are no use).
        epilogue: Vector steps on the way out.
        epilogue_inputs: What these steps read besides the product.
    """
    seen = shape or image.static_shape
    channels, outputs = seen[1] // groups, output.static_shape[1] // groups
    dtype = cube_type(image.element_type)
    packed = enlarged_groups(groups, channels, outputs, c0(dtype))
    positions = seen[0] * math.prod(static_outputs(axes))
    return CubeWork(
        m=positions,
        k=taps(axes) * packed * channels,
        n=packed * outputs,
        batch=ceil_div(groups, packed),
        conv=geometry(seen, axes, packed * channels),
        a=Ref.of(image),
        b=Ref.of(weight),
        bias=None if bias is None else Ref.of(bias),
        out=Ref.of(output),
        dtype=dtype,
        epilogue=epilogue,
        epilogue_inputs=epilogue_inputs,
        useful_macs=positions * taps(axes) * channels * outputs * groups
        if useful_macs is None
        else useful_macs,
    )


def by_rank(one: str, two: str, three: str) -> Callable[[Node], str]:
    """A `cann_of`: the type by the spatial rank of the first input (two if it is unknown)."""

    def cann_of(node: Node) -> str:
        shape = node.required(0).shape
        return {3: one, 5: three}.get(4 if shape is None else len(shape), two)

    return cann_of
