"""Coverage of a co-simulation. A bin names an event that a program may cause. This module declares all bins and counts
the programs that hit them. A bin that no program can hit is declared with the reason.

An empty bin without a reason shows that the programs lack a case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from vdla.isa.alu import AluOpcode, alu_extension
from vdla.isa.config import Config
from vdla.isa.dram_memory import FIXED
from vdla.isa.layout import (
    EXTENSION_OF,
    FLAGS,
    LOADS,
    MATRIX,
    PADS,
    STORES,
    TOKEN_QUEUES,
    Unit,
    formats,
    unit_of,
)
from vdla.isa.registers import REGISTERS
from vdla.isa.timing import (
    AXI_BOUNDARY,
    CHANNELS,
    SHARED,
    fetch_burst_instructions,
    read_burst_beats,
    write_burst_beats,
)

from . import folds
from .memory_timings import TIMINGS
from .observe import (
    CHAIN_SHAPES,
    DATA_MOVES,
    DISTANCES,
    POST_MODES,
    ROW_MODES,
    ZERO_POINTS,
    Bin,
    alignment,
    chain_shape,
    depth_class,
    encoding,
    extension_set,
    fifo_bytes,
)

ENOUGH = 1000
"""A campaign of at least this many programs fails if a reachable coverage bin is empty; smaller campaigns only report
the bin.
"""

_ALIGNMENTS = ("aligned", "start unaligned", "end unaligned", "both ends unaligned")
_READS = ("uop", "wgt", "inp", "patch", "acc", "acc8", "par", "operand", "table")
_SIZES = ("one burst", "several bursts", "more than the FIFO holds")
_COMPUTE_WRITERS = ("LOAD.ACC", "LOAD.ACC8", *MATRIX, "ALU")
_EXTENSION_OF_KIND = {"patch": "patch", "par": "post", "operand": "post", "table": "table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Coverage of a campaign. `hits`: number of programs that hit each bin. `unreachable`: bins that no program can
    hit, with the reason.
    """

    hits: dict[Bin, int]
    unreachable: dict[Bin, str]

    @property
    def empty(self) -> list[Bin]:
        """Reachable bins without a hit."""
        return [item for item, count in self.hits.items() if not count and item not in self.unreachable]

    @property
    def unexpected(self) -> list[Bin]:
        """Bins that were hit although declared unreachable: the declared reason is wrong."""
        return [item for item in self.unreachable if self.hits.get(item)]

    def document(self) -> dict[str, object]:
        """The coverage as a JSON object: totals, every bin with its count by group, empty bins, and unreachable bins
        with reasons."""
        groups: dict[str, dict[str, int]] = {}
        for (group, name), count in self.hits.items():
            if (group, name) not in self.unreachable:
                groups.setdefault(group, {})[name] = count
        reachable = len(self.hits) - len(self.unreachable)
        return {
            "bins": reachable,
            "hit": reachable - len(self.empty),
            "empty": [f"{group}: {name}" for group, name in self.empty],
            "groups": groups,
            "unreachable": {f"{group}: {name}": reason for (group, name), reason in self.unreachable.items()},
        }


def measure(machines: Sequence[Config], counts: Counter[Bin]) -> Coverage:
    """The coverage of programs on `machines`; `counts`: number of programs that hit each bin. Raises KeyError for an
    undeclared bin.
    """
    unreachable: dict[Bin, str] = {}
    hits: dict[Bin, int] = {}
    for group, name, reason in _bins(machines):
        hits[group, name] = 0
        if reason is not None:
            unreachable[group, name] = reason
    for item, count in counts.items():
        if item not in hits:
            raise KeyError(f"coverage bin {item} was hit but is not declared")
        hits[item] = count
    return Coverage(hits=hits, unreachable=unreachable)


def machine_bin(config: Config, timing: int, random_state: bool) -> Bin:
    """The coverage bin of a program's machine, memory timing TIMINGS[timing] and initial state: `random_state` if it
    starts with random registers and scratchpads.
    """
    state = "random state" if random_state else "zero state"
    return "machine x timing x state", f"{config.name}, {TIMINGS[timing]}, {state}"


def _bins(machines: Sequence[Config]) -> Iterator[tuple[str, str, str | None]]:
    """Declares all bins: (group, bin, reason why no program can hit it, or None)."""
    for config, timing, state in product(machines, range(len(TIMINGS)), (False, True)):
        yield *machine_bin(config, timing, state), None
    names = list(formats(machines[0]))
    patterns = [
        "+".join(flag for flag, there in zip(FLAGS, chosen, strict=True) if there) or "none"
        for chosen in product((0, 1), repeat=4)
    ]
    lacking = {name: _lacking(machines, EXTENSION_OF.get(name)) for name in names}
    for name, pattern in product(names, patterns):
        yield "format x tokens", f"{name} {pattern}", lacking[name]
    for text, config in {extension_set(item): item for item in machines}.items():
        for name in names:
            extension = EXTENSION_OF.get(name)
            missing = extension is not None and not config.has(extension)
            reason = f"these machines lack the extension {extension}" if missing else None
            yield "format x extensions", f"{name} with {text}", reason
    for text in sorted({encoding(item) for item in machines}):
        same = [item for item in machines if encoding(item) == text]
        for name in names:
            yield "format x encoding", f"{name} of {text}", _lacking(same, EXTENSION_OF.get(name))
    yield from _waits(names, lacking)
    yield from _activities()
    yield from _queues(machines)
    yield from _flights(machines, lacking)
    yield from _alu_operations(machines)
    yield from _operations(machines, lacking)
    for kind in (*_READS, "out"):
        missing = _lacking(machines, _EXTENSION_OF_KIND.get(kind))
        yield "4 KiB split", kind, missing
        for how in _ALIGNMENTS:
            yield "alignment", f"{kind} {how}", missing or _alignment(machines, kind, how)
        for size in _SIZES:
            yield "length", f"{kind} {size}", missing or _length(machines, kind, size)
    yield from _data_channels(machines)
    yield from _fetch(machines)
    yield from _hazards(lacking)
    yield from _chain_memory(machines, lacking)
    yield from _look_up_tables(machines)
    yield from _broadcast(machines)
    for name in ROW_MODES:
        yield "rows", name, _lacking(machines, "rows")
    yield from folds.declare(machines, DISTANCES)


def _data_channels(machines: Sequence[Config]) -> Iterator[tuple[str, str, str | None]]:
    """Declares the bins for the data channels of a fixed memory, shared or separate: (group, bin, reason why no program
    can hit it, or None). Each program draws the channels, unless its machine has separate ones.
    """
    fixed = [config.memory.data_channels for config in machines if config.memory.kind == FIXED]
    for channels, how in product(CHANNELS, DATA_MOVES):
        reason = None if fixed else "every machine has a DRAM"
        if channels == SHARED and fixed and SHARED not in fixed:
            reason = "every fixed memory has separate data channels"
        yield "data channels", f"{channels}{how}", reason


def _broadcast(machines: Sequence[Config]) -> Iterator[tuple[str, str, str | None]]:
    missing = _lacking(machines, "broadcast")
    for kind, shape in product(
        ("own stride", "repeated", "own stride repeated"), ("one row", "rows that touch", "rows apart")
    ):
        yield "operands", f"{kind}, {shape}", missing


def _look_up_tables(machines: Sequence[Config]) -> Iterator[tuple[str, str, str | None]]:
    group, missing = "look-up tables", _lacking(machines, "table")
    for mode in POST_MODES:
        yield group, f"STORE.POST {mode}", missing
    for part in ("window", "chain", "several passes"):
        there = [config for config in machines if part != "chain" or config.chain_buffer_bytes]
        there = [config for config in there if part != "several passes" or config.post_passes > 1]
        yield group, f"store with {part}", missing or _lacking(there, "table")
    for index in range(8):
        few = all(config.tables <= index for config in machines if config.has("table"))
        yield group, f"table {index}", missing or ("no machine has so many" if few else None)


def _chain_memory(
    machines: Sequence[Config], lacking: dict[str, str | None]
) -> Iterator[tuple[str, str, str | None]]:
    group, there = "chain memory", [config for config in machines if config.chain_buffer_bytes]
    missing = None if there else "no machine has a chain memory"
    for kind in ("store", "read"):
        for shape in CHAIN_SHAPES:
            reason = (
                None
                if any(chain_shape(config) == shape for config in there)
                else "no machine has such a configuration"
            )
            yield group, f"{kind}, {shape}", missing or reason
    for part in ("window", "operand", "par_by_x", "par_by_y", "several rows"):
        yield group, f"store with {part}", missing
    for name in MATRIX:
        extension = _lacking(there, EXTENSION_OF.get(name)) if there else None
        for what in ("alone", "and the input scratchpad"):
            yield group, f"{name} of it {what}", missing or extension
        yield "read after write", f"chain: STORE.POST -> {name}", missing or extension
        yield "write after read", f"chain: {name} -> STORE.POST", missing or extension


def _lacking(machines: Sequence[Config], extension: str | None) -> str | None:
    if extension is None or any(config.has(extension) for config in machines):
        return None
    return f"no machine has the extension {extension}"


def _units_of(name: str) -> tuple[Unit, ...]:
    return tuple(Unit) if name == "CONFIG" else (unit_of(name, {}),)


def _waits(names: list[str], lacking: dict[str, str | None]) -> Iterator[tuple[str, str, str | None]]:
    for name in names:
        units = _units_of(name)
        causes = ["instruction", "begin"]
        for queue in TOKEN_QUEUES:
            causes += [f"token:{queue.name}"] if queue.consumer in units else []
            causes += [f"full:{queue.name}"] if queue.producer in units else []
        for cause in causes:
            yield "format x wait", f"{name} {cause}", lacking[name]
        reason = (
            None if name == "FINISH" else "a unit whose own condition fails is busy with what came before"
        )
        yield "format x wait", f"{name} unit", reason


def _activities() -> Iterator[tuple[str, str, str | None]]:
    for unit, kinds in (
        (Unit.LOAD, ("busy",)),
        (Unit.COMPUTE, ("gemm", "alu", "load_uop", "load_acc", "other", "drain")),
        (Unit.STORE, ("busy",)),
    ):
        for kind in kinds:
            yield "unit x activity", f"{unit.name.lower()} {kind}", None


def _queues(machines: Sequence[Config]) -> Iterator[tuple[str, str, str | None]]:
    for depth in sorted({depth_class(item.token_queue_depth) for item in machines}):
        for queue in TOKEN_QUEUES:
            yield "full queue", f"tokens {queue.name} {depth}", None
    for depth in sorted({depth_class(item.command_queue_depth) for item in machines}):
        for unit in Unit:
            yield "full queue", f"commands {unit.name.lower()} {depth}", None


def _flights(
    machines: Sequence[Config], lacking: dict[str, str | None]
) -> Iterator[tuple[str, str, str | None]]:
    group = "instructions in flight"
    yield group, "STORE.OUT behind STORE.OUT", None
    yield group, "a store waits for a place among those in flight", None
    chained = (
        None if any(config.chain_buffer_bytes for config in machines) else "no machine has a chain memory"
    )
    for kind, missing in (("STORE.POST", lacking["STORE.POST"]), ("STORE.POST to the chain memory", chained)):
        for first, second in ((kind, kind), (kind, "LOAD.PAR"), ("LOAD.PAR", kind)):
            yield group, f"{second} behind {first}", missing
    yield group, "LOAD.PAR behind STORE.OUT", lacking["LOAD.PAR"]
    yield group, "STORE.OUT behind LOAD.PAR", lacking["LOAD.PAR"]
    yield group, "a load waits for a place among those in flight", None
    yield group, "a load behind a load", None
    yield group, "a CONFIG behind a load", None
    yield group, "a CONFIG behind a matrix instruction", None
    for first, second in product(MATRIX, MATRIX):
        yield group, f"{second} behind {first}", lacking[first] or lacking[second]


def _alu_operations(machines: Sequence[Config]) -> Iterator[tuple[str, str, str | None]]:
    for opcode, operand in product(AluOpcode, ("immediate", "accumulator")):
        yield "operations", f"ALU {opcode.name} {operand}", _lacking(machines, alu_extension(opcode))
    custom = dict.fromkeys(item.name for config in machines for item in config.instructions)
    for name, operand in product(custom, ("immediate", "accumulator")):
        yield "operations", f"ALU {name} {operand}", None


def _operations(
    machines: Sequence[Config], lacking: dict[str, str | None]
) -> Iterator[tuple[str, str, str | None]]:
    group = "operations"
    for name, mode in product(MATRIX, ("reset", "overwrite", "accumulate")):
        yield group, f"{name} {mode}", lacking[name]
    for name, zeros in product(MATRIX, ZERO_POINTS):
        needed = None if zeros == ZERO_POINTS[0] else "zero_points"
        yield group, f"{name} with {zeros}", lacking[name] or _lacking(machines, needed)
    post = lacking["STORE.POST"]
    for mode, sign in product(POST_MODES, ("signed", "unsigned")):
        yield group, f"STORE.POST {mode} {sign}", post
    for step in ("par_by_x", "par_by_y"):
        yield group, f"STORE.POST {step}", post
    for kind in ("one vector", "sum", "maximum", "wraps"):
        yield group, f"STORE.POST window: {kind}", post
    for item in REGISTERS:
        yield group, f"CONFIG {item.name}", _lacking(machines, item.extension)
    for name in LOADS:
        for pad in PADS:
            never = (
                "the checker allows no x pads other than 0 in a patch load"
                if name == "LOAD.PATCH" and pad[0] == "x"
                else "the checker allows no pads other than 0 in a table load"
                if name == "LOAD.TABLE"
                else None
            )
            yield group, f"{name} {pad}", lacking[name] or never
    for name in (*LOADS, *STORES, *MATRIX, "ALU", "ROWS"):
        yield group, f"{name} empty", lacking[name]


def _alignment(machines: Sequence[Config], kind: str, how: str) -> str | None:
    size = {config: config.element_bytes("out" if kind == "operand" else kind) for config in machines}
    if how == "aligned" or any(
        size[config] % config.memory.bus_bytes
        for config in machines
        if _lacking([config], _EXTENSION_OF_KIND.get(kind)) is None
    ):
        return None
    return "every element fills whole bus words"


def _length(machines: Sequence[Config], kind: str, size: str) -> str | None:
    for config in machines:
        if _lacking([config], _EXTENSION_OF_KIND.get(kind)) is not None:
            continue
        bus, fifo = config.memory.bus_bytes, fifo_bytes(config, kind)
        burst = bus * (write_burst_beats(config) if kind == "out" else read_burst_beats(config, fifo))
        # A transfer without gaps between rows is at most as long as the scratchpad or the table.
        longest = _longest(config, kind)
        if size == "one burst" or longest > (burst if size == "several bursts" else fifo):
            return None
    return "no scratchpad takes that much"


def _longest(config: Config, kind: str) -> int:
    match kind:
        case "patch":
            return 1 << 16
        case "acc8" | "out" | "operand":
            return config.acc_depth * config.out_bytes
        case _:
            return getattr(config, f"{kind}_depth") * config.element_bytes(kind)


def _fetch(machines: Sequence[Config]) -> Iterator[tuple[str, str, str | None]]:
    found: set[str] = set()
    split = False
    for config in machines:
        bus, size = config.memory.bus_bytes, config.instruction_bytes
        most = fetch_burst_instructions(config)
        split |= AXI_BOUNDARY % (size * most) != 0
        for number, count in product(range(max(1, bus // size)), range(1, most + 1)):
            start = size * most * number
            found.add(alignment(start, start + size * count, bus))
    for how in _ALIGNMENTS:
        reason = (
            None if how in found else "requests of these lengths, from a multiple of 4096 on, never lie so"
        )
        yield "alignment", f"instruction {how}", reason
    reason = (
        None if split else "requests of a power of two of instructions never reach over a multiple of 4096"
    )
    yield "4 KiB split", "instruction", reason


def _hazards(lacking: dict[str, str | None]) -> Iterator[tuple[str, str, str | None]]:
    group = "hazard distance"
    for distance in DISTANCES:
        for name, mode in product(MATRIX, ("reset", "overwrite", "accumulate")):
            yield group, f"{name} {mode} {distance}", lacking[name]
        for operand in ("immediate", "destination", "source"):
            yield group, f"ALU {operand} {distance}", None
        for first, second in product(MATRIX, MATRIX):
            yield group, f"{first} then {second} {distance}", lacking[first] or lacking[second]
    group = "read after write"
    for writer, reader in product(_COMPUTE_WRITERS, (*MATRIX, "ALU")):
        for when in ("at once", "later"):
            yield group, f"acc: {writer} -> {reader}, {when}", lacking[writer] or lacking[reader]
    for reader, when in product((*MATRIX, "ALU"), ("at once", "later")):
        yield group, f"uop: LOAD.UOP -> {reader}, {when}", lacking[reader]
    for writer, reader in product(_COMPUTE_WRITERS, (*STORES, "ROWS")):
        yield group, f"acc: {writer} -> {reader}", lacking[writer] or lacking[reader]
        yield "write after read", f"acc: {reader} -> {writer}", lacking[writer] or lacking[reader]
    for resource, loads in (("inp", ("LOAD.INP", "LOAD.PATCH")), ("wgt", ("LOAD.WGT",))):
        for load, reader in product(loads, MATRIX):
            yield group, f"{resource}: {load} -> {reader}", lacking[load] or lacking[reader]
            yield "write after read", f"{resource}: {reader} -> {load}", lacking[load] or lacking[reader]
    for store in STORES:
        for load in ("LOAD.INP", "LOAD.WGT", "LOAD.ACC", "LOAD.ACC8", "LOAD.PATCH"):
            yield group, f"dram: {store} -> {load}", lacking[load] or lacking[store]
            yield "write after read", f"dram: {load} -> {store}", lacking[load] or lacking[store]
        yield group, f"dram: {store} -> STORE.POST", lacking["STORE.POST"]
        yield group, f"dram: {store} -> LOAD.UOP", None
        yield group, f"dram: {store} -> LOAD.TABLE", lacking["LOAD.TABLE"]
        why = "scales from memory that the program wrote need not be finite"
        yield group, f"dram: {store} -> LOAD.PAR", why
        yield "write after read", f"dram: LOAD.UOP -> {store}", None
