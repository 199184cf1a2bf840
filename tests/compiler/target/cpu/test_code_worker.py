"""The thread that generates code: results, errors, and what is left when it ends."""

import threading
from concurrent.futures import CancelledError

import pytest
from vdla.compiler.target.cpu.code_worker import CodeWorker


def test_results_and_errors_come_where_they_are_asked_for() -> None:
    worker = CodeWorker()
    good, bad = worker.submit(lambda: 3), worker.submit(lambda: [][0])
    assert good.result(10) == 3
    with pytest.raises(IndexError):
        bad.result(10)
    worker.end()


def test_what_waits_is_cancelled_so_that_nobody_waits_for_it() -> None:
    worker, begun, go_on = CodeWorker(), threading.Event(), threading.Event()

    def first() -> str:
        begun.set()
        go_on.wait(10)
        return "done"

    in_hand, waiting = worker.submit(first), worker.submit(lambda: "never")
    assert begun.wait(10)
    worker.end(wait=False)
    go_on.set()
    assert in_hand.result(10) == "done"
    with pytest.raises(CancelledError):
        waiting.result(10)
