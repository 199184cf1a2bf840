"""The account (breakdown) of a network's run on the accelerator: the cycles and bytes of every layer by cause, in
numbers that sum up exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from vdla.isa.config import CLOCK_IS

from ..verdict import NOTHING, Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerAccount:
    """Cycles and bytes of one layer (a group of fused nodes, whose names are `members`). Times are in cycles, traffic
    is in bytes; `macs` counts multiply-adds.

    `started`: cycle in which the layer's first instruction begins. The layer's own time lasts from `begin`, the end of
    the previous layer, to `end`, the cycle in which the layer's last output byte is acknowledged (for the last layer,
    the end of the run). This time is exactly the sum of `gemm_cycles` and of the values of `stalls` (cycles by cause;
    hw/README.md section 9 explains the causes).

    `row_hits`: share of the bus words read or written between `begin` and `end` that found their row open; None without
    a DRAM, and for a layer without bus words.

    `dram`: the layer's traffic by kind. `dram_bytes` is the total, and exactly the sum of `compulsory_bytes` and of the
    values of `excess`. Tensors between the nodes of the group never move to DRAM, so `compulsory_bytes` does not count
    them.

    `roofline_cycles`: lower bound on the cycles of the layer's convolution or matrix product, without its fused
    operators; 0 for a layer of other operators. `bound`: the limit that determines this number, "compute" or "memory".
    """

    name: str
    op: str
    members: tuple[str, ...]
    macs: int
    started: int
    begin: int
    end: int
    roofline_cycles: float
    bound: str
    gemm_cycles: int
    stalls: Mapping[str, int]
    dram: Mapping[str, int]
    compulsory_bytes: int
    excess: Mapping[str, int]
    row_hits: float | None = None

    @property
    def cycles(self) -> int:
        """Duration of the layer in cycles."""
        return self.end - self.begin

    @property
    def dram_bytes(self) -> int:
        """Number of bytes that the layer moves over the bus."""
        return sum(self.dram.values())

    @property
    def utilization(self) -> float:
        """Ratio of roofline cycles to cycles; 0 for a layer that takes no time of its own."""
        return self.roofline_cycles / self.cycles if self.cycles else 0.0

    @property
    def below_roofline(self) -> Literal["overlap", "fusion"] | None:
        """The reason why the layer takes fewer cycles than its roofline; None if it does not.

        "overlap": the layer began during the previous layer. If its cycles are counted from `started`, they are not
        below the roofline. "fusion": the cycles are below the roofline even if they are counted from `started`. The
        reason is a fused pool: the roofline counts the output of the convolution, but the pool stores fewer elements.
        """
        if self.cycles >= self.roofline_cycles:
            return None
        return "overlap" if self.end - self.started >= self.roofline_cycles else "fusion"

    def to_dict(self) -> dict[str, Any]:
        """The layer's entry in the JSON object of `vdla run`."""
        return {
            "name": self.name,
            "op": self.op,
            "members": list(self.members),
            "macs": self.macs,
            "cycles": self.cycles,
            "started": self.started,
            "begin": self.begin,
            "end": self.end,
            "roofline_cycles": round(self.roofline_cycles, 3),
            "below_roofline": self.below_roofline,
            "bound": self.bound,
            "utilization": round(self.utilization, 6),
            "gemm_cycles": self.gemm_cycles,
            "stalls": dict(self.stalls),
            "dram_bytes": self.dram_bytes,
            "dram": dict(self.dram),
            "compulsory_bytes": self.compulsory_bytes,
            "excess": dict(self.excess),
            **({} if self.row_hits is None else {"row_hits": round(self.row_hits, 6)}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalAccount:
    """The totals of one launch (run of the program). Times are in cycles unless named seconds, traffic is in bytes.

    `seconds_at_clock` follows from `clock_hertz`, whose source is `clock_is` (`technology.clock`). `energy_uj`, if
    requested, is the energy of the launch in microjoules, and `energy_is` its source.
    """

    macs: int
    cycles: int
    roofline_cycles: float
    instructions: int
    dram_read_bytes: int
    dram_write_bytes: int
    clock_hertz: float
    seconds_at_clock: float
    compile_seconds: float
    simulate_seconds: float
    clock_is: str = CLOCK_IS
    energy_uj: float | None = None
    energy_is: str = ""

    @property
    def utilization(self) -> float:
        """Ratio of the network's roofline cycles to its cycles."""
        return self.roofline_cycles / self.cycles

    def to_dict(self) -> dict[str, Any]:
        """The member `total` of the JSON object of `vdla run`."""
        return {
            "macs": self.macs,
            "cycles": self.cycles,
            "roofline_cycles": round(self.roofline_cycles, 3),
            "utilization": round(self.utilization, 6),
            "instructions": self.instructions,
            "dram_read_bytes": self.dram_read_bytes,
            "dram_write_bytes": self.dram_write_bytes,
            "seconds_at_clock": self.seconds_at_clock,
            "clock_hertz": self.clock_hertz,
            "clock_is": self.clock_is,
            "energy_uj": self.energy_uj,
            "energy_is": self.energy_is,
            "compile_seconds": round(self.compile_seconds, 6),
            "simulate_seconds": round(self.simulate_seconds, 6),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckAccount:
    """Comparison of the outputs for `images` inputs with the outputs of the reference `against`.

    `mode` is "end to end" if only the outputs are compared. It is "layer by layer" if every step (quantization of
    inputs, each layer, outputs) is computed from the reference's own integers and compared by itself. This is done for
    symmetric int8 models, and for other models whose outputs differ by more than the tolerance of "end to end".

    `compared` counts the compared tensors. `max_lsb` is their largest difference in quantization steps, and `tolerance`
    is the allowed difference. `tolerance_because` is the reason if more than usual is allowed, else empty.
    `end_to_end_max_lsb` is the largest difference of the outputs in either mode. `top1_equal`: whether the top-1
    classes agree.
    """

    against: str
    mode: Literal["end to end", "layer by layer"]
    images: int
    max_lsb: int
    top1_equal: bool
    tolerance: int
    end_to_end_max_lsb: int | None = None
    compared: Compared = NOTHING
    tolerance_because: str = ""

    @property
    def passed(self) -> bool:
        """Whether at least one tensor was compared with the reference and no difference exceeds the tolerance."""
        return self.compared.anything and self.max_lsb <= self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """The member `check` of the JSON object of `vdla run`."""
        return {
            "against": self.against,
            "mode": self.mode,
            "images": self.images,
            "max_lsb": self.max_lsb,
            "top1_equal": self.top1_equal,
            "tolerance": self.tolerance,
            "tolerance_because": self.tolerance_because,
            "end_to_end_max_lsb": self.end_to_end_max_lsb,
            "compared": asdict(self.compared),
            "passed": self.passed,
        }


def run_account(document: Mapping[str, Any]) -> RunAccount:
    """Reads the results in a JSON object of `RunAccount.to_dict`. The numbers are as rounded as in the object; the
    warnings are not read. Raises KeyError or TypeError for any other object.
    """
    check = document["check"]
    return RunAccount(
        model=document["model"],
        config=document["config"],
        total=TotalAccount(**_own(TotalAccount, document["total"])),
        layers=tuple(
            LayerAccount(**_own(LayerAccount, {**layer, "members": tuple(layer["members"])}))
            for layer in document["layers"]
        ),
        check=None
        if check is None
        else CheckAccount(**_own(CheckAccount, {**check, "compared": Compared(**check.get("compared", {}))})),
    )


def _own(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of `values` that are fields of the dataclass `kind`; derived values are left out."""
    return {item.name: values[item.name] for item in fields(kind) if item.name in values}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAccount:
    """Results of `vdla run`: totals, layers, and the check of the outputs (None if only the timing was simulated).

    `warnings` are those of the configuration (`Config.warnings`).
    """

    model: str
    config: str
    total: TotalAccount
    layers: tuple[LayerAccount, ...]
    check: CheckAccount | None
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The common members of the JSON object that `vdla run` prints and of the JSON object in report.json."""
        return {
            "model": self.model,
            "config": self.config,
            "warnings": list(self.warnings),
            "total": self.total.to_dict(),
            "layers": [layer.to_dict() for layer in self.layers],
            "check": None if self.check is None else self.check.to_dict(),
        }
