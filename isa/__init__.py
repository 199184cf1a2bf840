"""The instruction set: configuration, encodings, programs, reference semantics and the static checker.

Simulator, compiler and RTL derive all properties of a machine (an accelerator with one configuration) from this
package. isa/README.md defines the instructions.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.util.errors import UserError

    from .assembler import assemble, disassemble, instruction_text
    from .check import Finding, require_clean
    from .config import PRESETS, Config, Memory, load_config
    from .errors import ConfigError, EncodingError, ProgramError
    from .program import Program, Segment, bare_program, instruction_address
    from .program_file import load_program, read_hex, save_program
    from .program_text import read_program
    from .reference import ReferenceResult, run_reference

__all__ = [
    "PRESETS",
    "Config",
    "ConfigError",
    "EncodingError",
    "Finding",
    "Memory",
    "Program",
    "ProgramError",
    "ReferenceResult",
    "Segment",
    "UserError",
    "assemble",
    "bare_program",
    "disassemble",
    "instruction_address",
    "instruction_text",
    "load_config",
    "load_program",
    "read_hex",
    "read_program",
    "require_clean",
    "run_reference",
    "save_program",
]

_HOMES = {
    "vdla.util.errors": ("UserError",),
    ".assembler": (
        "assemble",
        "disassemble",
        "instruction_text",
    ),
    ".check": (
        "Finding",
        "require_clean",
    ),
    ".config": (
        "PRESETS",
        "Config",
        "Memory",
        "load_config",
    ),
    ".errors": (
        "ConfigError",
        "EncodingError",
        "ProgramError",
    ),
    ".program": ("Program", "Segment", "bare_program", "instruction_address"),
    ".program_file": ("load_program", "read_hex", "save_program"),
    ".program_text": ("read_program",),
    ".reference": (
        "ReferenceResult",
        "run_reference",
    ),
}


def __getattr__(name: str) -> object:
    """Imports `name`, one of the names in _HOMES, when it is first used, so that a command that prints its help does
    not import numpy. Raises AttributeError for any other name.
    """
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(home, __name__), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
