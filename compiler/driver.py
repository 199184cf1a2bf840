"""compile_model: an ONNX file in, one program for one launch out."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.isa.config import Config
from vdla.isa.program import Program
from vdla.util.collector import collector_paused
from vdla.util.errors import UserError
from vdla.util.whole_files import make_folder, write_whole

from .codegen.vdla.link import Linked, link
from .graph.abilities import Abilities
from .graph.budgets import image_problem
from .graph.fuse import fuse
from .graph.graph import Graph
from .graph.layout import activation_bytes
from .graph.memory_plan import lifetimes
from .graph.onnx_import import import_model
from .graph.onnx_read import Source
from .passes.pipeline import dump_to
from .runtime.artifact import Compiled
from .templates.vdla.chains import chain_layers
from .templates.vdla.legalize import legalize
from .templates.vdla.lower import UnfitNodeError, choose_points, kernels_of, lower_node, workloads_of
from .templates.vdla.schedule_cache import ScheduleCache
from .tune.measure.node_points import Points, measured_points

if TYPE_CHECKING:
    from .tune.records.book import RecordBook


class CompileError(UserError):
    """A network that this accelerator cannot run; the message names the node and the limit."""


class DoesNotFitError(CompileError):
    """A layer whose smallest tile exceeds the accelerator's memories; `members` are its ONNX nodes' names."""

    def __init__(self, message: str, members: tuple[str, ...]) -> None:
        super().__init__(message)
        self.members = members


@collector_paused()
def compile_model(
    model: Source,
    config: Config,
    *,
    virtual_threads: int = 2,
    dump_passes: Path | None = None,
    verify: bool = False,
    records: RecordBook | None = None,
) -> Compiled:
    """Compile an ONNX model (a path, or the bytes of one) for the accelerator `config`.

    `virtual_threads`: copies of each buffer, which overlap loads, computation and stores (1: no latency hiding).
    `dump_passes` is a folder for the text of every layer after every pass. With `verify` the loop IR is checked after
    each pass. `records` of the tuner set the knobs of recorded layers. Equal input gives an equal program. Raises
    UserError.
    """
    started = time.perf_counter()
    _check_target(config)
    if virtual_threads < 1:
        raise CompileError(f"virtual threads = {virtual_threads}: there must be at least 1 (2 hides latency)")
    graph = fuse(import_model(model, abilities=Abilities.of(config)))
    return compile_graph(
        graph,
        config,
        virtual_threads=virtual_threads,
        dump_passes=dump_passes,
        verify=verify,
        records=records,
        started=started,
    )


@collector_paused()
def compile_graph(
    graph: Graph,
    config: Config,
    *,
    virtual_threads: int = 2,
    dump_passes: Path | None = None,
    verify: bool = False,
    records: RecordBook | None = None,
    started: float | None = None,
    data: bool = True,
    kept: ScheduleCache | None = None,
) -> Compiled:
    """`compile_model` for a fused graph.

    Without `data` the image has zeros in place of weights and other constants: instructions, micro-ops, addresses and
    so all timing are the same, which suffices for `run` without data. `kept` is a cache of lowered kernels of other
    machines or networks.
    """
    started = time.perf_counter() if started is None else started
    if not graph.nodes:
        raise CompileError("holds nothing for the accelerator to compute; `vdla run --device cpu` runs it")
    legalized = legalize(graph, config)
    graph, layouts = legalized.graph, dict(legalized.layouts)
    sizes = {
        name: activation_bytes(config, tensor.nchw, layouts[name]) for name, tensor in graph.tensors.items()
    }
    if problem := image_problem(_least_bytes(graph, sizes), sizes):
        raise CompileError(problem)
    alone = {node.name: kernels_of(config, legalized, node) for node in graph.nodes}
    chained = chain_layers(config, graph, alone)
    kernels = chained.kernels
    settings = {}
    if records is not None:
        from .tune.records.apply_vdla import recorded_settings

        settings = recorded_settings(records, config, legalized, workloads_of(kernels))
    known = ScheduleCache() if kept is None else kept

    def linked_with(points: Points, data: bool, dump_passes: Path | None = None) -> Linked:
        lowered = []
        for number, node in enumerate(graph.nodes):
            dump = None
            if dump_passes is not None:
                dump = dump_to(dump_passes / f"{number:03d}-{re.sub('[^A-Za-z0-9_.-]+', '_', node.name)}")
            lowered.append(
                lower_node(
                    config,
                    node.name,
                    kernels[node.name],
                    points[node.name],
                    virtual_threads=virtual_threads,
                    check=verify,
                    dump=dump,
                    kept=known,
                )
            )
        return link(
            config,
            graph,
            layouts,
            lowered,
            chained=chained.places,
            inside=legalized.places,
            data=data,
            kept=known.drafts,
        )

    try:
        measured = measured_points(
            config, kernels, virtual_threads, lambda points: linked_with(points, False).program
        )
        points = choose_points(config, kernels, settings, virtual_threads, measured)
    except UnfitNodeError as error:
        node = next(node for node in graph.nodes if node.name == error.node)
        raise DoesNotFitError(
            f"node {node.name} ({node.kind}): {error} of configuration {config.name}; "
            "make that memory larger, or the layer smaller",
            node.members,
        ) from None
    linked = linked_with(points, data, dump_passes)
    if dump_passes is not None:
        _dump_program(dump_passes, linked.program)
    return Compiled(
        program=linked.program,
        graph=graph,
        layouts=layouts,
        addresses=linked.addresses,
        sizes=sizes,
        virtual_threads=virtual_threads,
        compile_seconds=time.perf_counter() - started,
        chained=frozenset(chained.places),
        data=data,
    )


def _least_bytes(graph: Graph, sizes: Mapping[str, int]) -> int:
    """Least bytes of memory for a graph's tensors: inputs and outputs, plus the most bytes of others live at once."""
    lives = lifetimes(graph)
    ends = {item.tensor for item in (*graph.inputs, *graph.outputs)}
    steps: Counter[int] = Counter()
    for name, (first, last) in lives.items():
        if name not in ends:
            steps[first] += sizes[name]
            steps[last + 1] -= sizes[name]
    live = most = 0
    for step in sorted(steps):
        live += steps[step]
        most = max(most, live)
    return most + sum(sizes[name] for name in ends)


def _check_target(config: Config) -> None:
    if config.block_in != config.block_out and config.batch > 1:
        raise CompileError(
            f"configuration {config.name}: batch = {config.batch} with block_in = {config.block_in} and block_out = "
            f"{config.block_out}; vectors of several images are no neighbours of each other: make batch 1, or the "
            "blocks equal"
        )
    if not config.has("post"):
        raise CompileError(
            f"configuration {config.name} lacks the extension 'post', with which every layer ends; "
            "add it to `extensions`"
        )


def _dump_program(folder: Path, program: Program) -> None:
    from vdla.isa.assembler import disassemble

    make_folder(folder)
    write_whole(folder / "program.txt", disassemble(program.instructions, program.config).encode())
