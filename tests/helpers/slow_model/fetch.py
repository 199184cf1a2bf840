"""Instruction fetch in the slow model (hw/README.md, section 4): requests, and how instructions reach the command
queues.
"""

from __future__ import annotations

from vdla.isa.timing import FETCH_DELAY, FETCH_ROOM_DELAY, REQUEST_GAP

from .bursts import PAGE, Burst
from .model import Model


def show_fetch(model: Model, now: int) -> None:
    client = model.clients["fetch"]
    if client.shown or model.requested == model.fetch_count:
        return
    if now < max(FETCH_DELAY, client.last_accept + REQUEST_GAP):
        return
    size = model.config.instruction_bytes
    address = model.base + size * model.requested
    depth = model.config.fetch_buffer_depth
    count = min(
        model.fetch_count - model.requested,
        depth // 2,
        (PAGE - address % PAGE) // size,
        max(1, 64 * model.bus // size),
    )
    left = sum(i.entered is not None and i.entered + FETCH_ROOM_DELAY <= now for i in model.program)
    if depth - (model.requested - left) >= count:
        client.shown = Burst(address, size * count, model.bus, "instruction")
        model.fetched.append(client.shown)
        model.requested += count


def dispatch(model: Model, now: int) -> None:
    if model.dispatched == len(model.program):
        return
    instruction = model.program[model.dispatched]
    last = model.base + model.config.instruction_bytes * (model.dispatched + 1) - 1
    burst = next((b for b in model.fetched if b.holds(last)), None)
    if burst is None or not burst.has(last, now):
        return
    queue = [i for i in model.units[instruction.unit] if i.entered is not None and i.entered < now]
    queue = [i for i in queue if i.begin is None or i.begin >= now]
    if len(queue) < model.config.command_queue_depth:
        instruction.entered = now
        model.dispatched += 1
