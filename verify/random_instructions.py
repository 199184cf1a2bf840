"""Random instructions, mostly within the bounds of memories; used by `random_programs.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.isa.access import Trace
from vdla.isa.alu import AluOpcode, alu_codes
from vdla.isa.array_modes import ARRAY_REGISTERS
from vdla.isa.config import Config
from vdla.isa.fields import Register, pack_fields
from vdla.isa.layout import EXTENSION_OF, INSTRUCTIONS, MATRIX, PADS
from vdla.isa.registers import registers_of
from vdla.isa.rows import LENGTH_BITS
from vdla.isa.store_stages import StoreParts
from vdla.isa.timing import alu_cycles

from .random_images import CHAINED, ENTRIES, NEAR, SIXTEEN, TABLE, UOPS, Regions
from .random_operands import combine_constants, log_uniform_int32

_SHARED = 12
MANY_LOADS = 40
"""Number of loads in sequence, larger than the number that may be in flight."""

_MOST_READS = 128
"""Largest size of the window of a random store. The window is the rectangle of accumulators that a store reduces to one
output; a store computes dozens of outputs, each from a window of its own.
"""

_MODE_REGISTERS = {item.name: item for item in ARRAY_REGISTERS if item.name != "ZERO"}
"""Registers, by name, that select a mode of the array or the number of its groups. Random programs draw each of the
legal values of these registers with the same probability.
"""

_MOST_LOOPS = 2**14 - 1
_CHAINED = 0.4
"""Share of stores that write the chain memory (on-chip buffer between layers), on machines that have one."""
_QUICK = 1000
_SHAPES = 0.2
"""Share of CONFIGs that set register FOLD, on machines with the extension `fold`. In a program without such a CONFIG,
the array's rows form one group.
"""


@dataclass(slots=True, kw_only=True)
class Source:
    """A random generator, and the state that decides which instructions are legal: the machine, its memory regions and
    the current values of its registers.

    `wide`: fields may take any value of their range, so that an instruction may take thousands of cycles. `uops_at`:
    index of a second place in the micro-op scratchpad at which the image's micro-ops are loaded; 0 if there is none.
    """

    config: Config
    rng: np.random.Generator
    regions: Regions
    trace: Trace
    wide: bool
    uops_at: int

    def number(self, limit: int, low: int = 0) -> int:
        """A random integer from `low` to `limit`, both included. If `limit` is below `low`, as happens on small
        machines, the result is `limit`.
        """
        return int(self.rng.integers(min(low, limit), limit + 1))

    def chance(self, probability: float) -> bool:
        """A random bool, True with the given probability."""
        return bool(self.rng.random() < probability)

    def any_size(self, limit: int) -> int:
        """A random integer in 1..limit; each number of bits is equally likely."""
        return min(limit, int(np.exp2(self.rng.uniform(0, np.log2(limit + 1)))))

    def wider(self, probability: float) -> bool:
        """A random bool, True with the given probability; always False unless fields may take any value (`wide`)."""
        return self.wide and self.chance(probability)


# --- instructions ---------------------------------------------------------------------------------------


def dram_base(source: Source, kind: str) -> int:
    """A random DRAM address, in elements of `kind` (kind of load: "uop", "par", "inp" ...): in the image's region for
    this kind or, except for micro-ops and parameters, sometimes in the output region.
    """
    size, regions = source.config.element_bytes(kind), source.regions
    match kind:
        case "uop":
            low, high = regions.uops, regions.uops + UOPS * size
        case "par":
            low, high = regions.parameters, regions.parameters + ENTRIES * size
        case _ if source.chance(0.35):
            low, high = regions.output, regions.end if source.chance(0.5) else regions.output + _SHARED * size
        case _:
            low, high = regions.data, regions.parameters
    if source.chance(0.15):
        # An address just below a multiple of 4096, so that the transfer crosses it.
        boundary = source.number((high - 1) // 4096, low // 4096 + 1) * 4096 if high - low > 4096 else 0
        return max(low, boundary - source.number(12, 1) * size) // size
    return source.number(max(low, high - size), low) // size


def _shape(source: Source, rows: int, columns: int) -> dict[str, int]:
    if source.wider(0.06):
        # No elements; the other fields are arbitrary.
        empty = ("x_size", "y_size")[source.number(1)]
        return {
            name: 0 if name == empty else source.any_size(SIXTEEN)
            for name in ("y_size", "x_size", "x_stride")
        }
    if source.wider(0.1):
        return {"y_size": 2, "x_size": source.number(3, 1), "x_stride": source.any_size(SIXTEEN)}
    if source.wider(0.04):
        return {"y_size": source.any_size(SIXTEEN), "x_size": 1, "x_stride": source.number(1)}
    if source.wider(0.1):
        # With one row, the stride has no effect.
        return {"y_size": 1, "x_size": source.number(columns, 1), "x_stride": source.number(SIXTEEN)}
    width = source.number(columns, 0 if source.chance(0.1) else 1)
    return {
        "y_size": source.number(rows, 0 if source.chance(0.1) else 1),
        "x_size": width,
        "x_stride": max(0, width + source.number(4, -1)),
    }


def _place(source: Source, depth: int) -> int:
    """A random index in a scratchpad of `depth` entries, often one of the first."""
    return source.number(min(depth - 1, 2 * NEAR) if source.chance(0.35) else depth - 1)


def _load(source: Source, kind: str) -> dict[str, int]:
    target = "acc" if kind == "acc8" else kind
    depth = UOPS if kind == "uop" else getattr(source.config, f"{target}_depth")
    small = kind in ("wgt", "par")
    if kind == "table":
        values = _shape(source, min(2, depth), min(2, depth))
        return {**values, "sram_base": source.number(depth - 1), "dram_base": dram_base(source, kind)}
    values = _shape(source, 2 if small else 4, 3 if small else 12)
    if source.chance(0.4) and values["x_size"] < 100 > values["y_size"]:
        most = 15 if source.wider(0.1) else 2
        values |= {name: source.number(most) for name in PADS}
    if source.chance(0.06):
        # Pads only, often a single one.
        width = {"x_size": source.number(2, 1), "x_pad_0": source.number(1), "x_pad_1": source.number(1)}
        values |= {"y_size": 0, "y_pad_0": source.number(1), "y_pad_1": source.number(2), **width}
    if not values["y_size"] * values["x_size"] and source.wider(0.5):
        return {**values, "sram_base": source.number(depth - 1), "dram_base": source.number(2**32 - 1)}
    place = _place(source, depth)
    if kind == "uop" and source.config.uop_depth > 2 * UOPS and source.chance(0.3):
        # Arbitrary micro-ops, at indices that no instruction uses.
        values["sram_base"] = source.number(source.config.uop_depth - 1, UOPS)
        region = source.regions
        end = region.end if source.chance(0.5) else region.output + _SHARED * source.config.out_bytes
        return {**values, "dram_base": source.number(end, region.output) // source.config.uop_bytes}
    if kind not in ("uop", "par") and source.chance(0.08):
        # A transfer longer than the FIFO, in one row or in adjacent rows.
        fifo = (
            source.config.fifo_bytes("load")
            if target in ("inp", "wgt")
            else source.config.fifo_bytes("compute")
        )
        count = min(depth, 2 * fifo // source.config.element_bytes(kind) + 2)
        rows = source.number(2, 1)
        values = {"y_size": rows, "x_size": -(-count // rows), "x_stride": -(-count // rows)}
        place = source.number(max(0, depth - count))
    if kind not in ("uop", "par") and source.wider(0.02):
        # A load of most of the scratchpad, in rows of one element between pads.
        pads = {name: source.number(2) for name in ("y_pad_0", "y_pad_1")}
        rows = source.number(depth - 4, depth // 2)
        values = {"y_size": rows, "x_size": 1, "x_stride": int(source.chance(0.8)), **pads}
        place = source.number(depth - rows - 4)
    if kind == "uop" and source.uops_at and source.chance(0.3):
        place = source.uops_at + source.number(UOPS - 1)
    base = dram_base(source, kind)
    if kind == "par" and values["y_size"] > 1:
        # Scales must be finite: rows end before the end of the table, because programs write arbitrary bytes after it.
        end = source.regions.parameters // source.config.par_bytes + TABLE
        room = max(0, end - base - values["x_size"])
        values["x_stride"] = min(values["x_stride"], room // (values["y_size"] - 1))
    return {**values, "sram_base": place, "dram_base": base}


def _patch(source: Source) -> dict[str, int]:
    values = _shape(source, 4, 8)
    values["x_stride"] = source.trace.registers["PATCH"]["row_bytes"] + source.number(9)
    if source.chance(0.4):
        values |= {name: source.number(2) for name in ("y_pad_0", "y_pad_1")}
    base = dram_base(source, "patch")
    if source.chance(0.2):
        # An address at the start of a bus word, so that beats are whole if rows are.
        base -= base % source.config.memory.bus_bytes
    return {**values, "sram_base": _place(source, source.config.inp_depth), "dram_base": base}


def _loops(source: Source) -> dict[str, int]:
    if source.wider(0.15):
        return _wide_loops(source)
    begin = source.number(UOPS - 8, UOPS - CHAINED if source.chance(0.4) else 0)
    begin += source.uops_at if source.chance(0.4) else 0
    return {
        "uop_bgn": begin,
        "uop_end": begin + source.number(6, -1 if begin and source.chance(0.1) else 1),
        "iter_out": source.number(4, 0 if source.chance(0.1) else 1),
        "iter_in": source.number(5, 0 if source.chance(0.1) else 1),
        **{f"{name}_factor_{loop}": source.number(6) for name in ("dst", "src") for loop in ("out", "in")},
    }


def _wide_loops(source: Source) -> dict[str, int]:
    """Random fields, by name, of the two loops of an instruction: loops without iterations, loops with many iterations,
    or loops with a few iterations whose operands are far apart.
    """
    config = source.config
    begin = (
        source.uops_at + source.number(UOPS - 1)
        if source.chance(0.7)
        else source.number(config.uop_depth - 1)
    )
    outer, inner = source.any_size(_MOST_LOOPS), source.any_size(_MOST_LOOPS)
    factors = {f"{name}_factor_{loop}": 0 for name in ("dst", "src") for loop in ("out", "in")}
    depths = {"dst": config.acc_depth, "src": min(config.inp_depth, config.acc_depth)}
    kind = min(5, source.number(8))
    match kind:
        case 0:
            loops = ((begin, source.number(begin)), outer, inner)
        case 1:
            loops = ((begin, source.number(config.uop_depth, begin)), outer, 0)
        case 2:
            loops = ((begin, source.number(config.uop_depth, begin)), 0, inner)
        case 3:
            loops = ((begin, begin + 1), outer, 1)
        case 4:
            loops = ((begin, begin + 1), 1, inner)
        case _:
            loops = ((begin, begin + source.number(2, 1)), source.number(3, 1), source.number(3, 1))
    span, outer, inner = loops
    for name, depth in depths.items():
        for loop, count in (("out", outer), ("in", inner)):
            most = depth - 1 if kind < 3 or count == 1 else depth // (2 * max(1, count))
            factors[f"{name}_factor_{loop}"] = source.any_size(most + 1) - 1 if source.chance(0.7) else 0
    return {"uop_bgn": span[0], "uop_end": span[1], "iter_out": outer, "iter_in": inner, **factors}


def _wide_tiles(source: Source, loops: dict[str, int]) -> dict[str, int]:
    """Random values, by name, of the fields wgt_factor_out and wgt_factor_in (steps of the weight index in the two
    loops of the instruction with the fields `loops`), mostly so small that the index stays inside the weight
    scratchpad.
    """
    depth = source.config.wgt_depth
    found = {}
    for loop in ("out", "in"):
        count = loops[f"iter_{loop}"]
        most = min(depth - 1, depth // (2 * max(1, count - 1))) if source.wider(0.3) else int(count < 100)
        found[f"wgt_factor_{loop}"] = source.any_size(most + 1) - 1
    return found


def matrix(source: Source) -> dict[str, int]:
    """Random fields, by name, of a GEMM, DEPTHWISE or TAPS."""
    loops = _loops(source)
    values = {
        **loops,
        **_wide_tiles(source, loops),
        "reset": int(source.chance(0.15)),
        "overwrite": int(source.chance(0.3)),
    }
    if source.config.tile_parts > 1 and source.chance(0.4):
        values |= _tile_parts(source)
    return values


def _tile_parts(source: Source) -> dict[str, int]:
    """Random fields, by name, of the inner loop of a matrix instruction, which goes over consecutive weight tiles. With
    the extension `fold`, consecutive weight tiles are the parts of one [block_out][block_in] matrix of weights. In most
    cases the products with all tiles are written to the same accumulator.
    """
    step = {
        name: source.number(1) if source.chance(0.3) else 0 for name in ("dst_factor_in", "src_factor_in")
    }
    count = source.number(2 * source.config.tile_parts, 2)
    return {"iter_in": count, **step, "wgt_factor_in": 1, "reset": 0, "overwrite": int(source.chance(0.7))}


def alu(source: Source) -> dict[str, int]:
    """Random fields, by name, of an ALU instruction."""
    loops = _loops(source)
    # If there are many operations, the opcode is one of the fastest.
    quick = loops["iter_out"] * loops["iter_in"] > _QUICK
    codes = alu_codes(source.config)
    if quick:
        cycles = [alu_cycles(source.config, code.value, True) for code in codes]
        codes = tuple(code for code, count in zip(codes, cycles, strict=True) if count == min(cycles))
    code = codes[source.number(len(codes) - 1)]
    least, most = code.operation.immediates
    return {
        **loops,
        "alu_opcode": code.value,
        "use_imm": int(quick or source.chance(0.6)),
        "imm": source.number(34, -34) if code.value == AluOpcode.SHR else source.number(most, least),
    }


def store(source: Source, post: bool) -> dict[str, int]:
    """Random fields, by name, of a STORE.POST if `post`, else of a STORE.OUT."""
    config, regions = source.config, source.regions
    values = _shape(source, 3, 8)
    values["sram_base"] = _place(source, config.acc_depth)
    if not values["y_size"] * values["x_size"] and source.wider(0.5):
        return {**values, "dram_base": source.number(2**32 - 1)}
    last = regions.end // config.out_bytes - 1
    values["dram_base"] = source.number(last, regions.output // config.out_bytes)
    if source.chance(0.45):
        values["dram_base"] = source.number(_SHARED) + regions.output // config.out_bytes
    if source.chance(0.15):
        values["dram_base"] = (regions.output + 4096) // config.out_bytes - source.number(6, 1)
    if source.chance(0.06):
        # A store longer than the FIFOs of results and of operands.
        fifo = max(config.fifo_bytes("store"), config.fifo_bytes("operand") if post else 0)
        count = 2 * fifo // config.out_bytes + 2
        values |= {"y_size": 1, "x_size": count, "x_stride": count, "sram_base": 0}
        values["dram_base"] = regions.output // config.out_bytes + source.number(5)
    if post:
        values["par_index"] = source.number(config.par_depth - 1)
        values["y_size"] = min(values["y_size"], 200)
        values["combine"] = int(source.chance(0.6))
        values["operand"] = int(values["combine"] and source.chance(0.6))
        values["multiply"] = int(values["operand"] and source.chance(0.4))
        values["swap"] = int(values["operand"] and source.chance(0.4))
        values["unsigned"] = int(source.chance(0.5))
        # Steps between parameter entries that rarely leave the table: with several rows and columns only small ones do.
        left = config.par_depth - 1 - values["par_index"]
        for name, size in (("par_by_x", values["x_size"]), ("par_by_y", values["y_size"])):
            if source.chance(0.4) and (size - 1 <= left or source.chance(0.02)):
                values[name] = 1
                left -= size - 1
        if config.chain_buffer_bytes and source.chance(_CHAINED):
            values |= to_chain(source, values)
        parts = StoreParts.of(config)
        if parts.table and source.chance(0.5):
            values["table"] = 1
            values["table_index"] = source.number(config.tables - 1 if source.chance(0.98) else 7)
        if parts.rows and source.chance(0.3):
            values["rows"] = 1
    return values


def rows(source: Source) -> dict[str, int]:
    """Random fields, by name, of a ROWS."""
    values = {name: size for name, size in _shape(source, 5, 8).items() if name != "x_stride"}
    return {**values, "sram_base": _place(source, source.config.acc_depth), "maximum": source.number(1)}


def to_chain(source: Source, values: dict[str, int]) -> dict[str, int]:
    """New values, by name, of the fields chain, y_size, x_size, x_stride and dram_base with which a STORE.POST with the
    fields `values` writes the chain memory (on-chip buffer between layers); rows and columns are reduced if they do not
    fit.
    """
    vectors = source.config.chain_buffer_bytes // source.config.out_bytes
    rows, columns, pitch = values["y_size"], min(values["x_size"], vectors), values["x_stride"]
    if (rows - 1) * pitch + columns > vectors:
        pitch = source.number(max(columns, vectors // 4))
        rows = min(rows, 1 + (vectors - columns) // pitch) if pitch else rows
    free = max(0, vectors - max(0, rows - 1) * pitch - columns)
    place = source.number(min(free, NEAR) if source.chance(0.6) else free)
    return {"chain": 1, "y_size": rows, "x_size": columns, "x_stride": pitch, "dram_base": place}


def float_bits(value: np.float32) -> int:
    """The 32 bits of a float32, as configuration registers encode it."""
    return int(value.view(np.uint32))


def _zero_point(source: Source) -> int:
    if source.chance(0.2):
        return int(log_uniform_int32(source.rng, 1)[0]) >> 16
    return source.number(127, -128)


def register_values(source: Source, name: str) -> dict[str, int]:
    """Random fields of configuration register `name`, small enough that most instructions stay in bounds."""
    number, config, parts = source.number, source.config, StoreParts.of(source.config)
    low, high = sorted((number(127, -128), number(127, -128))) if source.chance(0.5) else (-128, 127)
    match name:
        case "COMPUTE_PAD" if source.chance(0.5):
            return {"pad_value": int(log_uniform_int32(source.rng, 1)[0])}
        case "LOAD_PAD" | "COMPUTE_PAD":
            return {"pad_value": number(127, -128)}
        case "PATCH" if source.wider(0.25):
            eight = ("run", "step", "pitch", "pad_left")
            wide = {name: source.any_size(255) - source.number(1) for name in eight}
            return {**wide, "row_bytes": source.any_size(SIXTEEN), "batch_row": number(config.batch - 1)}
        case "PATCH":
            return {
                "run": number(24),
                "step": number(10),
                "pitch": number(6, 1),
                "pad_left": number(8),
                "row_bytes": number(60) if source.chance(0.8) else number(3, 1) * config.memory.bus_bytes,
                "batch_row": number(config.batch - 1),
            }
        case "ZERO":
            return {name: number(127, -128) * number(1) for name in ("inp_zero", "wgt_zero")}
        case _ if name in _MODE_REGISTERS:
            item = _MODE_REGISTERS[name]
            most = {part.name: part.maximum for part in item.fields} | dict(item.most(config))
            return {field: number(value) for field, value in most.items()}
        case "BASE" if source.wider(0.3):
            depths = {
                "acc_base": config.acc_depth,
                "inp_base": config.inp_depth,
                "wgt_base": config.wgt_depth,
            }
            return {name: source.any_size(depth) - 1 for name, depth in depths.items()}
        case "BASE":
            return {"acc_base": number(8), "inp_base": number(8), "wgt_base": number(3)}
        case "ADDRESS" if source.wider(0.15):
            return {name: source.any_size(config.acc_depth) for name in ("y_stride", "x_stride")}
        case "ADDRESS":
            return {"y_stride": number(12), "x_stride": number(4)}
        case "WINDOW" if source.chance(0.3):
            return {}
        case "WINDOW" if source.wider(0.15):
            rows = source.any_size(_MOST_READS)
            counts = {"rows_minus_1": rows - 1, "columns_minus_1": source.any_size(_MOST_READS // rows) - 1}
            strides = {name: source.any_size(SIXTEEN) for name in ("row_stride", "column_stride")}
            return {**counts, **strides, "sum": number(1)}
        case "WINDOW":
            return {
                "rows_minus_1": number(2),
                "columns_minus_1": number(2),
                "row_stride": number(9) if source.chance(0.8) else max(0, config.acc_depth - number(9, 1)),
                "column_stride": number(3),
                "sum": number(1),
            }
        case "REQUANTIZE":
            zeros = {name: _zero_point(source) for name in ("zero_point", "operand_zero_point")}
            if parts.table:
                zeros["table_zero_point"] = _zero_point(source)
            return {**zeros, "low": low, "high": high}
        case "RATIO":
            own, operand, _ = combine_constants(source.rng)
            return {"ratio_self": float_bits(own), "ratio_operand": float_bits(operand)}
        case "COMBINE":
            offset = float_bits(combine_constants(source.rng)[2])
            return {"offset": offset, "low": low, "high": high, "zero_point": _zero_point(source)}
        case "ROWS":
            far = source.chance(0.1)
            return {
                "first": number(config.row_depth - 1 if far else config.row_depth // 4),
                "look_up": number(1),
                "centre": number(1),
                "zero_point": number(127, -128) * number(1),
                "length": number((1 << LENGTH_BITS) - 1) if source.chance(0.3) else number(64),
                "epsilon": number((1 << 16) - 1) * number(1),
                "epsilon_shift": number(31) if source.chance(0.5) else number(8),
                "lanes": number(min(255, config.block_out + 1)) * number(1),
            }
        case "OPERAND" if parts.broadcast and source.chance(0.7):
            delta = number(20, -200) if source.chance(0.5) else number(-200, -1200)
            shape = {"own_stride": number(1), "repeat": number(1)}
            return {"delta": delta, "stride": number(12) if source.chance(0.7) else 1, **shape}
        case _ if source.wider(0.2):
            memory = len(source.trace.image) // config.out_bytes
            return {"delta": source.any_size(memory) * (2 * number(1) - 1)}
        case _:
            return {"delta": number(20, -200) if source.chance(0.7) else number(-200, -1200)}


def register_write(item: Register, values: dict[str, int]) -> dict[str, int]:
    """Fields, by name, of the CONFIG that writes `values` to configuration register `item`."""
    value = pack_fields(item.name, item.fields, values)
    return {"unit": int(item.unit), "register": item.index, "value": value}


def _config(source: Source) -> dict[str, int]:
    items = registers_of(source.config)
    item = items[source.number(len(items) - 1)]
    if source.config.tile_parts > 1 and source.chance(_SHAPES):
        item = next(other for other in items if other.name == "FOLD")
    return register_write(item, register_values(source, item.name))


_WEIGHTS = {
    "LOAD.INP": 4,
    "LOAD.WGT": 2,
    "LOAD.ACC": 2,
    "LOAD.ACC8": 1,
    "LOAD.UOP": 1,
    "LOAD.PAR": 4,
    "LOAD.PATCH": 3,
    "GEMM": 6,
    "DEPTHWISE": 2,
    "ALU": 3,
    "STORE.OUT": 3,
    "STORE.POST": 4,
    "CONFIG": 6,
}
_WEIGHTS |= {item.name: 2 for item in INSTRUCTIONS if item.name not in (*_WEIGHTS, "FINISH")}


def kinds_of(config: Config) -> list[str]:
    """Names of the instruction formats that the machine has, except FINISH."""
    return [name for name in _WEIGHTS if name not in EXTENSION_OF or config.has(EXTENSION_OF[name])]


def random_instruction(source: Source) -> tuple[str, dict[str, int]]:
    """Format name and fields of a random instruction that the machine has; it may access a memory out of bounds."""
    kinds = kinds_of(source.config)
    weights = np.array([_WEIGHTS[name] for name in kinds], np.float64)
    name = kinds[int(source.rng.choice(len(kinds), p=weights / weights.sum()))]
    match name:
        case "CONFIG":
            return name, _config(source)
        case _ if name in MATRIX:
            return name, matrix(source)
        case "ALU":
            return name, alu(source)
        case "STORE.OUT" | "STORE.POST":
            return name, store(source, name == "STORE.POST")
        case "ROWS":
            return name, rows(source)
        case "LOAD.PATCH":
            return name, _patch(source)
        case _:
            return name, _load(source, name.removeprefix("LOAD.").lower())
