"""Finding and ending the descendants of a process, without affecting other processes."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from patience import LONG

from vdla.util.descendants import descendants, end


def running(number: int) -> bool:
    """Whether the process with this id runs; a zombie, whose parent has not yet waited for it, does not."""
    try:
        return Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def wait_until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LONG
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


@contextlib.contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


def test_those_that_a_process_started_end_with_it() -> None:
    # The name of a program, which /proc has in parentheses, may hold some itself.
    program = (
        "import ctypes, subprocess as s; ctypes.CDLL(None).prctl(15, b'a) S 1 (')\ns.run(['sleep', '60'])"
    )
    with (
        started("sleep", "60") as other,
        started("sh", "-c", f'{sys.executable} -c "{program}" & wait') as shell,
    ):
        assert wait_until(lambda: len(descendants([shell.pid])) == 2)
        found = descendants([shell.pid])
        assert other.pid not in found and {shell.pid, other.pid, *found} <= set(descendants())
        end({number: start - 1 for number, start in found.items()})  # earlier ones of the same numbers
        assert all(running(number) for number in found)
        end(found)
        assert wait_until(lambda: not any(running(number) for number in found))
        assert running(other.pid)


def test_the_process_that_tidies_up_semaphores_is_left_to_itself() -> None:
    program = """
import multiprocessing
from multiprocessing import resource_tracker
from vdla.util.descendants import descendants
lock = multiprocessing.get_context("spawn").Lock()
assert resource_tracker._resource_tracker._pid and not descendants()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
