"""Splits the cycles and bytes of a simulation over the layers of its program. The result is called an account: numbers
by cause that sum up exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.int8_convolution import Int8Convolution
from vdla.compiler.graph.int8_operators import (
    Int8AveragePool,
    Int8Elementwise,
    Int8MaxPool,
    TransposedProduct,
)
from vdla.compiler.graph.layout import pack_activation
from vdla.compiler.graph.traffic import input_bytes, input_read
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.runtime.layers import Layer, layers_of
from vdla.sim import SimulationResult, compute_timeline, cycles_by_category

from ..technology.clock import clock_of
from ..technology.components import Components, default_components
from ..technology.energy import energy_by_unit
from ..technology.events import count_events
from ..technology.rungs import rungs_of_machine
from .cycle_breakdown import CheckAccount, LayerAccount, RunAccount, TotalAccount
from .split import layer_boundaries, layer_starts
from .traffic import Unread, explain_excess, group_traffic

GEMM = "gemm"
"""The category of cycles in which the array issues an operation; all other cycles count as stalls."""


def compulsory_by_kind(graph: Graph, node: Node, chained: AbstractSet[str] = frozenset()) -> dict[str, int]:
    """Compulsory bytes of a fused node, by kind of data: the bytes that every program must move over the bus. They are
    int8 elements without padding, and 4-byte biases; of the input, only elements that some window reads count. The
    first input and the output have 0 bytes if they are in `chained`, the tensors that stay on the chip.
    """
    found = _of_node(graph, node)
    if node.inputs[0] in chained:
        found["inp"] = 0
    if node.output in chained:
        found["out"] = 0
    return found


def _of_node(graph: Graph, node: Node) -> dict[str, int]:
    out = graph.tensors[node.output].size
    operand = sum(graph.tensors[name].size for name in node.inputs[1:])
    match node.operator:
        case Int8Convolution(weight=weight):
            return {
                "inp": input_bytes(graph, node),
                "wgt": weight.size,
                "par": 4 * weight.shape[0],
                "operand": operand,
                "out": out,
            }
        case TransposedProduct(convolution=convolution):
            # Weights and activations change roles.
            weight = convolution.weight
            read = input_bytes(graph, node)
            return {
                "inp": weight.size,
                "wgt": read,
                "par": 4 * weight.shape[0],
                "operand": operand,
                "out": out,
            }
        case Int8MaxPool() | Int8AveragePool():
            return {"inp": input_bytes(graph, node), "out": out}
        case Int8Elementwise():
            return {"inp": input_bytes(graph, node), "operand": operand, "out": out}
        case _:
            return {"inp": sum(graph.tensors[name].size for name in node.inputs), "out": out}


def unread_bytes(compiled: Compiled, node: Node) -> Unread:
    """Marks the bytes in DRAM of a node's first input that no window of its convolution or pool reads. The `mask` is
    empty if all bytes are read, or if the input is in the chain memory (on-chip memory that keeps a layer's output for
    the next layer).
    """
    name = node.inputs[0]
    if name in compiled.chained:
        return Unread(start=0, mask=np.zeros(0, dtype=bool))
    rows, columns = input_read(compiled.graph, node)
    if rows.all() and columns.all():
        return Unread(start=0, mask=np.zeros(0, dtype=bool))
    shape = compiled.graph.tensors[name].nchw
    elements = np.broadcast_to(~(rows[:, None] & columns), shape).astype(np.int8)
    packed = pack_activation(compiled.program.config, elements, compiled.layouts[name])
    return Unread(start=compiled.addresses[name], mask=packed != 0)


def account_layers(
    compiled: Compiled, simulation: SimulationResult, known: Sequence[Layer] | None = None
) -> tuple[LayerAccount, ...]:
    """The account (cycles by cause, bytes by kind) of every layer of `compiled`, from its simulation. `known`: the
    result of `layers_of(compiled)`, if computed before.
    """
    program = compiled.program
    pieces = compute_timeline(simulation)
    boundaries = layer_boundaries(program, simulation.end, simulation.cycles)
    starts = layer_starts(program, simulation.begin)
    traffic = group_traffic(program, [unread_bytes(compiled, node) for node in compiled.graph.nodes])
    nodes = {node.name: node for node in compiled.graph.nodes}
    layers = []
    for layer in layers_of(compiled) if known is None else known:
        begin, end = (int(boundary) for boundary in boundaries[layer.group : layer.group + 2])
        spent = cycles_by_category(pieces, begin, end)
        moved = traffic[layer.group].moved
        compulsory = compulsory_by_kind(compiled.graph, nodes[layer.name], compiled.chained)
        if moved["acc"] and not moved["inp"]:
            # Pools and element-wise layers read their input straight into the accumulators.
            compulsory["acc"] = compulsory.pop("inp")
        layers.append(
            LayerAccount(
                name=layer.name,
                op=layer.op,
                members=layer.members,
                macs=layer.macs,
                started=int(starts[layer.group]),
                begin=begin,
                end=end,
                roofline_cycles=layer.roofline_cycles,
                bound=layer.bound,
                gemm_cycles=spent.get(GEMM, 0),
                stalls={cause: count for cause, count in spent.items() if cause != GEMM},
                dram=moved,
                compulsory_bytes=sum(compulsory.values()),
                excess=explain_excess(traffic[layer.group], compulsory),
            )
        )
    return tuple(layers)


def run_account(
    model: str,
    compiled: Compiled,
    simulation: SimulationResult,
    simulate_seconds: float,
    check: CheckAccount | None = None,
    *,
    components: Components | None = None,
    energy: bool = False,
) -> RunAccount:
    """Totals and layers of one launch of `compiled`, the network `model`. `simulate_seconds`: CPU seconds of the
    simulation; `check`: comparison of the outputs, if made. The clock and, with `energy`, microjoules follow from
    `components`, by default the shipped models.
    """
    config, layers = compiled.program.config, layers_of(compiled)
    accounts = account_layers(compiled, simulation, layers)
    if simulation.dram is not None:
        from .dram_lines import with_row_hits

        accounts = with_row_hits(compiled.program, accounts)
    return RunAccount(
        model=model,
        config=config.name,
        total=account_total(
            compiled, simulation, simulate_seconds, layers, components=components, energy=energy
        ),
        layers=accounts,
        check=check,
        warnings=config.warnings,
    )


def account_total(
    compiled: Compiled,
    simulation: SimulationResult,
    simulate_seconds: float,
    known: Sequence[Layer] | None = None,
    *,
    components: Components | None = None,
    energy: bool = False,
) -> TotalAccount:
    """The totals of one launch of the whole program. `simulate_seconds`: CPU seconds of the simulation; `known`: the
    result of `layers_of(compiled)`, if computed before. The clock and, with `energy`, microjoules of the launch follow
    from `components`, by default the shipped models.
    """
    config, layers = compiled.program.config, layers_of(compiled) if known is None else known
    components = components or default_components()
    clock = clock_of(config, components)
    microjoules = None
    if energy:
        events = count_events(compiled.program, simulation)
        microjoules = sum(energy_by_unit(config, events, components).values())
    return TotalAccount(
        macs=sum(layer.macs for layer in layers),
        cycles=simulation.cycles,
        roofline_cycles=sum(layer.roofline_cycles for layer in layers),
        instructions=len(compiled.program.instructions),
        dram_read_bytes=simulation.dram_read_bytes,
        dram_write_bytes=simulation.dram_write_bytes,
        clock_hertz=clock.hertz,
        clock_is=clock.source,
        seconds_at_clock=clock.seconds(simulation.cycles),
        energy_uj=microjoules,
        energy_is="" if microjoules is None else rungs_of_machine(config, components)["energy"],
        compile_seconds=compiled.compile_seconds,
        simulate_seconds=simulate_seconds,
    )
