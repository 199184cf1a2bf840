"""Runs the slow model: all units in each cycle, one cycle after the other."""

from __future__ import annotations

from vdla.isa.layout import Unit

from .begin import start
from .fetch import dispatch, show_fetch
from .memory import accept, move
from .model import Model
from .store import read_accumulators
from .writer import step


def run(model: Model, limit: int = 200_000) -> int:
    finish = next(i for i in model.program if i.name == "FINISH")
    now = 0
    while finish.end is None or now < finish.end:
        now += 1
        assert now < limit, "the slow model did not finish"
        show_fetch(model, now)
        for name in ("compute", "store", "load"):
            model.clients[name].show(now)
        accept(model, now)
        move(model, now)
        dispatch(model, now)
        for unit in Unit:
            start(model, unit, now)
        step(model, "load", Unit.LOAD, now)
        step(model, "compute", Unit.COMPUTE, now)
        step(model, "store", Unit.STORE, now)
        read_accumulators(model, now)
    return now
