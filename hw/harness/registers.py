"""Rewrites Verilog so that a register's next value needs no variable of its own, which halves the variables that
Verilator copies in each cycle.
"""

from __future__ import annotations

import re
from collections import Counter

from ..verilog import MODULE

_NAME = r"(?:\\\S+ |[A-Za-z_]\w*)"
_UPDATE = re.compile(rf"^  always @\(posedge clk\)\n    ({_NAME}) ?<= (\\\$\S+) ;$", re.MULTILINE)
_PROCESS = re.compile(r"^  always @\* begin\n(.*?)^  end$", re.MULTILINE | re.DOTALL)
_ASSIGNED = re.compile(rf"^ *({_NAME})(?: ?\[[^\]]*\])? ?= ", re.MULTILINE)
_TRIGGER = re.compile(r"^    if \(\\\$auto\$verilog_backend\S+ \) begin end\n", re.MULTILINE)
_INTERNAL = re.compile(r"\\\$\S+")


def merge_registers(verilog: str, gated: re.Pattern[str] | None = None, enable: str = "") -> str:
    """Returns the Verilog text of a design, changed so that the next value of a register is assigned to the register
    directly.

    Amaranth uses two processes for a register: the first computes the next value as a variable (`\\$857`), the second
    assigns the variable to the register. If the variable has no other use, the first process assigns to the register
    instead. In modules whose name matches `gated`, these registers keep their values while the expression `enable` is
    0.
    """

    def module(match: re.Match[str]) -> str:
        name = match[0][len("module ") :].split("(", 1)[0].strip()
        return _merge_module(match[0], enable if gated is not None and gated.fullmatch(name) else "")

    return MODULE.sub(module, verilog)


def _merge_module(text: str, enable: str) -> str:
    uses = Counter(_INTERNAL.findall(text))
    registers = {found[2]: found[1] for found in _UPDATE.finditer(text)}
    merged: set[str] = set()

    def process(match: re.Match[str]) -> str:
        body = _TRIGGER.sub("", match[1])
        targets = {name.strip() for name in _ASSIGNED.findall(body)}
        if len(targets) != 1:
            return match[0]
        (target,) = targets
        assignments = len(_ASSIGNED.findall(body))
        # The variable has two uses besides its assignments: its declaration, and the register that takes it.
        if target not in registers or uses[target] != assignments + 2:
            return match[0]
        merged.add(target)
        name = registers[target]

        def assign(match: re.Match[str]) -> str:
            return match[0].replace(f"{target} ", name, 1).replace("= ", "<= ")

        body = _ASSIGNED.sub(assign, body)
        if enable:
            body = f"    if ({enable}) begin\n{body}    end\n"
        return f"  always @(posedge clk) begin\n{body}  end"

    text = _PROCESS.sub(process, text)
    return _UPDATE.sub(lambda found: "" if found[2] in merged else found[0], text)
