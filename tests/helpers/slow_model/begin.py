"""The cycle in which an instruction begins in the slow model (hw/README.md, sections 5 to 8): it needs tokens, room in
queues and FIFOs, and conditions of its unit.
"""

from __future__ import annotations

from vdla.isa.layout import TOKEN_QUEUES, Unit
from vdla.isa.timing import BEGIN_DELAY, LOADS_IN_FLIGHT, STORES_IN_FLIGHT

from .compute import begin_operations
from .finish import finish
from .instructions import Instruction
from .loads import begin_load
from .model import Model
from .store import begin_store


def start(model: Model, unit: Unit, now: int) -> None:
    instruction = next((i for i in model.units[unit] if i.begin is None), None)
    if instruction is None or instruction.entered is None or instruction.entered >= now:
        model.causes[unit].append("instruction")
        return
    cause = waits_for(model, instruction, now)
    model.causes[unit].append(cause)
    if cause != "begin":
        return
    if instruction.ready is None:
        instruction.ready = now
    if now < instruction.ready + BEGIN_DELAY:
        return
    instruction.begin = now
    for queue in TOKEN_QUEUES:
        if queue.producer == unit and instruction.values[queue.push_flag]:
            model.reserved[queue.name] += 1
    execute(model, instruction, now)


def waits_for(model: Model, instruction: Instruction, now: int) -> str:
    unit, values = instruction.unit, instruction.values
    pending = ""
    for flag in ("pop_prev", "pop_next"):
        if not values[flag] or flag in instruction.pops:
            continue
        name = next(q.name for q in TOKEN_QUEUES if q.consumer == unit and q.pop_flag == flag)
        place = len(model.popped[name])
        if place < len(model.tokens[name]) and model.tokens[name][place] < now:
            instruction.pops[flag] = now
            model.popped[name].append(now)
        else:
            pending = pending or f"token:{name}"
    if pending:
        return pending
    for flag in ("push_prev", "push_next"):
        if values[flag]:
            name = next(q.name for q in TOKEN_QUEUES if q.producer == unit and q.push_flag == flag)
            taken = model.reserved[name] - sum(cycle < now for cycle in model.popped[name])
            if taken >= model.config.token_queue_depth:
                return f"full:{name}"
    return "begin" if condition(model, instruction, now) else "unit"


def condition(model: Model, instruction: Instruction, now: int) -> bool:
    before = [i for i in model.units[instruction.unit] if i.begin is not None]
    match instruction.unit:
        case Unit.LOAD:
            client = model.clients["load"]
            loads = [i for i in before if i.name != "CONFIG"]
            in_flight = sum(i.end is None or i.end > now for i in loads)
            free = client.idle and client.last_accept < now and model.load_free < now
            return free and in_flight < LOADS_IN_FLIGHT
        case Unit.STORE:
            return all(i.ended(now) for i in before) or follows(model, before, instruction, now)
    matrix = ("GEMM", "DEPTHWISE", "TAPS")
    if instruction.name in matrix:
        by = now + BEGIN_DELAY
        issued = all(i.begin + i.issues <= by for i in before if i.name in matrix and i.begin is not None)
        return issued and all(i.ended(now) for i in before if i.name not in matrix)
    if instruction.name == "CONFIG" and not instruction.values["push_prev"] | instruction.values["push_next"]:
        return all(i.ended(now) for i in before if i.name == "ALU" or i.name.startswith("LOAD"))
    if instruction.name == "FINISH":
        before = [i for i in model.program if i is not instruction]
    return all(i.ended(now) for i in before)


def follows(model: Model, before: list[Instruction], instruction: Instruction, now: int) -> bool:
    """Whether an instruction of the store unit may begin in cycle `now` although the instructions `before`, of which
    there is at least one, have not all ended.
    """
    if sum(not i.ended(now) for i in before) >= STORES_IN_FLIGHT:
        return False
    loads = [i for i in before if i.name == "LOAD.PAR"]
    if instruction.name == "LOAD.PAR":
        return plain(before[-1]) and all(i.ended(now) for i in loads)
    if not plain(instruction) or not (plain(before[-1]) or before[-1].name == "LOAD.PAR"):
        return False
    store = model.reading
    if store is None or likeness(store) != likeness(instruction):
        return False
    if store.last_read is None or store.last_read >= now or model.vector < model.vectors:
        return False
    return all(i.complete is not None and i.complete < now for i in loads)


def plain(instruction: Instruction) -> bool:
    values = instruction.values
    if not instruction.name.startswith("STORE.") or not values["x_size"] * values["y_size"]:
        return False
    return not values.get("operand")


def likeness(instruction: Instruction) -> list[object]:
    flags = ("combine", "unsigned", "chain", "table", "table_index", "rows")
    return [instruction.name, *(instruction.values.get(flag, 0) for flag in flags)]


def execute(model: Model, instruction: Instruction, now: int) -> None:
    name = instruction.name
    if name.startswith("LOAD"):
        begin_load(model, instruction, now)
    elif name.startswith(("STORE", "ROWS")):
        begin_store(model, instruction, now)
    elif name in ("GEMM", "DEPTHWISE", "TAPS", "ALU"):
        begin_operations(model, instruction, now)
    elif name == "CONFIG" and instruction.unit == Unit.LOAD:
        model.load_free = now + 1
    else:
        finish(model, instruction, now + 1)
