"""Features of a machine (accelerator configuration), computed from its fields, that predict the area and the longest
path of each module of its RTL.

The quantities of a module follow from its Verilog: register bits, bits that pass a multiplexer, products, bits of adder
trees, logarithms for counters and buffer trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vdla.isa.array_modes import SWEEP_MODE, TAPS
from vdla.isa.array_shape import ArrayShape
from vdla.isa.config import Config
from vdla.isa.extensions import EXTENSIONS

from .memories import Memory

_SUM_BITS = 16
"""Width in bits of one product in the array, an operand of its adder tree."""
_CUTTER = ("one", "bus log", "bus")
_REQUESTS = ("one", "bus log", "words log")
MEMORY_BITS = ("own register bits", "own mux bits")
"""Names of two features of a module: the number of bits of its memories that are flip-flops, and the number of bits of
the read multiplexers of these memories. The area per bit is the same in every module.
"""
MODE_REGISTERS = ("taps position bits", "taps lane bits", "sweep lane bits", "sweep row bits")
"""Names of the features of the array that count bits of registers for the modes of instruction TAPS."""
_QUEUE = ("one", "instruction bits", "depth log", *MEMORY_BITS)
_FIFO = ("one", "bus bits", "words log", *MEMORY_BITS)

MODULES: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "": ("one", ("one", "acc index", "inp index", "wgt index")),
        "compute": (
            "one",
            (
                "one", "acc bits", "uop bits", "instruction bits", "uop index", "acc index", "zero points", "taps",
                "rows", "fold",
            ),
        ),
        "compute.accumulators": (
            "one", ("one", "bank bits", "bank select bits", "acc bits", "acc index", *MEMORY_BITS),
        ),
        "compute.ends": ("one", ("one", "token log", "instruction words", "array stages")),
        "compute.issue": ("one", ("one",)),
        "compute.loader": (
            "one",
            ("one", "acc bits", "bus bits", "acc step bits", "acc byte lane bits", "uop bits", "acc parts", "bus log"),
        ),
        "compute.loader.fifo": ("one", _FIFO),
        "compute.loader.requests": ("one", _REQUESTS),
        "compute.loader.requests.cutter": ("one", _CUTTER),
        "compute.loader.requests.cutter.product": ("one", ("one",)),
        "compute.loader.writer": (
            "one",
            (
                "one", "bus bits", "bus shift bits", "acc step bits", "acc step shift bits", "acc parts log",
                "acc place bits",
            ),
        ),
        "compute.loader.writer.columns": ("one", ("one",)),
        "compute.loader.writer.rows": ("one", ("one",)),
        "compute.operations": (
            "one",
            ("one", "acc index", "inp index", "wgt index", "uop index", "depthwise", "instruction words", "rows"),
        ),
        "compute.pipeline": (
            "one",
            (
                "one", "acc index", "inp index", "wgt index", "uop bits", "lanes", "array slot bits", "depthwise lanes",
                "subtract lanes", "acc bits", "chain", "chain inp bits", "zero points", "taps", "taps inp bits",
                "taps chain inp bits", "fold parts",
            ),
        ),
        "compute.pipeline.accumulator_lane": ("lanes", ("one", "input log", "subtract", "zero points")),
        "compute.pipeline.accumulator_lane.alu_lane": ("lanes", ("one", "subtract")),
        "compute.pipeline.array": (
            "one",
            (
                "one", "inp bits", "tile bits", "depthwise tile bits", "depthwise rows", "vector load bits",
                "zero inp bits", "zero tile bits", "taps position bits", "taps tile bits", "taps lane bits",
                "taps part bits", "zero taps position bits", "sweep lane bits", "sweep row bits", "sweep choice bits",
                "fold inp bits",
            ),
        ),
        "compute.pipeline.array.array_row": (
            "rows", ("one", "row bits", "batch", "row load bits", "zero row bits"),
        ),
        "compute.pipeline.array.array_row.array_column": (
            "columns",
            (
                "one", "row bits", "tree bits", "stage bits", "depthwise row bits", "stages row bits", "zero row bits",
                "fold mux bits", "fold register bits",
            ),
        ),
        "chain": ("chain", ("one", "chain word bits", "chain index", "taps", "taps inp bits", *MEMORY_BITS)),
        "control": ("one", ("one", "acc index", "post", "zero points", "taps", "table", "broadcast", "rows")),
        "counters": ("one", ("one", "post")),
        "fetch": (
            "one",
            (
                "one", "bus bits", "instruction bits", "depth log", "fetch banks", *MEMORY_BITS,
            ),
        ),
        "fetch.compute_queue": ("one", _QUEUE),
        "fetch.load_queue": ("one", _QUEUE),
        "fetch.store_queue": ("one", _QUEUE),
        "inp": (
            "one",
            ("one", "inp bits", "inp index", "taps", "taps position bits", "wide slot bits", *MEMORY_BITS),
        ),
        "wgt": ("one", ("one", "tile bits", "wgt index", "tile parts", *MEMORY_BITS)),
        "load": (
            "one",
            (
                "one", "bus bits", "bus log", "inp bits", "tile step bits", "tile parts", "inp parts", "patch",
                "patch inp bits", "patch row bits", "token log", "inp index", "wgt index",
            ),
        ),
        "load.element_jobs": ("one", ("one", "bus log", "patch")),
        "load.elements": (
            "one",
            (
                "one", "bus bits", "bus shift bits", "tile step bits", "tile step shift bits", "inp step bits",
                "tile parts log", "inp parts log", "inp place bits", "tile place bits",
            ),
        ),
        "load.elements.columns": ("one", ("one", "wide loads")),
        "load.elements.rows": ("one", ("one",)),
        "load.fifo": ("one", _FIFO),
        "load.issue": ("one", ("one",)),
        "load.patch_jobs": ("patch", ("one", "bus log")),
        "load.patches": (
            "patch",
            (
                "one", "bus bits", "window bits", "window shift bits", "row bits", "row shift bits", "block_in",
                "bus log", "input log", *MEMORY_BITS,
            ),
        ),
        "load.patches.rows": ("patch", ("one",)),
        "load.product": ("patch", ("one",)),
        "load.requests": ("one", _REQUESTS),
        "load.requests.cutter": ("one", _CUTTER),
        "load.requests.cutter.product": ("one", ("one",)),
        "memory_port": ("one", ("one", "bus bits", "reads log", "writes log", "reads", "post", "bus log")),
        "store": (
            "one",
            (
                "one", "post", "post out bits", "post acc bits", "post bus bits", "post half bits", "token log",
                "acc index", "chain", "chain out bits", "chain index", "table", "table out bits", "broadcast",
                "broadcast out bits", "rows", "rows out bits",
            ),
        ),
        "store.in_flight": ("one", ("one", "post")),
        "store.issue": ("one", ("one",)),
        "store.jobs": ("one", ("one", "chain")),
        "store.jobs.queue": ("one", ("one", "chain")),
        "store.loader": (
            "post",
            (
                "one", "bus bits", "bus shift bits", "par step bits", "par step shift bits", "par parts log",
                "par place bits", "table",
            ),
        ),
        "store.loader.columns": ("post", ("one",)),
        "store.loader.rows": ("post", ("one",)),
        "store.operands": (
            "post",
            ("one", "bus bits", "out bits", "words log", "narrow mux bits", "wide mux bits", *MEMORY_BITS),
        ),
        "store.pipeline": (
            "post",
            (
                "one", "acc bits", "out bits", "passes acc bits", "passes out bits", "pass lane bits",
                "half bits", "passes half mux bits", "passes log", "table", "table out bits", "rows",
                "rows out bits", "rows pass lanes", *MEMORY_BITS,
            ),
        ),
        "store.pipeline.constants": ("post", ("one",)),
        "store.pipeline.reduction_lane": ("post all lanes", ("one",)),
        "store.pipeline.requantize_lane": ("post lanes", ("one",)),
        "store.pipeline.stage_b_lane": ("post lanes", ("one",)),
        "store.pipeline.stage_b_lane.stages": ("post lanes", ("one",)),
        "store.reader": ("one", ("one", "acc index", "post", "capacity log", "bus log", "patch")),
        "store.requests": ("post", _REQUESTS),
        "store.requests.cutter": ("post", _CUTTER),
        "store.requests.cutter.product": ("post", ("one",)),
        "store.pipeline.row_lane": ("row lanes", ("one", "bus bits", "bus log")),
        "store.row_entries": ("row statistics", ("one", "rows pass lanes", "row index", *MEMORY_BITS)),
        "store.row_entries.factors_of_rows": ("row statistics", ("one",)),
        "store.tables": ("table", ("one",)),
        "store.tables.table_lane": ("table lanes", ("one", "bus bits", "bus log")),
        "store.writer": (
            "one",
            (
                "one", "out bits", "bus bits", "narrow places", "narrow shift bits", "wide mux bits", "capacity log",
                "post", "bus log", "narrow capacity", "narrow choice bits", *MEMORY_BITS,
            ),
        ),
        "store.writer.bursts": ("one", ("one", "writes log", *MEMORY_BITS)),
        "store.writer.cutter": ("one", _CUTTER),
        "store.writer.cutter.product": ("one", ("one",)),
        "tokens": ("six", ("one", "token log")),
    }
)  # fmt: skip
"""For each module of the RTL: the key under which `counts_of` has the number of its instances, and the names of the
features that predict the area of one instance. All instances of a module have the same area.
"""

PATHS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "compute.pipeline.array": (
            "one",
            ("one", "operand access", "chain before operand", "depthwise", "zero points", "taps"),
        ),
        "store.pipeline.stage_b_lane.stages": ("post", ("one", "post copies log")),
        "load.requests.cutter.product": ("one", ("one",)),
        "load.requests.cutter": ("one", ("one", "bus log")),
        "store.pipeline.requantize_lane": ("post", ("one", "half access")),
        "store.row_entries": ("row statistics", ("one",)),
        "store.row_entries.factors_of_rows": ("row statistics", ("one",)),
        "store.pipeline.row_lane": ("row statistics", ("one",)),
        "store.pipeline.reduction_lane": ("post", ("one", "banks log", "lanes log")),
        "store.pipeline": ("post", ("one", "banks log", "passes log", "half access")),
        "compute.pipeline": ("one", ("one", "uop access", "acc index")),
        "compute.pipeline.accumulator_lane": ("one", ("one", "input log", "lanes log")),
        "compute.pipeline.accumulator_lane.alu_lane": ("one", ("one", "subtract")),
        "compute.pipeline.array.array_row.array_column": (
            "one",
            ("one", "input log", "batch", "depthwise", "zero points"),
        ),
        "compute.accumulators": ("one", ("one", "bank access", "banks log")),
        "counters": ("one", ("one", "post")),
        "fetch": ("one", ("one", "fetch log", "bus log")),
        "load.fifo": ("one", ("one", "load FIFO access")),
        "load.elements": ("one", ("one", "load FIFO access", "bus log")),
        "compute.loader.fifo": ("one", ("one", "compute FIFO access")),
        "store.operands": ("post", ("one", "operand FIFO access", "bus log")),
        "store.writer": ("one", ("one", "store FIFO access", "bus log", "capacity log")),
    }
)
"""Timing paths that may be the longest one of a machine, by the RTL module in which the path ends. Each value is a pair
(key, features). `counts_of` gives 0 under this key for machines that do not have the path. The features, by name,
predict the delay of the path.
"""


def log2(value: float) -> float:
    """log2 of `value`, rounded up to an integer: the number of bits of an index into `value` entries."""
    return float((int(value) - 1).bit_length())


def _extensions(config: Config) -> dict[str, float]:
    """1.0 for each extension that the machine has, 0.0 for the others, by name."""
    return {name: float(config.has(name)) for name in EXTENSIONS}


def counts_of(config: Config) -> dict[str, float]:
    """For each key in the rows of MODULES and PATHS: the number of instances of this hardware on a machine, or 0 if the
    machine lacks it.
    """
    lanes, there = config.batch * config.block_out, _extensions(config)
    passed = lanes / config.post_passes
    return {
        "one": 1.0,
        "six": 6.0,
        "lanes": float(lanes),
        "rows": float(config.columns),
        "columns": float(config.batch * config.columns),
        "post": there["post"],
        "table": there["table"],
        "table lanes": there["table"] * passed,
        "row statistics": there["rows"],
        "row lanes": there["rows"] * passed,
        "patch": there["patch"],
        "chain": float(config.chain_buffer_bytes > 0),
        "post all lanes": there["post"] * lanes,
        "post lanes": there["post"] * passed,
    }


def features_of(config: Config) -> dict[str, float]:
    """Value of every feature by name, except the features that differ from module to module (`own_features`) and access
    times (`access_features`).
    """
    lanes, bus, there = config.batch * config.block_out, config.memory.bus_bytes, _extensions(config)
    post, patch, depthwise, subtract, taps, zero_points, table, broadcast, rows, sweep, wide = (
        there[name]
        for name in (
            "post",
            "patch",
            "depthwise",
            "subtract",
            "taps",
            "zero_points",
            "table",
            "broadcast",
            "rows",
            "sweep",
            "wide_loads",
        )
    )
    fold, folds = there["fold"], config.tile_parts
    bus_log, input_log = log2(bus), log2(config.block_in)
    inp_bits, tile_bits, acc_bits, out_bits = (
        8.0 * size for size in (config.inp_bytes, config.wgt_bytes, config.acc_bytes, config.out_bytes)
    )
    row_bits, bus_bits, half_bits = 8.0 * config.block_in, 8.0 * bus, 32.0 * config.block_out
    tree = sum((config.block_in >> level) * (_SUM_BITS + level) for level in range(1, int(input_log) + 1))
    # (number of pairs, bits of a sum) of the adder tree's last levels, which have a sum for each of `folds` parts
    # of the tile instead of one for each pair.
    last_levels = [(1 << level, _SUM_BITS + input_log - level) for level in range(int(log2(folds)))]
    banks = -(-config.acc_depth // config.acc_bank_depth)
    passes, stages = config.post_passes, config.multiplier_stages
    windows = 1 << int(log2((config.block_in + bus - 2) // bus + 1))
    window_bits = windows * bus_bits
    places, banked = max(1, bus // config.out_bytes), max(1, config.out_bytes // bus)
    capacity = config.fifo_bytes("store") // config.out_bytes
    chain = float(config.chain_buffer_bytes > 0)
    factor_bits = float(ArrayShape.of(config).factor_bits)
    swept_rows, choices = (
        TAPS * SWEEP_MODE.operations(config),
        -(-config.tile_rows // SWEEP_MODE.group(config)),
    )
    positions, parts = config.position_inputs, config.position_outputs
    slots = TAPS * positions
    steps: dict[str, float] = {}
    for kind, size in (
        ("inp", config.inp_bytes),
        ("tile", config.wgt_bytes),
        ("acc", config.acc_bytes),
        ("par", config.par_bytes),
    ):
        step = min(size, bus)
        steps |= {
            f"{kind} step bits": 8.0 * step,
            f"{kind} step shift bits": 8.0 * step * bus_log,
            f"{kind} parts": size / step,
            f"{kind} parts log": log2(size // step),
            f"{kind} place bits": 8.0 * bus * log2(bus // step),
        }
    return steps | {
        "one": 1.0,
        "lanes": float(lanes),
        "rows log": log2(config.block_out),
        "lanes log": log2(lanes),
        "batch": float(config.batch),
        "block_in": float(config.block_in),
        "bus": float(bus),
        "bus log": bus_log,
        "input log": input_log,
        "inp bits": inp_bits,
        "tile bits": tile_bits,
        "acc bits": acc_bits,
        # LOAD.ACC8: lanes that receive different bytes of a bus word.
        "acc byte lane bits": 32.0 * min(lanes, bus),
        "out bits": out_bits,
        "row bits": row_bits,
        "half bits": half_bits,
        "bus bits": bus_bits,
        "bus shift bits": bus_bits * bus_log,
        "uop bits": 8.0 * config.uop_bytes,
        "instruction bits": 8.0 * config.instruction_bytes,
        "instruction words": float(config.instruction_words),
        "acc index": float(config.acc_index_bits),
        "inp index": float(config.inp_index_bits),
        "wgt index": float(config.wgt_index_bits),
        "uop index": float(config.uop_index_bits),
        "token log": log2(config.token_queue_depth + 1),
        "reads": float(config.memory.outstanding_reads),
        "reads log": log2(config.memory.outstanding_reads + 1),
        "writes log": log2(config.memory.outstanding_writes + 1),
        "capacity log": log2(capacity),
        "post": post,
        "patch": patch,
        "subtract": subtract,
        "depthwise": depthwise,
        "banks log": log2(banks),
        "bank bits": banks * acc_bits,
        "bank select bits": (banks - 1) * acc_bits,
        "array stages": input_log + stages,
        "array slot bits": (input_log + stages) * config.acc_index_bits,
        "depthwise lanes": depthwise * lanes,
        "subtract lanes": subtract * lanes,
        "depthwise tile bits": depthwise * tile_bits,
        "depthwise rows": depthwise * config.block_out,
        "vector load bits": inp_bits * config.columns,
        "row load bits": row_bits * config.batch,
        "tree bits": float(tree),
        "stage bits": (stages - 1) * _SUM_BITS * float(config.block_in),
        "stages row bits": float(stages > 1) * row_bits,
        "depthwise row bits": depthwise * row_bits,
        "fetch banks": float(min(max(1, bus // config.instruction_bytes), config.fetch_buffer_depth)),
        "patch inp bits": patch * inp_bits,
        "patch row bits": patch * row_bits,
        "window bits": window_bits,
        "window shift bits": window_bits * log2(windows),
        "row shift bits": row_bits * bus_log,
        "post out bits": post * out_bits,
        "post acc bits": post * acc_bits,
        "post bus bits": post * bus_bits,
        "post half bits": post * half_bits,
        "passes log": log2(passes),
        "post copies log": log2(min(lanes // passes, 4)),
        "fetch log": log2(config.fetch_buffer_depth),
        "passes acc bits": float(passes > 1) * acc_bits,
        "passes out bits": float(passes > 1) * out_bits,
        "pass lane bits": 32.0 * lanes / passes,
        "passes half mux bits": half_bits * float(config.block_out > lanes / passes),
        "narrow places": float(places),
        "narrow mux bits": bus_bits * float(places > 1),
        "narrow shift bits": bus_bits * log2(places),
        "narrow choice bits": bus_bits * (places - 1),
        "narrow capacity": float(places > 1) * log2(capacity),
        "wide mux bits": out_bits * float(banked > 1),
        "taps": taps,
        "taps inp bits": taps * inp_bits,
        "taps position bits": taps * inp_bits * positions,
        "taps part bits": taps * TAPS * (lanes * factor_bits + 8.0 * config.block_out) * (parts - 1),
        "taps chain inp bits": taps * chain * inp_bits,
        "taps tile bits": taps * tile_bits,
        "taps lane bits": taps * lanes * TAPS * factor_bits,
        "sweep lane bits": sweep * lanes * TAPS * (SWEEP_MODE.operations(config) - 1) * factor_bits,
        "sweep row bits": sweep * 8.0 * config.block_out * swept_rows,
        "sweep choice bits": sweep * 8.0 * config.block_out * swept_rows * max(0, choices - 1),
        "wide loads": wide,
        "wide slot bits": wide * inp_bits * slots * log2(slots),
        "fold": fold,
        "fold parts": fold * folds,
        "fold inp bits": factor_bits / 8 * inp_bits * (folds - 1),
        "fold mux bits": sum(folds * bits for _, bits in last_levels),
        "fold register bits": sum((folds - pairs) * bits for pairs, bits in last_levels),
        "zero points": zero_points,
        "zero inp bits": zero_points * inp_bits,
        "zero tile bits": zero_points * tile_bits,
        "zero taps position bits": zero_points * taps * inp_bits * positions,
        "zero row bits": zero_points * row_bits,
        "table": table,
        "table out bits": table * out_bits,
        "rows": rows,
        "rows out bits": rows * out_bits,
        "rows pass lanes": rows * lanes / passes,
        "row index": rows * log2(config.row_depth),
        "broadcast": broadcast,
        "broadcast out bits": broadcast * out_bits,
        "chain": chain,
        "chain inp bits": chain * inp_bits,
        "chain out bits": chain * out_bits,
        "chain word bits": chain * 8.0 * config.chain_word_bytes,
        "chain index": log2(max(1, config.chain_depth)),
    }


OWN = frozenset({*MEMORY_BITS, "depth log", "words log"})
"""Names of the features that `own_features` computes."""
_WORDS = {"load": "load", "compute.loader": "compute", "store": "operand"}


def access_features(access: Mapping[str, float]) -> dict[str, float]:
    """Features of timing paths that begin in a memory, by name. The value of a feature is the access time (from address
    to data, in ns) of a module's slowest memory macro, or 0 if the module has no macro on this machine; only "chain
    before operand" is 1 or 0. `access`: the access times by module (`cell_model.access_by_module`).
    """

    def slowest(*modules: str) -> float:
        return max(access.get(module, 0.0) for module in modules)

    inputs = slowest("inp", "chain")
    return {
        "operand access": max(inputs, slowest("wgt")),
        # 1 if the slowest operand passes the multiplexer between input scratchpad and chain memory.
        "chain before operand": float("chain" in access and inputs > slowest("wgt")),
        "bank access": slowest("compute.accumulators"),
        "uop access": slowest("compute"),
        "half access": slowest("store"),
        "load FIFO access": slowest("load.fifo"),
        "compute FIFO access": slowest("compute.loader.fifo"),
        "operand FIFO access": slowest("store.operands"),
        "store FIFO access": slowest("store.writer"),
    }


def own_features(config: Config, module: str, memories: list[Memory]) -> dict[str, float]:
    """Values of the features in OWN for one `module`: bits of its memories that are flip-flops, bits of their read
    multiplexers, and log2 of the depth of its FIFO or queue, if it has one. `memories`: all memories of the machine.
    """
    small = [memory for memory in memories if memory.module == module and not memory.is_macro]
    found = {
        "own register bits": float(sum(memory.bits for memory in small)),
        "own mux bits": float(sum(memory.count * memory.width * (memory.words - 1) for memory in small)),
    }
    if module.startswith("fetch"):
        found["depth log"] = log2(
            config.fetch_buffer_depth if module == "fetch" else config.command_queue_depth
        )
    for start, fifo in _WORDS.items():
        if module.startswith(f"{start}."):
            found["words log"] = log2(config.fifo_bytes(fifo) // config.memory.bus_bytes)
    return found
