"""Checks that files written by commands are complete, by reading them with the package's own readers."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import onnx

from .outcome import Outcome, call, judge


def problem_of(written: Path) -> str | None:
    """The reason why the file `written`, or a file in the folder `written`, is not complete; None if there is none."""
    if written.is_dir():
        return next((problem for path in sorted(written.iterdir()) if (problem := problem_of(path))), None)
    match written.suffix:
        case ".tar":
            outcome = judge(call("run", written, "--json"))
            if outcome.verdict == "refused" and "NVIDIA driver" in outcome.detail:
                outcome = Outcome("unchecked", "read, but no GPU is here to run it")
        case ".vdla":
            outcome = judge(call("check", written, "--json"))
        case ".jsonl":
            lines = written.read_text(encoding="utf-8").splitlines(keepends=True)
            # Records are written line by line: the last line may be incomplete.
            outcome = Outcome(
                "right" if all(_is_json(line) for line in lines[:-1]) else "wrong", "damaged lines"
            )
        case ".npz":
            try:
                with np.load(written) as arrays:
                    sizes = [arrays[name].size for name in arrays]
                outcome = Outcome("right" if sizes else "wrong", "no arrays")
            except (OSError, ValueError, zipfile.BadZipFile) as error:
                outcome = Outcome("wrong", str(error))
        case ".json":
            outcome = Outcome(
                "right" if _is_json(written.read_text(encoding="utf-8")) else "wrong", "no JSON"
            )
        case ".onnx":
            try:
                onnx.load(written)
                outcome = Outcome("right")
            except Exception as error:
                outcome = Outcome("wrong", str(error))
        case _:
            outcome = Outcome("right" if written.stat().st_size else "wrong", "empty")
    return None if outcome.verdict in ("right", "unchecked") else f"{written.name}: {outcome.detail}"


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True
