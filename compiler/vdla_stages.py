"""Stages of compilation that only the accelerator has (`pipeline.compile_program`): kernels, knobs and linking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

from vdla.isa.config import Config
from vdla.isa.program import Program

from . import VIRTUAL_THREADS
from .codegen.vdla.folds import WEIGHTS, FoldedWeights
from .codegen.vdla.link import Image, Linked, LoweredLayer, Tensors, link
from .codegen.vdla.link_alone import ACTIVATIONS, Alone, link_alone
from .templates.columns import Values
from .templates.vdla.legalize import Legalized
from .templates.vdla.lower import Dump, choose_points, lower_node, network_kernels, workloads_of
from .templates.vdla.schedule_cache import ScheduleCache
from .templates.vdla.template import Kernel
from .templates.vdla.workload import Workload

if TYPE_CHECKING:
    from .codegen.vdla.placement import ChainBuffer
    from .node_points import Points


@dataclass(frozen=True, kw_only=True, eq=False)
class AcceleratorNetwork:
    """A legalized network for the accelerator `config`: its kernels, and methods that schedule, lower and link them
    into a program.

    `virtual_threads`: number of copies of each scratchpad buffer, with which loads and computation overlap.
    `schedule_cache`: cache of scheduled and lowered kernels, also of other networks and machines.
    """

    config: Config
    legalized: Legalized
    virtual_threads: int = VIRTUAL_THREADS
    schedule_cache: ScheduleCache = field(default_factory=ScheduleCache)

    @cached_property
    def _kernels(self) -> tuple[Mapping[str, tuple[Kernel, ...]], Mapping[str, ChainBuffer]]:
        return network_kernels(self.config, self.legalized)

    @property
    def kernels(self) -> Mapping[str, tuple[Kernel, ...]]:
        """The kernels of each node, in order, by the node's name."""
        return self._kernels[0]

    @property
    def chained(self) -> Mapping[str, ChainBuffer]:
        """The locations of the tensors that are in the chain memory (on-chip memory between layers), by tensor name."""
        return self._kernels[1]

    @cached_property
    def workloads(self) -> Mapping[str, Workload]:
        """The workload of each node whose knobs may come from tuning records, by the node's name."""
        return workloads_of(self.kernels)

    @cached_property
    def key(self) -> str:
        """Key of the network in tuning records: 16 hexadecimal digits. Networks have equal keys if their nodes,
        workloads and connections are equal; constants make no difference. Knobs measured for a node inside one network
        are valid for the same node of another network with the same key.
        """
        nodes, workloads = self.legalized.graph.nodes, self.workloads
        text = repr([(n.name, n.kind, n.inputs, n.output, workloads.get(n.name)) for n in nodes])
        return blake2b(text.encode(), digest_size=8).hexdigest()

    @cached_property
    def _measured(self) -> Points:
        if not any(len(several) > 1 for several in self.kernels.values()):
            return {}
        from . import node_points

        return node_points.measured_points(self.config, self.kernels, self.virtual_threads, self._timed)

    def _timed(self, points: Points) -> Program:
        return self.linked([self.layer(name, points[name]) for name in self.kernels], data=False).program

    def points(
        self, settings: Mapping[str, Values], nodes: Iterable[str] | None = None
    ) -> dict[str, tuple[Values, ...]]:
        """The knobs of every kernel of `nodes` (None: all nodes), by node. If tuning records apply to a kernel and
        `settings` has knobs for its node, the kernel gets these knobs. All other kernels get the best knobs that are
        known without records. Raises UnfitNodeError for a node whose smallest tile exceeds a memory.
        """
        kernels = self.kernels if nodes is None else {node: self.kernels[node] for node in nodes}
        return choose_points(self.config, kernels, settings, self.virtual_threads, self._measured)

    def layer(
        self, node: str, points: Sequence[Values], *, check: bool = False, dump: Dump | None = None
    ) -> LoweredLayer:
        """Schedules and lowers the kernels of a node. `points`: the knobs of each kernel. `check`: verifies the program
        after every pass. `dump`: receives the program after every pass.
        """
        return self._lowered(node, self.kernels[node], points, check, dump)

    def _lowered(
        self,
        node: str,
        kernels: Sequence[Kernel],
        points: Sequence[Values],
        check: bool = False,
        dump: Dump | None = None,
    ) -> LoweredLayer:
        return lower_node(
            self.config,
            node,
            kernels,
            points,
            virtual_threads=self.virtual_threads,
            check=check,
            dump=dump,
            schedule_cache=self.schedule_cache,
        )

    def alone(self, node: str, values: Values | None) -> Alone:
        """The program that runs a single kernel of `node`: the kernel to which tuning records apply. All constants are
        zero. `values`: the kernel's knobs (None: the default).

        Raises UnfitNodeError and the errors of scheduling and emission.
        """
        kernel = next(kernel for kernel in self.kernels[node] if kernel.recorded)
        settings = {} if values is None else {node: values}
        points = choose_points(self.config, {node: (kernel,)}, settings, self.virtual_threads)[node]
        (lowered,) = self._lowered(node, (kernel,), points).kernels
        weights = FoldedWeights.of(self.config, kernel.constants.get(WEIGHTS))
        margins = kernel.workload.margins
        return link_alone(self.config, lowered.kernel, ACTIVATIONS, margins, weights=weights)

    def linked(self, layers: Sequence[LoweredLayer], *, data: bool, image: Image | None = None) -> Linked:
        """Links `layers` to one program. If `data` is False, constants are zeros. `image`: an empty memory image."""
        of = self.legalized
        tensors = Tensors(graph=of.graph, layouts=of.layouts, inside=of.places, chained=self.chained)
        cache = self.schedule_cache.drafts
        return link(self.config, tensors, layers, data=data, emission_cache=cache, image=image)
