import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from patience import LONG, TOOK_LONGER
from troubled_worker import CRASH, CRASH_ONCE, FINE, HANG, PID, PRINT, RAISE

from vdla.compiler.templates.vdla.workload import Workload
from vdla.compiler.tune.measure.backends import BackendError, InProcess
from vdla.compiler.tune.measure.descriptions import canonical, describe, load
from vdla.compiler.tune.measure.local_workers import LocalWorkers
from vdla.compiler.tune.measure.measure_vdla import AcceleratorTask, measure
from vdla.compiler.tune.measure.open_backend import open_backend
from vdla.compiler.tune.measure.trial import Result, result_from_dict
from vdla.isa.config import load_config
from vdla.util.errors import UserError

HELPERS = Path(__file__).parents[2] / "helpers"
TROUBLED = (sys.executable, str(HELPERS / "troubled_worker.py"))
TASK = {"kind": "troubled"}


def small_task(preset: str = "tiny") -> AcceleratorTask:
    shape = Workload(
        template="conv2d", batch=1, channels=8, height=4, width=4, filters=8, kernel=(3, 3), pads=(1, 1, 1, 1)
    )
    return AcceleratorTask.of(load_config(preset), shape)


def fine(count: int) -> list[dict[str, int]]:
    return [{"do": FINE, "cost": index} for index in range(count)]


def local(count: int = 2) -> LocalWorkers:
    return LocalWorkers(count, command=TROUBLED)


def test_a_described_task_measures_the_same() -> None:
    task = small_task()
    drawn = task.space.sample(np.random.default_rng(0), 3)
    points = [None, *(task.space.values(point) for point in drawn)]
    description = json.loads(canonical(describe(task.config, task.workload)))
    assert description["config"] == task.config.to_dict()
    with InProcess() as backend:
        results = backend.measure(description, points)
    assert [r.cost for r in results] == [measure(task, values).cost for values in points]
    assert all(not r.failed and r.seconds > 0 for r in results)


@pytest.mark.parametrize("preset", ["vta", "osdi18", "edge8", "tiny"])
def test_configurations_come_back_with_their_digest(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    monkeypatch.setattr(AcceleratorTask, "of", staticmethod(lambda *parts: found.append(parts)))
    config = load_config(preset)
    shape = Workload(template="max_pool", batch=1, channels=3, height=9, width=7, filters=3, kernel=(3, 2))
    described = {"kind": "vdla", "config": config.to_dict(), "workload": shape.to_dict()}
    load(json.loads(canonical(described)))
    assert found == [(config, shape)] and found[0][0].digest == config.digest


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "tpu"}, "no tasks of the kind 'tpu'"),
        ({"config": None}, "kind, config and workload"),
        ({"more": 1}, "kind, config and workload"),
        ({"config": {"batch": 3}}, "does not have the fields of this version of vdla"),
        ({"workload": {"template": "conv2d"}}, "has the fields"),
    ],
)
def test_what_is_no_task_is_refused(change: dict[str, object], reason: str) -> None:
    task = small_task()
    description = describe(task.config, task.workload) | change
    with pytest.raises(UserError, match=reason):
        InProcess().measure(description, [None])


def test_results_survive_json() -> None:
    for result in (Result(cost=7.5, seconds=0.25), Result(cost=float("inf"), error="why")):
        assert result_from_dict(json.loads(json.dumps(result.to_dict()))) == result


@pytest.mark.usefixtures("hangs_are_late")
def test_troubled_candidates_cost_one_trial_each(tmp_path: Path) -> None:
    points = fine(16)
    points[2]["do"], points[5]["do"], points[7]["do"] = CRASH, HANG, RAISE
    points[9]["do"], points[11]["do"] = PRINT, CRASH_ONCE
    task = TASK | {"flag": str(tmp_path / "crashed")}
    with local() as backend:
        found = list(backend.finished(task, points))
        # With the same processes, or those that replaced them:
        assert [r.cost for r in backend.measure(task, fine(5))] == [0, 1, 2, 3, 4]
    results = dict(found)
    assert len(found) == len(results) == 16
    assert (tmp_path / "crashed").exists()
    errors = {index: result.error for index, result in results.items() if result.failed}
    assert errors == {
        2: "ended the process that measured it (SIGSEGV)",
        5: TOOK_LONGER,
        7: "defect: IndexError: no 7",
    }
    assert all(results[index].cost == index for index in results.keys() - errors.keys())


def test_trials_given_up_do_not_answer_later() -> None:
    with local() as backend:
        for index, result in backend.finished(TASK, fine(40)):
            assert result.cost == index
            break
        found = backend.measure(TASK, [{"do": FINE, "cost": 100 + k} for k in range(10)])
    assert [result.cost for result in found] == list(range(100, 110))


def test_a_process_killed_while_idle_costs_nothing() -> None:
    with local(1) as backend:
        (first,) = backend.measure(TASK, [{"do": PID, "cost": 0}])
        os.kill(int(first.cost), signal.SIGKILL)
        (second,) = backend.measure(TASK, [{"do": PID, "cost": 0}])
    assert not second.failed and second.cost != first.cost


def test_tasks_that_cannot_be_loaded_end_the_call() -> None:
    with local() as backend:
        with pytest.raises(UserError, match=r"^no task$"):
            backend.measure({"kind": "none"}, fine(2))
        with pytest.raises(BackendError, match=r"ready to load the task \(exit code 9\)"):
            backend.measure({"kind": "fatal"}, fine(2))
        assert backend.measure(TASK, fine(2))[1].cost == 1


def test_processes_that_do_not_start_are_given_up() -> None:
    command = (sys.executable, "-c", "raise ImportError('no such thing')")
    with LocalWorkers(1, command=command) as backend, pytest.raises(BackendError) as caught:
        backend.measure(TASK, fine(1))
    assert "ready to start (exit code 1: ImportError: no such thing)" in str(caught.value)


def test_who_waits_for_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.compiler.tune.measure.local_workers.PATIENCE", 0.2)
    heard: list[str] = []
    # Late as soon as it was told of.
    monkeypatch.setattr(LocalWorkers, "_deadline", lambda *_: 0.0 if told() else time.monotonic() + LONG)

    def told() -> bool:
        return any(line.startswith("1 trials left; waiting: process") and "trial 0" in line for line in heard)

    with LocalWorkers(1, command=TROUBLED, notify=heard.append) as backend:
        (result,) = backend.measure(TASK, [{"do": HANG, "cost": 0}])
    assert result.failed and told()


_SEARCH = """
import signal, sys
sys.path.insert(0, sys.argv[1])
# What a shell puts into the background ignores it, and its children with it.
signal.signal(signal.SIGINT, signal.default_int_handler)
from patience import LONG, TOOK_LONGER
from troubled_worker import HANG, PID
from vdla.compiler.tune.measure.local_workers import LocalWorkers
if __name__ == "__main__":
    command = (sys.executable, sys.argv[1] + "/troubled_worker.py")
    with LocalWorkers(2, timeout=float(sys.argv[2]), command=command) as backend:
        points = [{"do": PID, "cost": 0}] * 20
        results = backend.measure({"kind": "troubled"}, points)
        print(*{int(r.cost) for r in results if not r.failed}, flush=True)
        backend.measure({"kind": "troubled"}, [{"do": HANG, "cost": 0}] * 200)
"""


@pytest.mark.parametrize(("end", "timeout"), [(signal.SIGINT, LONG), (signal.SIGKILL, 2.0)])
def test_no_process_outlives_the_search(end: signal.Signals, timeout: float) -> None:
    command = [sys.executable, "-c", _SEARCH, str(HELPERS), str(timeout)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as search:
        assert search.stdout is not None
        try:
            pids = [int(word) for word in search.stdout.readline().split()]
            assert pids
            time.sleep(0.1)
            search.send_signal(end)
            assert search.wait(LONG) != 0
        finally:
            search.kill()
    deadline = time.monotonic() + LONG
    while any(_runs(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker is still there"
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether a process exists and is not a zombie (a process that has ended, but whose parent has not yet waited for
    it).
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_options_choose_the_backend() -> None:
    def opened(workers: int, scheduler: str | None = None) -> type:
        with open_backend(workers=workers, scheduler=scheduler, notify=print) as backend:
            return type(backend)

    assert opened(0) is InProcess
    assert opened(3) is LocalWorkers
    with pytest.raises(BackendError, match="no scheduler at nowhere"):
        opened(3, "nowhere")
