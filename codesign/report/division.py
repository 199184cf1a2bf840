"""The account of a network divided between accelerator and CPU: where its time goes, and Amdahl's limits."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..verdict import Compared, within

Target = Literal["vdla", "llvm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionAccount:
    """One region. Seconds of the accelerator are simulated at its clock; seconds of the CPU and of conversions at the
    border (int8 to float32 and back, numpy) are measured.

    `cpu_seconds` is the region's part of the CPU's seconds for the whole network, None if the CPU cannot run the
    network.
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
        """The region's entry in the JSON object; `share` is of `total` seconds."""
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
    """The costs that decided a region's target: simulated and boundary seconds against the CPU's, None if it cannot run
    it."""

    nodes: tuple[str, ...]
    accelerator_seconds: float
    boundary_seconds: float
    cpu_seconds: float | None
    target: Target
    remark: str

    def to_dict(self) -> dict[str, Any]:
        """The entry in the JSON object."""
        return {
            "nodes": list(self.nodes),
            "accelerator_seconds": self.accelerator_seconds,
            "boundary_seconds": self.boundary_seconds,
            "cpu_seconds": self.cpu_seconds,
            "target": self.target,
            "remark": self.remark,
        }


LSB, LARGEST = "LSB", "of the largest value"
"""Units of differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCheck:
    """Comparison of a region with the reference: it differs by `difference`, of which `tolerance` is allowed, in the
    `unit` LSB or LARGEST; `because` is the reason if more than usual is allowed. `mode` is "outputs", "layer by layer"
    or "equal to the interpreter"; `compared` are the arrays."""

    name: str
    mode: str
    difference: float
    tolerance: float
    unit: str
    compared: Compared
    because: str = ""

    @property
    def passed(self) -> bool:
        """Whether the region is within its tolerance; a check that compares nothing is not."""
        return self.compared.anything and within(self.difference, self.tolerance)

    def __str__(self) -> str:
        """A sentence such as "region0 differs by 3 LSB in 1 input and 1 output, 2 LSB are allowed"."""
        found, allowed = amount(self.difference, self.unit), amount(self.tolerance, self.unit)
        because = f" ({self.because})" if self.because else ""
        return f"{self.name} differs by {found} in {self.compared}, {allowed} allowed{because}"


def amount(value: float, unit: str) -> str:
    """A difference with its unit."""
    return f"{value:.0f} LSB" if unit == LSB else f"{value:.1e} {unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DivisionCheck:
    """How results compare with ONNX Runtime's, each None where there is nothing to compare.

    With every region fed ONNX Runtime's own tensors: the largest difference of an accelerator region in quantization
    steps (of a layer where activations are symmetric int8), and of a CPU region as max |a - b| / max |b|. End to end:
    that of the outputs, against ONNX Runtime without its optimization and, for uint8 activations, with it (they differ
    from each other), and whether the largest value of each image sits where either has it. Against the interpreter the
    accelerator's regions are equal, or the run fails. `failed` names the regions that differ by more than is allowed,
    and says by how much. `regions` are those that were compared, `outputs` how many outputs were, of whose difference
    `output_tolerance` is allowed, more than usual where `output_because` says why. What compares nothing has not
    passed.
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
        """Whether something was compared, and every region and the outputs are within their tolerance."""
        return not self.failed and bool(self.regions or self.outputs)

    def to_dict(self) -> dict[str, Any]:
        """The `check` of the JSON object."""
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
    """A run of a divided network. `partition` describes the choice of targets; `all_cpu_seconds` is the CPU's time for
    the whole network, compiled as one; None if it cannot run it, for the reason `all_cpu_remark`."""

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
    warnings: tuple[str, ...] = ()

    @property
    def accelerator_seconds(self) -> float:
        """Simulated seconds."""
        return sum((region.seconds for region in self.regions if region.target == "vdla"), 0.0)

    @property
    def boundary_seconds(self) -> float:
        """Measured seconds of conversions."""
        return sum((region.boundary_seconds for region in self.regions), 0.0)

    @property
    def cpu_seconds(self) -> float:
        """Measured seconds of the CPU's regions."""
        return sum((region.seconds for region in self.regions if region.target == "llvm"), 0.0)

    @property
    def total_seconds(self) -> float:
        """One after another, as the regions run."""
        return self.accelerator_seconds + self.boundary_seconds + self.cpu_seconds

    @property
    def limit(self) -> float | None:
        """Amdahl's limit of this division: how much faster it were with an infinitely fast accelerator."""
        return _quotient(self.total_seconds, self.boundary_seconds + self.cpu_seconds)

    @property
    def speedup(self) -> float | None:
        """The division against the CPU alone."""
        return None if self.all_cpu_seconds is None else _quotient(self.all_cpu_seconds, self.total_seconds)

    @property
    def offloaded_share(self) -> float | None:
        """The share of its time that the CPU alone spends in the regions that the accelerator has here."""
        total = self.all_cpu_seconds
        if total is None:
            return None
        own = sum(region.cpu_seconds or 0.0 for region in self.regions if region.target == "vdla")
        return own / total if total else 0.0

    @property
    def limit_over_cpu(self) -> float | None:
        """Amdahl's limit over the CPU alone: were the offloaded share of its time nothing, without conversions."""
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
    """a / b; None if b is 0: no limit."""
    return a / b if b > 0 else None
