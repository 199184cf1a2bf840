"""Compiles code that many tests need, unless it is in the caches already.

`simulator`: the simulator's numba code, 90 s of a core. `rtl`: the Verilator libraries of the preset `tiny` for
co-simulation and for cocotb benches, 40 s. Otherwise two test processes that need the same code at once would each
compile it, or one would wait for the other.
"""

import sys

from vdla.isa.config import load_config


def simulator() -> None:
    """Compiles the numba code of the simulator, and of the statistics that count changing operand bits."""
    from vdla.codesign.network_run import load_simulator
    from vdla.sim.statistics import operand_statistics
    from vdla.verify.random_programs import random_program

    load_simulator()
    program = random_program(load_config("tiny"), 0)
    operand_statistics(program.config, program.instructions, program.image)


def rtl() -> None:
    """Builds the Verilator libraries of the preset `tiny` that co-simulation and the cocotb benches load."""
    from vdla.hw.bench.runner import build
    from vdla.hw.harness.engine import prepare_library

    tiny = load_config("tiny")
    prepare_library(tiny)
    build(tiny)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        {"simulator": simulator, "rtl": rtl}[name]()
