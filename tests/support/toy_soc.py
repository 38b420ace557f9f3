"""A tiny chip with round numbers, on which times can be worked out by hand: 1 GHz, one tick a nanosecond."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ascendsim.soc.spec import (
    AiCpuSpec,
    ArithmeticSpec,
    BufferSpec,
    CtrlCpuSpec,
    CubeSpec,
    DmaSpec,
    DramSpec,
    DvppSpec,
    IssueSpec,
    KernelSpec,
    L2Spec,
    LaunchSpec,
    PortSpec,
    SocSpec,
    VectorSpec,
)

FLOATS = ("float16", "float32")

TOY = SocSpec(
    name="Toy",
    architecture="toy",
    generation="v100",
    short_name="Toy",
    split_cores=False,
    ai_cores=2,
    vector_cores=0,
    frequency_mhz=1000,
    vector_frequency_mhz=1000,
    cube=CubeSpec(
        m0=16,
        n0=16,
        k0={"float16": 16, "int8": 32},
        cycles_per_block={"float16": 1, "int8": 1},
        hf32_cycles_per_block=None,
        latency_cycles=15,
        gap_cycles=2,
        odd_size_penalty=False,
        unit_flag=False,
    ),
    vector=VectorSpec(
        bytes_per_cycle=256,
        repeat_bytes=256,
        max_repeat=255,
        head_cycles=13,
        latency_cycles=20,
        cycles_per_repeat={"vadd": 1, "vmuls": 1, "vexp.float16": 4, "vexp.float32": 2},
        intrinsics={"vadd": FLOATS, "vmuls": FLOATS, "vexp": FLOATS, "vln": FLOATS},
        mask_cycles=16,
        minimum_cycles=3,
        bank_groups=None,
        bank_conflict_cycles=1,
        write_conflict_cycles=0.5,
    ),
    arithmetic=ArithmeticSpec(overflow=("inf_nan", "saturation")),
    buffers=BufferSpec(
        l0a=65536, l0b=65536, l0c=262144, l1=1048576, ub=262144, bias_table=None, fixpipe=None
    ),
    ports=PortSpec(
        l1_to_l0a=512,
        l1_to_l0b=256,
        l1_to_ub=128,
        ub_to_l1=128,
        l0c_to_ub=256,
        ub_to_l0c=256,
        l0c_to_l1=None,
        l0c_to_gm=None,
        gm_to_l1=64,
        gm_to_ub=64,
        ub_to_gm=64,
        ub_to_ub=256,
        l1_to_bt=None,
        load2d_gap_cycles=10,
        load3d_head_cycles=15,
        load3d_counts_rows=True,
        load3d_least_l0a=0.125,
        load3d_least_l0b=2 / 9,
        fixpipe_elements_per_cycle=None,
    ),
    dma=DmaSpec(
        reads_hold_requests=False,
        burst_cycles=0,
        nd2nz_bytes_per_cycle=None,
        ragged_efficiency=0.8,
        ragged_row_cycles=0,
        ragged_row_bytes_per_cycle=None,
        ragged_nd2nz_bytes_per_cycle=None,
    ),
    l2=L2Spec(
        size=1 << 20,
        software_managed=False,
        line_bytes=512,
        read_latency_cycles=100,
        write_latency_cycles=50,
        read_bytes_per_cycle_per_core=64,
        write_bytes_per_cycle_per_core=64,
        half_duplex=False,
        request_bytes=32,
        same_line_bytes_per_cycle=None,
        same_line_requests_per_cycle=None,
    ),
    dram=DramSpec(
        size=None,
        reserved=0,
        read_gb_per_s=32,
        write_gb_per_s=32,
        half_duplex=False,
        mixed_efficiency=1,
        read_latency_cycles=300,
        write_latency_cycles=200,
        transaction_bytes=512,
        loaded_latency_cycles=None,
        uncached_latency_cycles=400,
        unaligned_efficiency=0.5,
        max_in_flight=4,
    ),
    issue=IssueSpec(
        scalar_cycles=1,
        scalar_element_cycles=8,
        instruction_start_ns=0,
        flag_cycles=4,
        event_ids=8,
        barrier_ns=0,
        queue_depth={"M": 16, "V": 16, "MTE1": 16, "MTE2": 16, "MTE3": 16, "FIX": 16},
    ),
    launch=LaunchSpec(
        kernel_init_ns=100,
        task_launch_us=1,
        task_gap_us=2,
        block_dispatch_ns=10,
        model_call_us=0,
        host_launch_us=5,
        eager_launch_us=50,
        pinned_copy_gb_per_s=20,
        pageable_copy_gb_per_s=10,
        max_gears=100,
        open_shapes=True,
    ),
    ai_cpu=AiCpuSpec(cores=2, dispatch_us=80, overhead_us=140, elements_per_us=1000),
    ctrl_cpu=CtrlCpuSpec(cores=2, request_us=10, decode_fps_1080p=20),
    dvpp=DvppSpec(jpegd_channels=2, jpegd_fps_1080p=100, vpc_channels=2, vpc_fps_1080p=500),
    kernels=KernelSpec(
        sigmoid_divides=True,
        selects_by_repeat=False,
        softmax_multiplies=False,
        gelu_two_exponents=True,
        sigmoid_polynomial=False,
        rows_in_turn=False,
        sums_in_turn=False,
        softmax_pads_fractals=True,
        even_shares=False,
        even_products="",
        divides_maps=False,
        divides_matrices=False,
        tuned_batch=None,
        even_columns=False,
        transdata_in_turn=False,
        transdata_start_ns=0,
        transdata_by_images=False,
        transdata_filter_cycles=0,
        tiling_ns=0,
        core_code_ns=0,
        library_start_ns=0,
        long_code_ns=0,
        convolves_hf32=False,
        even_images=False,
        tuned_gradients=False,
        depthwise_by_blocks=False,
        attention_start_ns=0.0,
        core_bytes=None,
        images_added=1,
        adds_rows_cycles=1,
        transpose_packs_lines=True,
        select_sets_mask=True,
        spreads_channels=False,
        map_blocks=False,
        register_move_cycles=0,
        cut_batches=None,
        ai_cpu_table="ascend310",
        overflow_register=False,
        inference=False,
    ),
    sources={},
    assumed=frozenset(),
    fitted_on={},
    overrides={},
    missing=(),
)


def toy(**changes: Any) -> SocSpec:
    """The toy chip with changes; `l2={"size": 1}` changes a part of it.

    >>> toy(ai_cores=4, l2={"size": 512}).l2.size
    512
    """
    parts = {
        name: replace(getattr(TOY, name), **change) if isinstance(change, dict) else change
        for name, change in changes.items()
    }
    return replace(TOY, **parts)


def bare(**changes: Any) -> SocSpec:
    """The toy chip without launch costs, latencies, flag and issue costs: only occupancy is left."""
    free: dict[str, Any] = {
        "launch": {
            "kernel_init_ns": 0,
            "task_launch_us": 0,
            "task_gap_us": 0,
            "block_dispatch_ns": 0,
            "model_call_us": 0,
            "host_launch_us": 0,
        },
        "issue": {"scalar_cycles": 0, "flag_cycles": 0},
        "cube": {"latency_cycles": 0, "gap_cycles": 0},
        "vector": {"head_cycles": 0, "latency_cycles": 0},
        "ports": {"load2d_gap_cycles": 0, "load3d_head_cycles": 0},
        "l2": {"read_latency_cycles": 0, "write_latency_cycles": 0},
        "dram": {"read_latency_cycles": 0, "write_latency_cycles": 0},
    }
    for name, change in changes.items():
        free[name] = {**free[name], **change} if isinstance(change, dict) and name in free else change
    return toy(**free)
