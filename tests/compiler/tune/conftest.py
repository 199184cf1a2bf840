"""A fixture for time-outs of candidates: a worker states that it hangs, and the time-out does not depend on the clock,
so that a busy machine causes no false time-outs.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from patience import HANGS, says_that_it_hangs

from vdla.compiler.tune.measure import local_workers
from vdla.compiler.tune.measure.local_workers import LocalWorkers


@pytest.fixture
def hangs_are_late(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes a candidate's time-out expire as soon as its worker states that it hangs (`patience.say_that_this_hangs`);
    returns the folder of these statements.
    """
    folder = tmp_path_factory.mktemp("hangs")
    deadline = LocalWorkers._deadline
    monkeypatch.setenv(HANGS, str(folder))
    monkeypatch.setattr(local_workers, "PATIENCE", 0.05)
    monkeypatch.setattr(
        LocalWorkers,
        "_deadline",
        lambda self, seat: 0.0 if says_that_it_hangs(seat.process.pid) else deadline(self, seat),
    )
    return folder
