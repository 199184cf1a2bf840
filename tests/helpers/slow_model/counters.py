"""The performance counters of the slow model (hw/README.md, section 9)."""

from __future__ import annotations

from collections import Counter

from vdla.isa.layout import Unit

from .model import Model


def counters(model: Model, unit: Unit, total: int) -> Counter[str]:
    result: Counter[str] = Counter()
    for now in range(1, total + 1):
        result[busy(model, unit, now) or model.causes[unit][now]] += 1
    return result


def busy(model: Model, unit: Unit, now: int) -> str:
    running = [
        (i, i.begin)
        for i in model.units[unit]
        if i.begin is not None and i.begin < now and (i.end is None or now <= i.end)
    ]
    if not running:
        return ""
    if unit != Unit.COMPUTE:
        return "busy"
    names = set()
    for i, begin in running:
        if i.name in ("GEMM", "DEPTHWISE", "TAPS", "ALU") and i.issues:
            if now <= begin + i.issues:
                names.add("alu" if i.name == "ALU" else "gemm")
        elif i.name == "LOAD.UOP":
            names.add("load_uop")
        elif i.name.startswith("LOAD"):
            names.add("load_acc")
        elif now == begin + 1:
            names.add("other")
    order = ("gemm", "alu", "load_uop", "load_acc", "other")
    return next((name for name in order if name in names), "drain")
