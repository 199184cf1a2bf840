"""Evaluates one set of decisions on the quantization of layers: error of the outputs on samples not used in
calibration, latency and energy.

The error is measured on the quantized model, computed in float32. Cycles are exact: every region of the accelerator is
compiled and simulated. The time of float layers is predicted for a stated processor, or measured on this computer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf, prod
from typing import Any

import numpy as np
import onnx

from vdla.compiler.cpu_stages import SharedKernels, cpu_now
from vdla.compiler.divided import compile_divided, place
from vdla.compiler.frontends.onnx.float_importer import OLDEST_OPSET
from vdla.compiler.frontends.onnx.partition import Partition, Region
from vdla.compiler.frontends.onnx.submodel import prepare_model
from vdla.compiler.ir.types import DType
from vdla.compiler.pipeline import compile_kernels, compile_program
from vdla.compiler.quantize.decisions import Calibrated, Decisions
from vdla.compiler.quantize.error import Error
from vdla.compiler.quantize.observe import Arrays, Prepare, Run
from vdla.compiler.quantize.simulate import simulated
from vdla.compiler.runtime.artifact import Compiled
from vdla.compiler.runtime.heterogeneous_network import CompiledRegion, time_region
from vdla.isa.config import Config
from vdla.sim import SimulationError, simulate
from vdla.util.errors import CodeError, UserError

from ..technology.clock import clock_of
from ..technology.components import Components
from ..technology.energy import energy_by_unit
from ..technology.events import count_events
from .processor import Processor, border_seconds, node_seconds

REPEAT = 5
"""Number of runs of which a measured time is the median."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The error, latency and energy of a set of decisions. If there are no figures, `failed` is the reason.

    Error: `sqnr` is the SQNR of the worst output, in dB. `top1` is the share of rows whose largest value has the same
    index as in the float network, for the worst output; it is None if no output is a vector.

    Latency: `accelerator_seconds` are the seconds that `cycles` take at the accelerator's clock, `processor_seconds`
    those of the parts on the processor. `border_seconds` are the seconds of conversions between int8 and float32, where
    tensors enter or leave the accelerator. `regions` is the number of parts of the network on the accelerator.
    """

    sqnr: float = 0.0
    top1: float | None = None
    cycles: int = 0
    regions: int = 0
    accelerator_seconds: float = 0.0
    border_seconds: float = 0.0
    processor_seconds: float = 0.0
    accelerator_microjoules: float = 0.0
    processor_microjoules: float = 0.0
    failed: str | None = None

    @property
    def milliseconds(self) -> float:
        """Latency in milliseconds: the sum of accelerator, conversions and processor, which run one after the other."""
        return 1e3 * (self.accelerator_seconds + self.border_seconds + self.processor_seconds)

    @property
    def microjoules(self) -> float:
        """Energy of accelerator and processor together, in microjoules."""
        return self.accelerator_microjoules + self.processor_microjoules

    @property
    def noise(self) -> float:
        """Power of the quantization noise at the worst output, relative to the power of the output."""
        return 10.0 ** (-self.sqnr / 10.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The hardware that runs a network: the accelerator `config`, built from the `components` of a technology, and the
    `processor` beside it, which computes float layers.
    """

    config: Config
    components: Components
    processor: Processor


@dataclass(frozen=True, slots=True, kw_only=True)
class _RegionFigures:
    cycles: int
    seconds: float
    border_seconds: float
    microjoules: float


@dataclass(kw_only=True, eq=False)
class Evaluator:
    """Evaluates decisions about one network on a `target`. `calibrated` writes the network with given decisions;
    `held_out` are samples that calibration has not used; `real` runs the float network; `prepare` makes float models
    ready to run; `kernels` are compiled kernels that all evaluated networks share.

    Equal regions are compiled and simulated once.
    """

    calibrated: Calibrated
    held_out: Sequence[Arrays]
    real: Run
    prepare: Prepare
    target: Target
    kernels: SharedKernels
    _expected: list[dict[str, np.ndarray]] = field(default_factory=list[dict[str, np.ndarray]])
    _regions: dict[bytes, _RegionFigures | Exception] = field(
        default_factory=dict[bytes, "_RegionFigures | Exception"]
    )

    def __post_init__(self) -> None:
        model = self.calibrated.model
        names = [name for name in model.outputs if model.is_float(name)]
        for feeds in self.held_out:
            values = self.real(feeds)
            self._expected.append({name: values[name] for name in names})
        for name in names:
            arrays = [values[name] for values in self._expected]
            if not all(np.isfinite(array).all() for array in arrays):
                raise UserError(
                    f"{model.source}: output '{name}' is not finite on some held-out samples; remove those samples"
                )
            if not any(array.any() for array in arrays):
                raise UserError(
                    f"{model.source}: output '{name}' is 0 on all held-out samples and has no SQNR; give other samples"
                )

    def evaluate(self, decisions: Decisions) -> Figures:
        """Error, latency and energy of the network with these `decisions`; if they give no valid network, `failed` is
        the reason.
        """
        try:
            proto = self.calibrated.write(decisions).proto
            sqnr, top1 = self._error(proto)
            return self._cost(proto, sqnr, top1)
        except UserError as error:
            if isinstance(error, CodeError) and not isinstance(error, SimulationError):
                raise
            return Figures(failed=str(error))

    def exact_sqnr(self, proto: onnx.ModelProto) -> float:
        """The SQNR in dB of a quantized file's worst output on the held-out samples; the accelerator's regions are
        simulated with integers.
        """
        division = compile_divided(
            proto.SerializeToString(), self.target.config, cpu=cpu_now(kernels=self.kernels)
        )
        with division.network as network:
            return _least([network.run(feeds).outputs for feeds in self.held_out], self._expected)[0]

    def _error(self, proto: onnx.ModelProto) -> tuple[float, float | None]:
        names = list(self._expected[0])
        run = self.prepare(simulated(proto, names))
        return _least([run(feeds) for feeds in self.held_out], self._expected)

    def _cost(self, proto: onnx.ModelProto, sqnr: float, top1: float | None) -> Figures:
        label, model = prepare_model(proto.SerializeToString(), least_opset=OLDEST_OPSET)
        partition = place(label, model, self._region, self.target.config)
        regions = [self._region(region) for region in partition.regions if region.side == "accelerator"]
        on_processor = sum(
            (
                self._processor_seconds(region, partition, model)
                for region in partition.regions
                if region.side == "cpu"
            ),
            0.0,
        )
        border = sum((region.border_seconds for region in regions), 0.0)
        return Figures(
            sqnr=sqnr,
            top1=top1,
            cycles=sum(region.cycles for region in regions),
            regions=len(regions),
            accelerator_seconds=sum((region.seconds for region in regions), 0.0),
            border_seconds=border,
            processor_seconds=on_processor,
            accelerator_microjoules=sum((region.microjoules for region in regions), 0.0),
            processor_microjoules=self.target.processor.microjoules(border + on_processor),
        )

    def _region(self, region: Region) -> _RegionFigures:
        """Cycles and energy of a region (part of the network) on the accelerator. Raises the errors of compilation."""
        key = blake2b(region.model, digest_size=16).digest()
        if key not in self._regions:
            try:
                self._regions[key] = self._simulated(region)
            except UserError as error:
                self._regions[key] = error
        found = self._regions[key]
        if isinstance(found, Exception):
            raise found
        return found

    def _simulated(self, region: Region) -> _RegionFigures:
        compiled = compile_program(region.model, self.target.config, data=False)
        program = compiled.program
        simulation = simulate(self.target.config, program.instructions, program.image, data=False)
        energy = energy_by_unit(self.target.config, count_events(program, simulation), self.target.components)
        return _RegionFigures(
            cycles=simulation.cycles,
            seconds=clock_of(self.target.config, self.target.components).seconds(simulation.cycles),
            border_seconds=self._border_seconds(region, compiled, simulation.cycles),
            microjoules=sum(energy.values()),
        )

    def _border_seconds(self, region: Region, compiled: Compiled, cycles: int) -> float:
        graph = compiled.graph
        if self.target.processor.measured:
            ports = {item.name: np.zeros(item.shape, item.dtype.value) for item in graph.inputs}
            return time_region(_with(region, compiled), ports, cycles=cycles, repeat=REPEAT).boundary_seconds
        floats = [item for item in (*graph.inputs, *graph.outputs) if item.dtype == DType.FLOAT32]
        return sum((border_seconds(self.target.processor, prod(item.shape)) for item in floats), 0.0)

    def _processor_seconds(self, region: Region, partition: Partition, model: onnx.ModelProto) -> float:
        if self.target.processor.measured:
            key = blake2b(region.model, digest_size=16).digest()
            if key not in self._regions:
                self._regions[key] = self._measured(region, partition)
            found = self._regions[key]
            assert not isinstance(found, Exception)
            return found.seconds
        survey = partition.survey

        def shape(name: str) -> tuple[int, ...]:
            if name in survey.constants:
                return survey.constants[name].shape
            if name not in survey.types:
                raise UserError(
                    f"the shape of tensor '{name}' is not known; run ONNX's shape inference first"
                )
            return survey.types[name].shape

        own = set(region.nodes)
        nodes = [node for node in model.graph.node if node.name in own]
        return sum((node_seconds(self.target.processor, node, shape) for node in nodes), 0.0)

    def _measured(self, region: Region, partition: Partition) -> _RegionFigures:
        types = {name: partition.survey.types[name] for name in region.inputs}
        generator = np.random.default_rng(0)
        feeds = {n: generator.standard_normal(t.shape).astype(t.dtype) for n, t in types.items()}
        with compile_kernels(region.model, cpu_now(kernels=self.kernels)) as network:
            code = CompiledRegion(**_fields(region), code=network)
            seconds = time_region(code, feeds, cycles=None, repeat=REPEAT).seconds
        return _RegionFigures(cycles=0, seconds=seconds, border_seconds=0.0, microjoules=0.0)


def _with(region: Region, compiled: Compiled) -> CompiledRegion:
    return CompiledRegion(**_fields(region), code=compiled)


def _fields(region: Region) -> dict[str, Any]:
    return {name: getattr(region, name) for name in Region.__dataclass_fields__}


def _least(got: Sequence[Arrays], expected: Sequence[Arrays]) -> tuple[float, float | None]:
    """SQNR of the worst output in dB (inf if all outputs are equal), and the top-1 agreement of the worst output: the
    share of rows whose largest value has the same index in `got` and `expected` (None if no output is a vector).
    """
    errors = {name: Error() for name in expected[0]}
    for values, real in zip(got, expected, strict=True):
        for name, error in errors.items():
            error.add(real[name], values[name])
    agreements = [error.top1 for error in errors.values() if error.top1 is not None]
    found = [inf if error.sqnr is None else error.sqnr for error in errors.values()]
    return min(found), min(agreements) if agreements else None


def to_json(figures: Figures) -> dict[str, Any]:
    """The figures of a set of decisions (error, cycles, times, energy) as JSON values."""
    if figures.failed is not None:
        return {"failed": figures.failed}
    return {
        "sqnr_db": None if figures.sqnr == inf else figures.sqnr,
        "top1_agreement": figures.top1,
        "cycles": figures.cycles,
        "regions": figures.regions,
        "accelerator_seconds": figures.accelerator_seconds,
        "border_seconds": figures.border_seconds,
        "processor_seconds": figures.processor_seconds,
        "accelerator_uj": figures.accelerator_microjoules,
        "processor_uj": figures.processor_microjoules,
    }


def from_json(value: Mapping[str, Any]) -> Figures:
    """The figures in a JSON value made by `to_json`. Raises KeyError, TypeError or ValueError for any other value."""
    if "failed" in value:
        return Figures(failed=str(value["failed"]))
    return Figures(
        sqnr=inf if value["sqnr_db"] is None else float(value["sqnr_db"]),
        top1=None if value["top1_agreement"] is None else float(value["top1_agreement"]),
        cycles=int(value["cycles"]),
        regions=int(value["regions"]),
        accelerator_seconds=float(value["accelerator_seconds"]),
        border_seconds=float(value["border_seconds"]),
        processor_seconds=float(value["processor_seconds"]),
        accelerator_microjoules=float(value["accelerator_uj"]),
        processor_microjoules=float(value["processor_uj"]),
    )
