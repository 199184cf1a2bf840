"""Loads the library of a DRAM, on which the harness runs a machine: LiteDRAM's RTL, or the model of its controller."""

from __future__ import annotations

import ctypes
import re
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from vdla.isa.config import Config
from vdla.isa.dram_memory import design_fields

from .design import Design, build_with_litedram
from .model import build_with_model
from .oracle import Oracle, choose_oracle

_BANK = re.compile(r"VlUnpacked<.*> (litedram_top__DOT__mem(?:_\d+)?);")


def design_of(config: Config) -> Design:
    """The DRAM that is the memory of the machine `config`."""
    return Design(**design_fields(config))


def _banks(made: Path) -> None:
    """Writes banks.inc, with the C++ function that finds a word of a bank, to `made`, the folder of the C++ that
    Verilator generated.
    """
    header = (made / "Vlitedram_top___024root.h").read_text(encoding="utf-8")
    names = sorted(_BANK.findall(header), key=lambda name: int(name.rpartition("mem")[2].lstrip("_") or 0))
    cases = "".join(
        f"        case {bank}: return reinterpret_cast<uint8_t *>(&root.{name}[index]);\n"
        for bank, name in enumerate(names)
    )
    text = (
        f"constexpr uint64_t BANKS = {len(names)};\n"
        "static uint8_t *bank_word(Vlitedram_top___024root &root, uint64_t bank, uint64_t index) {\n"
        f"    switch (bank) {{\n{cases}    }}\n    return nullptr;\n}}\n"
    )
    (made / "banks.inc").write_text(text, encoding="utf-8")


@lru_cache(maxsize=16)
def load_dram(design: Design, oracle: Oracle | None = None) -> ctypes.CDLL:
    """Loads the library of the memory `design`, and builds it first if needed. `oracle`: whether the memory is
    LiteDRAM's RTL or the model of LiteDRAM's controller; None for RTL if it can run (`choose_oracle`). The library's
    function `dram_calls` returns the address of a table of functions (port.h). Raises UserError for a missing tool.
    """
    if choose_oracle(design.part, oracle) == "model":
        path = build_with_model(design.controller, "model.cpp", ".so", ("-shared",))
    else:
        numbers = design.controller
        phases = "".join(f"PHASE(p{phase})" for phase in range(numbers.phases))
        flags = ("-O1", "-shared", f"-DBANK_SHIFT={numbers.bank_shift}", f"-DPHASES={phases}")
        path = build_with_litedram(design, "memory.cpp", ".so", flags, _banks)
    library = ctypes.CDLL(str(path))
    library.dram_calls.restype = ctypes.c_void_p
    return library


def load_memory(config: Config, oracle: Oracle | None = None) -> tuple[int, int]:
    """Loads a library that simulates the DRAM of the machine `config`, all channels included. Returns two addresses in
    the library: the table of functions, and the function that counts commands (port.h). `oracle`: whether the memory is
    LiteDRAM's RTL or the model of LiteDRAM's controller; None for RTL if it can run (`choose_oracle`). Raises UserError
    for a missing tool.
    """
    design = design_of(config)
    channel = load_dram(design, oracle)
    calls, count = channel.dram_calls(), ctypes.cast(channel.dram_counts, ctypes.c_void_p).value or 0
    if config.memory.channels == 1:
        return calls, count
    router: Any = import_module(".router", __package__)
    return router.load_router(config.memory, f"{design}, {choose_oracle(design.part, oracle)}", calls, count)
