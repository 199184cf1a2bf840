"""The store unit in the slow model (hw/README.md, section 8): reads of vectors, and write bursts."""

from __future__ import annotations

from vdla.isa.layout import Unit
from vdla.isa.registers import operand_shape
from vdla.isa.timing import (
    PRODUCT_CYCLES,
    REQUEST_DELAY,
    post_latency,
    store_latency,
    write_burst_beats,
)

from .bursts import Burst, cut
from .finish import finish
from .instructions import Instruction
from .model import Model


def begin_store(model: Model, instruction: Instruction, now: int) -> None:
    config, values = model.config, instruction.values
    if not values["y_size"] * values["x_size"]:
        finish(model, instruction, now + 1)
        return
    model.reading = instruction
    model.vectors = values["y_size"] * values["x_size"]
    model.vector = model.vector_read = 0
    model.next_read = max(model.next_read, now + 1)
    if instruction.name == "ROWS":
        return
    out = config.out_bytes
    start, length, pitch = values["dram_base"] * out, values["x_size"] * out, values["x_stride"] * out
    runs = [(start + y * pitch, length) for y in range(values["y_size"])]
    if values["x_stride"] == values["x_size"]:
        runs = [(start, length * values["y_size"])]
    most = write_burst_beats(config)
    written = [] if values.get("chain") else runs
    instruction.writes = [b for at, size in written for b in cut(at, size, model.bus, most, "out")]
    done = 0
    for burst in instruction.writes:
        done += burst.size
        model.to_write.append((burst, instruction, (done - 1) // out))
    if values.get("operand"):
        first, step, width = operand_shape(values, instruction.registers["OPERAND"])
        rows = values["y_size"]
        runs = [((first + y * step) * out, width * out) for y in range(rows)]
        product = 0
        if step == width:
            runs, product = [(first * out, width * rows * out)], PRODUCT_CYCLES * (rows > 1)
        client = model.clients["store"]
        most = client.most_beats
        instruction.bursts = [b for at, size in runs for b in cut(at, size, model.bus, most, "operand")]
        client.waiting = list(instruction.bursts)
        client.earliest = now + REQUEST_DELAY + product


def vector_positions(model: Model, instruction: Instruction) -> list[int]:
    """Indices of the accumulators that the current vector of a store reads, in order."""
    values, v = instruction.values, model.vector
    y, x = divmod(v, values["x_size"])
    if instruction.name == "STORE.OUT":
        return [values["sram_base"] + v]
    address, window = instruction.registers["ADDRESS"], instruction.registers["WINDOW"]
    corner = values["sram_base"] + y * address["y_stride"] + x * address["x_stride"]
    return [
        (corner + r * window["row_stride"] + c * window["column_stride"]) % model.config.acc_depth
        for r in range(window["rows_minus_1"] + 1)
        for c in range(window["columns_minus_1"] + 1)
    ]


def end_stores(model: Model) -> None:
    """Ends instructions of the store unit, the oldest first, as far as the cycles of their completion are known; each
    ends at least one cycle after the one before it.
    """
    last_end = -1
    for instruction in model.units[Unit.STORE]:
        if instruction.end is None:
            complete = instruction.complete
            if instruction.begin is None:
                return
            if instruction.name.startswith(("STORE", "ROWS")):
                complete = completed(model, instruction)
            if complete is None:
                return
            finish(model, instruction, max(complete, last_end + 1))
        last_end = instruction.end or last_end


def completed(model: Model, store: Instruction) -> int | None:
    """The cycle in which the store is complete; None if it is not known yet."""
    if store is model.reading and model.vector < model.vectors:
        return None
    if not store.writes:
        return store.vector_ready[-1]
    responses = [burst.response for burst in store.writes if burst.response is not None]
    return max(responses) if len(responses) == len(store.writes) else None


def read_accumulators(model: Model, now: int) -> None:
    end_stores(model)
    config, out = model.config, model.config.out_bytes
    store = model.reading
    if store is None or model.vector == model.vectors or now < model.next_read:
        return
    positions = vector_positions(model, store)
    values = store.values
    operand = values.get("operand")
    share = values["x_size"] if operand and store.registers["OPERAND"]["repeat"] else 1
    wanted = (model.vector // share + 1) * out
    if model.vector_read == 0:
        gone = sum(b.size for b, _, _ in model.to_write if b.last is not None and b.last < now)
        if store.writes and model.stored + out - gone > config.fifo_bytes("store"):
            return
        if operand and not operand_there(model, store.bursts, wanted, now):
            return
    if positions[model.vector_read] // config.acc_bank_depth in model.port.get(now, set()):
        return
    if model.vector_read == 0:
        model.stored += out if store.writes else 0
        if operand and (model.vector + 1) % share == 0:
            done = 0
            for burst in store.bursts:
                done += burst.size
                if done <= wanted and burst.returned is None:
                    burst.returned = now
    model.vector_read += 1
    store.last_read = now
    if model.vector_read == len(positions):
        model.next_read = now + 1
        if store.name != "STORE.OUT":
            passes = out // (config.post_lanes or out)
            model.next_read = now + max(1, passes - len(positions) + 1)
        latency = store_latency(config) if store.name == "STORE.OUT" else post_latency(config)
        store.vector_ready.append(now + latency + 1)
        model.vector, model.vector_read = model.vector + 1, 0
    end_stores(model)


def operand_there(model: Model, bursts: list[Burst], ahead: int, now: int) -> bool:
    done = 0
    for burst in bursts:
        if done + burst.size >= ahead:
            return burst.has(burst.address + ahead - done - 1, now)
        done += burst.size
    raise AssertionError("the operand ends before its vector")
