"""Simulate a compiled network, a kernel or a raw program; break its cycles and bytes down by layer and cause."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.compiler.backends.accelerator_kernel import KernelExecutable
from vdla.compiler.runtime.accelerator import AcceleratorExecutable
from vdla.compiler.runtime.executable import Executable
from vdla.isa.config import Config
from vdla.isa.program import Program
from vdla.isa.program_file import load_program
from vdla.sim import SimulationResult
from vdla.sim import simulate as simulate_program
from vdla.util.errors import UserError
from vdla.util.files import write_whole
from vdla.util.notebook_tables import html_table

from ..technology.clock import Clock, clock_of
from ..technology.components import Components, default_components, load_components

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..report.cycle_breakdown import RunAccount


_PLOTS = ("layers", "roofline", "rows", "banks")
"""The kinds of `Report.plot`."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Report:
    """The results of one launch (run of a program): `cycles`, their breakdown and, if the run also computed data, the
    `outputs` by name (none for a raw program) and the bytes of the `memory`.

    `program` is the simulated program; `simulation` has every counter of the run. `account` is the function that
    computes the property `network`, None for a kernel or a raw program. Clock and energy follow from `technology`.
    """

    program: Program
    simulation: SimulationResult
    outputs: Mapping[str, np.ndarray]
    account: Callable[[], RunAccount] | None = None
    technology: Components = field(default_factory=default_components)

    @cached_property
    def network(self) -> RunAccount | None:
        """The breakdown of a network's cycles and bytes by layer; None for a kernel or a raw program. It is computed on
        first access, so that comparing the cycles of many networks does not wait for it.
        """
        return None if self.account is None else self.account()

    @property
    def config(self) -> Config:
        """The configuration of the simulated machine."""
        return self.program.config

    @property
    def cycles(self) -> int:
        """Cycles from the launch (start of the program) to the last write response."""
        return self.simulation.cycles

    @property
    def clock(self) -> Clock:
        """The machine's clock and its source; all commands use the same clock."""
        return clock_of(self.config, self.technology)

    @property
    def latency(self) -> float:
        """Milliseconds that the launch takes at the machine's `clock`."""
        return 1e3 * self.clock.seconds(self.cycles)

    @cached_property
    def energy(self) -> Mapping[str, float]:
        """Microjoules of the launch (run of the program) by unit of the machine, computed as in `vdla compare`."""
        from ..technology.energy import energy_by_unit
        from ..technology.events import count_events

        return energy_by_unit(self.config, count_events(self.program, self.simulation), self.technology)

    @property
    def utilization(self) -> float | None:
        """Ratio of a network's roofline cycles to its cycles; None for a kernel or a raw program."""
        return None if self.network is None else self.network.total.utilization

    @property
    def memory(self) -> np.ndarray | None:
        """The DRAM image after the run, uint8; None if only the timing was simulated."""
        return self.simulation.memory

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary for each layer (as in `vdla run --json`). For a program without layers: one for each unit,
        with its cycles by activity and by cause of stall.
        """
        if self.network is not None:
            return [layer.to_dict() for layer in self.network.layers]
        units = self.simulation.units.items()
        return [{"name": name, **counters.busy, **counters.stalls} for name, counters in units]

    def to_dataframe(self) -> pd.DataFrame:
        """`rows` as a pandas DataFrame; stalls and traffic become columns (stalls.load, dram.inp, ...)."""
        from ..report.frames import data_frame

        return data_frame(self.rows())

    def plot(self, kind: str = "layers", *, first: int = 0, last: int | None = None) -> Figure:
        """A matplotlib figure of the run. For a network, `kind` is "layers" (cycles by cause) or "roofline" or, on a
        machine with a DRAM, "rows" (row misses by layer). For any program on a machine with a DRAM, "banks" shows what
        each bank does from cycle `first` to cycle `last` (by default for 2,000 cycles). Raises UserError for an unknown
        kind, and for a kind that the program or machine does not have.
        """
        if kind not in _PLOTS:
            raise UserError(f'no plot is called "{kind}"; choose one of {", ".join(_PLOTS)}')
        if kind == "banks":
            from ..report.dram_plots import banks_figure

            return banks_figure(self.program, first, first + 2000 if last is None else last)
        if self.network is None:
            raise UserError(
                "a program has no layers to plot; draw its instructions with the report's method timeline"
            )
        if kind == "rows":
            from ..report.dram_plots import rows_figure

            return rows_figure(self.network)
        from ..report.plots import layers_figure, roofline_figure

        return layers_figure(self.network) if kind == "layers" else roofline_figure(self.network, self.config)

    def timeline(self, path: str | Path) -> None:
        """Writes the timeline of all units to `path` as a trace for ui.perfetto.dev."""
        from ..report.timeline import timeline

        write_whole(path, timeline(self.program, self.simulation))

    def __repr__(self) -> str:
        what = "" if self.network is None else f" of {self.network.model}"
        return f"<Report{what} on {self.config.name}: {self.cycles:,} cycles>"

    def _repr_html_(self) -> str:
        if self.network is None:
            columns = ("unit", "busy cycles", "stalled cycles")
            units = self.simulation.units.items()
            rows = [(name, sum(unit.busy.values()), sum(unit.stalls.values())) for name, unit in units]
            return html_table(repr(self).strip("<>"), columns, rows)
        layers, total = self.network.layers, self.network.total
        columns = ("layer", "operator", "cycles", "roofline", "DRAM bytes")
        rows = [
            (item.name, item.op, item.cycles, round(item.roofline_cycles), item.dram_bytes) for item in layers
        ]
        moved = sum(item.dram_bytes for item in layers)
        rows.append(("total", "", total.cycles, round(total.roofline_cycles), moved))
        return html_table(repr(self).strip("<>"), columns, rows)

    def __str__(self) -> str:
        """The table that `vdla run` prints; for a kernel or a raw program, one line with its cycles."""
        from ..report.console import PlainConsole
        from ..report.table import layer_table, summary

        if self.network is None:
            return f"{self.cycles:,} cycles on {self.config.name}"
        text = io.StringIO()
        console = PlainConsole(width=120, file=text, color=False)
        console.print(layer_table(self.network, console.width))
        for line in summary(self.network, computed=bool(self.outputs)):
            console.print(line, soft_wrap=True)
        return text.getvalue()


def simulate(
    subject: Executable | Program | str | Path,
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    data: bool | None = None,
    technology: str | Path | None = None,
) -> Report:
    """Run a program on the cycle-exact simulator: a compiled network or kernel, a `Program`, or its file.

    With `inputs` (arrays by name), the outputs of a network or kernel are computed, too. Without inputs, only the
    timing is simulated; the timing does not depend on the data. A raw program takes no inputs, but computes on its own
    memory image. The option `data` is for raw programs only: False simulates only the timing. Clock and energy follow
    from `technology`: the shipped models (None or "models"), "45nm-published", or the file of a table. Raises UserError
    if `subject` does not run on the accelerator, and DeadlockError, which names the event that each unit waits for.
    """
    components = load_components(technology)
    if isinstance(subject, AcceleratorExecutable | KernelExecutable):
        begin = perf_counter()
        result, outputs = subject.launch(inputs)
        seconds = perf_counter() - begin
        account = None
        if isinstance(subject, AcceleratorExecutable):
            account = partial(_account, subject, result, seconds, components)
        return Report(
            program=subject.program,
            simulation=result,
            outputs=outputs,
            account=account,
            technology=components,
        )
    if isinstance(subject, Program | str | Path):
        program = subject if isinstance(subject, Program) else load_program(subject)
        result = simulate_program(program.config, program.instructions, program.image, data=data is not False)
        return Report(program=program, simulation=result, outputs={}, technology=components)
    raise UserError(
        f'{subject.name}: is not compiled for the accelerator only; compile the model with target="vdla"'
    )


def _account(
    subject: AcceleratorExecutable, result: SimulationResult, seconds: float, components: Components
) -> RunAccount:
    from ..report.account_run import run_account

    return run_account(subject.name, subject.compiled, result, seconds, components=components)
