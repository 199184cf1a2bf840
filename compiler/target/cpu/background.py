"""Machine code of kernels, made while the next kernels are still being lowered.

Lowering is Python, code generation LLVM's: a second core does the one while the first does the other. Only one thread
generates code, since llvmlite lets one at a time into LLVM.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from .ahead_of_time import ObjectCode, checked_functions, object_bytes
from .c_header import header_text
from .machine import CpuTarget
from .module import Module
from .static_library import static_library

BATCH_CHARACTERS = 200_000
"""Of LLVM IR, from which on modules become an object: about 50 ms of code generation. With fewer, what every object
costs by itself adds up; with more, the last one is waited for."""


class LibraryInProgress:
    """A static library that grows by modules; use it in a `with` statement, which ends its thread.

    Which modules share an object follows from their texts alone, so equal modules give equal bytes on every machine.
    """

    def __init__(self, target: CpuTarget, *, name: str) -> None:
        self._target = target
        self._name = name
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vdla code generation")
        self._modules: list[Module] = []
        self._waiting: list[Module] = []
        self._objects: list[tuple[Future[bytes], list[str]]] = []

    def __enter__(self) -> LibraryInProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)

    def add(self, module: Module) -> None:
        """One more module, whose function no other has."""
        self._modules.append(module)
        self._waiting.append(module)
        if sum(len(waiting.text) for waiting in self._waiting) >= BATCH_CHARACTERS:
            self._begin()

    def finish(self) -> ObjectCode:
        """The library, all code generated.

        ValueError for names that C does not take, and without modules; TargetError where the processor lacks
        instructions for what they compute.
        """
        checked_functions(self._modules, self._name)
        if self._waiting:
            self._begin()
        return ObjectCode(
            name=self._name,
            target=self._target,
            modules=tuple(self._modules),
            data=static_library([(made.result(), functions) for made, functions in self._objects]),
            header=header_text(self._name, self._modules, self._target),
        )

    def _begin(self) -> None:
        modules, self._waiting = self._waiting, []
        functions = [module.function for module in modules]
        made = self._worker.submit(
            object_bytes, modules, self._target, name=self._name, exported=frozenset(functions)
        )
        self._objects.append((made, functions))


def emit_library(modules: tuple[Module, ...], target: CpuTarget, *, name: str) -> ObjectCode:
    """The modules that `lower` made for `target`, each with a `function` of its own, as a static library.

    Errors are those of `LibraryInProgress.finish`.
    """
    with LibraryInProgress(target, name=name) as library:
        for module in modules:
            library.add(module)
        return library.finish()
