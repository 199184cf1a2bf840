"""The blocks of a machine's data path and their storage: the GEMM array, its extensions and its chain memory (on-chip
buffer between layers).

Reports, area and energy models read them; `extensions.py` is the table of extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from .array_modes import TAPS, modes_of, swept
from .extensions import EXTENSION_TABLE
from .rows import FACTOR_BITS, PLANES, SHIFT_BITS, SUM_BITS, VALUE_BITS
from .store_stages import TABLE_BYTES
from .timing import PATCH_WINDOW_BYTES

if TYPE_CHECKING:
    from .config import Config

ROW_BITS = VALUE_BITS + FACTOR_BITS + SHIFT_BITS + SUM_BITS + 4
"""Bits of storage for the statistics of a row (ROWS): value, factor, shift and partial sum, rounded up to
whole bytes.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of the data path, such as the GEMM array or an extension. `lanes`: number of its lanes. `multipliers`:
    number of its multipliers; `multiplier`: a text that describes one of them. `ports`: a text that describes the ports
    of its memories. `storage_bytes`: bytes of storage in registers and memories.
    """

    name: str
    lanes: int
    multipliers: int = 0
    multiplier: str = "none"
    ports: str
    storage_bytes: int = 0


def _lanes(config: Config) -> int:
    return config.batch * config.block_out


def _depthwise(config: Config) -> Block:
    lanes = _lanes(config)
    multiplier = f"none of its own: {lanes} of the array's"
    return Block(name="depthwise", lanes=lanes, multiplier=multiplier, ports="those of the array")


def _zero_points(config: Config) -> Block:
    positions = max(mode.positions for mode in modes_of(config))
    return Block(
        name="zero_points",
        lanes=positions * config.inp_bytes + config.wgt_bytes,
        multiplier="none of its own: those of the array take 9 bits x 9 bits",
        ports="those of the array",
    )


def _taps(config: Config) -> Block:
    lanes = _lanes(config)
    memories = "inp and chain memory" if config.chain_buffer_bytes else "inp"
    return Block(
        name="taps",
        lanes=lanes,
        multiplier=f"none of its own: {TAPS * lanes} of the array's",
        ports=f"those of the array; {memories} in {TAPS} banks, each with a read and an address of its own",
    )


def _sweep(config: Config) -> Block:
    lanes = _lanes(config)
    multiplier = f"none of its own: {swept(config) * TAPS * lanes} of the array's"
    return Block(name="sweep", lanes=lanes, multiplier=multiplier, ports="those of taps")


def _fold(config: Config) -> Block:
    return Block(
        name="fold",
        lanes=_lanes(config),
        multiplier=f"none of its own: the array's, in {config.folds} parts of a vector's lanes",
        ports="those of the array; the accumulator read of operations that `overwrite` behind the first input part",
    )


def _post(config: Config) -> Block:
    lanes = _lanes(config) // config.post_passes
    return Block(
        name="post",
        lanes=lanes,
        multipliers=3 * lanes,
        multiplier="float32 (24 x 24): one scales, two combine",
        ports="acc read of a bank in cycles the array leaves it free; the bus for operands",
    )


def _table(config: Config) -> Block:
    ports = "a read a lane and pass, each of a copy of its own; one write of a bus word for all copies"
    return Block(name="table", lanes=_lanes(config) // config.post_passes, ports=ports)


def _broadcast(config: Config) -> Block:
    ports = "those of the operand FIFO, whose first vector stays for a row"
    return Block(name="broadcast", lanes=_lanes(config), ports=ports)


def _rows(config: Config) -> Block:
    lanes = config.block_out // config.post_passes
    return Block(
        name="rows",
        lanes=lanes,
        multipliers=2 * lanes,
        multiplier="9 x 14 and 25 x 17; for all lanes one of 14 x 30, one of 24 x 24, and steps of division and root",
        ports="that of STORE.POST; a table read a lane and pass; entries: a read and a write each a cycle",
    )


def _patch(config: Config) -> Block:
    return Block(name="patch", lanes=config.inp_bytes, ports="inp write, shared with ordinary loads")


def _subtract(config: Config) -> Block:
    return Block(name="subtract", lanes=_lanes(config), ports="those of the ALU, whose adder it uses")


def _wide_loads(config: Config) -> Block:
    vectors = config.inp_step_vectors
    ports = f"inp write: {vectors} neighbouring vectors a cycle, each bank at an address of its own"
    return Block(name="wide_loads", lanes=vectors * config.inp_bytes, ports=ports)


BLOCKS: Mapping[str, Callable[[Config], Block]] = MappingProxyType(
    {
        "post": _post,
        "patch": _patch,
        "depthwise": _depthwise,
        "subtract": _subtract,
        "zero_points": _zero_points,
        "table": _table,
        "broadcast": _broadcast,
        "taps": _taps,
        "sweep": _sweep,
        "wide_loads": _wide_loads,
        "fold": _fold,
        "rows": _rows,
    }
)
"""For each extension, the function that returns its block of the data path, without the block's storage."""


def _post_storage(config: Config) -> dict[str, int]:
    return {"parameter table": config.par_buffer_bytes, "operand FIFO": config.fifo_bytes("operand")}


def _patch_storage(config: Config) -> dict[str, int]:
    return {"patch window": PATCH_WINDOW_BYTES}


def _table_storage(config: Config) -> dict[str, int]:
    """Storage that the extension `table` adds, in bytes by part: look-up tables, of which each lane has a copy, because
    lanes read different entries in the same cycle.
    """
    return {"look-up tables": config.tables * TABLE_BYTES * config.out_bytes // config.post_passes}


def _taps_storage(config: Config) -> dict[str, int]:
    """Storage that the extension `taps` adds, in bytes by part. Registers after the input memories hold the vectors of
    all positions (pixels) except the first. Registers in the array's rows hold the elements of these vectors that the
    row multiplies.
    """
    position, lanes = config.inp_bytes * config.position_inputs, _lanes(config)
    elements = (TAPS if config.tile_rows > lanes else TAPS - 1) * lanes
    return {"vectors of taps": (TAPS - 1) * position + elements}


def _sweep_storage(config: Config) -> dict[str, int]:
    """Storage that the extension `sweep` adds, in bytes by part: registers that keep an operation's input vectors,
    because later operations multiply them again, and copies of these registers at the multipliers.
    """
    return {"vectors of sweeps": 2 * (swept(config) - 1) * TAPS * _lanes(config)}


def _rows_storage(config: Config) -> dict[str, int]:
    """Storage that the extension `rows` (softmax and normalizations) adds, in bytes by part. The look-up table of
    instruction ROWS is stored once in each lane. An entry of ROW_BITS bits holds the statistics of one row of numbers.
    """
    return {
        "table of rows": PLANES * TABLE_BYTES * config.block_out // config.post_passes,
        "entries of rows": config.row_entries * ROW_BITS // 8,
    }


STORAGE: Mapping[str, Callable[[Config], dict[str, int]]] = MappingProxyType(
    {
        "post": _post_storage,
        "patch": _patch_storage,
        "table": _table_storage,
        "taps": _taps_storage,
        "sweep": _sweep_storage,
        "rows": _rows_storage,
    }
)
"""For each extension with storage, the function that returns its storage, in bytes by part ("parameter table" ...), for
`Config.extra_storage`.
"""


def storage_of(config: Config) -> dict[str, int]:
    """Storage of the extensions of `config`, in bytes by part ("parameter table", "patch window" ...): parts of default
    extensions first, then those of the other extensions in the order of their units.
    """
    table = {name: item for name, item in EXTENSION_TABLE.items() if name in STORAGE and config.has(name)}
    ordered = sorted(table, key=lambda name: -1 if table[name].default else table[name].unit)
    return {part: size for name in ordered for part, size in STORAGE[name](config).items()}


def _chain(config: Config) -> Block:
    return Block(
        name="chain memory",
        lanes=config.chain_word_bytes,
        ports="a write of its own for the store unit, a read of its own for the array, beside the inp read",
        storage_bytes=config.extra_storage["chain memory"],
    )


def blocks(config: Config) -> tuple[Block, ...]:
    """The blocks of the data path of `config`: the GEMM array, its extensions and its chain memory (isa/README.md)."""
    array = Block(
        name="gemm array",
        lanes=config.batch * config.columns,
        multipliers=config.multiplies_per_cycle,
        multiplier="int8 x int8",
        ports="inp read, wgt read, acc read and write (one of each a bank)",
    )
    extensions = [
        replace(
            BLOCKS[name](config), storage_bytes=sum(STORAGE[name](config).values()) if name in STORAGE else 0
        )
        for name in EXTENSION_TABLE
        if config.has(name)
    ]
    return (array, *extensions, *([_chain(config)] if config.chain_buffer_bytes else []))
