"""Partitions a model between the accelerator and the CPU, into regions. Each region is a model of its own, and the
regions run one after another.

Tensors between regions are float32, unless the model itself passes integers. A region of the accelerator begins with
QuantizeLinear and ends with DequantizeLinear, so it is a quantized model like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import onnx

from ...graph.abilities import PLAIN, Abilities
from ...graph.phases import assign_phases
from .attributes import opset_of
from .model.load import OLDEST_OPSET
from .submodel import Submodel, SubmodelWriter, tensors_read
from .survey import Survey, survey_model

Side = Literal["accelerator", "cpu"]


class RegionOrderError(Exception):
    """Raised for regions that cannot run one after another, because the partition is wrong (a bug)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Region(Submodel):
    """Nodes that run together, as a submodel.

    Each region has its own copy of the constants that its nodes read, and of the QuantizeLinear nodes and views at its
    entry. `nodes`: names of the nodes that are in this region only; `node_types`: their operator types. `cpu_model`: a
    version of the region's model that the CPU can run.
    """

    name: str
    side: Side
    nodes: tuple[str, ...]
    node_types: tuple[str, ...]
    cpu_model: bytes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Partition:
    """The regions of a model, in an order in which they can run.

    `refusals`: the reasons for which the accelerator's importer rejected nodes, by node name. `constants`: outputs of
    the model that depend on no input.
    """

    regions: tuple[Region, ...]
    refusals: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    survey: Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """A unit that is placed on the accelerator or on the CPU: a node or, if `node` is None, an output of the model that
    is only a view of an input.
    """

    node: int | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    accelerated: bool


def partition_model(
    label: str,
    model: onnx.ModelProto,
    *,
    abilities: Abilities = PLAIN,
    offload: bool = True,
    on_cpu: Collection[str] = (),
) -> Partition:
    """Divides `model`, a result of `prepare_model`, between accelerator and CPU; `label` names it in messages.

    The accelerator gets the nodes that its importer supports with the capabilities `abilities`, if their results are
    quantized and `on_cpu` does not name them. It gets no nodes if `offload` is False or the opset is below
    `OLDEST_OPSET`. A node whose result stays float32 runs where its reader runs. Raises ModelError for a damaged
    initializer.
    """
    names = [node.name for node in model.graph.node]
    moved = set(on_cpu) if offload and opset_of(model) >= OLDEST_OPSET else set(names)
    while True:
        survey = survey_model(label, model, abilities=abilities, elsewhere=moved)
        stranded = _stranded(model, survey)
        if not stranded:
            break
        moved |= {names[index] for index in stranded}
    sources = _sources(model, survey)
    units = _units(model, survey, sources)
    writers = {
        name: index for index, unit in enumerate(units) for name in unit.writes if unit.node is not None
    }
    phases = assign_phases(
        [unit.accelerated for unit in units],
        [{writers[name] for name in unit.reads if name in writers} for unit in units],
    )
    regions = _regions(label, model, survey, units, phases)
    check_order(label, [info.name for info in model.graph.input], regions)
    return Partition(
        regions=regions,
        refusals={
            name: item.refusal
            for name, item in zip(names, survey.nodes, strict=True)
            if item.kind == "refused" and name not in moved
        },
        constants={
            info.name: survey.constants[info.name]
            for info in model.graph.output
            if info.name in survey.constants
        },
        survey=survey,
    )


def check_order(label: str, inputs: Iterable[str], regions: Sequence[Region]) -> None:
    """Raises RegionOrderError if a region reads a tensor that is neither in `inputs` nor an output of an earlier
    region.

    Such an error is a bug of the partitioner: regions depend on each other cyclically, or a tensor was lost.
    """
    made = set(inputs)
    for region in regions:
        for name in region.inputs:
            if name not in made:
                later = next((r.name for r in regions if name in r.outputs), "no region")
                raise RegionOrderError(
                    f"{label}: {region.name} reads tensor '{name}' before {later} computes it"
                )
        made.update(region.outputs)


def _stranded(model: onnx.ModelProto, survey: Survey) -> set[int]:
    """Indices of nodes that must run on the CPU because nodes on the CPU need their float32 results.

    A pending result is a float32 value that is rounded only together with its readers, so the CPU cannot read it from
    the accelerator. If the node of a pending result must run on the CPU, so must the pending nodes before it and the
    nodes that read it. The exception is QuantizeLinear, which reads float32 from either side.
    """
    nodes = model.graph.node
    makers = {name: index for index, node in enumerate(nodes) for name in node.output}
    readers: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        for name in tensors_read(node):
            readers.setdefault(name, []).append(index)
    outputs = {info.name for info in model.graph.output}

    def pending(index: int) -> bool:
        return survey.nodes[index].kind == "pending"

    def escapes(index: int) -> bool:
        name = nodes[index].output[0]
        kinds = {survey.nodes[reader].kind for reader in readers.get(name, [])} - {"constant"}
        return name in outputs or not kinds or "refused" in kinds

    waiting = [index for index in range(len(nodes)) if pending(index) and escapes(index)]
    stranded: set[int] = set()
    while waiting:
        index = waiting.pop()
        if index in stranded:
            continue
        stranded.add(index)
        waiting.extend(
            makers[name] for name in nodes[index].input if name in makers and pending(makers[name])
        )
        if pending(index):
            waiting.extend(
                reader
                for reader in readers.get(nodes[index].output[0], [])
                if survey.nodes[reader].kind != "refused" and nodes[reader].op_type != "QuantizeLinear"
            )
    return stranded


def _sources(model: onnx.ModelProto, survey: Survey) -> dict[str, tuple[str, ...]]:
    """For each result of an entry node, the tensor outside the region that the node reads, as a tuple of one name. An
    entry node only quantizes or reshapes a tensor as it enters a region; its other inputs are constants.
    """
    sources: dict[str, tuple[str, ...]] = {}
    for node, item in zip(model.graph.node, survey.nodes, strict=True):
        if item.kind == "entry":
            sources |= dict.fromkeys(node.output, _come_from(tensors_read(node), survey, sources))
    return sources


def _come_from(
    names: Iterable[str], survey: Survey, sources: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    found = [
        source for name in names if name not in survey.constants for source in sources.get(name, (name,))
    ]
    return tuple(dict.fromkeys(found))


def _units(model: onnx.ModelProto, survey: Survey, sources: Mapping[str, tuple[str, ...]]) -> list[_Unit]:
    units: list[_Unit] = []
    for index, (node, item) in enumerate(zip(model.graph.node, survey.nodes, strict=True)):
        if item.kind in ("refused", "result", "pending"):
            units.append(
                _Unit(
                    node=index,
                    reads=_come_from(tensors_read(node), survey, sources),
                    writes=tuple(name for name in node.output if name),
                    accelerated=item.kind != "refused",
                )
            )
    computed = {name for unit in units for name in unit.writes}
    given = {info.name for info in model.graph.input}
    for info in model.graph.output:
        # The remaining outputs are views of inputs, or dequantized constants.
        if info.name not in computed | given | survey.constants.keys():
            units.append(
                _Unit(node=None, reads=sources.get(info.name, ()), writes=(info.name,), accelerated=False)
            )
    return units


def _regions(
    label: str, model: onnx.ModelProto, survey: Survey, units: list[_Unit], phases: tuple[int, ...]
) -> tuple[Region, ...]:
    outputs = {info.name for info in model.graph.output} - survey.constants.keys()
    read_in: dict[str, set[int]] = {}
    members: dict[int, list[_Unit]] = {}
    for unit, phase in zip(units, phases, strict=True):
        members.setdefault(phase, []).append(unit)
        for name in unit.reads:
            read_in.setdefault(name, set()).add(phase)
    writer = SubmodelWriter(label, model, survey)
    regions: list[Region] = []
    for phase, together in sorted(members.items()):
        accelerated = together[0].accelerated
        own = [unit.node for unit in together if unit.node is not None]
        wanted = [
            name
            for unit in together
            for name in unit.writes
            if name in outputs or read_in.get(name, set()) - {phase}
        ]
        if not wanted:
            # Only the shapes of its results are used.
            continue
        on_cpu = writer.write(own, wanted, accelerated=False)
        submodel = writer.write(own, wanted, accelerated=True) if accelerated else on_cpu
        regions.append(
            Region(
                **{field.name: getattr(submodel, field.name) for field in fields(submodel)},
                name=f"region {len(regions)}",
                side="accelerator" if accelerated else "cpu",
                nodes=tuple(model.graph.node[index].name for index in own),
                node_types=tuple(model.graph.node[index].op_type for index in own),
                cpu_model=on_cpu.model,
            )
        )
    return tuple(regions)
