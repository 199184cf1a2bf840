"""The RTL's fetch unit follows section 4 of the timing contract (hw/README.md): requests, the buffer, and the cycle in
which each instruction enters which queue.
"""

import dataclasses
from random import Random

import pytest
from amaranth.sim import Simulator
from campaign import representatives

from vdla.hw.fetch import FetchUnit
from vdla.hw.interfaces import Kind
from vdla.isa.config import Config, load_config
from vdla.isa.decoding import decode_one, join_words
from vdla.isa.layout import MemoryType, Unit, encode, unit_of
from vdla.isa.timing import FETCH_DELAY, FETCH_ROOM_DELAY, FIFO_LATENCY, REQUEST_GAP

TINY = load_config("tiny")
PROGRAM = 0x7000


def config_of(bus: int, depth: int, queue: int, size: int) -> Config:
    memory = dataclasses.replace(TINY.memory, bus_bytes=bus)
    return dataclasses.replace(
        TINY, fetch_buffer_depth=depth, command_queue_depth=queue, memory=memory, store_fifo_bytes=128,
        operand_fifo_bytes=128, uop_buffer_bytes=65536 if size == 32 else TINY.uop_buffer_bytes,
    )  # fmt: skip


def random_words(config: Config, random: Random, count: int) -> list[tuple[int, ...]]:
    words = []
    for _ in range(count):
        kind = random.choice([kind for kind in MemoryType if kind is not MemoryType.OUT])
        name = random.choice(
            [f"LOAD.{kind.name}", "STORE.OUT", "STORE.POST", "GEMM", "ALU", "DEPTHWISE", "CONFIG"]
        )
        values = {"unit": random.randrange(3), "value": random.getrandbits(64)} if name == "CONFIG" else {}
        words.append(encode(config, name, **values))
    words[-4] = encode(config, "FINISH")
    return words


@pytest.mark.parametrize(
    ("bus", "depth", "queue", "size", "count"),
    representatives(
        [
            *((bus, depth, queue, 16, count)
              for bus, depth, queue in [(8, 2, 1), (8, 32, 4), (16, 4, 3), (64, 2, 2), (64, 4, 8), (64, 32, 3)]
              for count in (67, 300)),
            (8, 4, 2, 32, 67), (16, 8, 2, 32, 67), (32, 4, 2, 32, 67), (64, 16, 3, 32, 150),
        ],
        0,
        always=[(8, 2, 1, 16, 67), (16, 4, 3, 16, 67), (64, 4, 8, 16, 67), (64, 32, 3, 16, 67), (32, 4, 2, 32, 67)],
    ),
)  # fmt: skip
def test_instructions_reach_their_queues(bus: int, depth: int, queue: int, size: int, count: int):
    random = Random(bus * depth)
    config = config_of(bus, depth, queue, size)
    assert config.instruction_bytes == size
    words = random_words(config, random, count)
    units = [unit_of(*decode_one(config, *row)) for row in words]
    image = b"".join(join_words(row).to_bytes(size, "little") for row in words) + bytes(64)
    most = min(depth // 2, max(1, 64 * bus // size))
    dut = FetchUnit(config=config)
    taken = 0

    async def bench(ctx):
        nonlocal taken
        ctx.set(dut.program, PROGRAM)
        ctx.set(dut.count, count)
        requested = dispatched = 0
        received: dict[int, int] = {}  # by cycle: instructions in the buffer from that cycle on
        leaves: list[int] = []  # cycles in which instructions moved to their queues
        accepted = -REQUEST_GAP
        beats: list[
            tuple[int, int, bool]
        ] = []  # address of a beat to come, instructions complete after it, last
        queues: dict[Unit, list[int]] = {unit: [] for unit in Unit}
        finished = False
        for now in range(1, 6 * size // 16 * count + 60):
            number = min(most, count - requested)
            valid = ctx.get(dut.read.request.valid)
            left = sum(cycle + FETCH_ROOM_DELAY <= now for cycle in leaves)
            room = depth - (requested - left) >= number > 0
            assert valid == (room and now >= max(FETCH_DELAY, accepted + REQUEST_GAP))
            ready = random.random() < 0.7
            ctx.set(dut.read.request.ready, ready)
            address = size * requested
            if valid:
                burst = ctx.get(dut.read.request.payload)
                lines = (address + size * number - 1) // bus - address // bus + 1
                assert (burst.address, burst.bytes, burst.beats) == (PROGRAM + address, size * number, lines)
                assert burst.kind == Kind.INSTRUCTION
            beat = beats.pop(0) if beats and random.random() < 0.8 else None
            ctx.set(dut.read.beat_valid, beat is not None)
            if beat is not None:
                ctx.set(dut.read.beat_data, int.from_bytes(image[beat[0] : beat[0] + bus], "little"))
                ctx.set(dut.read.beat_last, beat[2])
            for unit in Unit:
                port = getattr(dut, unit.name.lower())
                assert ctx.get(port.valid) == bool(queues[unit])
                if queues[unit]:
                    assert ctx.get(port.payload) == join_words(words[queues[unit][0]])
            # What happens in this cycle shows in the next.
            enters = None
            there = max((number for cycle, number in received.items() if cycle <= now), default=0)
            if dispatched < there and not finished and len(queues[units[dispatched]]) < queue:
                enters = dispatched
            for unit in Unit:
                pops = bool(queues[unit]) and random.random() < 0.5
                ctx.set(getattr(dut, unit.name.lower()).ready, pops)
                if pops:
                    queues[unit].pop(0)
                    taken += 1
            if enters is not None:
                queues[units[enters]].append(enters)
                dispatched += 1
                leaves.append(now)
                finished = enters == count - 4
            if beat is not None:  # on the bus a cycle ago
                received[now + FIFO_LATENCY - 1] = beat[1]
            if valid and ready:
                first = address // bus
                lines = (address + size * number - 1) // bus - first + 1
                for line in range(lines):
                    complete = min(requested + number, (first + line + 1) * bus // size)
                    beats.append(((first + line) * bus, complete, line == lines - 1))
                requested += number
                accepted = now
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert taken == count - 3  # nothing behind FINISH
