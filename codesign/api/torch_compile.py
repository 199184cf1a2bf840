"""The backend "vdla" of torch.compile, and the report of its last simulated run.

    model = torch.compile(model, backend="vdla")                                    # on this processor
    model = torch.compile(model, backend="vdla", options={"target": "vdla", "config": "my.toml"})

PyTorch finds `backend` by the entry point "torch_dynamo_backends" of pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from typing import Any, cast

import numpy as np

from vdla.compiler.backends.kernels import KernelNetwork
from vdla.compiler.frontends.pytorch.dynamo import Run, TracedGraph
from vdla.compiler.runtime.accelerator import AcceleratorExecutable
from vdla.util.errors import UserError

from .compilation import compile
from .simulation import Report, simulate

OPTIONS = ("target", "config", "device", "records", "virtual_threads", "cache")
"""The arguments of `vdla.compile` that `options` of torch.compile may have; `target` is "llvm" by default."""

PROCESSOR = "llvm"

_LAST: ContextVar[Report] = ContextVar("report of the last simulated run")


def backend(graph: Any, examples: Sequence[Any], options: Mapping[str, Any] | None = None) -> TracedGraph:
    """Returns the function that PyTorch calls in place of `graph`, a torch.fx.GraphModule; see `dynamo.TracedGraph`.

    `examples` (arguments of the graph) are not used: the graph is compiled for the arguments of each call. Raises
    UserError for an unknown option.
    """
    given = dict(options or {})
    if unknown := [name for name in given if name not in OPTIONS]:
        raise UserError(
            f'torch.compile(backend="vdla"): no option is called {unknown[0]!r}; there are {", ".join(OPTIONS)}'
        )
    target = given.pop("target", PROCESSOR)

    def compiled(model: bytes) -> Run:
        executable = compile(model, target, **given)
        if target == PROCESSOR:
            # As many threads as PyTorch's own operators would take.
            run_kernels = cast(KernelNetwork, executable).run
            return lambda inputs: run_kernels(inputs, threads=import_module("torch").get_num_threads())
        if not isinstance(executable, AcceleratorExecutable):
            return executable.run

        def run(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
            report = simulate(executable, inputs)
            _LAST.set(report)
            return report.outputs

        return run

    return TracedGraph(graph=graph, compile=compiled)


def last_report() -> Report:
    """The report of the last graph that torch.compile(backend="vdla") simulated on the accelerator in this thread.

    Raises UserError if none was simulated.
    """
    report = _LAST.get(None)
    if report is None:
        raise UserError(
            'no graph was simulated yet; call a model of torch.compile(model, backend="vdla", '
            'options={"target": "vdla"})'
        )
    return report
