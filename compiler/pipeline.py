"""The compilation of a model, from top to bottom, for every target. No other file decides the order of the stages.

| stage | accelerator: `compile_program` | processors and GPUs: `compile_kernels` |
|---|---|---|
| read a model | `frontends/onnx/model/read.py`, `frontends/onnx/model/load.py` | the same |
| import a graph | `frontends/onnx/integer_importer.py` | the same, or `frontends/onnx/float_importer.py` for floats |
| fuse nodes | `rewrites/fuse.py` | the same, or `rewrites/floating/pipeline.py` |
| legalize nodes, layouts | `templates/vdla/legalize.py` | `rewrites/int8_for_processors.py`, or the same |
| plan memory | `codegen/vdla/link.py`, at the end | `graph/memory_plan.py` |
| lower to expressions | `templates/vdla/lower.py`, `chains.py` | `templates/cpu/lower*.py`, `templates/gpu/lower.py` |
| choose knobs | `vdla_stages.py`, `{node_points,dram_choices}.py` | `kernel_launches.py`, `templates/chosen_knobs.py` |
| schedule loops | `templates/vdla/lower.py`: `lower_node` | `templates/cpu/table.py`, `templates/gpu/table.py` |
| generate code | `codegen/vdla/emit.py` | `kernel_launches.py` with a form of the target |
| link | `codegen/vdla/link.py` | the form: `cpu_stages.py`, `gpu_stages.py` |

A `Form` names a target and says how its kernels are compiled: for this machine at once, ahead of time, or emulated.
`compile_kernel` compiles one scheduled expression; `backends/accelerator_kernel.py` does so for the accelerator.
`divided.py` compiles regions of a model for the accelerator and for this processor.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vdla.util.files import make_folder, write_whole
from vdla.util.long_compilation import collector_paused

from . import VIRTUAL_THREADS
from .frontends.onnx.model.read import Source, is_quantized, model_label, read_model
from .graph.errors import InvalidModelError, ModelError, NodeError, ProcessorsOnlyError
from .graph.graph import Graph
from .graph.printer import format_graph
from .ir.stmt import Program
from .passes.pipeline import dump_node, dump_to

if TYPE_CHECKING:
    from vdla.isa.config import Config

    from .graph_rules import GraphRules
    from .kernel_forms import Dump, Form, Lowering, Progress
    from .records.book import RecordBook
    from .runtime.artifact import Compiled
    from .templates.chosen_knobs import ChosenKnobs
    from .templates.vdla.schedule_cache import ScheduleCache
    from .vdla_stages import AcceleratorNetwork

Network = TypeVar("Network")


@collector_paused()
def compile_program(
    model: Source | Graph,
    config: Config,
    *,
    virtual_threads: int = VIRTUAL_THREADS,
    dump_passes: Path | None = None,
    verify: bool = False,
    records: RecordBook | None = None,
    data: bool = True,
    schedule_cache: ScheduleCache | None = None,
) -> Compiled:
    """Compile an ONNX model (a path, or its bytes), or a fused graph, into one program of the accelerator `config`.

    `virtual_threads`: number of copies of each scratchpad buffer, with which loads, computation and stores overlap (1:
    they do not overlap). `dump_passes` is a folder for the text of every layer after every pass. With `verify` the loop
    IR is checked after each pass. `records`: the tuner's records, which set the knobs of recorded layers. Equal input
    gives an equal program.

    Without `data` the memory image has zeros in place of weights and other constants. Instructions, micro-ops and
    addresses are the same, and so is all timing; this suffices for `run` without data. `schedule_cache` is a cache of
    lowered kernels, perhaps of other machines or networks. Raises UserError.
    """
    from .graph.budgets import image_problem
    from .graph.layout import activation_bytes
    from .graph.memory_plan import least_bytes
    from .runtime.artifact import Compiled
    from .templates.vdla.legalize import legalize
    from .templates.vdla.lower import CompileError, UnfitNodeError, check_machine
    from .templates.vdla.schedule_cache import ScheduleCache

    started = time.perf_counter()
    if not isinstance(model, Graph):
        check_machine(config, virtual_threads)
        model = accelerator_graph(model, config)
    if not model.nodes:
        raise CompileError("contains nothing for the accelerator; run it with `vdla run --device cpu`")

    legalized = legalize(model, config)
    graph, layouts = legalized.graph, dict(legalized.layouts)
    sizes = {
        name: activation_bytes(config, tensor.nchw, layouts[name]) for name, tensor in graph.tensors.items()
    }
    if problem := image_problem(least_bytes(graph, sizes), sizes):
        raise CompileError(problem)
    network = network_on(
        config,
        legalized=legalized,
        virtual_threads=virtual_threads,
        schedule_cache=ScheduleCache() if schedule_cache is None else schedule_cache,
    )
    settings = {}
    if records is not None:
        from .records.network import recorded_settings

        settings = recorded_settings(records, config, network.key, network.workloads)
    try:
        points = network.points(settings)
    except UnfitNodeError as error:
        raise error.explained(config, graph) from None
    layers = [
        network.layer(
            node.name,
            points[node.name],
            check=verify,
            dump=None if dump_passes is None else dump_node(dump_passes, number, node.name),
        )
        for number, node in enumerate(graph.nodes)
    ]
    result = network.linked(layers, data=data)
    if dump_passes is not None:
        from vdla.isa.assembler import disassemble

        make_folder(dump_passes)
        text = disassemble(result.program.instructions, config)
        write_whole(dump_passes / "program.txt", text.encode())
    return Compiled(
        program=result.program,
        graph=graph,
        layouts=layouts,
        addresses=result.addresses,
        sizes=sizes,
        virtual_threads=virtual_threads,
        compile_seconds=time.perf_counter() - started,
        chained=frozenset(network.chained),
        data=data,
    )


def network_on(config: Config, **fields: Any) -> AcceleratorNetwork:
    """The `AcceleratorNetwork` with these `fields`; a `DramNetwork` for a machine whose memory is a DRAM."""
    if config.memory.kind == "dram":
        from .dram_network import DramNetwork

        return DramNetwork(config=config, **fields)
    from .vdla_stages import AcceleratorNetwork

    return AcceleratorNetwork(config=config, **fields)


def accelerator_graph(model: Source, config: Config) -> Graph:
    """The graph of an ONNX model for the accelerator `config`: imported and fused. Raises UserError."""
    from .frontends.onnx.integer_importer import import_model
    from .graph.abilities import Abilities
    from .rewrites.fuse import fuse

    return fuse(import_model(model, abilities=Abilities.of(config)))


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
    """Compile an ONNX model (a path, or its bytes), or a graph of `import_graph`, into a network of the given `form`.

    A dynamic first dimension of the inputs becomes `batch`. Without `fusion` every operator is a kernel of its own.
    `dump_passes` is a folder for the graph after every pass and every kernel before and after its schedule. Equal
    programs become one kernel. `knobs` chooses recorded knobs (None: defaults), and collects which records it has
    applied and which it has ignored. `told`: called with (finished kernels, all kernels). Raises UserError.
    """
    from .graph.storage_plan import check_plan, plan_storage
    from .kernel_forms import LoweredNetwork
    from .kernel_launches import lower_nodes, make_launches

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
        from .graph.printer import format_plan

        dump("memory-plan", format_plan(graph, plan))
    network = LoweredNetwork(label=label, graph=graph, plan=plan, started=started)
    nodes = lower_nodes(form.lowering, graph, knobs)
    with form.making() as maker:
        launches = make_launches(network, form.lowering, nodes, maker, dump_passes=dump_passes, told=told)
        return maker.link(network, launches)


def compile_kernel(
    program: Program, form: Form[Any, Network], *, operator: str | None = None, operations: int = 0
) -> Network:
    """Compiles a scheduled program as a network of the given `form`; its parameters are the network's inputs and
    outputs.

    `operator`: name of the network and its launch, by default the program's. `operations`: its number of arithmetic
    operations. Raises UserError.
    """
    from .ir.regions import write_buffers
    from .kernel_forms import LoweredNetwork
    from .runtime.one_kernel import launched_alone

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
    """Returns (name, workload) of each tunable node of a network, for the target of `lowering`, in the graph's order.

    If a node can be lowered in several ways, it has a pair for each way, with the default first. Raises UserError.
    """
    graph = import_graph(lowering.rules, model, batch=batch, fusion=fusion)
    found = ((node, lowering.methods(graph, node)) for node in graph.nodes)
    return [(n.name, way.workload) for n, ways in found for way in ways if way.workload is not None]


def import_graph(
    rules: GraphRules, model: Source, *, batch: int = 1, fusion: bool = True, dump: Dump | None = None
) -> Graph:
    """Reads and imports a model, fuses nodes (with `fusion`), and makes the graph legal for a target's `rules`. Returns
    the graph of the model's kernels, with layouts. `dump` gets the graph after every pass. Raises ModelError.

    Targets with a `channel_block` compute fully quantized models in integers. All other models are computed in floats.
    In floats, each QuantizeLinear and DequantizeLinear rounds as in the model.
    """
    read, refusal = read_model(model), None
    if rules.channel_block is not None and is_quantized(read):
        from .frontends.onnx.integer_importer import import_model
        from .graph.abilities import PROCESSOR

        try:
            imported = import_model(read, batch=batch, abilities=PROCESSOR, every=False)
        except InvalidModelError:
            raise
        except ModelError as error:
            # Quantized in parts. The import has changed the model that it read.
            read, refusal = read_model(model), error
        else:
            return _integer_graph(imported, rules, fusion, dump)
    from .frontends.onnx.float_importer import import_float_model
    from .rewrites.floating.pipeline import run_graph_passes

    try:
        imported = import_float_model(read, batch=batch, recurrent=rules.recurrent)
        graph = run_graph_passes(imported, rules.float_passes(fusion=fusion), dump)
    except NodeError as error:
        # Integer operators are read by the other importer: its error names the cause, unless floats support the node.
        theirs = error.op_type.startswith("QLinear") or error.op_type == "DequantizeLinear"
        if isinstance(refusal, ProcessorsOnlyError):
            refusal = None
        if theirs and isinstance(refusal, NodeError) and refusal.node == error.node:
            raise refusal from None
        raise
    if rules.check is not None:
        rules.check(read.label, graph)
    return graph


def _integer_graph(imported: Graph, rules: GraphRules, fusion: bool, dump: Dump | None) -> Graph:
    from .rewrites.driver import remove_dead
    from .rewrites.fuse import fuse
    from .rewrites.int8_for_processors import for_processors

    name, rewrite = ("fuse", fuse) if fusion else ("remove-dead", remove_dead)
    rewritten = rewrite(imported)
    assert rules.channel_block is not None
    graph = for_processors(rewritten, rules.channel_block)
    if dump is not None:
        dump("import", format_graph(imported))
        dump(name, format_graph(rewritten))
        dump("for-processors", format_graph(graph))
    return graph
