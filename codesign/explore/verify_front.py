"""Verifies a front: writes Verilog and program of its designs, and co-simulates the program on the RTL of each.

front/17.toml            the configuration
front/17/                vdla.v, vdla.h, vdla.json, vdla.vlt (as `vdla rtl` writes them), NETWORK.npz (the program,
                         as `vdla run --program-out` writes it), cosim.json (what the co-simulation found)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

from vdla.hw.harness.engine import RtlError
from vdla.isa.program_file import save_program
from vdla.util.files import write_whole
from vdla.util.user_files import make_directory

from ..evaluate import sample_arrays
from ..rtl_files import rtl_files
from ..rtl_run import library_for, run_on_rtl
from .report.data import Verified
from .report.verified import read_verified, write_verified
from .schedules.apply import compile_with
from .study import Design, Study

Progress = Callable[[int, str], object]


def verify_designs(
    study: Study, designs: Sequence[Design], folder: Path, told: Progress = lambda number, step: None
) -> dict[int, Verified]:
    """Co-simulates designs on one seeded input of each network; returns the results by number of the design. Files and
    results are written below `folder`, the folder of the exploration. A co-simulation made before (same machine,
    network, compiler and Verilog) is not repeated. `told` is called with the number of a design and the name of a step.

    KeyboardInterrupt ends the work and returns the results so far. Raises WriteError, and BuildError without the tools.
    """
    found: dict[int, Verified] = {}
    try:
        for design in designs:
            place = folder / "front" / str(design.number)
            make_directory(place)
            found[design.number] = _verify(study, design, place, told)
    except KeyboardInterrupt:
        pass
    return found


def _verify(study: Study, design: Design, place: Path, told: Progress) -> Verified:
    machine = design.machine
    assert machine is not None
    told(design.number, "Verilog")
    contents, _ = rtl_files(machine)
    for name, text in contents.items():
        write_whole(place / name, text.encode())
    digest = blake2b(contents["vdla.v"].encode(), digest_size=16).hexdigest()
    known = read_verified(place, study, design)
    if known is not None and known[1] == digest:
        return known[0]
    began, cycles, differences = time.monotonic(), 0, list[str]()
    for network in study.networks:
        compiled = compile_with(machine, network, design.figures.networks[network.name].schedules)
        save_program(compiled.program, place / f"{network.name}.npz")
        told(design.number, "building its RTL (minutes, once)")
        optimize = library_for(compiled)
        told(design.number, f"{network.name} on its RTL")
        try:
            run = run_on_rtl(compiled, sample_arrays(compiled.graph, 1), optimize=optimize)
        except RtlError as error:
            differences.append(f"{network.name}: {error}")
            continue
        cycles += run.simulated.simulation.cycles
        differences += [f"{network.name}: {line}" for line in run.differences]
    verified = Verified(
        networks=tuple(network.name for network in study.networks),
        cycles=cycles,
        mismatches=len(differences),
        seconds=time.monotonic() - began,
        first=differences[0] if differences else "",
    )
    write_verified(place, study, design, verified, digest)
    return verified
