"""Times of a network that is partitioned between accelerator and CPU: by region, with Amdahl's limits. A region is a
part of the network on one target.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..verdict import Compared, within

Target = Literal["vdla", "llvm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionAccount:
    """Times of one region (part of the network on one device). Seconds of the accelerator are simulated cycles at its
    clock; seconds of the CPU and of conversions at the border (int8 to float32 and back, numpy) are measured.

    `cycles` is None for a region on the CPU. `cpu_seconds` is the region's part of the time that the CPU alone takes
    for the whole network; None if the CPU cannot run it.
    """

    name: str
    target: Target
    nodes: tuple[str, ...]
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    seconds: float
    boundary_seconds: float
    cycles: int | None
    cpu_seconds: float | None

    def to_dict(self, total: float) -> dict[str, Any]:
        """The region's entry in the JSON object of `vdla run --target vdla,llvm`; its `share` is the region's part of
        `total` seconds.
        """
        return {
            "name": self.name,
            "target": self.target,
            "operators": dict(Counter(self.operators)),
            "nodes": list(self.nodes),
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "cycles": self.cycles,
            "seconds": self.seconds,
            "boundary_seconds": self.boundary_seconds,
            "share": (self.seconds + self.boundary_seconds) / total if total else 0.0,
            "cpu_seconds": self.cpu_seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAccount:
    """The costs that decided whether a region (part of the network) runs on accelerator or CPU: simulated seconds on
    the accelerator and measured seconds of conversions at its border, against the CPU's seconds. If the CPU cannot run
    the region, `cpu_seconds` is None and `remark` is the reason.
    """

    nodes: tuple[str, ...]
    accelerator_seconds: float
    boundary_seconds: float
    cpu_seconds: float | None
    target: Target
    remark: str

    def to_dict(self) -> dict[str, Any]:
        """The region's entry in the list of costs in the JSON object of `vdla run --target vdla,llvm`."""
        return {
            "nodes": list(self.nodes),
            "accelerator_seconds": self.accelerator_seconds,
            "boundary_seconds": self.boundary_seconds,
            "cpu_seconds": self.cpu_seconds,
            "target": self.target,
            "remark": self.remark,
        }


LSB, LARGEST = "LSB", "of the largest value"
"""Units in which differences of outputs are stated: quantization steps, or max |a - b| / max |b|."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCheck:
    """Comparison of a region with the reference. `difference` is the largest difference, and `tolerance` the allowed
    one; `unit` is LSB or LARGEST and applies to both. `because` is the reason if more than usual is allowed.

    `mode` says what was compared: "outputs", "layer by layer" or "equal to the interpreter". `compared`: numbers of
    compared arrays by kind.
    """

    name: str
    mode: str
    difference: float
    tolerance: float
    unit: str
    compared: Compared
    because: str = ""

    @property
    def passed(self) -> bool:
        """Whether the region's difference from the reference is within its tolerance; False if nothing was compared."""
        return self.compared.anything and within(self.difference, self.tolerance)

    def __str__(self) -> str:
        """Text such as "region0 differs by 3 LSB in 1 input and 1 output, 2 LSB allowed"."""
        found, allowed = amount(self.difference, self.unit), amount(self.tolerance, self.unit)
        because = f" ({self.because})" if self.because else ""
        return f"{self.name} differs by {found} in {self.compared}, {allowed} allowed{because}"


def amount(value: float, unit: str) -> str:
    """A difference of outputs as text: "1 LSB" (quantization steps), or "1.0e-06 of the largest value"."""
    return f"{value:.0f} LSB" if unit == LSB else f"{value:.1e} {unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DivisionCheck:
    """Comparison of a partitioned network with ONNX Runtime; a field is None if there is nothing to compare. If nothing
    at all was compared, the check has not passed.

    `images` is the number of launches. Each region is computed from ONNX Runtime's own tensors as its inputs. `regions`
    are the compared regions. `failed` describes each difference, of a region or of the outputs, that is larger than
    allowed. `accelerator_lsb` is the largest difference of an accelerator region, in quantization steps. (If the region
    was compared layer by layer, it is the largest difference of a layer.) `cpu_relative` is the largest difference of a
    CPU region, as max |a - b| / max |b|.

    The outputs of the whole network are also compared; `outputs` is the number of compared outputs. Indices, counts and
    truth values are left out, since they are compared for their region alone. `output_relative` is the largest
    difference of the outputs from ONNX Runtime without its optimization; `output_relative_optimized`, only for uint8
    activations, is the largest difference from ONNX Runtime with its optimization. `output_tolerance` is the allowed
    difference, and `output_because` the reason if more than usual is allowed. `top1_equal`: for each image, the largest
    value has the same index as in one of the two runs of ONNX Runtime.

    The accelerator's regions are always compared with our interpreter, too; a difference ends the run.
    """

    against: str
    images: int
    accelerator_lsb: int | None = None
    cpu_relative: float | None = None
    output_relative: float | None = None
    output_relative_optimized: float | None = None
    top1_equal: bool | None = None
    failed: tuple[str, ...] = ()
    regions: tuple[RegionCheck, ...] = ()
    outputs: int = 0
    output_tolerance: float | None = None
    output_because: str = ""

    @property
    def passed(self) -> bool:
        """Whether at least one array was compared, and every region and the outputs are within their tolerance."""
        return not self.failed and bool(self.regions or self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """The entry `check` of the JSON object of `vdla run --target vdla,llvm`."""
        return {
            "against": self.against,
            "mode": "region by region",
            "images": self.images,
            "accelerator_max_lsb": self.accelerator_lsb,
            "cpu_max_relative": self.cpu_relative,
            "output_max_relative": self.output_relative,
            "output_max_relative_optimized": self.output_relative_optimized,
            "top1_equal": self.top1_equal,
            "outputs": self.outputs,
            "output_tolerance": self.output_tolerance,
            "output_tolerance_because": self.output_because,
            "regions": [asdict(region) for region in self.regions],
            "failed": list(self.failed),
            "passed": self.passed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DivisionAccount:
    """Times of one run of a partitioned network; measured times are medians of `repeat` runs on `threads` threads of
    the processor `cpu`. `partition` is the rule that assigned regions to targets ("support" or "cost").

    `all_cpu_seconds` is the time that the CPU takes for the whole network, compiled as one. If the CPU cannot run it,
    the time is None and `all_cpu_remark` is the reason. `refusals`: for each kind of operator that the accelerator does
    not support in some node, the reason that was given for the first such node.
    """

    model: str
    config: str
    clock_hertz: float
    clock_is: str
    cpu: str
    threads: int
    repeat: int
    partition: str
    regions: tuple[RegionAccount, ...]
    costs: tuple[CostAccount, ...]
    all_cpu_seconds: float | None
    all_cpu_remark: str
    check: DivisionCheck | None
    refusals: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def accelerator_seconds(self) -> float:
        """Simulated seconds of all regions on the accelerator (regions are parts of the network)."""
        return sum((region.seconds for region in self.regions if region.target == "vdla"), 0.0)

    @property
    def boundary_seconds(self) -> float:
        """Measured seconds of conversions between int8 and float32 where tensors pass from one device to the other."""
        return sum((region.boundary_seconds for region in self.regions), 0.0)

    @property
    def cpu_seconds(self) -> float:
        """Measured seconds of all regions on the CPU (regions are parts of the network)."""
        return sum((region.seconds for region in self.regions if region.target == "llvm"), 0.0)

    @property
    def total_seconds(self) -> float:
        """Seconds of the whole run: the sum of accelerator, CPU and conversions, since regions run one after
        another.
        """
        return self.accelerator_seconds + self.boundary_seconds + self.cpu_seconds

    @property
    def limit(self) -> float | None:
        """Amdahl's limit of this partition: the speedup over this run if the accelerator took no time; None if nothing
        else takes time, so that there is no limit.
        """
        return _quotient(self.total_seconds, self.boundary_seconds + self.cpu_seconds)

    @property
    def speedup(self) -> float | None:
        """Speedup of the partitioned network over the CPU alone; None if the CPU cannot run the whole network."""
        return None if self.all_cpu_seconds is None else _quotient(self.all_cpu_seconds, self.total_seconds)

    @property
    def offloaded_share(self) -> float | None:
        """The share of the network's time on the CPU alone that the CPU spends in the regions which this partition runs
        on the accelerator; None if this time is not known.
        """
        total = self.all_cpu_seconds
        if total is None:
            return None
        own = sum(region.cpu_seconds or 0.0 for region in self.regions if region.target == "vdla")
        return own / total if total else 0.0

    @property
    def limit_over_cpu(self) -> float | None:
        """Amdahl's limit over the CPU alone: the speedup if the offloaded share took no time and there were no
        conversions. None if the share is not known, or if it is 1, so that there is no limit.
        """
        return None if self.offloaded_share is None else _quotient(1.0, 1.0 - self.offloaded_share)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object of `vdla run --target vdla,llvm`."""
        return {
            "model": self.model,
            "config": self.config,
            "warnings": list(self.warnings),
            "clock_hertz": self.clock_hertz,
            "clock_is": self.clock_is,
            "cpu": self.cpu,
            "threads": self.threads,
            "repeat": self.repeat,
            "partition": self.partition,
            "regions": [region.to_dict(self.total_seconds) for region in self.regions],
            "costs": [cost.to_dict() for cost in self.costs],
            "refusals": dict(self.refusals),
            "total": {
                "seconds": self.total_seconds,
                "accelerator_seconds": self.accelerator_seconds,
                "boundary_seconds": self.boundary_seconds,
                "cpu_seconds": self.cpu_seconds,
            },
            "all_cpu": {
                "seconds": self.all_cpu_seconds,
                "remark": self.all_cpu_remark,
            },
            "amdahl": {
                "limit": self.limit,
                "speedup_over_cpu": self.speedup,
                "offloaded_share_of_cpu": self.offloaded_share,
                "limit_over_cpu": self.limit_over_cpu,
            },
            "check": None if self.check is None else self.check.to_dict(),
        }


def _quotient(a: float, b: float) -> float | None:
    """a / b; None (no limit) if b is 0."""
    return a / b if b > 0 else None
