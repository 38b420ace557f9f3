"""Time of an all-reduce by HCCL's model: a step that sends n bytes and adds them takes
alpha + n beta + n gamma.

Inside a server a mesh where each device has a link to each, else a ring, whose slowest link counts. Several
servers: reduce-scatter inside each, all-reduce of a device's part between servers, all-gather inside each;
between servers halving-doubling for a power of two, else a ring, as HCCL does on this generation.
"""

from __future__ import annotations

from ascendsim.soc.servers import ServerSpec

BUCKET_BYTES = 25 << 20  # gradients reduced together unless asked for: torch's DistributedDataParallel


def all_reduce_us(server: ServerSpec, devices: int, size: int) -> float:
    """Microseconds of an all-reduce.

    Args:
        server: Links.
        devices: That take part; 1 takes no time.
        size: Bytes on each device.

    Raises:
        InputError: If the devices cannot be arranged so.
    """
    inside, servers = server.groups_of(devices)
    gamma = 1e-3 / server.reduce_gb_per_s  # us a byte
    mesh = inside <= server.mesh_devices
    slowest = server.hccs_gb_per_s if mesh else min(server.hccs_gb_per_s, server.pcie_gb_per_s)
    total = (_mesh if mesh else _ring)(inside, size, server.step_us, 1e-3 / slowest, gamma)
    between = _ring if servers & (servers - 1) else _halving_doubling
    beta = 1e-3 / server.network_gb_per_s
    return total + between(servers, size / inside, server.network_step_us, beta, gamma)


def _ring(p: int, n: float, alpha: float, beta: float, gamma: float) -> float:
    """Reduce-scatter and all-gather, p - 1 steps each, a p-th of the bytes a step."""
    return 2 * (p - 1) * alpha + (p - 1) / p * n * (2 * beta + gamma)


def _mesh(p: int, n: float, alpha: float, beta: float, gamma: float) -> float:
    """One step each; all links at once carry a p-th of the bytes."""
    return 0.0 if p == 1 else 2 * alpha + 2 * n / p * beta + (p - 1) / p * n * gamma


def _halving_doubling(p: int, n: float, alpha: float, beta: float, gamma: float) -> float:
    """log2 p steps each, with half of the bytes, a quarter, ..."""
    return 2 * (p.bit_length() - 1) * alpha + (p - 1) / p * n * (2 * beta + gamma)
