"""The configuration of a machine (one accelerator), from which instruction set, simulator, RTL and compiler are
derived.

A configuration is read from TOML (`load_config`) or is a preset (`vta`, `osdi18`, `edge8`, `tiny`). Derived quantities
(depths, field widths, latencies) are computed in `sizes.py` and `timing.py` only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from vdla.util.files import MOST_TEXT_BYTES, read_file
from vdla.util.notebook_tables import html_table

from .array_modes import LEAST_COLUMNS
from .config_checks import check_fields, check_machine
from .custom import AluInstruction, find_instruction
from .data_path import storage_of
from .dram_memory import DRAM, DramFields, check_dram, with_part
from .errors import ConfigError
from .extensions import EXTENSIONS, ByShape, suited
from .fifos import FIFOS, OUTSTANDING, default_bytes, starved
from .parameters import check_declared, declared, later_defaults, parameter, short_repr
from .sizes import Sizes
from .timing import CHANNELS, SHARED, STORE_BYTES, STORES_IN_FLIGHT

CLOCK_IS = "assumed"
"""Word that qualifies every printed time or rate in seconds: `clock_mhz` is an assumption, because no machine has been
placed and timed at this clock.
"""

KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Memory(DramFields):
    """Timing of the AXI4 memory that all units share; hw/README.md has the rules, hw/dram.md those of a DRAM.

    With `jitter` or `stall` above zero, bursts are delayed by a pseudo-random number of cycles (`noise.memory_noise`),
    the same in simulator and RTL. Raises ConfigError for a value outside its range.
    """

    bus_bytes: int = parameter(8, "width of one beat", unit="bytes", low=8, high=64, power_of_two=True)
    read_latency: int = parameter(
        30,
        "from an accepted read address to the earliest first beat",
        unit="cycles", low=1, high=10_000, rtl=False, samples=(1, 3, 30, 120),
    )  # fmt: skip
    write_latency: int = parameter(
        10,
        "from a write burst's last beat to its response",
        unit="cycles", low=1, high=10_000, rtl=False, samples=(1, 10, 40),
    )  # fmt: skip
    outstanding_reads: int = parameter(
        8, "read bursts accepted and not yet complete", low=1, high=OUTSTANDING, samples=(1, 2, 8)
    )
    outstanding_writes: int = parameter(
        4, "write bursts accepted and not yet answered", low=1, high=OUTSTANDING, samples=(1, 4)
    )
    jitter: int = parameter(
        0, "most random cycles added to a read's latency; with separate data channels also before a write's first beat",
        unit="cycles", low=0, high=10_000, rtl=False, samples=(0, 0, 7, 50),
    )  # fmt: skip
    stall: int = parameter(
        0, "most random cycles before the first beat of a burst",
        unit="cycles", low=0, high=10_000, rtl=False, samples=(0, 0, 5),
    )  # fmt: skip
    seed: int = parameter(0, "seed of jitter and stall", low=0, high=2**32 - 1, rtl=False)
    data_channels: str = parameter(
        SHARED, "shared: a cycle moves a read or a write beat; separate: one of each",
        rtl=False, holds=str, choices=CHANNELS, samples=CHANNELS, later=True,
    )  # fmt: skip

    def __repr__(self) -> str:
        return short_repr(self, Memory())

    def __post_init__(self) -> None:
        check_declared(self, "memory.")
        if any(getattr(self, name) != default for name, default, _ in declared(DramFields)):
            check_dram(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Config(Sizes):
    """The configuration of one accelerator. Raises ConfigError for a machine that cannot be encoded or built.

    The array does `batch` x `block_in` x `columns` multiplications a cycle: an input vector is [batch][block_in] int8,
    a weight tile [columns][block_in] int8, an accumulator vector [batch][block_out] int32, an output vector
    [batch][block_out] int8. `columns` is block_out or, with the extension `fold`, block_out / `folds`. STORE.POST has
    `post_lanes` lanes of arithmetic, so an output vector takes batch * block_out / post_lanes passes (None: one pass).
    The sizes of FIFOs that are None follow from the bus (`fifos.py`); `fifo_bytes` returns them. If no `extensions` are
    given, the machine has those that suit its shape (`extensions.suited`). `instructions` are the custom instructions
    of its ALU.
    """

    name: str = "custom"
    batch: int = parameter(1, "input vectors that share a weight tile", low=1, high=8, power_of_two=True)
    block_in: int = parameter(16, "int8 elements of an input vector", low=4, high=128, power_of_two=True)
    block_out: int = parameter(
        16, "lanes of an output vector", low=LEAST_COLUMNS, high=128, power_of_two=True
    )
    uop_buffer_bytes: int = parameter(32 * KIB, "micro-op memory; whole micro-ops", unit="bytes")
    inp_buffer_bytes: int = parameter(32 * KIB, "input scratchpad; whole vectors", unit="bytes")
    wgt_buffer_bytes: int = parameter(256 * KIB, "weight scratchpad; whole tiles", unit="bytes")
    acc_buffer_bytes: int = parameter(128 * KIB, "accumulator scratchpad; whole vectors", unit="bytes")
    acc_banks: int = parameter(
        2, "accumulator banks, each with a read port", low=1, high=16, power_of_two=True, samples=(1, 2, 4)
    )
    par_buffer_bytes: int = parameter(2 * KIB, "parameter table of STORE.POST; whole entries", unit="bytes")
    command_queue_depth: int = parameter(
        32, "instructions in each unit's command queue",
        low=1, high=1024, samples=(1, 2, 3, 8, 32), timing=True,
    )  # fmt: skip
    token_queue_depth: int = parameter(
        64, "tokens in each token queue", low=1, high=4096, samples=(1, 2, 5, 64), timing=True
    )
    fetch_buffer_depth: int = parameter(
        32, "instructions in the fetch buffer",
        low=2, high=256, power_of_two=True, samples=(2, 4, 32), timing=True,
    )  # fmt: skip
    load_fifo_bytes: int | None = parameter(
        None, "load FIFO; left out: enough for the bus", unit="bytes", timing=True
    )
    compute_fifo_bytes: int | None = parameter(
        None, "compute FIFO; left out: enough for the bus", unit="bytes", timing=True
    )
    operand_fifo_bytes: int | None = parameter(
        None, "operand FIFO; left out: enough for the bus", unit="bytes", timing=True
    )
    store_fifo_bytes: int | None = parameter(
        None, "store FIFO; left out: enough for the bus", unit="bytes", timing=True
    )
    post_lanes: int | None = parameter(
        None,
        "lanes of STORE.POST's arithmetic, a power of two up to batch * block_out; left out: all of them",
        timing=True,
    )
    multiplier_stages: int = parameter(
        1,
        "registers that a product of the array passes; more allow a faster clock",
        unit="cycles", low=1, high=4, samples=(2, 1, 3, 4), later=True, timing=True,
    )  # fmt: skip
    chain_buffer_bytes: int = parameter(
        0,
        "chain memory: input vectors that the store unit writes; whole vectors of inputs and of outputs",
        unit="bytes", samples=(0, 0, 512, 1024), later=True,
    )  # fmt: skip
    tables: int = parameter(
        2,
        "look-up tables of STORE.POST, with the extension `table`; of two, one is loaded while one is used",
        low=1, high=8, samples=(2, 1, 3), later=True,
    )  # fmt: skip
    row_entries: int = parameter(
        128,
        "rows whose statistics are kept at a time, with the extension `rows`",
        low=8, high=256, power_of_two=True, samples=(128, 8, 32), later=True,
    )  # fmt: skip
    folds: int = parameter(
        4,
        "parts of a weight tile, one an operation, with the extension `fold`: the array has block_out / folds columns",
        low=2, high=32, power_of_two=True, samples=(4, 2), later=True,
    )  # fmt: skip
    clock_mhz: int = parameter(
        100, "clock frequency; see CLOCK_IS", unit="MHz", low=1, high=10_000, timing=True
    )
    extensions: tuple[str, ...] = ByShape()
    instructions: tuple[AluInstruction, ...] = ()
    memory: Memory = field(default_factory=Memory)

    def __repr__(self) -> str:
        return short_repr(self, Config(), leave_out=("extensions",) if self.chose_extensions else ())

    def _repr_html_(self) -> str:
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        memory = values.pop("memory")
        values |= {f"memory.{item.name}": getattr(memory, item.name) for item in dataclasses.fields(memory)}
        values["extensions"] = ", ".join(self.extensions)
        values["instructions"] = ", ".join(item.name for item in self.instructions)
        return html_table(f"configuration {self.name}", ("field", "value"), values.items())

    def __post_init__(self) -> None:
        check_fields(self)
        if self.memory.kind == DRAM:
            object.__setattr__(self, "memory", with_part(self))
        if isinstance(self.extensions, ByShape):
            object.__setattr__(self, "extensions", suited(self))
        check_machine(self)

    def fifo_bytes(self, fifo: str) -> int:
        """Size in bytes of the FIFO `fifo` (load, compute, operand or store): the configured size or, without one, a
        size that is large enough to keep the bus busy.
        """
        given = getattr(self, f"{fifo}_fifo_bytes")
        return default_bytes(self, fifo) if given is None else given

    def with_memory(self, memory: Memory) -> Config:
        """A copy of this configuration with another `memory` of equal bus width. It keeps this machine's FIFO sizes."""
        sizes: dict[str, Any] = {f"{fifo}_fifo_bytes": self.fifo_bytes(fifo) for fifo in FIFOS}
        return dataclasses.replace(self, memory=memory, **sizes)

    @property
    def clock_hertz(self) -> float:
        """Clock frequency in hertz. It is assumed: no machine has been placed and timed at it (CLOCK_IS)."""
        return self.clock_mhz * 1e6

    @property
    def extra_storage(self) -> dict[str, int]:
        """Storage in addition to the four scratchpads, in bytes by part; reports on a machine's storage list it."""
        listing = {
            "command queues": 3 * self.command_queue_depth * self.instruction_bytes,
            "fetch buffer": self.fetch_buffer_depth * self.instruction_bytes,
            "load FIFO": self.fifo_bytes("load"),
            "compute FIFO": self.fifo_bytes("compute"),
            "store FIFO": self.fifo_bytes("store"),
            "stores in flight": STORES_IN_FLIGHT * STORE_BYTES,
        }
        listing |= storage_of(self)
        if self.chain_buffer_bytes:
            listing["chain memory"] = self.chain_buffer_bytes
        return listing

    @property
    def chose_extensions(self) -> bool:
        """Whether the extensions were derived from the machine's shape, because none were given."""
        return isinstance(self.extensions, ByShape)

    # --- identity ---------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, in the structure of the TOML file.

        The result lacks fields that are None, an empty `instructions`, and fields that are declared `later` and have
        their default: such a field was added after older files had been written (parameters.py).
        """
        values = _stored(self)
        values["extensions"] = list(self.extensions)
        if self.instructions:
            values["instructions"] = [item.reference for item in self.instructions]
        values["memory"] = _stored(self.memory)
        return values

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning for each FIFO size or number of outstanding bursts that is too small to keep the bus busy."""
        return tuple(starved(self))

    @property
    def digest(self) -> str:
        """SHA-256 of all fields except the name, hexadecimal; equal machines have equal digests."""
        values = self.to_dict() | {f"{fifo}_fifo_bytes": self.fifo_bytes(fifo) for fifo in FIFOS}
        del values["name"]
        if self.instructions:
            values["instructions"] = [item.fingerprint for item in self.instructions]
        if self.post_passes == 1:
            values.pop("post_lanes", None)  # the same machine as without the field
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    @property
    def described(self) -> dict[str, str]:
        """Kind, name and digest of the machine, as tuning records store them."""
        return {"kind": "vdla", "config": self.name, "digest": self.digest}


def _stored(values: Config | Memory) -> dict[str, Any]:
    """The fields of `values` by name, without fields that are None or () and without fields that have their default and
    are declared `later` in parameters.py (they were added after older files had been written).
    """
    later = later_defaults(type(values))
    return {
        item.name: value
        for item in dataclasses.fields(values)
        if (value := getattr(values, item.name)) not in (None, ())
        and (item.name not in later or value != later[item.name])
    }


MACHINE_FIELDS = tuple(
    sorted({item.name for kind in (Config, Memory) for item in dataclasses.fields(kind)} - {"name", "memory"})
)
"""Names of all fields of a machine and of its memory, except its name, sorted."""
OTHER_TYPES = {name: item.holds for name, _, item in declared(Memory) if item.holds is not int}
"""The type of each memory field that does not hold integers."""

PRESETS = ("vta", "osdi18", "edge8", "tiny")
"""Names of the configurations that are part of the package."""


def _from_table(table: dict[str, Any], where: str) -> Config:
    values = dict(table)
    memory = values.pop("memory", {})
    if not isinstance(memory, dict):
        raise ConfigError(f"{where}: memory = {memory!r}: expected a table, [memory]")
    _check_names(values, Config, where, "")
    _check_names(memory, Memory, where, "memory.")
    if isinstance(values.get("extensions"), list):
        values["extensions"] = tuple(values["extensions"])
    try:
        if "instructions" in values:
            values["instructions"] = tuple(map(find_instruction, values["instructions"]))
        return Config(**values, memory=Memory(**memory))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _check_names(values: dict[str, Any], kind: type, where: str, prefix: str) -> None:
    known = [item.name for item in dataclasses.fields(kind) if item.name != "memory"]
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"{where}: unknown field {prefix}{name}; known are {', '.join(known)}")
        if name in ("extensions", "instructions"):
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                names = f"from {', '.join(EXTENSIONS)}" if name == "extensions" else 'as "module:NAME"'
                raise ConfigError(f"{where}: {name} = {value!r}: expected a list of names {names}")
        elif name not in ("name", *OTHER_TYPES) and (isinstance(value, bool) or not isinstance(value, int)):
            raise ConfigError(f"{where}: {prefix}{name} = {value!r}: expected an integer")


def parse_config(text: str, where: str) -> Config:
    """Reads the configuration in TOML `text`; messages call it `where`. Raises ConfigError."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{where}: not valid TOML: nested too deeply") from None
    except ValueError as error:
        # ValueError is the class of tomllib's errors and of Python's error for integers of thousands of digits.
        raise ConfigError(f"{where}: not valid TOML: {error}") from None
    return _from_table(table, where)


def load_config(name_or_path: str | Path, *, pipes: bool = True) -> Config:
    """Reads the preset of this name (`vta`, `osdi18`, `edge8`, `tiny`) or, for any other text, the TOML file at this
    path. `pipes`: whether the path may name a pipe, whose data the call waits for. Raises ConfigError.
    """
    if str(name_or_path) in PRESETS:
        text = (resources.files("vdla.isa.presets") / f"{name_or_path}.toml").read_text(encoding="utf-8")
        return parse_config(text, f"preset {name_or_path}")
    path = Path(name_or_path)
    try:
        text = read_file(path, most=MOST_TEXT_BYTES, pipes=pipes).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(
            f"{path}: {reason}; give a TOML file or one of the presets {', '.join(PRESETS)}"
        ) from None
    return parse_config(text, str(path))
