"""Random instructions that mostly stay in bounds, and the DRAM image they work on; see `random_programs.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .access import Trace
from .config import Config
from .layout import EXTENSION_OF, REGISTERS, encode_uops, pack_fields, uop_fields
from .scratchpads import random_parameters

UOPS = 64
"""Micro-ops that lie ready in the image, and the part of micro-op memory that random programs use."""

ENTRIES = 8
"""Places where a parameter load may start; it reaches at most 10 entries further, all of them valid."""

CHAINED = 16
"""The last micro-ops work on the first few vectors, so that results are used a few operations after they are made."""

_TABLE = 3 * ENTRIES
_NEAR = 4
_SHARED = 12
MANY_LOADS = 40
"""More loads than may be in flight."""


@dataclass(slots=True, kw_only=True)
class Regions:
    """Byte addresses of the parts of the image; micro-ops and parameters lie across a multiple of 4096."""

    uops: int
    data: int
    parameters: int
    output: int
    end: int


@dataclass(slots=True, kw_only=True)
class Source:
    """Where random numbers come from and what they must fit: the machine, its image and its registers by now."""

    config: Config
    rng: np.random.Generator
    regions: Regions
    trace: Trace

    def number(self, limit: int, low: int = 0) -> int:
        """A random integer in low..limit, ends included."""
        return int(self.rng.integers(low, limit + 1))

    def chance(self, probability: float) -> bool:
        """True with this probability."""
        return bool(self.rng.random() < probability)


# --- the image ------------------------------------------------------------------------------------------


def _page(size: int) -> int:
    return -(-size // 4096) * 4096


def random_image(config: Config, rng: np.random.Generator) -> tuple[np.ndarray, Regions]:
    """A DRAM image (uint8) with micro-ops and parameters in place, random bytes elsewhere."""
    boundary = 4096
    uops = boundary - 2 * UOPS
    data = 2 * boundary
    size = 2 * boundary + _page(max(3 * config.load_fifo_bytes, 12 * config.wgt_bytes, 40 * config.acc_bytes))
    half = _TABLE // 3 * config.par_bytes
    parameters = _page(data + size + half) - half
    output = _page(parameters + _TABLE * config.par_bytes)
    end = output + boundary + _page(max(160 * config.out_bytes, 3 * config.store_fifo_bytes))
    image = rng.integers(0, 256, end, dtype=np.uint8)
    limits = (config.acc_depth // 2, config.inp_depth // 2, config.wgt_depth // 2)
    columns = [rng.integers(0, limit, UOPS) for limit in limits]
    for column in columns:
        column[-CHAINED:] %= _NEAR
    if rng.random() < 0.3:
        # As ALU operands: both indices are accumulators.
        columns[1] = np.minimum(columns[1], config.acc_depth // 2 - 1)
    assert all(column.max() <= item.maximum for item, column in zip(uop_fields(config), columns, strict=True))
    image[uops : uops + 4 * UOPS] = encode_uops(config, *columns).view(np.uint8)
    table = random_parameters(rng, _TABLE, config.block_out)
    image[parameters : parameters + table.nbytes] = table.reshape(-1).view(np.uint8)
    return image, Regions(uops=uops, data=data, parameters=parameters, output=output, end=end)


# --- instructions ---------------------------------------------------------------------------------------


def _dram_base(source: Source, kind: str) -> int:
    """A random element address in the region that fits `kind`; now and then among the outputs."""
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
        # Just below a multiple of 4096, so that the transfer crosses it.
        boundary = source.number((high - 1) // 4096, low // 4096 + 1) * 4096 if high - low > 4096 else 0
        return max(low, boundary - source.number(12, 1) * size) // size
    return source.number(max(low, high - size), low) // size


def _shape(source: Source, rows: int, columns: int) -> dict[str, int]:
    width = source.number(columns, 0 if source.chance(0.1) else 1)
    return {
        "y_size": source.number(rows, 0 if source.chance(0.1) else 1),
        "x_size": width,
        "x_stride": max(0, width + source.number(4, -1)),
    }


def _place(source: Source, depth: int) -> int:
    """A scratchpad index, often one of the first few."""
    return source.number(min(depth - 1, 2 * _NEAR) if source.chance(0.35) else depth - 1)


def _load(source: Source, kind: str) -> dict[str, int]:
    target = "acc" if kind == "acc8" else kind
    depth = UOPS if kind == "uop" else getattr(source.config, f"{target}_depth")
    small = kind in ("wgt", "par")
    values = _shape(source, 2 if small else 4, 3 if small else 12)
    if source.chance(0.4):
        values |= {name: source.number(2) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    place = _place(source, depth)
    if kind == "uop" and source.config.uop_depth > 2 * UOPS and source.chance(0.3):
        # Any words at all, where no instruction uses them.
        values["sram_base"] = source.number(source.config.uop_depth - 1, UOPS)
        return {**values, "dram_base": source.number(source.regions.end, source.regions.output) // 4}
    if kind not in ("uop", "par") and source.chance(0.08):
        # Longer than the FIFO, in one run or in rows that touch.
        fifo = source.config.load_fifo_bytes if target in ("inp", "wgt") else source.config.compute_fifo_bytes
        count = min(depth, 2 * fifo // source.config.element_bytes(kind) + 2)
        rows = source.number(2, 1)
        values = {"y_size": rows, "x_size": -(-count // rows), "x_stride": -(-count // rows)}
        place = source.number(max(0, depth - count))
    return {**values, "sram_base": place, "dram_base": _dram_base(source, kind)}


def _patch(source: Source) -> dict[str, int]:
    values = _shape(source, 4, 8)
    values["x_stride"] = source.trace.registers["PATCH"]["row_bytes"] + source.number(9)
    if source.chance(0.4):
        values |= {name: source.number(2) for name in ("y_pad_0", "y_pad_1")}
    return {
        **values,
        "sram_base": _place(source, source.config.inp_depth),
        "dram_base": _dram_base(source, "patch"),
    }


def _loops(source: Source) -> dict[str, int]:
    begin = source.number(UOPS - 8, UOPS - CHAINED if source.chance(0.4) else 0)
    return {
        "uop_bgn": begin,
        "uop_end": begin + source.number(6, -1 if begin and source.chance(0.1) else 1),
        "iter_out": source.number(4, 0 if source.chance(0.1) else 1),
        "iter_in": source.number(5, 0 if source.chance(0.1) else 1),
        **{f"{name}_factor_{loop}": source.number(6) for name in ("dst", "src") for loop in ("out", "in")},
    }


def _matrix(source: Source) -> dict[str, int]:
    return {
        **_loops(source),
        "wgt_factor_out": source.number(1),
        "wgt_factor_in": source.number(1),
        "reset": int(source.chance(0.15)),
        "overwrite": int(source.chance(0.3)),
    }


def _alu(source: Source) -> dict[str, int]:
    opcode = source.number(4)
    return {
        **_loops(source),
        "alu_opcode": opcode,
        "use_imm": int(source.chance(0.6)),
        "imm": source.number(34, -34) if opcode == 3 else source.number(2**15 - 1, -(2**15)),
    }


def _store(source: Source, post: bool) -> dict[str, int]:
    config, regions = source.config, source.regions
    values = _shape(source, 3, 8)
    values["sram_base"] = _place(source, config.acc_depth)
    last = regions.end // config.out_bytes - 1
    values["dram_base"] = source.number(last, regions.output // config.out_bytes)
    if source.chance(0.45):
        values["dram_base"] = source.number(_SHARED) + regions.output // config.out_bytes
    if source.chance(0.15):
        values["dram_base"] = (regions.output + 4096) // config.out_bytes - source.number(6, 1)
    if source.chance(0.06):
        # Longer than the FIFOs of results and of operands.
        fifo = max(config.store_fifo_bytes, config.operand_fifo_bytes if post else 0)
        count = 2 * fifo // config.out_bytes + 2
        values |= {"y_size": 1, "x_size": count, "x_stride": count, "sram_base": 0}
        values["dram_base"] = regions.output // config.out_bytes + source.number(5)
    if post:
        values["par_index"] = source.number(config.par_depth - 1)
        values["combine"] = int(source.chance(0.6))
        values["operand"] = int(values["combine"] and source.chance(0.6))
        values["multiply"] = int(values["operand"] and source.chance(0.4))
        values["swap"] = int(values["operand"] and source.chance(0.4))
        values["unsigned"] = int(source.chance(0.5))
    return values


def _float_bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def _register_values(source: Source, name: str) -> dict[str, int]:
    """Random fields of a configuration register, small enough that instructions often stay in bounds."""
    number, config = source.number, source.config
    low, high = sorted((number(127, -128), number(127, -128)))
    match name:
        case "LOAD_PAD" | "COMPUTE_PAD":
            return {"pad_value": number(127, -128)}
        case "PATCH":
            return {
                "run": number(24, 1),
                "step": number(10),
                "pitch": number(6, 1),
                "pad_left": number(8),
                "row_bytes": number(60),
                "batch_row": number(config.batch - 1),
            }
        case "BASE":
            return {"acc_base": number(8), "inp_base": number(8), "wgt_base": number(3)}
        case "ADDRESS":
            return {"y_stride": number(12), "x_stride": number(4)}
        case "WINDOW" if source.chance(0.3):
            return {}
        case "WINDOW":
            return {
                "rows_minus_1": number(2),
                "columns_minus_1": number(2),
                "row_stride": number(9) if source.chance(0.8) else config.acc_depth - number(9, 1),
                "column_stride": number(3),
                "sum": number(1),
            }
        case "REQUANTIZE":
            zeros = {"zero_point": number(127, -128), "operand_zero_point": number(127, -128)}
            return {**zeros, "low": low, "high": high}
        case "RATIO":
            bits = [_float_bits(float(np.exp2(source.rng.uniform(-6, 3)))) for _ in range(2)]
            return {"ratio_self": bits[0], "ratio_operand": bits[1]}
        case "COMBINE":
            offset = _float_bits(float(source.rng.uniform(-300, 300)))
            return {"offset": offset, "low": low, "high": high, "zero_point": number(127, -128)}
        case _:
            return {"delta": number(20, -200) if source.chance(0.7) else number(-200, -1200)}


def _config(source: Source) -> dict[str, int]:
    item = REGISTERS[source.number(len(REGISTERS) - 1)]
    value = pack_fields(item.name, item.fields, _register_values(source, item.name))
    return {"unit": int(item.unit), "register": item.index, "value": value}


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


def _kinds(config: Config) -> list[str]:
    return [name for name in _WEIGHTS if name not in EXTENSION_OF or config.has(EXTENSION_OF[name])]


def random_instruction(source: Source) -> tuple[str, dict[str, int]]:
    """Format name and fields of an instruction that the machine has; it may still leave a memory."""
    kinds = _kinds(source.config)
    weights = np.array([_WEIGHTS[name] for name in kinds], np.float64)
    name = kinds[int(source.rng.choice(len(kinds), p=weights / weights.sum()))]
    match name:
        case "CONFIG":
            return name, _config(source)
        case "GEMM" | "DEPTHWISE":
            return name, _matrix(source)
        case "ALU":
            return name, _alu(source)
        case "STORE.OUT" | "STORE.POST":
            return name, _store(source, name == "STORE.POST")
        case "LOAD.PATCH":
            return name, _patch(source)
        case _:
            return name, _load(source, name.removeprefix("LOAD.").lower())


def random_sequence(source: Source) -> list[tuple[str, dict[str, int]]]:
    """One random instruction or, now and then, several that belong together; any may leave a memory."""
    if source.chance(0.02):
        # More loads in flight than the load unit holds: pads need no memory, only time.
        pads = {"y_pad_0": 15, "y_pad_1": 15, "x_size": source.number(4, 1)}
        pads["sram_base"] = source.number(4)
        return [("LOAD.INP", dict(pads)) for _ in range(MANY_LOADS)]
    if source.chance(0.12):
        return _chain(source)
    return [random_instruction(source)]


def _chain(source: Source) -> list[tuple[str, dict[str, int]]]:
    """Instructions of the compute unit, and perhaps a store, that use at once what the one before them wrote."""
    config = source.config
    kinds = [
        name
        for name in ("LOAD.ACC", "LOAD.ACC8", "LOAD.UOP", "GEMM", "DEPTHWISE", "ALU")
        if name in _kinds(config)
    ]
    chain: list[tuple[str, dict[str, int]]] = []
    for _ in range(source.number(4, 2)):
        name = kinds[source.number(len(kinds) - 1)]
        match name:
            case "GEMM" | "DEPTHWISE" | "ALU":
                values = _alu(source) if name == "ALU" else _matrix(source)
                begin = source.number(UOPS - 3, UOPS - CHAINED)
                values |= {"uop_bgn": begin, "uop_end": begin + source.number(3, 1)}
                values |= {
                    f"{part}_factor_{loop}": source.number(1)
                    for part in ("dst", "src")
                    for loop in ("out", "in")
                }
            case "LOAD.UOP":
                rest = source.number(CHAINED, 1)
                values = {"y_size": 1, "x_size": rest, "x_stride": rest, "sram_base": UOPS - rest}
                values["dram_base"] = source.regions.uops // 4 + UOPS - rest
            case _:
                values = {"y_size": 1, "x_size": 2 * _NEAR, "x_stride": 2 * _NEAR}
                values["dram_base"] = _dram_base(source, name.removeprefix("LOAD.").lower())
        chain.append((name, values))
    if source.chance(0.5):
        store = "STORE.POST" if config.has("post") and source.chance(0.6) else "STORE.OUT"
        chain.append((store, _store(source, store == "STORE.POST") | {"sram_base": source.number(2)}))
    return chain
