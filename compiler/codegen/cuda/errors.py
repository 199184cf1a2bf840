"""Errors that occur between a scheduled program and its cubin."""

from __future__ import annotations

from vdla.util.errors import CodeError, UserError


class LoweringError(CodeError):
    """Raised for a program that is not in kernel form (all work inside loops over GPU blocks) or exceeds a limit of
    GPUs. The message names the statement and suggests a change.
    """


class CudaTargetError(UserError):
    """Raised for a target name that does not exist; the message lists the existing names."""


class MissingCudaError(UserError):
    """Raised if the packages of the extra `cuda` are not installed; the message says how to install them."""


class CompileError(Exception):
    """Raised if NVRTC rejects generated code, a defect of code generation; the message contains NVRTC's log."""
