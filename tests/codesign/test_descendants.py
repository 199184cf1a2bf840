"""Processes of processes are found, and ended, while those that have nothing to do with them go on."""

import os
import subprocess
import sys
import time

from vdla.codesign.descendants import descendants, end


def test_those_that_a_process_started_end_with_it() -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        # The shell's name, in /proc, has a space and a parenthesis.
        program = (
            "import ctypes, subprocess as s; ctypes.CDLL(None).prctl(15, b'a) S 1 (')\ns.run(['sleep', '60'])"
        )
        with subprocess.Popen(["sh", "-c", f'{sys.executable} -c "{program}" & wait']) as process:
            deadline = time.monotonic() + 20
            while len(found := descendants([process.pid])) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert len(found) == 2 and other.pid not in found
            assert {process.pid, other.pid, *found} <= set(descendants())
            end({number: start - 1 for number, start in found.items()})  # earlier ones of the same numbers
            assert set(descendants([process.pid])) == set(found)
            end(found)
            process.wait(20)
        assert not [number for number in found if os.path.exists(f"/proc/{number}")]
        assert other.poll() is None
        other.kill()
