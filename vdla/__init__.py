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
    from vdla.codesign.api.advice import Advice as Advice
    from vdla.codesign.api.advice import advise as advise
    from vdla.codesign.api.compilation import build as build
    from vdla.codesign.api.compilation import compile as compile
    from vdla.codesign.api.compilation import load as load
    from vdla.codesign.api.configurations import config as config
    from vdla.codesign.api.exploration import Comparison as Comparison
    from vdla.codesign.api.exploration import Explored as Explored
    from vdla.codesign.api.exploration import compare as compare
    from vdla.codesign.api.exploration import explore as explore
    from vdla.codesign.api.extension import extend as extend
    from vdla.codesign.api.hardware import verilog as verilog
    from vdla.codesign.api.intrinsics import accelerator as accelerator
    from vdla.codesign.api.intrinsics import intrinsic as intrinsic
    from vdla.codesign.api.quantization import QuantizedNetwork as QuantizedNetwork
    from vdla.codesign.api.quantization import quantize as quantize
    from vdla.codesign.api.simulation import Report as Report
    from vdla.codesign.api.simulation import simulate as simulate
    from vdla.codesign.api.torch_compile import last_report as last_report
    from vdla.codesign.api.tuning import Tuned as Tuned
    from vdla.codesign.api.tuning import tune as tune
    from vdla.compiler.frontends import nn as nn
    from vdla.compiler.ir.expr import maximum as maximum
    from vdla.compiler.ir.expr import minimum as minimum
    from vdla.compiler.ir.expr import select as select
    from vdla.compiler.ir.printer import format_node as format_node
    from vdla.compiler.runtime.executable import Executable as Executable
    from vdla.compiler.schedule import LegalityError as LegalityError
    from vdla.compiler.schedule import Schedule as Schedule
    from vdla.compiler.te.compute import cast as cast
    from vdla.compiler.te.compute import compute as compute
    from vdla.compiler.te.compute import placeholder as placeholder
    from vdla.compiler.te.compute import program_of as program_of
    from vdla.compiler.te.compute import reduce_axis as reduce_axis
    from vdla.compiler.te.compute import reduce_max as reduce_max
    from vdla.compiler.te.compute import reduce_sum as reduce_sum
    from vdla.compiler.te.interpret import interpret as interpret
    from vdla.compiler.te.post import post_value as post_value
    from vdla.isa.config import PRESETS as PRESETS
    from vdla.isa.config import Config as Config
    from vdla.isa.config import Memory as Memory
    from vdla.isa.custom import AluInstruction as AluInstruction
    from vdla.isa.custom import Cost as Cost
    from vdla.isa.program import Program as Program
    from vdla.isa.program_file import load_program as load_program
    from vdla.isa.program_file import save_program as save_program
    from vdla.sim.errors import DeadlockError as DeadlockError
    from vdla.util.errors import UserError as UserError

__version__ = "0.1.0"

_HOMES = {
    "vdla.codesign.api.advice": "Advice advise",
    "vdla.codesign.api.compilation": "build compile load",
    "vdla.codesign.api.configurations": "config",
    "vdla.codesign.api.exploration": "Comparison Explored compare explore",
    "vdla.codesign.api.extension": "extend",
    "vdla.codesign.api.hardware": "verilog",
    "vdla.codesign.api.intrinsics": "accelerator intrinsic",
    "vdla.codesign.api.quantization": "QuantizedNetwork quantize",
    "vdla.codesign.api.simulation": "Report simulate",
    "vdla.codesign.api.torch_compile": "last_report",
    "vdla.codesign.api.tuning": "Tuned tune",
    "vdla.compiler.ir.expr": "maximum minimum select",
    "vdla.compiler.ir.printer": "format_node",
    "vdla.compiler.runtime.executable": "Executable",
    "vdla.compiler.schedule": "LegalityError Schedule",
    "vdla.compiler.te.compute": "cast compute placeholder program_of reduce_axis reduce_max reduce_sum",
    "vdla.compiler.te.interpret": "interpret",
    "vdla.compiler.te.post": "post_value",
    "vdla.isa.config": "PRESETS Config Memory",
    "vdla.isa.custom": "AluInstruction Cost",
    "vdla.isa.program": "Program",
    "vdla.isa.program_file": "load_program save_program",
    "vdla.sim.errors": "DeadlockError",
    "vdla.util.errors": "UserError",
}
"""The public names of each module, separated by blanks."""
_PACKAGES = {"nn": "vdla.compiler.frontends.nn"}
"""Public names that are packages, with the packages' full names."""
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted((*_HOME_OF, *_PACKAGES))  # pyright: ignore[reportUnsupportedDunderAll]


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
