"""Areas by module and longest paths of machines (accelerator configurations) drawn at random, from synthesis for
standard cells.

    python benchmarks/cell_areas.py [--count N | --draws N ...] [--liberty FILE|NAME] [--write]

Each machine is one line of benchmarks/results/cell_areas_NAME.jsonl: its fields; for every Verilog module the number of
instances, the area of one instance, its flip-flops and its memory macros; and the longest paths by their ends. The
first line names the file's tool versions and library. Draws are numbered: draws below HELD_OUT are for fitting models,
and draws from HELD_OUT on are only for judging them. Draws of the two groups are measured alternately. Both groups end
with small machines of special kinds. A constant is the number of the first draw of a kind:

- CHAINED: a chain memory (on-chip memory between layers);
- EXTENDED: some of the extensions EXTRAS; ROWED: the extension `rows`;
- SWEEPING: `taps` with `sweep`, `wide_loads` or both, on arrays that need not be square;
- FOLDING: `fold` (the array's rows can work in groups, as an array of another shape).

With `--write`, a draw that the file already has is not measured again if its number still gives the same machine and
equal RTL (`rtl`, a hash of its modules); other rows are dropped. Modules that were mapped before come from the cache of
synthesis.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from vdla.benchmarks.harness.area_rows import HELD_OUT
from vdla.benchmarks.harness.command_line import COUNT, LIBERTY, WRITE, Given, Option, run_script
from vdla.benchmarks.harness.results import RESULTS, ROOT, provenance
from vdla.hw.synthesis.cells.area import area_by_module
from vdla.hw.synthesis.cells.design import CellDesign, map_verilog
from vdla.hw.synthesis.cells.liberty import Liberty
from vdla.hw.synthesis.cells.libraries import find_library
from vdla.hw.synthesis.cells.modules import canonical, split_modules
from vdla.hw.synthesis.cells.sram import scale_of
from vdla.hw.synthesis.cells.timing import longest_by_end
from vdla.hw.synthesis.netlist import plain_path
from vdla.hw.verilog import TOP, generate_verilog
from vdla.isa.array_modes import SWEEP_MODE, TAPS
from vdla.isa.config import Config, ConfigError, Memory
from vdla.isa.fifos import FIFOS
from vdla.util.files import write_whole

KIB = 1024
MOST_PRODUCTS, MOST_LANES, MOST_BANKED_LANES, MOST_ENABLED_BITS = 2048, 64, 128, 1 << 17
"""Limits of drawn machines: number of products a cycle; lanes; lanes times banks; bits of a weight tile times bus words
of a tile. The synthesis of larger machines takes many minutes (Yosys reads a memory's write enables one lane after the
other).
"""
LEAVABLE = ("post", "patch", "depthwise")
"""Extensions that a default machine has; each is missing in one random machine of eight."""
HELD_OUTS = 30
"""Number of random machines ("draws") of the general kind on which no model is fitted: draws HELD_OUT to HELD_OUT +
HELD_OUTS - 1.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Random machines ("draws") with a special feature.

    `kind`: the feature, as words that follow "machines". `first`: number of the first draw. `fitted`: number of draws
    for fitting models. `held_out`: number of draws, from number HELD_OUT + `first` on, for judging the models.
    """

    kind: str
    first: int
    fitted: int
    held_out: int


CHAINED = Draws(kind="with a chain memory", first=500, fitted=8, held_out=4)
"""Machines with a chain memory (on-chip memory that keeps a layer's output for the next layer)."""
EXTENDED = Draws(kind="with extensions", first=600, fitted=12, held_out=6)
"""Machines with some of the extensions EXTRAS."""
EXTRAS = ("table", "broadcast", "zero_points", "taps")
"""Extensions of the machines EXTENDED. Each extension is drawn with probability 1/2; a machine that gets none, or that
cannot have all of them, is drawn again.
"""
ROWED = Draws(kind="with statistics of rows", first=700, fitted=4, held_out=2)
"""Machines with the extension `rows` (statistics of rows for softmax and normalizations)."""
SWEEPING = Draws(kind="with sweeps or wide loads", first=800, fitted=14, held_out=8)
"""Machines with the extension `sweep` (array operations also multiply the input vectors of earlier operations) or
`wide_loads` (several input vectors are loaded in a cycle).
"""
FOLDING = Draws(kind="that fold", first=900, fitted=10, held_out=8)
"""Machines with the extension `fold` (the array's rows can work in groups)."""
SPECIAL = (CHAINED, EXTENDED, ROWED, SWEEPING, FOLDING)
"""All kinds of special machines, in the order of their numbers."""
MOST_SMALL_PRODUCTS = 256
"""Largest number of products a cycle of small machines: those with a chain memory (on-chip memory between layers), with
extensions of EXTRAS, or with the extension `rows`, `sweep`, `wide_loads` or `fold`.
"""


def draw(number: int) -> Config:
    """The random machine with the number `number`: each field on which the RTL depends is drawn from a space like one
    that a user would explore.
    """
    for attempt in range(1000):
        rng = np.random.default_rng((number, attempt, 22))
        config = _attempt(rng, f"draw {number}")
        kind = number % HELD_OUT
        if config is not None and kind >= CHAINED.first:
            config = _special(config, kind, rng)
        if config is not None:
            return config
    raise SystemExit(f"draw {number} has no legal machine")


def _attempt(rng: np.random.Generator, name: str) -> Config | None:
    """A random machine called `name`; None if the drawn fields are invalid together, or if it is too large."""

    def pick(*choices: int) -> int:
        return int(rng.choice(choices))

    def size(element: int, *kib: int) -> int:
        """A random size in bytes: one of `kib` (in KiB) or, in one case of four, a smaller multiple of `element` that
        is usually no power of two.
        """
        elements = max(2, KIB * pick(*kib) // element)
        if rng.random() < 0.25:
            elements = int(rng.integers(max(2, elements // 2), elements + 1))
        return elements * element

    batch = pick(1, 1, 1, 1, 2, 4)
    block_in, block_out = pick(4, 8, 16, 16, 32, 32, 64, 128), pick(4, 8, 8, 16, 16, 16, 32, 32, 64)
    if rng.random() < 0.3:
        block_in = block_out
    lanes, banks = batch * block_out, pick(1, 2, 2, 4, 8)
    if block_in * lanes > MOST_PRODUCTS or lanes > MOST_LANES or lanes * banks > MOST_BANKED_LANES:
        return None
    without = [item for item in LEAVABLE if rng.random() < 0.125]
    if block_in != block_out:
        without.append("depthwise")
    extensions = [item for item in LEAVABLE if item not in without]
    if rng.random() < 0.125:
        extensions.append("subtract")
    try:
        config = Config(
            name=name,
            batch=batch,
            block_in=block_in,
            block_out=block_out,
            uop_buffer_bytes=KIB * pick(4, 8, 16, 32),
            inp_buffer_bytes=size(batch * block_in, 4, 8, 16, 32, 64, 128),
            wgt_buffer_bytes=size(block_in * block_out, 16, 32, 64, 128, 256, 512, 1024),
            acc_buffer_bytes=size(4 * lanes, 16, 32, 64, 128, 256),
            acc_banks=banks,
            par_buffer_bytes=max(64 * block_out, KIB * pick(1, 2, 4)),
            command_queue_depth=pick(8, 16, 32, 64),
            token_queue_depth=pick(16, 64),
            fetch_buffer_depth=pick(8, 16, 32, 64),
            post_lanes=max(1, lanes >> pick(0, 0, 0, 1, 2, 3)),
            multiplier_stages=pick(1, 1, 2, 3),
            extensions=tuple(extensions),
            memory=Memory(
                bus_bytes=pick(8, 16, 32, 64),
                read_latency=pick(30, 30, 100, 200),
                outstanding_reads=pick(4, 8, 16),
                outstanding_writes=pick(2, 4, 8),
            ),
        )
        if 8 * config.wgt_bytes * max(1, config.wgt_bytes // config.memory.bus_bytes) > MOST_ENABLED_BITS:
            return None
        # Three machines in four have FIFOs that are large enough to keep their bus busy.
        given = {
            f"{fifo}_fifo_bytes": config.fifo_bytes(fifo) * pick(1, 2, 4) // 2
            for fifo in FIFOS
            if rng.random() < 0.25
        }
        return replace(config, **given)
    except ConfigError:
        return None


def _special(config: Config, kind: int, rng: np.random.Generator) -> Config | None:
    """The machine `config` with one kind of special features: a chain memory (on-chip memory between layers) of 64 to
    2048 words, some of EXTRAS, or the extension `rows`, `sweep`, `wide_loads` or `fold`. `kind`: number of the draw
    modulo HELD_OUT; its range (from CHAINED, EXTENDED, ... on) determines the features.

    None if `config` is too large or lacks STORE.POST, which most of these features need; if it cannot have the
    features; or if no feature was drawn.
    """
    if kind >= FOLDING.first:
        return _folding(config, rng)
    if config.multiplies_per_cycle > MOST_SMALL_PRODUCTS or not config.has("post"):
        return None
    try:
        if kind >= SWEEPING.first:
            return _sweeping(config, rng)
        if kind < EXTENDED.first:
            words = int(rng.choice((64, 128, 256, 512, 1024, 2048)))
            return replace(config, chain_buffer_bytes=words * config.chain_word_bytes)
        more = (
            ("table", "rows") if kind >= ROWED.first else tuple(name for name in EXTRAS if rng.random() < 0.5)
        )
        return replace(config, extensions=(*config.extensions, *more)) if more else None
    except ConfigError:
        return None


def _sweeping(config: Config, rng: np.random.Generator) -> Config | None:
    """A random machine with the extension `taps`, and with `sweep`, `wide_loads` or both. Half of the machines have
    zero points, and a quarter have a chain memory (on-chip memory between layers).

    None if neither `sweep` nor `wide_loads` is drawn, or if one of them would have no effect on `config`. Raises
    ConfigError for fields that are invalid together.
    """
    more = ["taps", *(name for name in ("sweep", "wide_loads") if rng.random() < 0.75)]
    more += ["zero_points"] if rng.random() < 0.5 else []
    more += [] if config.has("depthwise") else ["depthwise"]
    words = int(rng.choice((128, 256, 512, 1024))) if rng.random() < 0.25 else 0
    found = replace(
        config,
        extensions=(*config.extensions, *more),
        chain_buffer_bytes=words * config.chain_word_bytes,
    )
    sweeps, wide = found.has("sweep"), found.has("wide_loads")
    if (
        not (sweeps or wide)
        or (sweeps and SWEEP_MODE.operations(found) == 1)
        or (wide and found.inp_step_vectors == 1)
    ):
        return None
    return found


def _folding(config: Config, rng: np.random.Generator) -> Config | None:
    """A random machine with the extension `fold` (the array's rows can work in groups), with as many products as other
    small machines but more lanes.

    Three quarters of the machines have `taps`, and most of these also have `sweep` if possible. Half of the machines
    have zero points, and a quarter have a chain memory (on-chip memory between layers). None if `config` has no square
    array or no STORE.POST, is too large, or cannot have the features.
    """
    if config.block_in != config.block_out or not config.has("post"):
        return None
    folds = int(rng.choice((2, 4, 8)))
    more = ["fold"]
    if rng.random() < 0.75:
        more += ["taps"] if config.has("depthwise") else ["taps", "depthwise"]
        sweeps = config.block_in // folds // TAPS > 1
        more += ["sweep"] if sweeps and rng.random() < 0.75 else []
    more += ["zero_points"] if rng.random() < 0.5 else []
    words = int(rng.choice((128, 256, 512, 1024))) if rng.random() < 0.25 else 0
    try:
        found = replace(
            config,
            folds=folds,
            extensions=(*config.extensions, *more),
            chain_buffer_bytes=words * config.chain_word_bytes,
        )
    except ConfigError:
        return None
    return found if found.multiplies_per_cycle <= MOST_SMALL_PRODUCTS else None


def order(count: int) -> list[int]:
    """Numbers of draws (random machines) in the order of measuring. First come `count` draws of the general kind: draws
    for fitting and held-out draws alternate until all HELD_OUTS held-out draws are used, and the rest are for fitting.
    Then come all draws of the special kinds.
    """
    pairs = [number for i in range(HELD_OUTS) for number in (i, HELD_OUT + i)]
    small = [
        number
        for draws in SPECIAL
        for start, count_of in ((draws.first, draws.fitted), (HELD_OUT + draws.first, draws.held_out))
        for number in range(start, start + count_of)
    ]
    return [*(pairs + list(range(HELD_OUTS, count)))[:count], *small]


def rtl_digest(verilog: str) -> str:
    """A hash (16 hexadecimal digits) of all modules of a Verilog text; equal hashes mean equal results of synthesis."""
    modules = split_modules(verilog)
    keys = sorted(canonical(module, modules).key for module in modules.values())
    return sha256("\n".join(keys).encode()).hexdigest()[:16]


def measure(number: int, library: Liberty, report: Any) -> dict[str, Any]:
    """Synthesizes the random machine with the number `number` for `library`; returns its line of the results file as a
    JSON object. Areas are in square micrometres. `report` is called with lines that tell the progress.
    """
    config = draw(number)
    verilog = generate_verilog(config)
    design = map_verilog(verilog, library, top=TOP, report=report)
    modules = {
        path: [count, round(own.logic, 2), own.flip_flops]
        for path, (count, own) in area_by_module(design).items()
    }
    return {
        "draw": number,
        "config": config.to_dict(),
        "rtl": rtl_digest(verilog),
        "modules": modules,
        "macros": {
            plain_path(name.partition(".")[2]): own
            for name, module in design.modules.items()
            if (own := _macros(design, module.kinds))
        },
        "ends": longest_by_end(design, report=report),
    }


def _macros(design: CellDesign, kinds: Mapping[str, int]) -> list[list[int]]:
    """The memories of one module, each as [number of instances, words, bits of a word, ports, 1 if reads are clocked].
    `kinds`: number of instances in the module by name of the cell, macro or module.
    """
    return [
        [count, macro.words, macro.width, macro.reads + macro.writes, int(macro.clocked)]
        for kind, count in sorted(kinds.items())
        if (macro := design.macros.get(kind)) is not None
    ]


OPTIONS = (
    COUNT.but(default=60),
    Option("--draws", "numbers of the draws to measure, in this order", int, nargs="+", metavar="N"),
    LIBERTY,
    WRITE,
)


def main(options: Given) -> None:
    library = find_library(options.liberty)
    path = RESULTS / f"cell_areas_{library.name}.jsonl"
    head = {
        "written": provenance(("pyosys",)),
        "library": library.name,
        "liberty_sha256": library.digest,
        "node_nm": round(scale_of(library).node_nm),
        "voltage": library.voltage,
        "temperature": library.temperature,
        "module_columns": ["instances", "logic_um2", "flip_flops"],
        "macro_columns": ["instances", "words", "width", "ports", "clocked"],
        "end_columns": ["ns", "start"],
    }
    rows = _known(path, head) if options.write else {}
    for number in options.draws or order(options.count):
        if number in rows:
            continue
        rows[number] = measure(number, library, lambda text: None)
        logic = sum(row[0] * row[1] for row in rows[number]["modules"].values()) / 1e6
        longest = max(ns for ns, _ in rows[number]["ends"].values())
        print(f"draw {number}: {logic:.3f} mm2 of logic, {longest:.3f} ns", flush=True)
        if options.write:
            lines = [
                json.dumps(item, separators=(",", ":")) for item in (head, *(rows[n] for n in sorted(rows)))
            ]
            write_whole(path, ("\n".join(lines) + "\n").encode())
    if options.write:
        print(path.relative_to(ROOT))


def _known(path: Path, head: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The valid rows of the results file at `path`, by number of the draw (random machine); none if there is no file. A
    row is valid if it was synthesized with the library in `head`, the first line of a new file, and if drawing its
    number now gives the same machine with the same RTL.
    """
    if not path.exists():
        return {}
    first, *rest = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    if any(first.get(key) != head[key] for key in ("liberty_sha256", "end_columns")):
        return {}
    kept = {row["draw"]: row for row in rest if _is_current(row)}
    if len(kept) < len(rest):
        print(
            f"{len(rest) - len(kept)} of {len(rest)} rows are of other machines or other RTL: dropped",
            flush=True,
        )
    return kept


def _is_current(row: Mapping[str, Any]) -> bool:
    """Whether the random machine with the row's number is still the machine of the row, with unchanged RTL."""
    config = draw(row["draw"])
    return config.to_dict() == row["config"] and rtl_digest(generate_verilog(config)) == row.get("rtl")


if __name__ == "__main__":
    run_script(__doc__, OPTIONS, main)
