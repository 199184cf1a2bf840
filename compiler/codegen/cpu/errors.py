"""Errors that occur between a scheduled program and a call of its kernel."""

from __future__ import annotations

from vdla.util.errors import CodeError, UserError


class LoweringError(CodeError):
    """A program uses something that this target cannot express; the message names the statement and suggests a
    way out.
    """


class TargetError(UserError):
    """The user named a CPU that does not exist, or whose code this machine cannot run."""


class UnknownNameError(TargetError):
    """A processor or feature that LLVM does not know; fields `kind` ("cpu" or "feature") and `name`."""

    def __init__(self, kind: str, name: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.name = name


class CodeGenerationError(UserError):
    """A kernel that LLVM rejects, or for which it generates no code within the timeout; the message names the
    kernel.
    """


class MachineMemoryError(UserError):
    """A network that needs more memory than this machine has."""


class KernelArgumentError(UserError):
    """An array passed to a kernel that does not fit its parameter; the message names the parameter and its
    requirement.
    """
