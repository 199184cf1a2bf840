"""The machines on which co-simulation runs programs by default, and the memory timings of the programs.

The list is fixed, so that libraries are built once. Together the machines have blocks from 4 to 128, square and not,
batch 1 to 8, instructions of 128 and 256 bits, micro-ops of 32 and 64 bits, memories of any depth, buses from 64 to 512
bits, every combination of the default extensions, each other extension in some machine and not in another, STORE.POST
in one to four passes, chain memories with input vectors as wide as, wider and narrower than output vectors, one to
eight look-up tables, row reductions, arrays of 1/2 and 1/4 of the lanes (extension `fold`), one to eight accumulator
banks, and queues and FIFOs from the smallest that a configuration allows (so that they fill) to those of the presets.
"""

from __future__ import annotations

import dataclasses
from itertools import cycle
from typing import Any

import numpy as np

from vdla.isa.array_modes import LEAST_COLUMNS
from vdla.isa.config import KIB, PRESETS, Config, Memory, load_config
from vdla.isa.extensions import DEFAULT_EXTENSIONS, EXTENSION_TABLE, EXTENSIONS, with_what_they_need
from vdla.isa.parameters import declared

TIMINGS = ("fixed latency", "random latency", "random latency and stalls")
"""Kinds of memory timing; in each, latencies are 1 cycle, as configured, or four times as long."""

_LONG = 4
_JITTER = (7, 50)
_STALL = (1, 5)


def default_machines() -> tuple[Config, ...]:
    """The accelerator configurations, first the ones whose RTL library builds quickly; programs are assigned in this
    order.
    """
    tiny = load_config("tiny")
    small = Config(
        name="4x4 without extensions, smallest queues",
        block_in=4,
        block_out=4,
        uop_buffer_bytes=KIB,
        inp_buffer_bytes=KIB,
        wgt_buffer_bytes=2 * KIB,
        acc_buffer_bytes=4 * KIB,
        acc_banks=1,
        command_queue_depth=1,
        token_queue_depth=1,
        fetch_buffer_depth=2,
        load_fifo_bytes=32,
        compute_fifo_bytes=32,
        store_fifo_bytes=32,
        extensions=(),
        memory=Memory(bus_bytes=16, outstanding_reads=1, outstanding_writes=1),
    )

    def change(base: Config, name: str, **values: object) -> Config:
        return dataclasses.replace(base, name=name, **values)  # pyright: ignore[reportArgumentType]

    return _covering(
        tiny,
        small,
        change(
            small,
            "4x4, batch 2, post and patch",
            batch=2,
            acc_banks=4,
            inp_buffer_bytes=2 * KIB,
            post_lanes=4,
            par_buffer_bytes=256,
            command_queue_depth=2,
            token_queue_depth=2,
            fetch_buffer_depth=4,
            operand_fifo_bytes=16,
            store_fifo_bytes=16,
            load_fifo_bytes=64,
            extensions=("post", "patch"),
            memory=Memory(bus_bytes=8, outstanding_reads=2, outstanding_writes=1),
        ),
        change(
            tiny,
            "4x4, 512-bit bus, patch and depthwise",
            acc_banks=8,
            token_queue_depth=3,
            command_queue_depth=4,
            fetch_buffer_depth=16,
            load_fifo_bytes=256,
            compute_fifo_bytes=128,
            store_fifo_bytes=128,
            extensions=("patch", "depthwise"),
            memory=Memory(bus_bytes=64, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "4x8, 256-bit bus, patch",
            block_out=8,
            acc_banks=2,
            inp_buffer_bytes=2 * KIB,
            wgt_buffer_bytes=4 * KIB,
            command_queue_depth=3,
            token_queue_depth=2,
            fetch_buffer_depth=2,
            load_fifo_bytes=64,
            compute_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("patch",),
            memory=Memory(bus_bytes=32, outstanding_reads=2, outstanding_writes=4),
        ),
        change(
            small,
            "8x4, 512-bit bus, post",
            block_in=8,
            acc_banks=4,
            wgt_buffer_bytes=4 * KIB,
            par_buffer_bytes=64,
            command_queue_depth=8,
            token_queue_depth=4,
            fetch_buffer_depth=8,
            load_fifo_bytes=128,
            compute_fifo_bytes=128,
            operand_fifo_bytes=128,
            store_fifo_bytes=128,
            extensions=("post",),
            memory=Memory(bus_bytes=64, outstanding_reads=8, outstanding_writes=4),
        ),
        change(
            small,
            "8x8, 256-bit bus, depthwise",
            block_in=8,
            block_out=8,
            inp_buffer_bytes=4 * KIB,
            wgt_buffer_bytes=4 * KIB,
            acc_buffer_bytes=8 * KIB,
            acc_banks=2,
            command_queue_depth=4,
            token_queue_depth=3,
            fetch_buffer_depth=8,
            load_fifo_bytes=64,
            compute_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("depthwise",),
            memory=Memory(bus_bytes=32, outstanding_reads=3, outstanding_writes=2),
        ),
        change(
            small,
            "8x8, batch 2, post and depthwise",
            batch=2,
            block_in=8,
            block_out=8,
            inp_buffer_bytes=4 * KIB,
            wgt_buffer_bytes=8 * KIB,
            acc_buffer_bytes=16 * KIB,
            acc_banks=1,
            par_buffer_bytes=512,
            command_queue_depth=2,
            token_queue_depth=1,
            fetch_buffer_depth=32,
            load_fifo_bytes=256,
            compute_fifo_bytes=128,
            operand_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("post", "depthwise"),
            memory=Memory(bus_bytes=16, outstanding_reads=8, outstanding_writes=4),
        ),
        load_config("edge8"),
        change(
            small,
            "8x16, batch 2, post and patch",
            batch=2,
            block_in=8,
            block_out=16,
            inp_buffer_bytes=4 * KIB,
            wgt_buffer_bytes=8 * KIB,
            acc_buffer_bytes=16 * KIB,
            acc_banks=4,
            post_lanes=8,
            par_buffer_bytes=512,
            command_queue_depth=16,
            token_queue_depth=8,
            fetch_buffer_depth=16,
            load_fifo_bytes=512,
            compute_fifo_bytes=128,
            operand_fifo_bytes=128,
            store_fifo_bytes=64,
            extensions=("post", "patch"),
            memory=Memory(bus_bytes=8, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            load_config("vta"),
            "16x16, small buffers",
            uop_buffer_bytes=2 * KIB,
            inp_buffer_bytes=4 * KIB,
            wgt_buffer_bytes=16 * KIB,
            acc_buffer_bytes=16 * KIB,
            command_queue_depth=8,
            token_queue_depth=4,
            extensions=tuple(name for name in EXTENSIONS if name != "fold"),
        ),
        change(
            small,
            "32x32, 512-bit bus, post and depthwise",
            block_in=32,
            block_out=32,
            inp_buffer_bytes=4 * KIB,
            wgt_buffer_bytes=32 * KIB,
            acc_buffer_bytes=16 * KIB,
            acc_banks=2,
            par_buffer_bytes=512,
            command_queue_depth=4,
            token_queue_depth=2,
            fetch_buffer_depth=8,
            load_fifo_bytes=512,
            compute_fifo_bytes=256,
            operand_fifo_bytes=128,
            store_fifo_bytes=128,
            extensions=("post", "depthwise"),
            memory=Memory(bus_bytes=64, outstanding_reads=4, outstanding_writes=4),
        ),
        change(
            small,
            "4x4, 64-bit micro-ops, 256-bit instructions",
            uop_buffer_bytes=2 * KIB,
            inp_buffer_bytes=8 * KIB,
            wgt_buffer_bytes=32 * KIB,
            acc_buffer_bytes=32 * KIB,
            acc_banks=2,
            command_queue_depth=3,
            token_queue_depth=4,
            fetch_buffer_depth=4,
            load_fifo_bytes=64,
            compute_fifo_bytes=64,
            operand_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("post", "depthwise"),
            memory=Memory(bus_bytes=8, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "4x4, 256-bit instructions, 512-bit bus",
            uop_buffer_bytes=64 * KIB,
            acc_banks=2,
            par_buffer_bytes=128,
            command_queue_depth=4,
            token_queue_depth=2,
            fetch_buffer_depth=8,
            load_fifo_bytes=256,
            compute_fifo_bytes=256,
            operand_fifo_bytes=128,
            store_fifo_bytes=128,
            extensions=("post", "patch"),
            memory=Memory(bus_bytes=64, outstanding_reads=4, outstanding_writes=4),
        ),
        change(
            small,
            "4x4, batch 8, odd depths",
            batch=8,
            uop_buffer_bytes=4 * 200,
            inp_buffer_bytes=32 * 77,
            wgt_buffer_bytes=16 * 50,
            acc_buffer_bytes=128 * 90,
            acc_banks=4,
            post_lanes=8,
            par_buffer_bytes=32 * 5,
            command_queue_depth=3,
            token_queue_depth=2,
            fetch_buffer_depth=8,
            load_fifo_bytes=128,
            compute_fifo_bytes=128,
            operand_fifo_bytes=64,
            store_fifo_bytes=128,
            extensions=("post", "patch", "depthwise"),
            memory=Memory(bus_bytes=16, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "8x4, odd depths, 64-bit micro-ops",
            block_in=8,
            uop_buffer_bytes=8 * 301,
            inp_buffer_bytes=8 * 1537,
            wgt_buffer_bytes=32 * 1100,
            acc_buffer_bytes=16 * 1291,
            acc_banks=8,
            par_buffer_bytes=32 * 9,
            command_queue_depth=4,
            token_queue_depth=3,
            fetch_buffer_depth=4,
            load_fifo_bytes=64,
            compute_fifo_bytes=64,
            operand_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("post", "patch"),
            memory=Memory(bus_bytes=16, outstanding_reads=3, outstanding_writes=2),
        ),
        change(
            small,
            "4x128, 64-bit bus",
            block_out=128,
            wgt_buffer_bytes=512 * 40,
            acc_buffer_bytes=512 * 72,
            acc_banks=2,
            command_queue_depth=2,
            token_queue_depth=2,
            fetch_buffer_depth=4,
            load_fifo_bytes=128,
            compute_fifo_bytes=256,
            store_fifo_bytes=256,
            extensions=("patch",),
            memory=Memory(bus_bytes=8, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "128x4, 256-bit bus",
            block_in=128,
            inp_buffer_bytes=128 * 100,
            acc_buffer_bytes=16 * 1000,
            wgt_buffer_bytes=512 * 99,
            acc_banks=2,
            post_lanes=2,
            par_buffer_bytes=32 * 40,
            command_queue_depth=4,
            token_queue_depth=2,
            fetch_buffer_depth=4,
            load_fifo_bytes=256,
            compute_fifo_bytes=128,
            operand_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("post", "patch"),
            memory=Memory(bus_bytes=32, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "4x64, batch 8, 64-bit bus",
            batch=8,
            block_out=64,
            inp_buffer_bytes=32 * 65,
            wgt_buffer_bytes=256 * 33,
            acc_buffer_bytes=2048 * 40,
            acc_banks=2,
            post_lanes=8,
            par_buffer_bytes=512 * 3,
            command_queue_depth=2,
            token_queue_depth=2,
            fetch_buffer_depth=4,
            load_fifo_bytes=128,
            compute_fifo_bytes=256,
            operand_fifo_bytes=1024,
            store_fifo_bytes=1024,
            extensions=("post",),
            memory=Memory(bus_bytes=8, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "4x4, batch 2, chain memory",
            batch=2,
            inp_buffer_bytes=8 * 77,
            acc_banks=2,
            par_buffer_bytes=256,
            chain_buffer_bytes=8 * 45,
            command_queue_depth=4,
            token_queue_depth=3,
            fetch_buffer_depth=8,
            load_fifo_bytes=64,
            compute_fifo_bytes=64,
            operand_fifo_bytes=64,
            store_fifo_bytes=32,
            extensions=("post", "patch", "depthwise"),
            memory=Memory(bus_bytes=16, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "8x32, chain memory",
            block_in=8,
            block_out=32,
            wgt_buffer_bytes=256 * 33,
            acc_buffer_bytes=128 * 64,
            acc_banks=4,
            post_lanes=8,
            par_buffer_bytes=256 * 6,
            chain_buffer_bytes=32 * 32,
            command_queue_depth=3,
            token_queue_depth=2,
            fetch_buffer_depth=4,
            load_fifo_bytes=64,
            compute_fifo_bytes=128,
            operand_fifo_bytes=128,
            store_fifo_bytes=64,
            extensions=("post",),
            memory=Memory(bus_bytes=8, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "32x8, chain memory",
            block_in=32,
            block_out=8,
            inp_buffer_bytes=32 * 64,
            wgt_buffer_bytes=256 * 33,
            acc_banks=2,
            par_buffer_bytes=64 * 9,
            chain_buffer_bytes=32 * 50,
            command_queue_depth=4,
            token_queue_depth=4,
            fetch_buffer_depth=4,
            load_fifo_bytes=128,
            compute_fifo_bytes=128,
            operand_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("post", "patch"),
            memory=Memory(bus_bytes=32, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "4x4, batch 2, look-up tables",
            batch=2,
            inp_buffer_bytes=2 * KIB,
            acc_banks=2,
            post_lanes=2,
            tables=3,
            par_buffer_bytes=256,
            command_queue_depth=4,
            token_queue_depth=3,
            fetch_buffer_depth=8,
            load_fifo_bytes=64,
            compute_fifo_bytes=64,
            operand_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("post", "depthwise", "table", "broadcast"),
            memory=Memory(bus_bytes=8, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "4x8, 512-bit bus, look-up tables, chain memory and taps",
            block_out=8,
            wgt_buffer_bytes=4 * KIB,
            acc_banks=4,
            tables=1,
            par_buffer_bytes=64 * 5,
            chain_buffer_bytes=8 * 60,
            command_queue_depth=3,
            token_queue_depth=2,
            fetch_buffer_depth=16,
            load_fifo_bytes=256,
            compute_fifo_bytes=128,
            operand_fifo_bytes=256,
            store_fifo_bytes=256,
            row_entries=8,
            extensions=("post", "patch", "depthwise", "taps", "table", "broadcast", "rows"),
            memory=Memory(bus_bytes=64, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "4x4, rows in two passes",
            post_lanes=2,
            tables=1,
            row_entries=32,
            acc_banks=2,
            par_buffer_bytes=32 * 9,
            command_queue_depth=8,
            token_queue_depth=4,
            fetch_buffer_depth=8,
            load_fifo_bytes=64,
            compute_fifo_bytes=64,
            operand_fifo_bytes=128,
            store_fifo_bytes=64,
            extensions=("post", "table", "rows"),
            memory=Memory(bus_bytes=16, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "8x4, batch 8, eight look-up tables and taps",
            batch=8,
            block_in=8,
            inp_buffer_bytes=2 * KIB,
            wgt_buffer_bytes=4 * KIB,
            post_lanes=8,
            tables=8,
            par_buffer_bytes=32 * 9,
            operand_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("post", "depthwise", "taps", "table", "broadcast"),
            memory=Memory(bus_bytes=16, outstanding_reads=2, outstanding_writes=1),
        ),
        change(
            small,
            "16x16, batch 2, 4 folds, taps and sweeps",
            batch=2,
            block_in=16,
            block_out=16,
            folds=4,
            inp_buffer_bytes=4 * KIB,
            wgt_buffer_bytes=4 * KIB,
            acc_buffer_bytes=16 * KIB,
            acc_banks=4,
            par_buffer_bytes=128 * 5,
            command_queue_depth=4,
            token_queue_depth=3,
            fetch_buffer_depth=8,
            load_fifo_bytes=128,
            compute_fifo_bytes=128,
            operand_fifo_bytes=128,
            store_fifo_bytes=64,
            extensions=("post", "depthwise", "taps", "sweep", "fold"),
            memory=Memory(bus_bytes=16, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "8x8, 2 folds, odd depths, zero points",
            block_in=8,
            block_out=8,
            folds=2,
            inp_buffer_bytes=8 * 93,
            wgt_buffer_bytes=32 * 77,
            acc_buffer_bytes=32 * 90,
            acc_banks=2,
            par_buffer_bytes=64 * 5,
            command_queue_depth=3,
            token_queue_depth=2,
            fetch_buffer_depth=4,
            load_fifo_bytes=64,
            compute_fifo_bytes=64,
            operand_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=("post", "patch", "zero_points", "fold"),
            memory=Memory(bus_bytes=32, outstanding_reads=4, outstanding_writes=2),
        ),
        change(
            small,
            "8x8, 2 folds, every extension and chain memory",
            block_in=8,
            block_out=8,
            folds=2,
            acc_banks=4,
            tables=2,
            row_entries=32,
            inp_buffer_bytes=8 * 128,
            wgt_buffer_bytes=32 * 128,
            acc_buffer_bytes=32 * 256,
            par_buffer_bytes=64 * 12,
            chain_buffer_bytes=8 * 512,
            command_queue_depth=4,
            token_queue_depth=3,
            fetch_buffer_depth=8,
            load_fifo_bytes=64,
            compute_fifo_bytes=64,
            operand_fifo_bytes=64,
            store_fifo_bytes=64,
            extensions=EXTENSIONS,
            memory=Memory(bus_bytes=16, outstanding_reads=4, outstanding_writes=2),
        ),
    )


def _covering(*machines: Config) -> tuple[Config, ...]:
    """Changes some of `machines`, so that each configuration field of the RTL takes its declared `samples` (values for
    tests) and each extension occurs; returns all machines.

    A field that has its default on all `machines` gets its samples on the machines that are not presets: one sample on
    each, in a cycle. Every second of these machines gets the extensions that are off by default, if it has the
    extensions that they need. Two kinds of extensions are not added: those that need "post" or "table", and "fold" on
    machines with block_in unequal block_out.
    """
    others = [number for number, item in enumerate(machines) if item.name not in PRESETS]
    changes: dict[int, dict[str, Any]] = {number: {} for number in others}
    for name, default, item in declared(Config):
        if item.rtl and item.samples and all(getattr(machine, name) == default for machine in machines):
            for number, sample in zip(others, cycle(item.samples), strict=False):
                changes[number][name] = sample
    for number in others[1::2]:
        mine = machines[number].extensions
        asked = [name for name in EXTENSIONS if name not in (*DEFAULT_EXTENSIONS, *mine)]
        dealt = [name for name in asked if EXTENSION_TABLE[name].needs not in ("post", "table")]
        most_folds = machines[number].block_out // LEAST_COLUMNS
        if machines[number].block_in != machines[number].block_out or most_folds < 2:
            dealt = [name for name in dealt if name != "fold"]
        elif "fold" in dealt:
            changes[number]["folds"] = min(most_folds, machines[number].folds)
        changes[number]["extensions"] = with_what_they_need((*mine, *dealt))
    return tuple(
        dataclasses.replace(machine, **changes.get(number, {})) for number, machine in enumerate(machines)
    )


def share(config: Config) -> float:
    """Weight of a machine in the distribution of programs, 1 for a small one; machines with large MAC arrays get fewer
    programs, since their RTL is slow.
    """
    return 1.0 if config.multiplies_per_cycle <= 64 else 0.5 if config.multiplies_per_cycle <= 256 else 0.2


def with_timing(config: Config, timing: int, seed: int) -> Config:
    """The machine with memory timing TIMINGS[timing]; `seed` determines latencies and noise."""
    rng = np.random.default_rng((seed, 4))
    memory = config.memory
    latencies = (
        (memory.read_latency, memory.write_latency),
        (1, 1),
        (min(10_000, _LONG * memory.read_latency), min(10_000, _LONG * memory.write_latency)),
    )
    read, write = latencies[int(rng.integers(3))]
    jitter, stall = int(rng.choice(_JITTER)), int(rng.choice(_STALL))
    changed: dict[str, int] = {
        "read_latency": read,
        "write_latency": write,
        "jitter": jitter if timing > 0 else memory.jitter,
        "stall": stall if timing > 1 else memory.stall,
        "seed": seed % 2**32,
    }
    for name, default, item in declared(Memory):
        if not item.rtl and name not in changed and getattr(memory, name) == default:
            changed[name] = int(rng.choice(item.samples))
    return config.with_memory(dataclasses.replace(memory, **changed))
