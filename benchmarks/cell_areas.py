"""Areas by module and longest paths of machines drawn at random, from synthesis for standard cells.

    python benchmarks/cell_areas.py [--count N] [--liberty FILE|NAME] [--write]

Each machine is one line of benchmarks/results/cell_areas_NAME.jsonl: its fields, for every Verilog module how many
instances there are and the area of one, and its longest path. The first line says what wrote the file and for which
library. Draws are numbered: with `--write`, those that the file has already are not measured again. Modules that were
mapped before come from the cache of synthesis.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from vdla.benchmarks.harness.results import RESULTS, ROOT, provenance
from vdla.hw.synthesis.cells.area import area_by_module
from vdla.hw.synthesis.cells.design import map_design
from vdla.hw.synthesis.cells.liberty import Liberty
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.hw.synthesis.cells.sram import scale_of
from vdla.hw.synthesis.cells.timing import longest_paths
from vdla.isa.config import Config, ConfigError, Memory
from vdla.isa.extensions import DEFAULT_EXTENSIONS
from vdla.util.whole_files import write_whole

KIB = 1024
MOST_PRODUCTS, MOST_LANES, MOST_BANKED_LANES = 1024, 32, 64
"""Machines whose synthesis takes minutes are not drawn: `batch * block_in * block_out`, lanes, lanes times banks."""
LEAVABLE = ("post", "patch", "depthwise")
"""Extensions that one machine in eight does without."""


def draw(number: int) -> Config:
    """Machine `number`: every field that the RTL depends on, over the space that an exploration would search."""
    for attempt in range(1000):
        rng = np.random.default_rng((number, attempt, 21))

        def pick(*choices: int, rng: np.random.Generator = rng) -> int:
            return int(rng.choice(choices))

        batch, block_in, block_out = pick(1, 1, 1, 2, 4), pick(4, 8, 16, 32, 64), pick(4, 8, 16, 32, 64)
        lanes, banks = batch * block_out, pick(1, 2, 4, 8)
        if block_in * lanes > MOST_PRODUCTS or lanes > MOST_LANES or lanes * banks > MOST_BANKED_LANES:
            continue
        without = [name for name in LEAVABLE if rng.random() < 0.125]
        if block_in != block_out:
            without.append("depthwise")
        try:
            return Config(
                name=f"draw {number}",
                batch=batch,
                block_in=block_in,
                block_out=block_out,
                uop_buffer_bytes=KIB * pick(4, 8, 16, 32),
                inp_buffer_bytes=KIB * pick(4, 8, 16, 32, 64, 128),
                wgt_buffer_bytes=KIB * pick(16, 32, 64, 128, 256, 512),
                acc_buffer_bytes=KIB * pick(16, 32, 64, 128, 256),
                acc_banks=banks,
                par_buffer_bytes=max(64 * block_out, KIB * pick(1, 2, 4)),
                command_queue_depth=pick(8, 16, 32, 64),
                token_queue_depth=pick(16, 64),
                fetch_buffer_depth=pick(8, 16, 32, 64),
                post_lanes=max(1, lanes >> pick(0, 0, 1, 2, 3)),
                multiplier_stages=pick(1, 1, 2, 3),
                extensions=tuple(name for name in DEFAULT_EXTENSIONS if name not in without),
                memory=Memory(
                    bus_bytes=pick(8, 16, 32, 64),
                    outstanding_reads=pick(4, 8, 16),
                    outstanding_writes=pick(2, 4, 8),
                ),
            )
        except ConfigError:
            continue
    raise SystemExit(f"draw {number} has no legal machine")


def measure(number: int, library: Liberty, report: Any) -> dict[str, Any]:
    """One line of the file. Areas are square micrometres."""
    config = draw(number)
    design = map_design(config, library, report=report)
    path = longest_paths(design, report=report)[0]
    modules = {
        name: [count, round(own.logic, 2), own.cells, own.flip_flops, round(own.memory, 1), own.memory_bits]
        for name, (count, own) in area_by_module(design).items()
    }
    return {
        "draw": number,
        "config": {**config.to_dict(), **{f"{fifo}_fifo_bytes": config.fifo_bytes(fifo) for fifo in FIFOS}},
        "modules": modules,
        "longest": asdict(path),
    }


FIFOS = ("load", "compute", "operand", "store")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--liberty", default=None)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    library = find_library(arguments.liberty)
    path = RESULTS / f"cell_areas_{library.name}.jsonl"
    head = {
        "written": provenance(("pyosys",)),
        "library": library.name,
        "liberty_sha256": library.digest,
        "node_nm": round(scale_of(library).node_nm),
        "voltage": library.voltage,
        "temperature": library.temperature,
        "module_columns": ["instances", "logic_um2", "cells", "flip_flops", "memory_um2", "memory_bits"],
    }
    rows = _known(path, head) if arguments.write else {}
    for number in range(arguments.count):
        if number in rows:
            continue
        rows[number] = measure(number, library, lambda text: None)
        total = sum(row[0] * (row[1] + row[4]) for row in rows[number]["modules"].values()) / 1e6
        print(f"draw {number}: {total:.3f} mm2, {rows[number]['longest']['ns']:.3f} ns", flush=True)
        if arguments.write:
            lines = [json.dumps(item) for item in (head, *(rows[n] for n in sorted(rows)))]
            write_whole(path, ("\n".join(lines) + "\n").encode())
    if arguments.write:
        print(path.relative_to(ROOT))


def _known(path: Path, head: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The rows of a file for the same library, by their number."""
    if not path.exists():
        return {}
    first, *rest = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    if first["liberty_sha256"] != head["liberty_sha256"]:
        return {}
    return {row["draw"]: row for row in rest}


if __name__ == "__main__":
    main()
