"""A decorator that compiles functions with numba and caches machine code only in folders that no other user can write.

numba caches machine code beside the source file if that folder is writable, else in the user's cache folder. It loads
the pickles and machine code in its files without a check.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from .long_compilation import long_compilation
from .own_folders import check_own_folder


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorator: `numba.njit` with `options`; caches machine code if only this user can write to numba's folder."""

    def decorate(function: Callable[..., Any]) -> Any:
        code = njit(**options)(function)
        if not isinstance(code, Dispatcher):  # numba is switched off
            return code
        try:
            code.enable_caching()
        except RuntimeError:  # there is no folder where numba can write
            return code
        folder = code.stats.cache_path
        if folder is not None:
            own = _is_own(Path(folder), Path(function.__code__.co_filename).parent)
            # numba has no option for that.
            kept = getattr(code, "_cache")  # noqa: B009
            setattr(code, "_cache", _WherePossible(kept, Path(folder)) if own else _Nowhere())  # noqa: B010
        _tell_of_compiling(code)
        return code

    return decorate


def read_only(array: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A view of `array` (a copy if it has another dtype or gaps) that cannot be written.

    numba compiles a function anew for an array that differs only in whether it can be written. So arguments of callers,
    writable or not, are made read-only here.
    """
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view


def _tell_of_compiling(code: Any) -> None:
    inner = code.compile

    def compile(signature: Any) -> Any:
        with long_compilation.compiling():
            return inner(signature)

    code.compile = compile


class _Nowhere(NullCache):
    """A numba cache that stores nothing."""

    def load_overload(self, sig: Any, target_context: Any) -> None:
        """Starts the long-compilation timer; numba calls this before it compiles. Returns None: no code is cached."""
        long_compilation.begins()


class _WherePossible:
    """A numba cache that skips storing if the system refuses (for example: disk full), and reports each cause once."""

    def __init__(self, cache: Any, folder: Path) -> None:
        self._cache = cache
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The cached machine code, or None. Called by numba before it compiles."""
        found = self._cache.load_overload(signature, target)
        if found is None:
            long_compilation.begins()
        return found

    def save_overload(self, signature: Any, data: Any) -> None:
        """Writes newly compiled code to the cache. Called by numba after it compiled."""
        try:
            self._cache.save_overload(signature, data)
        except OSError as error:
            told = _told(error.errno)
            if not told:
                told.append(self._folder)
                _warn(self._folder, error)


@functools.cache
def _told(number: int | None) -> list[Path]:
    """The folders for which this process has reported the error `number` (errno): one list, which callers extend."""
    return []


def _warn(folder: Path, error: OSError) -> None:
    print(f"warning: compiled code is not cached for later runs: {folder}: {error.strerror}", file=sys.stderr)


@functools.cache
def _is_own(folder: Path, sources: Path) -> bool:
    """Whether only this user can write to `folder`, or only users who can change the folder `sources` as well."""
    if folder == sources / "__pycache__":
        return True
    try:
        check_own_folder(folder)
    except OSError as error:
        _warn(folder, error)
        return False
    return True
