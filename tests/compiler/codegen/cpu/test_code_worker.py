"""The threads that generate machine code: results, errors, and cancelling of waiting work."""

import threading
from concurrent.futures import CancelledError

import llvmlite.binding as llvm
import pytest
from patience import LONG

from vdla.compiler.codegen.cpu.kernel import build
from vdla.compiler.codegen.cpu.machine import host_target
from vdla.compiler.codegen.cpu.machine_code import CodeWorker
from vdla.compiler.te.ops.movement import permute


def test_results_and_errors_come_where_they_are_asked_for() -> None:
    worker = CodeWorker()
    good, bad = worker.submit(lambda: 3), worker.submit(lambda: [][0])
    assert good.result(LONG) == 3
    with pytest.raises(IndexError):
        bad.result(LONG)
    worker.end()


def test_what_waits_is_cancelled_so_that_nobody_waits_for_it() -> None:
    worker, begun, go_on = CodeWorker(), threading.Event(), threading.Event()

    def first() -> str:
        begun.set()
        go_on.wait(LONG)
        return "done"

    in_hand, waiting = worker.submit(first), worker.submit(lambda: "never")
    assert begun.wait(LONG)
    worker.end(wait=False)
    go_on.set()
    assert in_hand.result(LONG) == "done"
    with pytest.raises(CancelledError):
        waiting.result(LONG)


def test_more_threads_do_pieces_of_work_at_the_same_time() -> None:
    worker, together = CodeWorker(), threading.Barrier(2)
    worker.widen(2)
    both = [worker.submit(lambda: together.wait(LONG)) for _ in range(2)]
    assert sorted(piece.result(LONG) for piece in both) == [0, 1]
    worker.end()


def test_kernels_are_lowered_without_asking_llvm_which_machine_this_is(monkeypatch: pytest.MonkeyPatch):
    """Lowering a kernel does not ask LLVM for the processor's features: only one thread at a time may call LLVM, and
    LLVM may be busy with the code of the previous kernel.
    """
    target = host_target()

    def busy() -> dict[str, bool]:
        raise AssertionError("the thread that lowers would wait here")

    monkeypatch.setattr(llvm, "get_host_cpu_features", busy)
    worker = CodeWorker()
    try:
        kernel = build(permute((3, 8), (1, 0)), target, worker)
        assert kernel.target == target
    finally:
        worker.end()
