"""The instruction set: configuration, encodings, programs, reference semantics and the static checker.

The single source of truth: everything that the simulator, the compiler and the RTL know of the machine is derived
from here. isa/README.md says what the instructions mean.
"""

from vdla.util.errors import UserError

from .assembler import assemble, disassemble, instruction_text
from .check import Finding, require_clean
from .config import PRESETS, Config, Memory, load_config
from .errors import ConfigError, EncodingError, ProgramError
from .program import (
    Program,
    Segment,
    bare_program,
    instruction_address,
    load_program,
    read_hex,
    save_program,
)
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
