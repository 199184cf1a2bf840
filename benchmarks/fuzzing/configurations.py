"""Kind "configurations": TOML files of machines (accelerator configurations) with damaged fields or bytes; if a file is
accepted, a network runs on the machine.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from pathlib import Path

import numpy as np

from vdla.isa.config import Config, Memory
from vdla.isa.extensions import EXTENSIONS
from vdla.isa.parameters import declared

from .drawing import INTEGERS, TEXTS, Draw, damaged
from .networks import quantized_network
from .outcome import FAILURES, Outcome, call, judge

PRESETS = ("tiny", "tiny", "tiny", "edge8", "vta", "osdi18")
_FIELD = re.compile(r"^(\w+) = (.+)$", re.MULTILINE)
_OTHERS = (*(name for kind in (Config, Memory) for name, _, _ in declared(kind)), "extensions", "memory")
"""Names of all fields of a configuration and of its memory. Some of them are added to a configuration file as lines at
its top level, where a field of the memory is invalid.
"""


def configuration_case(seed: int, index: int, folder: Path) -> Outcome:
    """Runs `vdla config` on one random file and, if the file is accepted, a small network on the machine; returns the
    verdict. `seed`, `index`: the seed of the campaign and the number of the case; `folder`: an empty folder for files.
    """
    draw = Draw("configurations", seed, index)
    path = folder / "machine.toml"
    path.write_bytes(random_configuration(draw))
    outcome = judge(call("config", path, "--json"))
    if outcome.verdict != "right":
        return outcome
    model = folder / "net.onnx"
    model.write_bytes(_network())
    ran = judge(call("run", model, "--config", path, "--json"))
    # A machine that is too small for a network is still valid.
    return ran if ran.verdict in FAILURES else outcome


@functools.cache
def _network() -> bytes:
    return quantized_network(Draw("a network for machines", 0, 3)).SerializeToString()


def random_configuration(draw: Draw) -> bytes:
    """The text of a random preset with fields changed, left out, added or repeated, or with damaged bytes, as UTF-8."""
    text = (resources.files("vdla.isa.presets") / f"{draw.of(PRESETS)}.toml").read_text(encoding="utf-8")
    if draw.chance(0.2):
        return damaged(draw, text.encode())
    for _ in range(1 + draw.below(3)):
        fields = list(_FIELD.finditer(text))
        field = draw.of(fields)
        match draw.below(8):
            case 0:
                text = text[: field.start()] + text[field.end() + 1 :]
            case 1:
                text += f"\n{field.group(0)}\n"
            case 2:
                text = f"{draw.of(_OTHERS)} = {_value(draw)}\n{text}"
            case 3:
                text += f"\n{draw.of(_OTHERS)} = {_value(draw)}\n"
            case _:
                text = text[: field.start(2)] + _value(draw, field.group(2)) + text[field.end(2) :]
    return text.encode("utf-8", "surrogatepass")


def _value(draw: Draw, old: str = "8") -> str:
    if draw.chance(0.5) and old.isdigit() and len(old) < 100:
        return str(int(old) * draw.of((2, 4, 16, 3)) // draw.of((1, 2, 4, 8)))
    match draw.below(8):
        case 0:
            return repr(draw.of(TEXTS)).replace("'", '"')
        case 1:
            return draw.of(
                ("true", "[]", "{}", "[1, 2]", "1.5", "nan", "-inf", "1979-05-27", '""', "0x10", "1e400")
            )
        case 2:
            chosen = [name for name in EXTENSIONS if draw.chance(0.5)]
            return str(chosen).replace("'", '"')
        case 3:
            return "9" * (1 + draw.below(6000))
        case 4:
            return str(int(np.exp2(draw.below(40))))
    return str(draw.of(INTEGERS))
