import socket
import sys
from pathlib import Path

import numpy as np
import pytest
from campaign import examples
from dask_cluster import cluster
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure import dask_workers
from vdla.compiler.tune.measure.backends import BackendError, InProcess
from vdla.compiler.tune.measure.chunks import chunks
from vdla.compiler.tune.measure.dask_workers import DaskWorkers, MissingExtraError
from vdla.compiler.tune.measure.descriptions import describe
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask
from vdla.isa.config import load_config

TRIALS = 24


def test_workers_and_schedulers_that_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Workload(template="conv2d", batch=1, channels=8, height=4, width=4, filters=8, kernel=(3, 3))
    task = AcceleratorTask.of(load_config("tiny"), shape)
    description = describe(task.config, task.workload)
    drawn = task.space.sample(np.random.default_rng(0), TRIALS)
    points = [task.space.values(point) for point in drawn]
    expected = [result.cost for result in InProcess().measure(description, points)]
    with (
        cluster(tmp_path, 2) as (address, (scheduler, _, second)),
        DaskWorkers(address, connect=20.0) as backend,
    ):
        found = []
        for item in backend.finished(description, points):
            found.append(item)
            if len(found) == 3:
                second.kill()
        assert sorted(index for index, _ in found) == list(range(TRIALS))
        assert [result.cost for _, result in sorted(found)] == expected

        with (
            pytest.raises(BackendError, match=r"has vdla .* here it is vdla 9"),
            monkeypatch.context() as m,
        ):
            m.setattr(dask_workers, "package_identity", lambda: "vdla 9")
            backend.measure(description, points[:4])

        with pytest.raises(BackendError, match=f"scheduler at {address} ended, or lost the trials"):
            for count, _ in enumerate(backend.finished(description, points)):
                if count == 0:
                    scheduler.kill()
        with pytest.raises(BackendError, match=f"scheduler at {address} ended, or lost the trials"):
            backend.measure(description, points)


def test_schedulers_that_cannot_be_reached() -> None:
    with socket.socket() as bound:
        # Taken, and nobody listens.
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        for address in (f"tcp://127.0.0.1:{port}", "127.0.0.1", "ftp://127.0.0.1:1"):
            with pytest.raises(BackendError, match="no scheduler at") as caught:
                DaskWorkers(address, connect=0.3)
            assert "\n" not in str(caught.value)


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'vdla\[tune\]'"):
        DaskWorkers("tcp://127.0.0.1:1")


@settings(max_examples=examples(50))
@given(st.integers(0, 300), st.integers(1, 9), st.integers(1, 20), st.integers(0, 40))
def test_chunks_are_all_trials_and_end_together(count: int, workers: int, least: int, more: int) -> None:
    found = chunks(count, workers, (least, least + more))
    assert [index for part in found for index in part] == list(range(count))
    sizes = [len(part) for part in found]
    assert all(0 < size <= least + more for size in sizes)
    assert all(size >= min(least, count // workers) for size in sizes[: -workers or None])
    # Whoever is free takes the next one: nobody waits for more than one chunk of the last round.
    ends = [0] * workers
    for size in sizes:
        ends[ends.index(min(ends))] += size
    assert max(ends) - min(ends) <= max([0, *sizes[-workers:]])


def test_chunks_halve_until_they_are_too_small() -> None:
    def sizes(count: int, limits: tuple[int, int]) -> list[int]:
        return [len(part) for part in chunks(count, 2, limits)]

    assert sizes(16, (1, 100)) == [4, 4, 2, 2, 1, 1, 1, 1]
    assert sizes(16, (6, 100)) == [8, 8]
    assert sizes(64, (6, 100)) == [16, 16, 8, 8, 8, 8]
    assert sizes(7, (1, 2)) == [2, 2, 1, 1, 1]
