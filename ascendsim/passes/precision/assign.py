"""ATC's precision modes: which element types the device computes in.

Only tensors that are float32 in the user's model change (`Tensor.dtype`; `origin_dtype` stays, so
`values="float32"` still computes in the model's own types). Graph inputs and outputs keep their type; Cast
nodes are inserted at the borders and wherever neighbours disagree. Constants change without a node: the
runtime converts them once. float64 and integers stay.

Modes (ATC documentation of --precision_mode):
    force_fp16              everything in float16
    allow_fp32_to_fp16      Cube operators in float16, everything else in float32; before CANN 8.0 Cube
                            operators too in float32 where the chip's Cube takes it
    must_keep_origin_dtype  nothing changes
    force_fp32, cube_fp16in_fp32out   Cube operators take float16 and give float32, everything else in float32
    allow_mix_precision     Cube and other insensitive operators in float16; sums, exponentials and
                            normalisations in float32;
                            the rest follows its first input
Operators of --keep_dtype stay in float32 in every mode; --modify_mixlist changes the lists of the last one.
A Cast of the user's own from integers beyond 2048 to float loses digits in float16, as it does on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ascendsim.core.dtypes import DType
from ascendsim.core.errors import InputError, suggest
from ascendsim.graph.ir import Graph, Node, Tensor
from ascendsim.opset import OpSet
from ascendsim.opset.facts import OpPattern, Precision
from ascendsim.opset.patterns import pattern_of
from ascendsim.passes.precision.integer_sums import WIDE
from ascendsim.passes.precision.lists import KeepList, MixList
from ascendsim.passes.rewriting.outputs import is_output, set_aside, twin_of, typed_like
from ascendsim.passes.rewriting.passes import PassResult

# wanted type of inputs and of outputs; None = as the first input
Wish = Callable[[Node], "tuple[DType | None, DType | None]"]
NOTHING_KEPT, NOTHING_MIXED = KeepList(), MixList()


@dataclass(frozen=True, slots=True)
class ApplyPrecision:
    """Pass form of a precision mode.

    Attributes:
        opset: Operators, which know the list that they are on (`opset.facts.Precision`).
        mode: ATC's option.
        cube_types: Names of element types that the chip's Cube multiplies (`SocSpec.cube.cycles_per_block`);
            operators that stay in float32 ask for them.
        cube_in_half: Whether allow_fp32_to_fp16 puts operators of a Cube that takes float32 into float16, as
            CANN does since 8.0.
        output_types: Type asked for of each graph output (`passes.output_type`), None = the model's own.
        keep: Operators that stay in float32 whatever the mode; products that the Cube does not take in
            float32 are given out in it.
        mix: Changes to the lists of allow_mix_precision.
    """

    opset: OpSet
    mode: str = "force_fp16"
    cube_types: frozenset[str] = frozenset({"float16", "int8"})
    cube_in_half: bool = True
    output_types: tuple[DType | None, ...] = ()
    keep: KeepList = field(default_factory=KeepList)
    mix: MixList = field(default_factory=MixList)

    @property
    def name(self) -> str:
        """Name of the pass."""
        return "precision"

    def run(self, graph: Graph) -> PassResult:
        """Assigns types and inserts Cast nodes.

        Raises:
            InputError: If the mode is unknown.
        """
        return apply_precision(
            graph,
            self.opset,
            self.mode,
            cube_types=self.cube_types,
            cube_in_half=self.cube_in_half,
            output_types=self.output_types,
            keep=self.keep,
            mix=self.mix,
        )


def apply_precision(
    graph: Graph,
    opset: OpSet,
    mode: str = "force_fp16",
    *,
    cube_types: frozenset[str] = frozenset({"float16", "int8"}),
    cube_in_half: bool = True,
    output_types: Sequence[DType | None] = (),
    keep: KeepList = NOTHING_KEPT,
    mix: MixList = NOTHING_MIXED,
) -> PassResult:
    """Assigns element types under a precision mode; see the module's text for the modes.

    Args:
        graph: Changed in place.
        opset: Operators.
        mode: ATC's option.
        cube_types: Names of element types that the chip's Cube multiplies.
        cube_in_half: See `ApplyPrecision`.
        output_types: Type asked for of each graph output; None or nothing = the model's own.
        keep: Operators that stay in float32.
        mix: Changes to the lists of allow_mix_precision.

    Raises:
        InputError: If the mode is unknown.
    """
    half, single = DType.FLOAT16, DType.FLOAT32

    def on_cube(node: Node) -> bool:
        return opset.get(node).facts.precision.on_cube

    def keep_single(node: Node) -> tuple[DType | None, DType | None]:
        if not on_cube(node) or ("float32" in cube_types and not cube_in_half):
            return single, single
        # a product of halves gives float32 where the model has it so
        return half, single if node.required(0).origin_dtype is half else half

    def high(node: Node) -> tuple[DType | None, DType | None]:
        """The widest that the chip's operator has."""
        return (half, single) if on_cube(node) and "float32" not in cube_types else (single, single)

    def cube_half(node: Node) -> tuple[DType | None, DType | None]:
        return (half, single) if on_cube(node) else (single, single)

    def mixed(node: Node) -> tuple[DType | None, DType | None]:
        listed = mix.of(node, opset)
        if listed.on_cube:
            return half, half
        if on_cube(node) and listed is Precision.BLACK:
            return high(node)
        return (single, single) if listed.sensitive else (None, None)

    wishes: dict[str, Wish | None] = {
        "force_fp16": lambda node: (half, half),
        "allow_fp32_to_fp16": keep_single,
        "must_keep_origin_dtype": None,
        "force_fp32": cube_half,
        "cube_fp16in_fp32out": cube_half,
        "allow_mix_precision": mixed,
    }
    if mode not in wishes:
        raise InputError("option precision_mode", "must be a mode of ATC", repr(mode), suggest(mode, wishes))
    chosen = wishes[mode]
    asked = (*output_types, *(None,) * (len(graph.outputs) - len(output_types)))
    if chosen is None:
        return PassResult(_hand_out(graph, asked, {}))
    general: Wish = chosen

    def wish(node: Node) -> tuple[DType | None, DType | None]:
        return high(node) if keep.holds(node, opset) or node.origin.get(WIDE) else general(node)

    return _assign(graph, opset, wish, asked)


def _is_single(tensor: Tensor | None) -> bool:
    return (
        tensor is not None
        and tensor.origin_dtype is DType.FLOAT32
        and tensor.dtype in (DType.FLOAT32, DType.FLOAT16)
    )


def _assign(graph: Graph, opset: OpSet, wish: Wish, asked: Sequence[DType | None]) -> PassResult:
    def is_parameter(reader: Node, port: int) -> bool:
        """Inputs that steer an operator are read as numbers: they keep their type where nothing else reads
        them.
        """
        return port in opset.get(reader).facts.parameters

    half_tensors = 0
    wanted: dict[Node, DType] = {}
    taken: DType | None
    given: DType | None
    parameters = {
        tensor
        for tensor in graph.constants
        if tensor.uses and all(is_parameter(reader, port) for reader, port in tensor.uses)
    }
    for node in graph.topological():
        first = next(
            (t.dtype for t in node.inputs if _is_single(t) and t is not None and not t.is_constant), None
        )
        if opset.get(node).facts.precision is Precision.BITS:
            taken, given = DType.FLOAT32, DType.FLOAT32
        elif pattern_of(node, opset) is OpPattern.QUANT:
            taken, given = None, None  # bytes come from either float type: no Cast in front
        else:
            taken, given = wish(node)
        wanted[node] = taken or first or DType.FLOAT16
        out = given or first or DType.FLOAT16
        for number, result in enumerate(node.outputs):
            if (
                _is_single(result)
                and result.dtype is not out
                and not opset.get(node).facts.precision.gives_float32(number)
            ):
                result.dtype = out
                half_tensors += 1
    casts: dict[tuple[Tensor, DType], Tensor] = {}
    for node in graph.nodes:  # a snapshot: inserted nodes are not visited
        for port, tensor in enumerate(node.inputs):
            if tensor is None or not _is_single(tensor) or tensor in parameters or is_parameter(node, port):
                continue
            if tensor.is_constant or (tensor.dtype is not wanted[node] and node.op_type != "Cast"):
                node.set_input(port, _in_type(graph, tensor, wanted[node], casts))
    handed = [
        dtype or (DType.FLOAT32 if _is_single(tensor) else None)
        for tensor, dtype in zip(graph.outputs, asked, strict=True)
    ]
    for tensor, dtype in zip(graph.outputs, handed, strict=True):
        maker = tensor.producer
        if dtype is not None and maker is not None and not tensor.uses and _makes_floats(maker, opset):
            tensor.dtype = dtype  # no Cast behind: it is made from integers in any type
    _hand_out(graph, handed, casts)
    inserted = sum(node.origin.get("inserted") == "precision" for node in graph.nodes)
    return PassResult(
        bool(half_tensors or inserted), {"tensors changed": half_tensors, "inserted Cast": inserted}
    )


def _makes_floats(node: Node, opset: OpSet) -> bool:
    return pattern_of(node, opset) is OpPattern.DEQUANT


def _in_type(graph: Graph, tensor: Tensor, dtype: DType, casts: dict[tuple[Tensor, DType], Tensor]) -> Tensor:
    """The tensor in another type: the constant itself, a second constant, or a Cast that all readers of this
    type share.
    """
    key = (tensor, dtype)
    if key in casts:
        return casts[key]
    if tensor.is_constant:
        used = any((tensor, other) in casts for other in (DType.FLOAT32, DType.FLOAT16))  # in the other type
        if used or is_output(graph, tensor):
            twin = twin_of(graph, tensor, f"{tensor.name}_{dtype.value}", dtype=dtype)
        else:
            twin = tensor
            twin.dtype = dtype
    else:
        twin = _cast(graph, tensor, dtype, graph.fresh(f"{tensor.name}_{dtype.value}"))
    casts[key] = twin
    return twin


def _cast(graph: Graph, tensor: Tensor, dtype: DType, name: str) -> Tensor:
    node = graph.add_node("Cast", [tensor], [name], name=graph.fresh(f"{tensor.name}_cast"), to=dtype)
    node.origin["inserted"] = "precision"
    return typed_like(node.output, tensor, dtype=dtype)


def _hand_out(
    graph: Graph, wanted: Sequence[DType | None], casts: dict[tuple[Tensor, DType], Tensor]
) -> bool:
    """Puts a Cast before each graph output whose type is not the wanted one; tells whether there was any.
    Nodes that read the output in that type already (an update a gradient) share it.
    """
    changed = False
    for position, (output, dtype) in enumerate(zip(tuple(graph.outputs), wanted, strict=True)):
        if dtype is not None and output.dtype is not dtype and output.producer is not None:
            twin = casts.pop((output, dtype), None)
            name = set_aside(graph, output, "device")
            graph.outputs[position] = given = _cast(graph, output, dtype, name)
            if twin is not None and twin.producer is not None:
                graph.replace_uses(twin, given)
                graph.remove_node(twin.producer)
            changed = True
    return changed
