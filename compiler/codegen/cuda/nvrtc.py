"""NVRTC: compiles CUDA C++ to machine code or PTX on any machine, with the packages of the extra `cuda`.

NVRTC is called through cuda.bindings, because cuda.core can produce PTX only with a driver.
"""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

from .errors import CompileError, CudaTargetError, MissingCudaError
from .machine import architecture

OPTIONS = ("--std=c++17", "--fmad=false")
"""NVRTC's options besides the architecture. With --fmad=false, NVRTC fuses a multiplication and an addition only where
the generated code calls `fmaf`, as on other targets.
"""


def compile_cubin(source: str, arch: str) -> bytes:
    """The cubin of a source's kernels for an architecture ("sm_90").

    Raises MissingCudaError without the extra `cuda`; CudaTargetError for an architecture that this package or the
    installed NVRTC does not know; CompileError, with NVRTC's log, for a source that NVRTC rejects.
    """
    nvrtc = _load()
    with _Compilation(nvrtc, source) as compilation:
        compilation.run(architecture(arch).name)
        return compilation.result(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)


def compile_ptx(source: str, arch: str) -> str:
    """The PTX of a source's kernels for an architecture ("sm_90"), for reading; raises errors as `compile_cubin`."""
    nvrtc = _load()
    with _Compilation(nvrtc, source) as compilation:
        # PTX is made for a virtual architecture, machine code for a real one.
        compilation.run(architecture(arch).name.replace("sm_", "compute_"))
        return compilation.result(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).decode().rstrip("\0")


def nvrtc_version() -> str:
    """The version of the installed NVRTC, "13.5"; raises MissingCudaError if there is none."""
    status, major, minor = _load().nvrtcVersion()
    assert not int(status), status
    return f"{major}.{minor}"


class _Compilation:
    """The compilation of one source. It is a context manager, because NVRTC's program objects must be destroyed."""

    def __init__(self, nvrtc: Any, source: str) -> None:
        self._nvrtc = nvrtc
        self._program = self._checked(*nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], []))

    def __enter__(self) -> _Compilation:
        return self

    def __exit__(self, *_: object) -> None:
        self._nvrtc.nvrtcDestroyProgram(self._program)

    def run(self, arch: str) -> None:
        """Compiles for a real ("sm_90") or virtual ("compute_90") architecture. Raises CudaTargetError if NVRTC does
        not know the architecture, CompileError if it rejects the source.
        """
        nvrtc = self._nvrtc
        options = [option.encode() for option in (f"--gpu-architecture={arch}", *OPTIONS)]
        (status,) = nvrtc.nvrtcCompileProgram(self._program, len(options), options)
        if not int(status):
            return
        log = self.result(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode().strip("\0\n")
        if status == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise CudaTargetError(
                f"NVRTC {nvrtc_version()} does not compile for {arch}; pip install --upgrade nvidia-cuda-nvrtc"
            )
        raise CompileError(f"NVRTC {nvrtc_version()} cannot compile the generated code for {arch}:\n{log}")

    def result(self, size: Any, get: Any) -> bytes:
        """A result of the compilation, such as the cubin. `size`, `get`: NVRTC's functions that return the size and the
        bytes of this result.
        """
        data = b" " * self._checked(*size(self._program))
        self._checked(*get(self._program, data))
        return data

    def _checked(self, status: Any, *values: Any) -> Any:
        if int(status):
            raise CompileError(f"NVRTC: {status.name}")
        return values[0] if values else None


@lru_cache(maxsize=1)
def _load() -> Any:
    """The Python module of NVRTC, ready for use. Raises MissingCudaError, in one line, if the module or its library is
    not installed.
    """
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")

        # The library is not a Python module; it is loaded at the first call.
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] != "cuda":
            raise
        raise MissingCudaError(
            'CUDA code needs NVRTC, which is not installed: pip install "vdla[cuda]"'
        ) from None
    return nvrtc
