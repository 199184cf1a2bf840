"""Compiles the Python functions of a machine's custom ALU instructions and calls the compiled code by address."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, types
from numba.core.errors import NumbaError
from numba.extending import intrinsic
from numpy.typing import NDArray

from vdla.isa.alu import ALU_CODES, custom_codes
from vdla.isa.config import Config
from vdla.isa.custom import AluInstruction
from vdla.isa.errors import ConfigError


@intrinsic
def call_at(typing_context: Any, address: Any, left: Any, right: Any) -> Any:
    """The result (int64) of the function at `address` (int64), called with the int64 values `left` and `right`. An
    intrinsic of numba, which passes `typing_context` itself.

    The simulator calls custom instructions by address, so that its own code is compiled once for all machines.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word, word])
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), list(arguments[1:]))

    return types.int64(types.int64, types.int64, types.int64), generate


@functools.cache
def _machine_code(simulate: Callable[[int, int], int]) -> Any:
    """The machine code of `simulate`; cached until the process ends, because the simulator stores its address."""
    return cfunc(types.int64(types.int64, types.int64), error_model="numpy")(simulate)


def function_of(instruction: AluInstruction) -> Any:
    """Compiles an instruction's function `simulate`. The result is numba's C function of two int64 numbers that returns
    an int64, with the attributes `address` and `ctypes`. Raises ConfigError if numba cannot compile `simulate`.
    """
    try:
        return _machine_code(instruction.simulate)
    except NumbaError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ConfigError(
            f"instruction {instruction.name}: numba cannot compile its `simulate`: {' '.join(lines[:3])}; use "
            "arithmetic on integers"
        ) from None


def call_of(instruction: AluInstruction) -> Callable[[int, int], int]:
    """Compiles an instruction's function `simulate` and returns the compiled code as a function that Python can call.
    Raises ConfigError if numba cannot compile it.
    """
    return function_of(instruction).ctypes


def custom_addresses(config: Config) -> NDArray[np.int64]:
    """Addresses of the compiled functions of a machine's custom instructions, int64 (ALU_CODES,), indexed by ALU
    opcode; 0 for opcodes without a custom instruction. Raises ConfigError if numba cannot compile a function.
    """
    found = np.zeros(ALU_CODES, np.int64)
    for opcode, item in custom_codes(config).items():
        found[opcode] = function_of(item).address
    return found
