"""Compilation by LLVM: parses, verifies and optimises IR text, and makes machine code in this process. Background
threads can do the work.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from .architectures import initialise
from .errors import TargetError
from .machine import CpuTarget
from .module import Module


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """A compiled module: the address of its function, and the LLVM objects that hold the machine code in memory and can
    print its assembly.
    """

    address: int
    library: llvm.ResourceTracker
    optimised: llvm.ModuleRef
    machine: llvm.TargetMachine

    def assembly(self) -> str:
        """The assembly text of the optimised module."""
        return self.machine.emit_assembly(self.optimised)


def target_machine(target: CpuTarget, *, jit: bool) -> llvm.TargetMachine:
    """LLVM's code generator for a target; `jit`: for code of this process. Raises RuntimeError for unknown triples."""
    initialise()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=3,
        # A WebAssembly module is linked whole; position-independent code is for dynamic linking only.
        reloc="static" if target.triple.startswith("wasm") else "pic",
        codemodel="jitdefault" if jit else "default",
        jit=jit,
        abiname=target.abi,
    )


def assembly_of(module: Module, target: CpuTarget) -> str:
    """The assembly text that LLVM generates for a module on a target."""
    machine = target_machine(target, jit=False)
    return machine.emit_assembly(optimise([module], machine, context=llvm.create_context()))


def optimise(
    modules: Sequence[Module],
    machine: llvm.TargetMachine,
    exported: Collection[str] | None = None,
    context: llvm.ContextRef | None = None,
) -> llvm.ModuleRef:
    """The modules linked into one, with stack slots moved to registers and branches simplified.

    LLVM's own pipelines take ten times as long, and their code runs no faster: schedules determine the loops, and the
    emitter repeats no computation. Functions that are not `exported` (None: all are) become internal. The result
    belongs to the LLVM context `context` (None: the context that all threads share).
    """
    parsed = _parse(modules[0], machine, context)
    for module in modules[1:]:
        parsed.link_in(_parse(module, machine, context))
    if exported is not None:
        for module in modules:
            if module.function and module.function not in exported:
                parsed.get_function(module.function).linkage = "internal"
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_dead_code_elimination_pass()
    passes.run(parsed, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options()))
    return parsed


def _parse(module: Module, machine: llvm.TargetMachine, context: llvm.ContextRef | None) -> llvm.ModuleRef:
    parsed = llvm.parse_assembly(module.text, context)
    # Sizes of pointers and alignments; without them, passes would assume those of a 64-bit machine.
    parsed.data_layout = str(machine.target_data)
    parsed.verify()
    return parsed


def object_of(modules: Sequence[Module], machine: llvm.TargetMachine, exported: Collection[str]) -> bytes:
    """The modules compiled to one relocatable object. `exported`: names of the functions that are visible outside.
    Several threads may generate code at once.

    Raises RuntimeError if LLVM rejects the modules.
    """
    optimised = optimise(modules, machine, exported, llvm.create_context())
    with ffi.OutputString() as reason:
        buffer = _emit_unlocked()(machine, optimised, 1, reason)
        if not buffer:
            raise RuntimeError(str(reason))
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.cache
def _emit_unlocked() -> Any:
    """The C function behind `TargetMachine.emit_object`, without the lock that llvmlite holds over every LLVM call.

    LLVM allows concurrent code generation if each thread has its own context and machine, as its linker does. The path
    of llvmlite's library is not part of llvmlite's interface. If the library is not found, one thread at a time
    generates code.
    """
    locked = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    if not isinstance(path := getattr(ffi.lib, "_name", None), str):
        return locked
    # The library is loaded already; another handle has separate function objects, without the lock.
    emit = ctypes.CDLL(path).LLVMPY_TargetMachineEmitToMemory
    emit.argtypes, emit.restype = locked.argtypes, locked.restype
    return emit


def compile_module(module: Module, target: CpuTarget, others: Sequence[str] = ()) -> MachineCode:
    """The machine code of a module, loaded into this process. The result's `library` maps `module.function`, and each
    further function named in `others`, to its address.
    """
    machine = target_machine(target, jit=True)
    optimised = optimise([module], machine)
    library = _loaded([machine.emit_object(optimised)], target, [module.function, *others])
    return MachineCode(
        address=library[module.function], library=library, optimised=optimised, machine=machine
    )


def load_objects(
    objects: Sequence[bytes], target: CpuTarget, functions: Sequence[str]
) -> dict[str, MachineCode]:
    """Loads `functions` into this process from objects that were compiled for `target`. Returns the code of each
    function, by the function's name. The assembly of this code is not available.

    Raises TargetError for an object that LLVM cannot read, and for a function that is in none of the objects.
    """
    machine = target_machine(target, jit=True)
    empty = llvm.parse_assembly(f'target triple = "{target.triple}"')
    try:
        library = _loaded(objects, target, functions)
    except RuntimeError as error:
        raise TargetError(f"the object cannot be loaded: {error}") from None
    return {
        function: MachineCode(address=library[function], library=library, optimised=empty, machine=machine)
        for function in functions
    }


def _loaded(objects: Sequence[bytes], target: CpuTarget, functions: Sequence[str]) -> llvm.ResourceTracker:
    """Links the objects together and loads them into this process. The result has the addresses of `functions`, and
    keeps the code in memory. Raises RuntimeError if LLVM cannot read or link an object.

    LLVM's JITLink places all sections of an object together. The older linker (MCJIT's) takes a new block of addresses
    for each section. In a process with gigabytes of libraries (PyTorch) these blocks may be more than 2 GiB apart; a
    32-bit relocation between two blocks then ends the process.
    """
    compiler = llvm.create_lljit_compiler(
        target_machine(target, jit=True), use_jit_link=True, suppress_errors=True
    )
    library = llvm.JITLibraryBuilder().add_current_process()
    for data in objects:
        library.add_object_img(data)
    for function in functions:
        library.export_symbol(function)
    return library.link(compiler, "kernels")


OBJECT_SECONDS = 600.0
"""Timeout in seconds for the code generation of one object: a thousand times as long as the largest objects take."""
_T = TypeVar("_T")


class CodeWorker:
    """A queue of work, and the threads (initially one) that execute the work in order of submission.

    The threads are daemons, because a call into LLVM cannot be interrupted: a command must be able to exit while such a
    call still runs.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], object]] | None] = SimpleQueue()
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self.widen(1)

    def widen(self, threads: int) -> None:
        """Starts threads until there are at least `threads`."""
        while len(self._threads) < threads:
            thread = threading.Thread(target=self._run, name="vdla code generation", daemon=True)
            self._threads.append(thread)
            thread.start()

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        """Queues `work`; returns the future of its result."""
        future: Future[_T] = Future()
        self._queue.put((future, work))
        return future

    def end(self, *, wait: bool = True) -> None:
        """Cancels queued work and ends the threads; with `wait`, returns after running work has ended or timed out."""
        self._ended.set()
        for _ in self._threads:
            self._queue.put(None)
        if wait:
            for thread in self._threads:
                thread.join(OBJECT_SECONDS)

    def _run(self) -> None:
        while (piece := self._queue.get()) is not None:
            future, work = piece
            if self._ended.is_set():
                future.cancel()
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # The error is raised when the result is requested.
                future.set_exception(error)
