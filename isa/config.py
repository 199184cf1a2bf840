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
from vdla.util.notebook_tables import html_table

from .errors import ConfigError
from .extensions import EXTENSION_TABLE, EXTENSIONS, SWEPT, TAPS, ByShape, suited
from .fifos import FIFO_WORDS, FIFOS, OUTSTANDING, default_bytes, least_bytes, starved
from .parameters import check_declared, is_power_of_two, later_defaults, parameter, short_repr
from .rows import FACTOR_BITS, PLANES, SHIFT_BITS, SUM_BITS, VALUE_BITS
from .timing import PATCH_WINDOW_BYTES, STORE_BYTES, STORES_IN_FLIGHT
from .widths import SRAM_BASE_BITS, instruction_bytes, uop_bytes

CLOCK_IS = "assumed"
"""Status of `clock_mhz`: no machine has been placed and timed at this clock. All output of times or rates that follow
from the clock says so.
"""

KIB = 1024

ROW_BITS = VALUE_BITS + FACTOR_BITS + SHIFT_BITS + SUM_BITS + 4
"""Bits of a row's entry, a whole number of bytes."""

LEAST_COLUMNS = 4
"""Columns of the smallest array, whether it folds or not."""

TABLE_BYTES = 256
"""Bytes of a look-up table: an int8 for every int8."""


def _index_bits(depth: int) -> int:
    """Bits of an index below `depth`."""
    return (depth - 1).bit_length()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Memory:
    """Timing of the one AXI4 memory that every unit shares; the rules are in hw/README.md.

    With `jitter` or `stall` above zero, bursts are delayed by a seeded pseudo-random number of cycles
    (`timing.memory_noise`), the same in every engine. Raises ConfigError for a value outside its range.
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
        0, "most random cycles added to a read's latency",
        unit="cycles", low=0, high=10_000, rtl=False, samples=(0, 0, 7, 50),
    )  # fmt: skip
    stall: int = parameter(
        0, "most random cycles before the first beat of a burst",
        unit="cycles", low=0, high=10_000, rtl=False, samples=(0, 0, 5),
    )  # fmt: skip
    seed: int = parameter(0, "seed of jitter and stall", low=0, high=2**32 - 1, rtl=False)

    def __repr__(self) -> str:
        return short_repr(self, Memory())

    def __post_init__(self) -> None:
        check_declared(self, "memory.")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Config:
    """One accelerator. All sizes in bytes unless named otherwise.

    `batch` x `block_in` x `columns` multiplies happen each cycle: an input vector is [batch][block_in] int8, a weight
    tile [columns][block_in] int8, an accumulator vector [batch][block_out] int32, an output vector [batch][block_out]
    int8. `columns` is block_out, or block_out / `folds` with the extension `fold`. `post_lanes` copies of STORE.POST's
    arithmetic serve an output vector in batch * block_out / post_lanes passes (None: all lanes at once). FIFOs whose
    size is None follow from the bus (`fifos.py`); `fifo_bytes` has the size of each. A machine that names no
    `extensions` has those that suit its shape (`extensions.suited`). Raises ConfigError, with the reason, for a machine
    that cannot be encoded.
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
        32, "instructions in each unit's command queue", low=1, high=1024, samples=(1, 2, 3, 8, 32)
    )
    token_queue_depth: int = parameter(
        64, "tokens in each token queue", low=1, high=4096, samples=(1, 2, 5, 64)
    )
    fetch_buffer_depth: int = parameter(
        32, "instructions in the fetch buffer", low=2, high=256, power_of_two=True, samples=(2, 4, 32)
    )
    load_fifo_bytes: int | None = parameter(None, "load FIFO; left out: enough for the bus", unit="bytes")
    compute_fifo_bytes: int | None = parameter(
        None, "compute FIFO; left out: enough for the bus", unit="bytes"
    )
    operand_fifo_bytes: int | None = parameter(
        None, "operand FIFO; left out: enough for the bus", unit="bytes"
    )
    store_fifo_bytes: int | None = parameter(None, "store FIFO; left out: enough for the bus", unit="bytes")
    post_lanes: int | None = parameter(
        None,
        "lanes of STORE.POST's arithmetic, a power of two up to batch * block_out; left out: all of them",
    )
    multiplier_stages: int = parameter(
        1,
        "registers that a product of the array passes; more allow a faster clock",
        unit="cycles", low=1, high=4, samples=(2, 1, 3, 4), later=True,
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
    clock_mhz: int = parameter(100, "clock frequency; see CLOCK_IS", unit="MHz", low=1, high=10_000)
    extensions: tuple[str, ...] = ByShape()
    memory: Memory = field(default_factory=Memory)

    def __repr__(self) -> str:
        return short_repr(self, Config(), leave_out=("extensions",) if self.chose_extensions else ())

    def _repr_html_(self) -> str:
        values = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        memory = values.pop("memory")
        values |= {f"memory.{item.name}": getattr(memory, item.name) for item in dataclasses.fields(memory)}
        values["extensions"] = ", ".join(self.extensions)
        return html_table(f"configuration {self.name}", ("field", "value"), values.items())

    def __post_init__(self) -> None:
        self._check_shape()
        self._check_chain()
        self._check_buffers()

    # --- validation -------------------------------------------------------------------------------------

    def _check_shape(self) -> None:
        if not isinstance(self.name, str) or not self.name or not self.name.isprintable():
            raise ConfigError(
                f"name = {self.name!r}: expected a string of at least one character, all printable"
            )
        check_declared(self)
        if isinstance(self.extensions, ByShape):
            object.__setattr__(self, "extensions", suited(self))
        if self.post_lanes is not None:
            self._check_post_lanes(self.post_lanes)
        unknown = [name for name in self.extensions if name not in EXTENSIONS]
        if unknown:
            raise ConfigError(f"extensions: {unknown[0]!r} is unknown; there are {', '.join(EXTENSIONS)}")
        if len(set(self.extensions)) != len(self.extensions):
            raise ConfigError("extensions: an extension is named twice")
        if "depthwise" in self.extensions and self.block_in != self.block_out and not self.has("taps"):
            raise ConfigError(
                f"extensions: depthwise needs block_in = block_out, here {self.block_in} and {self.block_out}, or "
                "taps beside it; add 'taps' to `extensions`, or leave 'depthwise' out"
            )
        if "rows" in self.extensions and self.batch != 1:
            raise ConfigError(
                f"extensions: rows needs batch = 1, here {self.batch}: a vector is of one row; leave 'rows' out of "
                "`extensions`"
            )
        if self.has("fold"):
            self._check_fold()
        for name in self.extensions:
            needed = EXTENSION_TABLE[name].needs
            if needed is not None and needed not in self.extensions:
                why = "is a part of the post-processing store" if needed == "post" else f"needs {needed}"
                raise ConfigError(
                    f"extensions: {name} {why}; add {needed!r} to `extensions`, or leave {name!r} out"
                )

    def _check_fold(self) -> None:
        if self.block_in != self.block_out:
            way_out = "make them equal"
            if self.block_in > self.block_out:
                way_out = (
                    f"an array of {self.block_in}x{self.block_out} multipliers that folds has block_out = "
                    f"{self.block_in} and folds = {self.block_in // self.block_out}"
                )
            raise ConfigError(
                f"extensions: fold needs block_in = block_out, here {self.block_in} and {self.block_out}; {way_out}, "
                "or leave 'fold' out of `extensions`"
            )
        most = self.block_out // LEAST_COLUMNS
        if self.folds > most:
            way_out = f"at most {most}" if most > 1 else "leave 'fold' out of `extensions`"
            raise ConfigError(
                f"folds = {self.folds}: leaves fewer than {LEAST_COLUMNS} of {self.block_out} columns; {way_out}"
            )

    def _check_post_lanes(self, value: object) -> None:
        most = self.batch * self.block_out
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not (is_power_of_two(value) and value <= most)
        ):
            raise ConfigError(
                f"post_lanes = {value!r}: must be a power of two from 1 to batch * block_out = {most}; "
                "leave it out for one for each lane"
            )

    def _check_chain(self) -> None:
        """Checks the chain memory. Runs before the checks of other memories, because the widths of input indices and
        micro-ops follow from it.
        """
        value, word = self.chain_buffer_bytes, self.chain_word_bytes
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(
                f"chain_buffer_bytes = {value!r}: expected a number of bytes, 0 for no chain memory"
            )
        if value == 0:
            return
        if not self.has("post"):
            raise ConfigError(
                f"chain_buffer_bytes = {value}: STORE.POST fills the chain memory; add 'post' to `extensions`, or "
                "leave chain_buffer_bytes out"
            )
        if value % word or value < 2 * word:
            near = max(2, value // word) * word
            raise ConfigError(
                f"chain_buffer_bytes = {value}: must be 0 or a multiple of {word}, the bytes of the wider of an input "
                f"and an output vector, and at least two of them; {near} and {near + word} are"
            )

    def _check_chain_indices(self) -> None:
        """The chain memory lies behind the input scratchpad, whose size is legal, within the range of `inp_base`."""
        most, word = (1 << SRAM_BASE_BITS) - self.chain_base, self.chain_word_bytes
        if self.chain_depth > most:
            room = most * self.inp_bytes // word * word
            remedy = f"at most {room} bytes" if room >= 2 * word else "use a smaller inp_buffer_bytes"
            raise ConfigError(
                f"chain_buffer_bytes = {self.chain_buffer_bytes}: {self.chain_depth} vectors from index "
                f"{self.chain_base} on cannot be addressed by {SRAM_BASE_BITS} bits; {remedy}"
            )

    @property
    def holds_positions(self) -> bool:
        """Whether input scratchpad and chain memory hold whole positions of `taps`, two at least in each bank."""
        size, sizes = self.inp_bytes * self.position_inputs, [self.inp_buffer_bytes]
        sizes += [self.chain_buffer_bytes] if self.chain_buffer_bytes else []
        return all(
            isinstance(value, int) and value >= 2 * TAPS * size and value % size == 0 for value in sizes
        )

    def _check_taps(self) -> None:
        """Checks that every bank of input vectors holds whole positions, at least two."""
        size = self.inp_bytes * self.position_inputs
        for name in ("inp", "chain"):
            value = getattr(self, f"{name}_buffer_bytes")
            if name == "chain" and value == 0:
                continue
            if value < 2 * TAPS * size:
                raise ConfigError(
                    f"{name}_buffer_bytes = {value}: taps needs at least {2 * TAPS} positions of {size} bytes there; "
                    f"use {2 * TAPS * size}, or leave 'taps' out of `extensions`"
                )
            if value % size:
                raise ConfigError(
                    f"{name}_buffer_bytes = {value}: taps needs a multiple of {size}, the bytes of a position; "
                    f"{value // size * size} is one; or leave 'taps' out of `extensions`"
                )

    def _check_buffers(self) -> None:
        bus = self.memory.bus_bytes
        for kind in ("inp", "wgt", "acc", "uop"):  # The first three memories decide the width of micro-ops.
            size, element = getattr(self, f"{kind}_buffer_bytes"), self.element_bytes(kind)
            self._check_whole(f"{kind}_buffer_bytes", element)
            if size < 2 * element:
                raise ConfigError(
                    f"{kind}_buffer_bytes = {size}: must hold at least two {kind} elements of {element} bytes"
                )
            if size // element > 1 << SRAM_BASE_BITS:
                raise ConfigError(
                    f"{kind}_buffer_bytes = {size}: {size // element} elements of {element} bytes cannot be "
                    f"addressed by the {SRAM_BASE_BITS}-bit sram_base; at most {element << SRAM_BASE_BITS} bytes"
                )
            if kind == "inp":
                self._check_chain_indices()
        if self.wgt_depth < self.tile_parts:
            raise ConfigError(
                f"wgt_buffer_bytes = {self.wgt_buffer_bytes}: with folds = {self.folds} it must hold at least so many "
                f"tiles of {self.wgt_bytes} bytes, one for each part of a vector's lanes and inputs; use "
                f"{self.tile_parts * self.wgt_bytes}, or leave 'fold' out of `extensions`"
            )
        if self.has("taps"):
            self._check_taps()
        if self.acc_banks > self.acc_depth:
            raise ConfigError(
                f"acc_banks = {self.acc_banks}: more banks than the {self.acc_depth} accumulator vectors"
            )
        self._check_whole("par_buffer_bytes", self.par_bytes)
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

    def _check_whole(self, name: str, element: int) -> None:
        """Checks that a memory holds a whole number, at least one, of elements of `element` bytes."""
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < element or value % element:
            near = max(1, value // element if isinstance(value, int) else 1) * element
            raise ConfigError(
                f"{name} = {value!r}: must be a multiple of {element}, the bytes of one element; {near} and "
                f"{near + element} are"
            )

    def _check_size(self, name: str, at_least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or not is_power_of_two(value):
            raise ConfigError(f"{name} = {value!r}: must be a power of two")
        if value < at_least:
            raise ConfigError(f"{name} = {value}: must be at least {at_least} to hold what passes through it")

    # --- derived sizes ----------------------------------------------------------------------------------

    @property
    def inp_bytes(self) -> int:
        """Bytes of one input vector, [batch][block_in] int8."""
        return self.batch * self.block_in

    @property
    def inp_step_vectors(self) -> int:
        """Most input vectors that a step of LOAD.INP writes: one, or with `wide_loads` the number of vectors in a bus
        word.

        The banks of `taps` must be able to take this many consecutive vectors, whatever the first one is: TAPS vectors
        if `position_inputs` is 1, else half the vectors in one word of each bank, as the first may lie inside a word.
        """
        if not self.has("wide_loads"):
            return 1
        banks = TAPS if self.position_inputs == 1 else TAPS * self.position_inputs // 2
        return max(1, min(self.memory.bus_bytes // self.inp_bytes, banks))

    @property
    def wgt_bytes(self) -> int:
        """Bytes of one weight tile, [columns][block_in] int8."""
        return self.columns * self.block_in

    @property
    def tile_parts(self) -> int:
        """Number of weight tiles, `folds` (1 without the extension `fold`), for a whole input vector and a whole output
        vector.
        """
        return self.folds if self.has("fold") else 1

    @property
    def whole_tile_bytes(self) -> int:
        """Bytes of the weight tiles of a whole input and a whole output vector, [block_out][block_in] int8."""
        return self.tile_parts * self.wgt_bytes

    @property
    def whole_tile_rows(self) -> int:
        """Rows of weights in the tiles of `whole_tile_bytes`."""
        return self.tile_parts * self.tile_rows

    @property
    def whole_tiles(self) -> int:
        """Number of whole tiles that the weight scratchpad holds."""
        return self.wgt_depth // self.tile_parts

    @property
    def columns(self) -> int:
        """Columns of the array: the number of weight rows that one GEMM operation multiplies with an input vector."""
        return self.block_out // self.tile_parts

    @property
    def position_inputs(self) -> int:
        """Input vectors that have as many elements as an output vector; 1 where one has them."""
        return max(1, self.block_out // self.block_in)

    @property
    def position_outputs(self) -> int:
        """Output vectors that have as many elements as an input vector; 1 where one has them."""
        return max(1, self.block_in // self.block_out)

    @property
    def tile_rows(self) -> int:
        """Rows of a weight tile for DEPTHWISE and TAPS, where a row has as many weights as the shorter of input and
        output vector.
        """
        return max(self.block_in, self.block_out) // self.tile_parts

    @property
    def swept(self) -> int:
        """Operations of a sweep that are multiplied together, limited by the multipliers of a lane."""
        return max(1, min(SWEPT, self.block_in // self.tile_parts // TAPS))

    @property
    def sweep_rows(self) -> int:
        """Rows of weights from one group of a sweep to the next.

        The rows of `swept` x TAPS positions, at least 2 x `position_outputs`: a row number then also encodes the part
        of a vector and whether the operation only holds its positions.
        """
        return max(TAPS * self.swept * self.position_inputs, 2 * self.position_outputs)

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

    @property
    def uop_bytes(self) -> int:
        """Bytes of one micro-op, 4 or 8 (widths.py)."""
        return uop_bytes(self)

    @property
    def instruction_bytes(self) -> int:
        """Bytes of one instruction, 16 or 32 (widths.py)."""
        return instruction_bytes(self)

    @property
    def instruction_words(self) -> int:
        """Words of 64 bits of one instruction, 2 or 4."""
        return self.instruction_bytes // 8

    def element_bytes(self, kind: str) -> int:
        """DRAM bytes of one element of `kind`: uop, wgt, inp, acc, out, acc8, par, patch, post or table."""
        match kind:
            case "uop":
                return self.uop_bytes
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
            case "table":
                return TABLE_BYTES
            case _:
                raise ConfigError(f"{kind!r} is no kind of element")

    @property
    def uop_depth(self) -> int:
        """Micro-ops the micro-op memory holds."""
        return self.uop_buffer_bytes // self.uop_bytes

    @property
    def inp_depth(self) -> int:
        """Vectors the input scratchpad holds."""
        return self.inp_buffer_bytes // self.inp_bytes

    @property
    def chain_depth(self) -> int:
        """Input vectors the chain memory holds; 0 without one."""
        return self.chain_buffer_bytes // self.inp_bytes

    @property
    def chain_base(self) -> int:
        """Index of the chain memory's first vector for GEMM and DEPTHWISE: the first power of two from inp_depth on.

        The upper bits of an index then distinguish the chain memory from the input scratchpad.
        """
        return 1 << _index_bits(self.inp_depth)

    @property
    def chain_word_bytes(self) -> int:
        """Bytes of a word of the chain memory: the wider of an input and an output vector."""
        return max(self.inp_bytes, self.out_bytes)

    @property
    def chain_granule(self) -> int:
        """Bytes of the narrower of an input and an output vector: every access of the chain memory touches whole
        granules.
        """
        return min(self.inp_bytes, self.out_bytes)

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
    def table_depth(self) -> int:
        """Number of tables of 256 bytes that LOAD.TABLE fills: `tables` look-up tables, then the planes of the rows'
        table; 0 without the extension.
        """
        return self.tables + PLANES * self.has("rows") if self.has("table") else 0

    @property
    def row_depth(self) -> int:
        """Number of rows whose statistics the machine stores; 0 without the extension `rows`."""
        return self.row_entries if self.has("rows") else 0

    @property
    def acc_bank_depth(self) -> int:
        """Vectors of one accumulator bank; bank = index // acc_bank_depth.

        The depth is a power of two, so that the upper bits of an index are its bank. If acc_depth is not a power of
        two, the last banks hold fewer vectors or none.
        """
        return 1 << (self.acc_index_bits - _index_bits(self.acc_banks))

    @property
    def uop_index_bits(self) -> int:
        """Width of an index into the micro-op memory."""
        return _index_bits(self.uop_depth)

    @property
    def inp_index_bits(self) -> int:
        """Width of an index into the input scratchpad and, behind it, the chain memory."""
        depth = self.chain_base + self.chain_depth if self.chain_buffer_bytes else self.inp_depth
        return _index_bits(depth)

    @property
    def wgt_index_bits(self) -> int:
        """Width of an index into the weight scratchpad."""
        return _index_bits(self.wgt_depth)

    @property
    def acc_index_bits(self) -> int:
        """Width of an index into the accumulator scratchpad."""
        return _index_bits(self.acc_depth)

    @property
    def multiplies_per_cycle(self) -> int:
        """Multiplies of the GEMM array in one cycle."""
        return self.batch * self.block_in * self.columns

    @property
    def post_passes(self) -> int:
        """Cycles that an output vector occupies the arithmetic of STORE.POST; 1 without that extension."""
        lanes = self.batch * self.block_out
        return lanes // (self.post_lanes or lanes) if self.has("post") else 1

    def fifo_bytes(self, fifo: str) -> int:
        """Bytes of the `load`, `compute`, `operand` or `store` FIFO: the configured size, or one that suffices for the
        bus.
        """
        given = getattr(self, f"{fifo}_fifo_bytes")
        return default_bytes(self, fifo) if given is None else given

    def with_memory(self, memory: Memory) -> Config:
        """A copy of this machine with another `memory` of equal bus width; FIFOs keep the sizes derived from the
        present memory.
        """
        sizes: dict[str, Any] = {f"{fifo}_fifo_bytes": self.fifo_bytes(fifo) for fifo in FIFOS}
        return dataclasses.replace(self, memory=memory, **sizes)

    @property
    def clock_hertz(self) -> float:
        """Clock frequency in hertz, see CLOCK_IS."""
        return self.clock_mhz * 1e6

    @property
    def extra_storage(self) -> dict[str, int]:
        """Storage beyond the four scratchpads, in bytes by name. Every listing of a machine's storage includes these
        entries.
        """
        listing = {
            "command queues": 3 * self.command_queue_depth * self.instruction_bytes,
            "fetch buffer": self.fetch_buffer_depth * self.instruction_bytes,
            "load FIFO": self.fifo_bytes("load"),
            "compute FIFO": self.fifo_bytes("compute"),
            "store FIFO": self.fifo_bytes("store"),
            "stores in flight": STORES_IN_FLIGHT * STORE_BYTES,
        }
        if self.has("post"):
            listing["parameter table"] = self.par_buffer_bytes
            listing["operand FIFO"] = self.fifo_bytes("operand")
        if self.has("patch"):
            listing["patch window"] = PATCH_WINDOW_BYTES
        if self.has("taps"):
            # Registers after the banks, and one element of the other vectors at each further multiplier.
            position, lanes = self.inp_bytes * self.position_inputs, self.batch * self.block_out
            listing["vectors of taps"] = (TAPS - 1) * position
            listing["vectors of taps"] += (TAPS if self.tile_rows > lanes else TAPS - 1) * lanes
        if self.has("sweep"):
            # Vectors held for the next operations, and copies at the multipliers.
            listing["vectors of sweeps"] = 2 * (self.swept - 1) * TAPS * self.batch * self.block_out
        if self.has("table"):
            # Lanes read different entries in the same cycle, so each lane has its own copy of the tables.
            listing["look-up tables"] = self.tables * TABLE_BYTES * self.out_bytes // self.post_passes
        if self.has("rows"):
            listing["table of rows"] = PLANES * TABLE_BYTES * self.block_out // self.post_passes
            # Value and factor, and a partial sum.
            listing["entries of rows"] = self.row_entries * ROW_BITS // 8
        if self.chain_buffer_bytes:
            listing["chain memory"] = self.chain_buffer_bytes
        return listing

    def has(self, extension: str) -> bool:
        """Whether the optional hardware `extension` is present."""
        return extension in self.extensions

    @property
    def chose_extensions(self) -> bool:
        """Whether the extensions were derived from the machine's shape, because the configuration names none."""
        return isinstance(self.extensions, ByShape)

    # --- identity ---------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """All fields as plain values, the shape of the TOML file.

        Fields that are None are left out, as are fields declared `later` (parameters.py) at their default.
        """
        values = _stored(self)
        values["extensions"] = list(self.extensions)
        values["memory"] = _stored(self.memory)
        return values

    @property
    def warnings(self) -> tuple[str, ...]:
        """One warning for each FIFO size or number of outstanding bursts that makes the machine slower than its bus."""
        return tuple(starved(self))

    @property
    def digest(self) -> str:
        """SHA-256 of every field but the name, in hexadecimal: equal digests mean equal machines."""
        values = self.to_dict() | {f"{fifo}_fifo_bytes": self.fifo_bytes(fifo) for fifo in FIFOS}
        del values["name"]
        if self.post_passes == 1:
            values.pop("post_lanes", None)  # explicit or default, the same machine
        return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()

    @property
    def described(self) -> dict[str, str]:
        """The machine as tuning records name it."""
        return {"kind": "vdla", "config": self.name, "digest": self.digest}


def _stored(values: Config | Memory) -> dict[str, Any]:
    """The fields of `values`, without fields that are None and without fields declared `later` at their default."""
    later = later_defaults(type(values))
    return {
        item.name: value
        for item in dataclasses.fields(values)
        if (value := getattr(values, item.name)) is not None
        and (item.name not in later or value != later[item.name])
    }


MACHINE_FIELDS = tuple(
    sorted({item.name for kind in (Config, Memory) for item in dataclasses.fields(kind)} - {"name", "memory"})
)
"""The names of the fields that describe a machine, its memory's among them."""

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
        # The ValueErrors include tomllib's own errors and Python's error for integers of thousands of digits.
        raise ConfigError(f"{where}: not valid TOML: {error}") from None
    return _from_table(table, where)


def toml_text(config: Config, *, as_given: bool = False) -> str:
    """`config` as TOML text for `load_config`. With `as_given` the extensions derived from its shape are left out;
    `load_config` derives them again.
    """
    values = config.to_dict()
    if as_given and config.chose_extensions:
        del values["extensions"]
    memory = values.pop("memory")
    lines = [f"{name} = {_toml_value(value)}" for name, value in values.items()]
    lines += ["", "[memory]", *(f"{name} = {_toml_value(value)}" for name, value in memory.items())]
    return "\n".join(lines) + "\n"


def _toml_value(value: object) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    return str(value)


def load_config(name_or_path: str | Path, *, pipes: bool = True) -> Config:
    """The configuration of a preset (`vta`, `osdi18`, `edge8`, `tiny`) or of the TOML file at a path. `pipes`: allow a
    named pipe, whose read may block. Raises ConfigError.
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
