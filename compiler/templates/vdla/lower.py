"""Lowering of nodes to kernels: workloads, knobs, schedules, passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from vdla.isa.config import Config
from vdla.util.errors import UserError

from ...codegen.vdla.link import LoweredKernel, LoweredLayer
from ...codegen.vdla.machine import kernel_fields, scratchpad_depths
from ...graph import int8_operators as operators
from ...graph.graph import Graph, Node
from ...graph.int8_convolution import Int8Convolution
from ...ir.printer import format_node
from ...ir.stmt import Program
from ...ir.verify import verify
from ...passes.interleave_virtual_threads import interleave_virtual_threads
from ...passes.pipeline import Pass, run_pipeline
from ...passes.split_copies import split_copies
from ...te.post import Post
from ..columns import Values
from ..space import EmptySpaceError
from .legalize import Legalized
from .schedule_cache import ScheduleCache, constants_of, key_of
from .template import Kernel, Source, at, template_of
from .workload import Workload

if TYPE_CHECKING:
    from ...codegen.vdla.placement import ChainBuffer

Dump = Callable[[str, str], None]


class CompileError(UserError):
    """Raised for a network that this accelerator cannot run; the message names the node and the limit."""


class DoesNotFitError(CompileError):
    """Raised for a layer whose smallest tile exceeds an on-chip memory; `members`: names of the layer's ONNX nodes."""

    def __init__(self, message: str, members: tuple[str, ...]) -> None:
        super().__init__(message)
        self.members = members


class UnfitNodeError(Exception):
    """Raised for a node whose smallest tile exceeds an on-chip memory; the message names template and memory."""

    def __init__(self, node: str, error: EmptySpaceError) -> None:
        super().__init__(f"{error.template}: no tile is small enough for {error.limit}")
        self.node = node

    def explained(self, config: Config, graph: Graph) -> DoesNotFitError:
        """The error to show to the user, which suggests a way out."""
        node = next(node for node in graph.nodes if node.name == self.node)
        return DoesNotFitError(
            f"node {node.name} ({node.kind}): {self} of configuration {config.name}; make the memory larger, or the "
            "layer smaller",
            node.members,
        )


def check_machine(config: Config, virtual_threads: int) -> None:
    """Raises CompileError if a machine can run no network, or `virtual_threads` (copies of buffers) is not 1 or 2."""
    if config.block_in != config.block_out and config.batch > 1:
        raise CompileError(
            f"configuration {config.name}: batch = {config.batch} with block_in = {config.block_in} and block_out = "
            f"{config.block_out}; a batch above 1 requires equal blocks, because each layer's results are the next "
            "layer's inputs: set batch to 1, or block_in = block_out"
        )
    if not config.has("post"):
        raise CompileError(
            f"configuration {config.name} lacks the extension 'post', with which every layer ends; "
            "add it to `extensions`"
        )
    if virtual_threads not in (1, 2):
        raise CompileError(f"virtual threads = {virtual_threads}; give 1, or 2 to hide latency")


def pipeline(config: Config, copies: Mapping[str, int]) -> tuple[Pass, ...]:
    """The passes between schedule and emission; `copies`: for each scratchpad, the number of copies of its buffers."""
    capacity = scratchpad_depths(config)
    return (
        Pass("split-copies", split_copies),
        Pass(
            "interleave-virtual-threads",
            partial(interleave_virtual_threads, threads=copies, capacity=capacity),
        ),
    )


KERNELS: Mapping[type, str] = MappingProxyType(
    {
        Int8Convolution: "convolution_kernels:convolution_kernels",
        operators.Int8MaxPool: "pool_kernels:max_pool_kernels",
        operators.Int8AveragePool: "pool_kernels:average_pool_kernels",
        operators.Int8Elementwise: "pool_kernels:elementwise_kernels",
        operators.Table: "pool_kernels:table_kernels",
        operators.Positions: "position_kernels:position_kernels",
        operators.Resample: "position_kernels:resample_kernels",
        operators.Swap: "activation_weights:transpose_kernels",
        operators.TransposedProduct: "activation_weights:transposed_products",
        operators.Products: "activation_weights:product_kernels",
        operators.Repeated: "position_sums:repeated_kernels",
        operators.PositionSums: "position_sums:position_sum_kernels",
        operators.Attention: "attention_kernels:attention_kernels",
        operators.Normed: "normed_kernels:normed_kernels",
        operators.Rows: "row_kernels:row_kernels",
        operators.Channels: "channel_kernels:channel_kernels",
    }
)
"""For each operator of the accelerator, the function that makes its kernels, as FILE:NAME; the file is imported when
the operator occurs. Arguments of the function: the configuration, the legalized graph, the node, the node's operator.
The function returns the kernels in order.
"""


def kernels_of(config: Config, legalized: Legalized, node: Node) -> tuple[Kernel, ...]:
    """The kernels that compute a node, in order."""
    row = KERNELS.get(type(node.operator))
    if row is None:
        raise ValueError(f"{node.name} ({node.kind}) runs on processors only: import the model without it")
    return tuple(at(row)(config, legalized, node, node.operator))


def network_kernels(
    config: Config, legalized: Legalized
) -> tuple[Mapping[str, tuple[Kernel, ...]], Mapping[str, ChainBuffer]]:
    """The kernels of each node by name, and the places of tensors in the chain memory, on-chip memory for tensors
    between layers (no places if the machine has none).
    """
    kernels = {node.name: kernels_of(config, legalized, node) for node in legalized.graph.nodes}
    if not config.chain_depth:
        return kernels, {}
    from .chains import chain_layers

    return chain_layers(config, legalized.graph, kernels)


def workloads_of(kernels: Mapping[str, Sequence[Kernel]]) -> dict[str, Workload]:
    """Workloads of nodes whose knobs may come from tuning records (nodes with a `recorded` kernel), by node name."""
    return {
        name: kernel.workload for name, several in kernels.items() for kernel in several if kernel.recorded
    }


def choose_points(
    config: Config,
    kernels: Mapping[str, Sequence[Kernel]],
    settings: Mapping[str, Values],
    virtual_threads: int,
    measured: Mapping[str, tuple[Values, ...]] = MappingProxyType({}),
) -> dict[str, tuple[Values, ...]]:
    """The knob values of every kernel, by node.

    Kernels whose knobs may come from tuning records use the node's `settings`, if any. Other kernels use the node's
    values in `measured` (one for each kernel, in order), else the template's default with at most `virtual_threads`
    copies of a buffer; equal workloads share one default. Raises UnfitNodeError if a smallest tile does not fit.
    """

    @cache
    def default(workload: Workload) -> Values:
        return template_of(workload).default_for(config, workload, virtual_threads)

    @cache
    def in_series(workload: Workload, series: Workload) -> Values:
        return template_of(workload).default_in_series(config, workload, series, virtual_threads)

    found: dict[str, tuple[Values, ...]] = {}
    for node, several in kernels.items():
        try:
            found[node] = tuple(
                (settings.get(node) if kernel.recorded else None)
                or (measured[node][number] if node in measured else None)
                or (in_series(kernel.workload, kernel.series) if kernel.series else default(kernel.workload))
                for number, kernel in enumerate(several)
            )
        except EmptySpaceError as error:
            raise UnfitNodeError(node, error) from None
    return found


def lower_node(
    config: Config,
    node: str,
    kernels: Sequence[Kernel],
    points: Sequence[Values],
    *,
    virtual_threads: int,
    check: bool = False,
    dump: Dump | None = None,
    schedule_cache: ScheduleCache | None = None,
) -> LoweredLayer:
    """The kernels of a node, scheduled at `points` of their spaces and lowered.

    `virtual_threads`: copies of the parameter table. `check`: verifies the program after every pass. `dump`: receives
    the program after every pass. `schedule_cache`: cache of lowered programs, read and extended unless `dump` is
    given; with `check`, a program from the cache is verified once.
    """
    config, lowered = kernel_fields(config), []
    for kernel, point in zip(kernels, points, strict=True):
        key = (
            None
            if schedule_cache is None or dump is not None
            else key_of(config, kernel, point, virtual_threads)
        )
        program = None if schedule_cache is None or key is None else schedule_cache.find(key, kernel, config)
        if program is None:
            program, post = _lower(config, kernel, point, virtual_threads, check, dump)
            if schedule_cache is not None and key is not None:
                schedule_cache.keep(key, kernel, program, post)
        elif check:
            verify(program)
        whole = None if key is None else (key, constants_of(kernel))
        lowered.append(LoweredKernel(program, kernel.tensors, kernel.constants, kernel.offsets, key=whole))
    return LoweredLayer(node, tuple(lowered))


def _lower(
    config: Config, kernel: Kernel, point: Values, virtual_threads: int, check: bool, dump: Dump | None
) -> tuple[Program, Post]:
    """A kernel's program, scheduled at `point` and lowered, and its post-processing. Parameters: see `lower_node`."""
    template, expression = template_of(kernel.workload), kernel.source
    if isinstance(expression, Source):
        made = template_of(expression.workload)
        expression = made.expression(config, expression.workload, expression.details)
    program = template.schedule(config, kernel.workload, expression, point).program
    if dump is not None:
        dump("scheduled", format_node(program) + "\n")
    passes = pipeline(config, template.copies_by_scope(point, virtual_threads))
    return run_pipeline(program, passes, check=check, dump=dump), expression.post
