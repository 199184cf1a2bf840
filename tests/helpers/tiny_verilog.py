"""The generated Verilog of the preset `tiny`, generated once for all processes of a test run, since it takes some
seconds.
"""

from __future__ import annotations

from shipped import once_a_run

from vdla.hw.verilog import generate_verilog
from vdla.isa.config import load_config


def tiny_verilog() -> str:
    """The Verilog of the preset `tiny`, as `generate_verilog` returns it."""
    return once_a_run("tiny.v", lambda: generate_verilog(load_config("tiny")).encode()).decode()
