"""The store unit (contract, section 8): vectors read, bursts written."""

from __future__ import annotations

from vdla.isa.layout import Unit, operand_shape
from vdla.isa.timing import (
    PRODUCT_CYCLES,
    REQUEST_DELAY,
    STORE_LATENCY,
    WRITE_DELAY,
    post_latency,
    write_burst_beats,
)

from .bursts import Burst, cut
from .finish import finish
from .instructions import Instruction, product_cycles
from .model import Model


def begin_store(model: Model, instruction: Instruction, now: int) -> None:
    config, values = model.config, instruction.values
    model.vectors = values["y_size"] * values["x_size"]
    model.vector = model.vector_read = 0
    model.vector_ready = {}
    model.next_read = now + 1
    if not model.vectors:
        finish(model, instruction, now + 1)
        return
    if instruction.name == "ROWS":
        model.store_bursts = []
        return
    out = config.out_bytes
    start, length, pitch = values["dram_base"] * out, values["x_size"] * out, values["x_stride"] * out
    runs = [(start + y * pitch, length) for y in range(values["y_size"])]
    if values["x_stride"] == values["x_size"]:
        runs = [(start, length * values["y_size"])]
    most = write_burst_beats(config)
    chained = values.get("chain")
    model.write_earliest = now + WRITE_DELAY + product_cycles(instruction)
    written = [] if chained else runs
    model.store_bursts = [b for at, size in written for b in cut(at, size, model.bus, most, "out")]
    done = 0
    for burst in model.store_bursts:
        done += burst.size
        model.to_write.append((burst, (done - 1) // out))
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
    """Accumulators that the current vector reads, in order."""
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


def read_accumulators(model: Model, now: int) -> None:
    config, out = model.config, model.config.out_bytes
    store = next((i for i in model.units[Unit.STORE] if i.begin is not None and i.end is None), None)
    if store is None or not store.name.startswith(("STORE", "ROWS")):
        return
    if model.vector == model.vectors:
        if store.values.get("chain") or store.name == "ROWS":
            finish(model, store, max(model.vector_ready.values()))
        elif all(b.response is not None for b in model.store_bursts):
            finish(model, store, max(b.response or 0 for b in model.store_bursts))
        return
    if now < model.next_read:
        return
    positions = vector_positions(model, store)
    values = store.values
    operand = values.get("operand")
    ahead = (model.vector + 1) * out
    share = values["x_size"] if operand and store.registers["OPERAND"]["repeat"] else 1
    wanted = (model.vector // share + 1) * out
    if model.vector_read == 0:
        gone = sum(b.size for b in model.store_bursts if b.last is not None and b.last < now)
        if (
            store.name != "ROWS"
            and not store.values.get("chain")
            and ahead - gone > config.fifo_bytes("store")
        ):
            return
        if operand and not operand_there(model, store.bursts, wanted, now):
            return
    if positions[model.vector_read] // config.acc_bank_depth in model.port.get(now, set()):
        return
    if model.vector_read == 0 and operand and (model.vector + 1) % share == 0:
        done = 0
        for burst in store.bursts:
            done += burst.size
            if done <= wanted and burst.returned is None:
                burst.returned = now
    model.vector_read += 1
    if model.vector_read == len(positions):
        if store.name != "STORE.OUT":
            passes = out // (config.post_lanes or out)
            model.next_read = now + max(1, passes - len(positions) + 1)
        latency = STORE_LATENCY if store.name == "STORE.OUT" else post_latency(config)
        model.vector_ready[model.vector] = now + latency + 1
        model.vector, model.vector_read = model.vector + 1, 0


def operand_there(model: Model, bursts: list[Burst], ahead: int, now: int) -> bool:
    done = 0
    for burst in bursts:
        if done + burst.size >= ahead:
            return burst.has(burst.address + ahead - done - 1, now)
        done += burst.size
    raise AssertionError("the operand ends before its vector")
