"""The configuration: the one description from which instruction set, simulator, RTL and compiler follow.

A configuration is read from TOML (`load_config`) or named (`vta`, `osdi18`, `edge8`, `tiny`). Every derived quantity
(depths, field widths, latencies that follow from sizes) is a property here or in `timing.py` and nowhere else.
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

from .errors import ConfigError
from .fifos import FIFO_WORDS, FIFOS, OUTSTANDING, default_bytes, least_bytes, starved

EXTENSIONS = ("post", "patch", "depthwise")
"""Optional hardware beyond VTA: the post-processing store, the patch load and the depthwise array mode."""

CLOCK_IS = "assumed"
"""The rung on which `clock_mhz` stands: nobody has placed and timed a machine at it. Whatever prints or writes times or
rates that follow from the clock says so."""

KIB = 1024
_UOP_BITS = 32
_SRAM_BASE_BITS = 16


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _log2(value: int) -> int:
    return value.bit_length() - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Timing of the one AXI4 memory that every unit shares; the rules are in hw/README.md.

    `bus_bytes` is the width of one beat; `read_latency` counts cycles from an accepted read address to the
    earliest first beat; `write_latency` counts cycles from a burst's last beat to its response. With
    `jitter` or `stall` above zero, burst number i is delayed by a seeded pseudo-random number of cycles
    (0..jitter on a read's latency, 0..stall before a burst's first beat), the same in every engine.
    """

    bus_bytes: int = 8
    read_latency: int = 30
    write_latency: int = 10
    outstanding_reads: int = 8
    outstanding_writes: int = 4
    jitter: int = 0
    stall: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (_is_power_of_two(self.bus_bytes) and 8 <= self.bus_bytes <= 64):
            raise ConfigError(f"memory.bus_bytes = {self.bus_bytes}: the bus is 8, 16, 32 or 64 bytes wide")
        for name, low, high in (
            ("read_latency", 1, 10_000),
            ("write_latency", 1, 10_000),
            ("outstanding_reads", 1, OUTSTANDING),
            ("outstanding_writes", 1, OUTSTANDING),
            ("jitter", 0, 10_000),
            ("stall", 0, 10_000),
            ("seed", 0, 2**32 - 1),
        ):
            _check_range(f"memory.{name}", getattr(self, name), low, high)


def _check_range(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{name} = {value!r}: expected an integer from {low} to {high}")
    if not low <= value <= high:
        raise ConfigError(f"{name} = {value}: must lie between {low} and {high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """One accelerator. All sizes in bytes unless named otherwise.

    `batch` x `block_in` x `block_out` multiplies happen each cycle: an input vector is [batch][block_in]
    int8, a weight tile [block_out][block_in] int8, an accumulator vector [batch][block_out] int32, an output
    vector [batch][block_out] int8. `post_lanes` copies of STORE.POST's arithmetic serve an output vector in
    batch * block_out / post_lanes passes (None: all lanes at once). FIFOs whose size is None follow from the bus
    (`fifos.py`); `fifo_bytes` has the size of each. Raises ConfigError, with the reason, for a machine
    that cannot be encoded.
    """

    name: str = "custom"
    batch: int = 1
    block_in: int = 16
    block_out: int = 16
    uop_buffer_bytes: int = 32 * KIB
    inp_buffer_bytes: int = 32 * KIB
    wgt_buffer_bytes: int = 256 * KIB
    acc_buffer_bytes: int = 128 * KIB
    acc_banks: int = 2
    par_buffer_bytes: int = 2 * KIB
    command_queue_depth: int = 32
    token_queue_depth: int = 64
    fetch_buffer_depth: int = 32
    load_fifo_bytes: int | None = None
    compute_fifo_bytes: int | None = None
    operand_fifo_bytes: int | None = None
    store_fifo_bytes: int | None = None
    post_lanes: int | None = None
    clock_mhz: int = 100
    extensions: tuple[str, ...] = EXTENSIONS
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self._check_shape()
        self._check_buffers()
        self._check_fields()

    # --- validation -------------------------------------------------------------------------------------

    def _check_shape(self) -> None:
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise ConfigError(
                f"name = {self.name!r}: expected a string of at least one character, all printable"
            )
        _check_range("batch", self.batch, 1, 4)
        for name in ("block_in", "block_out"):
            _check_range(name, getattr(self, name), 4, 64)
        for name in ("batch", "block_in", "block_out", "acc_banks", "fetch_buffer_depth"):
            if not _is_power_of_two(getattr(self, name)):
                raise ConfigError(f"{name} = {getattr(self, name)}: must be a power of two")
        _check_range("acc_banks", self.acc_banks, 1, 16)
        _check_range("command_queue_depth", self.command_queue_depth, 1, 1024)
        _check_range("token_queue_depth", self.token_queue_depth, 1, 4096)
        _check_range("fetch_buffer_depth", self.fetch_buffer_depth, 2, 256)
        _check_range("clock_mhz", self.clock_mhz, 1, 10_000)
        if self.post_lanes is not None:
            self._check_post_lanes(self.post_lanes)
        unknown = [name for name in self.extensions if name not in EXTENSIONS]
        if unknown:
            raise ConfigError(f"extensions: {unknown[0]!r} is unknown; there are {', '.join(EXTENSIONS)}")
        if len(set(self.extensions)) != len(self.extensions):
            raise ConfigError("extensions: an extension is named twice")
        if "depthwise" in self.extensions and self.block_in != self.block_out:
            raise ConfigError(
                f"extensions: depthwise needs block_in = block_out, here {self.block_in} and {self.block_out}; "
                "leave 'depthwise' out of `extensions`"
            )

    def _check_post_lanes(self, value: object) -> None:
        most = self.batch * self.block_out
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not (_is_power_of_two(value) and value <= most)
        ):
            raise ConfigError(
                f"post_lanes = {value!r}: must be a power of two from 1 to batch * block_out = {most}; "
                "leave it out for one for each lane"
            )

    def _check_buffers(self) -> None:
        bus = self.memory.bus_bytes
        for kind in ("uop", "inp", "wgt", "acc"):
            size, element = getattr(self, f"{kind}_buffer_bytes"), self.element_bytes(kind)
            if isinstance(size, bool) or not isinstance(size, int) or not _is_power_of_two(size):
                raise ConfigError(f"{kind}_buffer_bytes = {size!r}: must be a power of two")
            if size < 2 * element:
                raise ConfigError(
                    f"{kind}_buffer_bytes = {size}: must hold at least two {kind} elements of {element} bytes"
                )
            if size // element > 1 << _SRAM_BASE_BITS:
                raise ConfigError(
                    f"{kind}_buffer_bytes = {size}: {size // element} elements of {element} bytes cannot be "
                    f"addressed by the {_SRAM_BASE_BITS}-bit sram_base; at most {element << _SRAM_BASE_BITS} bytes"
                )
        if self.acc_banks > self.acc_depth:
            raise ConfigError(
                f"acc_banks = {self.acc_banks}: more banks than the {self.acc_depth} accumulator vectors"
            )
        self._check_size("par_buffer_bytes", self.par_bytes)
        for fifo in FIFOS:
            name = f"{fifo}_fifo_bytes"
            if getattr(self, name) is None:
                continue
            self._check_size(name, least_bytes(self, fifo))
            if self.fifo_bytes(fifo) > FIFO_WORDS * bus:
                raise ConfigError(
                    f"{name} = {getattr(self, name)}: at most {FIFO_WORDS * bus} bytes, {FIFO_WORDS} words of the bus; "
                    f"leave it out for {default_bytes(self, fifo)}, enough for this bus"
                )

    def _check_size(self, name: str, at_least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or not _is_power_of_two(value):
            raise ConfigError(f"{name} = {value!r}: must be a power of two")
        if value < at_least:
            raise ConfigError(f"{name} = {value}: must be at least {at_least} to hold what passes through it")

    def _check_fields(self) -> None:
        bits = self.acc_index_bits + self.inp_index_bits + self.wgt_index_bits
        if bits > _UOP_BITS:
            raise ConfigError(
                f"a micro-op has {_UOP_BITS} bits but its dst, src and wgt indices need {self.acc_index_bits} + "
                f"{self.inp_index_bits} + {self.wgt_index_bits} = {bits}; make acc_, inp_ or wgt_buffer_bytes smaller"
            )
        if 2 * bits > 64:
            raise ConfigError(
                f"the six address factors of a GEMM share 64 bits but need 2 x {bits}; "
                "make acc_, inp_ or wgt_buffer_bytes smaller"
            )
        if self.uop_index_bits > 13:
            raise ConfigError(
                f"uop_buffer_bytes = {self.uop_buffer_bytes}: uop_bgn, uop_end, two loop counts and the overwrite bit "
                f"must fit in one 64-bit word, so at most {4 << 13} bytes of micro-ops"
            )
        if 2 * (self.acc_index_bits + self.inp_index_bits) > 44:
            raise ConfigError(
                f"the four address factors of an ALU instruction share the 44 bits below alu_opcode but need 2 x "
                f"({self.acc_index_bits} + {self.inp_index_bits}); make acc_buffer_bytes or inp_buffer_bytes smaller"
            )

    # --- derived sizes ----------------------------------------------------------------------------------

    @property
    def inp_bytes(self) -> int:
        """Bytes of one input vector, [batch][block_in] int8."""
        return self.batch * self.block_in

    @property
    def wgt_bytes(self) -> int:
        """Bytes of one weight tile, [block_out][block_in] int8."""
        return self.block_out * self.block_in

    @property
    def acc_bytes(self) -> int:
        """Bytes of one accumulator vector, [batch][block_out] int32."""
        return 4 * self.batch * self.block_out

    @property
    def out_bytes(self) -> int:
        """Bytes of one output vector, [batch][block_out] int8."""
        return self.batch * self.block_out

    @property
    def par_bytes(self) -> int:
        """Bytes of one parameter entry: block_out int32 biases, then block_out float32 scales."""
        return 8 * self.block_out

    def element_bytes(self, kind: str) -> int:
        """DRAM bytes of one element of `kind`: uop, wgt, inp, acc, out, acc8, par, patch or post."""
        match kind:
            case "uop":
                return 4
            case "wgt":
                return self.wgt_bytes
            case "inp":
                return self.inp_bytes
            case "acc":
                return self.acc_bytes
            case "out" | "acc8" | "post":
                return self.out_bytes
            case "par":
                return self.par_bytes
            case "patch":
                return 1
            case _:
                raise ConfigError(f"{kind!r} is no kind of element")

    @property
    def uop_depth(self) -> int:
        """Micro-ops the micro-op memory holds."""
        return self.uop_buffer_bytes // 4

    @property
    def inp_depth(self) -> int:
        """Vectors the input scratchpad holds."""
        return self.inp_buffer_bytes // self.inp_bytes

    @property
    def wgt_depth(self) -> int:
        """Tiles the weight scratchpad holds."""
        return self.wgt_buffer_bytes // self.wgt_bytes

    @property
    def acc_depth(self) -> int:
        """Vectors the accumulator scratchpad holds."""
        return self.acc_buffer_bytes // self.acc_bytes

    @property
    def par_depth(self) -> int:
        """Entries the parameter table holds; the par_index field reaches at most 64."""
        return min(self.par_buffer_bytes // self.par_bytes, 64)

    @property
    def acc_bank_depth(self) -> int:
        """Vectors of one accumulator bank; bank = index // acc_bank_depth."""
        return self.acc_depth // self.acc_banks

    @property
    def uop_index_bits(self) -> int:
        """Width of an index into the micro-op memory."""
        return _log2(self.uop_depth)

    @property
    def inp_index_bits(self) -> int:
        """Width of an index into the input scratchpad."""
        return _log2(self.inp_depth)

    @property
    def wgt_index_bits(self) -> int:
        """Width of an index into the weight scratchpad."""
        return _log2(self.wgt_depth)

    @property
    def acc_index_bits(self) -> int:
        """Width of an index into the accumulator scratchpad."""
        return _log2(self.acc_depth)

    @property
    def multiplies_per_cycle(self) -> int:
        """Multiplies of the GEMM array in one cycle."""
        return self.batch * self.block_in * self.block_out

    @property
    def post_passes(self) -> int:
        """Cycles that an output vector occupies the arithmetic of STORE.POST; 1 without that extension."""
        lanes = self.batch * self.block_out
        return lanes // (self.post_lanes or lanes) if self.has("post") else 1

    def fifo_bytes(self, fifo: str) -> int:
        """Bytes of the `load`, `compute`, `operand` or `store` FIFO: as given, or enough for the bus."""
        given = getattr(self, f"{fifo}_fifo_bytes")
        return default_bytes(self, fifo) if given is None else given

    def with_memory(self, memory: Memory) -> Config:
        """The same hardware behind another `memory` of equal bus: FIFOs keep the sizes that follow from this one's."""
        sizes: dict[str, Any] = {f"{fifo}_fifo_bytes": self.fifo_bytes(fifo) for fifo in FIFOS}
        return dataclasses.replace(self, memory=memory, **sizes)

    @property
    def clock_hertz(self) -> float:
        """Clock frequency in hertz, see CLOCK_IS."""
        return self.clock_mhz * 1e6

    @property
    def extra_storage(self) -> dict[str, int]:
        """Storage beyond the four scratchpads, in bytes by name: of any size, and listed wherever storage is."""
        listing = {
            "command queues": 3 * self.command_queue_depth * 16,
            "fetch buffer": self.fetch_buffer_depth * 16,
            "load FIFO": self.fifo_bytes("load"),
            "compute FIFO": self.fifo_bytes("compute"),
            "store FIFO": self.fifo_bytes("store"),
        }
        if self.has("post"):
            listing["parameter table"] = self.par_buffer_bytes
            listing["operand FIFO"] = self.fifo_bytes("operand")
        if self.has("patch"):
            listing["patch window"] = 256
        return listing

    def has(self, extension: str) -> bool:
        """Whether the optional hardware `extension` is present."""
        return extension in self.extensions

    # --- identity ---------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, the shape of the TOML file: one that is None is absent."""
        values = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        values["extensions"] = list(self.extensions)
        return values

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes this machine slower than its bus: one line each for FIFOs and outstanding bursts, or nothing."""
        return tuple(starved(self))

    @property
    def digest(self) -> str:
        """SHA-256 of every field but the name, in hexadecimal: equal digests mean equal machines."""
        values = self.to_dict() | {f"{fifo}_fifo_bytes": self.fifo_bytes(fifo) for fifo in FIFOS}
        del values["name"]
        if self.post_passes == 1:
            values.pop("post_lanes", None)  # spelled out or not, the same machine
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


PRESETS = ("vta", "osdi18", "edge8", "tiny")
"""Names of the configurations that ship with the package."""


def _from_table(table: dict[str, Any], where: str) -> Config:
    values = dict(table)
    memory = values.pop("memory", {})
    if not isinstance(memory, dict):
        raise ConfigError(f"{where}: memory must be a table, [memory]")
    _check_names(values, Config, where, "")
    _check_names(memory, Memory, where, "memory.")
    if isinstance(values.get("extensions"), list):
        values["extensions"] = tuple(values["extensions"])
    try:
        return Config(**values, memory=Memory(**memory))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _check_names(values: dict[str, Any], kind: type, where: str, prefix: str) -> None:
    known = [item.name for item in dataclasses.fields(kind) if item.name != "memory"]
    for name, value in values.items():
        if name not in known:
            raise ConfigError(f"{where}: unknown field {prefix}{name}; known are {', '.join(known)}")
        if name == "extensions":
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise ConfigError(f"{where}: extensions must be a list of names from {', '.join(EXTENSIONS)}")
        elif name != "name" and (isinstance(value, bool) or not isinstance(value, int)):
            raise ConfigError(f"{where}: {prefix}{name} = {value!r}: expected an integer")


def parse_config(text: str, where: str) -> Config:
    """The configuration in TOML `text`; `where` names it in messages. Raises ConfigError."""
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{where}: not valid TOML: nested too deeply") from None
    except ValueError as error:
        # tomllib's own errors are among them, and Python's over integers of thousands of digits.
        raise ConfigError(f"{where}: not valid TOML: {error}") from None
    return _from_table(table, where)


def load_config(name_or_path: str | Path) -> Config:
    """A preset by name (`vta`, `osdi18`, `edge8`, `tiny`) or a TOML file by path. Raises ConfigError."""
    if str(name_or_path) in PRESETS:
        text = (resources.files("vdla.isa.presets") / f"{name_or_path}.toml").read_text(encoding="utf-8")
        return parse_config(text, f"preset {name_or_path}")
    path = Path(name_or_path)
    try:
        text = read_file(path, most=MOST_TEXT_BYTES, pipes=True).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigError(
            f"{path}: {reason}; give a TOML file or one of the presets {', '.join(PRESETS)}"
        ) from None
    return parse_config(text, str(path))
