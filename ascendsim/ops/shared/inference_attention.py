"""What CANN's attention kernels of inference share: sizes, lengths of ragged batches, caches in pages.

Layouts of the queries: BSH, BSND, BNSD, BNSD_BSND (the result in BSND) and TND, where sequences of any length
follow each other. Fewer heads of keys than of queries serve several of them each. Lengths are values that the
host knows (constants): of queries and keys a sequence, in TND the sequences' ends; without them all that is
stored counts. A `block_table` says that keys and values lie in pages of a pool, (pages, page, heads x size)
or (pages, heads, page, size), and which pages a sequence has; their lengths are never ends then. With 8-bit
keys and values scales and offsets come along, a channel each or a token each. `query_rope` and `key_rope` are
further elements of queries and keys (multi-head latent attention). `sparse_mode` is that of
`ops.shared.attention`; True in a mask forbids. With `pse_type` 2 pse_shift holds a slope for each head, and
slope |distance of query and key| is taken off the scores (ALiBi; FlashAttentionScoreV2's number for it), the
last query standing at the last key. `softcap` c, if not 0, makes c tanh(scores / c) of the scores, as
onnxruntime's attribute of that name does; CANN's kernels have none, models need it (Gemma 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ascendsim.core.dtypes import DType
from ascendsim.graph.ir import Dim, Node, Shape, Tensor
from ascendsim.ops.shared.attention import UNBOUNDED
from ascendsim.ops.shared.dims import may_equal
from ascendsim.opset import InferContext
from ascendsim.opset.attention import Band

LAYOUTS = ("BSH", "BSND", "BNSD", "BNSD_BSND", "TND")
ADDED, SLOPES = 0, 2  # what pse_shift is, by pse_type
RIGHT_DOWN = (3, 4)  # sparse modes that count from the lower right corner of what is there


@dataclass(frozen=True, slots=True)
class Ports:
    """Where an operator has what; -1 = it has no such input.

    Attributes:
        scale: Name of the attribute of the factor.
        refused: Inputs that no model of the kernel knows, by port.
        bands: Whether the operator has `sparse_mode`.
        behind: What `next_tokens` is where a node does not say.
    """

    scale: str
    shift: int = 3
    mask: int = 4
    query_lengths: int = -1
    key_lengths: int = -1
    scales: int = -1  # of keys and values, in one
    offsets: int = -1
    table: int = -1
    key_scale: int = -1
    key_offset: int = -1
    value_scale: int = -1
    value_offset: int = -1
    query_rope: int = -1
    key_rope: int = -1
    refused: tuple[tuple[int, str], ...] = ()
    bands: bool = True
    behind: int = UNBOUNDED


_OUTPUT_SCALES = ("dequant_scale1", "quant_scale1", "dequant_scale2", "quant_scale2", "quant_offset2")
PORTS = {
    "PromptFlashAttention": Ports(
        "scale_value", query_lengths=5, key_lengths=6, refused=tuple(enumerate(_OUTPUT_SCALES, 7)), behind=0
    ),
    "IncreFlashAttention": Ports(
        "scale_value",
        key_lengths=5,
        scales=11,
        offsets=12,
        table=13,
        refused=(*enumerate(_OUTPUT_SCALES, 6), (14, "kv_padding_size")),
        bands=False,
    ),
    "FusedInferAttentionScore": Ports(
        "scale",
        query_lengths=5,
        key_lengths=6,
        scales=12,
        offsets=13,
        table=14,
        key_scale=17,
        key_offset=18,
        value_scale=19,
        value_offset=20,
        query_rope=24,
        key_rope=25,
        refused=(
            *enumerate(_OUTPUT_SCALES, 7),
            (15, "query_padding_size"),
            (16, "kv_padding_size"),
            *enumerate(("key_shared_prefix", "value_shared_prefix", "actual_shared_prefix_len"), 21),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of an attention of inference; None where a dimension is not known.

    Attributes:
        batch: Sequences.
        heads, shared: Of queries, and of keys and values.
        queries, keys: Tokens a sequence; of TND, and of keys in pages, what is stored in all.
        size, width, rope: Elements of a query or key, of a value, and of what is rotated apart.
        page: Tokens of a page; 0 = keys do not lie in pages.
        inner: Whether a page has its heads outside and its tokens inside.
    """

    batch: Dim
    heads: int
    shared: int
    queries: Dim
    keys: Dim
    size: Dim
    width: Dim
    rope: Dim = 0
    page: int = 0
    inner: bool = False


def layout_of(node: Node) -> str:
    """`input_layout` of a node."""
    layout = node.attr("input_layout", "BSH")
    return layout.decode() if isinstance(layout, bytes) else str(layout)


def stored_layout(node: Node) -> str:
    """The layout of queries, and of keys that do not lie in pages."""
    return layout_of(node).partition("_")[0]


def result_layout(node: Node) -> str:
    """The layout of the result."""
    return layout_of(node).rpartition("_")[2]


def ports_of(node: Node) -> Ports:
    """Where the operator of a node has what."""
    return PORTS[node.op_type]


def given(node: Node, port: int) -> Tensor | None:
    """The input of a port, if there is one."""
    return node.input(port) if port >= 0 else None


def paged(node: Node) -> bool:
    """Whether keys lie in pages."""
    return given(node, ports_of(node).table) is not None


def heads_of(node: Node) -> tuple[int, int]:
    """Heads of queries, and of keys and values."""
    heads = int(node.attr("num_heads", 1))
    return heads, int(node.attr("num_key_value_heads", 0)) or heads


def sizes_of(node: Node, shapes: Sequence[Shape]) -> Sizes | str:
    """Sizes by the shapes of query, key, value, and of both rotated parts where there are such; or which rule
    they break.
    """
    layout = stored_layout(node)
    heads, shared = heads_of(node)
    if layout_of(node) not in LAYOUTS:
        return f"needs an input_layout out of {', '.join(LAYOUTS)}"
    if heads < 1 or shared < 1 or heads % shared:
        return "needs num_heads that are a multiple of num_key_value_heads"
    query, key, value = shapes[:3]
    if len(query) != len(layout):
        return f"needs a query of rank {len(layout)} for layout {layout}"
    axis = {letter: place for place, letter in enumerate(layout)}
    if "N" in axis and not may_equal((query[axis["N"]],), (heads,)):
        return f"needs queries with num_heads = {heads} heads"
    size = query[-1] if "N" in axis else _share(query[-1], heads)
    batch = query[axis["B"]] if "B" in axis else None
    queries = query[axis["S"]] if "S" in axis else query[0]
    if paged(node):
        table = node.required(ports_of(node).table).shape
        if table is not None and len(table) != 2:
            return "needs a block_table of rank 2: sequences x pages"
        sizes = _pages(node, Sizes(batch, heads, shared, queries, None, size, None), key, value)
        if isinstance(sizes, Sizes) and batch is None and table is not None:
            sizes = replace(sizes, batch=table[0])
    else:
        sizes = _rows(layout, axis, Sizes(batch, heads, shared, queries, None, size, None), key, value)
    if isinstance(sizes, str) or len(shapes) < 5:
        return sizes
    query_rope, key_rope = shapes[3:5]
    if not may_equal(query_rope[:-1], query[:-1]) or not may_equal(key_rope[:-1], key[:-1]) or "H" in axis:
        return "needs query_rope and key_rope of the queries' and keys' shapes, with heads of their own axis"
    return replace(sizes, rope=query_rope[-1])


def _share(dim: Dim, parts: int) -> Dim:
    if not isinstance(dim, int):
        return None
    return 0 if dim % parts else dim // parts


def _pages(node: Node, sizes: Sizes, key: Shape, value: Shape) -> Sizes | str:
    page = int(node.attr("block_size", 0))
    wide = 2 if len(key) == 4 else 1
    stored = key[wide] if len(key) in (3, 4) else 0
    if page == 0 and isinstance(stored, int):
        page = stored
    if len(key) not in (3, 4) or len(value) != len(key) or page < 1 or not may_equal((stored,), (page,)):
        return "needs keys and values in pages of block_size tokens, of rank 3 or 4"
    ours = (key[-1], value[-1])
    if len(key) == 3:
        ours = (_share(key[-1], sizes.shared), _share(value[-1], sizes.shared))
    elif not may_equal((key[1],), (sizes.shared,)):
        return f"needs pages with num_key_value_heads = {sizes.shared} heads"
    if not may_equal((ours[0],), (sizes.size,)) or not may_equal(key[:-1], value[:-1]) or 0 in ours:
        return "needs keys of the queries' size, and a value for each key"
    pages = key[0]
    keys = pages * page if isinstance(pages, int) else None
    return replace(sizes, keys=keys, width=ours[1], page=page, inner=len(key) == 4)


def _rows(layout: str, axis: dict[str, int], sizes: Sizes, key: Shape, value: Shape) -> Sizes | str:
    if len(key) != len(layout) or len(value) != len(layout):
        return f"needs keys and values of rank {len(layout)} for layout {layout}"
    keys = key[axis["S"]] if "S" in axis else key[0]
    if "N" in axis:
        if not may_equal((key[axis["N"]],), (sizes.shared,)):
            return f"needs keys with num_key_value_heads = {sizes.shared} heads"
        size, width = key[-1], value[-1]
    else:
        size, width = _share(key[-1], sizes.shared), _share(value[-1], sizes.shared)
    fits = may_equal((size,), (sizes.size,)) and may_equal(key[:-1], value[:-1]) and 0 not in (size, width)
    if not fits or ("B" in axis and not may_equal((key[axis["B"]],), (sizes.batch,))):
        return "needs keys of the queries' batch and size, and a value for each key"
    return replace(sizes, keys=keys, width=width)


def check(context: InferContext) -> Sizes | None:
    """Sizes; None where ranks are not known.

    Raises:
        GraphError: Names the rule that is broken.
    """
    node, ports = context.node, ports_of(context.node)
    for port, name in ports.refused:
        if context.has(port):
            raise context.fail(f"has no form with {name}", remedy="leave that input out")
    if int(node.attr("sparse_mode", 0)) not in range(5):
        raise context.fail("needs a sparse_mode of 0 to 4", node.attr("sparse_mode"))
    _check_scores(context)
    small = context.dtype(1) is DType.INT8
    scaled = any(given(node, port) is not None for port in (ports.scales, ports.key_scale))
    if not context.dtype(0).is_float or context.dtype(1) is not context.dtype(2):
        raise context.fail("needs queries of real numbers, and keys and values of one type")
    if not small and context.dtype(1) is not context.dtype(0):
        raise context.fail("needs keys and values of the queries' type, or of int8")
    if small != scaled:
        raise context.fail("needs scales of keys and values (antiquant_scale) with int8, and only then")
    if (given(node, ports.query_rope) is None) != (given(node, ports.key_rope) is None):
        raise context.fail("needs query_rope and key_rope together")
    mask = given(node, ports.mask)
    if mask is not None and context.dtype(ports.mask) not in (DType.BOOL, DType.UINT8, DType.INT8):
        raise context.fail("needs a mask of bool, uint8 or int8", context.dtype(ports.mask).value)
    if mask is None and int(node.attr("sparse_mode", 0)) == 1:
        raise context.fail("needs a mask for sparse_mode 1")
    wanted = [0, 1, 2, *(port for port in (ports.query_rope, ports.key_rope) if given(node, port))]
    shapes = [context.shape(port) for port in wanted]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    sizes = sizes_of(node, known)
    if isinstance(sizes, str):
        raise context.fail(sizes, f"shapes {', '.join(str(shape) for shape in known)}")
    layout = stored_layout(node)
    if layout == "TND" and given(node, ports.query_lengths) is None:
        raise context.fail("needs actual_seq_lengths for layout TND: the sequences' ends")
    if sizes.page and given(node, ports.key_lengths) is None:
        raise context.fail("needs the lengths of keys (actual_seq_lengths_kv) with a block_table")
    if all(isinstance(dim, int) for dim in (sizes.queries, sizes.keys)):
        _check_lengths(context, sizes)
    return sizes


def _check_scores(context: InferContext) -> None:
    """What becomes of scores before their softmax."""
    node, ports = context.node, ports_of(context.node)
    kind, bound = node.attr("pse_type", ADDED), float(node.attr("softcap", 0.0))
    if kind not in (ADDED, SLOPES):
        raise context.fail("needs pse_type 0 (numbers are added) or 2 (slopes of heads)", kind)
    if not 0 <= bound < math.inf:
        raise context.fail("needs a softcap of 0 or more", bound)
    if kind == SLOPES:
        if not context.has(ports.shift):
            raise context.fail("needs pse_shift, the slopes of heads, with pse_type 2")
        heads, _ = heads_of(node)
        shape = context.shape(ports.shift)
        if shape is not None and not may_equal(shape, (heads,)):
            raise context.fail(f"needs slopes [{heads}] as pse_shift with pse_type 2", list(shape))


def slopes(node: Node) -> bool:
    """Whether what is added to scores comes of distances."""
    return bool(node.attr("pse_type", ADDED) == SLOPES)


def _check_lengths(context: InferContext, sizes: Sizes) -> None:
    node, ports = context.node, ports_of(context.node)
    for port, most in ((ports.query_lengths, sizes.queries), (ports.key_lengths, sizes.keys)):
        lengths = _values(given(node, port))
        if lengths is None:
            continue
        ends = _are_ends(node, port)
        if any(one < 0 for one in lengths) or any(one > int(most or 0) for one in lengths):
            raise context.fail(f"needs lengths from 0 to {most}", list(lengths[:8]))
        if ends and list(lengths) != sorted(lengths):
            raise context.fail("needs ends of sequences that rise", list(lengths[:8]))
        batch = sizes.batch
        if not ends and isinstance(batch, int) and len(lengths) not in (1, batch):
            raise context.fail(f"needs a length for each of {batch} sequences", len(lengths))


def _are_ends(node: Node, port: int) -> bool:
    """Whether lengths of a port are the sequences' ends."""
    return stored_layout(node) == "TND" and not (port == ports_of(node).key_lengths and paged(node))


def _values(tensor: Tensor | None) -> tuple[int, ...] | None:
    """Values that the host knows."""
    if tensor is None or tensor.constant is None or not tensor.constant.available:
        return None
    return tuple(int(one) for one in tensor.constant.array().reshape(-1))


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of a sequence.

    Attributes:
        queries, keys: How many there are.
        first_query, first_key: Where they begin (TND).
    """

    queries: int
    keys: int
    first_query: int = 0
    first_key: int = 0


def sequences_of(
    node: Node,
    sizes: Sizes,
    query_lengths: Sequence[int] | None = None,
    key_lengths: Sequence[int] | None = None,
) -> tuple[Tokens, ...]:
    """The sequences of a batch whose sizes are known.

    Args:
        node: The node.
        sizes: Of it.
        query_lengths, key_lengths: Values of those inputs; None = those that the graph holds, and what is
            stored where it holds none.
    """
    ports = ports_of(node)
    own = query_lengths if query_lengths is not None else _values(given(node, ports.query_lengths))
    theirs = key_lengths if key_lengths is not None else _values(given(node, ports.key_lengths))
    assert isinstance(sizes.queries, int)
    assert isinstance(sizes.keys, int)
    packed = stored_layout(node) == "TND"
    if packed:
        ends = own if own is not None else (sizes.queries,)
        batch = len(ends)
    else:
        assert isinstance(sizes.batch, int)
        batch = sizes.batch
        ends = None
    queries, starts = _lengths(own if ends is None else ends, batch, sizes.queries, packed)
    table = given(node, ports.table)
    most = sizes.keys
    if table is not None:
        most = min(most, table.static_shape[1] * sizes.page)
    keys, firsts = _lengths(theirs, batch, most, packed and table is None)
    return tuple(Tokens(*each) for each in zip(queries, keys, starts, firsts, strict=True))


def _lengths(values: Sequence[int] | None, batch: int, most: int, ends: bool) -> tuple[list[int], list[int]]:
    """Lengths and starts of sequences."""
    if values is None:
        return [most] * batch, [0] * batch
    if not ends:
        spread = list(values) * batch if len(values) == 1 else list(values)
        return spread, [0] * batch
    starts = [0, *values][:-1]
    return [end - start for start, end in zip(starts, values, strict=True)], starts


def band_of(node: Node, sequence: Tokens) -> Band:
    """The band of a sequence."""
    if not ports_of(node).bands:
        return Band()
    mode = int(node.attr("sparse_mode", 0))
    before = float(int(node.attr("pre_tokens", UNBOUNDED)))
    behind = float(int(node.attr("next_tokens", ports_of(node).behind)))
    low = -math.inf if before >= UNBOUNDED else -before
    high = math.inf if behind >= UNBOUNDED else behind
    corner = sequence.keys - sequence.queries
    if mode == 0:
        return Band(low, high) if given(node, ports_of(node).mask) is not None else Band()
    return (Band(), Band(high=0), Band(high=corner), Band(low + corner, high + corner))[mode - 1]
