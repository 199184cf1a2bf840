"""Compiles kernels ahead of time into a static library for any processor, with a C header. The module `one_object`
compiles them to a single object file instead.

A background thread generates the code of the lowered kernels while the main thread lowers the next kernels. Lowering
runs in Python and code generation in LLVM, so the two run on two cores at the same time. With more cores, or when all
kernels are lowered, more threads generate code.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType

from .c_header import header_text, is_c_name
from .errors import CodeGenerationError, TargetError
from .machine import CpuTarget
from .machine_code import OBJECT_SECONDS, CodeWorker, object_of, target_machine
from .module import Module
from .object_files import WASM_BY_LINKER, read_symbols, static_library
from .wide_integers import FUNCTIONS, wide_integers


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCode:
    """A relocatable object (ELF or WebAssembly), or a static library of such objects, with its C header, `name`.h.

    `modules`: the modules whose functions are exported.
    """

    name: str
    target: CpuTarget
    modules: tuple[Module, ...]
    data: bytes
    header: str


def checked_functions(modules: Sequence[Module], name: str) -> list[str]:
    """Checks and returns the names of the modules' functions. `name`: the object or library that will contain them.

    Raises ValueError if `modules` is empty, if C does not allow `name` or the name of a function, and if two functions
    have equal names or names that differ in capitals only.
    """
    functions = [module.function for module in modules]
    if not functions:
        raise ValueError("an object needs at least one module")
    for bad in [n for n in (name, *functions) if not is_c_name(n)]:
        raise ValueError(f"{bad!r} is not a valid name of a C function or header")
    if twice := [n for n, count in Counter(f.upper() for f in functions).items() if count > 1]:
        raise ValueError(f"two kernels are called {twice[0].lower()} (names are compared without case)")
    return functions


def object_bytes(
    modules: Sequence[Module], target: CpuTarget, *, name: str, exported: Collection[str]
) -> bytes:
    """Compiles the modules to one relocatable object file; only the functions in `exported` are visible outside. Raises
    TargetError, which names `name`, if the processor lacks instructions that a kernel needs.
    """
    machine = target_machine(target, jit=False)
    data = object_of(modules, machine, exported)
    needed = read_symbols(data).undefined - WASM_BY_LINKER
    if needed and needed <= FUNCTIONS:
        data = object_of([*modules, wide_integers(needed)], machine, exported)
        needed = read_symbols(data).undefined - WASM_BY_LINKER
    if needed:
        raise TargetError(
            f"{target.cpu} ({target.triple}) lacks instructions that {name} needs; without them its code calls "
            f"{', '.join(sorted(needed))}; add features with -mattr, or name another processor"
        )
    return data


BATCH_CHARACTERS = 200_000
"""Number of characters of LLVM IR at which a batch of modules is compiled to an object: about 50 ms of code generation.
Smaller batches pay the fixed cost of an object more often; larger batches lengthen the wait for the last object.
"""
MOST_THREADS = 4
"""Largest number of threads that generate code. The thread that lowers modules makes work for about two of them. When
that thread has finished, only the last few objects remain to be generated.
"""


class LibraryInProgress:
    """A static library to which modules are added; use it in a `with` statement, which ends its threads.

    The split of modules into objects depends on their texts alone, so equal modules give equal bytes on every machine.
    """

    def __init__(self, target: CpuTarget, *, name: str) -> None:
        self._target = target
        self._name = name
        self._worker = CodeWorker()
        self._cores = min(MOST_THREADS, os.cpu_count() or 1)
        self._worker.widen(self._cores - 1)
        self._modules: list[Module] = []
        self._waiting: list[tuple[Module, str]] = []
        self._objects: list[tuple[Future[bytes], list[str]]] = []

    def __enter__(self) -> LibraryInProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._worker.end(wait=not isinstance(error, CodeGenerationError))

    def add(self, module: Module, node: str | None = None) -> None:
        """Adds a module whose function name is unique in the library. `node`: name of the graph node in error messages
        (None: the function's name).

        Raises TargetError or CodeGenerationError (see `finish`) if code generation of an earlier module has failed.
        """
        self._modules.append(module)
        self._waiting.append((module, node or module.function))
        for made, _ in self._objects:
            if made.done():
                made.result()
        if sum(len(waiting.text) for waiting, _ in self._waiting) >= BATCH_CHARACTERS:
            self._begin()

    def finish(self) -> ObjectCode:
        """The library, after all code is generated.

        Raises ValueError for names that C does not allow or that occur twice, and if there are no modules. Raises
        TargetError if the processor lacks instructions that a kernel needs, and CodeGenerationError if LLVM rejects a
        kernel or exceeds the timeout; both errors name the kernel.
        """
        checked_functions(self._modules, self._name)
        if self._waiting:
            self._begin()
        # The core used for lowering is free now.
        self._worker.widen(self._cores)
        objects: list[tuple[bytes, list[str]]] = []
        for made, functions in self._objects:
            try:
                objects.append((made.result(timeout=OBJECT_SECONDS), functions))
            except TimeoutError:
                raise CodeGenerationError(
                    f"LLVM did not compile {', '.join(functions)} of {self._name} within {OBJECT_SECONDS:g} s; "
                    f"compile without fusion, or for another processor (--target)"
                ) from None
        return ObjectCode(
            name=self._name,
            target=self._target,
            modules=tuple(self._modules),
            data=static_library(objects),
            header=header_text(self._name, self._modules, self._target),
        )

    def _begin(self) -> None:
        batch, self._waiting = self._waiting, []
        made = self._worker.submit(lambda: _object(batch, self._target))
        self._objects.append((made, [module.function for module, _ in batch]))


def emit_library(modules: tuple[Module, ...], target: CpuTarget, *, name: str) -> ObjectCode:
    """Builds a static library from the modules, which `lower` made for `target`; each module has a unique `function`
    name.

    Raises ValueError, TargetError and CodeGenerationError, as `LibraryInProgress.finish` does.
    """
    with LibraryInProgress(target, name=name) as library:
        for module in modules:
            library.add(module)
        return library.finish()


def _object(batch: Sequence[tuple[Module, str]], target: CpuTarget) -> bytes:
    """Compiles a batch of (module, node name) to one object. An error names the first node whose module causes it."""
    modules = [module for module, _ in batch]
    try:
        return _bytes(modules, target, batch[0][1])
    except (TargetError, RuntimeError) as error:
        if len(batch) > 1:
            for single in batch:
                _object([single], target)
        if isinstance(error, TargetError):
            raise
        reason = " ".join(str(error).split())
        raise CodeGenerationError(f"{batch[0][1]}: LLVM cannot compile this kernel: {reason}") from error


def _bytes(modules: Sequence[Module], target: CpuTarget, name: str) -> bytes:
    return object_bytes(modules, target, name=name, exported=frozenset(m.function for m in modules))
