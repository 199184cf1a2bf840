"""`simulate` runs a program: results and timing, or timing alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import vdla.isa.timing as timing
from vdla.isa.config import Config
from vdla.isa.dram_memory import DRAM, check_fits
from vdla.isa.layout import Unit
from vdla.isa.scratchpads import Contents

from .deadlock import describe
from .decode import decode
from .errors import CycleLimitError, DeadlockError
from .execute import execute, trace_uops
from .machine import run_timing, token_queues
from .result import SimulationResult, Traffic, dram_counts
from .state import DEADLOCK, OK, TRAFFIC, X_BEGIN, X_DISPATCH, X_END
from .timeline import unit_segments


def discard_stale_code() -> None:
    """Deletes numba's index files beside this module that are older than the newest source in this folder or in `isa`.

    numba notices a change of a cached function, but not a change of the functions that it calls: after an edit of one
    file, machine code of the other files would still contain the old version.
    """
    folder, tables = Path(__file__).parent, Path(timing.__file__).parent
    newest = max(path.stat().st_mtime for path in (*folder.glob("*.py"), *tables.glob("*.py")))
    for index in (folder / "__pycache__").glob("*.nbi"):
        with suppress(OSError):  # Another process may delete the file first, or the folder may be read-only.
            if index.stat().st_mtime < newest:
                index.unlink()


discard_stale_code()

DEFAULT_CYCLE_LIMIT = 1 << 40
"""Number of cycles after which a run is abandoned: three hours at 100 MHz."""


def simulate(
    config: Config,
    instructions: NDArray[np.uint64],
    memory: NDArray[np.uint8],
    *,
    data: bool = True,
    cycle_limit: int | None = None,
    scratchpads: Contents | None = None,
) -> SimulationResult:
    """Runs `instructions`, uint64 (n, words), on `config` with the DRAM image `memory` (uint8, not modified).

    With `data` the result has the final memory and scratchpads, computed instruction by instruction in program order;
    for a program without races this equals execution in order of time. Without `data` the result has timing alone: the
    same cycles, begin and end of every instruction, and counters. `scratchpads`: contents at launch
    (`isa.scratchpads`); scratchpads that it does not name are zero.

    Raises EncodingError for bits that encode no instruction, ProgramError for an unknown register, a missing extension
    or an access out of bounds (without `data`, scratchpads are checked for LOAD.UOP only), DeadlockError when nothing
    can move before FINISH retires, CycleLimitError past `cycle_limit` (default DEFAULT_CYCLE_LIMIT).
    """
    if config.memory.kind == DRAM:
        check_fits(config, instructions, memory)
    decoded = decode(config, instructions, len(memory))
    limit = DEFAULT_CYCLE_LIMIT if cycle_limit is None else cycle_limit
    image, final = None, None
    if data:
        image, final, trace = execute(config, decoded, memory, scratchpads)
    else:
        trace = trace_uops(config, decoded, memory, scratchpads)
    timing = run_timing(config, decoded, len(instructions), len(memory), limit, trace, scratchpads)
    if timing.outcome != OK or timing.cycle > limit:
        what = describe(config, decoded, len(instructions), timing.units, timing.tokens)
        if timing.outcome == DEADLOCK:
            raise DeadlockError(f"deadlock after cycle {timing.cycle}: {what}")
        raise CycleLimitError(
            f"not finished after {limit} cycles: {what}; raise the limit if that is expected"
        )
    record = timing.record
    begin, end, dispatch = np.full((3, len(instructions)), -1, np.int64)
    begin[: len(record)] = record[:, X_BEGIN]
    end[: len(record)] = record[:, X_END]
    dispatch[: len(record)] = record[:, X_DISPATCH]
    pop, push = token_queues()
    first, second, third = (
        unit_segments(record, decoded.rows, pop, push, int(unit), timing.cycle, timing.begin_delay)
        for unit in Unit
    )
    return SimulationResult(
        config=config,
        cycles=timing.cycle,
        begin=begin,
        end=end,
        dispatch=dispatch,
        traffic={
            kind: Traffic(bytes=int(timing.moved[place]), beats=int(timing.beats[place]))
            for place, kind in enumerate(TRAFFIC)
        },
        memory=image,
        scratchpads=final,
        segments=(first, second, third),
        dram=dram_counts(timing.memory) if config.memory.kind == DRAM else None,
    )
