"""The load unit alone, with a memory that answers at random times, gives the reference's results; its timing is tested
elsewhere.
"""

import dataclasses
from collections import deque
from random import Random

import numpy as np
import pytest
from gateware import simulate, stream_put_all

from vdla.hw.load import LoadUnit
from vdla.isa.access import AccessError, accesses, advance, start_trace
from vdla.isa.config import Config, load_config
from vdla.isa.layout import Unit, encode, formats, unit_of
from vdla.isa.reference import run_reference
from vdla.verify.random_images import random_image
from vdla.verify.random_instructions import Source, random_instruction

TINY = load_config("tiny")
CONFIGS = {
    "4x4": TINY,
    "batch 2, wide bus": dataclasses.replace(
        TINY, batch=2, load_fifo_bytes=512, store_fifo_bytes=512, operand_fifo_bytes=512,
        memory=dataclasses.replace(TINY.memory, bus_bytes=32),
    ),
}  # fmt: skip
FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next")


def load_program(
    config: Config, seed: int, length: int
) -> tuple[list[tuple[int, int]], list[dict], np.ndarray]:
    """Draws `length` random instructions of the load unit; returns their words, their fields, and the DRAM image."""
    rng = np.random.default_rng((seed, 21))
    image, regions = random_image(config, rng)
    source = Source(
        config=config, rng=rng, regions=regions, trace=start_trace(config, image), wide=False, uops_at=0
    )
    words, fields = [], []
    while len(words) < length:
        name, values = random_instruction(source)
        if unit_of(name, values) is not Unit.LOAD:
            continue
        flags = {flag: int(source.chance(0.3)) for flag in FLAGS}
        zeros = {item.name: 0 for item in formats(config)[name].fields}
        values = {k: v for k, v in (zeros | values | flags).items() if k not in ("opcode", "memory_type")}
        try:
            touched = accesses(source.trace, name, values)
        except AccessError:
            continue
        words.append(encode(config, name, **values))
        fields.append(values)
        advance(source.trace, name, values, touched)
    return words, fields, image


@pytest.mark.parametrize("name", CONFIGS)
def test_scratchpads_and_tokens(name: str):
    config, random = CONFIGS[name], Random(4)
    bus = config.memory.bus_bytes
    words, fields, image = load_program(config, 5, 60)
    final = run_reference(config, np.array([*words, encode(config, "FINISH")], np.uint64), image)
    memory = image.tobytes() + bytes(8192)
    dut = LoadUnit(config=config)
    scratchpads = {
        kind: bytearray(getattr(config, f"{kind}_depth") * getattr(config, f"{kind}_bytes"))
        for kind in ("inp", "wgt")
    }
    seen = dict.fromkeys((*FLAGS, "ends", "bursts"), 0)

    async def commands(ctx):
        await stream_put_all(ctx, dut.commands, [low | high << 64 for low, high in words], random, 0.2)
        while not ctx.get(dut.idle):
            await ctx.tick()
        for _ in range(3):
            await ctx.tick()

    async def tokens(ctx):
        room = {"prev": False, "next": False}
        while True:
            for side in ("prev", "next"):
                pop, push = getattr(dut, f"pop_{side}"), getattr(dut, f"push_{side}")
                ctx.set(pop.available, random.random() < 0.5)
                room[side] = room[side] or random.random() < 0.5
                ctx.set(push.room, room[side])
                assert not ctx.get(pop.pop) or ctx.get(pop.available)
                assert not ctx.get(push.reserve) or ctx.get(push.room)
                seen[f"pop_{side}"] += ctx.get(pop.pop)
                seen[f"push_{side}"] += ctx.get(push.push)
                room[side] = room[side] and not ctx.get(push.reserve)  # a begin alone takes it
            seen["ends"] += ctx.get(dut.trace.end) + ctx.get(dut.trace.end_config)
            await ctx.tick()

    async def reads(ctx):
        beats: deque[tuple[int, bool]] = deque()
        while True:
            ready = random.random() < 0.6
            ctx.set(dut.read.request.ready, ready)
            moves = bool(beats) and random.random() < 0.8
            ctx.set(dut.read.beat_valid, moves)
            if moves:
                at, last = beats.popleft()
                ctx.set(dut.read.beat_data, int.from_bytes(memory[at : at + bus], "little"))
                ctx.set(dut.read.beat_last, last)
            if ready and ctx.get(dut.read.request.valid):
                burst = ctx.get(dut.read.request.payload)
                first = burst.address // bus * bus
                beats.extend((first + k * bus, k + 1 == burst.beats) for k in range(burst.beats))
                seen["bursts"] += 1
            await ctx.tick()

    async def writes(ctx):
        while True:
            for kind, contents in scratchpads.items():
                port, size = getattr(dut, kind), getattr(config, f"{kind}_bytes")
                enable, part = ctx.get(port.enable), size // len(port.enable)
                width = len(port.data) // 8
                data = ctx.get(port.data).to_bytes(width, "little") * (size // width)
                at = ctx.get(port.address) * size
                for lane in range(len(port.enable)):
                    if enable >> lane & 1:
                        contents[at + lane * part : at + lane * part + part] = data[
                            lane * part : lane * part + part
                        ]
            await ctx.tick()

    simulate(dut, commands, background=(tokens, reads, writes))
    assert seen["bursts"] > 40
    assert seen["ends"] == len(words)
    for flag in FLAGS:
        assert seen[flag] == sum(values[flag] for values in fields)
    for kind, contents in scratchpads.items():
        expected = np.ascontiguousarray(getattr(final, kind)).view(np.uint8).reshape(-1)
        assert (np.frombuffer(contents, np.uint8) == expected).all()
        assert expected.any()
