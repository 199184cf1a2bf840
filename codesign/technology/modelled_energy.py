"""Energy of a launch by the model of switching: logic by event, clock pins, leakage, scratchpads, DRAM; one node each.

Logic is of the library whose netlists were replayed, scratchpads by the SRAM table scaled to it, DRAM of a device of
its own. Operands are not known where timing alone is simulated: how often bits change is then as `operand_rates.py`
has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.hw.synthesis.cells.sram import MacroFigures, memory_figures
from vdla.isa.config import TABLE_BYTES, Config

from .dram import dram_picojoules
from .event_energy import EventEnergy, shipped_event_energy
from .event_features import features_of
from .events import Events
from .operand_rates import shipped_rates

MOST_PRODUCTS, MOST_LANES, BUS_BYTES = 64, 8, 8
"""The largest machines that were replayed (`benchmarks/harness/energy_rows.py`), and the bus of all of them."""

LEFT_OUT = (
    "glitches, wires, the clock tree (clock pins are in, none is gated), pads; DRAM's standby and refresh"
)
_LANES_OF_POST = ("reduction", "stage A", "stage B", "post")


def energy_by_model(
    config: Config,
    events: Events,
    changes: Mapping[str, float] | None = None,
    *,
    hertz: float | None = None,
) -> dict[str, float]:
    """Microjoules by unit. `changes` are the bits that change by `sim.statistics.MEASURED`; left out, the shipped
    rates' stand for them. Leakage lasts as long as the program takes at `hertz`, the configuration's own clock if left
    out."""
    model = shipped_event_energy()
    if changes is None:
        changes = shipped_rates().changes(config, events)
    data = model.data(features_of(config, events, changes))
    post = sum(data.pop(part) for part in _LANES_OF_POST)
    found = {
        **data,
        "post": post,
        "clock pins": sum(model.clocks(config, events.cycles).values()),
        "leakage": sum(model.leakages(config, events.cycles / (hertz or config.clock_hertz)).values()),
        **_scratchpads(config, events, model),
        "DRAM": dram_picojoules(sum(events.read.values()), events.written, events.runs),
    }
    return {unit: value / 1e6 for unit, value in found.items()}


def is_inside(config: Config) -> bool:
    """Whether a machine is no larger than those whose netlists were replayed."""
    return (
        config.multiplies_per_cycle <= MOST_PRODUCTS
        and config.batch * config.block_out <= MOST_LANES
        and config.memory.bus_bytes == BUS_BYTES
    )


def energy_interval(config: Config, energy: Mapping[str, float]) -> tuple[float, float]:
    """The ends of the 90% interval of all energy, as factors: that of the data's, the rest taken as it is.

    Of a machine beyond those replayed it is that of machines that were left out of the fit.
    """
    model = shipped_event_energy()
    low, high = model.interval if is_inside(config) else model.interval_outside
    rest = sum(value for unit, value in energy.items() if unit in _AS_THEY_ARE or "scratchpad" in unit)
    whole = sum(energy.values())
    data = 1 - rest / whole if whole else 1.0
    return 1 + (low - 1) * data, 1 + (high - 1) * data


_AS_THEY_ARE = ("clock pins", "leakage", "parameter table", "look-up tables", "chain memory", "FIFOs", "DRAM")


def rung(config: Config) -> str:
    """What a machine's energy stands on, in few words."""
    model = shipped_event_energy()
    text = f"model of switching ({model.node})"
    return text if is_inside(config) else f"{text}, beyond the machines replayed"


def described() -> str:
    """What energy follows from, in a sentence."""
    model, rates = shipped_event_energy(), shipped_rates()
    return (
        f"energy: per event, fitted to replays of netlists in {model.library} ({model.node}, "
        f"{model.volts:g} V); operands change as those of {rates.network} do on {rates.machine}; scratchpads by CACTI, "
        f"scaled to that node; DRAM of one DDR3L device; left out are {LEFT_OUT}"
    )


def _scratchpads(config: Config, events: Events, model: EventEnergy) -> dict[str, float]:
    """Picojoules by memory: whole words are read and written."""
    scale, bus = model.sram_scale, config.memory.bus_bytes
    matrix = events.gemm + events.depthwise + events.taps
    operations, read = matrix + events.alu, events.read

    def macro(words: int, size: int) -> MacroFigures:
        return memory_figures(max(1, words), 8 * size, scale)

    def both(one: MacroFigures, reads: float, writes: float) -> float:
        return reads * one.read_pj + writes * one.write_pj

    acc_reads = operations - events.overwriting + events.two + events.window_reads
    # int8 becomes int32 on its way in: a lane is a byte or four on the bus, and no count says which.
    acc_writes = operations + read["acc"] / config.acc_bytes
    # Lanes that an array which folds leaves as they are: their bits are not driven.
    acc_writes -= events.kept_lanes / (config.batch * config.block_out)
    fifos = {
        "load": read["inp"] + read["wgt"],
        "compute": read["uop"] + read["acc"],
        "operand": read["operand"],
    }
    through = sum(
        both(macro(config.fifo_bytes(name) // bus, bus), moved / bus, moved / bus)
        for name, moved in fifos.items()
    )
    through_bus = events.stored - events.chained
    out = macro(config.fifo_bytes("store") // config.out_bytes, config.out_bytes)
    found = {
        "uop scratchpad": both(
            macro(config.uop_depth, config.uop_bytes), operations, read["uop"] / config.uop_bytes
        ),
        "inp scratchpad": both(
            macro(config.inp_depth, config.inp_bytes),
            events.vectors_read,
            read["inp"] / config.inp_bytes,
        ),
        "wgt scratchpad": both(
            macro(config.wgt_depth, config.wgt_bytes), matrix, read["wgt"] / config.wgt_bytes
        ),
        "acc scratchpad": both(macro(config.acc_bank_depth, config.acc_bytes), acc_reads, acc_writes),
        "FIFOs": through + both(out, through_bus, through_bus),
    }
    if config.chain_buffer_bytes:
        # Reads of it are counted with those of the input scratchpad.
        word = config.chain_word_bytes
        chain = macro(config.chain_buffer_bytes // word, word)
        found["chain memory"] = events.chained * config.out_bytes / word * chain.write_pj
    if config.has("post"):
        table = macro(config.par_depth, config.par_bytes)
        found["parameter table"] = both(table, events.stored, read["par"] / config.par_bytes)
    if config.has("table"):
        # Every lane reads a word of its copy in each pass, whether what it finds is taken or not.
        lanes, word = config.out_bytes, macro(config.tables * TABLE_BYTES // bus, bus)
        found["look-up tables"] = events.stored * lanes * word.read_pj
    return found
