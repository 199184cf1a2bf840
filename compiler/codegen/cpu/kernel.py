"""Kernels as Python callables: every array is checked before the call, so that generated code cannot crash."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ...ir.expr import Buffer
from ...ir.stmt import Program
from .errors import KernelArgumentError, TargetError
from .machine import CpuTarget, host_target, runs_here
from .machine_code import CodeWorker, MachineCode, compile_module
from .memory import aligned_empty
from .module import Module, lower
from .pool import Pool

_Function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A compiled program. `outputs`: names of the parameters that it writes.

    `generated()` returns the machine code. If a background thread is still generating it, the function waits.
    """

    program: Program
    target: CpuTarget
    module: Module
    generated: Callable[[], MachineCode]
    outputs: frozenset[str]

    @property
    def code(self) -> MachineCode:
        """The kernel's machine code; waits for its generation if needed."""
        return self.generated()

    def __call__(self, **arrays: np.ndarray) -> None:
        """Runs the kernel on one array for each parameter, by name, and writes outputs in place.

        Raises KernelArgumentError if an array is missing, unknown or does not fit.
        """
        self.bind(arrays)()

    def bind(
        self, arrays: Mapping[str, np.ndarray], pool: Pool | None = None, room: WorkingRoom | None = None
    ) -> BoundKernel:
        """Checks the arrays once and binds them to the kernel, for repeated calls. Raises KernelArgumentError if an
        array does not fit.

        Parallel loops run on `pool` (None: on the calling thread only). `room`: working memory, which kernels that run
        one after the other may share (None: the kernel gets its own).
        """
        _check(self.program, self.outputs, arrays)
        room = working_room([self], pool) if room is None else room
        return BoundKernel(self, [arrays[p.name] for p in self.program.parameters], pool, room)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingRoom:
    """Working memory for running kernels. `workspace` holds the buffers of the kernel's main function, `scratch` the
    buffers of the workers of a thread pool.
    """

    workspace: np.ndarray
    scratch: np.ndarray


def working_room(kernels: Iterable[Kernel], pool: Pool | None) -> WorkingRoom:
    """Working memory that the kernels share. One kernel at a time may use it, on `pool` (None: on one thread)."""
    workers = 1 if pool is None else pool.threads
    modules = [kernel.module for kernel in kernels]
    workspace = max((m.workspace_bytes for m in modules), default=0)
    scratch = max((m.scratch_bytes for m in modules), default=0) * workers
    byte = np.dtype(np.uint8)
    return WorkingRoom(
        workspace=aligned_empty((max(1, workspace),), byte), scratch=aligned_empty((max(1, scratch),), byte)
    )


class BoundKernel:
    """A kernel bound to arrays, which it keeps alive; each call runs it once.

    Two threads need two bound kernels, each with its own working memory.
    """

    def __init__(
        self, kernel: Kernel, arrays: list[np.ndarray], pool: Pool | None, room: WorkingRoom
    ) -> None:
        self._arrays = arrays
        self._kernel = kernel
        self._pool = pool
        addresses = [a.ctypes.data for a in arrays]
        self._pointers = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        self._room = room
        self._function = _Function(kernel.code.address)
        self._arguments = (
            ctypes.addressof(self._pointers),
            room.workspace.ctypes.data,
            room.scratch.ctypes.data,
            *((None, None) if pool is None else (pool.launch, pool.address)),
        )

    def __call__(self) -> None:
        """Runs the kernel."""
        if self._pool is None:
            self.run_in_turn()
            return
        with self._pool.turn():
            self.run_in_turn()

    def point(self, parameter: int, address: int) -> None:
        """Binds the parameter with index `parameter` to another address.

        The caller must guarantee that the memory has the parameter's size, is aligned to its elements, stays alive
        while the kernel runs, and overlaps no written array.
        """
        self._pointers[parameter] = address

    def run_in_turn(self) -> None:
        """Runs the kernel. With a thread pool, the caller must be inside `Pool.turn`, which excludes other threads."""
        self._function(*self._arguments)


def build(
    program: Program,
    target: CpuTarget | None = None,
    worker: CodeWorker | None = None,
    *,
    blocks: bool = True,
) -> Kernel:
    """Compiles a scheduled program to a kernel for this machine. `target`: restricts the code to fewer processor
    features than this machine has (None: all features). `blocks`: long float sums are added up in blocks.

    With a `worker`, the worker generates the code while the caller continues. Raises TargetError for a target that this
    machine cannot run, and the errors of `lower`.
    """
    target = host_target() if target is None else target
    if not runs_here(target):
        raise TargetError(
            f"this machine may lack instructions of {target.cpu} ({target.triple}), so it cannot run this code; use "
            "the target llvm, or write an object file"
        )
    module = lower(program, target, blocks=blocks)
    if worker is None:
        code = compile_module(module, target)
        return kernel_of(program, target, module, code)
    generated = worker.submit(lambda: compile_module(module, target)).result
    return Kernel(program=program, target=target, module=module, generated=generated, outputs=module.outputs)


def kernel_of(program: Program, target: CpuTarget, module: Module, code: MachineCode) -> Kernel:
    """Wraps existing machine code, compiled from `module`, as the kernel of `program`."""
    return Kernel(
        program=program, target=target, module=module, generated=lambda: code, outputs=module.outputs
    )


def _check(program: Program, outputs: frozenset[str], arrays: Mapping[str, np.ndarray]) -> None:
    names = [p.name for p in program.parameters]
    if unknown := sorted(arrays.keys() - set(names)):
        raise KernelArgumentError(f"{program.name} has no parameter {unknown[0]}; it has {', '.join(names)}")
    for parameter in program.parameters:
        if parameter.name not in arrays:
            raise KernelArgumentError(f"{program.name}: no array was given for {parameter.name}")
        _check_array(program.name, parameter, arrays[parameter.name], parameter.name in outputs)
    for name in names:
        for other in names:
            if name in outputs and name != other and np.may_share_memory(arrays[name], arrays[other]):
                raise KernelArgumentError(
                    f"{program.name}: {name}, which the kernel writes, shares memory with {other}; pass a copy of one"
                )


def _check_array(program: str, parameter: Buffer, array: object, written: bool) -> None:
    def fail(reason: str) -> KernelArgumentError:
        return KernelArgumentError(f"{program}: {parameter.name} {reason}")

    if not isinstance(array, np.ndarray):
        raise fail(f"must be a numpy array, not {type(array).__name__}")
    if array.dtype != parameter.dtype.numpy:
        raise fail(f"must be {parameter.dtype}, not {array.dtype}; convert it with .astype")
    if array.shape != parameter.shape:
        raise fail(f"must have shape {parameter.shape}, not {array.shape}")
    if not array.flags.c_contiguous or not array.flags.aligned:
        raise fail("must be contiguous and aligned; pass numpy.ascontiguousarray(array)")
    if written and not array.flags.writeable:
        raise fail("is read-only, but the kernel writes it; pass a copy")
