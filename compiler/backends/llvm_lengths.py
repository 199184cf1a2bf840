"""Networks of processors that accept many input lengths (see `lengths`). This file compiles the rungs, which are
networks for one length each, and reads them from archives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..cpu_stages import cpu_ahead
from ..pipeline import compile_kernels
from ..runtime.archive import ArchiveError
from ..runtime.lengths import Rung
from ..runtime.network_archive import NAME, describe_code, network_of, read_network, run_once
from ..runtime.network_description import named_array
from ..runtime.shared_arrays import SharedArrays, run_time_graph, share_launches
from ..runtime.trial_run import run_in_trial
from ..templates.chosen_knobs import ChosenKnobs
from ..templates.cpu.panel_widths import PanelWidths
from .backend import CompileOptions

if TYPE_CHECKING:
    import numpy as np

    from ..frontends.onnx.model.read import Source
    from ..runtime.archive_fields import Field
    from ..runtime.cpu_network import CpuNetwork
    from .llvm import LlvmDevice


def compile_rung(
    device: LlvmDevice, model: Source, options: CompileOptions, shared: SharedArrays, length: int
) -> Rung:
    """Compiles a network of kernels for inputs of one length; the network can be saved. Its constants are stored in
    `shared`. Raises UserError.
    """
    knobs = device.knobs(options.records)
    if knobs is None:
        knobs = ChosenKnobs(choose=PanelWidths(device.target, shared.panels).choose)
    code = compile_kernels(model, cpu_ahead(device.target, library=NAME), batch=options.batch, knobs=knobs)
    code = replace(code, graph=run_time_graph(code.graph), launches=share_launches(code.launches, shared))
    return Rung(length=length, executable=network_of(code), describe=lambda pool: describe_code(code, pool))


def read_rungs(path: Path, entries: Sequence[Field], arrays: Mapping[str, np.ndarray]) -> list[CpuNetwork]:
    """The networks of an archive, after a trial run of their code. `entries`, `arrays`: as in
    `LengthsBackend.read_rungs`. Raises ArchiveError.
    """

    def library(entry: Field) -> bytes:
        return named_array(entry.at("library"), arrays).tobytes()

    found = [read_network(path, entry, arrays, partial(library, entry)) for entry in entries]

    def run_all() -> None:
        for network, _ in found:
            run_once(network())

    operations = sum(count for _, count in found)
    if problem := run_in_trial(run_all, operations=operations):
        raise ArchiveError(f"{path}: its code {problem} on its first run; compile the model again")
    return [network() for network, _ in found]
