"""Records of tuning trials: knobs and cost. `line.py` writes a record as a line, `files.py` reads and writes files of
records, `book.py` looks up the best record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..runtime.gpus import GPUS
from .plain_json import canonical, description_obstacle, short

UNITS = {"vdla": "cycles", "llvm": "seconds", **dict.fromkeys(GPUS, "seconds")}
"""The unit of costs for each kind of target."""

Key: TypeAlias = tuple[str, str]
"""The key of a tuning record: the canonical text of its workload and the identity of its target."""
Description: TypeAlias = Mapping[str, Any]
"""A JSON object that describes a workload or a target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of the tuner: a `workload` on a `target`. Both are JSON objects; tuples in them become lists.

    A workload has the name of its template under the key "template", and fields for its shape. A target has a key of
    `UNITS` under the key "kind", and fields that describe the machine. Raises ValueError for other objects.

    `key`: identifies the task. It is equal for equal workloads on equal machines, whatever the machines' names. A
    target with a field "digest" is identified by its digest and kind, another target by all its fields. `alike`: a
    second key, which is equal for all machines of one family (such as GPUs of one compute capability). In this key,
    kind and field "family" identify the target. `alike` is None for a target without a family.
    """

    workload: Description = field(compare=False)
    target: Description = field(compare=False)
    key: Key = field(init=False)
    alike: Key | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        for name, required in (("workload", "template"), ("target", "kind")):
            value = getattr(self, name)
            if obstacle := description_obstacle(name, value, required):
                raise ValueError(obstacle)
            object.__setattr__(self, name, json.loads(canonical(value)))
        kind = self.target["kind"]
        if kind not in UNITS:
            raise ValueError(f"target.kind is {short(kind)}, must be one of {', '.join(UNITS)}")
        identity = self.target
        if "digest" in identity:
            identity = {"kind": kind, "digest": identity["digest"]}
        workload = canonical(self.workload)
        object.__setattr__(self, "key", (workload, _digest(identity)))
        family = {"kind": kind, "family": self.target.get("family")}
        object.__setattr__(
            self, "alike", (workload, _digest(family)) if family["family"] is not None else None
        )

    @property
    def unit(self) -> str:
        """The unit of the task's costs, "cycles" or "seconds"."""
        return UNITS[self.target["kind"]]


def _digest(identity: Description) -> str:
    return hashlib.sha256(canonical(identity).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One trial of a search: the `knobs`, and their cost in `task.unit` (cycles or seconds) or a failure.

    For a failed trial `cost` is None, and `error` is the reason in one line. `trial` counts from 0 within one search;
    `strategy`, `seed` and `compiler` identify the search. `elapsed`: seconds since the previous result; for trials of a
    node within its network, CPU seconds of the trial. Costs of different compilers
    (`package_identity.compiler_identity`) are not comparable. `compiler` is None in records that are older than this
    field.
    """

    task: Task
    knobs: Mapping[str, int]
    cost: float | None
    error: str | None = None
    trial: int
    seed: int
    strategy: str
    elapsed: float
    compiler: str | None = None
