"""The figures of benchmarks/dram_placement.py: the cost of rows and refreshes, and the committed results."""

from __future__ import annotations

import numpy as np
import pytest

from vdla.benchmarks.dram_networks import NETWORKS
from vdla.benchmarks.dram_placement import PARTS, REFRESH, ROW_CHANGE, least_cycles, machine, measure
from vdla.benchmarks.harness.results import read_results
from vdla.isa.assembler import assemble
from vdla.isa.dram_memory import controller_of
from vdla.sim import simulate


def stream(width: int, loads: int, *, refresh: bool) -> tuple[int, int]:
    """Simulates a program that loads `loads` blocks of weights of 64 KiB each, which lie one after the other in memory.
    `width`: bytes that the memory transfers in a cycle; `refresh`: whether the memory needs refreshes. Returns (cycles,
    words on the bus).
    """
    config = machine((), width, refresh=refresh, bank_bytes=1 << 21)
    text = "\n".join(
        f"LOAD.WGT dram_base={256 * number} y_size=1 x_size=256 x_stride=256" for number in range(loads)
    )
    words = assemble(text + " push_next\nFINISH pop_prev", config)
    result = simulate(config, words, np.zeros(loads << 16, np.uint8), data=False)
    assert result.dram is not None
    return result.cycles, result.dram.beats


@pytest.mark.parametrize("width", PARTS)
def test_rows_and_refreshes_cost_what_the_benchmark_says(width: int) -> None:
    config = machine((), width)
    few, many = (stream(width, loads, refresh=False) for loads in (2, 12))
    words = 10 * (1 << 16) // width
    rows = words >> controller_of(config).column_bits
    # The ten instructions are fetched as well, once the first load has begun.
    assert 0 <= many[0] - few[0] - words - ROW_CHANGE * rows <= 60
    few, many = (stream(width, loads, refresh=True) for loads in (2, 26))
    assert many[0] - few[0] == pytest.approx(least_cycles(config, many[1] - few[1]), rel=0.006)
    assert controller_of(config).t_rfc < REFRESH


def test_a_network_is_not_slower_with_placement() -> None:
    row = measure(("mlp", 8))
    assert row["cycles"] < row["mapped"] <= row["before"]
    assert row["least_cycles"] < row["cycles"] < 1.02 * row["least_cycles"]
    assert 0.85 < row["bus_share"] < row["bound_share"] < 0.91 and 0.85 < row["utilization"] < 1
    # Words that are read in part count as a part of a word in the bounds of layers.
    assert (
        0.99 * row["least_cycles"] < row["bound_cycles"] < row["cycles"] and row["fewer"] < row["bound_fewer"]
    )


def test_the_committed_results_have_every_network_on_every_chip() -> None:
    rows = read_results("dram_placement")["rows"]
    assert [(row["name"], row["bus_bytes"]) for row in rows] == [
        (name, w) for name in NETWORKS for w in PARTS
    ]
    for row in rows:
        assert row["fewer"] == round(1 - row["cycles"] / row["before"], 4) > 0
        assert 0.99 * row["least_cycles"] < row["bound_cycles"] < row["cycles"]
