"""Errors of the way from a scheduled program to a cubin."""

from __future__ import annotations

from vdla.util.errors import CodeError, UserError


class LoweringError(CodeError):
    """A program is not in kernel form, or beyond a limit of GPUs; the message names the statement and the way out."""


class CudaTargetError(UserError):
    """A target that was asked for by name does not exist; the message says which there are."""


class MissingCudaError(UserError):
    """The packages of the extra `cuda` are not installed; the message says how to install them."""


class CompileError(Exception):
    """NVRTC refused generated code, which is a defect of code generation; the message holds its log."""
