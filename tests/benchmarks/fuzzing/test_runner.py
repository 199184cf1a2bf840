"""The runner of the fuzz campaign: its verdicts, and a hang or a crash of one case that must not affect other cases."""

import sys
from pathlib import Path

import onnx
import pytest
from patience import LONG

from vdla.benchmarks.fuzzing.drawing import Draw, damaged
from vdla.benchmarks.fuzzing.models import random_model
from vdla.benchmarks.fuzzing.outcome import Called, first_failure, judge
from vdla.benchmarks.fuzzing.programs import random_text
from vdla.benchmarks.fuzzing.runner import CaseProcess
from vdla.isa.config import load_config

TROUBLED = """
import faulthandler, json, os, signal, sys, time
faulthandler.register(signal.SIGUSR1)
def sleeping():
    time.sleep(60)
print("ready", flush=True)
for line in sys.stdin:
    kind, _, index = line.split()
    if kind == "hang":
        sleeping()
    if kind == "crash":
        sys.stderr.write("out of luck")
        os._exit(3)
    print(json.dumps({"verdict": "right", "detail": index}), flush=True)
"""


def called(code: int = 0, err: str = "", trace: str | None = None, memory: bool = False) -> Called:
    return Called(code=code, out="", err=err, trace=trace, memory=memory)


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (called(), "right"),
        (called(2, "error: no such file\n"), "refused"),
        (called(3, "remark\nerror: it never ends\n"), "refused"),
        (called(2, ""), "wrong"),
        (called(2, "error: one\nerror: two\n"), "wrong"),
        (called(2, "error: \x1b[31mred\n"), "wrong"),
        (called(1, "error: the numbers of this run are wrong\n"), "wrong"),
        (called(-11, ""), "wrong"),
        (called(0, "", 'Traceback\n  File "x.py", line 1\nValueError: bad'), "traceback"),
        (called(0, "", 'Traceback\n  File "x.py", line 1\nMemoryError', True), "memory"),
    ],
)
def test_verdicts(result: Called, verdict: str) -> None:
    assert judge(result).verdict == verdict


def test_a_refusal_that_leaves_a_file_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "out.npz").touch()
    outcome = judge(called(2, "error: no\n"), files=[tmp_path / "out.npz"])
    assert outcome.verdict == "wrong" and "out.npz" in outcome.detail


def test_the_first_failure_counts() -> None:
    results = {name: judge(called(code, err)) for name, code, err in (("right", 0, ""), ("wrong", 1, ""))}
    tried = [lambda: results["right"], lambda: results["wrong"], lambda: pytest.fail("is not tried")]
    assert first_failure(tried) is results["wrong"]


def test_hangs_and_crashes_are_told_and_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "worker.py"
    script.write_text(TROUBLED)
    with CaseProcess(limit=LONG, command=[sys.executable, str(script)]) as process:
        first = process.run("plain", 0, 1)
        with monkeypatch.context() as patch:
            # Only what hangs has a short limit: anything else may be late on a busy machine.
            patch.setattr(process, "_limit", 0.5)
            hung = process.run("hang", 0, 2)
        crashed = process.run("crash", 0, 3)
        last = process.run("plain", 0, 4)
    assert (first.outcome.verdict, first.outcome.detail) == ("right", "1")
    assert hung.outcome.verdict == "hang" and "sleeping" in hung.outcome.detail
    assert crashed.outcome.verdict == "crash" and "3: out of luck" in crashed.outcome.detail
    assert (last.outcome.verdict, last.outcome.detail) == ("right", "4")


def test_equal_numbers_give_equal_cases() -> None:
    for index in range(5):
        assert random_model(Draw("models", 3, index)) == random_model(Draw("models", 3, index))
        tiny = load_config("tiny")
        assert random_text(Draw("programs", 3, index), tiny) == random_text(Draw("programs", 3, index), tiny)
    assert damaged(Draw("a", 0, 0), bytes(100)) != damaged(Draw("a", 0, 1), bytes(100))


def test_operators_of_every_kind_are_drawn_and_some_are_valid() -> None:
    drawn: set[str] = set()
    valid = 0
    for index in range(150):
        content, _ = random_model(Draw("models", 4, index))
        try:
            model = onnx.load_model_from_string(content)
            drawn.update(node.op_type for node in model.graph.node)
            onnx.checker.check_model(model, full_check=True)
            valid += 1
        except Exception:
            continue
    assert len(drawn) > 40
    assert 30 < valid < 140, valid
