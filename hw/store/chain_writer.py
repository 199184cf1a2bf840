"""Writes the vectors of stores to the chain memory (on-chip buffer between layers), and computes their addresses."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream

from vdla.isa.config import Config

from .post import PostPipeline


def write_chain(
    m: Module,
    config: Config,
    port: Any,
    job: stream.Interface,
    running: data.View,
    pipeline: PostPipeline,
) -> Signal:
    """Drives `port`, the write port of the chain memory (on-chip buffer between layers), with the vectors that leave
    `pipeline`. The vectors come in order and without addresses, so a counter computes the addresses. Returns a signal
    that is 1 in the cycle after the last vector of a store was written.

    `job`: stream of the stores that are not written yet; this function takes the stores with `chain` from the stream,
    and the writer to DRAM takes the others. `running`: properties of the store whose accumulators are read now.
    """
    head = job.payload
    vectors = config.chain_buffer_bytes // config.out_bytes
    here, of_row, pitch = (
        Signal(range(vectors), name=name, reset_less=True)
        for name in ("chain_here", "chain_of_row", "chain_pitch")
    )
    x_left, y_left, size = (
        Signal(16, name=name, reset_less=True) for name in ("chain_x_left", "chain_y_left", "chain_x_size")
    )
    # Registers: the vector is the last one of its row; the row is the last one of the store.
    x_ends, y_ends = Signal(name="chain_x_ends"), Signal(name="chain_y_ends")
    put, write, last, done = (Signal(name=f"chain_{name}") for name in ("put", "write", "last", "done"))
    working = Signal(name="chain_working")
    m.d.comb += [
        put.eq(pipeline.put & running.chain),
        job.ready.eq(Mux(head.chain, ~working, m.submodules.writer.ready)),
    ]
    with m.If(~working):
        m.d.sync += [
            working.eq(job.valid & head.chain),
            *(place.eq(head["dram_base"]) for place in (here, of_row)),
            pitch.eq(head["x_stride"]),
            *(register.eq(head["x_size"]) for register in (x_left, size)),
            y_left.eq(head["y_size"]),
            x_ends.eq(head["x_size"] == 1),
            y_ends.eq(head["y_size"] == 1),
        ]
    with m.Elif(put):
        m.d.sync += [
            here.eq(here + 1),
            x_left.eq(x_left - 1),
            x_ends.eq(x_left == 2),
        ]
        with m.If(x_ends):
            following = of_row + pitch
            m.d.sync += [
                *(place.eq(following) for place in (here, of_row)),
                x_left.eq(size),
                x_ends.eq(size == 1),
                y_left.eq(y_left - 1),
                y_ends.eq(y_left == 2),
                working.eq(~y_ends),
            ]
    word_bits = (config.chain_word_bytes // config.out_bytes).bit_length() - 1
    place = Signal(range(vectors), name="chain_written", reset_less=True)
    vector = Signal(8 * config.out_bytes, name="chain_vector", reset_less=True)
    m.d.sync += [
        write.eq(put),
        last.eq(put & x_ends & y_ends),
        done.eq(last),
        place.eq(here),
        vector.eq(pipeline.vector),
    ]
    lanes = range(1 << word_bits)
    m.d.comb += [
        port.enable.eq(Cat(*(write & (place[:word_bits] == lane) for lane in lanes))),
        port.address.eq(place >> word_bits),
        port.data.eq(vector),
    ]
    return done
