"""Properties of the hardware of a configuration: derived sizes, storage, and each extension's lanes, multipliers and
ports.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from vdla.compiler.graph.traffic import most_bytes_per_cycle
from vdla.isa.config import Config
from vdla.isa.data_path import blocks
from vdla.isa.fifos import FIFOS
from vdla.isa.timing import gemm_latency, post_latency, read_burst_beats, write_burst_beats

from ..technology.clock import clock_of
from ..technology.components import Components, default_components


def warning_lines(warnings: Sequence[str]) -> list[str]:
    """The warnings of a configuration (`Config.warnings`) as at most one line of text."""
    return [f"warning: {'; '.join(warnings)}"] if warnings else []


def hardware(config: Config, components: Components | None = None) -> dict[str, Any]:
    """All properties derived from `config`, as JSON values; sizes in bytes, times in cycles. Rates are at the clock
    that follows from `components`, by default the shipped models.
    """
    clock = clock_of(config, components or default_components())
    return {
        "fields": config.to_dict(),
        "digest": config.digest,
        "derived": {
            "multiplies_per_cycle": config.multiplies_per_cycle,
            "clock_mhz": clock.megahertz,
            "clock_is": clock.source,
            "extensions_are": "chosen for the shape" if config.chose_extensions else "named",
            "peak_gops": round(2 * config.multiplies_per_cycle * clock.hertz / 1e9, 6),
            "bus_gigabytes_per_second": round(most_bytes_per_cycle(config) * clock.hertz / 1e9, 6),
            "inp_bytes": config.inp_bytes,
            "wgt_bytes": config.wgt_bytes,
            "acc_bytes": config.acc_bytes,
            "out_bytes": config.out_bytes,
            "par_bytes": config.par_bytes,
            "uop_depth": config.uop_depth,
            "inp_depth": config.inp_depth,
            "wgt_depth": config.wgt_depth,
            "acc_depth": config.acc_depth,
            "acc_bank_depth": config.acc_bank_depth,
            "par_depth": config.par_depth,
            "uop_index_bits": config.uop_index_bits,
            "inp_index_bits": config.inp_index_bits,
            "wgt_index_bits": config.wgt_index_bits,
            "acc_index_bits": config.acc_index_bits,
            **(
                {"chain_depth": config.chain_depth, "chain_base": config.chain_base}
                if config.chain_buffer_bytes
                else {}
            ),
            "gemm_latency": gemm_latency(config),
            "post_latency": post_latency(config),
            "post_passes": config.post_passes,
            **{f"{fifo}_fifo_bytes": config.fifo_bytes(fifo) for fifo in FIFOS},
            "load_burst_beats": read_burst_beats(config, config.fifo_bytes("load")),
            "write_burst_beats": write_burst_beats(config),
        },
        "scratchpads": {
            "uop": config.uop_buffer_bytes,
            "inp": config.inp_buffer_bytes,
            "wgt": config.wgt_buffer_bytes,
            "acc": config.acc_buffer_bytes,
        },
        "extra_storage": dict(config.extra_storage),
        "extra_storage_total": sum(config.extra_storage.values()),
        "warnings": list(config.warnings),
        "blocks": [asdict(block) for block in blocks(config)],
    }
