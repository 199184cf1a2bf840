"""Errors of compiling a scheduled program to a kernel, and of calling the kernel."""

from __future__ import annotations

from vdla.util.errors import CodeError, UserError


class LoweringError(CodeError):
    """Raised for a program that uses something that this target cannot express; the message names the statement and
    suggests a way out.
    """


class TargetError(UserError):
    """Raised if the user names a CPU that does not exist, or a CPU without the instructions that a kernel needs. Also
    raised if this machine cannot run, load or link code, or does not support thread pools.
    """


class UnknownNameError(TargetError):
    """Raised for a processor or feature that LLVM does not know; fields `kind` ("cpu" or "feature") and `name`."""

    def __init__(self, kind: str, name: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.name = name


class CodeGenerationError(UserError):
    """Raised for a kernel that LLVM rejects, or for which it generates no code within the timeout; the message names
    the kernel.
    """


class MachineMemoryError(UserError):
    """Raised for a network that needs more memory than this machine has."""


class KernelArgumentError(UserError):
    """Raised for an array that does not fit the kernel's parameter; the message names the parameter and its
    requirement.
    """
