"""Options of one run of a network that is partitioned between accelerator and processor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vdla.compiler.codegen.cpu.machine import CpuTarget
from vdla.isa.config import Config

from .network_options import NetworkOptions
from .technology.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class DividedRun:
    """Options of one run of a network that is partitioned between accelerator and processor.

    `clock` is the accelerator's clock; `target` is the text for the processor in `--target`. Each time is the median of
    `repeat` runs on `threads` threads. With `by_cost` the accelerator runs only those supported regions that are faster
    there, otherwise all supported regions.
    """

    model: Path
    machine: Config
    clock: Clock
    target: str
    processor: CpuTarget
    by_cost: bool
    threads: int
    repeat: int
    network: NetworkOptions
