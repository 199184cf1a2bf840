"""Partitions a model between the accelerator and this processor. Each node is assigned to one of the two, and each
region of nodes is compiled for its side.

`compile_divided` is the entry point; `frontends/onnx/submodel.py` prepares the model, `frontends/onnx/partition.py`
finds regions, `runtime/heterogeneous_network.py` runs the result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import onnx
from onnx import helper

from vdla.isa.config import Config

from . import VIRTUAL_THREADS
from .frontends.onnx.attributes import read_node
from .frontends.onnx.model.read import Source, model_label, read_model
from .frontends.onnx.partition import Partition, Region, partition_model
from .graph.abilities import PLAIN, Abilities
from .graph.errors import InvalidModelError, ModelError, NodeError, NodesError, node_error, parameters_of
from .pipeline import compile_kernels, compile_program
from .runtime.artifact import Compiled
from .runtime.cpu_network import CpuNetwork
from .runtime.executable import Port
from .runtime.heterogeneous_network import CompiledRegion, HeterogeneousNetwork, run_region, time_region
from .templates.vdla.lower import DoesNotFitError

if TYPE_CHECKING:
    from .codegen.cpu.machine import CpuTarget
    from .kernel_forms import Form
    from .records.book import RecordBook

_REPEAT = 5
"""Number of timed runs of a region on each side. The medians of the times decide which side runs the region."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The seconds that one region takes on the two sides. The time on the accelerator is simulated, and includes the
    conversions at the region's boundary; the time on the CPU is measured.

    If the CPU cannot run the region, `cpu_seconds` is None and `remark` is the reason; then the accelerator runs the
    region.
    """

    nodes: tuple[str, ...]
    accelerator_seconds: float
    boundary_seconds: float
    cpu_seconds: float | None
    remark: str = ""

    @property
    def accelerated(self) -> bool:
        """Whether the accelerator is the cheaper side."""
        return self.cpu_seconds is None or self.accelerator_seconds + self.boundary_seconds < self.cpu_seconds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Division:
    """A partitioned, compiled network. `comparisons`: the times of regions on both sides, if times decided where a
    region runs. `refusals`: the nodes that the accelerator's importer refused, with the reasons. `label`: the model's
    name in messages.
    """

    label: str
    network: HeterogeneousNetwork
    comparisons: tuple[Comparison, ...]
    refusals: Mapping[str, str]


class OnCpu(Protocol):
    """A function that compiles a model for this processor. With `recorded` it uses knobs from the tuner's records.
    Without `recorded`, or if there are no records, it uses default knobs.
    """

    def __call__(
        self, model: Source, dump_passes: Path | None = None, *, recorded: bool = True
    ) -> CpuNetwork:
        """The compiled network. `dump_passes`: folder for the program after each pass. Raises UserError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A model to partition, as returned by `prepare_model`, and the compilers of both sides. `offload` compiles a
    region for the accelerator; its arguments are the region and a folder for dumps. Equal regions are compiled once.
    `clock_hertz`: the accelerator's clock.
    """

    label: str
    proto: onnx.ModelProto
    config: Config | None
    offload: Callable[[Region, Path | None], Compiled]
    on_cpu: OnCpu
    clock_hertz: float | None

    def divide(self, cost_threads: int | None) -> tuple[Partition, tuple[Comparison, ...]]:
        """Returns the partition, and the comparisons of regions that decided it. A region runs on the accelerator only
        if the accelerator has its operators. With `cost_threads` it must also be faster there than on this number of
        threads of the processor, unless the processor cannot run it.
        """
        on_cpu: set[str] = set()
        comparisons: dict[tuple[str, ...], Comparison] = {}
        while True:
            partition = place(
                self.label, self.proto, lambda region: self.offload(region, None), self.config, on_cpu=on_cpu
            )
            if cost_threads is None:
                break
            losing: set[str] = set()
            for region in partition.regions:
                if region.side == "accelerator":
                    if region.nodes not in comparisons:
                        comparisons[region.nodes] = self._compare(partition, region, cost_threads)
                    if not comparisons[region.nodes].accelerated:
                        losing.update(region.nodes)
            if not losing:
                break
            on_cpu |= losing
        return partition, tuple(comparisons.values())

    def _compare(self, partition: Partition, region: Region, threads: int) -> Comparison:
        """Times one region on the accelerator, and on `threads` threads of the CPU with default knobs; inputs are
        random.
        """
        generator = np.random.default_rng(0)
        types = [(name, partition.survey.types[name]) for name in region.inputs]
        feeds = {name: generator.standard_normal(known.shape).astype(known.dtype) for name, known in types}
        compiled = _with_code(region, self.offload(region, None))
        _, cycles = run_region(compiled, feeds, data=False)
        offloaded = time_region(compiled, feeds, cycles=cycles, repeat=_REPEAT, clock_hertz=self.clock_hertz)
        seconds, remark = None, ""
        try:
            with self.on_cpu(region.cpu_model, recorded=False) as network:
                on_cpu = _with_code(region, network)
                seconds = time_region(on_cpu, feeds, cycles=None, threads=threads, repeat=_REPEAT).seconds
        except NodeError as error:
            remark = f"node '{error.node}' ({error.op_type}): {error.problem}"
        return Comparison(
            nodes=region.nodes,
            accelerator_seconds=offloaded.seconds,
            boundary_seconds=offloaded.boundary_seconds,
            cpu_seconds=seconds,
            remark=remark,
        )

    def network(self, partition: Partition, dump_passes: Path | None) -> HeterogeneousNetwork:
        """Compiles each region of `partition` for its side and returns the network. `dump_passes`: a folder in which
        each region gets a folder for its dumps.
        """
        regions: list[CompiledRegion] = []
        for number, region in enumerate(partition.regions):
            dumps = None if dump_passes is None else dump_passes / f"{number:02d}-{region.side}"
            if region.side == "accelerator":
                code = self.offload(region, dumps)
            else:
                code = self._rest(partition, region, dumps)
            regions.append(_with_code(region, code))
        graph = self.proto.graph
        initialized = {item.name for item in graph.initializer}
        types = {name: known.dtype for name, known in partition.survey.types.items()}
        types |= {
            info.name: helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            for info in graph.output
        }
        return HeterogeneousNetwork(
            name=graph.name or "graph",
            inputs=tuple(
                Port(name=info.name, dtype=types[info.name], shape=partition.survey.types[info.name].shape)
                for info in graph.input
                if info.name not in initialized
            ),
            outputs=tuple(info.name for info in graph.output),
            regions=tuple(regions),
            types=types,
            constants=partition.constants,
        )

    def _rest(self, partition: Partition, region: Region, dump_passes: Path | None) -> CpuNetwork:
        try:
            return self.on_cpu(region.model, dump_passes)
        except NodesError as error:
            raise NodesError(self.label, [self._of_both(partition, part) for part in error.parts]) from None
        except NodeError as error:
            raise self._of_both(partition, error) from None
        except ModelError as error:
            # The region's bytes have no name of their own.
            raise ModelError(f"{self.label}: {region.name}: {str(error).removeprefix('model: ')}") from None

    def _of_both(self, partition: Partition, error: NodeError) -> NodeError:
        """The error for a node that the CPU rejects with `error`. If the accelerator has refused the node too, the
        message has both reasons.
        """
        problem = error.problem
        if (refusal := partition.refusals.get(error.node)) is not None:
            problem = f"neither target runs it (CPU: {problem}; accelerator: {refusal})"
        return node_error(self.label, error.node, error.op_type, problem, error.way_out)


def undivided(model: Source, on_cpu: OnCpu, dump_passes: Path | None) -> HeterogeneousNetwork | None:
    """Compiles a whole model with `on_cpu`, as one region of the processor. Returns None if the processor refuses the
    model, too. If inputs must be known at compile time (`parameters_of`), the error is raised.
    """
    try:
        network = on_cpu(model, None if dump_passes is None else dump_passes / "00-cpu")
    except ModelError as error:
        if parameters_of(error):
            raise
        return None
    read = read_model(model)
    content = read.whole().SerializeToString(deterministic=True)
    nodes = [read_node(node, index) for index, node in enumerate(read.bare.graph.node)]
    region = CompiledRegion(
        name="region 0",
        side="cpu",
        nodes=tuple(node.name for node in nodes),
        node_types=tuple(node.op_type for node in nodes),
        operators=tuple(node.op_type for node in nodes),
        inputs=tuple(port.name for port in network.inputs),
        outputs=tuple(port.name for port in network.outputs),
        model=content,
        cpu_model=content,
        readers={},
        code=network,
    )
    return HeterogeneousNetwork(
        name=network.name,
        inputs=network.inputs,
        outputs=region.outputs,
        regions=(region,),
        types={port.name: port.dtype for port in (*network.inputs, *network.outputs)},
        constants={},
    )


def place(
    label: str,
    model: onnx.ModelProto,
    compile_region: Callable[[Region], object],
    config: Config | None,
    *,
    on_cpu: Collection[str] = (),
) -> Partition:
    """Partitions `model`, a result of `prepare_model`. The regions of the accelerator are those that `compile_region`
    compiles without an error.

    `label`: the model's name in messages. `config`: the accelerator's configuration, None without an accelerator. Nodes
    that the accelerator refuses (ModelError, DoesNotFitError) go to the CPU, and so do the nodes named in `on_cpu`.
    """
    moved, abilities = set(on_cpu), PLAIN if config is None else Abilities.of(config)
    while True:
        partition = partition_model(
            label, model, abilities=abilities, offload=config is not None, on_cpu=moved
        )
        refused: set[str] = set()
        for region in partition.regions:
            if region.side == "accelerator":
                refused |= _refused(region, compile_region)
        if not refused:
            return partition
        moved |= refused


def _refused(region: Region, compile_region: Callable[[Region], object]) -> set[str]:
    """The nodes at which compiling a region for the accelerator fails; empty if compilation succeeds."""
    try:
        compile_region(region)
    except NodeError as error:
        return _blamed(region, (error.node,))
    except DoesNotFitError as error:
        return _blamed(region, error.members)
    except ModelError:
        return set(region.nodes)
    return set()


def _blamed(region: Region, names: Collection[str]) -> set[str]:
    """The nodes of a region that may have caused a compile error which names the nodes `names`. These are the named
    nodes. If a named node was added by the partitioning, they are also the nodes that read its result. If the error
    names no node of the region, they are all nodes of the region.
    """
    behind = {reader for name in names for reader in region.readers.get(name, ())}
    return (behind | set(names)).intersection(region.nodes) or set(region.nodes)


def _with_code(region: Region, code: Compiled | CpuNetwork) -> CompiledRegion:
    return CompiledRegion(**{f.name: getattr(region, f.name) for f in fields(region)}, code=code)


def compile_divided(
    model: Source,
    config: Config | None,
    *,
    cpu: Form[CpuTarget, CpuNetwork] | None = None,
    cost_threads: int | None = None,
    clock_hertz: float | None = None,
    virtual_threads: int = VIRTUAL_THREADS,
    dump_passes: Path | None = None,
    records: RecordBook | None = None,
) -> Division:
    """Compile an ONNX model (a path, or its bytes) for the accelerator `config` and this machine together.

    The accelerator gets the nodes that it supports; with `config` None it gets none. A model that cannot be divided,
    but that the processor can run alone, becomes one region on the processor. With `cost_threads` the accelerator keeps
    a region only if it is faster there than on the CPU with that number of threads. The accelerator's time is
    simulated, and includes the conversions at the region's border. `clock_hertz`: the accelerator's clock, by default
    that of its configuration. `cpu`: the form of the processor's kernels, by default `cpu_now()`. `virtual_threads`:
    number of overlapping copies of each scratchpad buffer. `dump_passes`: a folder in which each region gets a folder
    for its dumps. `records`: the tuner's records, which set the knobs of recorded layers on both sides. Raises
    UserError.
    """
    from .cpu_stages import cpu_now
    from .frontends.onnx.float_importer import OLDEST_OPSET
    from .frontends.onnx.submodel import prepare_model
    from .records.apply import knobs_from

    form, offloaded = cpu_now() if cpu is None else cpu, {}

    def offload(region: Region, dumps: Path | None) -> Compiled:
        assert config is not None
        if region.model not in offloaded or dumps is not None:
            offloaded[region.model] = compile_program(
                region.model, config, virtual_threads=virtual_threads, dump_passes=dumps, records=records
            )
        return offloaded[region.model]

    def on_cpu(model: Source, dump_passes: Path | None = None, *, recorded: bool = True) -> CpuNetwork:
        knobs = None
        if records is not None and recorded:
            knobs = knobs_from(records, form.lowering.templates, form.lowering.target)
        return compile_kernels(model, form, dump_passes=dump_passes, knobs=knobs)

    try:
        label, proto = prepare_model(model, least_opset=OLDEST_OPSET)
        work = Work(
            label=label, proto=proto, config=config, offload=offload, on_cpu=on_cpu, clock_hertz=clock_hertz
        )
        partition, comparisons = work.divide(cost_threads)
        network, refusals = work.network(partition, dump_passes), partition.refusals
    except InvalidModelError:
        raise
    except ModelError as refusal:
        if (whole := undivided(model, on_cpu, dump_passes)) is None:
            raise
        label, network, comparisons = model_label(model), whole, ()
        refusals = dict.fromkeys(whole.regions[0].nodes, str(refusal))
    return Division(label=label, network=network, comparisons=comparisons, refusals=refusals)
