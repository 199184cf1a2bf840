"""The compilation of a model, from top to bottom, for every target. No other file decides the order of the stages.

Networks of kernels, for processors and GPUs (`compile_kernels`, and `compile_kernel` for one scheduled expression):

| stage | what it makes | files |
|---|---|---|
| read | a checked model with its data | `graph/onnx_read.py`, `graph/onnx_load.py` |
| import | a graph of operators on integers or on floats | `graph/onnx_import.py` or `graph/floating/onnx_import.py` |
| fuse | epilogues joined to their products | `graph/fuse.py` or `graph/floating/pipeline.py` |
| legalize | layouts and conversions of a target | `graph/int8_for_processors.py` or `graph/floating/pipeline.py` |
| plan | the place of each tensor in one arena | `graph/storage_plan.py` |
| lower | a tensor expression of each node, and its knobs | `templates/cpu/lower.py`, `templates/gpu/lower.py` |
| schedule | a loop program | `templates/cpu/table.py`, `templates/gpu/table.py`, `schedule/` |
| generate | code of each different program, and packed constants | `kernel_launches.py` with a form of the target |
| link | a network, or an archive's content | the form: `cpu_stages.py`, `gpu_stages.py` |

A `Form` says for which target and how: on this machine now, ahead of time, or emulated.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TypeVar

from .graph.errors import InvalidModelError, ModelError, NodeError
from .graph.graph import Graph
from .graph.onnx_read import Source, is_quantized, model_label, read_model
from .graph.printer import format_graph
from .graph.storage_plan import check_plan, format_plan, plan_storage
from .ir.regions import write_buffers
from .ir.stmt import Program
from .kernel_launches import (
    Dump,
    Form,
    GraphRules,
    LoweredNetwork,
    Lowering,
    Progress,
    lower_nodes,
    make_launches,
)
from .passes.pipeline import dump_to
from .runtime.one_kernel import launched_alone
from .templates.chosen_knobs import ChosenKnobs

Network = TypeVar("Network")


def compile_kernels(
    model: Source | Graph,
    form: Form[Any, Network],
    *,
    batch: int = 1,
    fusion: bool = True,
    dump_passes: Path | None = None,
    knobs: ChosenKnobs[Any] | None = None,
    told: Progress | None = None,
) -> Network:
    """Compile an ONNX model (a path, or its bytes), or a graph that `import_graph` would make, into a network.

    A dynamic first dimension of the inputs becomes `batch`. Without `fusion` every operator is a kernel of its own.
    `dump_passes` is a folder for the graph after every pass and every kernel before and after its schedule. Equal
    programs become one kernel. `knobs` chooses recorded knobs (None: defaults), and collects which records it applied
    and ignored. `told` is called with the number of finished kernels and of all kernels. Raises UserError.
    """
    started = time.perf_counter()
    dump = None if dump_passes is None else dump_to(dump_passes)
    if isinstance(model, Graph):
        label, graph = model.name, model
    else:
        label = model_label(model)
        graph = import_graph(form.lowering.rules, model, batch=batch, fusion=fusion, dump=dump)
    plan = plan_storage(graph)
    check_plan(label, graph, plan)
    if dump is not None:
        dump("memory-plan", format_plan(graph, plan))
    network = LoweredNetwork(label=label, graph=graph, plan=plan, started=started)
    nodes = lower_nodes(form.lowering, graph, knobs)
    with form.making() as maker:
        launches = make_launches(network, form.lowering, nodes, maker, dump_passes=dump_passes, told=told)
        return maker.link(network, launches)


def compile_kernel(
    program: Program, form: Form[Any, Network], *, operator: str | None = None, operations: int = 0
) -> Network:
    """A scheduled program alone as a network, whose inputs and outputs are the program's parameters.

    `operator`: name of the network and its launch, by default the program's. `operations`: its arithmetic. Raises
    UserError.
    """
    started = time.perf_counter()
    name = program.name if operator is None else operator
    written = frozenset(buffer.name for buffer in write_buffers(program.body))
    with form.making() as maker:
        made = maker.make(program, name.lower(), None)
        graph, plan, launch = launched_alone(
            maker.parameters(made), written, name, maker.kernel(made, name), operations
        )
        return maker.link(LoweredNetwork(label=name, graph=graph, plan=plan, started=started), (launch,))


def network_workloads(
    lowering: Lowering[Any], model: Source, *, batch: int = 1, fusion: bool = True
) -> list[tuple[str, Any]]:
    """Every node of a network that can be tuned, by name, with its workload, in order. Raises UserError.

    A node with several lowerings occurs once for each, the default first.
    """
    graph = import_graph(lowering.rules, model, batch=batch, fusion=fusion)
    found = ((node, lowering.methods(graph, node)) for node in graph.nodes)
    return [(n.name, way.workload) for n, ways in found for way in ways if way.workload is not None]


def import_graph(
    rules: GraphRules, model: Source, *, batch: int = 1, fusion: bool = True, dump: Dump | None = None
) -> Graph:
    """The graph of a model's kernels, with layouts: read, imported, fused, made legal; `dump` gets it after every pass.

    Models that are quantized throughout are computed in integers on targets with `integer_lanes`, else in floats, with
    both roundings of each pair of QuantizeLinear and DequantizeLinear. Raises ModelError.
    """
    read, refusal = read_model(model), None
    if rules.integer_lanes is not None and is_quantized(read):
        from .graph.abilities import PROCESSOR
        from .graph.onnx_import import import_model

        try:
            imported = import_model(read, batch=batch, abilities=PROCESSOR, every=False)
        except InvalidModelError:
            raise
        except ModelError as error:
            # Quantized in parts. The import has changed the model that it read.
            read, refusal = read_model(model), error
        else:
            return _integer_graph(imported, rules.integer_lanes, fusion, dump)
    from .graph.floating.onnx_import import import_float_model
    from .graph.floating.pipeline import graph_passes, run_graph_passes

    try:
        imported = import_float_model(read, batch=batch, recurrent=rules.recurrent)
        passes = graph_passes(rules.lanes, fusion=fusion, join=rules.join, tiling=rules.tiling)
        graph = run_graph_passes(imported, passes, dump)
    except NodeError as error:
        # Integer operators are read by the other importer: its error names the cause.
        theirs = error.op_type.startswith("QLinear") or error.op_type == "DequantizeLinear"
        if theirs and isinstance(refusal, NodeError) and refusal.node == error.node:
            raise refusal from None
        raise rules.refused(error) from None
    rules.check(read.label, graph)
    return graph


def _integer_graph(imported: Graph, lanes: int, fusion: bool, dump: Dump | None) -> Graph:
    from .graph.fuse import fuse
    from .graph.int8_for_processors import for_processors
    from .graph.remove_dead import remove_dead

    name, rewrite = ("fuse", fuse) if fusion else ("remove-dead", remove_dead)
    rewritten = rewrite(imported)
    graph = for_processors(rewritten, lanes)
    if dump is not None:
        dump("import", format_graph(imported))
        dump(name, format_graph(rewritten))
        dump("for-processors", format_graph(graph))
    return graph
