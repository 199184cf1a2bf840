"""Records of tuning trials: what was tried and what it cost. `line.py` writes them, `files.py` keeps files of them,
`book.py` uses them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from vdla.isa.config import Config

from ...runtime.gpus import GPUS
from ...templates.registry import Target
from .plain_json import canonical, description_obstacle, short

UNITS = {"vdla": "cycles", "llvm": "seconds", **dict.fromkeys(GPUS, "seconds")}
"""The kinds of targets, each with what costs are counted in."""

Key: TypeAlias = tuple[str, str]
"""The canonical text of a workload and the identity of a target: what records are found by."""
Description: TypeAlias = Mapping[str, Any]
"""A JSON object that describes a workload or a target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is tuned: a workload, {"template": name, and its shape}, on a target, {"kind": a key of `UNITS`, ...}.

    Both are JSON objects; tuples in them become lists. Tasks are equal, and so are their keys, for equal workloads on
    equal machines, whatever these are called: of a target with a "digest" that and the kind count, of others
    everything. Of a target with a "family", `alike` is the key that the workload has on all of that family, else None.
    ValueError for what is no such object.
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
        """What its costs are counted in, "cycles" or "seconds"."""
        return UNITS[self.target["kind"]]


def _digest(identity: Description) -> str:
    return hashlib.sha256(canonical(identity).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One trial of a search: these `knobs` cost so many cycles or seconds (`task.unit`), or failed.

    `cost` is None where the trial failed; then `error` says why in one line. `trial` counts from 0 within one search,
    which is named by `strategy`, `seed` and `compiler`; `elapsed` are seconds spent on it. Costs of two compilers
    (`measure.package_identity.compiler_identity`) say nothing of each other; None is one of before this was recorded.
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


def describe_target(machine: Config | Target) -> dict[str, Any]:
    """The target of records for an accelerator, a processor or a GPU, as a JSON object."""
    if isinstance(machine, Config):
        return {"kind": "vdla", "config": machine.name, "digest": machine.digest}
    return machine.described
