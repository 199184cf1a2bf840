"""Runs programs on the Verilated RTL: memory, cycles, begin and end of each instruction, counters."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from vdla.isa.array_modes import TAPS
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config, Memory
from vdla.isa.dram_memory import DRAM, RESET_CYCLES, capacity, check_fits
from vdla.isa.layout import Unit
from vdla.isa.parameters import declared
from vdla.isa.program import instruction_address
from vdla.isa.rows import PLANES
from vdla.isa.scratchpads import Contents, scratchpad_sizes, typed_scratchpads
from vdla.isa.store_stages import TABLE_BYTES
from vdla.util.user_cache import cached_or_made, find_cached

from ..control import DONE_BIT, ERROR_BIT, IDENTITY, QUIET_BIT, REGISTERS, VERSION, counter_address
from ..counters import COUNTER_BITS, COUNTERS
from ..sources import sources_digest
from ..trace import instruction_times
from ..verilog import generate_verilog
from .build import CACHE, Optimize, build_library, require_tools
from .dram.counts import CommandCounts, DramCounts
from .dram.memory import load_memory
from .library import PLACES, Parameters, load_library, timing_numbers
from .surroundings import PLAIN, Surroundings
from .toolchain import BuildError
from .watchdog import describe, stall_counters
from .watching import watched_ports

__all__ = [
    "BuildError",
    "Machine",
    "Optimize",
    "RtlError",
    "RtlResult",
    "hardware",
    "prepare_library",
    "simulate_rtl",
]

FINISHED, RUNNING, STUCK, STOPPED = 0, 1, 3, 7
_BROKEN = {
    2: "had no data for a write burst in cycle {cycles}",
    4: "had too many bursts outstanding in cycle {cycles}",
    5: "marked the wrong beat as last in cycle {cycles}",
    6: "did not launch",
}
"""Messages for the status codes of harness.cpp that mean a broken rule of the memory port or a failed launch."""

DEFAULT_CYCLE_LIMIT = 1 << 40
_PRESET_CYCLE = 8
"""Cycle in which the counters get their initial values; the first instruction arrives later."""

_BANKED = {"inp", "chain"}
"""Scratchpads that have banks on machines with the extension `taps`."""

_COPIED = {"table", "planes"}
"""Memories that exist once for each lane of STORE.POST."""

_BY_PART = {"par": "par_depth", "rows": "row_depth"}
"""Memories whose elements have two parts, and the configuration field of their depth. The RTL has all first parts in
one memory and all second parts in another.
"""

_CHUNK = 200_000
"""Number of cycles between two calls of `on_progress`; an interrupt takes effect at these calls."""


class RtlError(Exception):
    """Raised if the RTL did not finish a program, or broke a rule of the memory port. `status`: register STATUS
    (control.py) at the end of the run, None if the run did not end.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RtlResult:
    """Results of a run on the RTL.

    `cycles`: total number. `begin`, `end` int64 (n,): the cycle, counted from the launch, in which each instruction
    begins or ends; -1 for never. `counters`: values by name (`counters.COUNTERS`). `registers`: for each control
    register (control.py) the value read after the run and the expected value. `memory`: the image after the run, uint8.
    `scratchpads`: the bytes of each scratchpad that the machine has (`isa.scratchpads`). `activity` int64 (m, 3), in
    order of cycles: cycle, unit, and the Activity (interfaces.py) of the unit from this cycle until its next row.
    `dram`: commands to the part of a machine with a DRAM, else None.
    """

    cycles: int
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    counters: dict[str, int]
    registers: dict[str, tuple[int, int]]
    activity: NDArray[np.int64]
    memory: NDArray[np.uint8]
    scratchpads: dict[str, NDArray[np.uint8]]
    dram: CommandCounts | None = None


def prepare_library(config: Config, *, optimize: Optimize = "build") -> Path:
    """Path of the library that runs programs on `config`; builds it if it does not exist. `optimize`: "build" for a
    library that is quick to compile, "run" for one that is quick to run.

    A machine is elaborated once: later calls find the library by a hash of configuration and sources. Raises BuildError
    if a tool is missing.
    """
    same = hardware(config)
    name = f"{same.digest[:32]}-{sources_digest()[:16]}-{optimize}.path"

    def build(target: Path) -> None:
        require_tools()
        verilog = generate_verilog(same, trace_ports=True)
        library = build_library(verilog, bus_bytes=same.memory.bus_bytes, optimize=optimize)
        target.write_text(library.name, encoding="utf-8")

    library: Path | None = None

    def is_there(path: Path) -> bool:
        nonlocal library
        library = find_cached(CACHE, path.read_text(encoding="utf-8"))
        return library is not None

    path = cached_or_made(CACHE, name, build, is_there)
    if library is None and not is_there(path):
        raise BuildError(f"{path.parent}: the built library was deleted meanwhile; run the command again")
    assert library is not None
    return library


def hardware(config: Config) -> Config:
    """`config` with the default memory timing and name. Configurations that differ only in these have equal hardware,
    except for the register DIGEST, which no program can read; so they can share one library.
    """
    built = {name: getattr(config.memory, name) for name, _, item in declared(Memory) if item.rtl}
    memory = Memory(**built)
    return dataclasses.replace(config.with_memory(memory), name="hardware")


@lru_cache(maxsize=64)
def _library(config: Config, optimize: Optimize) -> ctypes.CDLL:
    return load_library(prepare_library(config, optimize=optimize))


class Machine:
    """An accelerator in the harness, from power-up on. Several programs may run on it one after the other, with or
    without resets between them. It is a context manager; `close` frees its memory.
    """

    def __init__(
        self,
        config: Config,
        *,
        random_state: int | None = None,
        optimize: Optimize = "build",
        library_path: Path | None = None,
    ) -> None:
        """Powers up and resets the machine. Scratchpads are zero. Before the reset, registers and queues are zero or,
        with the seed `random_state`, random bits: the initial values in the Verilog are not used.

        `optimize`: "build" for a library that is quick to compile, "run" for one that is quick to run. `library_path`:
        a library from `build.build_library` in place of that of `config`, for a netlist or a mutated design. Raises
        BuildError if a library must be built and a tool is missing or fails.
        """
        self._config = config
        if library_path is None:
            self._library = _library(hardware(config), optimize)
        else:
            self._library = load_library(library_path)
        # Verilator accepts seeds of 31 bits; vdla_create takes 0 for zeros.
        seed = 0 if random_state is None else random_state % (2**31 - 1) + 1
        self._harness: int | None = self._library.vdla_create(seed)
        # Resets first: random registers may write to any scratchpad.
        self.reset()
        self.fill_scratchpads({})

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the machine, which cannot be used afterwards. A second call does nothing."""
        if self._harness is not None:
            self._library.vdla_destroy(self._harness)
            self._harness = None

    def reset(self) -> None:
        """Holds the machine in reset for three cycles; allowed during a run, too. Scratchpads keep their contents."""
        self._library.vdla_reset(self._harness)

    def fill_scratchpads(self, contents: Contents) -> None:
        """Sets scratchpads to `contents`, uint8 arrays by name (`isa.scratchpads`); scratchpads that `contents` does
        not name become zero. Raises ProgramError for a scratchpad that the machine lacks or that has another size.
        """
        arrays = typed_scratchpads(self._config, contents)
        arrays["planes"] = arrays["table"][self._config.tables :]
        arrays["table"] = arrays["table"][: self._config.tables]
        for kind, size in self._sizes().items():
            data = np.ascontiguousarray(arrays[kind].swapaxes(0, 1) if kind in _BY_PART else arrays[kind])
            if kind in _BANKED and self._banked:
                words = data.reshape(-1, self._bank_bytes)
                data = words[_by_bank(len(words))]
            data, size = np.tile(data.reshape(-1), self._copies(kind)), size * self._copies(kind)
            there = self._library.vdla_fill(self._harness, kind.encode(), data.ctypes.data, size)
            self._check_size(kind, there, size)

    def read_scratchpads(self) -> dict[str, NDArray[np.uint8]]:
        """The bytes of each scratchpad, uint8 by name. Raises RtlError if the lanes' copies of a table differ."""
        found = {}
        for kind, size in self._sizes().items():
            size *= self._copies(kind)
            found[kind] = np.zeros(size, np.uint8)
            there = self._library.vdla_copy(self._harness, kind.encode(), found[kind].ctypes.data, size)
            self._check_size(kind, there, size)
        for kind in _COPIED & found.keys():
            copies = found[kind].reshape(self._copies(kind), -1)
            if (copies != copies[0]).any():
                raise RtlError("the RTL's lanes have different copies of the look-up tables")
            found[kind] = copies[0]
        if "planes" in found:
            found["table"] = np.concatenate([found["table"], found.pop("planes")])
        for kind in _BY_PART.keys() & found.keys():
            halves = found[kind].reshape(2, getattr(self._config, _BY_PART[kind]), -1)
            found[kind] = np.ascontiguousarray(halves.swapaxes(0, 1)).reshape(-1)
        if self._banked:
            for kind in _BANKED & found.keys():
                banked = found[kind].reshape(-1, self._bank_bytes)
                found[kind] = np.empty_like(banked)
                found[kind][_by_bank(len(banked))] = banked
                found[kind] = found[kind].reshape(-1)
        return found

    @property
    def _banked(self) -> bool:
        """Whether the input scratchpad and the chain memory have banks."""
        return ArrayShape.of(self._config).banks > 1

    @property
    def _bank_bytes(self) -> int:
        """Bytes of a word in a bank of the input scratchpad or the chain memory (on-chip buffer between layers): the
        input vectors of one position of the window.
        """
        return self._config.inp_bytes * self._config.position_inputs

    def _copies(self, kind: str) -> int:
        """Number of copies that the RTL has of scratchpad `kind`: each lane of STORE.POST has the look-up tables."""
        return self._config.out_bytes // self._config.post_passes if kind in _COPIED else 1

    def _sizes(self) -> dict[str, int]:
        """Sizes in bytes of the RTL's memories by name. The byte planes of the table for ROWS are a separate memory,
        `planes`.
        """
        sizes = scratchpad_sizes(self._config)
        if "rows" in sizes:
            sizes["planes"] = PLANES * TABLE_BYTES
            sizes["table"] -= sizes["planes"]
        return sizes

    def watch_ports(self) -> None:
        """Starts recording the ports in each cycle; drops earlier records."""
        self._library.vdla_watch(self._harness, 1)

    def watched_ports(self) -> dict[str, NDArray[np.uint8]]:
        """The values of the ports in each cycle since `watch_ports`: uint8 (cycles, bytes) by name, low byte first."""
        return watched_ports(self._library, self._harness)

    def read_register(self, address: int) -> int:
        """Reads the 32-bit control register at byte `address` (control.py) while no program runs."""
        return self._library.vdla_read(self._harness, address)

    def run(
        self,
        instructions: NDArray[np.uint64],
        image: NDArray[np.uint8],
        *,
        cycle_limit: int = DEFAULT_CYCLE_LIMIT,
        failing_address: int | None = None,
        memory_timing: Memory | None = None,
        surroundings: Surroundings = PLAIN,
        on_progress: Callable[[int], None] = lambda cycles: None,
    ) -> RtlResult:
        """Launches `instructions`, uint64 (n, words), with the memory image `image` (not modified), waits for the end,
        and returns cycles, memory and registers of the run.

        An access to the bus word that contains byte `failing_address` of the program's memory (image, then
        instructions) gets the response SLVERR; one outside this memory gets DECERR. `memory_timing` replaces the
        configuration's memory timing. `surroundings`: addresses of the memory image, initial values of counters, the
        oracle of a DRAM. `on_progress` is called every 200,000 cycles and at the end with the number of cycles so far.

        Raises ProgramError for a program that the DRAM cannot hold, and RtlError if the program does not finish within
        `cycle_limit` cycles. After an RtlError the machine needs a reset before its next run, except if an error
        response of memory ended the program.
        """
        if self._config.memory.kind == DRAM:
            check_fits(self._config, instructions, image)
        behind = instruction_address(len(image))
        words = np.ascontiguousarray(instructions).view(np.uint8).reshape(-1)
        timing = self._config.memory if memory_timing is None else memory_timing
        size, functions, count = behind + len(words) + 4096, None, None
        if timing.kind == DRAM:
            size = min(size, capacity(self._config))
            functions, count = load_memory(self._config, surroundings.dram)
        counts = DramCounts()
        memory = np.zeros(size, np.uint8)
        memory[: len(image)] = image
        memory[behind : behind + len(words)] = words
        failing = -1 if failing_address is None else failing_address
        origins = (ctypes.c_uint64 * PLACES)(*surroundings.origins)
        parameters = Parameters(
            *timing_numbers(timing),
            failing,
            surroundings.manners,
            surroundings.base,
            len(surroundings.origins),
            origins,
            functions,
            RESET_CYCLES,
            count,
            ctypes.addressof(counts),
        )
        library, harness = self._library, self._harness
        program = surroundings.origins[0] + behind
        status = library.vdla_launch(
            harness, memory.ctypes.data, size, ctypes.byref(parameters), program, len(instructions)
        )
        presets = self._preset(status, surroundings.counts)
        until = 0
        while status == RUNNING and until <= cycle_limit:
            until = min(until + _CHUNK, cycle_limit + 1)
            status = library.vdla_advance(harness, until)
            on_progress(library.vdla_cycles(harness))
        cycles = library.vdla_cycles(harness)
        begin, end = instruction_times(self._config, instructions, self._rows("events", 5))
        if status != FINISHED:
            raise self._failure(status, min(cycles, cycle_limit), instructions, begin, end, failing_address)
        return RtlResult(
            cycles=cycles,
            begin=begin,
            end=end,
            counters={
                name: (self._read_counter(name) - preset) % (1 << COUNTER_BITS)
                for name, preset in zip(COUNTERS, presets, strict=False)
            },
            registers=self._read_registers(
                program, len(instructions), surroundings.base, cycles + presets[-1]
            ),
            activity=self._rows("activities", 3),
            memory=memory[: len(image)],
            scratchpads=self.read_scratchpads(),
            dram=None if functions is None else counts.result(),
        )

    def _preset(self, status: int, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Runs to cycle _PRESET_CYCLE, adds `counts` to the counters and CYCLES, and returns `counts`. If `counts` is
        empty or the run has ended (its `status` is not RUNNING), runs nothing and returns zeros. Raises RtlError if
        `counts` has a wrong number of values or the run ends before that cycle.
        """
        places = len(COUNTERS) + 1
        library, harness = self._library, self._harness
        if not counts or status != RUNNING:
            return (0,) * places
        if library.vdla_counters(harness) != places or len(counts) != places:
            there = library.vdla_counters(harness)
            raise RtlError(
                f"counts has {len(counts)} values, but the library has {there} counters and the design {places}"
            )
        if library.vdla_advance(harness, _PRESET_CYCLE) != RUNNING:
            raise RtlError(f"the RTL ended or stopped before cycle {_PRESET_CYCLE}")
        values = np.array(counts, np.uint64)
        library.vdla_preset(harness, values.ctypes.data)
        return counts

    def _read_registers(self, program: int, count: int, base: int, cycles: int) -> dict[str, tuple[int, int]]:
        """Reads the control registers after a finished run. Returns, by register name, a pair (value read, value
        expected). The arguments are the values that the run must have left in four of the registers: `program`, the
        address of the program; `count`, its number of instructions; `base`, the base address of its memory; `cycles`,
        the length of the run.
        """
        digests = (self._config.digest, hardware(self._config).digest)
        status = 1 << DONE_BIT | 1 << QUIET_BIT
        digest = self._read_words("DIGEST", 8)
        known = [int.from_bytes(bytes.fromhex(text), "little") for text in digests]
        return {
            "ID": (self._read_words("ID", 1), IDENTITY),
            "VERSION": (self._read_words("VERSION", 1), VERSION),
            "STATUS": (self._read_words("STATUS", 1), status),
            "PROGRAM": (self._read_words("PROGRAM", 2), program),
            "COUNT": (self._read_words("COUNT", 1), count),
            "BASE": (self._read_words("BASE", 2), base),
            "CYCLES": (self._read_words("CYCLES", 2), cycles % (1 << COUNTER_BITS)),
            # Machines that differ only in memory timing share a library, which has the digest of one of them.
            "DIGEST": (digest, digest if digest in known else known[0]),
        }

    def _read_words(self, name: str, count: int) -> int:
        words = [self.read_register(REGISTERS[name] + 4 * word) for word in range(count)]
        return sum(word << 32 * place for place, word in enumerate(words))

    def _rows(self, what: str, columns: int) -> NDArray[np.int64]:
        rows = ctypes.c_int64()
        pointer = getattr(self._library, f"vdla_{what}")(self._harness, ctypes.byref(rows))
        shape = (rows.value, columns)
        return np.ctypeslib.as_array(pointer, shape).copy() if rows.value else np.zeros(shape, np.int64)

    def _failure(
        self,
        status: int,
        cycles: int,
        instructions: NDArray[np.uint64],
        begin: NDArray[np.int64],
        end: NDArray[np.int64],
        failing_address: int | None,
    ) -> RtlError:
        if status == STOPPED:
            register = self.read_register(REGISTERS["STATUS"])
            cause = "no cause was found"
            if outside := self._library.vdla_outside_cycle(self._harness):
                address = self._library.vdla_outside_address(self._harness)
                cause = f"it addressed memory outside the program's in cycle {outside}, at byte {address:#x}"
            elif register >> ERROR_BIT & 1 and failing_address is not None:
                cause = f"memory answered with an error at byte {failing_address:#x}"
            return RtlError(
                f"the RTL stopped in cycle {cycles}: {cause} (STATUS is {register:#x}, "
                f"its memory error bit {register >> ERROR_BIT & 1})",
                status=register,
            )
        if status in _BROKEN:
            return RtlError(f"the RTL {_BROKEN[status].format(cycles=cycles)}")
        what = describe(self._config, instructions, begin, end, self._moving())
        if status == STUCK:
            return RtlError(f"the RTL is deadlocked in cycle {cycles}: {what}")
        return RtlError(f"the RTL has not finished after {cycles} cycles: {what}")

    def _moving(self) -> dict[Unit, str]:
        """Finds out what each unit is doing at present. Returns the name of one counter for each unit: reads all
        activity and stall counters of the unit twice, and chooses the counter that grew most in between.
        """
        names = {unit: stall_counters(unit) for unit in Unit}
        before = {name: self._read_counter(name) for unit in Unit for name in names[unit]}
        return {
            unit: max(names[unit], key=lambda name: self._read_counter(name) - before[name]) for unit in Unit
        }

    def _read_counter(self, name: str) -> int:
        address = counter_address(name)
        return self.read_register(address) | self.read_register(address + 4) << 32

    def _check_size(self, kind: str, there: int, size: int) -> None:
        if there != size:
            raise RtlError(
                f"the RTL's {kind} scratchpad has {there} bytes, but the configuration's has {size}"
            )


def _by_bank(depth: int) -> NDArray[np.int64]:
    """The indices of `depth` words in the order in which banks store them: those of bank 0 (0, TAPS, 2 TAPS ...), then
    those of bank 1, and so on.
    """
    return np.concatenate([np.arange(bank, depth, TAPS) for bank in range(TAPS)])


def simulate_rtl(
    config: Config,
    instructions: NDArray[np.uint64],
    image: NDArray[np.uint8],
    *,
    cycle_limit: int = DEFAULT_CYCLE_LIMIT,
    scratchpads: Contents | None = None,
    random_state: int | None = None,
    optimize: Optimize = "build",
    surroundings: Surroundings = PLAIN,
) -> RtlResult:
    """Runs `instructions`, uint64 (n, words), with the memory image `image` on the RTL of `config`, from power-up, and
    returns cycles, memory and registers of the run.

    `scratchpads`: contents at launch (`isa.scratchpads`); scratchpads without contents are zero. `random_state`: seed
    of random bits in registers and queues before the reset. `optimize`: "build" for a library that is quick to compile,
    "run" for one that is quick to run. `surroundings`: addresses of memory, and initial counters. `Machine` runs
    several programs one after the other; its `run` also takes an address at which memory fails and a function that is
    called with the progress.

    The first run of a configuration builds its library. Raises BuildError if a tool is missing, RtlError if the RTL
    does not finish within `cycle_limit` cycles, is deadlocked, is stopped by memory or breaks a rule of the memory
    port.
    """
    with Machine(config, random_state=random_state, optimize=optimize) as machine:
        if scratchpads is not None:
            machine.fill_scratchpads(scratchpads)
        return machine.run(instructions, image, cycle_limit=cycle_limit, surroundings=surroundings)
