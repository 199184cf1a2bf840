"""A process that evaluates machines (accelerator configurations): the tuner's worker
(`compiler/tune/measure/worker.py`) with machines as candidates.

A task is a JSON object with these members:

- "kind" is "designs". "sources" is a hash of the code that computes area and energy.
- "components" describes the technology, from which area, clock and energy follow.
- "networks" is a list of objects {"name", "digest"}; the models are in the folder "folder".
- "machines" is a list of configurations, and "imports" lists the modules of their custom instructions.
- "trials" is the number of schedules to try for each layer.

A candidate is {"machine": index in "machines"}. The result of a candidate has its figures as JSON.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.tune.measure.descriptions import (
    Description,
    Measure,
    TaskError,
    import_described,
)
from vdla.compiler.tune.measure.trial import Result
from vdla.compiler.tune.measure.worker import serve
from vdla.isa.program_file import config_from_dict

from ..technology.components import components_from_dict
from .evaluate import evaluate, sources_of_figures, to_json
from .networks import load_network
from .schedules.choose import Effort

if TYPE_CHECKING:
    from .networks import Network

KIND = "designs"


def load(description: Description) -> Measure:
    """The function that evaluates one machine of the task with the JSON description `description`. Raises UserError
    if the task is of another kind or comes from another version of the code.
    """
    if description.get("kind") != KIND:
        raise TaskError(f"kind = {description.get('kind')!r}: this process evaluates {KIND!r} only")
    if description["sources"] != sources_of_figures():
        raise TaskError(
            "the code for area and energy in this process differs from the study's; install the same version"
        )
    components = components_from_dict(description["components"])
    folder = Path(description["folder"])
    networks = [_network(folder / item["digest"], item["name"]) for item in description["networks"]]
    import_described(description)
    machines = [config_from_dict(dict(item)) for item in description["machines"]]
    effort = Effort(trials=int(description["trials"]))

    def measure(values: Mapping[str, int] | None) -> Result:
        if values is None:
            return Result(cost=0.0)  # The first request of a worker compiles nothing.
        started = time.thread_time()
        figures = evaluate(machines[values["machine"]], networks, components, effort)
        seconds = time.thread_time() - started
        cost = 0.0 if figures.failed is None else math.inf
        return Result(cost=cost, error=figures.failed, seconds=seconds, figures=to_json(figures))

    return measure


@cache
def _network(path: Path, name: str) -> Network:
    """The network in the file at `path`, named `name`; cached, so that several tasks read it once."""
    return load_network(path, name=name)


if __name__ == "__main__":
    serve(load)
