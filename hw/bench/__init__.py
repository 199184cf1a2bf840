"""Components for cocotb benches of the accelerator; hw/bench.md shows how to write a bench.

`run_bench` builds the RTL and runs the cocotb tests of a file on it. Tests use the other components.
"""

from importlib.util import find_spec

from vdla.util.errors import UserError

if find_spec("cocotb") is None:
    raise UserError("vdla.hw.bench needs cocotb: pip install 'vdla[bench]'")

from ..harness.toolchain import BuildError
from .clock import reset, start_clock
from .control import ControlRegisters
from .memory import MemoryModel, Stalls
from .monitor import AxiMonitor
from .program import LoadedProgram, load_program, memory_bytes
from .rules import AxiRules, RuleError
from .runner import BenchFailed, Simulator, build, run_bench
from .scoreboard import Expected, Scoreboard
from .trace import TraceMonitor
from .wrapper import BENCH_TOP

__all__ = [
    "BENCH_TOP",
    "AxiMonitor",
    "AxiRules",
    "BenchFailed",
    "BuildError",
    "ControlRegisters",
    "Expected",
    "LoadedProgram",
    "MemoryModel",
    "RuleError",
    "Scoreboard",
    "Simulator",
    "Stalls",
    "TraceMonitor",
    "build",
    "load_program",
    "memory_bytes",
    "reset",
    "run_bench",
    "start_clock",
]
