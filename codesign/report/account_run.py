"""Where cycles and bytes went: splits a simulation over the layers of the program it ran."""

from __future__ import annotations

from vdla.compiler.driver import Compiled
from vdla.compiler.graph.graph import AveragePool, Convolution, Elementwise, Graph, MaxPool, Node
from vdla.sim import SimulationResult, compute_timeline, cycles_by_category

from .accounts import LayerAccount, TotalAccount
from .split import layer_boundaries
from .traffic import explain_excess, group_traffic

GEMM = "gemm"
"""The category of cycles in which the array issues an operation; every other one counts as a stall."""


def compulsory_by_kind(graph: Graph, node: Node) -> dict[str, int]:
    """Bytes that a fused node cannot avoid to move, by kind: true int8 sizes, 4-byte biases."""
    out = graph.tensors[node.output].size
    match node:
        case Convolution(data=data, weight=weight, combine=combine):
            operand = 0
            if combine is not None and combine.operand is not None:
                operand = graph.tensors[combine.operand].size
            return {
                "inp": graph.tensors[data].size,
                "wgt": weight.size,
                "par": 4 * weight.shape[0],
                "operand": operand,
                "out": out,
            }
        case MaxPool(data=data) | AveragePool(data=data):
            return {"inp": graph.tensors[data].size, "out": out}
        case Elementwise(a=a, b=b):
            operand = 0 if b is None else graph.tensors[b].size
            return {"inp": graph.tensors[a].size, "operand": operand, "out": out}


def account_layers(compiled: Compiled, simulation: SimulationResult) -> tuple[LayerAccount, ...]:
    """The account of every layer of `compiled`, from its simulation."""
    program = compiled.program
    pieces = compute_timeline(simulation)
    boundaries = layer_boundaries(program, simulation.end, simulation.cycles)
    traffic = group_traffic(program)
    nodes = {node.name: node for node in compiled.graph.nodes}
    layers = []
    for layer in compiled.layers:
        begin, end = (int(boundary) for boundary in boundaries[layer.group : layer.group + 2])
        spent = cycles_by_category(pieces, begin, end)
        moved = traffic[layer.group].moved
        compulsory = compulsory_by_kind(compiled.graph, nodes[layer.name])
        if moved["acc"] and not moved["inp"]:
            # Pools and element-wise layers read their input straight into the accumulators.
            compulsory["acc"] = compulsory.pop("inp")
        layers.append(
            LayerAccount(
                name=layer.name,
                op=layer.op,
                members=layer.members,
                macs=layer.macs,
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


def account_total(compiled: Compiled, simulation: SimulationResult, simulate_seconds: float) -> TotalAccount:
    """The account of the whole program."""
    config = compiled.program.config
    return TotalAccount(
        macs=sum(layer.macs for layer in compiled.layers),
        cycles=simulation.cycles,
        roofline_cycles=sum(layer.roofline_cycles for layer in compiled.layers),
        instructions=len(compiled.program.instructions),
        dram_read_bytes=simulation.dram_read_bytes,
        dram_write_bytes=simulation.dram_write_bytes,
        seconds_at_clock=simulation.cycles / config.clock_hertz,
        compile_seconds=compiled.compile_seconds,
        simulate_seconds=simulate_seconds,
    )
