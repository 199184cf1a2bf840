"""Progress notes of commands."""

from __future__ import annotations

from rich.progress import Progress

from vdla.codesign.cli.output import Steps


def test_a_step_learns_its_parts_while_it_runs() -> None:
    with Progress(disable=True) as progress:
        steps = Steps(progress)
        steps.reach(1, 4)  # nothing has begun
        steps.begin("compiling net.onnx")
        (task,) = progress.tasks
        assert task.total is None
        steps.reach(3, 4)
        assert (task.completed, task.total, task.finished) == (3, 4, False)
        steps.end()
        assert task.finished
    Steps(None).reach(3, 4)
