"""Code generation on background threads, while the next kernels are still being lowered.

Lowering runs in Python, code generation in LLVM, so two cores do them at the same time. With more cores, or when
lowering has finished, more threads generate code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType

from .ahead_of_time import ObjectCode, checked_functions, object_bytes
from .c_header import header_text
from .errors import CodeGenerationError, TargetError
from .machine import CpuTarget
from .machine_code import OBJECT_SECONDS, CodeWorker
from .module import Module
from .object_files import static_library

BATCH_CHARACTERS = 200_000
"""Characters of LLVM IR at which a batch of modules becomes an object: about 50 ms of code generation. Smaller batches
add up the fixed cost of objects; larger ones lengthen the wait for the last object."""
MOST_THREADS = 4
"""Most threads that generate code: one lowering thread feeds about two, and only a few objects remain at the end."""


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
        """Adds a module with a unique function; `node`: its name in messages (None: the function's).

        Raises errors of `finish` as soon as they are known.
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

        Raises ValueError for names that C does not allow, and without modules; raises TargetError if the processor
        lacks instructions that a kernel needs; raises CodeGenerationError if LLVM refuses a kernel or does not end. The
        latter two name the kernel.
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
                    f"LLVM did not end within {OBJECT_SECONDS:g} s for {', '.join(functions)} of {self._name}; "
                    "compile without fusion, or for another processor (--target)"
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
    """The modules, made by `lower` for `target`, each with a unique `function`, as a static library.

    Errors are those of `LibraryInProgress.finish`.
    """
    with LibraryInProgress(target, name=name) as library:
        for module in modules:
            library.add(module)
        return library.finish()


def _object(batch: Sequence[tuple[Module, str]], target: CpuTarget) -> bytes:
    """The object of a batch of (module, node name); an error names the first module that causes it."""
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
        raise CodeGenerationError(f"{batch[0][1]}: LLVM makes no code of this kernel: {reason}") from error


def _bytes(modules: Sequence[Module], target: CpuTarget, name: str) -> bytes:
    return object_bytes(modules, target, name=name, exported=frozenset(m.function for m in modules))
