"""Standard streams that are full, closed or without a reader: no traceback, and a non-zero exit code if a result is
lost.
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

VDLA = f"{sys.executable} -c 'from vdla.codesign.cli.main import main; main()'"
CONFIG = f"{VDLA} config tiny"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("streams", "reason"),
    [(">/dev/full", "No space left on device"), (">&- <&-", "it is closed")],
)
def test_results_that_cannot_be_written_end_with_2_in_one_line(streams: str, reason: str) -> None:
    done = shell(f"{CONFIG} {streams}")
    assert done.returncode == 2
    assert done.stderr == f"error: standard output: cannot be written: {reason}\n"


def test_a_reader_that_goes_away_ends_the_command_without_a_word() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        ["bash", "-c", CONFIG], stdout=writes, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")


def test_notes_that_nobody_takes_are_lost_alone(tmp_path: Path) -> None:
    source = tmp_path / "p.s"
    source.write_text("FINISH\n")
    written = tmp_path / "p.hex"
    # Files that this process opens must not take the place of a closed stream either.
    done = shell(f"{VDLA} asm {source} -o {written} 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(written.read_text().split()[0]) == 32


def test_a_full_disk_for_temporary_files_costs_one_line(vdla, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("vdla.codesign.report.hardware.hardware", refuse)
    message = vdla("config", "tiny").message()
    assert "No space left on device; free some space there" in message and "TMPDIR" in message
