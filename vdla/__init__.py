"""vdla: one configuration drives the RTL, a cycle-exact simulator and a compiler of a tensor accelerator.

    import vdla

    network = vdla.compile("model.onnx", target="vdla", config="vta")
    report = vdla.simulate(network)
    print(report)

Every name is imported when it is first used, so that `import vdla` itself takes milliseconds.
"""

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.codesign.api.advice import Advice, advise
    from vdla.codesign.api.compilation import build, compile, load
    from vdla.codesign.api.configurations import config
    from vdla.codesign.api.exploration import Comparison, Explored, compare, explore
    from vdla.codesign.api.extension import extend
    from vdla.codesign.api.hardware import verilog
    from vdla.codesign.api.intrinsics import accelerator, intrinsic
    from vdla.codesign.api.quantization import QuantizedNetwork, quantize
    from vdla.codesign.api.simulation import Report, simulate
    from vdla.codesign.api.torch_compile import last_report
    from vdla.codesign.api.tuning import Tuned, tune
    from vdla.compiler.frontends import nn
    from vdla.compiler.ir.expr import maximum, minimum, select
    from vdla.compiler.ir.printer import format_node
    from vdla.compiler.runtime.executable import Executable
    from vdla.compiler.schedule import LegalityError, Schedule
    from vdla.compiler.te.compute import (
        cast,
        compute,
        placeholder,
        program_of,
        reduce_axis,
        reduce_max,
        reduce_sum,
    )
    from vdla.compiler.te.interpret import interpret
    from vdla.compiler.te.post import post_value
    from vdla.isa.config import PRESETS, Config, Memory
    from vdla.isa.custom import AluInstruction, Cost
    from vdla.isa.program import Program
    from vdla.isa.program_file import load_program, save_program
    from vdla.sim.errors import DeadlockError
    from vdla.util.errors import UserError

__version__ = "0.1.0"

_HOMES = {
    "vdla.codesign.api.advice": ("Advice", "advise"),
    "vdla.codesign.api.compilation": ("build", "compile", "load"),
    "vdla.codesign.api.configurations": ("config",),
    "vdla.codesign.api.exploration": ("Comparison", "Explored", "compare", "explore"),
    "vdla.codesign.api.extension": ("extend",),
    "vdla.codesign.api.hardware": ("verilog",),
    "vdla.codesign.api.intrinsics": ("accelerator", "intrinsic"),
    "vdla.codesign.api.quantization": ("QuantizedNetwork", "quantize"),
    "vdla.codesign.api.simulation": ("Report", "simulate"),
    "vdla.codesign.api.torch_compile": ("last_report",),
    "vdla.codesign.api.tuning": ("Tuned", "tune"),
    "vdla.compiler.ir.expr": ("maximum", "minimum", "select"),
    "vdla.compiler.ir.printer": ("format_node",),
    "vdla.compiler.runtime.executable": ("Executable",),
    "vdla.compiler.schedule": ("LegalityError", "Schedule"),
    "vdla.compiler.te.compute": (
        "cast",
        "compute",
        "placeholder",
        "program_of",
        "reduce_axis",
        "reduce_max",
        "reduce_sum",
    ),
    "vdla.compiler.te.interpret": ("interpret",),
    "vdla.compiler.te.post": ("post_value",),
    "vdla.isa.config": ("PRESETS", "Config", "Memory"),
    "vdla.isa.custom": ("AluInstruction", "Cost"),
    "vdla.isa.program": ("Program",),
    "vdla.isa.program_file": ("load_program", "save_program"),
    "vdla.sim.errors": ("DeadlockError",),
    "vdla.util.errors": ("UserError",),
}
_PACKAGES = {"nn": "vdla.compiler.frontends.nn"}
"""Names that are packages."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "PRESETS",
    "Advice",
    "AluInstruction",
    "Comparison",
    "Config",
    "Cost",
    "DeadlockError",
    "Executable",
    "Explored",
    "LegalityError",
    "Memory",
    "Program",
    "QuantizedNetwork",
    "Report",
    "Schedule",
    "Tuned",
    "UserError",
    "accelerator",
    "advise",
    "build",
    "cast",
    "compare",
    "compile",
    "compute",
    "config",
    "explore",
    "extend",
    "format_node",
    "interpret",
    "intrinsic",
    "last_report",
    "load",
    "load_program",
    "maximum",
    "minimum",
    "nn",
    "placeholder",
    "post_value",
    "program_of",
    "quantize",
    "reduce_axis",
    "reduce_max",
    "reduce_sum",
    "save_program",
    "select",
    "simulate",
    "tune",
    "verilog",
]


def __getattr__(name: str) -> object:
    value: object
    if name in _HOME_OF:
        value = getattr(import_module(_HOME_OF[name]), name)
        if isinstance(value, FunctionType):
            value = import_module("vdla.util.arguments").checked(value, f"vdla.{name}")
    elif name in _PACKAGES:
        value = import_module(_PACKAGES[name])
    else:
        raise AttributeError(f"module 'vdla' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
