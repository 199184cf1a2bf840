"""Random sequences of related instructions; used by `random_programs.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vdla.isa.config import Config
from vdla.isa.decoding import decode_uops
from vdla.isa.layout import MATRIX
from vdla.isa.program_builder import Instruction

from .random_images import CHAINED, NEAR, UOPS
from .random_instructions import (
    MANY_LOADS,
    Source,
    alu,
    dram_base,
    kinds_of,
    matrix,
    random_instruction,
    store,
    to_chain,
)
from .random_roundings import near_ties, setting

_ENDS = 10
"""Largest number of consecutive instructions made to end in the same cycle, behind a GEMM. More of them would not fit
in the pipeline while the GEMM is in it.
"""

_ALIKE = 16
"""Largest number of consecutive stores with the same flags, more than may be in flight."""

_ROWS = 1500
"""Largest number of rows of a store."""


def random_sequence(source: Source) -> list[Instruction]:
    """One random instruction or, sometimes, several related ones; an instruction may access a memory out of bounds."""
    for item in _SEQUENCES:
        if (item.wide and not source.wide) or not item.needs(source.config):
            continue
        if source.chance(item.share):
            return item.make(source)
    return [random_instruction(source)]


def _many_loads(source: Source) -> list[Instruction]:
    """More loads than may be in flight; they write pads only, which take time but read no DRAM."""
    pads = {"y_pad_0": 15, "y_pad_1": 15, "x_size": source.number(4, 1)}
    pads["sram_base"] = source.number(4)
    return [("LOAD.INP", dict(pads)) for _ in range(MANY_LOADS)]


def _posts(source: Source, share: float) -> bool:
    """Whether a store is a STORE.POST: with probability `share` if the machine has it, else never."""
    return source.config.has("post") and source.chance(share)


def _chain(source: Source) -> list[Instruction]:
    """Instructions of the compute unit, and perhaps a store. All access the same few vectors, so that many use the
    result of the instruction before them.
    """
    config = source.config
    kinds = [
        name for name in ("LOAD.ACC", "LOAD.ACC8", "LOAD.UOP", *MATRIX, "ALU") if name in kinds_of(config)
    ]
    chain: list[Instruction] = []
    for _ in range(source.number(4, 2)):
        name = kinds[source.number(len(kinds) - 1)]
        match name:
            case _ if name in (*MATRIX, "ALU"):
                values = alu(source) if name == "ALU" else matrix(source)
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
                values["dram_base"] = source.regions.uops // config.uop_bytes + UOPS - rest
            case _:
                values = {"y_size": 1, "x_size": 2 * NEAR, "x_stride": 2 * NEAR}
                values["dram_base"] = dram_base(source, name.removeprefix("LOAD.").lower())
        chain.append((name, values))
    if source.chance(0.5):
        kind = "STORE.POST" if _posts(source, 0.6) else "STORE.OUT"
        chain.append((kind, store(source, kind == "STORE.POST") | {"sram_base": source.number(2)}))
    return chain


def _through_chain_memory(source: Source) -> list[Instruction]:
    """Mostly a store to the chain memory (on-chip buffer between layers), perhaps with an operand from DRAM; then
    matrix instructions that read vectors of the chain memory.
    """
    config, regions = source.config, source.regions
    instructions: list[Instruction] = []
    if source.chance(0.8):
        values = store(source, True)
        if not values.get("chain"):
            values |= to_chain(source, values)
        if values.get("operand"):
            # The operand's distance from the address in the chain memory, mostly large.
            size, last = config.out_bytes, values["dram_base"] + (values["y_size"] - 1) * values["x_stride"]
            last += values["x_size"]
            at = source.number(max(0, regions.end // size - last), regions.data // size)
            instructions.append(setting("OPERAND", {"delta": at - values["dram_base"]}))
        if source.chance(0.3):
            window = {"rows_minus_1": source.number(2), "columns_minus_1": source.number(2, 1)}
            instructions.append(setting("WINDOW", {**window, "row_stride": 3, "column_stride": 1}))
        instructions.append(("STORE.POST", values))
    for _ in range(source.number(3, 1)):
        instructions += chained_product(source)
    instructions.append(setting("OPERAND", {"delta": source.number(0, -200)}))
    instructions.append(setting("BASE", {"inp_base": source.number(4)}))
    return instructions


def chained_product(source: Source) -> list[Instruction]:
    """A CONFIG of register BASE and a matrix instruction that reads some or all sources from the chain memory (on-chip
    buffer between layers).
    """
    config = source.config
    kinds = [name for name in MATRIX if name in kinds_of(config)]
    name, values = kinds[source.number(len(kinds) - 1)], matrix(source)
    begin = source.number(UOPS - 3, UOPS - CHAINED)
    values |= {"uop_bgn": begin, "uop_end": begin + source.number(3, 1), "reset": 0}
    values |= {"iter_out": source.number(3, 1), "iter_in": source.number(3, 1)}
    values |= {f"{part}_factor_{loop}": source.number(2) for part in ("dst", "src") for loop in ("out", "in")}
    values |= {f"wgt_factor_{loop}": source.number(1) for loop in ("out", "in")}
    _, sources, _ = decode_uops(config, source.trace.uop[begin : values["uop_end"]])
    if source.chance(0.3):
        # Sources that alternate between input scratchpad and chain memory.
        loop, other = ("out", "in") if source.chance(0.5) else ("in", "out")
        values |= {f"iter_{loop}": 2, f"src_factor_{loop}": config.chain_base, f"src_factor_{other}": 0}
        base = 0
    else:
        most = int(sources.max()) + sum(
            (values[f"iter_{loop}"] - 1) * values[f"src_factor_{loop}"] for loop in ("out", "in")
        )
        base = config.chain_base + source.number(max(0, config.chain_depth - 1 - most))
    return [setting("BASE", {"acc_base": source.number(4), "inp_base": base}), (name, values)]


def folded_products(source: Source) -> list[Instruction]:
    """GEMMs with several numbers of row groups (register FOLD) into a few accumulators, with parts of weight tiles in
    any order; sometimes with instructions between them that ignore FOLD.
    """
    config = source.config
    others = [name for name in (*MATRIX, "ALU") if name in kinds_of(config)]
    base = {"acc_base": source.number(4), "inp_base": source.number(4)}
    base["wgt_base"] = source.number(config.tile_parts)
    instructions = [setting("BASE", base)]
    for number in range(source.number(5, 2)):
        if not number or source.chance(0.4):
            shape = source.number(config.tile_parts.bit_length() - 1)
            instructions.append(setting("FOLD", {"shape": shape}))
        name = others[source.number(len(others) - 1)] if source.chance(0.3) else "GEMM"
        values = alu(source) if name == "ALU" else matrix(source)
        begin = source.number(UOPS - 3, UOPS - CHAINED)
        values |= {"uop_bgn": begin, "uop_end": begin + source.number(3, 1)}
        values |= {"iter_out": source.number(3, 1), "iter_in": source.number(config.tile_parts, 1)}
        values |= {
            f"{part}_factor_{loop}": source.number(1) for part in ("dst", "src") for loop in ("out", "in")
        }
        values["dst_factor_in"] *= source.number(1)
        if name != "ALU":
            steps = {"wgt_factor_in": source.number(3), "wgt_factor_out": source.number(3)}
            values |= steps | {"overwrite": source.number(1), "reset": int(source.chance(0.1))}
        instructions.append((name, values))
    return instructions


def _shaped_operands(source: Source) -> list[Instruction]:
    """A store with the extension `broadcast`: its operands have their own row stride, or all vectors of a row share one
    operand; the operands are in the image's random data or in its output region.
    """
    config, regions = source.config, source.regions
    values = store(source, True) | {"combine": 1, "operand": 1}
    rows, own, repeat = values["y_size"], source.number(1), source.number(1)
    if not rows * values["x_size"]:
        return [("STORE.POST", values)]
    width = 1 if repeat else values["x_size"]
    stride = width if source.chance(0.4) else source.number(9)
    extent = max(0, rows - 1) * (stride if own else values["x_stride"]) + width
    size = config.out_bytes
    first = source.number(max(regions.data // size, regions.end // size - extent), regions.data // size)
    shape = {"own_stride": own, "repeat": repeat, "stride": stride if own else source.number(9)}
    return [
        setting("OPERAND", {"delta": first - values["dram_base"], **shape}),
        ("STORE.POST", values),
        setting("OPERAND", {"delta": source.number(0, -200)}),
    ]


def _shared_out(source: Source) -> list[Instruction]:
    """The instructions of a softmax or normalization: a load of int8 rows, their reduction (ROWS), and stores of the
    scaled elements.
    """
    config = source.config
    blocks, width = source.number(6, 1), source.number(6, 1)
    place = source.number(max(0, config.acc_depth - blocks * width))
    look_up, lanes = source.number(1), source.number(config.block_out - 1) * source.number(1)
    load = {"y_size": blocks, "x_size": width, "x_stride": width, "sram_base": place}
    load["dram_base"] = dram_base(source, "acc8")
    register = {
        "first": source.number(config.row_depth - width),
        "look_up": look_up,
        "centre": source.number(1),
        "zero_point": source.number(127, -128),
        "length": (blocks - (lanes > 0)) * config.block_out + lanes,
        "lanes": lanes,
        "epsilon": source.number(999),
        "epsilon_shift": source.number(10),
    }
    shape = {"y_size": blocks, "x_size": width, "sram_base": place}
    stored = store(source, True) | shape | {"x_stride": width, "rows": 1, "par_by_y": source.number(1)}
    return [
        ("LOAD.ACC8", load),
        setting("ADDRESS", {"y_stride": width, "x_stride": 1}),
        setting("WINDOW", {}),
        setting("ROWS", register),
        *([("ROWS", shape | {"maximum": 1})] if look_up else []),
        ("ROWS", dict(shape)),
        ("STORE.POST", stored),
    ]


def alike_stores(source: Source) -> list[Instruction]:
    """Stores of the same kind and flags, which may run in the store unit at the same time, after settings of their
    registers. In six of ten sequences all stores are small. On machines with the extension `post`, some sequences have
    LOAD.PARs between the stores.
    """
    config = source.config
    post = _posts(source, 0.7)
    kind = "STORE.POST" if post else "STORE.OUT"
    first = store(source, post) | {"operand": 0, "multiply": 0, "swap": 0}
    flags = {
        name: first.get(name, 0) for name in ("combine", "unsigned", "chain", "table", "table_index", "rows")
    }
    small, loads = source.chance(0.6), _posts(source, 0.6)
    instructions: list[Instruction] = []
    if post:
        instructions.append(setting("WINDOW", {"columns_minus_1": source.number(1), "column_stride": 1}))
        instructions.append(setting("ADDRESS", {"y_stride": 1, "x_stride": source.number(2)}))
    for _ in range(source.number(_ALIKE, 2)):
        values = {name: value for name, value in store(source, post).items() if name not in flags}
        if small:
            values |= {"y_size": source.number(2, 1), "x_size": source.number(2, 1)}
            values |= {"x_stride": source.number(4), "sram_base": source.number(NEAR)}
        if post:
            values |= flags | {"operand": 0, "multiply": 0, "swap": 0}
            if flags["chain"]:
                values |= to_chain(source, values)
        if loads and source.chance(0.4):
            entries = source.number(2, 1)
            load = {"y_size": 1, "x_size": entries, "x_stride": entries, "y_pad_0": source.number(1)}
            load |= {"dram_base": dram_base(source, "par"), "sram_base": source.number(config.par_depth - 1)}
            instructions.append(("LOAD.PAR", load))
        instructions.append((kind, values))
    return instructions


def _many_ends(source: Source) -> list[Instruction]:
    """A GEMM, followed by _ENDS // 2 to _ENDS instructions without operations, which may end in the same cycle as the
    GEMM.
    """
    kinds = [name for name in (*MATRIX, "ALU") if name in kinds_of(source.config)]
    pushes = {"push_prev": source.number(1), "push_next": source.number(1)}
    empty = [
        (kinds[source.number(len(kinds) - 1)], dict(pushes)) for _ in range(source.number(_ENDS, _ENDS // 2))
    ]
    return [("GEMM", matrix(source) | pushes), *empty]


def _many_rows(source: Source) -> list[Instruction]:
    """A store of up to _ROWS adjacent rows of one or two vectors, which together are one run of bytes."""
    config, regions = source.config, source.regions
    width = source.number(2, 1)
    rows = min(source.number(_ROWS), (regions.end - regions.output) // (width * config.out_bytes))
    kind = "STORE.POST" if _posts(source, 0.6) else "STORE.OUT"
    values = store(source, kind == "STORE.POST") | {"y_size": rows, "x_size": width, "x_stride": width}
    values |= {
        "sram_base": source.number(config.acc_depth - 2),
        "dram_base": regions.output // config.out_bytes,
    }
    return [
        setting("ADDRESS", {"y_stride": 0, "x_stride": source.number(1)}),
        setting("WINDOW", {}),
        setting("OPERAND", {"delta": 0}),
        (kind, values),
    ]


def _always(config: Config) -> bool:
    return True


def _having(extension: str) -> Callable[[Config], bool]:
    return lambda config: config.has(extension)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sequence:
    """A kind of sequence, an entry of `_SEQUENCES`. `share`: probability that a sequence of this kind is made if none
    of an earlier kind was. `make`: function that makes the sequence. `needs`: whether a machine can run it. `wide`: the
    kind is only for programs whose fields may take any value.
    """

    share: float
    make: Callable[[Source], list[Instruction]]
    needs: Callable[[Config], bool] = _always
    wide: bool = False


_SEQUENCES = (
    _Sequence(share=0.02, make=_many_loads),
    _Sequence(share=0.15, make=_through_chain_memory, needs=lambda config: config.chain_buffer_bytes > 0),
    _Sequence(share=0.12, make=_shaped_operands, needs=_having("broadcast")),
    _Sequence(share=0.1, make=_shared_out, needs=_having("rows")),
    _Sequence(share=0.15, make=folded_products, needs=_having("fold")),
    _Sequence(share=0.08, make=alike_stores),
    _Sequence(share=0.12, make=_chain),
    _Sequence(share=0.06, make=near_ties, needs=_having("post")),
    _Sequence(share=0.02, make=_many_rows, wide=True),
    _Sequence(share=0.015, make=_many_ends),
)
"""Kinds of sequences, in the order in which `random_sequence` tries them."""
