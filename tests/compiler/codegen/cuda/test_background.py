"""Tests `background`, a context with threads that compile kernels while the compiler goes on. If the context ends by an
error, work that no thread has begun is cancelled.
"""

from __future__ import annotations

import threading

import pytest
from patience import LONG

from vdla.compiler.codegen.cuda import background as module
from vdla.compiler.codegen.cuda.background import background


def test_an_error_in_the_block_cancels_what_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_THREADS", 1)
    begun, go = threading.Event(), threading.Event()
    done: list[str] = []

    def first() -> None:
        begun.set()
        assert go.wait(LONG)
        done.append("first")

    with pytest.raises(RuntimeError, match="in the block"), background() as pool:
        running, waiting = pool.submit(first), pool.submit(done.append, "second")
        assert begun.wait(LONG)
        threading.Timer(0.05, go.set).start()
        raise RuntimeError("in the block")
    assert running.done() and waiting.cancelled()
    assert done == ["first"]
