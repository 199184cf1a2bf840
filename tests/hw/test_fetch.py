"""The fetch unit against section 4: requests, the buffer, and which queue each instruction enters in which cycle."""

import dataclasses
from random import Random

import pytest
from amaranth.sim import Simulator
from vdla.hw.fetch import FetchUnit
from vdla.hw.interfaces import Kind
from vdla.isa.config import Config, load_config
from vdla.isa.layout import MemoryType, Unit, decode_one, encode, unit_of
from vdla.isa.timing import FETCH_DELAY, FETCH_ROOM_DELAY, FIFO_LATENCY, REQUEST_GAP

TINY = load_config("tiny")
PROGRAM = 0x7000


def config_of(bus: int, depth: int, queue: int) -> Config:
    memory = dataclasses.replace(TINY.memory, bus_bytes=bus)
    return dataclasses.replace(
        TINY, fetch_buffer_depth=depth, command_queue_depth=queue, memory=memory, store_fifo_bytes=128,
        operand_fifo_bytes=128,
    )  # fmt: skip


def random_words(random: Random, count: int) -> list[tuple[int, int]]:
    words = []
    for _ in range(count):
        kind = random.choice([kind for kind in MemoryType if kind is not MemoryType.OUT])
        name = random.choice(
            [f"LOAD.{kind.name}", "STORE.OUT", "STORE.POST", "GEMM", "ALU", "DEPTHWISE", "CONFIG"]
        )
        values = {"unit": random.randrange(3), "value": random.getrandbits(64)} if name == "CONFIG" else {}
        words.append(encode(TINY, name, **values))
    words[-4] = encode(TINY, "FINISH")
    return words


@pytest.mark.parametrize(
    ("bus", "depth", "queue"), [(8, 2, 1), (8, 32, 4), (16, 4, 3), (64, 2, 2), (64, 4, 8), (64, 32, 3)]
)
@pytest.mark.parametrize("count", [67, 300])
def test_instructions_reach_their_queues(bus: int, depth: int, queue: int, count: int):
    random = Random(bus * depth)
    config = config_of(bus, depth, queue)
    words = random_words(random, count)
    units = [unit_of(*decode_one(config, low, high)) for low, high in words]
    image = b"".join((low | high << 64).to_bytes(16, "little") for low, high in words) + bytes(64)
    most = min(depth // 2, max(1, 64 * bus // 16))
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
        for now in range(1, 6 * count + 60):
            number = min(most, count - requested)
            valid = ctx.get(dut.read.request.valid)
            left = sum(cycle + FETCH_ROOM_DELAY <= now for cycle in leaves)
            room = depth - (requested - left) >= number > 0
            assert valid == (room and now >= max(FETCH_DELAY, accepted + REQUEST_GAP))
            ready = random.random() < 0.7
            ctx.set(dut.read.request.ready, ready)
            address = 16 * requested
            if valid:
                burst = ctx.get(dut.read.request.payload)
                lines = (address + 16 * number - 1) // bus - address // bus + 1
                assert (burst.address, burst.bytes, burst.beats) == (PROGRAM + address, 16 * number, lines)
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
                    low, high = words[queues[unit][0]]
                    assert ctx.get(port.payload) == low | high << 64
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
                lines = (address + 16 * number - 1) // bus - first + 1
                for line in range(lines):
                    complete = min(requested + number, (first + line + 1) * bus // 16)
                    beats.append(((first + line) * bus, complete, line == lines - 1))
                requested += number
                accepted = now
            await ctx.tick()

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    assert taken == count - 3  # nothing behind FINISH
